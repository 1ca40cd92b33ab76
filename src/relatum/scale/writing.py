"""The files that a job writes: a shard of results as Parquet or JSONL, and the ids in it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from relatum.errors import RelatumError
from relatum.scale.batch import FOUND, Row, result_types
from relatum.scale.rows import Document

if TYPE_CHECKING:
    import pyarrow as pa

ResultFormat = Literal["parquet", "jsonl"]

RESERVED = ("id", "text", *FOUND)
"""The columns of the results that the input cannot have."""


def file_name(number: int, format: ResultFormat) -> str:
    """Return the name of the file of a shard."""
    return f"part-{number:06d}.{format}"


def to_bytes(
    documents: Sequence[Document],
    rows: Sequence[Row],
    format: ResultFormat,
    kept_types: Sequence[tuple[str, Any]],
    with_text: bool,
) -> bytes:
    """Return the file of a shard; the same documents and rows always give the same bytes.

    `kept_types` has the name of every column that is kept and its Arrow type.
    """
    if format == "parquet":
        return _to_parquet(documents, rows, kept_types, with_text)
    names = [name for name, _ in kept_types]
    return b"".join(_to_line(*pair, names, with_text) for pair in zip(documents, rows, strict=True))


def _text_of(document: Document) -> str | None:
    """Return the text if a file can hold it."""
    if not isinstance(document.text, str):
        return None
    try:
        document.text.encode()
    except UnicodeEncodeError:
        return None
    return document.text


def _to_parquet(
    documents: Sequence[Document], rows: Sequence[Row], kept_types: Sequence[tuple[str, Any]], with_text: bool
) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, pa.Array] = {"id": pa.array([document.id for document in documents], pa.string())}
    for index, (name, type) in enumerate(kept_types):
        values = [document.kept[index] for document in documents]
        columns[name] = _to_column(name, [_as_text(value) for value in values] if type is None else values, type)
    if with_text:
        columns["text"] = pa.array([_text_of(document) for document in documents], pa.string())
    for index, (name, type) in enumerate(result_types().items()):
        columns[name] = pa.array([row[index] for row in rows], type)
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="zstd")
    return out.getvalue()


def _to_column(name: str, values: Sequence[object], type: Any) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(values, type or pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise RelatumError(
            f"--keep {name}: {error}; the column must have the same type in all files of the input"
        ) from None


def _as_text(value: object) -> str | None:
    """Return a value of JSON as a string: strings as they are, everything else as JSON."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode(errors="replace").decode()


def _to_line(document: Document, row: Row, names: Sequence[str], with_text: bool) -> bytes:
    record: dict[str, object] = {"id": document.id, **dict(zip(names, document.kept, strict=True))}
    if with_text:
        record["text"] = _text_of(document)
    record.update(zip(FOUND, row, strict=True))
    line = json.dumps(record, ensure_ascii=False, default=str)
    return line.encode(errors="replace") + b"\n"


def read_ids(stream: Any, format: ResultFormat) -> Iterator[str]:
    """Yield the ids in the file of a shard."""
    if format == "parquet":
        import pyarrow.parquet as pq

        yield from pq.read_table(stream, columns=["id"], partitioning=None)["id"].to_pylist()
    else:
        for line in stream:
            yield json.loads(line)["id"]
