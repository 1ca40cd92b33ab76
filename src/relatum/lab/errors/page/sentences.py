"""One sentence with gold and found side by side, and its errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from relatum.lab.errors.kinds import EntityMatch, RelationMatch
from relatum.lab.errors.sentences import MatchedSentence
from relatum.types import Entity

Side = Literal["gold", "found"]
Numbers = Mapping[str, int]
"""The number of each type, by which the script refers to it, since its name may contain anything."""


class MarkedText(NamedTuple):
    """Some text of a sentence, and the entity that it belongs to, if any."""

    text: str
    entity: Entity | None = None
    is_wrong: bool = False


class ErrorRow(NamedTuple):
    """An error; `types` are the numbers of its types, for the filter."""

    task: Literal["entity", "relation"]
    match: EntityMatch | RelationMatch
    types: str


def mark_entities(sentence: MatchedSentence, side: Side) -> Iterator[MarkedText]:
    """Yield the text with the entities of one side.

    Of entities that overlap only the first is marked; the table below lists the errors of all.
    """
    text = sentence.document.text
    if not sentence.words:
        yield MarkedText(text)
        return
    here = sentence.words[0].start
    last = sentence.words[-1].end
    for part in _pieces(sentence, side):
        start, end = part.start, min(part.end, last)
        if start < here or start >= end:
            continue
        yield MarkedText(text[here:start])
        yield MarkedText(text[start:end], part.entity, part.is_wrong)
        here = end
    yield MarkedText(text[here:last])


class _Piece(NamedTuple):
    start: int
    end: int
    entity: Entity
    is_wrong: bool


def _pieces(sentence: MatchedSentence, side: Side) -> list[_Piece]:
    """Return the pieces of the entities of one side, in their order in the text."""
    pieces: list[_Piece] = []
    for match in sentence.entities:
        entity = match.gold if side == "gold" else match.found
        if entity is not None:
            is_wrong = match.kind != "right"
            pieces += [_Piece(piece.start, piece.end, entity, is_wrong) for piece in entity.pieces()]
    return sorted(pieces, key=lambda piece: (piece.start, -piece.end))


def list_errors(sentence: MatchedSentence, types: Numbers) -> list[ErrorRow]:
    """Return the errors of a sentence: of entities, then of relations."""
    return [
        *(ErrorRow("entity", match, _types(match, types)) for match in sentence.entities if match.kind != "right"),
        *(ErrorRow("relation", match, _types(match, types)) for match in sentence.relations if match.kind != "right"),
    ]


def _types(match: EntityMatch | RelationMatch, types: Numbers) -> str:
    labels = {item.label for item in (match.gold, match.found) if item is not None}
    return " ".join(str(types[label]) for label in sorted(labels))


def words_of(sentence: MatchedSentence, entity: Entity) -> str:
    """Return the words of an entity on one line."""
    text = sentence.document.text
    return " … ".join(" ".join(piece.of(text).split()) for piece in entity.pieces())


def occurrence(sentence: MatchedSentence, entity: Entity) -> int | None:
    """Return which occurrence of its words in the sentence an entity is; None if they occur once."""
    text = sentence.document.text
    words = entity.span.of(text)
    if not sentence.words or len(entity.pieces()) > 1 or sentence.text.count(words) < 2:
        return None
    return text[sentence.words[0].start : entity.span.start].count(words) + 1
