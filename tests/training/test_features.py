from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from relatum.config import Config
from relatum.encoders.base import EncoderInput
from relatum.encoders.cache import CachedEncoder
from relatum.encoders.cutting import CutSentence
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.training import loop
from relatum.training.checkpoints import list_checkpoints, read_checkpoint
from relatum.training.corpus import TrainingData
from relatum.training.features import read_ahead, with_memory
from relatum.training.folder import RunFolder, RunRecord
from relatum.training.loop import TrainingStopped, train
from relatum.training.setup import make_model, with_absolute_paths

from ..small_models import make_inputs
from .conftest import Silent

CPU = torch.device("cpu")
Start = Callable[[Config], tuple[TrainingData, RunRecord]]
Tiny = Callable[..., Config]


def with_bert(tiny: Tiny, folder: Path, *overrides: str) -> Config:
    return tiny("encoder.kind=huggingface", f"encoder.name={folder}", "encoder.n_layers=2", *overrides)


def test_encoder_reads_each_sentence_once(
    start: Start, tiny: Tiny, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_bert(tiny, tiny_bert)
    data, _ = start(config)
    stored, _ = make_model(data, config, CPU)
    assert stored.encoder is not None
    cut = HuggingFaceEncoder.cut
    read: list[tuple[str, ...]] = []

    def note(encoder: HuggingFaceEncoder, batch: EncoderInput) -> Iterator[CutSentence]:
        read.extend(map(tuple, batch.words))
        return cut(encoder, batch)

    monkeypatch.setattr(HuggingFaceEncoder, "cut", note)
    model = with_memory(stored, data.train)
    short = [example for example in data.train if sum(map(len, example.sentence.words)) <= 60]
    assert len(short) > 5
    said: list[str] = []
    assert read_ahead(model, short, lambda: False, said.append)
    assert said == [f"reading {len(short)} training sentences with {tiny_bert}"]
    assert isinstance(model.encoder, CachedEncoder)
    assert sorted(read) == sorted({example.sentence.words for example in short})
    make_inputs(model, [example.sentence.words for example in short[:4]])
    assert len(read) == len(set(read))
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
    with pytest.raises(TrainingStopped) as stopped:
        train(data, record, tmp_path / "run", device=CPU, monitor=monitor)
    assert str(stopped.value) == (
        "stopped before the first update: nothing was learned yet. "
        f"To begin again: relatum train --resume {tmp_path / 'run'}"
    )
    assert not list_checkpoints(tmp_path / "run" / "checkpoints")
    assert train(data, record, tmp_path / "run", device=CPU, monitor=Silent(), resume=True).model.exists()


def test_slow_encoder_says_how_far_it_is(
    start: Start, tiny: Tiny, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_bert(tiny, tiny_bert, "extraction.batch_size=2")
    data, _ = start(config)
    model = with_memory(make_model(data, config, CPU)[0], data.train)
    short = [example for example in data.train if sum(map(len, example.sentence.words)) <= 60][:6]
    monkeypatch.setattr("relatum.training.features._SILENCE", 0.0)
    said: list[str] = []
    assert read_ahead(model, short, lambda: False, said.append)
    assert said[1:] == ["2 of 6 read", "4 of 6 read", "6 of 6 read"]


def test_encoder_is_copied_once_a_run(
    start: Start, tiny: Tiny, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_bert(tiny, tiny_bert, "training.steps=3", "training.evaluate_every=1", "model.n_layers=1")
    data, record = start(config)
    scores = iter((0.1, 0.2, 0.3))
    monkeypatch.setattr(loop, "selection_score", lambda *_: next(scores))
    copied: list[str] = []
    copy = shutil.copyfile

    def note(source: Path, target: Path) -> None:
        copied.append(source.name)
        copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", note)
    silent = Silent()
    model = train(data, record, tmp_path / "run", device=CPU, monitor=silent).model
    assert [best for _, best in silent.evaluations] == [True, True, True]
    assert sorted(copied) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert (model / "encoder" / "model.safetensors").stat().st_nlink == 1, "a finished model shares its files with none"


def test_run_goes_on_from_another_directory(
    start: Start, tiny: Tiny, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert").symlink_to(tiny_bert)
    (tmp_path / "vectors.txt").write_text("the 1 2 3\n")
    paths = ("words.path=vectors.txt", "encoder.cache=disk", "encoder.cache_path=kept")
    config = with_bert(tiny, Path("bert"), *paths, "training.steps=2", "training.evaluate_every=1")
    data, record = start(config)
    monitor = Silent()
    monitor.on_advance = lambda _: os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(TrainingStopped):
        train(data, record, tmp_path / "run", device=CPU, monitor=monitor)
    written = RunFolder(tmp_path / "run").read()
    assert written.config.words.path == str(tmp_path / "vectors.txt")
    assert written.config.encoder.name == str(tmp_path / "bert")
    assert written.config.encoder.cache_path == str(tmp_path / "kept")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    train(data, written, tmp_path / "run", device=CPU, monitor=Silent(), resume=True)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_names_that_are_no_paths_stay_as_they_are(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all-minilm-l6-v2").mkdir()
    for config in (tiny("encoder.kind=huggingface"), tiny("encoder.name=someone/model", "encoder.kind=huggingface")):
        assert with_absolute_paths(config) == config


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
