"""Our own format: one document or sentence a line, as raw text or as words. See docs/data.md."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from relatum.data.documents import Names, is_joined, join_words, split_parts, word_annotation, word_clusters
from relatum.data.formats.base import Format, Holds
from relatum.data.json_files import first_record, json_records
from relatum.data.problems import Problems
from relatum.data.records import Field, read_records, shorten
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

_RECORD = ("id", "entities", "relations", "sentences", "clusters", "metadata")
_KEYS = ("text", "words", "word_offsets", *_RECORD)
_FOREIGN = {"tokens", "annotation_id"}
"""Keys that mark other formats which also have a text."""
_ENTITY = ("id", "start", "end", "text", "label", "score", "fragments", "attributes")
_RELATION = ("id", "head", "tail", "label", "score", "attributes")
_PLAIN = {"id", "start", "end", "text", "label"}
_PLAIN_RELATION = {"head", "tail", "label"}


def recognise(path: Path) -> bool:
    """True for a record with a text or words, unless all its other keys belong to another format."""
    record = first_record(path) if path.is_file() else None
    if not isinstance(record, dict) or not record.keys() & {"words", "text"} or record.keys() & _FOREIGN:
        return False
    others = record.keys() - {"words", "text", "id"}
    return not others or any(difflib.get_close_matches(key, _KEYS, 1, 0.8) for key in others)


def read(path: Path, problems: Problems) -> Iterator[Document]:
    return read_records(path, json_records(path, problems), parse_record, problems)


def parse_record(record: Field, default_id: str) -> Document:
    values = record.mapping()
    name = record.optional_name("id") or default_id
    metadata = record.need("metadata").mapping() if values.get("metadata") is not None else {}
    if "words" in values:
        record.only("words", *_RECORD)
        flat = record.need("words").texts()
        size = len(flat)
        ranges = _sentences(record, size)
        text, words, sentences = join_words([flat[start:end] for start, end in ranges])

        def characters(span: Span) -> Span:
            return Span(words[span.start].start, words[span.end - 1].end)

        annotation = _annotation(record, size, "words", characters)
        clusters = tuple(tuple(map(characters, cluster)) for cluster in _clusters(record, size, "words"))
        return _checked(record, Document(name, text, annotation, words, sentences, clusters, metadata=metadata))
    record.only(*_KEYS)  # words would have been read above
    text = record.need("text").text(empty=True)
    size = len(text)
    offsets = _offsets(record, size)
    if offsets is None and (field := record.get("sentences")):
        raise field.bad("'word_offsets' beside it, since sentences are ranges of words", "'sentences' alone")
    document = Document(
        name,
        text,
        _annotation(record, size, "characters"),
        offsets,
        None if offsets is None else _sentences(record, len(offsets)),
        _clusters(record, size, "characters"),
        metadata=metadata,
    )
    return _checked(record, document)


def _annotation(record: Field, size: int, unit: str, characters: Callable[[Span], Span] | None = None) -> Annotation:
    """Return the entities and relations; if spans count words, `characters` converts them to spans of the text."""
    entities: list[Entity] = []
    by_id: dict[str, Entity] = {}
    listed = record.listed("entities")
    for index, values in enumerate(listed.sequence()):
        entity = _plain_entity(values, size, characters)
        if entity is None:
            entity = _entity(Field(values, listed, index), size, unit, characters)
        name = entity.id if entity.id is not None else str(index)
        if name in by_id:
            item = Field(values, listed, index)
            raise item.bad("entity ids that differ", f"the entity id {shorten(name)} again")
        by_id[name] = entity
        entities.append(entity)
    listed = record.listed("relations")
    relations = [
        _plain_relation(values, by_id) or _relation(Field(values, listed, index), by_id)
        for index, values in enumerate(listed.sequence())
    ]
    return Annotation(tuple(entities), tuple(relations))


def _plain_entity(values: object, size: int, characters: Callable[[Span], Span] | None) -> Entity | None:
    """Return the entity if it has the usual form; None leaves it to `_entity`, which knows every case and complaint."""
    if type(values) is dict and values.keys() <= _PLAIN:
        start = values.get("start")
        end = values.get("end")
        label = values.get("label")
        name = values.get("id")
        if (
            type(start) is int
            and type(end) is int
            and 0 <= start < end <= size
            and type(label) is str
            and label.isascii()
            and label
            and (name is None or (type(name) is str and name.isascii() and name))
        ):
            span = Span(start, end)
            return Entity(characters(span) if characters else span, label, (), None, name)
    return None


def _entity(item: Field, size: int, unit: str, characters: Callable[[Span], Span] | None) -> Entity:
    item.only(*_ENTITY)
    span = item.span(item.need("start").value, item.need("end").value, size, unit)
    fragments = _fragments(item, span, size, unit)
    if characters:
        span = characters(span)
        fragments = tuple(map(characters, fragments))
    return Entity(span, item.label("label"), fragments, item.optional_number("score"), item.optional_name("id"))


def _plain_relation(values: object, by_id: dict[str, Entity]) -> Relation | None:
    """Return the relation if it has the usual form; None leaves it to `_relation`."""
    if type(values) is dict and values.keys() == _PLAIN_RELATION:
        head, tail, label = values["head"], values["tail"], values["label"]
        if type(head) is type(tail) is int:
            head, tail = str(head), str(tail)
        if (
            type(label) is str
            and label.isascii()
            and label
            and type(head) is type(tail) is str
            and head in by_id
            and tail in by_id
        ):
            return Relation(by_id[head], by_id[tail], label)
    return None


def _relation(item: Field, by_id: dict[str, Entity]) -> Relation:
    item.only(*_RELATION)
    ends = []
    for key in ("head", "tail"):
        end = item.need(key)
        if (name := end.name()) not in by_id:
            raise end.bad("the id of an entity of this record (its number, from 0, where it has no id)")
        ends.append(by_id[name])
    return Relation(ends[0], ends[1], item.label("label"), item.optional_number("score"), item.optional_name("id"))


def _fragments(item: Field, span: Span, size: int, unit: str) -> tuple[Span, ...]:
    pieces = [_pair(pair, size, unit) for pair in item.lists("fragments")]
    if not pieces:
        return ()
    if (pieces[0].start, pieces[-1].end) != span:
        raise item.bad("fragments that begin at 'start' and stop at 'end'")
    gap = 1 if unit == "characters" else 0  # between two words there is always a space
    if any(a.end + gap > b.start for a, b in pairwise(pieces)):
        raise item.bad("fragments in order, with a gap between each two")
    return tuple(pieces) if len(pieces) > 1 else ()


def _checked(record: Field, document: Document) -> Document:
    """Return the document with the attributes of its entities and relations; check entities' texts against the text."""
    attributes: list[Attribute] = []
    annotation = document.annotation
    for key, targets in (("entities", annotation.entities), ("relations", annotation.relations)):
        for index, values in enumerate(record.mapping().get(key) or ()):
            target: Entity | Relation = targets[index]
            if isinstance(target, Entity) and values.get("text") is not None:
                text = surface_text(target, document.text)
                if values["text"] != text:
                    ranges = ", ".join(f"[{piece.start}, {piece.end})" for piece in target.pieces())
                    surface = record.need(key).items()[index].need("text")
                    raise surface.bad(f"{shorten(text)}, the characters {ranges} of the text")
            if values.get("attributes") is not None:
                attributes += _attributes(record.need(key).items()[index].need("attributes"), target)
    return replace(document, attributes=tuple(attributes)) if attributes else document


def surface_text(entity: Entity, text: str) -> str:
    """Return the characters of an entity, its fragments joined by spaces."""
    return " ".join(piece.of(text) for piece in entity.fragments) if entity.fragments else entity.span.of(text)


def _attributes(field: Field, target: Entity | Relation) -> Iterator[Attribute]:
    for name, value in field.mapping().items():
        values = value if isinstance(value, list) else [value]
        if not values or not all(item is True or isinstance(item, str) for item in values):
            raise Field(value, field, name).bad("true, a string, or a list of strings")
        for item in values:
            yield Attribute(target, name, None if item is True else item)


def _pair(field: Field, size: int, unit: str) -> Span:
    start, end = field.items(2)
    return field.span(start.value, end.value, size, unit)


def _spans(field: Field, size: int, unit: str) -> tuple[Span, ...]:
    return tuple(_pair(pair, size, unit) for pair in field.items())


def _clusters(record: Field, size: int, unit: str) -> tuple[tuple[Span, ...], ...]:
    return tuple(_spans(cluster, size, unit) for cluster in record.lists("clusters"))


def _offsets(record: Field, size: int) -> tuple[Span, ...] | None:
    field = record.get("word_offsets")
    if field is None:
        return None
    spans = _spans(field, size, "characters")
    if any(a.end > b.start for a, b in pairwise(spans)):
        raise field.bad("words in order that do not overlap")
    return spans


def _sentences(record: Field, size: int) -> tuple[Span, ...]:
    """Return ranges of words that follow each other from the first word to the last; a single one if none are given."""
    field = record.get("sentences")
    if field is None:
        return (Span(0, size),) if size else ()
    spans = _spans(field, size, "words")
    borders = [0, *(span.end for span in spans)]
    if [span.start for span in spans] != borders[:-1] or borders[-1] != size:
        raise field.bad(f"ranges of words that follow each other from 0 to {size}")
    return spans


def write(path: Path, documents: Iterable[Document]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for document in documents:
            out.write(json.dumps(to_record(document), ensure_ascii=False) + "\n")


def to_record(document: Document) -> dict[str, Any]:
    """Return the document as a JSON record: in words if the text is nothing but its words, else in characters."""
    record: dict[str, Any] = {"id": document.id}
    annotation = document.annotation
    clusters = [list(cluster) for cluster in document.clusters]
    if in_words := _in_words(document):
        record["words"] = [word.of(document.text) for word in split_parts(document)[0]]
        annotation, clusters = in_words
    else:
        record["text"] = document.text
        if document.words is not None:
            record["word_offsets"] = _pairs(document.words)
    if document.sentences is not None and len(document.sentences) > 1:
        record["sentences"] = _pairs(document.sentences)
    record.update(annotation_record(annotation, document.text if "text" in record else None))
    _attach(record, document)
    if clusters:
        record["clusters"] = [_pairs(cluster) for cluster in clusters]
    if document.metadata:
        record["metadata"] = dict(document.metadata)
    return record


def _pairs(spans: Iterable[Span]) -> list[list[int]]:
    return [[span.start, span.end] for span in spans]


def _in_words(document: Document) -> tuple[Annotation, list[list[Span]]] | None:
    """Return the annotation and the clusters in words; None if words alone do not say everything."""
    if not is_joined(document):
        return None
    try:
        return word_annotation(document), word_clusters(document)
    except ValueError:  # an annotation begins or ends inside a word
        return None


def annotation_record(annotation: Annotation, text: str | None = None) -> dict[str, Any]:
    """Return entities and relations as JSON; every entity gets an id, and its characters if the text is given."""
    names = Names(annotation.entities)
    entities = []
    for entity, name in zip(annotation.entities, names.all, strict=True):
        item: dict[str, Any] = {"id": name, "start": entity.span.start, "end": entity.span.end}
        if entity.fragments:
            item["fragments"] = _pairs(entity.fragments)
        if text is not None:
            item["text"] = surface_text(entity, text)
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
    holds=Holds(
        ids=True,
        word_offsets=True,
        words=False,
        text=True,
        discontinuous=True,
        clusters=True,
        attributes=True,
        scores=True,
        metadata=True,
    ),
    recognise=recognise,
    read=read,
    write=write,
    record_keys=_KEYS,
)
