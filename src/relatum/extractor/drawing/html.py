"""Extractions as HTML that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from relatum.extractor.drawing.figure import Figure, draw
from relatum.extractor.drawing.lettering import has_right_to_left
from relatum.extractor.result import Extraction, mention, shown_score
from relatum.look.rendering import render, stream, style
from relatum.types import Entity, Relation, Span

WIDTHS = {"wide": 736, "narrow": 312}
"""The widths of figures in pixels: for a page, and for a phone."""


class TextPart(NamedTuple):
    """Some text, or the beginning or the end of a mark around a span; `is_last` is the last mark of the span."""

    text: str = ""
    span: int | None = None
    """The number of the marked span."""
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
        marked_text=mark_spans(extraction.text, [entity.span for entity in extraction.entities]),
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


def mark_spans(text: str, spans: Sequence[Span]) -> Iterator[TextPart]:
    """Yield the text with a mark around each span; a span that crosses the end of another has two marks."""
    begun = sorted(range(len(spans)), key=lambda number: (spans[number].start, -spans[number].end), reverse=True)
    open: list[int] = []
    at = 0
    for place in sorted({end for span in spans for end in span}):
        yield TextPart(text[at:place])
        at = place
        again: list[int] = []
        while any(spans[number].end == place for number in open):
            number = open.pop()
            is_last = spans[number].end == place
            yield TextPart(span=number, is_last=is_last)
            if not is_last:
                again.append(number)
        while begun and spans[begun[-1]].start == place:
            again.insert(0, begun.pop())
        for number in reversed(again):
            yield TextPart(span=number, opens=True)
            open.append(number)
    yield TextPart(text[at:])


def _describe_entity(entity: Entity) -> str:
    return entity.label if entity.score is None else f"{entity.label}, score {entity.score:.4f}"


def _describe_relation(relation: Relation, text: str) -> str:
    head, tail = mention(relation.head, text), mention(relation.tail, text)
    return f"{head} —{relation.label}→ {tail}{shown_score(relation.score)}"
