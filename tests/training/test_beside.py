"""Whole runs with two encoders side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import torch

from relatum.config import Config
from relatum.encoders.base import EncoderInput
from relatum.encoders.cache import CachedEncoder
from relatum.encoders.stacked import StackedEncoder
from relatum.extractor.extractor import Extractor
from relatum.lab.attention.weights import attend_to_text, find_heads
from relatum.training.corpus import TrainingData
from relatum.training.features import with_memory
from relatum.training.folder import RunFolder, RunRecord
from relatum.training.loop import score, train
from relatum.training.setup import make_model

from .conftest import Silent, make_bert

CPU = torch.device("cpu")
TEXT = "Mara Ilves works for Tarn Shipping in Oldhaven. She left Port Amsel."


@pytest.fixture
def other_bert(tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    return make_bert(tmp_path / "other", hidden_size=24, num_hidden_layers=3, num_attention_heads=4)


@pytest.mark.parametrize("store", ["inside", "name"])
def test_run_with_two_encoders_gives_a_model_that_reads_with_both(
    start: Callable[[Config], tuple[TrainingData, RunRecord]],
    tiny: Callable[..., Config],
    tiny_bert: Path,
    other_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store: str,
) -> None:
    settings = ("encoder.kind=huggingface", "encoder.n_layers=2", "training.steps=4", f"encoder.store={store}")
    monkeypatch.chdir(tmp_path)
    config = tiny(*settings, f"encoder.name={tiny_bert}", 'encoder.beside=["./other"]')
    data, record = start(config)
    monitor = Silent()
    result = train(data, record, tmp_path / "run", device=CPU, monitor=monitor)
    assert any(f"with {tiny_bert} and {other_bert}" in message for message in monitor.said)
    assert RunFolder(tmp_path / "run").read().config.encoder.beside == (str(other_bert),)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    extractor = Extractor.from_pretrained(result.model, "cpu")
    model = extractor.model
    assert isinstance(model.encoder, StackedEncoder)
    assert score(model, data.dev) == result.dev
    assert f"- Encoder: `{tiny_bert}` and `{other_bert}` (" in extractor.card
    stored = json.loads((result.model / "config.json").read_text())
    assert [one["name"] for one in stored["beside"]] == [str(other_bert)]
    assert [one.width for one in model.encoder.members] == [16, 24]
    heads = [(head.layer, head.number) for head in find_heads(model) if head.of_encoder]
    first, second = list(product((1, 2), (1, 2))), list(product((3, 4, 5), (1, 2, 3, 4)))
    assert heads == first + second
    attention, _ = attend_to_text(extractor, TEXT)
    assert len(attention.weights) == len(find_heads(model))
    extractor(TEXT)


def test_features_of_two_encoders_are_read_once(
    start: Callable[[Config], tuple[TrainingData, RunRecord]],
    tiny: Callable[..., Config],
    tiny_bert: Path,
    other_bert: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tiny("encoder.kind=huggingface", "encoder.n_layers=2", f"encoder.name={tiny_bert}")
    both = config.model_copy(update={"encoder": config.encoder.model_copy(update={"beside": (str(other_bert),)})})
    data, _ = start(both)
    model = with_memory(make_model(data, both, CPU)[0], data.train)
    assert isinstance(model.encoder, CachedEncoder)
    sentences = [example.sentence.words[:6] for example in data.train[:5]]
    first = model.encoder.encode(EncoderInput(sentences))
    assert first.vectors.shape[-1] == 16 + 24
    monkeypatch.setattr(StackedEncoder, "encode", None)
    assert torch.equal(model.encoder.encode(EncoderInput(sentences)).vectors, first.vectors)
