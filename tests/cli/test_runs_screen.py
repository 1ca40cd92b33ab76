"""What is shown of several runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from relatum.cli import runs_screen
from relatum.cli.runs_screen import RunsScreen
from relatum.monitor import Evaluation
from relatum.training.runs.parallel import Listeners
from relatum.training.runs.plan import PlannedRun

from ..small_results import make_scores


def evaluation(step: int, f1: float) -> dict[str, object]:
    return Evaluation(step, 3.25, 0.1, f1, 2.0, make_scores(f1)).to_dict()


def drive(screen: RunsScreen, known: tuple[str, ...] = ()) -> None:
    """Two runs, of which one ends."""
    listeners = Listeners(screen, known)
    first, second = (PlannedRun(f"seed-{seed}", seed, None, "") for seed in (0, 1))
    screen.begin_runs(3, 0)
    for run in (first, second):
        listeners.begin(run)
        listeners.hear(run, {"event": "say", "message": "no dev part"})
        listeners.hear(run, {"event": "say", "message": f"news of {run.name}"})
        listeners.hear(run, {"event": "say", "message": "few relations"})
        listeners.hear(run, {"event": "start", "step": 20, "steps": 1000})
        listeners.hear(run, {"event": "say", "message": "memory is short"})
    listeners.hear(first, {"event": "advance", "step": 400, "loss": 2.5})
    listeners.hear(second, {"event": "evaluate", "evaluation": evaluation(500, 0.75), "best": True})
    screen.end_run(first.name, "complete")
    screen.close()


def test_lines_begin_with_the_name_of_their_run() -> None:
    shown = io.StringIO()
    drive(RunsScreen(Console(file=shown, width=200)), ("no dev part",))
    lines = shown.getvalue().splitlines()
    assert lines[0] == "seed-0: begun"
    assert "seed-1: news of seed-1" in lines
    assert any(
        line.startswith("seed-1: step 500 of 1,000  loss 3.25  dev NER 75.00  RE 75.00  RE+ 75.00") for line in lines
    )
    assert lines[-1] == "seed-0: complete (1 of 3 complete)"
    assert "no dev part" not in shown.getvalue(), "said before, and repeated"
    assert [line for line in lines if "few relations" in line] == ["seed-0: few relations"]
    assert [line for line in lines if "memory" in line] == [f"seed-{n}: memory is short" for n in (0, 1)]
    assert "seed-1: updates go on after step 20 of 1,000" in lines
    assert "step 400" not in shown.getvalue(), "a line for every few updates"


def test_long_silence_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_screen, "SILENCE", -1.0)
    shown = io.StringIO()
    drive(RunsScreen(Console(file=shown, width=200)))
    assert "seed-0: step 400 of 1,000  loss 2.5" in shown.getvalue()


def test_terminal_has_one_table_of_the_runs_that_go_on() -> None:
    shown = io.StringIO()
    screen = RunsScreen(Console(file=shown, width=200, force_terminal=True))
    drive(screen)
    assert "seed-1: step 500" not in shown.getvalue()
    table = io.StringIO()
    Console(file=table, width=200).print(screen._table())
    rows = [line.split() for line in table.getvalue().splitlines()]
    assert rows[0][:2] == ["1/3", "complete"]
    assert rows[1][:3] == ["seed-1", "500/1,000", "–"]
    assert rows[1][-3:] == ["75.00"] * 3
    assert len(rows) == 2
