"""The table-sequence authors' JSON: spans and relations as plain lists, one array or one record a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from relatum.data.documents import from_words, to_examples
from relatum.data.formats.base import Format, Holds, by_span, entity_at, write_array
from relatum.data.problems import Problems
from relatum.data.records import Field, first_record, json_records, read_records
from relatum.types import Annotation, Document, Entity, Relation

_OWN = ("id", "tokens", "entities", "relations")


def recognise(path: Path) -> bool:
    record = first_record(path) if path.is_file() else None
    if not (isinstance(record, dict) and "tokens" in record and isinstance(record.get("entities"), list)):
        return False
    items = [*record["entities"], *(record.get("relations") or [])]
    return all(isinstance(item, list) for item in items) and "orig_id" not in record


def read(path: Path, problems: Problems) -> Iterator[Document]:
    return read_records(path, json_records(path, problems), _parse, problems)


def _parse(record: Field, default_id: str) -> Document:
    words = record.need("tokens").texts()
    entities = []
    for item in record.need("entities").items():
        start, end, label = item.items(3)
        entities.append(Entity(item.span(start.value, end.value, len(words), "words"), label.text()))
    known = by_span(entities)
    relations = []
    for item in record.need("relations").items():
        parts = item.items(5)
        head, tail = (
            entity_at(item, item.span(parts[i].value, parts[i + 1].value, len(words), "words"), known) for i in (0, 2)
        )
        relations.append(Relation(head, tail, parts[4].text()))
    name = record.get("id")
    rest = {key: value for key, value in record.mapping().items() if key not in _OWN}
    annotation = Annotation(tuple(entities), tuple(relations))
    return from_words(name.name() if name else default_id, [words], annotation, metadata=rest)


def write(path: Path, documents: Iterable[Document]) -> None:
    write_array(path, (record for document in documents for record in _records(document)))


def _records(document: Document) -> Iterator[dict[str, Any]]:
    for example in to_examples(document):
        yield {
            "id": example.id,
            "tokens": list(example.sentence.words),
            "entities": [[e.span.start, e.span.end, e.label] for e in example.gold.entities],
            "relations": [
                [r.head.span.start, r.head.span.end, r.tail.span.start, r.tail.span.end, r.label]
                for r in example.gold.relations
            ],
            **(document.metadata if example.id == document.id else {}),
        }


FORMAT = Format(
    name="table-sequence",
    title="table-sequence JSON",
    suffix=".json",
    holds=Holds(words=True, documents=False, same_span=False, crossing=False, metadata=True),
    recognise=recognise,
    read=read,
    write=write,
)
