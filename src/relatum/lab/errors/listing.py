"""Sentences with gold and found side by side."""

from __future__ import annotations

from typing import Any, NamedTuple

from relatum.lab.errors.sentences import MatchedSentence
from relatum.types import Entity, Relation


class Line(NamedTuple):
    """One match as text; a side that has nothing is empty."""

    gold: str
    found: str
    kind: str


def sentence_lines(sentence: MatchedSentence) -> list[Line]:
    """Return the matches of a sentence as lines, entities first, then relations; right ones included."""
    text = sentence.document.text
    return [
        *(
            Line(_entity_line(text, match.gold), _entity_line(text, match.found), match.kind)
            for match in sentence.entities
        ),
        *(
            Line(_relation_line(text, match.gold), _relation_line(text, match.found), match.kind)
            for match in sentence.relations
        ),
    ]


def sentence_record(sentence: MatchedSentence) -> dict[str, Any]:
    """Return the matches of a sentence as JSON, right ones included; spans count characters of the document."""
    text = sentence.document.text
    return {
        "id": sentence.id,
        "text": sentence.text,
        "errors": sentence.n_errors,
        "entities": [
            {"kind": m.kind, "gold": _entity_record(text, m.gold), "found": _entity_record(text, m.found)}
            for m in sentence.entities
        ],
        "relations": [
            {"kind": m.kind, "gold": _relation_record(text, m.gold), "found": _relation_record(text, m.found)}
            for m in sentence.relations
        ],
    }


def _surface(text: str, entity: Entity) -> str:
    """Return the words of a mention on one line; the text between the fragments of a mention is left out."""
    return " … ".join(" ".join(piece.of(text).split()) for piece in entity.pieces())


def _entity_line(text: str, entity: Entity | None) -> str:
    return "" if entity is None else f"{entity.label}: {_surface(text, entity)}"


def _relation_line(text: str, relation: Relation | None) -> str:
    if relation is None:
        return ""
    head, tail = (f"{_surface(text, end)} [{end.label}]" for end in (relation.head, relation.tail))
    return f"{relation.label}: {head} → {tail}"


def _entity_record(text: str, entity: Entity | None) -> dict[str, Any] | None:
    if entity is None:
        return None
    return {
        "label": entity.label,
        "start": entity.span.start,
        "end": entity.span.end,
        "text": _surface(text, entity),
        **({} if entity.score is None else {"score": entity.score}),
    }


def _relation_record(text: str, relation: Relation | None) -> dict[str, Any] | None:
    if relation is None:
        return None
    return {
        "label": relation.label,
        "head": _entity_record(text, relation.head),
        "tail": _entity_record(text, relation.tail),
        **({} if relation.score is None else {"score": relation.score}),
    }
