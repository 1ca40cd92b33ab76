"""`relatum compare`, on folders that look like those of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from relatum.cli.app import app
from relatum.config import load_config
from relatum.errors import RelatumError
from relatum.evaluation.matching import TASKS, count
from relatum.evaluation.metrics import evaluate
from relatum.evaluation.significance import compare
from relatum.schema import infer_schema
from relatum.training.reports.predictions import write_predictions
from relatum.training.result import DataSummary
from relatum.types import Annotation, Entity, Example, Prediction, Relation, Sentence, Span

from ..small_results import make_result

WORDS = ("Ada", "Lind", "left", "Oslo")
PERSON, PLACE = Entity(Span(0, 2), "Peop"), Entity(Span(3, 4), "Loc")
GOLD = Annotation((PERSON, PLACE), (Relation(PERSON, PLACE, "Live_In"),))
EXAMPLES = [Example(Sentence(WORDS), GOLD, f"news#{number}") for number in range(12)]
SCHEMA = infer_schema([GOLD])


def found(n_right: int) -> list[Prediction]:
    """All entities, and the relation in the first sentences."""
    return [
        Prediction(example.sentence, GOLD if number < n_right else Annotation(GOLD.entities), example.id)
        for number, example in enumerate(EXAMPLES)
    ]


def make_run(path: Path, n_right: int, seed: int = 0, sha256: str = "data", *settings: str) -> Path:
    """A complete run that found so many relations."""
    predictions = found(n_right)
    for part in ("dev", "test"):
        write_predictions(path / "predictions", part, EXAMPLES, predictions)
    (path / "model").mkdir()
    (path / "model" / "schema.json").write_text(json.dumps(SCHEMA.to_dict()))
    scores = evaluate([(GOLD, one.found) for one in predictions], SCHEMA)
    data = DataSummary("news", None, sha256, {}, ())
    result = make_result(seed=seed, data=data, config=load_config(None, settings), dev=scores, test=scores)
    (path / "result.json").write_text(json.dumps(result.to_dict()))
    (path / "run.json").write_text("{}")
    return path


def make_runs(path: Path, n_right: list[int], folds: int | None = None, first_seed: int = 0) -> Path:
    """Runs with so many relations found, one for each seed; on every fold, where there are folds."""
    planned = []
    for fold in range(1, folds + 1) if folds else (None,):
        for seed, n in enumerate(n_right, first_seed):
            name = f"seed-{seed}" if fold is None else f"fold-{fold}/seed-{seed}"
            make_run(path / name, n, seed, f"data {fold}")
            planned.append({"name": name, "seed": seed, "fold": fold, "fingerprint": f"data {fold}"})
    plan: dict[str, Any] = {
        "config": load_config().to_dict(),
        "data": "news",
        "format": None,
        "folds": "lists.json" if folds else None,
        "one_fold": None,
        "device": "cpu",
        "n_jobs": 1,
        "by_memory": False,
        "threads": None,
        "command": "",
        "arguments": [],
        "runs": planned,
        "remarks": [],
    }
    (path / "runs.json").write_text(json.dumps(plan))
    return path


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0
    return result.stdout


def test_two_runs_are_compared_sentence_by_sentence(tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a", 3), make_run(tmp_path / "b", 11, seed=5)
    record = json.loads(run(a, b, "--json", "--resamples", "200", "--seed", "7"))
    counts = [[count(GOLD, one.found, SCHEMA) for one in found(n)] for n in (3, 11)]
    expected = compare(counts[0], counts[1], SCHEMA, n_resamples=200, seed=7).to_dict()
    assert {key: record[key] for key in expected} == expected
    assert record["kind"] == "sentences"
    assert record["sentences"] == 12
    relations = record["relations"]["micro"]
    assert relations["a"] == pytest.approx(6 / 15)
    assert relations["b"] == pytest.approx(22 / 23)
    assert relations["p"] < 0.05
    assert record["entities"]["micro"]["difference"] == 0
    shown = run(a, b, "--part", "dev")
    assert "dev, 12 sentences" in shown
    assert "approximate randomisation over sentences" in shown


def test_several_runs_are_compared_in_pairs(tmp_path: Path) -> None:
    a, b = make_runs(tmp_path / "a", [3, 5, 4, 3, 5, 4]), make_runs(tmp_path / "b", [8, 7, 9, 8, 9, 7])
    record = json.loads(run(a, b, "--json"))
    assert record["kind"] == "runs"
    assert record["unit"] == "run"
    assert [pair["seed"] for pair in record["pairs"]] == list(range(6))
    f1 = {n: 2 * n / (12 + n) for n in range(13)}
    difference = sum(f1[n] for n in (8, 7, 9, 8, 9, 7)) / 6 - sum(f1[n] for n in (3, 5, 4, 3, 5, 4)) / 6
    for task in TASKS[1:]:
        assert record[task]["micro"]["difference"] == pytest.approx(difference)
        assert record[task]["micro"]["p"] == 2 / 64
        assert record[task]["micro"]["n"] == 6
    assert record["entities"]["micro"]["p"] == 1
    shown = run(a, b)
    assert "sign-flip test of 6 pairs of runs" in shown
    assert "too few" not in shown


def test_too_few_runs_are_said(tmp_path: Path) -> None:
    shown = run(make_runs(tmp_path / "a", [1, 2, 1]), make_runs(tmp_path / "b", [11, 12, 11]))
    assert "3 are too few for any difference to be significant at 0.05: no p could be below 0.25" in shown


def test_seeds_of_a_fold_are_averaged_before_the_test(tmp_path: Path) -> None:
    a, b = make_runs(tmp_path / "a", [3, 5], folds=3), make_runs(tmp_path / "b", [6, 4], folds=3)
    record = json.loads(run(a, b, "--json"))
    assert record["unit"] == "fold"
    assert len(record["pairs"]) == 6
    assert record["relations"]["micro"]["n"] == 3
    f1 = {n: 2 * n / (12 + n) for n in range(13)}
    assert record["relations"]["micro"]["difference"] == pytest.approx((f1[6] + f1[4] - f1[3] - f1[5]) / 2)
    assert record["relations"]["micro"]["std"] == pytest.approx(0)
    assert "3 folds, each the mean over its seeds" in run(a, b)


def test_runs_without_a_partner_are_named_and_left_out(tmp_path: Path) -> None:
    a, b = make_runs(tmp_path / "a", [3, 5, 4]), make_runs(tmp_path / "b", [6, 4], first_seed=1)
    (b / "seed-2" / "result.json").unlink()
    result = CliRunner().invoke(app, ["compare", str(a), str(b), "--json"])
    assert [pair["seed"] for pair in json.loads(result.stdout)["pairs"]] == [1]
    assert f"{a / 'seed-0'} is left out" in result.stderr
    assert f"{a / 'seed-2'} is left out" in result.stderr
    far = make_runs(tmp_path / "far", [1], first_seed=9)
    with pytest.raises(RelatumError, match="no complete runs with the same seed and fold"):
        run(a, far)


def test_runs_on_other_data_are_refused(tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a", 3), make_run(tmp_path / "b", 4, sha256="other")
    with pytest.raises(RelatumError, match="different data"):
        run(a, b)


@pytest.mark.parametrize(("key", "value"), [("entities", "gold"), ("macro_over", "all")])
def test_runs_scored_in_other_ways_are_refused(tmp_path: Path, key: str, value: str) -> None:
    a, b = make_run(tmp_path / "a", 3), make_run(tmp_path / "b", 4, 0, "data", f"evaluation.{key}={value}")
    with pytest.raises(RelatumError, match=f"do not compare.*evaluation.{key}"):
        run(a, b)


def test_one_run_and_several_are_refused(tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a", 3), make_runs(tmp_path / "b", [4])
    with pytest.raises(RelatumError, match=f"{b} holds several runs and {a} is one"):
        run(a, b)


def test_run_that_is_not_complete_is_refused(tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a", 3), make_run(tmp_path / "b", 4)
    (b / "result.json").unlink()
    with pytest.raises(RelatumError, match=f"no complete run here.*relatum train --resume {b}"):
        run(a, b)
    with pytest.raises(RelatumError, match="name the folder of a run"):
        run(a, tmp_path / "nowhere")


def test_part_that_is_not_there_is_named(tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a", 3), make_run(tmp_path / "b", 4)
    for path in (a, b):
        record = json.loads((path / "result.json").read_text())
        (path / "result.json").write_text(json.dumps({**record, "test": None}))
    with pytest.raises(RelatumError, match="has no test part; compare on dev with --part dev"):
        run(a, b)


@pytest.mark.parametrize(
    "content", ['{"seed": 0', "[]", '{"seed": 0, "data": {}, "dev": {}, "test": {}, "config": {}}']
)
def test_result_that_is_damaged_is_named_with_the_cure(tmp_path: Path, content: str) -> None:
    a, b = make_run(tmp_path / "a", 3), make_run(tmp_path / "b", 4)
    (b / "result.json").write_text(content)
    with pytest.raises(RelatumError, match=f"{b}/result.json: .*not the result .*remove it.* --resume {b}"):
        run(a, b)
