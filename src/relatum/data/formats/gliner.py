"""Training data of GLiNER and GLiNER2, two formats.

`gliner` is JSON of words, an array or one record a line: `tokenized_text`, `ner` with inclusive ends, and `relations`
that name entities by their numbers in `ner`: `[head, tail, label]`.

`gliner2` is JSONL of texts, `input`, with `output`: `entities` are lists of names by type, and `relations` are objects
`{label: {"head": name, "tail": name}}`. A name may be an object with `text`, `start` and `end`, which is written. Names
without offsets must have as many places in the text as mentions, else they are left out and counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from relatum.data.documents import Names, from_words, to_examples
from relatum.data.formats.base import Format, Holds, with_metadata, write_array
from relatum.data.formats.locating import NamedMentions
from relatum.data.json_files import first_record, json_records
from relatum.data.problems import Problems
from relatum.data.records import Field, read_records, shorten
from relatum.types import Annotation, Document, Entity, Relation, Span

_OWN = ("id", "tokenized_text", "ner", "relations")
_OWN_TEXT = ("id", "input", "output")
_KEPT = "gliner2"
"""The key of metadata for the rest of `output`, such as classifications."""


def recognise(path: Path) -> bool:
    record = first_record(path) if path.is_file() else None
    return isinstance(record, dict) and "tokenized_text" in record and "ner" in record


def read(path: Path, problems: Problems) -> Iterator[Document]:
    return read_records(path, json_records(path, problems), _parse, problems)


def _parse(record: Field, default_id: str) -> Document:
    words = record.need("tokenized_text").words()
    entities = []
    for item in record.need("ner").items():
        start, end, label = item.items(3)
        last = end.integer(0, len(words) - 1)
        entities.append(Entity(Span(start.integer(0, last), last + 1), label.text()))
    relations = []
    for item in record.lists("relations"):
        head, tail, label = item.items(3)
        ends = [entities[end.integer(0, len(entities) - 1)] for end in (head, tail)]
        relations.append(Relation(ends[0], ends[1], label.text()))
    rest = {key: value for key, value in record.mapping().items() if key not in _OWN}
    annotation = Annotation(tuple(entities), tuple(relations))
    return from_words(record.optional_name("id") or default_id, [words], annotation, metadata=rest)


def write(path: Path, documents: Iterable[Document]) -> None:
    write_array(path, (record for document in documents for record in _records(document)))


def _records(document: Document) -> Iterator[dict[str, Any]]:
    for example in to_examples(document):
        names = Names(example.gold.entities)
        number_of = {name: number for number, name in enumerate(names.all)}
        record = {
            "id": example.id,
            "tokenized_text": list(example.sentence.words),
            "ner": [[e.span.start, e.span.end - 1, e.label] for e in example.gold.entities],
            "relations": [
                [number_of[names.of(r.head)], number_of[names.of(r.tail)], r.label] for r in example.gold.relations
            ],
        }
        yield with_metadata(record, document.metadata if example.id == document.id else {})


def recognise_text(path: Path) -> bool:
    record = first_record(path) if path.is_file() else None
    return isinstance(record, dict) and isinstance(record.get("input"), str) and isinstance(record.get("output"), dict)


def read_text(path: Path, problems: Problems) -> Iterator[Document]:
    return read_records(path, json_records(path, problems), _parse_text, problems)


def _parse_text(record: Field, default_id: str) -> Document:
    text = record.need("input").text(empty=True)
    output = record.need("output")
    mentions = NamedMentions(record, text)
    by_type = output.get("entities")
    for label in by_type.mapping() if by_type else ():
        assert by_type is not None
        _add_names(by_type.need(label), label, mentions, text)
    relations = []
    for item in output.lists("relations"):
        for label in item.mapping():
            ends = [_end(item.need(label).need(role), mentions, text) for role in ("head", "tail")]
            if ends[0] and ends[1] and label:
                relations.append(Relation(ends[0], ends[1], label))
            else:
                item.remark("relation left out, as no entity, or more than one, has the name of its head or tail")
    rest = {key: value for key, value in record.mapping().items() if key not in _OWN_TEXT}
    others = {key: value for key, value in output.mapping().items() if key not in ("entities", "relations")}
    if others:
        rest[_KEPT] = others
    name = record.optional_name("id") or default_id
    return Document(name, text, Annotation(tuple(mentions.all), tuple(relations)), metadata=rest)


def _add_names(names: Field, label: str, mentions: NamedMentions, text: str) -> None:
    if not label:
        raise names.bad("a type that is not empty", "an empty type")
    plain: dict[str, int] = {}
    for item in names.items():
        if isinstance(item.value, dict):
            mentions.add(_span(item, text), label)
        else:
            plain[item.text()] = plain.get(item.text(), 0) + 1
    for name, times in plain.items():
        mentions.find(name, label, times)


def _span(item: Field, text: str) -> Span:
    span = item.span(item.need("start").value, item.need("end").value, len(text), "characters")
    name = item.get("text")
    if name and name.text() != span.of(text):
        raise name.bad(f"{shorten(span.of(text))}, as the offsets say")
    return span


def _end(item: Field, mentions: NamedMentions, text: str) -> Entity | None:
    if isinstance(item.value, dict):
        span = _span(item, text)
        found = [entity for entity in mentions.all if entity.span == span]
        return found[0] if len(found) == 1 else None
    return mentions.named(item.text())


def write_text(path: Path, documents: Iterable[Document]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for document in documents:
            out.write(json.dumps(_text_record(document), ensure_ascii=False) + "\n")


def _text_record(document: Document) -> dict[str, Any]:
    def name(entity: Entity) -> dict[str, Any]:
        start, end = entity.span
        return {"text": entity.span.of(document.text), "start": start, "end": end}

    entities: dict[str, list[dict[str, Any]]] = {}
    for entity in document.annotation.entities:
        entities.setdefault(entity.label, []).append(name(entity))
    relations = [{r.label: {"head": name(r.head), "tail": name(r.tail)}} for r in document.annotation.relations]
    output: dict[str, Any] = {"entities": entities, "relations": relations}
    metadata = dict(document.metadata)
    others = metadata.get(_KEPT)
    if isinstance(others, dict) and others and others.keys().isdisjoint(output):
        output.update(others)
        del metadata[_KEPT]
    return with_metadata({"id": document.id, "input": document.text, "output": output}, metadata)


FORMAT = Format(
    name="gliner",
    title="GLiNER JSON",
    suffix=".json",
    holds=Holds(words=True, documents=False, crossing=False, metadata=True),
    recognise=recognise,
    read=read,
    write=write,
    keys=_OWN,
    record_keys=_OWN,
)

TEXTS = Format(
    name="gliner2",
    title="GLiNER2 JSONL",
    suffix=".jsonl",
    holds=Holds(words=False, text=True, same_span=False, metadata=True),
    recognise=recognise_text,
    read=read_text,
    write=write_text,
    keys=_OWN_TEXT,
    record_keys=_OWN_TEXT,
)
