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
    doc = Doc(vocab, words=texts, spaces=spaces, sent_starts=[i in starts for i in range(len(texts))])

    def pair(span: Span) -> list[int]:
        return [token_of_word[span.start], token_of_word[span.end - 1] + 1]

    def end(entity: Entity) -> dict[str, Any]:
        record: dict[str, Any] = dict(zip(("start", "end"), pair(entity.span), strict=True), label=entity.label)
        if entity.fragments:
            record["fragments"] = [pair(piece) for piece in entity.fragments]
        return record | _id(entity)

    annotation = word_annotation(document)
    entities = [end(entity) for entity in annotation.entities]
    spans = [
        SpacySpan(doc, item["start"], item["end"], label=item["label"], span_id=item.get("id", 0)) for item in entities
    ]
    kept = sorted(spans, key=lambda span: span.start)
    if all(span.label_ for span in spans) and all(a.end <= b.start for a, b in pairwise(kept)):
        doc.ents = kept
    else:
        doc.spans[GROUP] = kept = spans
    relations = [{"label": r.label, "head": end(r.head), "tail": end(r.tail), **_id(r)} for r in annotation.relations]
    _complete([*entities, *relations], document)
    plain = kept == spans and all(item.keys() <= {"start", "end", "label", "id"} for item in entities)
    telling = [i for i, text in enumerate(texts) if not text.isspace()] == token_of_word
    extras: dict[str, object] = {
        "id": document.id or None,
        "relations": relations or None,
        "entity_details": None if plain else entities,
        "clusters": [list(map(pair, cluster)) for cluster in word_clusters(document)] or None,
        "metadata_json": json.dumps(dict(document.metadata)) if document.metadata else None,
        "word_tokens": None if telling else token_of_word,
    }
    data: dict[Any, Any] = doc.user_data
    data.update({user_key(name): value for name, value in extras.items() if value is not None})
    return doc


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
