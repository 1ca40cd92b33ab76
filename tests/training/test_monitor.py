from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from relatum.cli.monitor import TerminalMonitor
from relatum.kernels import waiting
from relatum.monitor import Evaluation
from relatum.scores import Scores
from relatum.training.monitor import Log

from ..small_results import make_task


@pytest.fixture(autouse=True)
def _quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that these tests run on may be busy, which a monitor would say."""
    monkeypatch.setattr(waiting, "describe_load", lambda: None)


def evaluation(step: int, f1: float = 0.5) -> Evaluation:
    dev = Scores(make_task(f1), make_task(f1 / 2), make_task(f1 / 4))
    return Evaluation(step, 12.5, 1e-3, f1, 3.0, dev)


def watch(terminal: bool) -> str:
    out = io.StringIO()
    monitor = TerminalMonitor(Console(file=out, force_terminal=terminal, width=200, highlight=False, markup=False))
    monitor.say("remark [with] brackets\x1b")
    monitor.start(0, 1000)
    monitor.advance(10, 40.0)
    monitor.evaluate(evaluation(500), best=True)
    monitor.advance(510, 31.25)
    monitor.evaluate(evaluation(1000, 0.4), best=False)
    monitor.close()
    return out.getvalue()


def test_plain_output_has_a_line_an_evaluation() -> None:
    lines = watch(terminal=False).splitlines()
    assert lines[0] == "relatum: remark [with] brackets\\x1b"
    assert len(lines) == 3
    assert lines[1].startswith("step 500 of 1,000  loss 12.5  dev NER 50.00  RE 25.00  RE+ 12.50")
    assert lines[1].endswith("left  (best so far)")
    assert "dev NER 40.00  RE 20.00  RE+ 10.00" in lines[2]
    assert lines[2].endswith("0:00:00 left")


def test_terminal_shows_loss_speed_time_and_scores() -> None:
    shown = watch(terminal=True)
    for part in ("510/1000", "loss 31.2", "steps/s", "dev NER 50.00  RE 25.00  RE+ 12.50", "no scores yet"):
        assert part in shown


def test_log_has_a_line_an_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = Log(path)
    log.add(evaluation(500))
    log.add(evaluation(1000, 0.25))
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["step"] for record in records] == [500, 1000]
    assert records[1].keys() == {"step", "loss", "learning_rate", "score", "seconds", "dev"}
    assert records[1]["dev"]["entities"]["micro"]["f1"] == 0.25


def test_log_of_a_resumed_run_forgets_what_the_checkpoint_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = Log(path)
    for step in (500, 1000, 1500):
        log.add(evaluation(step))
    Log(path, [evaluation(500)]).add(evaluation(700))
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [500, 700]


def test_plain_output_has_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("relatum.monitor.time.monotonic", lambda: now)
    out = io.StringIO()
    monitor = TerminalMonitor(Console(file=out, force_terminal=False, width=200))
    monitor.start(0, 1000)
    for second in range(0, 201, 10):
        now = float(second)
        if second == 100:
            monitor.evaluate(evaluation(second), best=False)
        else:
            monitor.advance(second, 2.5)
    lines = out.getvalue().splitlines()
    assert lines[0] == "step 60 of 1,000  loss 2.5  1 steps/s  0:15:40 left"
    assert [line.split()[1] for line in lines] == ["60", "100", "160"], "a line of scores is a line"


@pytest.mark.parametrize(
    ("share", "load", "is_told"),
    [(0.4, "load 4.0 on 2 cores", True), (0.9, "load 4.0 on 2 cores", False), (0.4, None, False)],
)
def test_busy_machine_is_told_once(
    monkeypatch: pytest.MonkeyPatch, share: float, load: str | None, is_told: bool
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("time.thread_time", lambda: share * now)
    monkeypatch.setattr(waiting, "describe_load", lambda: load)
    out = io.StringIO()
    monitor = TerminalMonitor(Console(file=out, force_terminal=False, width=200))
    monitor.start(0, 1000)
    for second in range(0, 50, 5):
        now = float(second)
        monitor.advance(second, 40.0)
    said = [line for line in out.getvalue().splitlines() if "busy" in line]
    assert len(said) == is_told
    if is_told:
        assert "(load 4.0 on 2 cores): training had a core for 40% of the last 20 s" in said[0]
