"""Tables made of runs that only pretend to train: what is run, reused, taken up again, and lost."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from relatum.cli.runs_screen import RunsScreen
from relatum.config import load_config
from relatum.errors import RelatumError
from relatum.lab.tables.corpora import CorpusPaths
from relatum.lab.tables.making import WrittenTable, make_tables, plan_table
from relatum.lab.tables.record import RowRecord
from relatum.lab.tables.recording import encoder_title
from relatum.lab.tables.selection import Request
from relatum.training.folder import RunFolder
from relatum.training.runs import parallel
from relatum.training.runs.plan import RunsFolder

from .conftest import TINY

pytestmark = pytest.mark.usefixtures("deeds")


def request(table: int, news: Path, **values: Any) -> Request:
    given = {"corpora": (str(news),), "n_runs": 1, "steps": 40, "overrides": TINY, **values}
    return Request(table, **given)


def make(wanted: Request, out: Path, jobs: int = 2) -> tuple[WrittenTable, str]:
    shown = io.StringIO()
    (made,) = make_tables([wanted], out, device="cpu", jobs=jobs, monitor=RunsScreen(Console(file=shown, width=200)))
    return made, shown.getvalue()


def rows(made: WrittenTable) -> dict[str, RowRecord]:
    return {row.key: row for row in made.record.rows}


def test_table_has_mean_and_deviation_of_every_row_beside_published_numbers(news: Path, tmp_path: Path) -> None:
    made, _ = make(request(5, news, n_runs=2), tmp_path)
    assert made.record.complete is True
    row = rows(made)["layer-only"]
    mean = 100 * (0.01 * len("layer-only") + 0.15) / 2
    assert row.measured["ner"].mean == pytest.approx(mean)
    assert row.measured["ner"].std == pytest.approx(5 / 2**0.5)
    assert row.measured["ner"].n == 2
    assert row.published == {"ner": 89.3, "re": 63.9}
    assert row.corpus == "news"
    assert [run.seed for run in row.runs] == [0, 1]
    assert made.path == tmp_path / "table-5-news-none-test.json"
    assert json.loads(made.path.read_text()) == made.record.to_dict()
    assert made.path.with_suffix(".md").exists()
    assert made.path.with_suffix(".csv").exists()


def begun(shown: str) -> list[str]:
    """The seeds of the runs in the order in which they begin."""
    return [line.split("/")[1].partition(":")[0] for line in shown.splitlines() if line.endswith("begun")]


def test_rows_take_turns_so_that_each_has_its_first_run_early(news: Path, tmp_path: Path) -> None:
    _, shown = make(request(5, news, n_runs=2, rows=("default", "layer-only")), tmp_path, jobs=1)
    assert begun(shown) == ["seed-0", "seed-0", "seed-1", "seed-1"]


def test_row_without_any_run_comes_before_second_runs_of_others(news: Path, tmp_path: Path) -> None:
    make(request(5, news, rows=("unidirectional",)), tmp_path)
    _, shown = make(request(5, news, n_runs=2, rows=("unidirectional", "default")), tmp_path, jobs=1)
    assert begun(shown) == ["seed-0", "seed-1", "seed-1"]
    assert shown.splitlines()[0].startswith("news-default-")


def test_what_is_measured_is_reused_by_the_same_and_by_other_tables(news: Path, tmp_path: Path) -> None:
    first, shown = make(request(5, news), tmp_path)
    assert shown.count("begun") == 7
    again, shown = make(request(5, news), tmp_path)
    assert shown == ""
    assert again.record == first.record
    # Three of the six rows of Table 8 that Table 5 does not have.
    other = request(8, news, rows=("default", "layer-only", "cnn-1", "cnn-3"))
    made, shown = make(other, tmp_path)
    assert shown.count("begun") == 2
    assert rows(made)["default"].runs == rows(first)["default"].runs


def test_more_runs_are_added_to_those_that_are_there(news: Path, tmp_path: Path) -> None:
    make(request(5, news, rows=("default",)), tmp_path)
    made, shown = make(request(5, news, rows=("default",), n_runs=3), tmp_path)
    assert shown.count("begun") == 2
    row = rows(made)["default"]
    assert row.measured["ner"].n == 3
    folder = RunsFolder(tmp_path / "runs" / row.folder)
    assert [run.name for run in folder.read().runs] == ["seed-0", "seed-1", "seed-2"]
    assert json.loads(folder.results.read_text())["complete"] is True
    fewer, shown = make(request(5, news, rows=("default",), n_runs=1), tmp_path)
    assert shown == ""
    assert rows(fewer)["default"].measured["ner"].n == 1


@pytest.mark.parametrize(
    "change",
    [{"steps": 41}, {"overrides": (*TINY, "model.dropout=0.1")}, {"with_test": False}],
    ids=["steps", "settings", "dev"],
)
def test_other_settings_are_never_taken_for_what_was_measured(
    change: dict[str, Any], news: Path, tmp_path: Path
) -> None:
    make(request(5, news, rows=("default",)), tmp_path)
    _, shown = make(request(5, news, rows=("default",), **change), tmp_path)
    assert shown.count("begun") == 1


def test_other_data_are_never_taken_for_what_was_measured(news: Path, tmp_path: Path) -> None:
    changed = tmp_path / "news"
    changed.mkdir()
    for path in news.iterdir():
        (changed / path.name).write_bytes(path.read_bytes())
    make(request(5, changed, rows=("default",)), tmp_path)
    lines = (changed / "train.jsonl").read_text().splitlines(keepends=True)
    (changed / "train.jsonl").write_text("".join(lines[:-1]))
    _, shown = make(request(5, changed, rows=("default",)), tmp_path)
    assert shown.count("begun") == 1


def test_row_that_fails_leaves_the_others_and_can_be_made_good(
    deeds: Callable[[str], None], news: Path, tmp_path: Path
) -> None:
    deeds("layer-only:fail")
    made, _ = make(request(5, news), tmp_path)
    assert made.record.complete is False
    failed = rows(made)["layer-only"]
    assert (failed.status, failed.message) == ("failed", "the moon is full over layer-only")
    assert failed.measured == {}
    assert [row.status for key, row in rows(made).items() if key != "layer-only"] == ["complete"] * 6
    deeds("")
    made, shown = make(request(5, news), tmp_path)
    assert shown.count("begun") == 1
    assert made.record.complete is True


def test_table_that_is_stopped_shows_what_it_has_and_goes_on(
    deeds: Callable[[str], None], news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deeds("layer-only:wait")
    hear = parallel.Workers.hear

    def stop_when_it_waits(self: parallel.Workers, seconds: float) -> object:
        for path in (tmp_path / "runs").glob("*/seed-0/waits"):
            path.unlink()
            os.kill(os.getpid(), signal.SIGINT)
        return hear(self, seconds)

    wanted = request(5, news, rows=("default", "layer-only", "without-row"))
    with monkeypatch.context() as patch:
        patch.setattr(parallel.Workers, "hear", stop_when_it_waits)
        made, _ = make(wanted, tmp_path, jobs=1)
    assert made.stopped is True
    assert [row.status for row in made.record.rows] == ["complete", "not run", "not run"]
    assert made.path.exists()
    assert "Not complete: 2 of 3 runs are missing" in made.path.with_suffix(".md").read_text()
    deeds("")
    made, shown = make(wanted, tmp_path)
    assert shown.count("begun") == 2
    assert made.record.complete is True


def test_model_that_was_trained_with_gold_entities_has_been_scored_with_them(news: Path, tmp_path: Path) -> None:
    made, _ = make(request(3, news, rows=("without-entity-loss",)), tmp_path)
    row = rows(made)["without-entity-loss"]
    assert row.measured.keys() == {"re_gold"}
    assert row.measured["re_gold"].mean == pytest.approx((len("without-entity-loss") + 10) / 2)


def test_scores_with_gold_entities_that_fail_are_noted_with_their_row(news: Path, tmp_path: Path) -> None:
    made, _ = make(request(3, news, rows=("default", "without-relation-loss")), tmp_path)  # there is no model
    assert [row.status for row in made.record.rows] == ["failed", "complete"]
    assert "no scores with gold entities" in str(rows(made)["default"].message)
    assert rows(made)["default"].measured.keys() == {"ner", "re"}


def test_process_that_was_killed_leaves_what_the_same_command_takes_up(news: Path, tmp_path: Path) -> None:
    planned = [row for _, row in plan_table(request(5, news, rows=("default",)), tmp_path, "cpu") if row]
    (tmp_path / "runs" / planned[0].folder.path.name / "seed-0").mkdir(parents=True)
    (tmp_path / "runs" / planned[0].folder.path.name / "seed-0" / ".run.json.x.partial").touch()
    made, _ = make(request(5, news, rows=("default",)), tmp_path)
    assert made.record.complete is True


def test_dev_alone_is_scored_and_test_is_not_read(news: Path, tmp_path: Path) -> None:
    folder = tmp_path / "news"
    folder.mkdir()
    for name in ("train", "dev"):
        (folder / f"{name}.jsonl").write_bytes((news / f"{name}.jsonl").read_bytes())
    (folder / "test.jsonl").write_text('{"id": "a", "words": "nonsense"}\n')
    made, _ = make(request(5, folder, rows=("default",), with_test=False), tmp_path)
    row = rows(made)["default"]
    assert made.record.part == "dev"
    assert row.measured["ner"].mean == pytest.approx(len("default") + 10)
    record = RunFolder(tmp_path / "runs" / row.folder / "seed-0").read()
    assert record.with_test is False
    with pytest.raises(RelatumError, match="nonsense"):
        make(request(5, folder, rows=("default",)), tmp_path)


def test_runs_that_were_begun_before_test_could_be_left_out_have_it(news: Path, tmp_path: Path) -> None:
    make(request(5, news, rows=("default",)), tmp_path)
    (path,) = tmp_path.glob("runs/*/seed-0/run.json")
    values = json.loads(path.read_text())
    del values["with_test"]
    path.write_text(json.dumps(values))
    assert RunFolder(path.parent).read().with_test is True


def test_folds_are_averaged_before_seeds_are(news: Path, tmp_path: Path) -> None:
    data = tmp_path / "data" / "ade"
    data.mkdir(parents=True)
    (data / "all.jsonl").write_bytes((news / "train.jsonl").read_bytes())
    folds = [{"train": [*range(8)], "dev": [8, 9], "test": [10, 11]}, {"train": [*range(8)], "dev": [8], "test": [12]}]
    (data / "folds.json").write_text(json.dumps(folds))
    wanted = Request(
        1,
        ("ade",),
        rows=("ade+default+macro",),
        n_runs=2,
        overrides=TINY,
        paths=CorpusPaths.parse([str(tmp_path / "data")]),
    )
    made, shown = make(wanted, tmp_path)
    assert shown.count("begun") == 4
    row = rows(made)["ade+default+macro"]
    assert [run.fold for run in row.runs] == [1, 2, 1, 2]
    values = [100 * (0.07 + 0.1 * (seed + 1) + 0.015) / 2 for seed in (0, 1)]
    assert row.measured["ner"].mean == pytest.approx(sum(values) / 2)
    assert row.measured["ner"].n == 2
    one, _ = make(Request(**{**_fields(wanted), "n_folds": 1}), tmp_path)
    assert rows(one)["ade+default+macro"].measured["ner"].mean == pytest.approx(sum(values) / 2 - 0.25)


def _fields(wanted: Request) -> dict[str, Any]:
    return {name: getattr(wanted, name) for name in wanted.__slots__}


def test_rows_without_their_corpus_say_what_they_need(news: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "conll04").symlink_to(news)
    wanted = Request(1, n_runs=1, overrides=TINY, paths=CorpusPaths.parse([str(tmp_path / "data")]))
    made, _ = make(wanted, tmp_path)
    found = rows(made)
    assert found["conll04+default"].status == "complete"
    assert found["ace05+default"].status == "needs"
    assert "encoder.tuning" in str(found["ade+best-ade+macro"].message), (
        "settings that do not go with one row lose others"
    )
    assert "LDC2006T06" in str(found["ace05+default"].message)
    quoted = [row for row in made.record.rows if row.status == "quoted"]
    assert len(quoted) == 31
    macro = RunFolder(tmp_path / "runs" / found["conll04+default+macro"].folder / "seed-0").read()
    assert macro.config.training.selection == "macro"


def test_published_corpus_that_is_not_divided_is_not_divided_by_chance(news: Path, tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match="Give the published lists of its documents by --lists ace05=PATH"):
        make(request(5, news, corpora=("ace05",), paths=CorpusPaths.parse([f"ace05={news / 'train.jsonl'}"])), tmp_path)


def test_encoder_that_cannot_be_had_does_not_lose_other_rows(news: Path, tmp_path: Path) -> None:
    overrides = tuple(one for one in TINY if not one.startswith("encoder"))
    wanted = request(2, news, rows=("default", "encoder-mpnet-base"), overrides=overrides)
    os.environ["RELATUM_CACHE"] = str(tmp_path / "cache")
    try:
        made, _ = make(wanted, tmp_path)
    finally:
        del os.environ["RELATUM_CACHE"]
    assert rows(made)["default"].status == "complete"
    assert rows(made)["encoder-mpnet-base"].status == "needs"
    assert "relatum encoder fetch mpnet-base" in str(rows(made)["encoder-mpnet-base"].message)


def test_encoder_beside_another_that_cannot_be_had_is_told_before_anything_is_run(news: Path, tmp_path: Path) -> None:
    overrides = (*(one for one in TINY if not one.startswith("encoder")), 'encoder.beside=["mpnet-base"]')
    os.environ["RELATUM_CACHE"] = str(tmp_path / "cache")
    try:
        with pytest.raises(RelatumError, match="relatum encoder fetch mpnet-base"):
            make(request(2, news, rows=("default",), overrides=overrides), tmp_path)
    finally:
        del os.environ["RELATUM_CACHE"]


def test_titles_name_all_encoders() -> None:
    titles = [
        encoder_title(load_config(None, settings).encoder)
        for settings in (
            ["encoder.kind=none"],
            ["encoder.name=some/bert/"],
            ["encoder.name=some/bert", 'encoder.beside=["./other"]'],
            ["encoder.name=some/bert", "encoder.tuning=lora"],
        )
    ]
    assert titles == ["none", "bert", "bert and other", "bert, tuned (lora)"]


def test_table_of_encoders_has_rows_for_those_that_are_named(news: Path, tmp_path: Path) -> None:
    planned = plan_table(request(2, news, encoders=("mpnet-base", "some/other")), tmp_path)
    assert [selected.row.label for selected, _ in planned] == ["MPNet-base", "some/other"] * 2
    settings = [selected.settings for selected, _ in planned]
    assert [one.config.encoder.name for one in settings if one] == ["mpnet-base", "some/other"] * 2
    assert [one.config.table.attention_maps for one in settings if one] == [False, False, True, True]


def test_runs_are_what_the_command_of_their_row_would_make(news: Path, tmp_path: Path) -> None:
    from relatum.config import load_config

    made, _ = make(request(9, news, rows=("lower-triangle",)), tmp_path)
    folder = RunsFolder(tmp_path / "runs" / rows(made)["lower-triangle"].folder)
    words = shlex.split(folder.read().command)
    assert words[:3] == ["relatum", "train", str(news)]
    file = Path(words[words.index("--config") + 1])
    overrides = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    assert load_config(file, overrides) == RunFolder(folder.path / "seed-0").read().config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"table": 6}, "expected one of 1, 2, 3, 4, 5, 8, 9"),
        ({"rows": ("nonsense",)}, "has the rows unidirectional, default"),
        ({"corpora": ("conll04", "ade")}, "one corpus at a time"),
        ({"encoders": ("a", "b")}, "one encoder at a time"),
        ({"table": 1, "corpora": ("scierc",)}, "Table 1 has ace04, ace05, ade, conll04"),
        ({"overrides": (*TINY, "model.widht=3")}, "did you mean model.width"),
    ],
)
def test_mistakes_are_named_before_anything_is_run(
    values: dict[str, Any], message: str, news: Path, tmp_path: Path
) -> None:
    wanted = request(**{"table": 5, "news": news, **values})
    with pytest.raises(RelatumError, match=message):
        make(wanted, tmp_path)
    assert not (tmp_path / "runs").exists()


def test_table_of_which_no_row_can_be_run_leaves_the_one_that_is_there(news: Path, tmp_path: Path) -> None:
    def wanted(*paths: str) -> Request:
        return Request(
            3, ("ace05",), rows=("default",), n_runs=1, steps=40, overrides=TINY, paths=CorpusPaths.parse([*paths])
        )

    made, _ = make(wanted(f"ace05={news}"), tmp_path)
    before = made.path.read_bytes()
    with pytest.raises(RelatumError, match=r"none of these rows can be run; they need .*LDC2006T06"):
        make(wanted(), tmp_path)
    assert made.path.read_bytes() == before
    with pytest.raises(RelatumError, match="none of these rows can be run"):
        make(wanted(), tmp_path / "elsewhere")
    assert not list((tmp_path / "elsewhere").glob("table-*"))
