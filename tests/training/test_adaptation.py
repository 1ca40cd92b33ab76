"""Continued pre-training of an encoder on plain text."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from relatum.cli.app import main
from relatum.config import EncoderConfig
from relatum.encoders.base import EncoderInput
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.encoders.pieces import PieceTokenizer
from relatum.errors import ConfigError, RelatumError
from relatum.monitor import Monitor
from relatum.training import adaptation
from relatum.training.adaptation import Adaptation, adapt_encoder, cut_blocks

SETTINGS = Adaptation(epochs=8, batch_size=8, length=24, learning_rate=3e-3, half_precision=False)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of documents whose letters always follow each other in the same order."""
    path = tmp_path_factory.mktemp("text") / "letters.txt"
    path.write_text("\n".join(["abc def ghi jkl mno pqr stu vwx"] * 120) + "\n", encoding="utf-8")
    return path


class StopAfter(Monitor):
    """Asks the run to stop, as Ctrl-C does, when a number of updates has been made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, updates: int) -> None:
        real = adaptation._Run.update

        def update(run: adaptation._Run) -> torch.Tensor:
            if run.step == updates:
                import signal

                signal.raise_signal(signal.SIGINT)
            return real(run)

        monkeypatch.setattr(adaptation._Run, "update", update)


def test_adapt_encoder_learns_the_text_and_writes_an_encoder(text: Path, tiny_bert: Path, tmp_path: Path) -> None:
    result = adapt_encoder([text], str(tiny_bert), tmp_path / "new", SETTINGS)
    assert result.finished
    assert result.loss_after < 0.7 * result.loss_before
    before, after = load_file(tiny_bert / "model.safetensors"), load_file(tmp_path / "new" / "model.safetensors")
    assert set(after) == {name for name in before if not name.startswith("pooler.")}
    assert all(not torch.equal(after[name], before[name]) for name in after if name.endswith("query.weight"))
    assert (tmp_path / "new" / "tokenizer.json").read_bytes() == (tiny_bert / "tokenizer.json").read_bytes()
    assert f"{result.loss_after:.3f} after" in (tmp_path / "new" / "README.md").read_text(encoding="utf-8")
    encoder = HuggingFaceEncoder.load(tmp_path / "new", EncoderConfig(name="x", n_layers=1))
    assert encoder.encode(EncoderInput([["abc", "def"]])).vectors.shape[:2] == (1, 2)
    assert not (tmp_path / "new.partial").exists()


def test_adapt_encoder_trains_the_output_layer_alone_at_first(text: Path, tiny_bert: Path, tmp_path: Path) -> None:
    settings = Adaptation(epochs=1, batch_size=8, length=24, head_only=0.999, half_precision=False)
    adapt_encoder([text], str(tiny_bert), tmp_path / "new", settings)
    before, after = load_file(tiny_bert / "model.safetensors"), load_file(tmp_path / "new" / "model.safetensors")
    assert all(torch.equal(value, before[name]) for name, value in after.items())


@pytest.mark.parametrize("updates", [3, 50])
def test_adapt_encoder_goes_on_after_a_stop_with_the_same_result(
    updates: int, text: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapt_encoder([text], str(tiny_bert), tmp_path / "whole", SETTINGS)
    with monkeypatch.context() as patch:
        stopped = adapt_encoder([text], str(tiny_bert), tmp_path / "parts", SETTINGS, monitor=StopAfter(patch, updates))
    assert not stopped.finished
    assert stopped.steps == updates + 1
    assert math.isnan(stopped.loss_after)
    assert not (tmp_path / "parts").exists()
    result = adapt_encoder([text], str(tiny_bert), tmp_path / "parts", SETTINGS)
    assert result.finished
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    for name, value in whole.items():
        torch.testing.assert_close(parts[name], value, rtol=0, atol=0)


def test_adapt_encoder_refuses_to_go_on_with_something_else(
    text: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        adapt_encoder([text], str(tiny_bert), tmp_path / "new", SETTINGS, monitor=StopAfter(patch, updates=2))
    with pytest.raises(RelatumError, match=r"new\.partial was begun with another settings; remove .*new\.partial"):
        adapt_encoder([text], str(tiny_bert), tmp_path / "new", Adaptation(epochs=9, length=24))
    (tmp_path / "new.partial" / "state.safetensors").write_bytes(b"half a file")
    with pytest.raises(RelatumError, match=r"the kept state cannot be read .*; remove .*new\.partial"):
        adapt_encoder([text], str(tiny_bert), tmp_path / "new", SETTINGS)


def begin(tiny_bert: Path, n_blocks: int, settings: Adaptation = SETTINGS) -> adaptation._Run:
    """A run on blocks of chance pieces, each block another one."""
    tokenizer = PieceTokenizer.load(tiny_bert)
    pieces = np.random.default_rng(0).integers(5, 30, (n_blocks, settings.length), dtype=np.int32)
    pieces[:, 0], pieces[:, -1] = tokenizer.prefix[0], tokenizer.suffix[0]
    return adaptation._Run(tiny_bert, tokenizer, pieces, settings, torch.device("cpu"))


def rows(blocks: torch.Tensor) -> set[tuple[int, ...]]:
    return set(map(tuple, blocks.tolist()))


def test_pieces_are_masked_replaced_and_kept_in_their_shares(tiny_bert: Path) -> None:
    run = begin(tiny_bert, 200, replace(SETTINGS, masking=0.5))
    read: list[torch.Tensor] = []
    run._model.register_forward_pre_hook(lambda *arguments: read.append(arguments[2]["input_ids"]), with_kwargs=True)
    blocks = run._blocks.long()
    run._loss(blocks, 1, learns_encoder=False)
    (inputs,) = read
    assert torch.equal(inputs[:, 0], blocks[:, 0]), "special pieces stay"
    assert torch.equal(inputs[:, -1], blocks[:, -1])
    inside, before = inputs[:, 1:-1], blocks[:, 1:-1]
    masked = inside == run._mask
    assert masked.float().mean() == pytest.approx(0.5 * 0.8, abs=0.03)
    assert (~masked & (inside != before)).float().mean() == pytest.approx(0.5 * 0.1, abs=0.015)


def test_rate_rises_and_falls_to_nothing(tiny_bert: Path) -> None:
    run = begin(tiny_bert, 200, replace(SETTINGS, warmup=0.1, head_only=0.1))
    rates = []
    for step in range(1, run.steps + 1):
        run.step = step
        rates.append(run._rates()[1])
    learned = rates[run._head_steps :]
    top = learned.index(max(learned))
    assert rates[: run._head_steps] == [0.0] * run._head_steps
    assert max(learned) == SETTINGS.learning_rate
    assert top + 1 == round(0.1 * len(learned))
    assert learned[: top + 1] == sorted(learned[: top + 1])
    assert learned[top:] == sorted(learned[top:], reverse=True)
    assert learned[-1] < 0.02 * SETTINGS.learning_rate


def test_held_out_text_is_never_trained_on_and_every_epoch_has_its_own_order(tiny_bert: Path) -> None:
    run = begin(tiny_bert, 200)
    assert len(run._held_out) == 4
    assert len(rows(run._held_out) | rows(run._blocks)) == 200
    assert not rows(run._held_out) & rows(run._blocks)
    epochs = []
    for epoch in range(2):
        batches = []
        for number in range(run._per_epoch):
            run.step = epoch * run._per_epoch + number + 1
            batches.append(run._batch())
        epochs.append(torch.cat(batches))
        assert len(rows(epochs[-1])) == run._per_epoch * SETTINGS.batch_size, "no block comes twice"
    assert not torch.equal(*epochs)


def test_cut_blocks_keeps_every_piece_in_order(tiny_bert: Path) -> None:
    tokenizer = PieceTokenizer.load(tiny_bert)
    lines = ["abc d", "", "e", "fghij " * 5]
    blocks = cut_blocks(lines, tokenizer, 8)
    separator = tokenizer.suffix[0]
    expected = [piece for line in lines if line for piece in (*tokenizer.cut_texts([line.strip()])[0], separator)]
    assert np.array_equal(blocks[:, 1:-1].ravel(), expected[: blocks.shape[0] * 6])
    assert len(expected) - blocks.shape[0] * 6 < 6
    assert set(blocks[:, 0]) == set(tokenizer.prefix)
    assert set(blocks[:, -1]) == set(tokenizer.suffix)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("latin.txt", "Zürich".encode("latin-1"), "is not UTF-8"),
        ("broken.gz", b"no gzip", "the text cannot be read"),
        ("short.txt", b"a\n", "found text for 0 blocks of 24 pieces"),
        ("missing.txt", None, "no such file or folder; name text files"),
    ],
)
def test_encoder_adapt_names_a_text_that_cannot_be_used(
    name: str, content: bytes | None, message: str, tiny_bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    arguments = ["encoder", "adapt", str(path), "--encoder", str(tiny_bert), "--out", str(tmp_path / "new")]
    assert main([*arguments, "--length", "24"]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert name in error
    assert not (tmp_path / "new").exists()


def test_adapt_encoder_refuses_settings_without_effect_and_full_folders(
    text: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    for settings in ({"epochs": 0}, {"batch_size": 0}, {"masking": 1.0}, {"learning_rate": 2.0}, {"length": 7}):
        ((name, value),) = settings.items()
        with pytest.raises(ConfigError, match=f"{name} is {value}; expected"):
            Adaptation(**settings)
    with pytest.raises(ConfigError, match=r"length is 100; .* reads at most 64 pieces"):
        adapt_encoder([text], str(tiny_bert), tmp_path / "new", Adaptation(length=100))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(RelatumError, match="is not an empty folder"):
        adapt_encoder([text], str(tiny_bert), tmp_path / "full", SETTINGS)


def test_encoder_adapt_prints_the_folder(
    text: Path, tiny_bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["encoder", "adapt", str(text), "--encoder", str(tiny_bert), "--out", str(tmp_path / "new")]
    assert main([*arguments, "--length", "24", "--batch-size", "8", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 'new'}\n"
    assert "held-out loss" in err
    assert f"--set encoder.name={tmp_path / 'new'}" in err
