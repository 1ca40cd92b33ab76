"""doccano's JSONL: a text a line, with its entities and the relations between them.

There are two layouts. Exports of projects with relations have `entities`, objects with `start_offset` and `end_offset`,
and `relations` that name entities by their ids; this one is written. Exports without relations have lists
`[start, end, label]` under `label`, or `labels` in older versions. The text stands under `text`, or `data` in some
versions. Offsets count characters (code points).

doccano numbers entities and relations itself, so that ids are written as new numbers. Other columns are metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from relatum.data.documents import Names
from relatum.data.formats.base import Format, Holds, with_metadata
from relatum.data.json_files import first_records, json_records
from relatum.data.problems import Problems
from relatum.data.records import Field, read_records, shorten
from relatum.types import Annotation, Document, Entity, Relation

_OWN = ("id", "text", "label", "labels", "entities", "relations")
_ENTITY = {"id", "label", "start_offset", "end_offset"}
_RELATION = {"id", "from_id", "to_id", "type"}


def recognise(path: Path) -> bool:
    """True if the first record that has annotations, or the key `Comments`, looks as doccano's do."""
    for record in first_records(path) if path.is_file() else ():
        if not isinstance(record, dict) or not isinstance(record.get("text", record.get("data")), str):
            return False
        entities = record.get("entities")
        if isinstance(entities, list) and entities:
            return all(isinstance(item, dict) and "start_offset" in item for item in entities)
        for key in ("label", "labels"):
            if isinstance(record.get(key), list):
                return all(isinstance(item, list) and len(item) == 3 for item in record[key])
        if "Comments" in record:
            return True
    return False


def read(path: Path, problems: Problems) -> Iterator[Document]:
    return read_records(path, json_records(path, problems), _parse, problems)


def _parse(record: Field, default_id: str) -> Document:
    text_key = "data" if "text" not in record.mapping() and "data" in record.mapping() else "text"
    text = record.need(text_key).text(empty=True)
    entities, by_id = _entities(record, len(text))
    relations = []
    for item in record.lists("relations"):
        head, tail = (_end(item.need(key), by_id) for key in ("from_id", "to_id"))
        relations.append(Relation(head, tail, item.label("type"), id=item.optional_name("id")))
    for key, known in (("entities", _ENTITY), ("relations", _RELATION)):
        if any(item.mapping().keys() - known for item in record.lists(key)):
            record.remark(f"records whose {key} have keys that are not read, beyond {', '.join(sorted(known))}")
    rest = {key: value for key, value in record.mapping().items() if key not in _OWN and key != text_key}
    if rest.get("Comments") == []:
        del rest["Comments"]
    name = record.optional_name("id") or default_id
    return Document(name, text, Annotation(tuple(entities), tuple(relations)), metadata=rest)


def _entities(record: Field, size: int) -> tuple[list[Entity], dict[str, Entity]]:
    """Return the entities of both layouts, and those with an id by their ids; `size` is the length of the text."""
    entities: list[Entity] = []
    by_id: dict[str, Entity] = {}
    for item in record.lists("entities"):
        start, end = item.need("start_offset"), item.need("end_offset")
        span = item.span(start.value, end.value, size, "characters")
        entity = Entity(span, item.label("label"), id=item.optional_name("id"))
        entities.append(entity)
        if entity.id is not None and by_id.setdefault(entity.id, entity) is not entity:
            raise item.bad("entity ids that differ", f"the entity id {shorten(entity.id)} again")
    for key in ("label", "labels"):
        for item in record.lists(key):
            start, end, label = item.items(3)
            span = item.span(start.value, end.value, size, "characters")
            entities.append(Entity(span, label.text()))
    return entities, by_id


def _end(field: Field, by_id: dict[str, Entity]) -> Entity:
    entity = by_id.get(field.name())
    if entity is None:
        raise field.bad("the id of an entity of this record")
    return entity


def write(path: Path, documents: Iterable[Document]) -> None:
    entity_ids, relation_ids = count(), count()  # doccano's are unique over all texts
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for document in documents:
            record = _record(document, entity_ids, relation_ids)
            out.write(json.dumps(record, ensure_ascii=False) + "\n")


def _record(document: Document, entity_ids: Iterator[int], relation_ids: Iterator[int]) -> dict[str, Any]:
    annotation = document.annotation
    names = Names(annotation.entities)
    numbers = {name: next(entity_ids) for name in names.all}
    record = {
        "id": int(document.id) if re.fullmatch("0|[1-9][0-9]{0,15}", document.id) else document.id,
        "text": document.text,
        "entities": [
            {
                "id": numbers[name],
                "label": entity.label,
                "start_offset": entity.span.start,
                "end_offset": entity.span.end,
            }
            for name, entity in zip(names.all, annotation.entities, strict=True)
        ],
        "relations": [
            {
                "id": next(relation_ids),
                "from_id": numbers[names.of(relation.head)],
                "to_id": numbers[names.of(relation.tail)],
                "type": relation.label,
            }
            for relation in annotation.relations
        ],
    }
    return with_metadata(record, {key: value for key, value in document.metadata.items() if key not in _OWN})


FORMAT = Format(
    name="doccano",
    title="doccano JSONL",
    suffix=".jsonl",
    holds=Holds(words=False, text=True, metadata=True),
    recognise=recognise,
    read=read,
    write=write,
    keys=_OWN,
    record_keys=_OWN,
)
