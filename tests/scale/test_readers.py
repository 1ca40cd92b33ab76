"""The folder of a job as other programs see it: one table with nested lists, without what relatum keeps in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from relatum.scale.job import JobSettings
from relatum.scale.rows import Columns
from relatum.scale.shards import ShardSize

from .jobs_here import make_texts, result_rows, run_here, write_jsonl

N_DOCUMENTS = 7


@pytest.fixture(scope="module")
def out(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a job: the first shard has nothing but errors, a document in the second finds nothing."""
    folder = tmp_path_factory.mktemp("readers")
    texts: list[str | None] = [None, None, None, "", *make_texts(N_DOCUMENTS - 4)]
    records = [{"id": f"d{number}", "text": text, "year": 1990 + number} for number, text in enumerate(texts)]
    input = write_jsonl(folder / "in.jsonl", records)
    run_here(input, folder / "out", JobSettings((model,), columns=Columns(keep=("year",)), shard=ShardSize(3)))
    return folder / "out"


def plain(value: Any) -> Any:
    """A value of pandas as lists, dicts and None."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if hasattr(value, "tolist") and not isinstance(value, str):
        value = value.tolist()
    if isinstance(value, list):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and value != value else value


def test_pandas_reads_the_folder_as_one_table(out: Path) -> None:
    frame = pd.read_parquet(out)
    assert list(frame.columns) == ["id", "year", "text", "entities", "relations", "error"]
    assert [plain(record) for record in frame.to_dict("records")] == result_rows(out)
    assert list(frame["error"].isna()) == [False] * 3 + [True] * 4


def test_pandas_makes_a_row_of_every_entity(out: Path) -> None:
    frame = pd.read_parquet(out, columns=["id", "entities"]).explode("entities").dropna()
    entities = pd.json_normalize(list(frame["entities"]))
    assert list(entities.columns) == ["id", "start", "end", "text", "label", "score"]
    expected = [entity for row in result_rows(out) for entity in row["entities"] or ()]
    assert entities.to_dict("records") == expected
    assert expected


def test_duckdb_reads_the_files_as_one_table(out: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    table = duckdb.sql(f"select * from read_parquet('{out}/*.parquet') order by id")
    assert table.columns == ["id", "year", "text", "entities", "relations", "error"]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
    assert rows == result_rows(out)


def test_duckdb_joins_relations_with_their_entities(out: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.sql(f"""
        with relations as (select id, unnest(relations) as r from read_parquet('{out}/*.parquet'))
        select relations.id, heads.text, r.label, tails.text
        from relations
        join (select id, e.id as entity, e.text as text from
              (select id, unnest(entities) as e from read_parquet('{out}/*.parquet'))) heads
          on heads.id = relations.id and heads.entity = r.head
        join (select id, e.id as entity, e.text as text from
              (select id, unnest(entities) as e from read_parquet('{out}/*.parquet'))) tails
          on tails.id = relations.id and tails.entity = r.tail
    """).fetchall()
    expected = []
    for row in result_rows(out):
        names = {entity["id"]: entity["text"] for entity in row["entities"] or ()}
        relations = row["relations"] or ()
        expected += [(row["id"], names[one["head"]], one["label"], names[one["tail"]]) for one in relations]
    assert sorted(found) == sorted(expected)
    assert expected


def test_files_of_the_job_itself_are_passed_over(out: Path) -> None:
    """A program that reads the whole folder, also what is below it, sees no more than the results."""
    import pyarrow.dataset as ds

    names = {Path(path).name for path in ds.dataset(out, format="parquet").files}
    assert names == {path.name for path in out.glob("part-*.parquet")}
    assert {path.name for path in out.iterdir()} == {*names, "_job"}
