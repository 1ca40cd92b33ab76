"""A table of real runs, tiny ones: gold entities, and a process that is killed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from relatum.lab.tables.making import make_tables
from relatum.lab.tables.measuring import GOLD_SCORES
from relatum.lab.tables.selection import Request
from relatum.training.folder import RunFolder

from .conftest import TINY


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.slow
def test_gold_entities_are_given_to_models_that_were_trained_without(news: Path, tmp_path: Path) -> None:
    news = Path(shutil.copytree(news, tmp_path / "news"))
    first, *others = (news / "dev.jsonl").read_text(encoding="utf-8").splitlines()
    crowded = json.loads(first)
    crowded["entities"].append({**crowded["entities"][0], "id": "again", "label": "Other"})
    (news / "dev.jsonl").write_text("\n".join([json.dumps(crowded), *others]) + "\n", encoding="utf-8")
    wanted = Request(
        3,
        (str(news),),
        rows=("default",),
        n_runs=1,
        with_test=False,
        steps=2,
        overrides=(*TINY, "model.n_layers=1", "data.overlaps=keep-longest"),
    )
    (made,) = make_tables([wanted], tmp_path, device="cpu", jobs=1)
    assert made.record.complete is True
    (default,) = made.record.rows
    run = tmp_path / "runs" / default.folder / "seed-0"
    scores = json.loads((run / GOLD_SCORES).read_text())
    assert list(scores) == ["dev"]
    entities = scores["dev"]["entities"]["micro"]
    assert entities["precision"] == 1.0, "the gold entities were not given"
    assert entities["recall"] == 1 - 1 / entities["support"], "the entity that cannot be given counts as missed"
    assert default.measured["re_gold"].mean == 100 * scores["dev"]["relations"]["micro"]["f1"]
    result = json.loads((run / "result.json").read_text())
    best = result["ceiling"]["dev"]["entities"]["micro"]
    assert best["recall"] == entities["recall"]
    assert default.ceiling == {"ner": 100 * best["f1"]}
    assert result["test"] is None
    assert result["data"]["parts"]["test"]["sentences"] == 0


@pytest.mark.slow
def test_table_goes_on_after_its_process_was_killed(news: Path, tmp_path: Path) -> None:
    settings = (*TINY, "model.n_layers=1", "training.evaluate_every=50")
    overrides = [word for one in settings for word in ("--set", one)]
    command = ["reproduce", "5", "--corpus", str(news), "--row", "default", "--runs", "1", "--steps", "200", "--dev"]
    command += ["--out", str(tmp_path / "out"), "--device", "cpu", "--jobs", "1", *overrides]
    process = subprocess.Popen(
        [sys.executable, "-m", "relatum", *command], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 300  # to import torch takes half a minute on a busy machine
    while not (logs := list((tmp_path / "out").glob("runs/*/seed-0/log.jsonl"))) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    run = logs[0].parent
    assert not (run / "result.json").exists()
    record = RunFolder(run).read()
    wanted = Request(5, (str(news),), rows=("default",), n_runs=1, with_test=False, steps=200, overrides=settings)
    (made,) = make_tables([wanted], tmp_path / "out", device="cpu", jobs=1)
    assert made.record.complete is True
    assert made.record.rows[0].folder == run.parent.name
    assert RunFolder(run).read() == record
    steps = [json.loads(line)["step"] for line in (run / "log.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps)), "evaluations were made twice"
    assert steps[-1] == 200
