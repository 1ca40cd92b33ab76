"""Files of documents, in every format that a job reads."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relatum.errors import RelatumError
from relatum.scale import formats
from relatum.scale.formats import FORMATS
from relatum.scale.inputs import Source, find_source, format_of
from relatum.scale.rows import Columns, Document, Position

N = 600
"""More rows than are handed on at once."""
TEXTS = [f"text {number}, “quoted”\nand a second line" for number in range(N)]
RECORDS = [{"id": f"d{number}", "text": text} for number, text in enumerate(TEXTS)]


def read_from(source: Source, start: Position, columns: Columns | None = None) -> list[Document]:
    columns = columns or Columns()
    parser = FORMATS[source.format]
    documents: list[Document] = []
    for rows in source.read(start, columns):
        documents += parser.parse(rows, columns)
    return documents


def read_all(path: Path | str, columns: Columns | None = None) -> list[Document]:
    return read_from(find_source(str(path)), Position(0, 0), columns)


def as_jsonl(records: Iterable[object]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def as_values(separator: str) -> bytes:
    quoted = [f'{record["id"]}{separator}"{record["text"]}"\r\n' for record in RECORDS]
    return f"id{separator}text\r\n{''.join(quoted)}".encode()


def write_parquet(path: Path) -> None:
    pq.write_table(pa.table({"id": [r["id"] for r in RECORDS], "text": TEXTS}), path, row_group_size=130)


def compress(path: Path, codec: str, data: bytes) -> None:
    with pa.CompressedOutputStream(str(path), codec) as stream:
        stream.write(data)


WRITERS: dict[str, Callable[[Path], object]] = {
    "d.parquet": write_parquet,
    "d.pq": write_parquet,
    "d.jsonl": lambda path: path.write_bytes(as_jsonl(RECORDS)),
    "d.ndjson": lambda path: path.write_bytes(as_jsonl(RECORDS)),
    "d.jsonl.gz": lambda path: path.write_bytes(gzip.compress(as_jsonl(RECORDS))),
    "d.JSONL.GZ": lambda path: path.write_bytes(gzip.compress(as_jsonl(RECORDS))),
    "d.jsonl.zst": lambda path: compress(path, "zstd", as_jsonl(RECORDS)),
    "d.csv": lambda path: path.write_bytes(as_values(",")),
    "d.csv.gz": lambda path: path.write_bytes(gzip.compress(as_values(","))),
    "d.csv.zst": lambda path: compress(path, "zstd", as_values(",")),
    "d.tsv": lambda path: path.write_bytes(as_values("\t")),
    "d.tsv.gz": lambda path: path.write_bytes(gzip.compress(as_values("\t"))),
}


@pytest.mark.parametrize("name", WRITERS)
def test_documents_of_every_format_are_read_in_order(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    documents = read_all(tmp_path / name)
    assert [document.id for document in documents] == [record["id"] for record in RECORDS]
    assert [document.text for document in documents] == TEXTS
    assert all(document.error is None for document in documents)


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in ("d.pq", "d.ndjson", "d.JSONL.GZ")])
def test_reading_from_any_row_gives_the_rest_of_the_documents(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    source = find_source(str(tmp_path / name))
    documents = read_from(source, Position(0, 0))
    for start in [*range(8), *range(124, 136), *range(250, 262), *range(500, N, 7), N - 1, N]:
        assert read_from(source, Position(0, start)) == documents[start:], start


def test_reading_from_any_row_of_any_file_gives_the_rest_of_the_documents(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jsonl").write_bytes(as_jsonl(RECORDS[number * 4 : number * 4 + 4]))
    (tmp_path / "1a.jsonl").write_bytes(b"")
    source = find_source(str(tmp_path))
    documents = read_from(source, Position(0, 0))
    assert [document.id for document in documents] == [f"d{number}" for number in range(12)]
    whole = [0, 4, 8, 8]
    for file, n_rows in enumerate([4, 4, 0, 4]):
        for row in range(n_rows + 1):
            assert read_from(source, Position(file, row)) == documents[whole[file] + row :]


def test_each_text_file_of_a_folder_is_a_document_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2.txt").write_text("Mara left.")
    (tmp_path / "1.txt").write_bytes(b"\xef\xbb\xbfTom\r\nmet Ann.")
    (tmp_path / "3.txt").write_bytes(b"not \xff UTF-8")
    (tmp_path / "4.txt").write_text("")
    documents = read_all(tmp_path)
    assert [(document.id, document.text) for document in documents] == [
        ("1", "Tom\r\nmet Ann."),
        ("3", None),
        ("4", ""),
        ("b/2", "Mara left."),
    ]
    assert documents[1].error == "byte 4 of the file is not UTF-8"
    source = find_source(str(tmp_path))
    for start in range(4):
        assert read_from(source, Position(start, 0)) == documents[start:]
        assert read_from(source, Position(start, 1)) == documents[start + 1 :]


def test_pattern_names_some_files_of_a_folder(tmp_path: Path) -> None:
    for name in ("a-1.jsonl", "a-2.jsonl", "b-1.jsonl", "a-1.csv"):
        (tmp_path / name).write_bytes(as_jsonl([{"text": name}]))
    assert [document.text for document in read_all(tmp_path / "a-*.jsonl")] == ["a-1.jsonl", "a-2.jsonl"]
    assert [document.id for document in read_all(f"{tmp_path}/?-1.jsonl")] == ["a-1.jsonl:1", "b-1.jsonl:1"]
    with pytest.raises(RelatumError, match=r"c-\*: there are no files in it"):
        read_all(tmp_path / "c-*")


def test_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("c", "a", "b/a", "b"):
        path = tmp_path / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(as_jsonl([{"text": name}]))
    names = [file.name for file in find_source(str(tmp_path)).files]
    assert names == sorted(names)
    assert len(names) == 4


def test_hidden_files_are_passed_over(tmp_path: Path) -> None:
    for name in ("a.jsonl", ".b.jsonl", "_SUCCESS", ".DS_Store", "_job/job.json", ".cache/c.jsonl", "x/_d.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(as_jsonl([{"text": name}]))
    assert [document.text for document in read_all(tmp_path)] == ["a.jsonl"]
    assert [document.text for document in read_all(tmp_path / ".b.jsonl")] == [".b.jsonl"]  # asked for by its name


@pytest.mark.parametrize("name", ["_SUCCESS", ".DS_Store", "_a.jsonl"])
def test_folder_with_nothing_but_a_hidden_file_has_no_documents(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(as_jsonl([{"text": "x"}]))
    with pytest.raises(RelatumError, match="there are no files in it"):
        find_source(str(tmp_path))


def test_missing_file_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match=r"none\.jsonl: no such file or folder"):
        find_source(str(tmp_path / "none.jsonl"))
    with pytest.raises(RelatumError, match="there are no files in it"):
        find_source(str(tmp_path))


def test_folder_with_several_formats_is_refused_with_a_cure(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.csv"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(RelatumError, match=r"several formats \(a\.jsonl, b\.csv\); name those of one"):
        find_source(str(tmp_path))


@pytest.mark.parametrize("name", ["a.pdf", "a", "a.parquet.gz", "a.txt.gz", "a.jsonl.bz2", "a.gz"])
def test_other_kinds_of_file_are_refused(name: str) -> None:
    with pytest.raises(RelatumError, match=rf"{name}: not a kind of file that jobs read; expected \.parquet"):
        format_of(name)


def test_url_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(RelatumError, match=r"nowhere://x: .*install the package for this kind of URL"):
        find_source("nowhere://x/a.jsonl".removesuffix("/a.jsonl"))


def test_blank_lines_are_no_documents_and_count_as_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\n{"text": "one"}\n  \t\r\n\n{"text": "two"}')
    documents = read_all(tmp_path / "a.jsonl")
    assert [(document.id, document.text) for document in documents] == [("a.jsonl:2", "one"), ("a.jsonl:5", "two")]
    source = find_source(str(tmp_path / "a.jsonl"))
    assert read_from(source, Position(0, 2)) == documents[1:]


def test_byte_order_marks_are_passed_over(tmp_path: Path) -> None:
    for name, data in (("a.jsonl", b'{"id": "x", "text": "one"}\n'), ("a.csv", b"id,text\nx,one\n")):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + data)
        assert read_all(tmp_path / name) == [Document("x", "one")]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b'{"text": "cut o', "expected valid JSON"),
        (b"not JSON", r"found Expecting value at column 1"),
        (b'{"text": "a\xff"}', r"not UTF-8 at byte 11"),
        (b'{"text": "a\xed\xa0\x80"}', r"not UTF-8"),
        (b'["text"]', "the line is not a JSON object"),
        (b"null", "the line is not a JSON object"),
        (b'{"body": "a"}', "the line has no 'text'"),
        (b'{"text": "a", "text": "b"}', r"the key .*text.* twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"text": "\x00"}', "Invalid control character"),
        (b'{"n": ' + b"1" * 5000 + b', "text": "a"}', "valid JSON"),
    ],
)
def test_line_that_cannot_be_read_is_a_document_with_an_error(tmp_path: Path, line: bytes, error: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "one"}\n' + line + b'\n{"text": "two"}\n')
    one, broken, two = read_all(tmp_path / "a.jsonl", Columns(keep=("title",)))
    assert (one.text, two.text) == ("one", "two")
    assert broken.id == "a.jsonl:2"
    assert broken.kept == (None,)
    assert broken.error is not None
    assert re.search(error, broken.error)


def test_line_that_is_too_long_is_one_error_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "MAX_LINE", 40)
    for length in (10, 41, 42, 80, 81, 82, 83, 123, 300):
        long = json.dumps({"text": "x" * length})
        (tmp_path / "a.jsonl").write_text(f'{{"text": "one"}}\n{long}\n{{"text": "two"}}\n{long}')
        documents = read_all(tmp_path / "a.jsonl")
        assert [document.id for document in documents] == [f"a.jsonl:{line}" for line in (1, 2, 3, 4)]
        is_long = len(long) + 1 > 40
        assert documents[1].error == ("the line is longer than 40 bytes" if is_long else None)
        assert [documents[0].text, documents[2].text] == ["one", "two"]


def test_missing_text_and_lone_surrogates_are_handed_on_as_they_are(tmp_path: Path) -> None:
    lines = b'{"text": null}\n{"text": "a\\ud800b", "id": "\\udfff"}\n{"text": 7}\n{"text": ""}\n'
    (tmp_path / "a.jsonl").write_bytes(lines)
    documents = read_all(tmp_path / "a.jsonl")
    assert [document.text for document in documents] == [None, "a\ud800b", 7, ""]
    assert documents[1].id == "?"  # ids are written to files


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("x", "x"),
        (17, "17"),
        ("", "a.jsonl:1"),
        (None, "a.jsonl:1"),
        (1.5, "1.5"),
        (3.0, "3"),
        (True, "a.jsonl:1"),
        ([1], "a.jsonl:1"),
    ],
)
def test_document_without_a_usable_id_is_named_by_its_file_and_line(tmp_path: Path, id: object, expected: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(as_jsonl([{"id": id, "text": "one"}]))
    assert read_all(tmp_path / "a.jsonl")[0].id == expected


def test_columns_have_the_names_that_were_asked_for(tmp_path: Path) -> None:
    columns = Columns("body", "key", ("title", "year"))
    (tmp_path / "a.jsonl").write_bytes(as_jsonl([{"key": "k", "id": "no", "body": "b", "title": "t", "year": 1999}]))
    (tmp_path / "a.csv").write_text("id,year,title,body,key\nno,1999,t,b,k\n")
    table = {"id": ["no"], "key": ["k"], "body": ["b"], "title": ["t"], "year": [1999]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    for name, year in (("a.jsonl", 1999), ("a.csv", "1999"), ("a.parquet", 1999)):
        assert read_all(tmp_path / name, columns) == [Document("k", "b", ("t", year))]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet"])
@pytest.mark.parametrize("columns", [Columns("body"), Columns(id="body"), Columns(keep=("body",))])
def test_table_without_a_column_is_refused_and_its_columns_are_named(
    tmp_path: Path, name: str, columns: Columns
) -> None:
    if name == "a.parquet":
        pq.write_table(pa.table({"text": ["x"], "title": ["y"]}), tmp_path / name)
    else:
        separator = "\t" if name == "a.tsv" else ","
        (tmp_path / name).write_text(f"text{separator}title\nx{separator}y\n")
    message = rf"{name}: there is no column 'body'; its columns are text, title \(--text-column"
    with pytest.raises(RelatumError, match=message):
        read_all(tmp_path / name, columns)


def test_csv_rows_that_are_broken_are_documents_with_errors(tmp_path: Path) -> None:
    lines = [
        b"id,text,title",
        b"a,one,t",
        b"b,two",
        b"",
        b"c,three,t,more",
        b"d,f\xffur,t",
        b'e,"fi\nve",\xff',
        b"f,,t",
    ]
    (tmp_path / "a.csv").write_bytes(b"\n".join(lines))
    source = find_source(str(tmp_path / "a.csv"))
    documents = read_from(source, Position(0, 0), Columns(keep=("title",)))
    assert [document.id for document in documents] == ["a", "b", "c", "d", "e", "f"]
    assert [document.text for document in documents] == ["one", "two", "three", None, "fi\nve", ""]
    assert [document.kept for document in documents] == [("t",), (None,), ("t",), ("t",), (None,), ("t",)]
    mismatch = "the row has {} values; expected 3, as the first line has"
    assert [document.error for document in documents] == [
        None,
        mismatch.format(2),
        mismatch.format(4),
        "the text holds bytes that are not UTF-8",
        None,
        None,
    ]
    for start in range(8):
        n_before = start - (start > 2)
        assert read_from(source, Position(0, start), Columns(keep=("title",))) == documents[n_before:]


def test_parquet_rows_without_text_or_not_utf8_are_documents(tmp_path: Path) -> None:
    texts = pa.array([b"one", None, b"t\xffo", b""], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    documents = read_all(tmp_path / "a.parquet")
    assert [document.text for document in documents] == ["one", None, None, ""]
    assert [document.error for document in documents] == [None, None, "the text holds bytes that are not UTF-8", None]
    assert [document.id for document in documents] == [f"a.parquet:{line}" for line in (1, 2, 3, 4)]


def test_parquet_values_that_are_not_utf8_cost_no_other_document(tmp_path: Path) -> None:
    broken = pa.array([b"a", b"\xff", b"c"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"id": broken, "title": broken, "text": ["x", "y", "z"]}), tmp_path / "a.parquet")
    documents = read_all(tmp_path / "a.parquet", Columns(keep=("title",)))
    assert [document.text for document in documents] == ["x", "y", "z"]
    assert [document.id for document in documents][::2] == ["a", "c"]
    assert [document.kept for document in documents][::2] == [("a",), ("c",)]


@pytest.mark.parametrize("type", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_parquet_text_of_any_string_type_is_read(tmp_path: Path, type: pa.DataType) -> None:
    pq.write_table(pa.table({"text": pa.array(["one", None, "two"]).cast(type)}), tmp_path / "a.parquet")
    assert [document.text for document in read_all(tmp_path / "a.parquet")] == ["one", None, "two"]


def test_file_that_is_not_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no Parquet in here at all")
    with pytest.raises(RelatumError, match=r"a\.parquet: .*Parquet magic bytes not found"):
        read_all(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst"])
def test_compressed_files_that_were_put_together_are_read_to_the_end(tmp_path: Path, name: str) -> None:
    whole = b""
    for part in (RECORDS[:300], RECORDS[300:]):
        compress(tmp_path / "part", "gzip" if name.endswith("gz") else "zstd", as_jsonl(part))
        whole += (tmp_path / "part").read_bytes()
    (tmp_path / "part").unlink()
    (tmp_path / name).write_bytes(whole)
    assert [document.id for document in read_all(tmp_path / name)] == [record["id"] for record in RECORDS]


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.gz"])
def test_compressed_file_that_is_damaged_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    data = as_values(",") if "csv" in name else as_jsonl(RECORDS)
    (tmp_path / name).write_bytes(gzip.compress(data)[:2000] + b"\0" * 2000)
    with pytest.raises(RelatumError, match=name):
        read_all(tmp_path / name)


def test_input_that_changed_has_another_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(as_jsonl(RECORDS[:3]))
    before = find_source(str(tmp_path)).fingerprint()
    assert find_source(str(tmp_path)).fingerprint() == before
    path.write_bytes(as_jsonl(RECORDS[:4]))
    assert find_source(str(tmp_path)).fingerprint() != before


def test_linked_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "real" / "a.jsonl").write_bytes(as_jsonl(RECORDS[:3]))
    (tmp_path / "in" / "a.jsonl").symlink_to(tmp_path / "real" / "a.jsonl")
    (tmp_path / "in" / "b.jsonl").write_bytes(as_jsonl(RECORDS[3:4]))
    assert [document.id for document in read_all(tmp_path / "in")] == ["d0", "d1", "d2", "d3"]
    before = find_source(str(tmp_path / "in")).fingerprint()
    (tmp_path / "real" / "a.jsonl").write_bytes(as_jsonl(RECORDS[:2]))
    assert find_source(str(tmp_path / "in")).fingerprint() != before


@pytest.mark.parametrize(
    ("target", "message"), [("real", "a link to a folder"), ("nothing", "a link that leads nowhere")]
)
def test_links_that_are_not_followed_are_refused(tmp_path: Path, target: str, message: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.jsonl").write_bytes(as_jsonl(RECORDS[:1]))
    (tmp_path / "in" / "sub").symlink_to(tmp_path / target)
    with pytest.raises(RelatumError, match=message):
        find_source(str(tmp_path / "in"))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz"])
@pytest.mark.parametrize("n_rows", [0, 1, 300])
def test_table_that_ends_inside_a_quote_is_refused_with_the_line(tmp_path: Path, name: str, n_rows: int) -> None:
    separator = "\t" if "tsv" in name else ","
    rows = "".join(f'{number}{separator}"a ""good"" row"\n' for number in range(n_rows))
    data = f'id{separator}text\n{rows}x{separator}"never closed\ny{separator}lost\nz{separator}lost\n'.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(RelatumError, match=f"{name}: a quote in line {n_rows + 2} is never closed"):
        read_all(tmp_path / name)


def test_quotes_inside_values_are_no_problem(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,text\n1,a 5" pipe\n2,"two\nlines, ""quoted"""\n3,last 7" pipe\n')
    assert [document.text for document in read_all(tmp_path / "a.csv")] == [
        'a 5" pipe',
        'two\nlines, "quoted"',
        'last 7" pipe',
    ]


@pytest.mark.parametrize("columns", [Columns("body"), Columns(id="uid"), Columns(keep=("sorce",))])
def test_column_that_no_line_has_is_refused(tmp_path: Path, columns: Columns) -> None:
    (tmp_path / "a.jsonl").write_bytes(as_jsonl(RECORDS))
    with pytest.raises(RelatumError, match=r"there is no column .*; its columns are id, text"):
        read_all(tmp_path / "a.jsonl", columns)


def test_columns_of_text_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Tom met Ann.")
    with pytest.raises(RelatumError, match="a text file has no columns"):
        read_all(tmp_path / "a.txt", Columns(keep=("title",)))


@pytest.mark.parametrize("name", ["text", "id"])
def test_table_with_a_column_twice_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv").write_text(f"id,text,{name}\n1,first,second\n")
    with pytest.raises(RelatumError, match=f"there are several columns '{name}'"):
        read_all(tmp_path / "a.csv")


def test_semicolons_are_named_as_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id;text\n1;Tom met Ann.\n")
    with pytest.raises(RelatumError, match="the values seem to be separated by ;"):
        read_all(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["d::e.jsonl", "n[1].jsonl", "a b#c?.jsonl", "50%20.jsonl"])
def test_files_may_have_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(as_jsonl(RECORDS[:2]))
    assert len(read_all(tmp_path)) == 2
    if "::" not in name:
        assert len(read_all(tmp_path / name)) == 2


def test_whole_numbers_that_pandas_made_floats_of_stay_ids(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([1.0, 2.0, None]), "text": ["a", "b", "c"]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert [document.id for document in read_all(tmp_path / "a.parquet")] == ["1", "2", "a.parquet:3"]


def test_kept_values_that_python_cannot_hold_are_null(tmp_path: Path) -> None:
    late = pa.array([0, 2**62], pa.timestamp("us"))
    pq.write_table(pa.table({"text": ["a", "b"], "when": late}), tmp_path / "a.parquet")
    first, second = read_all(tmp_path / "a.parquet", Columns(keep=("when",)))
    assert first.kept != (None,)
    assert (second.kept, second.error) == ((None,), None)
