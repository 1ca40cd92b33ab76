"""SpERT's JSON: an array of sentences whose relations name entities by their place in the list."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from relatum.data.documents import Names, from_words, to_examples
from relatum.data.formats.base import Format, Holds, write_array
from relatum.data.problems import Problems
from relatum.data.records import Field, first_record, json_records, read_records
from relatum.schema import Schema
from relatum.types import Annotation, Document, Entity, Relation

_OWN = ("tokens", "entities", "relations", "orig_id")


def recognise(path: Path) -> bool:
    record = first_record(path) if path.is_file() else None
    if not (isinstance(record, dict) and "tokens" in record and isinstance(record.get("entities"), list)):
        return False
    items = [*record["entities"], *(record.get("relations") or [])]
    return all(isinstance(item, dict) for item in items) and (bool(items) or "orig_id" in record)


def read(path: Path, problems: Problems) -> Iterator[Document]:
    return read_records(path, json_records(path, problems), _parse, problems)


def _parse(record: Field, default_id: str) -> Document:
    words = record.need("tokens").texts()
    entities = [
        Entity(
            item.span(item.need("start").value, item.need("end").value, len(words), "words"), item.need("type").text()
        )
        for item in record.need("entities").items()
    ]
    relations = []
    for item in record.need("relations").items():
        head, tail = (entities[item.need(key).integer(0, len(entities) - 1)] for key in ("head", "tail"))
        relations.append(Relation(head, tail, item.need("type").text()))
    name = record.get("orig_id")
    rest = {key: value for key, value in record.mapping().items() if key not in _OWN}
    annotation = Annotation(tuple(entities), tuple(relations))
    return from_words(name.name() if name else default_id, [words], annotation, metadata=rest)


def write(path: Path, documents: Iterable[Document]) -> None:
    write_array(path, (record for document in documents for record in _records(document)))


def _records(document: Document) -> Iterator[dict[str, Any]]:
    for example in to_examples(document):
        names = Names(example.gold.entities)
        places = {name: i for i, name in enumerate(names.all)}
        yield {
            "tokens": list(example.sentence.words),
            "entities": [
                {"type": entity.label, "start": entity.span.start, "end": entity.span.end}
                for entity in example.gold.entities
            ],
            "relations": [
                {
                    "type": relation.label,
                    "head": places[names.of(relation.head)],
                    "tail": places[names.of(relation.tail)],
                }
                for relation in example.gold.relations
            ],
            "orig_id": example.id,
            **(document.metadata if example.id == document.id else {}),
        }


def types_json(schema: Schema) -> tuple[str, str]:
    """SpERT's file of types, with the label as its long and its short name."""
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
)
