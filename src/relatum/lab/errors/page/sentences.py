"""One sentence with gold and found side by side, and its errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from relatum.extractor.drawing.html import mark_spans
from relatum.lab.errors.kinds import EntityMatch, RelationMatch
from relatum.lab.errors.sentences import MatchedSentence
from relatum.types import Entity, Span

Side = Literal["gold", "found"]
Numbers = Mapping[str, int]
"""The number of each type, by which the script refers to it, since its name may contain anything."""


class MarkedText(NamedTuple):
    """Some text of a sentence, or, with an entity, the beginning or the end of a mark.

    `is_last` is the end of the last mark of a piece of the entity.
    """

    text: str = ""
    entity: Entity | None = None
    is_wrong: bool = False
    opens: bool = False
    is_last: bool = False


class ErrorRow(NamedTuple):
    """An error; `types` are the numbers of its types, for the filter."""

    task: Literal["entity", "relation"]
    match: EntityMatch | RelationMatch
    types: str


def mark_entities(sentence: MatchedSentence, side: Side) -> Iterator[MarkedText]:
    """Yield the text with a mark around each piece of the entities of one side; marks may be inside one another."""
    text = sentence.document.text
    if not sentence.words:
        yield MarkedText(text)
        return
    first = sentence.words[0].start
    last = sentence.words[-1].end
    pieces = [piece for piece in _pieces(sentence, side) if first <= piece.start < last]
    spans = [Span(piece.start - first, min(piece.end, last) - first) for piece in pieces]
    for part in mark_spans(text[first:last], spans):
        if part.span is None:
            yield MarkedText(part.text)
        else:
            piece = pieces[part.span]
            yield MarkedText("", piece.entity, piece.is_wrong, part.opens, part.is_last)


class _Piece(NamedTuple):
    start: int
    end: int
    entity: Entity
    is_wrong: bool


def _pieces(sentence: MatchedSentence, side: Side) -> list[_Piece]:
    """Return the pieces of the entities of one side."""
    pieces: list[_Piece] = []
    for match in sentence.entities:
        entity = match.gold if side == "gold" else match.found
        if entity is not None:
            is_wrong = match.kind != "right"
            pieces += [_Piece(piece.start, piece.end, entity, is_wrong) for piece in entity.pieces()]
    return pieces


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
