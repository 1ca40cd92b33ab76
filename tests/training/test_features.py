from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from relatum.config import Config
from relatum.encoders.cache import CachedEncoder
from relatum.errors import RelatumError
from relatum.training import loop
from relatum.training.checkpoints import list_checkpoints, read_checkpoint
from relatum.training.corpus import TrainingData
from relatum.training.features import read_ahead, with_memory
from relatum.training.folder import RunRecord
from relatum.training.loop import TrainingStopped, train
from relatum.training.setup import choose_device, make_model

from .conftest import Silent

CPU = torch.device("cpu")
Start = Callable[[Config], tuple[TrainingData, RunRecord]]
Tiny = Callable[..., Config]


def with_bert(tiny: Tiny, folder: Path, *overrides: str) -> Config:
    return tiny("encoder.kind=huggingface", f"encoder.name={folder}", "encoder.n_layers=2", *overrides)


def test_encoder_reads_each_sentence_once(start: Start, tiny: Tiny, tiny_bert: Path) -> None:
    config = with_bert(tiny, tiny_bert)
    data, _ = start(config)
    stored, _ = make_model(data, config, CPU)
    model = with_memory(stored, data.train)
    short = [example for example in data.train if sum(map(len, example.sentence.words)) <= 60]
    assert len(short) > 5
    said: list[str] = []
    assert read_ahead(model, short, lambda: False, said.append)
    assert said == [f"reading {len(short)} training sentences with {tiny_bert}"]
    assert isinstance(model.encoder, CachedEncoder)
    assert model.encoder.n_computed == len({example.sentence.words for example in short})
    model.inputs([example.sentence.words for example in short[:4]])
    assert model.encoder.n_computed == len({example.sentence.words for example in short})
    assert model.network is stored.network
    assert not read_ahead(model, short, lambda: True, said.append)


def test_encoder_without_memory_does_not_read_ahead(start: Start, tiny: Tiny, tiny_bert: Path) -> None:
    config = with_bert(tiny, tiny_bert, "encoder.cache=none")
    data, _ = start(config)
    model = with_memory(make_model(data, config, CPU)[0], data.train)
    assert read_ahead(model, data.train, lambda: True, pytest.fail)


def test_stopped_run_with_an_encoder_goes_on_to_the_same_weights(
    start: Start, tiny: Tiny, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_PATIENCE", -1.0)
    config = with_bert(tiny, tiny_bert, "training.steps=6", "training.evaluate_every=3", "model.n_layers=1")
    data, record = start(config)
    silent = Silent()
    result = train(data, record, tmp_path / "whole", device=CPU, monitor=silent)
    assert any("62 pieces (the encoder)" in said for said in silent.said)
    assert (result.model / "encoder" / "model.safetensors").exists()
    broken = Silent()
    broken.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 4 else None
    with pytest.raises(TrainingStopped):
        train(data, record, tmp_path / "broken", device=CPU, monitor=broken)
    train(data, record, tmp_path / "broken", device=CPU, monitor=Silent(), resume=True)
    states = [
        read_checkpoint(list_checkpoints(tmp_path / run / "checkpoints")[0]).tensors for run in ("whole", "broken")
    ]
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())


def test_run_stopped_while_the_encoder_reads_can_go_on(
    start: Start, tiny: Tiny, tiny_bert: Path, tmp_path: Path
) -> None:
    config = with_bert(tiny, tiny_bert, "training.steps=1", "model.n_layers=1")
    data, record = start(config)
    monitor = Silent()

    def say(message: str) -> None:
        if message.startswith("reading"):
            os.kill(os.getpid(), signal.SIGINT)

    monitor.say = say  # type: ignore[method-assign]
    with pytest.raises(TrainingStopped, match="stopped after step 0"):
        train(data, record, tmp_path / "run", device=CPU, monitor=monitor)
    assert train(data, record, tmp_path / "run", device=CPU, monitor=Silent(), resume=True).model.exists()


def test_word_vectors_are_read_and_unknown_words_counted(start: Start, tiny: Tiny, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("the 1 2 3\n. 4 5 6\n")
    config = tiny(f"words.path={path}")
    data, _ = start(config)
    model, remarks = make_model(data, config, CPU)
    words = [word for example in data.train for word in example.sentence.words]
    known = sum(word.lower() in ("the", ".") for word in words)
    assert model.words is not None
    assert remarks[0].startswith(f"{len(words) - known} of {len(words)} training words (")


def test_missing_gpu_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == CPU
    with pytest.raises(RelatumError, match="finds no GPU here"):
        choose_device("cuda")
