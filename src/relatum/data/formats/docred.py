"""DocRED and Re-DocRED JSON: documents of words, with entities that have several mentions, and relations between them.

`vertexSet` lists the mentions of each entity; several are a cluster. `labels` are relations between entities, read as
relations between mentions by the rule in `concepts.py`. Evidence that names other sentences than those of the relation
is kept as the attribute `evidence`, such as `0 3`. If `rel_info.json` lies beside the file, relations get its names.

Two keys of our own, which other tools pass over, say what DocRED cannot: `mentions` of a label, pairs of numbers into
the mentions of head and tail, where the rule would find others; and `clusters`, spans in words of the document, where
`vertexSet` does not show them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

from relatum.data.documents import from_words, split_parts, word_annotation, word_clusters
from relatum.data.formats.base import Format, Holds, with_metadata, write_array
from relatum.data.formats.concepts import Concepts, SentenceOf, by_starts
from relatum.data.json_files import first_record, json_records, parse_json, read_text
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, Field, read_records, shorten, show
from relatum.errors import FormatError, Problem
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

_OWN = ("title", "sents", "vertexSet", "labels", "clusters")
_NAMES = ("rel_info.json", "relation-names.json")
_MENTION = {"name", "pos", "sent_id", "type", "global_pos", "index"}
_LABEL = {"h", "t", "r", "evidence", "mentions"}


def recognise(path: Path) -> bool:
    record = first_record(path) if path.is_file() else None
    return isinstance(record, dict) and "vertexSet" in record and "sents" in record


def read(path: Path, problems: Problems) -> Iterator[Document]:
    parse = partial(_parse, names=_relation_names(path.parent, problems))
    return read_records(path, json_records(path, problems), parse, problems)


def _relation_names(folder: Path, problems: Problems) -> dict[str, str]:
    """Return the names of relations in the file beside the data; none if there is no such file."""
    file = next((folder / name for name in _NAMES if (folder / name).is_file()), None)
    if file is None:
        return {}
    text = read_text(file, problems)
    if text is None:
        return {}
    try:
        field = Field.root(parse_json(text))
        return {key: field.label(key) for key in field.mapping()}
    except BadRecord as bad:
        problems.add(Problem(str(file), bad.found, bad.expected, field=bad.field))
        return {}


def _parse(record: Field, default_id: str, names: Mapping[str, str]) -> Document:
    sentences = [item.texts() for item in record.need("sents").items()]
    starts = list(accumulate(map(len, sentences), initial=0))
    vertices = [_vertex(item, sentences, starts) for item in record.need("vertexSet").items()]
    entities = list(chain.from_iterable(vertices))
    for _ in range(len(entities) - len(set(entities))):
        record.remark("mention that has place and type of another, read once")
    concepts = Concepts(lambda: by_starts(starts))
    for number, vertex in enumerate(vertices):
        for mention in vertex:
            concepts.add(str(number), mention)
    relations: list[tuple[Relation, str]] = []
    seen: set[Relation] = set()
    for item in record.lists("labels"):
        found = _relations(item, vertices, concepts, names)
        evidence = _evidence(item, found, len(sentences), by_starts(starts))
        new = [relation for relation in found if relation not in seen]
        for _ in range(len(found) - len(new)):
            item.remark("relation between entities that falls on the mentions of another, read once")
        relations += ((relation, evidence) for relation in new)
        seen.update(new)
    annotation = Annotation(tuple(dict.fromkeys(entities)), tuple(relation for relation, _ in relations))
    given = record.lists("clusters")
    clusters = [_given_cluster(item, starts[-1]) for item in given] if given else _clusters(vertices)
    rest = {key: value for key, value in record.mapping().items() if key not in _OWN}
    name = record.optional_name("title") or default_id
    document = from_words(name, sentences, annotation, clusters, rest)
    moved = zip(document.annotation.relations, relations, strict=True)
    attributes = tuple(Attribute(relation, "evidence", evidence) for relation, (_, evidence) in moved if evidence)
    return Document(
        name,
        document.text,
        document.annotation,
        document.words,
        document.sentences,
        document.clusters,
        attributes,
        document.metadata,
    )


def _vertex(field: Field, sentences: Sequence[Sequence[str]], starts: Sequence[int]) -> list[Entity]:
    return [_mention(item, sentences, starts) for item in field.items()]


def _given_cluster(field: Field, size: int) -> list[Span]:
    return [_word_span(item, size) for item in field.items()]


def _clusters(vertices: Iterable[Sequence[Entity]]) -> list[list[Span]]:
    """Return the spans of each vertex with several."""
    clusters = []
    for vertex in vertices:
        spans = dict.fromkeys(mention.span for mention in vertex)
        if len(spans) > 1:
            clusters.append(list(spans))
    return clusters


def _mention(item: Field, sentences: Sequence[Sequence[str]], starts: Sequence[int]) -> Entity:
    if item.mapping().keys() - _MENTION:
        item.remark(f"mention with keys that are not read, beyond {', '.join(sorted(_MENTION))}")
    number = item.need("sent_id").integer(0, len(sentences) - 1)
    span = _word_span(item.need("pos"), len(sentences[number]))
    return Entity(span.shift(starts[number]), item.label("type"))


def _word_span(field: Field, size: int) -> Span:
    start, end = field.items(2)
    return field.span(start.value, end.value, size, "words")


def _relations(
    item: Field, vertices: Sequence[Sequence[Entity]], concepts: Concepts, names: Mapping[str, str]
) -> list[Relation]:
    if item.mapping().keys() - _LABEL:
        item.remark(f"relation with keys that are not read, beyond {', '.join(sorted(_LABEL))}")
    head, tail = (item.need(key).integer(0, len(vertices) - 1) for key in ("h", "t"))
    label = item.label("r")
    if label in names:
        label = names[label]
        item.remark("relation whose id was read as its name in the file of names")
    if item.get("mentions"):
        pairs = [pair.items(2) for pair in item.lists("mentions")]
        return [
            Relation(
                vertices[head][one.integer(0, len(vertices[head]) - 1)],
                vertices[tail][other.integer(0, len(vertices[tail]) - 1)],
                label,
            )
            for one, other in pairs
        ]
    evidence = [field.integer(0) for field in item.lists("evidence")]
    return list(concepts.read(item, str(head), str(tail), label, evidence))


def _evidence(item: Field, found: Iterable[Relation], n_sentences: int, sentence_of: SentenceOf) -> str:
    """Return the evidence of a relation as text; empty if it is the sentences of the relations that were read."""
    numbers = sorted({field.integer(0, n_sentences - 1) for field in item.lists("evidence")})
    return " ".join(map(str, numbers)) if numbers and numbers != _own_sentences(found, sentence_of) else ""


def _own_sentences(relations: Iterable[Relation], sentence_of: SentenceOf) -> list[int]:
    """Return the sentences that hold both ends of a relation."""
    heads = {sentence_of(r.head) for r in relations if sentence_of(r.head) == sentence_of(r.tail)}
    return sorted(heads)


def check(document: Document) -> None:
    """Raise `BadRecord` for what DocRED cannot hold."""
    _Writer(document).record()


def write(path: Path, documents: Iterable[Document]) -> None:
    write_array(path, map(_record_or_error, documents))


def _record_or_error(document: Document) -> dict[str, Any]:
    try:
        return _Writer(document).record()
    except BadRecord as bad:
        raise FormatError(f"document {shorten(document.id)}: found {bad.found}; expected {bad.expected}") from None


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a mention in `vertexSet`: the number of its vertex, and its number there."""

    vertex: int
    number: int


class _Writer:
    """A document in the words of DocRED."""

    def __init__(self, document: Document) -> None:
        self._document = document
        offsets, self._sentences = split_parts(document)
        self._words = [word.of(document.text) for word in offsets]
        self._annotation = word_annotation(document)
        self._clusters = word_clusters(document)
        self._sentence_of = by_starts([sentence.start for sentence in self._sentences])
        self._vertices = self._make_vertices()
        self._places = {
            mention: _Place(number, index)
            for number, vertex in enumerate(self._vertices)
            for index, mention in enumerate(vertex)
        }
        self._concepts = Concepts(lambda: self._sentence_of)
        for mention, place in self._places.items():
            self._concepts.add(str(place.vertex), mention)

    def _make_vertices(self) -> list[list[Entity]]:
        """Return the mentions of each entity: those of a cluster, or a mention alone."""
        waiting = dict.fromkeys(self._annotation.entities)
        vertices = []
        for cluster in self._clusters:
            vertex = [mention for mention in waiting if mention.span in cluster]
            vertices.append(sorted(vertex, key=lambda mention: cluster.index(mention.span)))
            for mention in vertex:
                del waiting[mention]
        return [*filter(None, vertices), *([mention] for mention in waiting)]

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "title": self._document.id,
            "sents": [self._words[start:end] for start, end in self._sentences],
            "vertexSet": [list(map(self._mention, vertex)) for vertex in self._vertices],
            "labels": list(self._labels()),
        }
        if sorted(map(sorted, _clusters(self._vertices))) != sorted(map(sorted, self._clusters)):
            record["clusters"] = self._clusters
        return with_metadata(record, self._document.metadata)

    def _mention(self, mention: Entity) -> dict[str, Any]:
        number = self._sentence_of(mention)
        span = mention.span.shift(-self._sentences[number].start)
        name = " ".join(self._words[mention.span.start : mention.span.end])
        return {"name": name, "pos": list(span), "sent_id": number, "type": mention.label}

    def _labels(self) -> Iterator[dict[str, Any]]:
        groups: dict[tuple[int, int, str], list[Relation]] = {}
        evidence: dict[Relation, list[int]] = {}
        known = dict(zip(self._document.annotation.relations, self._annotation.relations, strict=True))
        for attribute in self._document.attributes:
            if attribute.name == "evidence" and isinstance(attribute.target, Relation):
                evidence[known[attribute.target]] = self._numbers(attribute.value)
        for relation in self._annotation.relations:
            ends = self._places[relation.head].vertex, self._places[relation.tail].vertex
            groups.setdefault((*ends, relation.label), []).append(relation)
        for (head, tail, label), group in groups.items():
            given = sorted({number for relation in group for number in evidence.get(relation, ())})
            numbers = given or _own_sentences(group, self._sentence_of)
            item = {"h": head, "t": tail, "r": label, "evidence": numbers}
            implied = self._concepts.relations(str(head), str(tail), label, numbers)
            if len(implied) != len(group) or set(implied) != set(group):
                item["mentions"] = [[self._places[r.head].number, self._places[r.tail].number] for r in group]
            yield item

    def _numbers(self, value: str | None) -> list[int]:
        numbers = [int(number) for number in (value or "").split() if re.fullmatch("[0-9]{1,9}", number)]
        if not numbers or max(numbers) >= len(self._sentences):
            raise BadRecord(f"the evidence {show(value)}", "numbers of sentences from 0, with spaces between them")
        return numbers


FORMAT = Format(
    name="docred",
    title="DocRED JSON",
    suffix=".json",
    holds=Holds(words=True, clusters=True, metadata=True, attribute_names=("evidence",)),
    recognise=recognise,
    read=read,
    write=write,
    check=check,
    keys=_OWN,
    record_keys=_OWN,
)
