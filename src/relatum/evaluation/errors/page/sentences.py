"""One sentence with gold and found side by side, and its errors below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from relatum.evaluation.errors.kinds import EntityMatch, RelationMatch
from relatum.evaluation.errors.page.text import safe, words_of
from relatum.evaluation.errors.sentences import MatchedSentence
from relatum.types import Entity, Relation

Numbers = Mapping[str, int]
"""The number of each type, by which script and style refer to it, since its name may contain anything."""


def show_sentence(sentence: MatchedSentence, loss: float, place: int, types: Numbers) -> str:
    """Return a sentence as an HTML article; every error has its task, kind and types as attributes for the filter."""
    n = sentence.n_errors
    gold = [(match.gold, match.kind != "right") for match in sentence.entities if match.gold is not None]
    found = [(match.found, match.kind != "right") for match in sentence.entities if match.found is not None]
    rows = [
        *(_row("entity", match, types, sentence) for match in sentence.entities if match.kind != "right"),
        *(_row("relation", match, types, sentence) for match in sentence.relations if match.kind != "right"),
    ]
    n_right = len(sentence.entities) + len(sentence.relations) - n
    right = f'<p class="faint">Right: {n_right}.</p>' if n_right else ""
    return (
        f'<article aria-labelledby="s{place}"><h3 id="s{place}">{place}. {safe(sentence.id)}</h3>'
        f'<p class="faint">loss {loss:.2f} · {n} {"error" if n == 1 else "errors"}</p>'
        f'<div class="sides">{_side("gold", sentence, gold, types)}{_side("found", sentence, found, types)}</div>'
        '<div class="wide"><table class="errors"><thead><tr><th scope="col">error</th><th scope="col">gold</th>'
        f'<th scope="col">found</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>{right}</article>'
    )


def _side(name: str, sentence: MatchedSentence, entities: Sequence[tuple[Entity, bool]], types: Numbers) -> str:
    marked = "".join(_marked(sentence, entities, types))
    return f'<section><h4>{name}</h4><p class="text" dir="auto">{marked}</p></section>'


def _marked(sentence: MatchedSentence, entities: Iterable[tuple[Entity, bool]], types: Numbers) -> Iterator[str]:
    """Yield the text with its entities marked.

    Of entities that overlap only the first is marked; the table below lists the errors of all.
    """
    text = sentence.document.text
    if not sentence.words:
        yield safe(text)
        return
    here, last = sentence.words[0].start, sentence.words[-1].end
    pieces = [(piece, entity, wrong) for entity, wrong in entities for piece in entity.pieces()]
    for piece, entity, wrong in sorted(pieces, key=lambda one: (one[0].start, -one[0].end)):
        start, end = piece.start, min(piece.end, last)
        if start < here or start >= end:
            continue
        yield safe(text[here:start])
        kind = ' class="wrong"' if wrong else ""
        note = '<span class="hidden"> (wrong)</span>' if wrong else ""
        yield (
            f'<mark{kind} style="--hue: {_hue(types[entity.label])}">{safe(text[start:end])}'
            f"<small>{safe(entity.label)}{note}</small></mark>"
        )
        here = end
    yield safe(text[here:last])


def _row(task: str, match: EntityMatch | RelationMatch, types: Numbers, sentence: MatchedSentence) -> str:
    labels = {one.label for one in (match.gold, match.found) if one is not None}
    numbers = " ".join(str(types[label]) for label in sorted(labels))
    return (
        f'<tr data-kind="{task}:{match.kind}" data-types="{numbers}"><th scope="row">{task}: '
        f"{safe(words_of(match.kind))}</th><td>{_shown(match.gold, sentence)}</td>"
        f"<td>{_shown(match.found, sentence)}</td></tr>"
    )


def _shown(item: Entity | Relation | None, sentence: MatchedSentence) -> str:
    if item is None:
        return '<span class="faint">nothing</span>'
    score = "" if item.score is None else f' <span class="faint">{item.score:.2f}</span>'
    if isinstance(item, Entity):
        return f"<b>{safe(item.label)}</b> {_surface(sentence, item)}{score}"
    ends = [f"{_surface(sentence, end)} <small>{safe(end.label)}</small>" for end in (item.head, item.tail)]
    return f"<b>{safe(item.label)}</b> {ends[0]} → {ends[1]}{score}"


def _surface(sentence: MatchedSentence, entity: Entity) -> str:
    """Return the words of an entity, with the number of the occurrence if they occur several times in the sentence."""
    text = sentence.document.text
    words = " … ".join(" ".join(piece.of(text).split()) for piece in entity.pieces())
    same = entity.span.of(text)
    number = ""
    if sentence.words and len(entity.pieces()) == 1 and sentence.text.count(same) > 1:
        before = text[sentence.words[0].start : entity.span.start].count(same)
        number = f'<sub><span class="hidden">, occurrence </span>{before + 1}</sub>'
    return f"<bdi>{safe(words)}</bdi>{number}"


def _hue(number: int) -> int:
    """Return the hue of a type by its number; hues of successive types are far apart."""
    return round(number * 137.508 + 210) % 360
