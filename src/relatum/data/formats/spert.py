"""SpERT's JSON: an array of sentences whose relations name entities by their place in the list."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from relatum.data.documents import Names, from_words, to_examples
from relatum.data.formats.base import Format, Holds, annotation_items, with_metadata, write_array
from relatum.data.json_files import first_records, json_records
from relatum.data.problems import Problems
from relatum.data.records import Field, read_records
from relatum.schema import Schema
from relatum.types import Annotation, Document, Entity, Relation

_OWN = ("tokens", "entities", "relations", "orig_id")


def recognise(path: Path) -> bool:
    items = annotation_items(path)
    if items is None or not all(isinstance(item, dict) for item in items):
        return False
    return bool(items) or any("orig_id" in record for record in first_records(path) if isinstance(record, dict))


def read(path: Path, problems: Problems) -> Iterator[Document]:
    return read_records(path, json_records(path, problems), _parse, problems)


def _parse(record: Field, default_id: str) -> Document:
    words = record.need("tokens").words()
    entities = []
    for item in record.need("entities").items():
        start, end = item.need("start"), item.need("end")
        span = item.span(start.value, end.value, len(words), "words")
        entities.append(Entity(span, item.label("type")))
    relations = []
    for item in record.need("relations").items():
        head, tail = (_entity(item.need(key), entities) for key in ("head", "tail"))
        relations.append(Relation(head, tail, item.label("type")))
    for key, known in (("entities", {"type", "start", "end"}), ("relations", {"type", "head", "tail"})):
        if any(item.mapping().keys() - known for item in record.need(key).items()):
            record.remark(f"records whose {key} have keys that are not read, beyond {', '.join(sorted(known))}")
    rest = {key: value for key, value in record.mapping().items() if key not in _OWN}
    annotation = Annotation(tuple(entities), tuple(relations))
    return from_words(record.optional_name("orig_id") or default_id, [words], annotation, metadata=rest)


def _entity(field: Field, entities: list[Entity]) -> Entity:
    number = field.integer()
    if not 0 <= number < len(entities):
        raise field.bad(f"the place, from 0, of one of the {len(entities)} entities of this record")
    return entities[number]


def write(path: Path, documents: Iterable[Document]) -> None:
    write_array(path, (record for document in documents for record in _records(document)))


def _records(document: Document) -> Iterator[dict[str, Any]]:
    for example in to_examples(document):
        names = Names(example.gold.entities)
        index_of = {name: i for i, name in enumerate(names.all)}
        record = {
            "tokens": list(example.sentence.words),
            "entities": [
                {"type": entity.label, "start": entity.span.start, "end": entity.span.end}
                for entity in example.gold.entities
            ],
            "relations": [
                {
                    "type": relation.label,
                    "head": index_of[names.of(relation.head)],
                    "tail": index_of[names.of(relation.tail)],
                }
                for relation in example.gold.relations
            ],
            "orig_id": example.id,
        }
        yield with_metadata(record, document.metadata if example.id == document.id else {})


def types_json(schema: Schema) -> tuple[str, str]:
    """Return SpERT's file of types, with each label as its own long and short name."""
    record = {
        "entities": {name: {"short": name, "verbose": name} for name in schema.entity_types},
        "relations": {
            kind.name: {"short": kind.name, "verbose": kind.name, "symmetric": kind.symmetric}
            for kind in schema.relation_types
        },
    }
    return "types.json", json.dumps(record, ensure_ascii=False, indent=2) + "\n"


FORMAT = Format(
    name="spert",
    title="SpERT JSON",
    suffix=".json",
    holds=Holds(words=True, documents=False, crossing=False, metadata=True),
    recognise=recognise,
    read=read,
    write=write,
    companion=types_json,
    keys=_OWN,
    record_keys=_OWN,
)
