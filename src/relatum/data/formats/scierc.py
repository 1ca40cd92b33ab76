"""SciERC and DyGIE++ JSONL: one document a line, spans in the document's words with inclusive ends."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from relatum.data.documents import from_words, split_parts, word_annotation, word_clusters
from relatum.data.formats.base import BySpan, Format, Holds, with_metadata
from relatum.data.json_files import first_record, json_lines
from relatum.data.problems import Problems
from relatum.data.records import Field, read_records
from relatum.types import Annotation, Document, Entity, Relation, Span

_OWN = ("doc_key", "sentences", "ner", "relations", "clusters")


def recognise(path: Path) -> bool:
    record = first_record(path) if path.is_file() else None
    return isinstance(record, dict) and "sentences" in record and "words" not in record and "text" not in record


def read(path: Path, problems: Problems) -> Iterator[Document]:
    return read_records(path, json_lines(path, problems), _parse, problems)


def _parse(record: Field, default_id: str) -> Document:
    sentences = [item.texts() for item in record.need("sentences").items()]
    if not all(sentences):
        record.remark("documents with sentences that have no words, which are passed over")
    size = sum(map(len, sentences))
    entities = []
    for item in _per_sentence(record, "ner", len(sentences)):
        start, end, label = item.items(3)
        entities.append(Entity(_inclusive(item, start, end, size), label.text()))
    known = BySpan(entities)
    relations = []
    for item in _per_sentence(record, "relations", len(sentences)):
        head_start, head_end, tail_start, tail_end, label = item.items(5)
        head = known.entity(item, _inclusive(item, head_start, head_end, size))
        tail = known.entity(item, _inclusive(item, tail_start, tail_end, size))
        relations.append(Relation(head, tail, label.text()))
    clusters = [_cluster(field, size) for field in record.lists("clusters")]
    rest = {key: value for key, value in record.mapping().items() if key not in _OWN}
    annotation = Annotation(tuple(entities), tuple(relations))
    return from_words(record.optional_name("doc_key") or default_id, sentences, annotation, clusters, rest)


def _per_sentence(record: Field, key: str, n_sentences: int) -> Iterator[Field]:
    field = record.get(key)
    if field is not None:
        for sentence in field.items(n_sentences):
            yield from sentence.items()


def _cluster(field: Field, size: int) -> list[Span]:
    spans = []
    for pair in field.items():
        start, end = pair.items(2)
        spans.append(_inclusive(pair, start, end, size))
    return spans


def _inclusive(field: Field, start: Field, end: Field, size: int) -> Span:
    if not size:
        raise field.bad("nothing, as the document has no words")
    last = end.integer(0, size - 1)
    return Span(start.integer(0, last), last + 1)


def _inclusive_pair(span: Span) -> list[int]:
    return [span.start, span.end - 1]


def write(path: Path, documents: Iterable[Document]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for document in documents:
            out.write(json.dumps(_record(document), ensure_ascii=False) + "\n")


def _record(document: Document) -> dict[str, Any]:
    offsets, sentences = split_parts(document)
    words = [word.of(document.text) for word in offsets]
    starts = [sentence.start for sentence in sentences]
    ner: list[list[list[object]]] = [[] for _ in starts]
    relations: list[list[list[object]]] = [[] for _ in starts]
    annotation = word_annotation(document)
    for entity in annotation.entities:
        number = bisect_right(starts, entity.span.start) - 1
        ner[number].append([entity.span.start, entity.span.end - 1, entity.label])
    for relation in annotation.relations:
        head, tail = relation.head.span, relation.tail.span
        number = bisect_right(starts, head.start) - 1
        relations[number].append([head.start, head.end - 1, tail.start, tail.end - 1, relation.label])
    record = {
        "doc_key": document.id,
        "sentences": [words[sentence.start : sentence.end] for sentence in sentences],
        "ner": ner,
        "relations": relations,
        "clusters": [list(map(_inclusive_pair, cluster)) for cluster in word_clusters(document)],
    }
    return with_metadata(record, document.metadata)


FORMAT = Format(
    name="scierc",
    title="SciERC / DyGIE++ JSONL",
    suffix=".jsonl",
    holds=Holds(words=True, same_span=False, clusters=True, metadata=True),
    recognise=recognise,
    read=read,
    write=write,
    keys=_OWN,
    record_keys=_OWN,
)
