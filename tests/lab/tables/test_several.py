"""Several tables at once, and tables that are not complete, made of runs that only pretend to train."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from relatum.cli.runs_screen import RunsScreen
from relatum.config import TextConfig
from relatum.errors import RelatumError
from relatum.lab.tables import making, scoring
from relatum.lab.tables.making import WrittenTable, make_tables, plan_tables
from relatum.lab.tables.measuring import GOLD_SCORES, write_gold_scores
from relatum.lab.tables.record import TableRecord
from relatum.lab.tables.selection import Request, share_rows
from relatum.scores import Scores
from relatum.training.folder import RunFolder
from relatum.training.result import RunResult
from relatum.training.runs import parallel

from .conftest import TINY

pytestmark = pytest.mark.usefixtures("deeds")


def requests(*tables: int, news: Path, rows: tuple[str, ...] = (), **values: Any) -> list[Request]:
    given = {"n_runs": 1, "steps": 40, "overrides": TINY, "rows": rows, **values}
    return share_rows([Request(table, (str(news),), **given) for table in tables])


def make(wanted: list[Request], out: Path, jobs: int = 2, **options: Any) -> tuple[list[WrittenTable], str]:
    shown = io.StringIO()
    console = Console(file=shown, width=200)
    return make_tables(wanted, out, device="cpu", jobs=jobs, monitor=RunsScreen(console), **options), shown.getvalue()


def statuses(made: WrittenTable) -> dict[str, str]:
    return {row.key: row.status for row in made.record.rows}


def fake_scores(folder: RunFolder, text: TextConfig, device: str | None) -> dict[str, Scores]:
    del text, device
    return RunResult.read(folder.result).scored


def test_runs_that_tables_share_are_made_once_in_one_pool(news: Path, tmp_path: Path) -> None:
    wanted = requests(5, 8, news=news, rows=("default", "layer-only", "cnn-1"), n_runs=2)
    (fifth, eighth), shown = make(wanted, tmp_path / "both", jobs=1)
    begun = [line.partition(":")[0] for line in shown.splitlines() if line.endswith("begun")]
    rows = [(name.partition("/")[0].rpartition("-")[0], name.rpartition("-")[2]) for name in begun]
    first = ["news-default", "news-layer-only", "news-cnn-1"]
    assert rows == [(name, "0") for name in first] + [(name, "1") for name in first]
    assert "(6 of 6 complete)" in shown
    assert statuses(fifth) == {"default": "complete", "layer-only": "complete"}
    assert statuses(eighth) == {"layer-only": "complete", "default": "complete", "cnn-1": "complete"}


def test_table_made_with_others_is_the_one_made_alone(news: Path, tmp_path: Path) -> None:
    both, _ = make(requests(5, 9, news=news), tmp_path / "both", command=lambda one: f"table {one.table}")
    for table, made in zip((5, 9), both, strict=True):
        (alone,), _ = make(requests(table, news=news), tmp_path / "alone", command=lambda one: f"table {one.table}")
        for suffix in (".json", ".md", ".csv"):
            assert alone.path.with_suffix(suffix).read_bytes() == made.path.with_suffix(suffix).read_bytes()


def test_rows_with_the_same_settings_have_one_folder_before_any_is_made(news: Path, tmp_path: Path) -> None:
    overrides = (*TINY, "model.n_layers=1", "model.share_layers=false")
    (rows,) = plan_tables(requests(4, news=news, overrides=overrides), tmp_path)
    assert len({row.folder.path for _, row in rows if row is not None}) == 1
    (made,), shown = make(requests(4, news=news, overrides=overrides), tmp_path)
    assert shown.count("begun") == 1
    assert set(statuses(made).values()) == {"complete"}


def test_named_rows_are_those_of_the_tables_that_have_them(news: Path) -> None:
    assert [(one.table, one.rows) for one in requests(3, 5, 8, news=news, rows=("layer-only", "cnn-1"))] == [
        (5, ("layer-only",)),
        (8, ("layer-only", "cnn-1")),
    ]
    with pytest.raises(RelatumError, match=r"--row diagonal: none of the tables has such a row\. Table 5 has unidir"):
        requests(5, 8, news=news, rows=("default", "diagonal"))


def test_tables_are_written_after_every_run(news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[int, list[int]]] = []
    write = making.write_table

    def note(path: Path, record: TableRecord) -> None:
        written.append((record.table, [len(row.runs) for row in record.rows]))
        write(path, record)

    monkeypatch.setattr(making, "write_table", note)
    make(requests(5, 9, news=news, rows=("default", "layer-only")), tmp_path, jobs=1)
    # The row that both have, then the other; then both at the end. Table 5 has the default row, and layer-only below.
    assert written == [(5, [1, 0]), (9, [1]), (5, [1, 1]), (5, [1, 1]), (9, [1])]


def test_table_that_cannot_be_written_meanwhile_does_not_stop_runs(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = making.write_table
    said: list[str] = []

    def full_disk_once(path: Path, record: TableRecord) -> None:
        if not said:
            raise OSError("no space left")
        write(path, record)

    monkeypatch.setattr(making, "write_table", full_disk_once)
    (made,), _ = make(requests(5, news=news, rows=("default", "layer-only")), tmp_path, jobs=1, say=said.append)
    assert said == ["Table 5 is not written while runs go on: no space left"]
    assert made.record.complete is True


def test_as_is_makes_the_tables_of_the_runs_that_are_there_and_runs_nothing(news: Path, tmp_path: Path) -> None:
    make(requests(5, news=news, rows=("default",)), tmp_path)
    make(requests(8, news=news, rows=("cnn-1", "cnn-3"), n_runs=2), tmp_path)
    wanted = requests(5, 8, news=news, rows=("default", "cnn-1", "layer-only"), n_runs=2)
    (fifth, eighth), shown = make(wanted, tmp_path, as_is=True)
    assert shown == ""
    assert statuses(fifth) == {"default": "partial", "layer-only": "not run"}
    assert statuses(eighth) == {"default": "partial", "layer-only": "not run", "cnn-1": "complete"}
    default = fifth.record.rows[0]
    assert (default.n_wanted, default.measured["ner"].n, default.measured["ner"].std) == (2, 1, None)
    text = fifth.path.with_suffix(".md").read_text()
    assert "Not complete: 3 of 4 runs are missing" in text
    assert "1 of 2 (not complete)" in text
    assert "not run, 0 of 2 runs are complete" in text
    assert not list(tmp_path.glob("runs/*layer-only*"))


def test_as_is_without_any_run_names_the_cure(news: Path, tmp_path: Path) -> None:
    make(requests(5, news=news, rows=("default",)), tmp_path)
    with pytest.raises(RelatumError, match="no run of these rows is complete; give the data and settings"):
        make(requests(5, news=news, rows=("default",), steps=41), tmp_path, as_is=True)


def test_models_are_scored_with_gold_entities_while_others_are_trained(
    deeds: Callable[[str], None], news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run waits until it is stopped, which happens when the scores of the first are written."""
    monkeypatch.setattr(scoring, "score_with_gold_entities", fake_scores)
    deeds("diagonal:tick")

    def write_and_stop(folder: RunFolder, scores: dict[str, Scores]) -> None:
        write_gold_scores(folder, scores)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(scoring, "write_gold_scores", write_and_stop)
    (third, fifth), _ = make(requests(3, 5, news=news, rows=("default", "diagonal")), tmp_path, jobs=1)
    assert third.stopped
    assert statuses(third) == {"default": "complete", "diagonal": "not run"}
    assert third.record.rows[0].measured["re_gold"].n == 1
    assert statuses(fifth) == {"default": "complete"}


def test_scores_with_gold_entities_that_fail_leave_tables_without_them_alone(news: Path, tmp_path: Path) -> None:
    said: list[str] = []
    (third, fifth), _ = make(requests(3, 5, news=news, rows=("default",)), tmp_path, say=said.append)  # no model
    assert statuses(third) == {"default": "failed"}
    assert statuses(fifth) == {"default": "complete"}
    assert len(said) == 1
    assert "no scores with gold entities" in said[0]


def test_models_that_are_not_yet_scored_are_scored_later_and_until_then_named(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "score_with_gold_entities", fake_scores)
    make(requests(5, news=news, rows=("default",), n_runs=2), tmp_path)
    wanted = requests(3, news=news, rows=("default",), n_runs=2)
    (made,), _ = make(wanted, tmp_path, as_is=True)
    row = made.record.rows[0]
    assert (row.status, row.message) == ("partial", "2 of 2 models are not yet scored with the gold entities")
    assert not list(tmp_path.glob(f"runs/*/*/{GOLD_SCORES}"))
    (made,), shown = make(wanted, tmp_path)
    assert shown == ""
    assert (made.record.complete, made.record.rows[0].measured["re_gold"].n) == (True, 2)


def test_tables_of_a_process_that_was_killed_have_what_was_complete(
    deeds: Callable[[str], None], news: Path, tmp_path: Path
) -> None:
    deeds("layer-only:wait")
    code = (
        "import sys; from relatum.training.runs import parallel; from relatum.cli.app import app;"
        f"parallel.WORKER = {parallel.WORKER!r}; app()"
    )
    settings = [word for one in TINY for word in ("--set", one)]
    options = ["--row", "default", "--row", "layer-only", "--runs", "1", "--steps", "40", "--jobs", "1", *settings]
    command = ["reproduce", "5", "8", "--corpus", str(news), "--out", str(tmp_path), "--device", "cpu", *options]
    process = subprocess.Popen([sys.executable, "-c", code, *command], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not (waiting := list(tmp_path.glob("runs/*/seed-0/waits"))) and time.monotonic() < until:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert waiting
    for number in (5, 8):
        record = TableRecord.read(tmp_path / f"table-{number}-news-none-test.json")
        assert {row.key: row.status for row in record.rows} == {"default": "complete", "layer-only": "not run"}
    deeds("")
    made, shown = make(requests(5, 8, news=news, rows=("default", "layer-only")), tmp_path)
    assert shown.count("begun") == 1
    assert [one.record.complete for one in made] == [True, True]
