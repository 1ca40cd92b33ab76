"""Words hidden from the encoder while a model is trained."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from relatum.config import Config, load_config
from relatum.encoders.base import EncoderOutput, Word
from relatum.encoders.tuned import TunedEncoder
from relatum.errors import ConfigError
from relatum.layers.characters import Spelling
from relatum.training import loop
from relatum.training.batches import Batches, cut_long
from relatum.training.checkpoints import list_checkpoints, read_checkpoint
from relatum.training.corpus import TrainingData
from relatum.training.features import read_ahead, with_memory
from relatum.training.folder import RunRecord
from relatum.training.loop import TrainingStopped, train
from relatum.training.masking import hide_words
from relatum.training.setup import make_model
from relatum.types import Context

from .conftest import Silent

CPU = torch.device("cpu")
Start = Callable[[Config], tuple[TrainingData, RunRecord]]
Masked = Callable[..., Config]
WORDS = tuple("Mara Ilves of the Tarn works for a shipping company in the old town of Visby".split())


@pytest.fixture
def masked(tiny: Callable[..., Config], tiny_bert: Path) -> Masked:
    """Settings with an encoder from which half of the words are hidden."""
    encoder = ("encoder.kind=huggingface", f"encoder.name={tiny_bert}", "encoder.n_layers=2")
    return lambda *overrides: tiny(*encoder, "encoder.masking=0.5", "encoder.masked_readings=3", *overrides)


def test_first_reading_is_plain_and_the_others_hide_other_words() -> None:
    config = load_config(None, ["encoder.masking=0.3"])
    assert hide_words(WORDS, 0, config) == WORDS
    readings = [tuple(hide_words(WORDS, number, config)) for number in range(1, 200)]
    for reading in readings:
        assert len(reading) == len(WORDS)
        assert all(found in (None, word) for found, word in zip(reading, WORDS, strict=True))
    assert len(set(readings)) > 150
    share = sum(word is None for reading in readings for word in reading) / (199 * len(WORDS))
    assert share == pytest.approx(0.3, abs=0.024)  # three standard deviations of 3,184 draws
    assert readings == [tuple(hide_words(WORDS, number, config)) for number in range(1, 200)]
    other = load_config(None, ["encoder.masking=0.3", "training.seed=1"])
    assert readings != [tuple(hide_words(WORDS, number, other)) for number in range(1, 200)]


def test_encoder_reads_each_training_sentence_in_every_reading_and_no_more(
    start: Start, masked: Masked, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = masked()
    data, _ = start(config)
    stored, _ = make_model(data, config, CPU)
    assert stored.encoder is not None
    examples, _ = cut_long(data.train, stored.encoder, config)
    encode = stored.encoder.encode
    read: list[tuple[Word, ...]] = []

    def note(sentences: Sequence[Sequence[Word]], around: Sequence[Context] | None = None) -> EncoderOutput:
        read.extend(map(tuple, sentences))
        return encode(sentences, around)

    monkeypatch.setattr(stored.encoder, "encode", note)
    model = with_memory(stored, examples)
    said: list[str] = []
    assert read_ahead(model, examples, lambda: False, said.append)
    assert "4 times, with other words hidden each time but the first" in said[0]
    wanted = {tuple(hide_words(one.sentence.words, number, config)) for one in examples for number in range(4)}
    assert set(read) == wanted
    assert len(read) == len(wanted)
    batches = Batches(model, examples)
    for _ in range(20):
        batches.make([0, 3, 1])
    assert len(read) == len(wanted), "all that a batch needs is there"


def test_batch_has_the_features_of_one_reading_and_the_words_themselves(start: Start, masked: Masked) -> None:
    config = masked()
    data, _ = start(config)
    stored, _ = make_model(data, config, CPU)
    assert stored.encoder is not None
    examples, _ = cut_long(data.train, stored.encoder, config)
    stored.network.train()  # as while training, the letters of each word are read by themselves
    model = with_memory(stored, examples)
    batches, words = Batches(model, examples), examples[2].sentence.words
    readings = [stored.encoder.encode([hide_words(words, number, config)]).vectors for number in range(4)]
    spelt = stored.inputs([words]).spelling
    assert isinstance(spelt, Spelling)
    taken = []
    torch.manual_seed(0)
    for _ in range(40):
        inputs, _ = batches.make([2])
        assert inputs.vectors is not None
        near = [torch.allclose(inputs.vectors, reading, atol=1e-5) for reading in readings]
        assert sum(near) == 1
        taken.append(near.index(True))
        assert isinstance(inputs.spelling, Spelling)
        assert torch.equal(inputs.spelling.characters, spelt.characters)
    assert set(taken) == {0, 1, 2, 3}


def test_nothing_is_drawn_where_nothing_is_hidden(start: Start, masked: Masked) -> None:
    config = masked("encoder.masking=0.0")
    assert config.encoder.n_readings == 1
    data, _ = start(config)
    stored, _ = make_model(data, config, CPU)
    examples, _ = cut_long(data.train, stored.encoder, config)
    before = torch.get_rng_state()
    Batches(with_memory(stored, examples), examples).make([0, 1])
    assert torch.equal(torch.get_rng_state(), before)


def test_stopped_run_goes_on_with_the_readings_it_would_have_had(
    start: Start, masked: Masked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_PATIENCE", -1.0)
    config = masked("training.steps=6", "training.evaluate_every=3", "model.n_layers=1")
    data, record = start(config)
    train(data, record, tmp_path / "whole", device=CPU, monitor=Silent())
    broken = Silent()
    broken.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 4 else None
    with pytest.raises(TrainingStopped):
        train(data, record, tmp_path / "broken", device=CPU, monitor=broken)
    train(data, record, tmp_path / "broken", device=CPU, monitor=Silent(), resume=True)
    plain_data, plain = start(
        masked("training.steps=6", "training.evaluate_every=3", "model.n_layers=1", "encoder.masking=0")
    )
    train(plain_data, plain, tmp_path / "plain", device=CPU, monitor=Silent())
    whole, again, other = (
        read_checkpoint(list_checkpoints(tmp_path / run / "checkpoints")[0]).tensors
        for run in ("whole", "broken", "plain")
    )
    assert all(torch.equal(tensor, again[name]) for name, tensor in whole.items())
    assert not all(torch.equal(tensor, other[name]) for name, tensor in whole.items() if name in other)


def test_tuned_encoder_is_given_hidden_words_while_it_learns_and_no_others(
    start: Start, masked: Masked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[Sequence[Word]] = []
    scored: list[Sequence[Word]] = []
    learn, encode = TunedEncoder.learn, TunedEncoder.encode

    def note_learned(self: TunedEncoder, sentences: Sequence[Sequence[Word]], around: None = None) -> EncoderOutput:
        learned.extend(sentences)
        return learn(self, sentences, around)

    def note_scored(self: TunedEncoder, sentences: Sequence[Sequence[Word]], around: None = None) -> EncoderOutput:
        scored.extend(sentences)
        return encode(self, sentences, around)

    monkeypatch.setattr(TunedEncoder, "learn", note_learned)
    monkeypatch.setattr(TunedEncoder, "encode", note_scored)
    config = masked("encoder.tuning=full", "training.steps=2", "training.evaluate_every=2", "model.n_layers=1")
    data, record = start(config)
    train(data, record, tmp_path / "run", device=CPU, monitor=Silent())
    assert any(None in words for words in learned)
    assert scored
    assert not any(None in words for words in scored)


@pytest.mark.parametrize("kind", ["none", "elmo"])
def test_encoders_that_have_no_mask_are_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match=r'an encoder\.kind "huggingface", as encoder\.masking is 0\.2'):
        load_config(None, ["encoder.masking=0.2", f"encoder.kind={kind}"])
