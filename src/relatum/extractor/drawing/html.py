"""Extractions as HTML that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from relatum.extractor.drawing.figure import Figure, draw
from relatum.extractor.drawing.lettering import has_right_to_left
from relatum.extractor.result import Extraction, mention, shown_score
from relatum.look.rendering import render, stream, style
from relatum.types import Entity, Relation

WIDTHS = {"wide": 736, "narrow": 312}
"""The widths of figures in pixels: for a page, and for a phone."""


class TextPart(NamedTuple):
    """Some text, or, with an entity, the beginning or the end of a mark; `is_last` is the last mark of the entity."""

    text: str = ""
    entity: Entity | None = None
    opens: bool = False
    is_last: bool = False


def page(extractions: Iterable[Extraction], title: str) -> str:
    """Return one page with all the texts below each other."""
    return "".join(page_parts(extractions, title))


def page_parts(extractions: Iterable[Extraction], title: str) -> Iterator[str]:
    """Yield the page of `page` piece by piece, for more texts than should be in memory at once."""
    return stream("extractor/drawing/extractions.html", title=title, fragments=map(fragment, extractions))


def fragment(extraction: Extraction) -> str:
    """Return one text with its entities marked, and its relations below; `fragment_style` says how it looks."""
    return render(
        "extractor/drawing/extraction.html",
        extraction=extraction,
        text=extraction.text,
        marked_text=_mark(extraction.text, extraction.entities),
        figures=_figures(extraction),
        describe_entity=_describe_entity,
        describe_relation=_describe_relation,
        mention=mention,
        shown_score=shown_score,
    )


def fragment_style() -> str:
    """Return the style of fragments that stand in a page of someone else, such as a notebook."""
    return style("look/styles/tokens.css", "look/styles/text.css", "extractor/drawing/extraction.css")


def _figures(extraction: Extraction) -> dict[str, Figure]:
    """Draw the text with arcs, for wide and for narrow pages.

    Empty if there are no relations, or if some of the text runs from right to left.
    """
    if not extraction.relations or has_right_to_left(extraction.text):
        return {}
    return {name: draw(extraction, width) for name, width in WIDTHS.items()}


def _mark(text: str, entities: Iterable[Entity]) -> Iterator[TextPart]:
    """Yield the text with a mark around each entity; an entity that crosses the end of another has two marks."""
    begun = sorted(entities, key=lambda entity: (entity.span.start, -entity.span.end), reverse=True)
    open: list[Entity] = []
    at = 0
    for place in sorted({end for entity in begun for end in entity.span}):
        yield TextPart(text[at:place])
        at = place
        again: list[Entity] = []
        while any(entity.span.end == place for entity in open):
            entity = open.pop()
            is_last = entity.span.end == place
            yield TextPart(entity=entity, is_last=is_last)
            if not is_last:
                again.append(entity)
        while begun and begun[-1].span.start == place:
            again.insert(0, begun.pop())
        for entity in reversed(again):
            yield TextPart(entity=entity, opens=True)
            open.append(entity)
    yield TextPart(text[at:])


def _describe_entity(entity: Entity) -> str:
    return entity.label if entity.score is None else f"{entity.label}, score {entity.score:.4f}"


def _describe_relation(relation: Relation, text: str) -> str:
    head, tail = mention(relation.head, text), mention(relation.tail, text)
    return f"{head} —{relation.label}→ {tail}{shown_score(relation.score)}"
