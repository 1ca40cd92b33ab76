"""The table-sequence authors' JSON: spans and relations as plain lists, one array or one record a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from relatum.data.documents import from_words, to_examples
from relatum.data.formats.base import BySpan, Format, Holds, annotation_items, with_metadata, write_array
from relatum.data.json_files import json_records
from relatum.data.problems import Problems
from relatum.data.records import Field, read_records
from relatum.types import Annotation, Document, Entity, Relation

_OWN = ("id", "tokens", "entities", "relations")


def recognise(path: Path) -> bool:
    items = annotation_items(path)
    return items is not None and all(isinstance(item, list) for item in items)


def read(path: Path, problems: Problems) -> Iterator[Document]:
    return read_records(path, json_records(path, problems), _parse, problems)


def _parse(record: Field, default_id: str) -> Document:
    words = record.need("tokens").words()
    entities = []
    for item in record.need("entities").items():
        start, end, label = item.items(3)
        entities.append(Entity(item.span(start.value, end.value, len(words), "words"), label.text()))
    known = BySpan(entities)
    relations = []
    for item in record.need("relations").items():
        head_start, head_end, tail_start, tail_end, label = item.items(5)
        head = known.entity(item, item.span(head_start.value, head_end.value, len(words), "words"))
        tail = known.entity(item, item.span(tail_start.value, tail_end.value, len(words), "words"))
        relations.append(Relation(head, tail, label.text()))
    rest = {key: value for key, value in record.mapping().items() if key not in _OWN}
    annotation = Annotation(tuple(entities), tuple(relations))
    return from_words(record.optional_name("id") or default_id, [words], annotation, metadata=rest)


def write(path: Path, documents: Iterable[Document]) -> None:
    write_array(path, (record for document in documents for record in _records(document)))


def _records(document: Document) -> Iterator[dict[str, Any]]:
    for example in to_examples(document):
        relations = []
        for relation in example.gold.relations:
            head, tail = relation.head.span, relation.tail.span
            relations.append([head.start, head.end, tail.start, tail.end, relation.label])
        record = {
            "id": example.id,
            "tokens": list(example.sentence.words),
            "entities": [[e.span.start, e.span.end, e.label] for e in example.gold.entities],
            "relations": relations,
        }
        yield with_metadata(record, document.metadata if example.id == document.id else {})


FORMAT = Format(
    name="table-sequence",
    title="table-sequence JSON",
    suffix=".json",
    holds=Holds(words=True, documents=False, same_span=False, crossing=False, metadata=True),
    recognise=recognise,
    read=read,
    write=write,
    keys=_OWN,
    record_keys=_OWN,
)
