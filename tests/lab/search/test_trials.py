"""Searching for settings."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from relatum.config import Config, load_config
from relatum.errors import RelatumError
from relatum.lab.search.space import apply, make_space
from relatum.lab.search.trials import Search
from relatum.monitor import Evaluation, Monitor
from relatum.training import loop
from relatum.training.corpus import TrainingData, load_training_data
from relatum.training.folder import RunRecord

from ...training.conftest import Silent

CPU = torch.device("cpu")


@pytest.fixture
def search(small_corpus: Path, tiny: Callable[..., Config], tmp_path: Path) -> Callable[..., Search]:
    """A search in the same folder each time it is called."""

    def made(*overrides: str, fixed: tuple[str, ...] = ()) -> Search:
        config = tiny("training.steps=8", "training.evaluate_every=2", *overrides)
        data = load_training_data(small_corpus, config, with_test=False)
        record = RunRecord(config, str(small_corpus), None, None, "cpu", "relatum tune …", data.fingerprint())
        return Search(tmp_path / "search", data, record, fixed, lambda _: None)

    return made


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """Runs that learn nothing: their score is their learning rate, and what they did is noted."""
    done: list[dict[str, float]] = []

    def train(data: TrainingData, record: RunRecord, run: Path, *, device: torch.device, monitor: Monitor) -> None:
        del device
        assert not data.test
        (run / "model").mkdir(parents=True)
        (run / "model" / "weights").write_text("…")
        (run / "log.jsonl").write_text("{}\n")
        config = record.config.training
        done.append({"rate": config.learning_rate, "steps": 0.0})
        for step in range(config.evaluate_every, config.steps + 1, config.evaluate_every):
            done[-1]["steps"] = step
            monitor.evaluate(Evaluation(step, 1.0, 0.1, 10 * config.learning_rate, 1.0, None), True)

    monkeypatch.setattr(loop, "train", train)
    return done


def test_space_begins_with_the_given_settings_and_has_them_in_it() -> None:
    config = load_config(None, ["training.learning_rate=0.1", "model.dropout=0.9", "table.width=30"])
    space, start = make_space(config)
    assert start["training.learning_rate"] == 0.1
    assert start["table.width"] == 30
    for dimension in space:
        if dimension.between is not None:
            assert dimension.between[0] <= start[dimension.key] <= dimension.between[1]
        else:
            assert start[dimension.key] in dimension.values
    assert apply(config, start) == config


def test_space_counts_the_width_of_the_model_where_the_table_has_none() -> None:
    assert make_space(load_config())[1]["table.width"] == 200


def test_space_has_no_width_that_the_directions_do_not_divide() -> None:
    config = load_config(None, ["model.width=48", 'table.directions=["nw", "ne", "sw"]'])
    for dimension in make_space(config)[0]:
        for value in dimension.values:
            apply(config, {dimension.key: value})


def test_space_leaves_out_what_is_fixed_or_means_nothing() -> None:
    config = load_config(None, ["table.kind=none", "training.relation_weight=0"])
    keys = {dimension.key for dimension in make_space(config, ["model.dropout"])[0]}
    assert keys == {
        "training.learning_rate",
        "training.batch_size",
        "training.warmup_steps",
        "model.n_layers",
    }


def test_search_trains_and_writes_settings_that_train_takes(search: Callable[..., Search], silent: Silent) -> None:
    made = search(fixed=("table.width", "model.n_layers", "training.batch_size"))
    best = made.run(2, None, CPU, lambda: silent)
    assert best.score == max(evaluation.score for evaluation, _ in silent.evaluations)
    assert [report.state for report in made.reports()] == ["complete", "complete"]
    config = load_config(made.best_settings)
    assert config.training.learning_rate == best.values["training.learning_rate"]
    assert (config.model.width, config.training.steps, config.training.sizes) == (16, 8, "given")
    left = {path.name for path in (made.best_settings.parent / "trials").rglob("*") if path.is_file()}
    assert left == {"log.jsonl"}


def test_search_begins_with_the_settings_that_train_has(
    search: Callable[..., Search], pretended: list[dict[str, float]], silent: Silent
) -> None:
    made = search("training.learning_rate=0.0007")
    made.run(1, None, CPU, lambda: silent)
    assert pretended == [{"rate": 0.0007, "steps": 8}]


def test_search_ends_poor_trials_early(
    search: Callable[..., Search], pretended: list[dict[str, float]], silent: Silent
) -> None:
    made = search()
    best = made.run(12, None, CPU, lambda: silent)
    reports = made.reports()
    assert len(reports) == len(pretended) == 12
    pruned = [report for report in reports if report.state == "pruned"]
    assert pruned
    assert all(report.number >= 4 and (report.step or 0) < 8 for report in pruned)
    assert best.score == pytest.approx(10 * max(one["rate"] for one in pretended))
    assert load_config(made.best_settings).training.learning_rate == max(one["rate"] for one in pretended)


def test_search_goes_on_with_the_trials_that_are_there(
    search: Callable[..., Search], pretended: list[dict[str, float]], silent: Silent
) -> None:
    search().run(2, None, CPU, lambda: silent)
    again = search()
    again.run(3, None, CPU, lambda: silent)
    assert len(pretended) == len(again.reports()) == 3
    assert len({one["rate"] for one in pretended}) == 3


def test_search_makes_a_trial_again_that_was_interrupted(
    search: Callable[..., Search],
    pretended: list[dict[str, float]],
    silent: Silent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = loop.train

    class Killed(BaseException):
        """What no handler sees, as a process that is killed."""

    def killed(*_: object, **__: object) -> None:
        raise Killed

    search().run(1, None, CPU, lambda: silent)
    monkeypatch.setattr(loop, "train", killed)
    with pytest.raises(Killed):
        search().run(3, None, CPU, lambda: silent)
    interrupted = search()
    assert len(interrupted.reports()) == 1
    monkeypatch.setattr(loop, "train", whole)
    interrupted.run(2, None, CPU, lambda: silent)
    first, second = interrupted.reports()
    assert (first.number, second.number) == (0, 2)
    assert len(pretended) == 2


def test_search_stops_with_the_run_and_goes_on_with_the_same_values(
    search: Callable[..., Search],
    pretended: list[dict[str, float]],
    silent: Silent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = loop.train

    def stopped(*_: object, **__: object) -> None:
        raise loop.TrainingStopped("stopped")

    monkeypatch.setattr(loop, "train", stopped)
    with pytest.raises(loop.TrainingStopped, match="stopped in trial 0; the same command goes on"):
        search("training.learning_rate=0.0021").run(1, None, CPU, lambda: silent)
    monkeypatch.setattr(loop, "train", whole)
    search("training.learning_rate=0.0021").run(1, None, CPU, lambda: silent)
    assert [one["rate"] for one in pretended] == [0.0021]


def test_search_counts_trials_that_fail_and_goes_on(
    search: Callable[..., Search],
    pretended: list[dict[str, float]],
    silent: Silent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = loop.train

    def failing(*_: object, **__: object) -> None:
        monkeypatch.setattr(loop, "train", whole)
        raise RelatumError("the loss is nan")

    monkeypatch.setattr(loop, "train", failing)
    made = search()
    best = made.run(2, None, CPU, lambda: silent)
    assert [report.state for report in made.reports()] == ["failed", "complete"]
    assert best.number == 1
    assert len(pretended) == 1


def test_search_ends_when_its_time_is_over(
    search: Callable[..., Search], pretended: list[dict[str, float]], silent: Silent
) -> None:
    made = search()
    with pytest.raises(RelatumError, match="no trial was completed; give more time"):
        made.run(5, 0.0, CPU, lambda: silent)
    assert not pretended


def test_search_ends_the_trial_under_way_at_an_evaluation_when_its_time_is_over(
    search: Callable[..., Search], pretended: list[dict[str, float]], silent: Silent
) -> None:
    made = search()

    def late() -> Silent:
        time.sleep(0.3)
        return silent

    with pytest.raises(RelatumError, match="no trial was completed"):
        made.run(5, 0.2 / 60, CPU, late)
    assert [(report.state, report.step) for report in made.reports()] == [("pruned", 2)]
    assert len(pretended) == 1


def test_search_refuses_a_folder_with_other_data_or_settings(
    search: Callable[..., Search], pretended: list[dict[str, float]], silent: Silent
) -> None:
    made = search()
    made.run(1, None, CPU, lambda: silent)
    assert pretended
    with pytest.raises(RelatumError, match="with other settings; name a new folder"):
        search("model.width=20")
    with pytest.raises(RelatumError, match="with another space"):
        search(fixed=("model.dropout",))
    path = made.best_settings.parent / "tune.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data": "…"}))
    with pytest.raises(RelatumError, match="with other data"):
        search()
    path.write_text("[" * 100_000)
    with pytest.raises(RelatumError, match=r"tune.json: not valid JSON: .*; name a new folder"):
        search()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RelatumError, match=r"tune.json: found a pipe"):
        search()


def test_search_refuses_a_folder_of_something_else(search: Callable[..., Search], tmp_path: Path) -> None:
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "mine.txt").write_text("…")
    with pytest.raises(RelatumError, match="is not an empty folder"):
        search()


def test_search_names_a_file_of_trials_that_is_damaged(
    search: Callable[..., Search], pretended: list[dict[str, float]], silent: Silent, tmp_path: Path
) -> None:
    search().run(1, None, CPU, lambda: silent)
    assert pretended
    (tmp_path / "search" / "trials.db").write_text("…")
    with pytest.raises(RelatumError, match=r"trials\.db: the trials cannot be read .*; remove it to begin"):
        search()


def test_search_refuses_to_see_test(small_corpus: Path, tiny: Callable[..., Config], tmp_path: Path) -> None:
    config = tiny()
    data = load_training_data(small_corpus, config)
    record = RunRecord(config, str(small_corpus), None, None, "cpu", "…", data.fingerprint())
    with pytest.raises(RelatumError, match="must not see the test part"):
        Search(tmp_path / "search", data, record, (), lambda _: None)
    assert not (tmp_path / "search").exists()


def test_search_names_the_extra_it_needs(search: Callable[..., Search], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(RelatumError, match=r"pip install 'relatum\[tune\]'"):
        search()
