"""`relatum train` with several runs, whose processes only pretend to train."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from relatum.cli.app import app
from relatum.errors import RelatumError
from relatum.training.loop import TrainingStopped
from relatum.training.runs import parallel

pytestmark = pytest.mark.usefixtures("deeds")


@pytest.fixture
def data(examples_folder: Path) -> Path:
    return examples_folder / "news"


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, ["train", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_runs_are_shown_in_one_table(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    result = run(data, "--out", out, "--runs", "2", "--seed", "1", "--device", "cpu", "--jobs", "1")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["seed-1", "4", *["20.00"] * 3, *["10.00"] * 3] in lines
    assert ["seed-2", "4", *["30.00"] * 3, *["15.00"] * 3] in lines
    assert ["mean", "±", "std", *["25.00", "±", "7.07"] * 3, *["12.50", "±", "3.54"] * 3] in lines
    record = json.loads((out / "results.json").read_text())
    options = "--runs 2 --jobs 1 --set training.seed=1 --device cpu"
    assert record["command"] == f"relatum train {data} --out {out} {options}"
    single = record["runs"][1]["command"]
    assert single.startswith(f"relatum train {data} --out {out}/seed-2 --set training.seed=1 --device cpu")
    assert single.endswith(" --set training.seed=2")
    again = run("--resume", out)
    assert again.exit_code == 0
    assert again.stdout == result.stdout
    assert "begun" not in again.stderr


def test_folder_that_nobody_named_is_said_when_it_is_there(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(data, "--runs", "1", "--device", "cpu")
    assert result.stderr.count("the folder of the run is runs/news-1") == 1
    assert (tmp_path / "runs" / "news-1" / "results.json").exists()
    assert "the folder of the run" not in run(data, "--runs", "1", "--device", "cpu", "--out", "mine").stderr


def test_command_of_a_run_makes_the_same_run_by_itself(data: Path, tmp_path: Path) -> None:
    run(data, "--out", tmp_path / "runs", "--folds", "2", "--device", "cpu", "--set", "model.width=24")
    record = json.loads((tmp_path / "runs/results.json").read_text())
    words = shlex.split(record["runs"][1]["command"])
    assert words[:2] == ["relatum", "train"]
    words[words.index("--out") + 1] = str(tmp_path / "single")
    # Of several runs nothing but one is made, so that the settings can be compared without training.
    run(*words[2:], "--runs", "1")
    one, two = (json.loads((tmp_path / name / "seed-0/run.json").read_text()) for name in ("runs/fold-2", "single"))
    for key in ("config", "data", "fold", "fingerprint", "device"):
        assert one[key] == two[key], key


def test_folds_are_made_or_taken_from_a_file(data: Path, tmp_path: Path) -> None:
    assert run(data, "--out", tmp_path / "made", "--folds", "2", "--device", "cpu").exit_code == 0
    assert (tmp_path / "made/fold-2/seed-0/result.json").exists()
    lists = tmp_path / "made" / "folds.json"
    assert run(data, "--out", tmp_path / "taken", "--folds", lists, "--device", "cpu").exit_code == 0
    one, two = (json.loads((tmp_path / name / "runs.json").read_text())["runs"] for name in ("made", "taken"))
    assert one == two


def test_runs_without_test_have_dev_scores_alone_and_say_so_in_their_commands(data: Path, tmp_path: Path) -> None:
    result = run(data, "--out", tmp_path / "runs", "--folds", "2", "--device", "cpu", "--no-test")
    assert result.exit_code == 0
    assert "dev NER" in result.stdout
    assert "test NER" not in result.stdout
    record = json.loads((tmp_path / "runs/results.json").read_text())
    assert [one["test"] for one in record["runs"]] == [None, None]
    assert "--no-test" in record["command"]
    words = shlex.split(record["runs"][1]["command"])
    words[words.index("--out") + 1] = str(tmp_path / "single")
    run(*words[2:], "--runs", "1")
    one, two = (json.loads((tmp_path / name / "seed-0/run.json").read_text()) for name in ("runs/fold-2", "single"))
    assert one["with_test"] is two["with_test"] is False
    assert one["fingerprint"] == two["fingerprint"]


def test_failure_is_named_and_the_exit_status_is_1(data: Path, tmp_path: Path, deeds: Callable[[str], None]) -> None:
    deeds("0:fail")
    result = run(data, "--out", tmp_path / "runs", "--runs", "2", "--device", "cpu", "--jobs", "2")
    assert result.exit_code == 1
    assert "seed-0 failed: the moon is full" in result.stderr
    assert f"all that it said: {tmp_path / 'runs/seed-0/output.txt'}" in result.stderr
    assert f"relatum train --resume {tmp_path / 'runs'}" in result.stderr
    assert "20.00" in result.stdout
    deeds("")
    assert run("--resume", tmp_path / "runs", "--jobs", "auto", "--device", "cpu").exit_code == 0


def test_stop_has_exit_status_130(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise TrainingStopped("stopped; go on")

    monkeypatch.setattr(parallel, "complete_runs", stopped)
    result = run(data, "--out", tmp_path / "runs", "--runs", "2", "--device", "cpu")
    assert result.exit_code == 130
    assert "stopped; go on" in result.stderr


def test_folder_that_is_taken_is_refused_with_the_cure(data: Path, tmp_path: Path) -> None:
    run(data, "--out", tmp_path / "runs", "--runs", "1", "--device", "cpu")
    with pytest.raises(RelatumError, match=f"go on with it by relatum train --resume {tmp_path / 'runs'}"):
        run(data, "--out", tmp_path / "runs", "--runs", "1")


@pytest.mark.parametrize(
    ("arguments", "cure"),
    [
        (["data", "--out", "run", "--jobs", "2"], "here is one; give --runs or --folds"),
        (["data", "--out", "run", "--runs", "2", "--jobs", "some"], "expected a number from 1, or auto"),
        (["data", "--out", "run", "--folds", "2", "--fold", "lists.json:1"], "give one of the two"),
        (["data", "--out", "run", "--folds", "-3"], "expected a number from 2, or a JSON file of lists"),
        (["--resume", "run", "--runs", "2"], "takes nothing but --device, --jobs"),
    ],
)
def test_senseless_calls_are_refused(arguments: list[str], cure: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert cure in " ".join(result.stderr.replace("│", " ").split())
