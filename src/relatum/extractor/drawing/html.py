"""Extractions as HTML that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from relatum.extractor.drawing.figure import NARROW, WIDE, figure
from relatum.extractor.drawing.lettering import has_right_to_left
from relatum.extractor.result import Extraction, mention, shown_score
from relatum.types import Entity, Relation

# Every colour is a hue of its label's at a fixed lightness, so that text on it can be read whatever the hue.
STYLE = """
.relatum { --ink: #1a1a1a; --faint: #5c5c5c; --rule: #d8d8d8; --paper: #ffffff;
  --tint: 70% 88%; --deep: 60% 25%; --on-deep: #ffffff; --line: 68% 28%; container-type: inline-size;
  color: var(--ink); background: var(--paper); font: 1rem/1.9 system-ui, sans-serif; padding: 1rem; }
.relatum h2 { font-size: 0.9rem; font-weight: 600; color: var(--faint); margin: 0; overflow-wrap: anywhere; }
.relatum p { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0.25rem 0 0.75rem; }
.relatum mark { color: var(--ink); background: hsl(var(--hue) var(--tint)); border-radius: 0.3em;
  padding: 0.15em 0.3em; -webkit-box-decoration-break: clone; box-decoration-break: clone; }
.relatum small { color: var(--on-deep); background: hsl(var(--hue) var(--deep)); border-radius: 0.25em;
  font-size: 0.7em; font-weight: 600; padding: 0.1em 0.4em; margin-left: 0.4em; white-space: nowrap; }
.relatum ul { list-style: none; margin: 0; padding: 0.5rem 0 0; border-top: 1px solid var(--rule); }
.relatum li { overflow-wrap: anywhere; }
.relatum i { color: var(--faint); }
@media (prefers-color-scheme: dark) {
  .relatum { --ink: #f2f2f2; --faint: #b0b0b0; --rule: #444444; --paper: #181818;
    --tint: 45% 25%; --deep: 70% 80%; --on-deep: #111111; --line: 65% 70%; }
}
.relatum svg { display: block; max-width: 100%; height: auto; margin: 0.25rem 0 0.75rem; overflow: visible;
  font: 16px Helvetica, Arial, "Liberation Sans", sans-serif; }
.relatum svg text { fill: var(--ink); white-space: pre; }
.relatum .mark { fill: hsl(var(--hue) var(--tint)); }
.relatum .chip rect { fill: hsl(var(--hue) var(--deep)); }
.relatum .chip text { fill: var(--on-deep); font-size: 10.5px; font-weight: 600; }
.relatum .bow { stroke: hsl(var(--hue) var(--line)); stroke-width: 1.4; fill: none; }
.relatum .arrow, .relatum .arc text { fill: hsl(var(--hue) var(--line)); }
.relatum .arc text { font-size: 11px; font-weight: 600; }
.relatum .chip text, .relatum .arc text { text-anchor: middle; }
.relatum .gap { fill: var(--paper); }
.relatum .arc:hover .bow { stroke-width: 2.8; }
.relatum .narrow { display: none; }
.relatum .drawn { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%); }
@container (max-width: 735px) {
  .relatum .wide { display: none; }
  .relatum .narrow { display: block; }
}
"""

_PAGE_STYLE = """
body { margin: 0 auto; max-width: 50rem; padding: 0.5rem; background: #ffffff; color: #1a1a1a; }
h1 { font: 600 1.25rem/1.4 system-ui, sans-serif; margin: 0.5rem 1rem; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #f2f2f2; } }
"""


def page(extractions: Iterable[Extraction], title: str) -> str:
    """One page with all the texts below each other."""
    return "".join(page_parts(extractions, title))


def page_parts(extractions: Iterable[Extraction], title: str) -> Iterator[str]:
    """Yield the page of `page` piece by piece, for more texts than should be in memory at once."""
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{_PAGE_STYLE}{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n"
    )
    for extraction in extractions:
        yield f"{fragment(extraction)}\n"
    yield "</body>\n</html>\n"


def fragment(extraction: Extraction) -> str:
    """One text with its entities marked, and its relations below; `STYLE` says how it looks."""
    id, text = extraction.document.id, extraction.text
    heading = f"<h2>{escape(id)}</h2>" if id else ""
    relations = "".join(f"<li>{_relation(relation, text)}</li>" for relation in extraction.relations)
    below = f"<ul>{relations}</ul>" if relations else ""
    drawn = _figures(extraction)
    shown = '<p class="drawn">' if drawn else "<p>"
    marked = _marked(text, extraction.entities)
    article = f'<article class="relatum">{heading}{shown}{marked}</p>{drawn}{below}</article>'
    return article.encode(errors="replace").decode()  # half a surrogate pair cannot be written


def hue(label: str) -> int:
    """The hue of a label in degrees, the same on every machine, and in web/static/labels.js."""
    # An FNV hash; its start was picked so that labels that are shown together in the usual corpora are far apart.
    number = 9719
    for byte in label.encode(errors="replace"):
        number = (number ^ byte) * 16777619 % 2**32
    return (number ^ number >> 15) % 360


def _figures(extraction: Extraction) -> str:
    """Draw the text with arcs, for wide and for narrow pages; the plain paragraph stays, unseen, for screen readers.

    Empty if there are no relations, or if some of the text runs from right to left.
    """
    if not extraction.relations or has_right_to_left(extraction.text):
        return ""
    return figure(extraction, WIDE, "wide", hue) + figure(extraction, NARROW, "narrow", hue, titles=False)


def _marked(text: str, entities: Iterable[Entity]) -> str:
    """Return the text with a mark around each entity; an entity that crosses the end of another has two marks."""
    begun = sorted(entities, key=lambda entity: (entity.span.start, -entity.span.end), reverse=True)
    ends = sorted({end for entity in begun for end in entity.span})
    parts: list[str] = []
    open: list[Entity] = []
    at = 0
    for place in ends:
        parts.append(escape(text[at:place]))
        at = place
        again: list[Entity] = []
        while any(entity.span.end == place for entity in open):
            entity = open.pop()
            if entity.span.end == place:
                parts.append(f"<small>{escape(entity.label)}</small>")
            else:
                again.append(entity)
            parts.append("</mark>")
        while begun and begun[-1].span.start == place:
            again.insert(0, begun.pop())
        for entity in reversed(again):
            parts.append(_mark(entity))
            open.append(entity)
    parts.append(escape(text[at:]))
    return "".join(parts)


def _mark(entity: Entity) -> str:
    title = escape(entity.label) + ("" if entity.score is None else f", score {entity.score:.4f}")
    return f'<mark style="--hue: {hue(entity.label)}" title="{title}">'


def _relation(relation: Relation, text: str) -> str:
    head, tail = _end(relation.head, text), _end(relation.tail, text)
    return f"{head} <i>—{escape(relation.label)}→</i> {tail}{shown_score(relation.score)}"


def _end(entity: Entity, text: str) -> str:
    return f"{_mark(entity)}{escape(mention(entity, text))}</mark>"
