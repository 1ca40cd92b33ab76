"""What a data format is: a reader, a writer, and a plain statement of what it can hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relatum.data.problems import Problems
from relatum.data.records import Field
from relatum.schema import Schema
from relatum.types import Document, Entity, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """What survives being written in a format. Conversions use it to refuse or to report a loss, never to hide one."""

    words: bool
    """Needs the text split into words and sentences."""
    text: bool = False
    """Keeps the text as it was, not only its words."""
    documents: bool = True
    """Keeps the sentences of a document together; otherwise each becomes a record of its own."""
    overlaps: bool = True
    """Entities may nest or overlap."""
    same_span: bool = True
    """Two entities of different types may share one span, and relations can tell them apart."""
    discontinuous: bool = False
    crossing: bool = True
    """Relations may connect entities of different sentences."""
    clusters: bool = False
    attributes: bool = False
    scores: bool = False
    metadata: bool = False


@dataclass(frozen=True, slots=True)
class Format:
    """A way of storing annotated documents.

    `read` streams documents and reports bad records to the problems it is given. `write` streams them to a path that
    does not matter to anyone yet; whoever calls it makes the result appear at once. A format whose `suffix` is empty
    is a folder.
    """

    name: str
    title: str
    suffix: str
    holds: Holds
    recognise: Callable[[Path], bool]
    read: Callable[[Path, Problems], Iterator[Document]]
    write: Callable[[Path, Iterable[Document]], None]
    companion: Callable[[Schema], tuple[str, str]] | None = field(default=None)
    """Name and content of a file of labels that goes beside the data."""


def entity_at(field: Field, span: Span, entities: dict[Span, Entity]) -> Entity:
    """The entity a relation names by its span."""
    if span not in entities:
        raise field.bad("the span of an entity of this record", f"[{span.start}, {span.end}), which is none")
    return entities[span]


def by_span(entities: Sequence[Entity]) -> dict[Span, Entity]:
    """Entities by span; the first stands where two share one."""
    found: dict[Span, Entity] = {}
    for entity in entities:
        found.setdefault(entity.span, entity)
    return found


def write_array(path: Path, records: Iterable[object]) -> None:
    """A JSON array with one record a line, streamed."""
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.write("[")
        for number, record in enumerate(records):
            out.write((",\n " if number else "") + json.dumps(record, ensure_ascii=False))
        out.write("]\n")
