"""Training on dev as well, once all is chosen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from relatum.cli.app import app
from relatum.config import Config, load_config
from relatum.errors import RelatumError
from relatum.models.checkpoint import load_model
from relatum.training.corpus import TrainingData, load_training_data
from relatum.training.defaults import Machine, fill_defaults
from relatum.training.folder import RunRecord
from relatum.training.loop import TrainingStopped, score, train
from relatum.training.reports.predictions import read_predictions
from relatum.training.result import BestModel
from relatum.training.run import Run
from relatum.training.runs.parallel import complete_runs
from relatum.training.runs.plan import RunsFolder, RunsRequest, start_runs

from .conftest import TINY, Silent

CPU = torch.device("cpu")
ALL = "training.dev=train"
Start = Callable[[Config], tuple[TrainingData, RunRecord]]
Tiny = Callable[..., Config]


@pytest.fixture
def run(start: Start, tiny: Tiny, tmp_path: Path, silent: Silent) -> Run:
    data, record = start(tiny(ALL))
    return train(data, record, tmp_path / "run", device=CPU, monitor=silent)


def test_dev_stands_at_the_end_of_train(small_corpus: Path) -> None:
    apart = load_training_data(small_corpus, load_config(None, TINY))
    joined = load_training_data(small_corpus, load_config(None, [*TINY, ALL]))
    assert joined.train == [*apart.train, *apart.dev]
    assert (joined.dev, joined.test) == ([], apart.test)
    assert any(f"the {len(apart.dev)} sentences of dev are trained on, too" in remark for remark in joined.remarks)


def test_without_a_dev_part_nothing_is_held_out_for_it(tmp_path: Path) -> None:
    def file(n: int) -> Path:
        path = tmp_path / f"{n}.jsonl"
        lines = [
            {"id": str(i), "words": [f"w{i}", "x"], "entities": [{"start": 0, "end": 1, "label": "A"}], "relations": []}
            for i in range(n)
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    few = load_training_data(file(5), load_config(None, [*TINY, ALL]))
    assert (len(few.train), len(few.dev), len(few.test)) == (5, 0, 0)
    assert any("no dev part is held out" in remark for remark in few.remarks)
    many, usual = (load_training_data(file(120), load_config(None, [*TINY, *more])) for more in ([ALL], []))
    assert (len(many.train), len(many.dev), len(many.test)) == (102, 0, 18)
    assert many.test == usual.test, "the scores would not compare"
    assert any("18 of 120 documents are held out for test" in remark for remark in many.remarks)


def test_types_of_dev_are_learned_and_not_remarked_on(small_corpus: Path, tmp_path: Path) -> None:
    lines = (small_corpus / "dev.jsonl").read_text().splitlines()
    renamed = json.loads(lines[0])
    renamed["entities"][0]["label"] = "Planet"
    for name in ("train", "test"):
        (tmp_path / f"{name}.jsonl").write_text((small_corpus / f"{name}.jsonl").read_text())
    (tmp_path / "dev.jsonl").write_text("\n".join([json.dumps(renamed), *lines[1:]]) + "\n")
    joined = load_training_data(tmp_path, load_config(None, [*TINY, ALL]))
    assert "Planet" in joined.schema.entity_types
    assert not any("not in train" in remark for remark in joined.remarks)


def test_last_weights_are_kept_and_test_is_scored(run: Run, start: Start, tiny: Tiny, silent: Silent) -> None:
    data, _ = start(tiny())
    assert run.dev is None
    assert run.result.best == BestModel(12, 0.0)
    assert run.result.data.parts["dev"].sentences == 0
    assert [(one.step, one.dev) for one, _ in silent.evaluations] == [(4, None), (8, None), (12, None)]
    assert run.test == score(load_model(run.model, CPU), data.test)


def test_scores_are_not_calibrated_and_the_card_says_what_was_done(run: Run) -> None:
    assert load_model(run.model, CPU).calibration is None
    assert run.result.confidence.calibration is None
    assert list(run.result.confidence.after) == ["test"]
    card = (run.model / "README.md").read_text()
    assert "12 of 12, the last ones; the dev part was trained on, too" in card
    assert "Scores are not calibrated: no annotated text was left to fit them on." in card
    assert "| test | entities |" in card
    assert "| dev |" not in card


def test_reports_have_no_dev(run: Run) -> None:
    folder = run.folder
    assert "model: after step 12, the last" in (folder / "summary.txt").read_text()
    page = (folder / "report.html").read_text()
    assert page.count("<figure") == 1
    assert "F1 on dev" not in page
    assert (folder / "curves.png").stat().st_size > 0
    assert sorted(path.name for path in (folder / "predictions").iterdir()) == ["test-gold.jsonl", "test.jsonl"]
    assert len(read_predictions(folder / "predictions", "test").documents) == run.result.data.parts["test"].sentences


def test_run_that_was_stopped_goes_on_with_the_same_data(
    start: Start, tiny: Tiny, tmp_path: Path, run: Run, silent: Silent
) -> None:
    data, record = start(tiny(ALL))
    stopper = Silent()

    def stop(step: int) -> None:
        if step >= 6:
            raise KeyboardInterrupt

    stopper.on_advance = stop
    with pytest.raises((KeyboardInterrupt, TrainingStopped)):
        train(data, record, tmp_path / "stopped", device=CPU, monitor=stopper)
    again = train(data, record, tmp_path / "stopped", device=CPU, monitor=silent, resume=True)
    assert (again.model / "model.safetensors").read_bytes() == (run.model / "model.safetensors").read_bytes()


def test_several_runs_have_a_summary_of_test_alone(small_corpus: Path, tiny: Tiny, tmp_path: Path) -> None:
    folder = RunsFolder(tmp_path / "runs")
    plan = start_runs(folder.path, small_corpus, tiny(ALL), RunsRequest(n_runs=2, device="cpu"))
    for run in folder.prepare(plan):  # here and not in processes of their own, which would import torch again
        record = folder.run(run).read()
        data = load_training_data(small_corpus, record.config)
        train(data, record, folder.run(run).path, device=CPU, monitor=Silent(), resume=True)
    results = complete_runs(folder.path).to_dict()
    assert results == json.loads(folder.results.read_text())
    assert [run["dev"] for run in results["runs"]] == [None, None]
    assert list(results["summary"]) == ["test"]


def test_patience_is_refused_and_not_chosen() -> None:
    with pytest.raises(RelatumError, match=r"no training\.patience, as training\.dev is \"train\""):
        load_config(None, [ALL, "training.patience=3"])
    machine = Machine("cpu", 2)
    _, usual = fill_defaults(None, [], [10] * 50, machine)
    config, choices = fill_defaults(None, [ALL], [10] * 50, machine)
    assert {choice.key for choice in usual} - {choice.key for choice in choices} == {"training.patience"}
    assert config.training.patience is None


@pytest.mark.parametrize(
    "command", [("tune", "--trials", "1"), ("reproduce", "3", "--dev", "--row", "default", "--runs", "1", "--corpus")]
)
def test_what_looks_at_dev_alone_refuses_to_train_on_it(
    small_corpus: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    ran = CliRunner().invoke(
        app, [*command, str(small_corpus), "--out", str(tmp_path / "out"), "--set", ALL, "--set", "words.path=unset"]
    )
    assert ran.exit_code != 0
    assert "dev is trained on, so that nothing is left to score" in ran.output + str(ran.exception)
