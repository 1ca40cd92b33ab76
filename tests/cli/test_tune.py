"""`relatum tune` from the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from relatum.cli.tune import tune
from relatum.config import load_config

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(tune)

SETTINGS = [
    word
    for setting in (
        "encoder.kind=none",
        "model.width=8",
        "model.n_layers=1",
        "table.width=8",
        "sequence.n_attention_heads=2",
        "sequence.feedforward_width=8",
        "characters.width=4",
        "training.batch_size=4",
        "training.evaluate_every=2",
    )
    for word in ("--set", setting)
]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def data(tmp_path: Path, examples_folder: Path) -> Path:
    """A corpus whose test part cannot be read."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("train", "dev"):
        lines = (examples_folder / "news" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        (folder / f"{name}.jsonl").write_text("\n".join(lines[:8]) + "\n", encoding="utf-8")
    first = (examples_folder / "news" / "test.jsonl").read_text(encoding="utf-8").splitlines()[0]
    (folder / "test.jsonl").write_text(first + '\n{"text": 7}\n', encoding="utf-8")
    return folder


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_tune_shows_trials_and_writes_settings_without_reading_test(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "search"
    result = run(data, "--out", out, "--trials", "2", *SETTINGS, "--set", "training.steps=4", "--device", "cpu")
    assert result.exit_code == 0
    assert "test is not read" in result.stderr
    assert "training.learning_rate: 0.0002 to 0.003" in result.stderr
    assert "table.width:" not in result.stderr
    assert "trial 1: complete" in result.stderr
    assert "2 of 2 trials are made" in result.stderr
    assert f"use them: relatum train {data} --config {out / 'best.toml'}" in result.stdout
    config = load_config(out / "best.toml")
    assert (config.training.steps, config.model.width, config.training.sizes) == (4, 8, "given")


def test_tune_goes_on_after_it_was_killed(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "search"
    arguments = [str(data), "--out", str(out), *SETTINGS, "--set", "training.steps=40", "--device", "cpu"]
    program = "import sys; from relatum.cli.app import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "tune", *arguments, "--trials", "50"],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    log = out / "trials" / "1" / "log.jsonl"
    end = time.monotonic() + 300
    while not (log.exists() and log.read_text()) and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    result = run(*arguments, "--trials", "2")
    assert result.exit_code == 0
    assert "2 of 2 trials are made" in result.stderr
    assert "best: trial" in result.stdout
