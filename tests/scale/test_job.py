"""The folder of a job: what is done is not done again, and nothing is lost or mixed up."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.scale.job import Job, JobSettings
from relatum.scale.rows import Columns
from relatum.scale.run import _for_device, extract_job
from relatum.scale.shards import ShardSize

from .jobs_here import make_texts, result_files, result_rows, run_here, write_jsonl

N_DOCUMENTS = 10


@pytest.fixture
def settings(model: str) -> JobSettings:
    return JobSettings((model,), shard=ShardSize(documents=3))


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    records = [{"id": f"d{number}", "text": text} for number, text in enumerate(make_texts(N_DOCUMENTS))]
    return write_jsonl(tmp_path / "in.jsonl", records)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_results_are_those_of_the_extractor(
    documents: Path, out: Path, settings: JobSettings, model: str, format: Any
) -> None:
    report, _ = run_here(documents, out, replace(settings, format=format))
    assert (report.documents, report.failed, report.shards, report.duplicates) == (N_DOCUMENTS, 0, 4, 0)
    assert report.finished
    extractor = Extractor.from_pretrained(model, "cpu")
    rows = result_rows(out)
    assert sum(len(row["relations"]) for row in rows)
    for number, (row, text) in enumerate(zip(rows, make_texts(N_DOCUMENTS), strict=True)):
        expected = extractor(text).to_dict()
        assert row == {
            "id": f"d{number}",
            "text": text,
            "entities": expected["entities"],
            "relations": expected["relations"],
            "error": None,
        }


def test_results_are_without_the_text_where_it_is_not_wanted(documents: Path, out: Path, settings: JobSettings) -> None:
    run_here(documents, out, replace(settings, with_text=False))
    assert list(result_rows(out)[0]) == ["id", "entities", "relations", "error"]


def test_job_that_was_stopped_goes_on_where_it_stopped(
    documents: Path, out: Path, settings: JobSettings, tmp_path: Path
) -> None:
    undisturbed = tmp_path / "undisturbed"
    run_here(documents, undisturbed, settings)
    report, read = run_here(documents, out, settings, limit=2)
    assert (report.finished, report.documents, report.shards, read) == (False, 6, 2, [0, 1])
    assert not (out / "_job" / "report.json").exists()
    report, read = run_here(documents, out, settings)
    assert (report.finished, report.documents, report.shards, read) == (True, N_DOCUMENTS, 4, [2, 3])
    assert result_files(out) == result_files(undisturbed)
    stored = json.loads((out / "_job" / "report.json").read_text())
    assert (stored["documents"], stored["finished"]) == (N_DOCUMENTS, True)
    assert run_here(documents, out, settings) == (report, [])


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"threshold": 0.5}, r"settings\.threshold was null, now 0\.5"),
        ({"batch_size": 2}, r"settings\.batch_size was null, now 2"),
        ({"max_characters": 7}, r"settings\.max_characters was 500000, now 7"),
        ({"format": "jsonl"}, r'settings\.format was "parquet", now "jsonl"'),
        ({"with_text": False}, r"settings\.with_text was true, now false"),
        ({"columns": Columns("body")}, r'settings\.columns\.text was "text", now "body"'),
        ({"shard": ShardSize(4)}, r"settings\.shard\.documents was 3, now 4"),
        ({"splitting": (("words", "whitespace"),)}, r'settings\.splitting was \[\], now \[\["words", "whitespace"\]\]'),
    ],
)
def test_folder_of_a_job_with_other_settings_is_refused_and_the_setting_is_named(
    documents: Path, out: Path, settings: JobSettings, changed: dict[str, Any], named: str
) -> None:
    run_here(documents, out, settings, limit=0)
    with pytest.raises(RelatumError, match=rf"another job was started in this folder: {named}; use the same command"):
        run_here(documents, out, replace(settings, **changed))


def test_folder_of_a_job_with_another_model_is_refused(
    documents: Path, out: Path, settings: JobSettings, other_model: Path, model: str, tmp_path: Path
) -> None:
    run_here(documents, out, settings, limit=0)
    with pytest.raises(RelatumError, match=r"another job .*settings\.models was .*small.*now .*other"):
        run_here(documents, out, replace(settings, models=(str(other_model),)))
    changing = tmp_path / "model"
    shutil.copytree(model, changing)
    settings = replace(settings, models=(str(changing),))
    run_here(documents, tmp_path / "second", settings, limit=0)
    shutil.rmtree(changing)
    shutil.copytree(other_model, changing)  # the same name, other weights
    with pytest.raises(RelatumError, match=r"another job .*: models was"):
        run_here(documents, tmp_path / "second", settings)


def test_folder_of_a_job_with_another_input_is_refused(documents: Path, out: Path, settings: JobSettings) -> None:
    run_here(documents, out, settings, limit=1)
    copy = documents.with_name("copy.jsonl")
    shutil.copy(documents, copy)
    with pytest.raises(RelatumError, match=r"another job .*: input\.url was .*in\.jsonl.* now .*copy\.jsonl"):
        run_here(copy, out, settings)
    with documents.open("a") as file:
        file.write('{"text": "more"}\n')
    with pytest.raises(RelatumError, match=r"another job .*: input\.bytes was \d+, now \d+"):
        run_here(documents, out, settings)


def test_input_of_the_same_size_that_was_written_again_is_refused(
    documents: Path, out: Path, settings: JobSettings
) -> None:
    run_here(documents, out, settings, limit=1)
    documents.write_text(documents.read_text().replace("Tom", "Tim"))
    os.utime(documents, (1, 1))
    with pytest.raises(RelatumError, match=r"another job .*: a file of the input has been written again since"):
        run_here(documents, out, settings)


def test_folder_that_holds_something_else_is_refused(documents: Path, out: Path, settings: JobSettings) -> None:
    out.mkdir()
    (out / "thesis.tex").write_text("")
    with pytest.raises(RelatumError, match=r"out: the folder holds thesis\.tex, and no job; name a new or empty"):
        run_here(documents, out, settings)


def test_job_file_that_is_damaged_is_told(documents: Path, out: Path, settings: JobSettings) -> None:
    run_here(documents, out, settings, limit=0)
    (out / "_job" / "job.json").write_text("{")
    with pytest.raises(RelatumError, match=r"_job/job\.json: not readable as JSON; remove the folder"):
        run_here(documents, out, settings)


def test_shard_without_its_file_or_entry_is_done_again(documents: Path, out: Path, settings: JobSettings) -> None:
    run_here(documents, out, settings)
    files = result_files(out)
    (out / "part-000001.parquet").unlink()
    (out / "part-000003.parquet").write_bytes(files["part-000003.parquet"][:-1])
    assert run_here(documents, out, settings)[1] == [1, 3]
    assert result_files(out) == files
    entries = out / "_job" / "shards"
    (entries / "000000.json").unlink()
    (entries / "000001.json").write_text("")
    (entries / "000002.json").write_text('{"number": 2}')
    (entries / "000003.json").write_text("[1, 2]")
    assert run_here(documents, out, settings)[1] == [0, 1, 2, 3]
    assert result_files(out) == files


def test_unfinished_files_of_killed_processes_are_removed(documents: Path, out: Path, settings: JobSettings) -> None:
    run_here(documents, out, settings, limit=2)
    drafts = [out / ".part-000002.parquet.abc.partial", out / "_job" / "shards" / ".000002.json.abc.partial"]
    for draft in drafts:
        draft.write_text("half")
    run_here(documents, out, settings)
    assert not any(draft.exists() for draft in drafts)


def test_ids_that_occur_twice_are_reported(tmp_path: Path, out: Path, settings: JobSettings) -> None:
    ids = ["a", "b", "a", "c", "b", "a", "d"]
    input = write_jsonl(tmp_path / "in.jsonl", [{"id": id, "text": "Tom met Ann."} for id in ids])
    report, _ = run_here(input, out, settings)
    assert (report.documents, report.duplicates, set(report.duplicate_ids)) == (7, 2, {"a", "b"})
    assert [row["id"] for row in result_rows(out)] == ids  # none is left out


def test_file_with_rows_missing_is_an_error(documents: Path, out: Path, settings: JobSettings) -> None:
    settings = replace(settings, format="jsonl")
    run_here(documents, out, settings)
    path = out / "part-000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]) + lines[-2][:-1] + b" " * len(lines[-1]) + b"\n")
    with pytest.raises(RelatumError, match=r"part-000001\.jsonl: found 2 documents, expected 3; remove the file and"):
        run_here(documents, out, settings)
    path.unlink()
    assert run_here(documents, out, settings)[1] == [1]


def test_file_that_is_damaged_is_an_error_that_names_it(documents: Path, out: Path, settings: JobSettings) -> None:
    run_here(documents, out, settings)
    path = out / "part-000002.parquet"
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(RelatumError, match=r"part-000002\.parquet"):
        run_here(documents, out, settings)


def test_kept_columns_of_parquet_keep_their_types(tmp_path: Path, out: Path, settings: JobSettings) -> None:
    columns = {
        "year": pa.array([1999, None], pa.int16()),
        "day": pa.array([date(1999, 1, 2), None]),
        "time": pa.array([datetime(1999, 1, 2, 3, 4, 5, 6, UTC), None], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("1.50"), None]),
        "tags": pa.array([["a", "b"], None]),
        "author": pa.array([{"name": "Ann", "age": 7}, None]),
        "raw": pa.array([b"\xff\x00", None]),
        "is_new": pa.array([True, None]),
    }
    table = pa.table({**columns, "text": ["Tom met Ann.", "Ann met Tom."]})
    pq.write_table(table, tmp_path / "in.parquet")
    run_here(tmp_path / "in.parquet", out, replace(settings, columns=Columns(keep=tuple(columns))))
    found = pq.read_table(out / "part-000000.parquet")
    assert found.column_names == ["id", *columns, "text", "entities", "relations", "error"]
    for name in columns:
        assert found.schema.field(name).type == table.schema.field(name).type
        assert found[name].to_pylist() == table[name].to_pylist()
    lines = replace(settings, format="jsonl", columns=Columns(keep=tuple(columns)))
    run_here(tmp_path / "in.parquet", tmp_path / "lines", lines)
    row = result_rows(tmp_path / "lines")[0]
    assert (row["year"], row["day"], row["tags"], row["is_new"]) == (1999, "1999-01-02", ["a", "b"], True)


def test_kept_values_of_json_are_strings_in_parquet_and_themselves_in_jsonl(
    tmp_path: Path, out: Path, settings: JobSettings
) -> None:
    values: list[object] = ["Ä", 7, 1.5, True, None, ["a"], {"b": [1]}, "x\ud800"]
    input = write_jsonl(tmp_path / "in.jsonl", [{"text": "Tom met Ann.", "meta": value} for value in values])
    settings = replace(settings, columns=Columns(keep=("meta",)))
    run_here(input, out, settings)
    expected = ["Ä", "7", "1.5", "true", None, '["a"]', '{"b": [1]}', "x?"]
    assert [row["meta"] for row in result_rows(out)] == expected
    run_here(input, tmp_path / "lines", replace(settings, format="jsonl"))
    assert [row["meta"] for row in result_rows(tmp_path / "lines")] == [*values[:-1], "x?"]


def test_files_of_a_job_with_a_kept_column_of_several_types_are_refused(
    tmp_path: Path, out: Path, settings: JobSettings
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, year in (("a", 1999), ("b", "in 1999")):
        pq.write_table(pa.table({"text": ["Tom met Ann."], "year": [year]}), folder / f"{name}.parquet")
    with pytest.raises(RelatumError, match="year"):
        run_here(folder, out, replace(settings, columns=Columns(keep=("year",))))


@pytest.mark.parametrize("name", ["id", "text", "entities", "relations", "error"])
def test_kept_column_with_a_name_of_the_results_is_refused(name: str) -> None:
    with pytest.raises(RelatumError, match=f"--keep {name}: the results have a column of that name; rename it"):
        JobSettings(columns=Columns(keep=("title", name)))


def test_kept_column_that_is_not_there_is_refused(tmp_path: Path, out: Path, settings: JobSettings) -> None:
    pq.write_table(pa.table({"text": ["x"]}), tmp_path / "in.parquet")
    with pytest.raises(RelatumError, match=r"in\.parquet: there is no column 'title' \(--keep\)"):
        run_here(tmp_path / "in.parquet", out, replace(settings, columns=Columns(keep=("title",))))


def test_folder_of_results_is_one_table_for_other_programs(documents: Path, out: Path, settings: JobSettings) -> None:
    run_here(documents, out, settings)
    frame = pd.read_parquet(out)
    assert list(frame["id"]) == [f"d{number}" for number in range(N_DOCUMENTS)]
    assert list(frame.columns) == ["id", "text", "entities", "relations", "error"]
    assert frame["error"].isna().all()
    assert frame["entities"][0][0]["label"] in ("Loc", "Peop")


def test_results_are_readable_by_duckdb(documents: Path, out: Path, settings: JobSettings) -> None:
    duckdb = pytest.importorskip("duckdb")
    run_here(documents, out, settings)
    query = f"select id, e.text, e.label from '{out}/*.parquet', unnest(entities) as t(e) where error is null"
    n_entities = sum(len(row["entities"]) for row in result_rows(out))
    assert len(duckdb.sql(query).fetchall()) == n_entities > 0


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_documents_that_cannot_be_read_have_rows_with_the_reason(
    tmp_path: Path, out: Path, settings: JobSettings, format: Any
) -> None:
    lines = [
        b'{"text": "Tom met Ann."}',
        b'{"text": null}',
        b'{"text": "a\\ud800b"}',
        b'{"text": "\xff"}',
        b"{",
        b'{"text": 7}',
        json.dumps({"text": "word " * 200_000}).encode(),
        b'{"text": ""}',
    ]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines))
    report, _ = run_here(tmp_path / "in.jsonl", out, replace(settings, format=format))
    assert (report.documents, report.failed) == (8, 6)
    rows = result_rows(out)
    assert [row["id"] for row in rows] == [f"in.jsonl:{line}" for line in range(1, 9)]
    assert [row["error"] is None for row in rows] == [True, *[False] * 6, True]
    for row in rows:
        assert (row["entities"] is None) == (row["relations"] is None) == (row["error"] is not None)
    assert rows[1]["error"] == "the text is missing"
    assert "lone surrogate U+D800" in rows[2]["error"]
    assert "not UTF-8" in rows[3]["error"]
    assert "of type int" in rows[5]["error"]
    assert "1,000,000 characters; at most 500,000" in rows[6]["error"]


@pytest.mark.parametrize("data", ["", "\n\n \n"])
def test_input_without_documents_is_done_at_once(tmp_path: Path, out: Path, settings: JobSettings, data: str) -> None:
    (tmp_path / "in.jsonl").write_text(data)
    report, _ = run_here(tmp_path / "in.jsonl", out, settings)
    assert (report.documents, report.shards, report.finished) == (0, 0, True)


def test_share_that_is_done_grows_to_one(tmp_path: Path, settings: JobSettings) -> None:
    from relatum.scale.inputs import find_source
    from relatum.scale.job import Entry, Job
    from relatum.scale.storage import Storage

    write_jsonl(tmp_path / "in.jsonl", [{"text": text} for text in make_texts(20)])
    pq.write_table(pa.table({"text": make_texts(20)}), tmp_path / "in.parquet")
    for name in ("in.jsonl", "in.parquet"):
        job = Job.open(Storage(str(tmp_path / f"out-{name}")), find_source(str(tmp_path / name)), settings)
        shares = [job.share_done]
        for shard in job.pending_shards():
            job.commit(Entry(shard.number, shard.end, shard.input_bytes, shard.n_documents, 0, 0, ""))
            shares.append(job.share_done)
        assert shares == sorted(shares)
        assert shares[0] == 0
        assert shares[-1] == pytest.approx(1)


@pytest.mark.parametrize(
    ("device", "engine", "expected"),
    [("cpu", "local", ("cpu", None, 100)), ("cpu", "ray", ("cpu", None, 100)), ("cuda", "ray", ("cuda", 128, 100))],
)
def test_ray_computes_on_gpus_that_this_machine_does_not_have(device: str, engine: Any, expected: object) -> None:
    settings = _for_device(JobSettings(device=device, max_cells=100), engine)
    assert (settings.device, settings.batch_size, settings.max_cells) == expected


def test_folder_with_other_folders_in_it_is_refused(documents: Path, out: Path, settings: JobSettings) -> None:
    (out / "year=2024").mkdir(parents=True)
    with pytest.raises(RelatumError, match="the folder holds year=2024, and no job"):
        run_here(documents, out, settings)
    assert [path.name for path in out.iterdir()] == ["year=2024"]


def test_parquet_files_without_a_column_are_refused_before_anything_is_read(
    tmp_path: Path, out: Path, settings: JobSettings
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, column in (("a", "text"), ("b", "body")):
        pq.write_table(pa.table({column: ["Tom met Ann."]}), folder / f"{name}.parquet")
    with pytest.raises(RelatumError, match=r"b\.parquet: there is no column 'text'; its columns are body"):
        run_here(folder, out, settings, limit=0)
    assert not out.exists()


def test_empty_file_is_refused_by_its_name(tmp_path: Path, out: Path, settings: JobSettings) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    with pytest.raises(RelatumError, match=r"a\.parquet: cannot be read as Parquet"):
        run_here(tmp_path / "a.parquet", out, replace(settings, columns=Columns(keep=("year",))))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engine": "Ray"}, "the engine is 'Ray'; expected local or ray"),
        ({"workers": 0}, "workers is 0; expected at least 1"),
        ({"threads": -1}, "threads is -1; expected at least 1"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(
    documents: Path, out: Path, settings: JobSettings, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(RelatumError, match=message):
        extract_job(str(documents), str(out), settings, **arguments)
    assert not out.exists()


def test_settings_that_mean_nothing_are_refused() -> None:
    with pytest.raises(RelatumError, match="the format is 'csv'; expected parquet or jsonl"):
        JobSettings(format="csv")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="threshold"):
        JobSettings(threshold=5)
    with pytest.raises(TypeError, match="put a single name in a tuple"):
        JobSettings(models="news")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="put a single name in a tuple"):
        JobSettings(columns=Columns(keep="source"))  # type: ignore[arg-type]


@pytest.mark.parametrize(("out", "message"), [("in/found", "lies in that of the input"), ("a.txt", "a file; a job")])
def test_folder_that_cannot_hold_the_results_is_refused_and_left_alone(
    tmp_path: Path, settings: JobSettings, out: str, message: str
) -> None:
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in" / "a.jsonl", [{"text": "Tom met Ann."}])
    (tmp_path / "a.txt").write_text("mine")
    with pytest.raises(RelatumError, match=message):
        extract_job(str(tmp_path / "in"), str(tmp_path / out), settings)
    assert (tmp_path / "a.txt").read_text() == "mine"
    assert not (tmp_path / "in" / "found").exists()
    with pytest.raises(RelatumError, match="its workers do not share"):
        extract_job(str(tmp_path / "in"), "memory://found", settings)


def test_input_that_changes_while_the_job_runs_is_an_error(
    documents: Path, out: Path, settings: JobSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_: object, job: Job, *__: object) -> bool:
        assert job.documents == 0
        with documents.open("a") as stream:
            stream.write('{"text": "one more"}\n')
        return True

    monkeypatch.setattr("relatum.scale.local.LocalEngine.run", run)
    with pytest.raises(RelatumError, match="the input changed while the job was running"):
        extract_job(str(documents), str(out), settings)
