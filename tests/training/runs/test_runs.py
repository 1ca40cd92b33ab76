"""Plans of several runs, and runs side by side; most with processes that only pretend to train."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from relatum.cli.runs_screen import RunsScreen
from relatum.config import Config
from relatum.data.corpus import read_documents
from relatum.data.partition import Fold
from relatum.data.problems import Problems
from relatum.errors import ConfigError, RelatumError
from relatum.evaluation.ceiling import Ceiling, Loss, ceiling_record
from relatum.training.corpus import FoldChoice, load_training_data
from relatum.training.folder import RunFolder, RunRecord
from relatum.training.loop import TrainingStopped, train
from relatum.training.runs import parallel
from relatum.training.runs.parallel import complete_runs
from relatum.training.runs.plan import LOG, RunsFolder, RunsRequest, start_runs, with_seed
from relatum.training.runs.summary import Runs

from ...small_results import make_scores
from ..conftest import TINY, Silent

Tiny = Callable[..., Config]


def complete(path: Path, **options: Any) -> tuple[dict[str, Any], str]:
    """The content of `results.json`, and what was shown."""
    shown = io.StringIO()
    runs = complete_runs(path, monitor=RunsScreen(Console(file=shown, width=200)), **options)
    return runs.to_dict(), shown.getvalue()


def test_plan_names_every_seed_of_every_fold(small_corpus: Path, tiny: Tiny, tmp_path: Path) -> None:
    said: list[str] = []
    config = tiny("training.seed=3")
    plan = start_runs(
        tmp_path / "runs", small_corpus, config, RunsRequest(n_runs=2, folds=3, device="cpu"), said.append
    )
    assert [run.name for run in plan.runs] == [f"fold-{k}/seed-{s}" for k in (1, 2, 3) for s in (3, 4)]
    assert plan == RunsFolder(tmp_path / "runs").read()
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"runs.json", "folds.json"}
    assert "3 folds of all documents" in said[0]
    folds = [
        Fold(**{name: tuple(m) for name, m in one.items()})
        for one in json.loads((tmp_path / "runs/folds.json").read_text())
    ]
    assert sorted(number for fold in folds for number in fold.test) == list(range(28))
    for fold in folds:
        assert fold.dev
        assert sorted((*fold.train, *fold.dev, *fold.test)) == list(range(28))
    left = RunsFolder(tmp_path / "runs").prepare(plan)
    record = RunFolder(tmp_path / "runs/fold-2/seed-4").read()
    assert left == list(plan.runs)
    assert record.config == with_seed(config, 4)
    assert record.fold == f"{tmp_path / 'runs/folds.json'}:2"
    data = load_training_data(small_corpus, record.config, None, FoldChoice.parse(record.fold))
    assert data.fingerprint() == record.fingerprint
    assert f"--set training.seed=4 --fold {record.fold}" in record.command
    again = start_runs(tmp_path / "again", small_corpus, config, RunsRequest(n_runs=2, folds=3, device="cpu"))
    assert [run.fingerprint for run in again.runs] == [run.fingerprint for run in plan.runs]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plan: plan["runs"][0].update(name="../outside"), "found the run '../outside'"),
        (lambda plan: plan["runs"][0].update(name="/tmp/outside"), "found the run '/tmp/outside'"),
        (lambda plan: plan["runs"][0].update(seed="0"), "found str for 'seed'"),
        (lambda plan: plan.update(runs={}), "found dict for 'runs'"),
        (lambda plan: plan.update(data=3), "found int for 'data'"),
        (lambda plan: plan.update(arguments="rm"), "found str for 'arguments'"),
    ],
)
def test_plan_cannot_lead_outside_its_folder(
    small_corpus: Path, tiny: Tiny, tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    start_runs(tmp_path / "runs", small_corpus, tiny(), RunsRequest(device="cpu"))
    path = tmp_path / "runs" / "runs.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(RelatumError, match=f"runs.json: not the plan of runs of this version: {message}"):
        complete(tmp_path / "runs")


@pytest.mark.parametrize("name", ["seed-0", "seed-0/output.txt", "results.json"])
def test_runs_that_would_write_through_a_link_are_refused(
    small_corpus: Path, tiny: Tiny, tmp_path: Path, name: str
) -> None:
    start_runs(tmp_path / "runs", small_corpus, tiny(), RunsRequest(device="cpu"))
    place = tmp_path / "runs" / name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "outside")
    with pytest.raises(RelatumError, match=f"{name}: found a link in the folder of a run"):
        complete(tmp_path / "runs")
    assert not (tmp_path / "outside").exists()


def test_seeds_of_later_runs_are_numbers_that_a_run_can_have(small_corpus: Path, tiny: Tiny, tmp_path: Path) -> None:
    config = tiny(f"training.seed={2**31 - 1}")
    with pytest.raises(ConfigError, match=r"training\.seed: found 2147483648, expected a number below 2147483648"):
        start_runs(tmp_path / "runs", small_corpus, config, RunsRequest(n_runs=2, device="cpu"))
    assert not (tmp_path / "runs").exists()


def test_folds_without_test_are_of_the_other_parts_and_each_is_dev_once(
    small_corpus: Path, tiny: Tiny, tmp_path: Path
) -> None:
    said: list[str] = []
    plan = start_runs(
        tmp_path / "runs", small_corpus, tiny(), RunsRequest(folds=3, device="cpu", with_test=False), said.append
    )
    lists = json.loads((tmp_path / "runs/folds.json").read_text())
    assert [set(fold) for fold in lists] == [{"train", "dev"}] * 3
    assert sorted(number for fold in lists for number in fold["dev"]) == list(range(22))  # test is 22 to 27
    for fold in lists:
        assert sorted((*fold["train"], *fold["dev"])) == list(range(22))
    assert said == [
        f"3 folds of the 22 documents of {small_corpus} that are not apart for test (seed 0); each is dev once"
    ]
    assert plan == RunsFolder(tmp_path / "runs").read()
    RunsFolder(tmp_path / "runs").prepare(plan)
    record = RunFolder(tmp_path / "runs/fold-1/seed-0").read()
    assert record.with_test is False
    data = load_training_data(small_corpus, record.config, None, FoldChoice.parse(record.fold or ""), with_test=False)
    assert data.fingerprint() == record.fingerprint
    assert not data.test
    whole = load_training_data(small_corpus, record.config)
    learned, known = ({example.sentence.words for example in (*one.train, *one.dev)} for one in (data, whole))
    assert learned == known


def test_folds_without_test_take_no_part_but_train_and_dev(small_corpus: Path, tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(small_corpus, folder)
    (folder / "dev.jsonl").rename(folder / "valid.jsonl")
    shutil.copy(folder / "test.jsonl", folder / "blind.jsonl")
    said: list[str] = []
    start_runs(tmp_path / "runs", folder, tiny(), RunsRequest(folds=2, device="cpu", with_test=False), said.append)
    lists = json.loads((tmp_path / "runs/folds.json").read_text())
    documents = [document.id for document in read_documents(folder, None, Problems())]
    taken = {documents[number] for number in lists[0]["train"] + lists[0]["dev"]}
    kept = [read_documents(folder / name, None, Problems()) for name in ("train.jsonl", "valid.jsonl")]
    assert taken == {document.id for part in kept for document in part}
    assert not any("in no part of a fold" in line for line in said)
    both = [folder / "train.jsonl", folder / "valid.jsonl"]
    for file in both:
        file.unlink()
    with pytest.raises(RelatumError, match="found neither a train nor a dev part"):
        start_runs(tmp_path / "other", folder, tiny(), RunsRequest(folds=2, device="cpu", with_test=False))


def test_folds_without_test_of_a_single_file_are_of_all_its_documents(
    small_corpus: Path, tiny: Tiny, tmp_path: Path
) -> None:
    alone = small_corpus / "test.jsonl"  # a test part is one beside others
    start_runs(tmp_path / "runs", alone, tiny(), RunsRequest(folds=2, device="cpu", with_test=False))
    lists = json.loads((tmp_path / "runs/folds.json").read_text())
    assert sorted(number for fold in lists for number in fold["dev"]) == list(range(6))


def test_runs_without_test_leave_out_the_test_of_given_folds(small_corpus: Path, tiny: Tiny, tmp_path: Path) -> None:
    lists = tmp_path / "lists.json"
    lists.write_text(json.dumps([{"train": [0, 1, 2, 3], "dev": [4, 5], "test": [6]}]))
    said: list[str] = []
    plan = start_runs(
        tmp_path / "runs", small_corpus, tiny(), RunsRequest(folds=lists, device="cpu", with_test=False), said.append
    )
    data = load_training_data(small_corpus, plan.config, None, FoldChoice(lists, 1))
    assert plan.runs[0].fingerprint != data.fingerprint()
    assert plan.runs[0].fingerprint == replace(data, test=[]).fingerprint()
    assert any(
        "15 × documents in no part of a fold" in line for line in said
    )  # of the 22 of train and dev, 7 are listed


def test_given_folds_are_taken_from_their_file(small_corpus: Path, tiny: Tiny, tmp_path: Path) -> None:
    lists = tmp_path / "lists.json"
    lists.write_text(
        json.dumps([{"train": [0, 1, 2, 3], "dev": [4, 5], "test": [6]}, {"train": [6, 7, 8], "dev": [0]}])
    )
    plan = start_runs(tmp_path / "runs", small_corpus, tiny(), RunsRequest(folds=lists, device="cpu"))
    assert [(run.name, plan.fold_of(run)) for run in plan.runs] == [
        ("fold-1/seed-0", f"{lists}:1"),
        ("fold-2/seed-0", f"{lists}:2"),
    ]
    one = start_runs(
        tmp_path / "one", small_corpus, tiny(), RunsRequest(n_runs=2, folds=FoldChoice(lists, 2), device="cpu")
    )
    assert [(run.name, one.fold_of(run)) for run in one.runs] == [("seed-0", f"{lists}:2"), ("seed-1", f"{lists}:2")]


def test_dev_part_that_is_held_out_depends_on_the_seed_as_in_single_runs(
    small_corpus: Path, tiny: Tiny, tmp_path: Path
) -> None:
    alone = small_corpus / "train.jsonl"
    plan = start_runs(tmp_path / "runs", alone, tiny(), RunsRequest(n_runs=2, device="cpu"))
    expected = [load_training_data(alone, tiny(f"training.seed={seed}")).fingerprint() for seed in (0, 1)]
    assert [run.fingerprint for run in plan.runs] == expected
    assert expected[0] != expected[1]


@pytest.mark.parametrize("folds", [40, 0])
def test_senseless_folds_leave_nothing_behind(small_corpus: Path, tiny: Tiny, tmp_path: Path, folds: int) -> None:
    with pytest.raises(RelatumError, match=f"--folds {folds}"):
        start_runs(tmp_path / "runs", small_corpus, tiny(), RunsRequest(folds=folds, device="cpu"))
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("deeds")
def test_results_have_mean_and_sample_deviation(small_corpus: Path, tiny: Tiny, tmp_path: Path) -> None:
    start_runs(tmp_path / "runs", small_corpus, tiny(), RunsRequest(n_runs=3, device="cpu", jobs=1))
    record, shown = complete(tmp_path / "runs")
    assert record == json.loads((tmp_path / "runs/results.json").read_text())
    assert record["complete"] is True
    assert record["commit"] == "abc"
    summary = record["summary"]["dev"]["relations"]["macro"]["f1"]
    assert summary["mean"] == pytest.approx(0.2)  # of 0.1, 0.2 and 0.3
    assert summary["std"] == pytest.approx(0.1)
    assert summary["n"] == 3
    assert record["summary"]["test"]["entities"]["micro"]["f1"]["std"] == pytest.approx(0.05)
    assert record["summary"]["test"]["entities"]["micro"]["recall"] == {"mean": 0.5, "std": 0.0, "n": 3}
    assert record["by_seed"] is None
    assert "seed-1: hello from seed-1" in shown
    assert "seed-1: step 4 of 4  loss 1  dev NER 20.00  RE 20.00" in shown
    assert "seed-2: complete (3 of 3 complete)" in shown
    folder = RunsFolder(tmp_path / "runs")
    assert [run["ceiling"] for run in record["runs"]] == [None] * 3, "runs of earlier versions do not say"
    scores = make_scores(0.9)
    loss = Loss("in no window", 1, 2)
    ceiling = Ceiling(scores.entities, scores.relations, scores.relations_strict, losses=(loss,))
    best = {"dev": ceiling_record(ceiling)}
    result = folder.run(folder.read().runs[1]).result
    result.write_text(json.dumps({**json.loads(result.read_text()), "ceiling": best}))
    again = Runs.read(folder.path, folder.read()).to_dict()
    assert [run["ceiling"] for run in again["runs"]] == [None, best, None]


@pytest.mark.usefixtures("deeds")
def test_folds_have_means_for_each_seed(small_corpus: Path, tiny: Tiny, tmp_path: Path) -> None:
    start_runs(tmp_path / "runs", small_corpus, tiny(), RunsRequest(n_runs=2, folds=2, device="cpu", jobs=2))
    record, _ = complete(tmp_path / "runs")
    # dev F1 is 0.11 and 0.12 for seed 0 on the two folds, 0.21 and 0.22 for seed 1
    by_seed = record["by_seed"]
    assert [seed["dev"]["entities"]["micro"]["f1"] for seed in by_seed["seeds"]] == pytest.approx([0.115, 0.215])
    assert by_seed["summary"]["dev"]["entities"]["micro"]["f1"] == pytest.approx(
        {"mean": 0.165, "std": 0.1 / 2**0.5, "n": 2}
    )
    assert record["summary"]["dev"]["entities"]["micro"]["f1"]["n"] == 4
    assert [(run["fold"], run["seed"]) for run in record["runs"]] == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_run_that_fails_does_not_stop_the_others_and_can_be_made_good(
    deeds: Callable[[str], None], small_corpus: Path, tiny: Tiny, tmp_path: Path
) -> None:
    deeds("0:fail,1:die")
    start_runs(tmp_path / "runs", small_corpus, tiny(), RunsRequest(n_runs=3, device="cpu", jobs=1))
    record, shown = complete(tmp_path / "runs")
    assert record["complete"] is False
    assert [run["name"] for run in record["runs"]] == ["seed-2"]
    first, second = record["missing"]
    assert first["status"] == "failed"
    assert first["message"] == "the moon is full over seed-0"
    assert (tmp_path / "runs" / first["log"]).read_text() == "Traceback: something\n"
    assert "it was killed" in second["message"]
    assert "seed-0: failed: the moon is full" in shown
    deeds("")
    times = (tmp_path / "runs/seed-2/times.txt").read_text()
    record, shown = complete(tmp_path / "runs")
    assert record["complete"] is True
    assert record["missing"] == []
    assert "seed-2" not in shown
    assert (tmp_path / "runs/seed-2/times.txt").read_text() == times, "a run that was complete was made again"


def times(path: Path) -> tuple[float, float]:
    first, last = path.read_text().splitlines()
    return float(first), float(last)


@pytest.mark.parametrize(("jobs", "together"), [(1, False), (2, True)])
def test_jobs_says_how_many_go_on_at_once(
    deeds: Callable[[str], None], small_corpus: Path, tiny: Tiny, tmp_path: Path, jobs: int, together: bool
) -> None:
    deeds("0:slow,1:slow")
    start_runs(tmp_path / "runs", small_corpus, tiny(), RunsRequest(n_runs=2, device="cpu", jobs=jobs))
    complete(tmp_path / "runs")
    first, second = (times(tmp_path / "runs" / name / "times.txt") for name in ("seed-0", "seed-1"))
    assert (second[0] < first[1]) is together


def test_stop_reaches_all_runs_once_and_they_can_go_on(
    deeds: Callable[[str], None], small_corpus: Path, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deeds("0:wait,1:wait")
    start_runs(tmp_path / "runs", small_corpus, tiny(), RunsRequest(n_runs=3, device="cpu", jobs=2))
    hear = parallel.Workers.hear

    def stop_when_both_wait(self: parallel.Workers, seconds: float) -> object:
        waiting = [(tmp_path / "runs" / name / "waits") for name in ("seed-0", "seed-1")]
        if all(path.exists() for path in waiting):
            for path in waiting:
                path.unlink()
            os.kill(os.getpid(), signal.SIGINT)
        return hear(self, seconds)

    with monkeypatch.context() as patch:
        patch.setattr(parallel.Workers, "hear", stop_when_both_wait)
        with pytest.raises(TrainingStopped, match=r"0 of 3 runs are complete.*--resume"):
            complete(tmp_path / "runs")
    assert (tmp_path / "runs/seed-0/saved").exists()
    assert (tmp_path / "runs/seed-1/saved").exists()
    assert not (tmp_path / "runs/seed-2/times.txt").exists(), "a run was begun after the stop"
    assert not (tmp_path / "runs/results.json").exists()
    deeds("")
    assert complete(tmp_path / "runs")[0]["complete"] is True


def test_two_processes_do_not_go_on_with_the_same_runs(small_corpus: Path, tiny: Tiny, tmp_path: Path) -> None:
    start_runs(tmp_path / "runs", small_corpus, tiny(), RunsRequest(n_runs=2, device="cpu"))
    with (
        RunFolder(tmp_path / "runs").locked(lambda _: None),
        pytest.raises(RelatumError, match="another process is training here"),
    ):
        complete_runs(tmp_path / "runs")


def test_run_folder_that_was_not_written_whole_is_begun_again(small_corpus: Path, tiny: Tiny, tmp_path: Path) -> None:
    plan = start_runs(tmp_path / "runs", small_corpus, tiny(), RunsRequest(n_runs=1, device="cpu"))
    (tmp_path / "runs/seed-0").mkdir()
    (tmp_path / "runs/seed-0/.run.json.x.partial").write_text("{")
    RunsFolder(tmp_path / "runs").prepare(plan)
    assert RunFolder(tmp_path / "runs/seed-0").read().config.training.seed == 0


def test_runs_killed_in_the_middle_end_as_single_runs_do(small_corpus: Path, tiny: Tiny, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    settings = [word for setting in (*TINY, "training.sizes=given") for word in ("--set", setting)]
    command = [sys.executable, "-m", "relatum", "train", str(small_corpus), "--out", str(runs), "--runs", "2"]
    with subprocess.Popen([*command, "--jobs", "1", "--device", "cpu", *settings], stderr=subprocess.DEVNULL) as parent:
        log = runs / "seed-0" / "log.jsonl"
        until = time.monotonic() + 300
        while not log.exists() or not log.read_text():
            assert parent.poll() is None
            assert time.monotonic() < until
            time.sleep(0.003)
        parent.kill()
    assert not (runs / "results.json").exists()
    record, _ = complete(runs)
    assert record["complete"] is True
    for seed in (0, 1):
        config = tiny(f"training.seed={seed}")
        data = load_training_data(small_corpus, config)
        single = RunRecord(config, str(small_corpus), None, None, "cpu", "", data.fingerprint())
        train(data, single, tmp_path / f"single-{seed}", device=torch.device("cpu"), monitor=Silent())
        one, two = (
            path / "model" / "model.safetensors" for path in (runs / f"seed-{seed}", tmp_path / f"single-{seed}")
        )
        assert one.read_bytes() == two.read_bytes()
        result = json.loads((tmp_path / f"single-{seed}" / "result.json").read_text())
        kept = record["runs"][seed]
        assert kept["test"]["entities"]["micro"]["f1"] == result["test"]["entities"]["micro"]["f1"]
        assert kept["best"] == result["best"]
    assert "step 12 of 12" in (runs / "seed-0" / LOG).read_text()
