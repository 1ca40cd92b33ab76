"""The benchmark of training updates on a CPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from benchmarks.updates import Contestant, measure

from benchmarks import updates


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, losses: dict[str, float], trains_adapters: bool = True) -> int:
    """Return the status of a benchmark in which updates take 20 ms in fp32 and 10 ms in bf16."""

    def sample(contestant: Contestant, seconds: float) -> tuple[float, float] | None:
        assert seconds == 0.5
        if contestant.kind == "network and adapters" and not trains_adapters:
            return None
        return losses[contestant.precision], {"fp32": 0.02, "bf16": 0.01}[contestant.precision]

    monkeypatch.setattr(Contestant, "run", sample)
    monkeypatch.setattr(sys, "argv", ["updates", "--seconds", "0.5", "--out", str(tmp_path / "rows.json")])
    return updates.main()


def test_rows_have_times_and_ratios(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, tmp_path, {"fp32": 3.0, "bf16": 3.01}, trains_adapters=False) == 0
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [(row["kind"], row["precision"], row["cpu_ms"], row["ratio"]) for row in rows] == [
        ("network", "fp32", 20.0, 1.0),
        ("network", "bf16", 10.0, 0.5),
        ("network beside frozen adapters", "fp32", 20.0, 1.0),
        ("network beside frozen adapters", "bf16", 10.0, 0.5),
    ]


def test_nothing_is_printed_if_losses_differ(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tmp_path, {"fp32": 3.0, "bf16": 3.1}) == 1
    assert not (tmp_path / "rows.json").exists()
    assert capsys.readouterr().out == ""


def test_sample_has_a_loss_without_dropout_and_a_time() -> None:
    first, again = measure("network", "fp32", 0.1), measure("network", "fp32", 0.1)
    assert first[0] == again[0] > 0
    assert first[1] > 0
