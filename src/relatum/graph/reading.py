"""Reading annotated documents for a knowledge graph: data in any format, and the results of `relatum extract`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from relatum.data.corpus import open_corpus
from relatum.data.formats import guess_format, jsonl
from relatum.data.json_files import first_record, json_lines, parse_json, read_text
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, Record, read_records
from relatum.data.splitting import Splitter
from relatum.errors import MissingExtraError, Problem, RelatumError
from relatum.types import Document

Reader = Callable[[Problems], Iterator[Document]]
_ROWS = 256


def find_reader(path: Path, format: str | None = None) -> Reader | None:
    """Return a function that reads the documents at a path; None if it holds plain text or nothing.

    The path is a file or folder of annotated data, or has the results of `relatum extract`: a file, or the folder of a
    job. A text that has not been split gets sentences, so that evidence has some.
    """
    if format is None and path.is_dir() and (path / "_job").is_dir():
        read: Reader = partial(_read_job, path)
    elif format is None and path.suffix.lower() == ".json" and _starts_object(path):
        read = partial(_read_object, path)
    elif format is not None or _is_annotated(path):
        read = partial(_read_corpus, path, format)
    else:
        return None
    return lambda problems: map(_with_sentences, read(problems))


def _is_annotated(path: Path) -> bool:
    format = guess_format(path) if path.exists() else None
    if format is None and path.is_dir():
        files = [file for file in path.iterdir() if file.is_file() and file.suffix.lower() != ".txt"]
        return any(map(_is_annotated, files))
    if format is not jsonl.FORMAT:
        return format is not None
    record = first_record(path)  # a text alone is to be read with a model
    return isinstance(record, dict) and not {"entities", "relations", "words"}.isdisjoint(record)


def _read_corpus(path: Path, format: str | None, problems: Problems) -> Iterator[Document]:
    corpus = open_corpus(path, format)
    for name, reason in corpus.skipped:
        problems.remark(f"file that was not read: {reason}", str(path / name))
    for part in corpus.parts:
        yield from part.read(problems)


def _starts_object(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(4096).removeprefix(b"\xef\xbb\xbf").split()
    return bool(start) and start[0] == b"{"


def _read_object(path: Path, problems: Problems) -> Iterator[Document]:
    """Read a file with the JSON of one text, on several lines as `relatum extract` writes it."""
    text = read_text(path, problems)
    if text is None:
        return
    try:
        record = Record(parse_json(text), 1, 1, doubtful=True)
    except BadRecord as bad:
        problems.add(Problem(str(path), bad.found, bad.expected))
        return
    if isinstance(record.value, dict) and {"nodes", "edges"} <= record.value.keys():
        raise RelatumError(
            f"{path}: found a knowledge graph, which is not read here; give the texts or results that it was made "
            "from, or load it in Python with KnowledgeGraph.from_dict and save it in another format"
        )
    if isinstance(record.value, dict) and "entities" not in record.value:
        raise RelatumError(f"{path}: found an object without entities; expected the JSON that relatum extract writes")
    yield from read_records(path, iter([record]), jsonl.parse_record, problems)


def _read_job(folder: Path, problems: Problems) -> Iterator[Document]:
    return read_records(folder, _job_records(folder, problems), jsonl.parse_record, problems)


def _job_records(folder: Path, problems: Problems) -> Iterator[Record]:
    """Yield the results of a job; a document that the job could not read is a remark."""
    if not (folder / "_job" / "report.json").is_file():
        problems.remark("job that is not finished; only the results so far are read", str(folder))
    number = 0
    for file in sorted(folder.glob("part-*")):
        for row in _rows(file, problems):
            number += 1
            if row.get("error") is not None:
                problems.remark("document that the job could not read, left out", f"{file}: {row['error']}")
            elif row.get("text") is None:
                raise RelatumError(
                    f"{file}: the results have no texts, which evidence needs; run the job again without --without-text"
                )
            else:
                record = {key: row.get(key) for key in ("id", "text", "entities", "relations")}
                yield Record(record, number, number, doubtful=True)


def _rows(file: Path, problems: Problems) -> Iterator[dict[str, Any]]:
    if file.suffix == ".parquet":
        try:
            import pyarrow.parquet as pq
        except ImportError:
            raise MissingExtraError("reading Parquet", "scale") from None
        with pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(_ROWS):
                yield from batch.to_pylist()
    else:
        for record in json_lines(file, problems):
            if isinstance(record.value, dict):
                yield record.value


def _with_sentences(document: Document) -> Document:
    if document.words is not None:
        return document
    words, sentences = Splitter().split(document.text)
    return replace(document, words=words, sentences=sentences)
