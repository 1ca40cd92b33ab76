"""Extraction from a table of documents: a pandas DataFrame, an Arrow table, or a dict of lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import isnan
from typing import TYPE_CHECKING, Any, TypeVar

from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.extractor.finding import DEFAULT_MODEL
from relatum.extractor.result import check_threshold

if TYPE_CHECKING:
    import pyarrow as pa

    from relatum.extractor.result import Extraction

MAX_CHARACTERS = 500_000
"""The longest text that is read by default: about 250 pages."""

FOUND = ("entities", "relations", "error")
"""The columns that extraction adds to a table."""

SPARK_COLUMNS = (
    "entities array<struct<id: string, start: int, end: int, text: string, label: string, score: double>>, "
    "relations array<struct<head: string, tail: string, label: string, score: double>>, "
    "error string"
)
"""The same columns as a schema of Spark."""

_SURROGATE = re.compile("[\ud800-\udfff]")

Batch = TypeVar("Batch")


def result_types() -> dict[str, pa.DataType]:
    """Return the Arrow types of the columns that extraction adds."""
    import pyarrow as pa

    entity = pa.struct(
        {
            "id": pa.string(),
            "start": pa.int32(),
            "end": pa.int32(),
            "text": pa.string(),
            "label": pa.string(),
            "score": pa.float64(),
        }
    )
    relation = pa.struct({"head": pa.string(), "tail": pa.string(), "label": pa.string(), "score": pa.float64()})
    return {"entities": pa.list_(entity), "relations": pa.list_(relation), "error": pa.string()}


def extract_batch(
    batch: Batch,
    model: str | Extractor | Sequence[str] = DEFAULT_MODEL,
    text_column: str = "text",
    threshold: float | None = None,
    max_characters: int = MAX_CHARACTERS,
) -> Batch:
    """Return a batch with the columns `entities`, `relations` and `error` added, one row per document as before.

    The batch is a pandas DataFrame, an Arrow table or record batch, or a dict of lists; the result has the same type. A
    model that is given by name is loaded once per process. A document that cannot be read has its reason in `error`,
    and no entities; all others have None there.
    """
    if threshold is not None:
        check_threshold(threshold)
    name = tuple(model) if isinstance(model, Sequence) and not isinstance(model, str) else model
    extractor = name if isinstance(name, Extractor) else load_once(name)
    found = extract_texts(extractor, _column(batch, text_column), threshold, max_characters)
    columns = zip(*found, strict=True) if found else ((), (), ())
    result: Batch = _with_columns(batch, dict(zip(FOUND, columns, strict=True)))
    return result


@lru_cache(maxsize=4)
def load_once(model: str | tuple[str, ...]) -> Extractor:
    """Load a model; a second call in the same process returns the same extractor."""
    return Extractor.from_pretrained(model)


Row = tuple[list[dict[str, Any]] | None, list[dict[str, Any]] | None, str | None]
"""The entities, the relations and the error of a document; a document has either findings or an error."""


def extract_texts(
    extractor: Extractor, texts: Iterable[object], threshold: float | None, max_characters: int
) -> list[Row]:
    """Return a row for every text, in order. Only errors of the device itself are raised."""
    texts = list(texts)
    reasons = [_refuse(text, max_characters) for text in texts]
    readable = [str(text) for text, reason in zip(texts, reasons, strict=True) if reason is None]
    try:
        found = iter(_read_together(extractor, readable, threshold))
    except Exception as error:
        _raise_if_device_failed(error)
        found = iter([_read_alone(extractor, text, threshold) for text in readable])
    return [next(found) if reason is None else (None, None, reason) for reason in reasons]


def _refuse(text: object, max_characters: int) -> str | None:
    """Return the reason why a text is not read; None if it is."""
    if text is None or type(text).__name__ in ("NAType", "NaTType") or (isinstance(text, float) and isnan(text)):
        return "the text is missing"
    if not isinstance(text, str):
        return f"the text is of type {type(text).__name__}; expected a string"
    if len(text) > max_characters:
        return f"the text has {len(text):,} characters; at most {max_characters:,} are read (max_characters)"
    if half := _SURROGATE.search(text):
        return f"character {half.start()} is the lone surrogate U+{ord(half[0]):04X}, which no file can hold as text"
    return None


def _read_together(extractor: Extractor, texts: Sequence[str], threshold: float | None) -> list[Row]:
    errors: dict[str, str] = {}

    def note(text: object, error: Exception) -> None:
        errors[str(text)] = str(error)

    answers = extractor.pipe(texts, threshold=threshold, on_error=note)
    return [
        (None, None, errors[text]) if answer is None else _row(answer)
        for text, answer in zip(texts, answers, strict=True)
    ]


def _read_alone(extractor: Extractor, text: str, threshold: float | None) -> Row:
    try:
        return _row(extractor(text, threshold))
    except Exception as error:
        _raise_if_device_failed(error)
        return None, None, f"{type(error).__name__}: {error}"


def _row(extraction: Extraction) -> Row:
    record = extraction.to_dict()
    return record["entities"], record["relations"], None


def _raise_if_device_failed(error: Exception) -> None:
    """Raise errors after which the process cannot read any document, such as a failed GPU."""
    if "CUDA error" in str(error) or "cuDNN error" in str(error):
        raise error


def _column(batch: object, name: str) -> list[object]:
    names = _names(batch)
    if name not in names:
        raise RelatumError(f"the batch has no column {name!r}; its columns are {', '.join(map(str, names))}")
    for column in (name, *FOUND):
        if names.count(column) > (column == name):
            raise RelatumError(f"the batch has a column {column!r} already; rename it")
    values = batch[name]  # type: ignore[index]
    if isinstance(values, str):
        raise RelatumError(f"the column {name!r} is a single string; expected a list of texts")
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def _names(batch: object) -> list[str]:
    if isinstance(batch, Mapping):
        return list(batch)
    if hasattr(batch, "append_column"):  # Arrow
        return list(batch.column_names)  # type: ignore[attr-defined]
    if hasattr(batch, "columns") and hasattr(batch, "assign"):  # pandas
        return list(batch.columns)
    raise TypeError(
        f"expected a pandas DataFrame, an Arrow table or a dict of lists, found {type(batch).__module__}."
        f"{type(batch).__name__}; convert it, for example by to_arrow()"
    )


def _with_columns(batch: Any, found: Mapping[str, Sequence[object]]) -> Any:
    columns = {name: list(found.get(name, ())) for name in FOUND}
    if isinstance(batch, Mapping):
        return {**batch, **columns}
    if hasattr(batch, "append_column"):
        import pyarrow as pa

        for name, type in result_types().items():
            batch = batch.append_column(name, pa.array(columns[name], type))
        return batch
    for name, values in columns.items():  # an object column keeps None and lists as they are
        columns[name] = _series(values, batch.index)
    return batch.assign(**columns)


def _series(values: list[object], index: Any) -> Any:
    import pandas as pd

    return pd.Series(values, index=index, dtype=object)
