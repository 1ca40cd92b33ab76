"""Making spaCy Docs from documents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from spacy.tokens import Doc, DocBin
from spacy.tokens import Span as SpacySpan
from spacy.vocab import Vocab

from relatum.data.documents import split_parts, word_annotation, word_clusters
from relatum.data.formats.docbin import GROUP, user_key
from relatum.errors import FormatError
from relatum.types import Document, Entity, Relation, Span


def write_file(path: Path, documents: Iterable[Document]) -> None:
    vocab = Vocab()
    packed = DocBin(store_user_data=True)
    for document in documents:
        packed.add(_doc(document, vocab))
    try:
        data = packed.to_bytes()
    except ValueError as error:
        raise FormatError(f"{len(packed)} documents are too many for one DocBin ({error}); write several") from None
    path.write_bytes(data)


def _doc(document: Document, vocab: Vocab) -> Doc:
    words, sentences = split_parts(document)
    texts, spaces, token_of_word = _cover(document.text, words)
    starts = {0, *(token_of_word[sentence.start] for sentence in sentences[1:])}
    is_start: list[bool | int | None] = [token in starts for token in range(len(texts))]
    doc = Doc(vocab, words=texts, spaces=spaces, sent_starts=is_start)

    def pair(span: Span) -> list[int]:
        return [token_of_word[span.start], token_of_word[span.end - 1] + 1]

    def to_record(entity: Entity) -> dict[str, Any]:
        start, end = pair(entity.span)
        record: dict[str, Any] = {"start": start, "end": end, "label": entity.label}
        if entity.fragments:
            record["fragments"] = [pair(piece) for piece in entity.fragments]
        return record | _id(entity)

    annotation = word_annotation(document)
    entities = [to_record(entity) for entity in annotation.entities]
    keep_order = _add_entities(doc, entities)
    relations = []
    for relation in annotation.relations:
        ends = {"head": to_record(relation.head), "tail": to_record(relation.tail)}
        relations.append({"label": relation.label, **ends, **_id(relation)})
    _complete([*entities, *relations], document)
    has_details = any(item.keys() - {"start", "end", "label", "id"} for item in entities)
    visible_tokens = [token for token, text in enumerate(texts) if not text.isspace()]
    extras: dict[str, object] = {
        "id": document.id or None,
        "relations": relations or None,
        "entity_details": entities if has_details or not keep_order else None,
        "clusters": [list(map(pair, cluster)) for cluster in word_clusters(document)] or None,
        "metadata_json": json.dumps(dict(document.metadata)) if document.metadata else None,
        "word_tokens": None if token_of_word == visible_tokens else token_of_word,
    }
    data: dict[Any, Any] = doc.user_data
    data.update({user_key(name): value for name, value in extras.items() if value is not None})
    return doc


def _add_entities(doc: Doc, records: Sequence[dict[str, Any]]) -> bool:
    """Add entities as `doc.ents`, or as a group of spans if spaCy would refuse them; True if their order is kept."""
    spans = []
    for record in records:
        span = SpacySpan(doc, record["start"], record["end"], label=record["label"], span_id=record.get("id", 0))
        spans.append(span)
    in_order = sorted(spans, key=lambda span: span.start)
    are_disjoint = all(a.end <= b.start for a, b in pairwise(in_order))
    if are_disjoint and all(span.label_ for span in spans):
        doc.ents = in_order
        return in_order == spans
    doc.spans[GROUP] = spans
    return True


def _id(item: Entity | Relation) -> dict[str, str]:
    return {"id": item.id} if item.id else {}


def _cover(text: str, words: Sequence[Span]) -> tuple[list[str], list[bool], list[int]]:
    """Return tokens that make up the whole text, True for each that a space follows, and the indices of the words."""
    texts: list[str] = []
    spaces: list[bool] = []
    token_of_word: list[int] = []
    at = 0
    for word in (*words, None):
        gap = text[at : word.start if word else len(text)]
        if texts and gap.startswith(" "):
            spaces[-1] = True
            gap = gap[1:]
        for token in (gap, word.of(text) if word else ""):
            if token:
                texts.append(token)
                spaces.append(False)
        if word:
            token_of_word.append(len(texts) - 1)
            at = word.end
    return texts, spaces, token_of_word


def _complete(records: Sequence[dict[str, Any]], document: Document) -> None:
    """Put scores and attributes on the records of all entities and relations."""
    targets: tuple[Entity | Relation, ...] = (*document.annotation.entities, *document.annotation.relations)
    for record, target in zip(records, targets, strict=True):
        if target.score is not None:
            record["score"] = target.score
    for attribute in document.attributes:
        # Two annotations may be equal while only one of them carries the attribute: identity goes first.
        same = (i for i, target in enumerate(targets) if target is attribute.target)
        record = records[next(same, targets.index(attribute.target))]
        record.setdefault("attributes", []).append([attribute.name, attribute.value])
