"""The definition of a data format: a reader, a writer, and a plain statement of what it can hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relatum.data.json_files import first_records
from relatum.data.problems import Problems
from relatum.data.records import Field
from relatum.schema import Schema
from relatum.types import Document, Entity, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The things that a format can hold. Conversions use it to refuse or to report a loss, never to hide one."""

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
    word_offsets: bool = False
    """Keeps words and sentences although it does not need them."""
    ids: bool = False
    """Keeps the ids of entities and relations."""
    discontinuous: bool = False
    crossing: bool = True
    """Relations may connect entities of different sentences."""
    clusters: bool = False
    attributes: bool = False
    attribute_names: tuple[str, ...] = ()
    """Names of attributes that are kept if attributes in general are not."""
    line_breaks: int | None = None
    """The most line breaks in a text; further ones, and one at its end, become spaces. None if any number is kept."""
    scores: bool = False
    metadata: bool = False
    metadata_keys: tuple[str, ...] = ()
    """Keys of metadata that are kept if metadata in general is not."""


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
    companion: Callable[[Schema], tuple[str, str]] | None = None
    """Name and content of a file of labels that goes beside the data."""
    check: Callable[[Document], None] | None = None
    """A function that raises `BadRecord` if a document, otherwise fit, holds something that cannot be written."""
    keys: tuple[str, ...] = ()
    """The keys of a record, which metadata cannot have."""
    record_keys: tuple[str, ...] = ()
    """The keys that a JSON record of this format may have, for messages; empty if records are not JSON."""


def annotation_items(path: Path) -> list[object] | None:
    """Return the entities and relations of the first sentence with tokens that has any; None if there are no tokens.

    Two formats have the same keys, and only the form of an entity tells them apart.
    """
    items: list[object] | None = None
    for record in first_records(path) if path.is_file() else ():
        if not isinstance(record, dict) or "tokens" not in record or not isinstance(record.get("entities"), list):
            return items
        relations = record.get("relations")
        items = [*record["entities"], *(relations if isinstance(relations, list) else [])]
        if items:
            break
    return items


class BySpan:
    """A search for the entities that relations name by their spans."""

    def __init__(self, entities: Iterable[Entity]) -> None:
        self._found: dict[Span, Entity] = {}
        self._unclear: set[Span] = set()
        for entity in entities:
            if self._found.setdefault(entity.span, entity) != entity:
                self._unclear.add(entity.span)

    def entity(self, field: Field, span: Span) -> Entity:
        place = f"[{span.start}, {span.end})"
        if span not in self._found:
            raise field.bad("the span of an entity of this record", f"{place}, which is none")
        if span in self._unclear:
            raise field.bad("a span that only one entity has", f"{place}, which is that of several types")
        return self._found[span]


def natural_order(name: str) -> tuple[list[tuple[str, int, str]], str]:
    """Return a sort key by which numbers in file names count as numbers: train-2 comes before train-10."""
    parts = [(text, digits.lstrip("0")) for text, digits in re.findall("([^0-9]*)([0-9]*)", name)]
    return [(text, len(number), number) for text, number in parts], name  # the longer number is the larger one


def with_metadata(record: dict[str, Any], metadata: Mapping[str, object]) -> dict[str, Any]:
    """Return the record with the metadata added; if both have a key, the record's value stays."""
    return {**record, **{key: value for key, value in metadata.items() if key not in record}}


def write_array(path: Path, records: Iterable[object]) -> None:
    """Write a JSON array with one record a line, streamed."""
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.write("[")
        for number, record in enumerate(records):
            out.write((",\n " if number else "") + json.dumps(record, ensure_ascii=False))
        out.write("]\n")
