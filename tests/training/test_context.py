"""Whole runs whose encoder reads words around each sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from relatum.cli.app import app
from relatum.config import Config
from relatum.encoders.base import EncoderInput, Pieces
from relatum.encoders.cache import CachedEncoder
from relatum.encoders.tuned import TunedEncoder
from relatum.extractor.extractor import Extractor
from relatum.models.checkpoint import load_model
from relatum.training.batches import Batches, cut_long
from relatum.training.corpus import TrainingData, load_part, load_training_data
from relatum.training.features import read_ahead, with_memory
from relatum.training.folder import RunRecord
from relatum.training.loop import score, train
from relatum.training.setup import make_model
from relatum.types import Context

from ..small_models import make_inputs
from .conftest import Silent

CPU = torch.device("cpu")
Start = Callable[[Config], tuple[TrainingData, RunRecord]]
READER = ("encoder.kind=huggingface", "encoder.n_layers=2", "training.steps=4", "encoder.context=4")
Settings = Callable[..., Config]


@pytest.fixture
def reader(tiny: Callable[..., Config], tiny_bert: Path) -> Settings:
    return lambda *overrides: tiny(*READER, f"encoder.name={tiny_bert}", *overrides)


def test_data_has_context_where_the_settings_ask_for_it(reader: Settings, small_corpus: Path) -> None:
    plain = load_training_data(small_corpus, reader("encoder.context=0"))
    data = load_training_data(small_corpus, reader())
    assert data.parts == plain.parts
    assert data.fingerprint() == plain.fingerprint(), "or runs with and without could not be compared"
    for part in data.parts.values():
        assert any(any(example.sentence.context) for example in part)
        assert max(len(side) for example in part for side in example.sentence.context) == 4
    assert {example.sentence.context for part in plain.parts.values() for example in part} == {Context()}
    loaded = load_part(small_corpus, "dev", reader())[0]
    assert [one.sentence.context for one in loaded] == [one.sentence.context for one in data.dev]


def test_data_without_neighbours_is_remarked_on(reader: Settings, small_corpus: Path) -> None:
    remark = "encoder.context: no text of train has several sentences, so there is nothing to read around them"
    assert remark not in load_training_data(small_corpus, reader()).remarks
    assert remark in load_training_data(small_corpus, reader("text.sentences=none")).remarks
    assert remark not in load_training_data(small_corpus, reader("text.sentences=none", "encoder.context=0")).remarks


@pytest.mark.parametrize("cache", ["memory", "none"])
def test_batches_are_what_the_model_reads_with_context(
    start: Start, reader: Settings, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = reader(f"encoder.cache={cache}", "training.max_cells=100", "extraction.overlap=2")
    data, _ = start(config)
    model, _ = make_model(data, config, CPU)
    examples, remarks = cut_long(data.train, model.encoder, config)
    assert remarks, "some are in windows"
    (window,) = (one.sentence for one in examples if one.id == "news-train-002#1[16:21]")
    assert window.words == ("mouth", "on", "Tuesday", "morning", ".")
    assert window.context == Context(("aground", "outside", "the", "harbour"), ("No", "one", "was", "hurt"))
    model = with_memory(model, examples)
    assert isinstance(model.encoder, CachedEncoder)
    assert read_ahead(model, examples, lambda: False, lambda _: None)
    if cache == "memory":
        monkeypatch.setattr(model.encoder, "_compute", lambda *_: pytest.fail("all has been read already"))
    model.network.eval()
    chosen = [index for index, one in enumerate(examples) if any(one.sentence.context)][:5]
    sentences = [examples[index].sentence for index in chosen]
    found, _ = Batches(model, examples).make(chosen)
    words, around = [one.words for one in sentences], [one.context for one in sentences]
    wanted = make_inputs(model, words, context=around)
    monkeypatch.undo()
    alone = make_inputs(model, words)
    assert found.vectors is not None
    assert wanted.vectors is not None
    torch.testing.assert_close(found.vectors, wanted.vectors, rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(found.attention_maps, wanted.attention_maps, rtol=1e-5, atol=2e-6)
    assert alone.vectors is not None
    assert not torch.allclose(found.vectors, alone.vectors, atol=1e-3)


def test_tuned_encoder_learns_with_context(start: Start, reader: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    config = reader("encoder.tuning=full")
    data, _ = start(config)
    model, _ = make_model(data, config, CPU)
    seen: list[Context] = []
    cut_batch = TunedEncoder.cut_batch

    def note(encoder: TunedEncoder, batch: EncoderInput, fixed_sizes: bool) -> Pieces:
        seen.extend(batch.context or ())
        return cut_batch(encoder, batch, fixed_sizes)

    monkeypatch.setattr(TunedEncoder, "cut_batch", note)
    short = [one for one in data.train if sum(map(len, one.sentence.words)) <= 60][:4]
    Batches(model, short).make(range(4))
    assert seen == [one.sentence.context for one in short]
    assert any(map(any, seen))


@pytest.mark.parametrize("tuning", ["frozen", "full"])
def test_run_saves_a_model_that_scores_as_it_did(
    start: Start, reader: Settings, small_corpus: Path, tmp_path: Path, tuning: str
) -> None:
    config = reader(f"encoder.tuning={tuning}", "training.evaluate_every=2")
    data, record = start(config)
    result = train(data, record, tmp_path / "run", device=CPU, monitor=Silent())
    loaded = load_model(result.model)
    assert loaded.config.encoder.context == 4
    assert score(loaded, data.dev) == result.dev

    out = tmp_path / "found.jsonl"
    command = ["evaluate", str(result.model), str(small_corpus), "--part", "dev", "--out", str(out), "--device", "cpu"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    written = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    extractor = Extractor(loaded)
    predictions = extractor.predict([example.sentence for example in data.dev])
    shown = [[entity["score"] for entity in line["entities"]] for line in written]
    wanted = [[entity.score for entity in one.found.entities] for one in predictions]
    assert shown == [pytest.approx(some, abs=1e-5) for some in wanted]
    assert any(wanted)
    alone = extractor.predict([replace(example.sentence, context=Context()) for example in data.dev])
    assert wanted != [[entity.score for entity in one.found.entities] for one in alone]
