"""Our own format: one document or sentence a line, as raw text or as words. See docs/data.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from relatum.data.documents import Names, from_words, is_joined, split_parts, word_annotation, word_clusters
from relatum.data.formats.base import Format, Holds
from relatum.data.problems import Problems
from relatum.data.records import Field, first_record, json_lines, read_records
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

_RECORD = ("id", "entities", "relations", "sentences", "clusters", "metadata")
_ENTITY = ("id", "start", "end", "text", "label", "score", "fragments", "attributes")
_RELATION = ("id", "head", "tail", "label", "score", "attributes")


def recognise(path: Path) -> bool:
    record = first_record(path) if path.is_file() else None
    return isinstance(record, dict) and ("words" in record or "text" in record) and "tokens" not in record


def read(path: Path, problems: Problems) -> Iterator[Document]:
    return read_records(path, json_lines(path, problems), _parse, problems)


def _parse(record: Field, default_id: str) -> Document:
    id_field, extra = record.get("id"), record.get("metadata")
    name = id_field.name() if id_field else default_id
    metadata = extra.mapping() if extra else {}
    if "words" in record.mapping():
        record.only("words", *_RECORD)
        words = record.need("words").texts()
        annotation = _annotation(record, len(words), "words")
        sentences = [words[s.start : s.end] for s in _sentences(record, len(words))]
        document = from_words(name, sentences, annotation, _clusters(record, len(words), "words"), metadata)
    else:
        record.only("text", "word_offsets", *_RECORD)
        text = record.need("text").text(empty=True)
        offsets = _offsets(record, len(text))
        document = Document(
            name,
            text,
            _annotation(record, len(text), "characters", text),
            offsets,
            None if offsets is None else _sentences(record, len(offsets)),
            _clusters(record, len(text), "characters"),
            metadata=metadata,
        )
        if offsets is None and (field := record.get("sentences")):
            raise field.bad("'word_offsets' beside it, since sentences are ranges of words", "'sentences' alone")
    return replace(document, attributes=_attributes(record, document.annotation))


def _list(record: Field, key: str) -> list[Field]:
    field = record.get(key)
    return field.items() if field else []


def _annotation(record: Field, size: int, unit: str, text: str | None = None) -> Annotation:
    entities: list[Entity] = []
    by_id: dict[str, Entity] = {}
    for item in _list(record, "entities"):
        item.only(*_ENTITY)
        span = item.span(item.need("start").value, item.need("end").value, size, unit)
        fragments = [_pair(pair, size, unit) for pair in _list(item, "fragments")]
        if fragments and (fragments[0].start, fragments[-1].end) != (span.start, span.end):
            raise item.bad("fragments that begin at 'start' and stop at 'end'")
        if any(a.end >= b.start for a, b in pairwise(fragments)):
            raise item.bad("fragments in order, with a gap between each two")
        surface = item.get("text")
        if surface and text is not None and not fragments and surface.text() != span.of(text):
            raise surface.bad(f"{span.of(text)!r}, the characters [{span.start}, {span.end}) of the text")
        entity_id, score = item.get("id"), item.get("score")
        entity = Entity(
            span,
            item.need("label").text(),
            tuple(fragments) if len(fragments) > 1 else (),
            score.number() if score else None,
            entity_id.name() if entity_id else None,
        )
        name = entity.id if entity.id is not None else str(len(entities))
        if name in by_id:
            raise item.bad("entity ids that differ", f"the entity id {name!r} again")
        by_id[name] = entity
        entities.append(entity)
    relations = []
    for item in _list(record, "relations"):
        item.only(*_RELATION)
        ends = []
        for key in ("head", "tail"):
            end = item.need(key)
            if end.name() not in by_id:
                raise end.bad("the id of an entity of this record (its number, from 0, where it has no id)")
            ends.append(by_id[end.name()])
        relation_id, score = item.get("id"), item.get("score")
        relations.append(
            Relation(
                ends[0],
                ends[1],
                item.need("label").text(),
                score.number() if score else None,
                relation_id.name() if relation_id else None,
            )
        )
    return Annotation(tuple(entities), tuple(relations))


def _attributes(record: Field, annotation: Annotation) -> tuple[Attribute, ...]:
    found = []
    both: tuple[tuple[str, tuple[Entity | Relation, ...]], ...] = (
        ("entities", annotation.entities),
        ("relations", annotation.relations),
    )
    for key, targets in both:
        for item, target in zip(_list(record, key), targets, strict=True):
            field = item.get("attributes")
            if field is None:
                continue
            for name, value in field.mapping().items():
                for one in value if isinstance(value, list) else [value]:
                    if one is not True and not isinstance(one, str):
                        raise Field(value, field, name).bad("true, a string, or a list of strings")
                    found.append(Attribute(target, name, None if one is True else one))
    return tuple(found)


def _pair(field: Field, size: int, unit: str) -> Span:
    start, end = field.items(2)
    return field.span(start.value, end.value, size, unit)


def _clusters(record: Field, size: int, unit: str) -> tuple[tuple[Span, ...], ...]:
    return tuple(tuple(_pair(pair, size, unit) for pair in item.items()) for item in _list(record, "clusters"))


def _offsets(record: Field, size: int) -> tuple[Span, ...] | None:
    field = record.get("word_offsets")
    if field is None:
        return None
    spans = tuple(_pair(pair, size, "characters") for pair in field.items())
    if any(a.end > b.start for a, b in pairwise(spans)):
        raise field.bad("words in order that do not overlap")
    return spans


def _sentences(record: Field, size: int) -> tuple[Span, ...]:
    """Ranges of words that follow each other from the first word to the last; one for all where none are given."""
    field = record.get("sentences")
    if field is None:
        return (Span(0, size),) if size else ()
    spans = tuple(_pair(pair, size, "words") for pair in field.items())
    borders = [0, *(span.end for span in spans)]
    if [span.start for span in spans] != borders[:-1] or borders[-1] != size:
        raise field.bad(f"ranges of words that follow each other from 0 to {size}")
    return spans


def write(path: Path, documents: Iterable[Document]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for document in documents:
            out.write(json.dumps(to_record(document), ensure_ascii=False) + "\n")


def to_record(document: Document) -> dict[str, Any]:
    """The document as a JSON record: in words where the text is nothing but its words, else in characters."""
    record: dict[str, Any] = {"id": document.id}
    annotation, clusters = document.annotation, [list(cluster) for cluster in document.clusters]
    if is_joined(document):
        record["words"] = [word.of(document.text) for word in split_parts(document)[0]]
        annotation, clusters = word_annotation(document), word_clusters(document)
    else:
        record["text"] = document.text
        if document.words is not None:
            record["word_offsets"] = [[word.start, word.end] for word in document.words]
    if document.sentences is not None and len(document.sentences) > 1:
        record["sentences"] = [[sentence.start, sentence.end] for sentence in document.sentences]
    record.update(annotation_record(annotation, document.text if "text" in record else None))
    _attach(record, document)
    if clusters:
        record["clusters"] = [[[span.start, span.end] for span in cluster] for cluster in clusters]
    if document.metadata:
        record["metadata"] = dict(document.metadata)
    return record


def annotation_record(annotation: Annotation, text: str | None = None) -> dict[str, Any]:
    """Entities and relations as JSON; every entity gets an id, and its text where the text is given."""
    names = Names(annotation.entities)
    entities = []
    for entity, name in zip(annotation.entities, names.all, strict=True):
        item: dict[str, Any] = {"id": name, "start": entity.span.start, "end": entity.span.end}
        if entity.fragments:
            item["fragments"] = [[piece.start, piece.end] for piece in entity.fragments]
        if text is not None:
            item["text"] = " ".join(piece.of(text) for piece in entity.pieces())
        item["label"] = entity.label
        if entity.score is not None:
            item["score"] = entity.score
        entities.append(item)
    relations = []
    for relation in annotation.relations:
        item = {} if relation.id is None else {"id": relation.id}
        item |= {"head": names.of(relation.head), "tail": names.of(relation.tail), "label": relation.label}
        if relation.score is not None:
            item["score"] = relation.score
        relations.append(item)
    return {"entities": entities, "relations": relations}


def _attach(record: dict[str, Any], document: Document) -> None:
    """Put each attribute on the item it belongs to; a repeated name makes a list."""
    for attribute in document.attributes:
        is_entity = isinstance(attribute.target, Entity)
        targets: Sequence[Entity | Relation] = (
            document.annotation.entities if is_entity else document.annotation.relations
        )
        # Two annotations may be equal while only one of them carries the attribute: identity goes first.
        same = (i for i, target in enumerate(targets) if target is attribute.target)
        item = record["entities" if is_entity else "relations"][next(same, targets.index(attribute.target))]
        values = item.setdefault("attributes", {})
        value = True if attribute.value is None else attribute.value
        if attribute.name not in values:
            values[attribute.name] = value
        elif isinstance(values[attribute.name], list):
            values[attribute.name].append(value)
        else:
            values[attribute.name] = [values[attribute.name], value]


FORMAT = Format(
    name="jsonl",
    title="relatum JSONL",
    suffix=".jsonl",
    holds=Holds(words=False, text=True, discontinuous=True, clusters=True, attributes=True, scores=True, metadata=True),
    recognise=recognise,
    read=read,
    write=write,
)
