"""A job cut into shards: the same ones at every start, and every document in one of them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relatum.scale.inputs import Source, find_source
from relatum.scale.rows import Columns, Document
from relatum.scale.shards import Shard, ShardSize, cut_shards

COLUMNS = Columns()

LINES = st.lists(st.one_of(st.none(), st.integers(0, 60)), max_size=12)
"""The lines of a file: the length of a text, or None for a blank line."""


def write_files(folder: Path, files: list[list[int | None]], format: str, row_group: int = 3) -> Source:
    for number, lengths in enumerate(files):
        path = folder / f"{number:02d}.{format}"
        texts = ["x" * length for length in lengths if length is not None]
        if format == "parquet":
            pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), path, row_group_size=row_group)
        elif format == "txt":
            for index, text in enumerate(texts):
                path.with_name(f"{number:02d}-{index:02d}.txt").write_text(text)
        else:
            header = "text\n" if format == "csv" else ""
            lines = ["" if length is None else _line("x" * length, format) for length in lengths]
            path.write_text(header + "".join(line + "\n" for line in lines))
    return find_source(str(folder))


def _line(text: str, format: str) -> str:
    return f'"{text}"' if format == "csv" else json.dumps({"text": text})


def documents_of(source: Source, shards: list[Shard]) -> list[Document]:
    return [document for shard in shards for document in shard.documents(source.format, COLUMNS)]


@given(
    files=st.lists(LINES, min_size=1, max_size=4),
    format=st.sampled_from(["jsonl", "csv", "parquet", "txt"]),
    n_documents=st.integers(1, 9),
    n_bytes=st.integers(1, 300),
    data=st.data(),
)
@settings(max_examples=150)
def test_stopped_job_cuts_the_shards_that_are_left_as_if_it_had_not_been_stopped(
    files: list[list[int | None]], format: str, n_documents: int, n_bytes: int, data: st.DataObject
) -> None:
    n_expected = sum(length is not None for lengths in files for length in lengths)
    if format == "txt" and not n_expected:
        return
    size = ShardSize(n_documents, n_bytes)
    with tempfile.TemporaryDirectory() as folder:
        source = write_files(Path(folder), files, format)
        undisturbed = list(cut_shards(source, COLUMNS, size, {}))
        assert [shard.number for shard in undisturbed] == list(range(len(undisturbed)))
        documents = documents_of(source, undisturbed)
        assert len({document.id for document in documents}) == len(documents) == n_expected
        numbers = st.sampled_from(range(len(undisturbed))) if undisturbed else st.nothing()
        committed = data.draw(st.sets(numbers))
        done = {number: undisturbed[number].end for number in committed}
        left = list(cut_shards(source, COLUMNS, size, done))
        expected = [shard for shard in undisturbed if shard.number not in committed]
        assert [(shard.number, shard.end) for shard in left] == [(shard.number, shard.end) for shard in expected]
        for again, before in zip(left, expected, strict=True):
            assert documents_of(source, [again]) == documents_of(source, [before])
            assert again.n_documents == before.n_documents


@given(files=st.lists(LINES, min_size=1, max_size=4), n_documents=st.integers(1, 9), n_bytes=st.integers(1, 300))
@example(files=[[None] * 5], n_documents=1, n_bytes=1)
@settings(max_examples=80)
def test_shard_ends_with_the_document_that_reaches_a_limit(
    files: list[list[int | None]], n_documents: int, n_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = write_files(Path(folder), files, "jsonl")
        shards = list(cut_shards(source, COLUMNS, ShardSize(n_documents, n_bytes), {}))
        for shard in shards:
            sizes = [size for part in shard.parts for size in part.sizes if size]
            assert 1 <= len(sizes) == shard.n_documents <= n_documents
            assert sum(sizes[:-1]) < n_bytes
            if shard is not shards[-1]:
                assert len(sizes) == n_documents or sum(sizes) >= n_bytes


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("n_documents", [1, 255, 256, 257, 1000])
def test_shards_do_not_depend_on_how_many_rows_are_read_at_once(tmp_path: Path, format: str, n_documents: int) -> None:
    source = write_files(tmp_path, [[1] * 700, [1] * 13], format, row_group=400)
    shards = list(cut_shards(source, COLUMNS, ShardSize(n_documents), {}))
    n_whole, n_rest = divmod(713, n_documents)
    assert [shard.n_documents for shard in shards] == [n_documents] * n_whole + [n_rest] * bool(n_rest)
    assert len(documents_of(source, shards)) == 713
