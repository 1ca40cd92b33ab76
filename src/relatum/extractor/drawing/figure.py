"""A text with its entities and the arcs of its relations, laid out here and not by a browser."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

from relatum.extractor.drawing.arcs import LEVEL, Arc, Box, End, Segment, arrange, pile
from relatum.extractor.drawing.lettering import BOLD, PlacedText, break_lines, measure
from relatum.extractor.result import Extraction
from relatum.look.rendering import pixels, token
from relatum.types import Entity, Relation

_TEXT = 16.0
"""The size of the letters of the text, in pixels; extraction.css has the same."""
_LINE = 30.0
"""The height of a line of text."""
_ABOVE, _ARROW, _LABEL = token("arc-above"), token("arc-arrow"), token("arc-text")
_CHIP, _CHIP_STEP = token("chip-text"), token("chip-step")


class DrawnMark(NamedTuple):
    """The background of an entity, or of the part of it on one line."""

    entity: Entity
    x: float
    y: float
    width: float
    height: float


class DrawnChip(NamedTuple):
    """The label of an entity, and its upper edge."""

    entity: Entity
    box: Box
    top: float


class DrawnArc(NamedTuple):
    """A segment of an arc at the height `y`; `path` and `arrows` are paths of SVG."""

    relation: Relation
    segment: Segment
    label_width: float
    y: float
    path: str
    arrows: list[str]


class DrawnWords(NamedTuple):
    """Some words of a line; `length` is the width that they are stretched to, or None."""

    text: str
    x: float
    y: float
    length: float | None


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing of an extraction, ready for figure.svg."""

    width: int
    height: float
    marks: list[DrawnMark]
    arcs: list[DrawnArc]
    chips: list[DrawnChip]
    words: list[DrawnWords]


def draw(extraction: Extraction, width: int) -> Figure:
    """Lay out an extraction on lines of that width."""
    text = extraction.text
    entities = extraction.entities
    relations = extraction.relations
    cuts = [place for entity in entities for place in entity.span]
    parts, n_lines = break_lines(text, cuts, _TEXT, width)
    covered = _covered(entities, parts)
    boxes = [_box(entity, parts[within], parts, width) for entity, within in zip(entities, covered, strict=True)]
    numbers = {entity: number for number, entity in enumerate(entities)}
    arcs = []
    for relation in relations:
        label_width = measure(relation.label, _LABEL) * BOLD + 8
        arcs.append(Arc(numbers[relation.head], numbers[relation.tail], label_width))
    drawn_arcs: list[DrawnArc] = []
    drawn_chips: list[DrawnChip] = []
    baselines: list[float] = []
    top = 0.0
    for line, segments in enumerate(arrange(boxes, arcs, n_lines, width)):
        here = [number for number, box in enumerate(boxes) if box.line == line]
        n_levels = pile([boxes[number] for number in here])
        highest = max((segment.rise for segment in segments), default=0.0)
        chips = top
        if segments:
            chips += highest + LEVEL + _ABOVE - 2
        tops = {number: chips + (n_levels - 1 - boxes[number].level) * _CHIP_STEP for number in here}
        # High arcs first: the labels of low ones stay in front of the feet of high ones.
        for segment in sorted(segments, key=lambda segment: -segment.rise):
            arc = arcs[segment.arc]
            y = top + highest - segment.rise + _ABOVE
            feet: dict[End, float] = {"head": tops.get(arc.head, y), "tail": tops.get(arc.tail, y), "edge": y}
            drawn_arcs.append(_arc(segment, relations[segment.arc], arc.label_width, y, feet))
        drawn_chips += [DrawnChip(entities[number], boxes[number], tops[number]) for number in here]
        top = chips + n_levels * _CHIP_STEP + _LINE
        baselines.append(top - 10)
    marks = list(_marks(entities, covered, parts, baselines))
    words = list(_words(text, covered, parts, baselines))
    return Figure(width, top, marks, drawn_arcs, drawn_chips, words)


def _covered(entities: Sequence[Entity], parts: Sequence[PlacedText]) -> list[slice]:
    """Return the slice of parts of every entity; it is empty for an entity that is nothing but space."""
    starts = [part.start for part in parts]
    slices = []
    for entity in entities:
        first = bisect_left(starts, entity.span.start)
        after = bisect_left(starts, entity.span.end)
        slices.append(slice(first, after))
    return slices


def _box(entity: Entity, within: Sequence[PlacedText], parts: Sequence[PlacedText], width: float) -> Box:
    """Return the place for an entity's label: above the entity's words on the first line that has any."""
    # What is nothing but space stands behind the word before it.
    near = within or [part for part in parts if part.end <= entity.span.start][-1:]
    line = near[0].line if near else 0
    left_edge = min((part.left for part in near if part.line == line), default=0.0)
    right_edge = max((part.right for part in near if part.line == line), default=0.0)
    middle = (left_edge + right_edge) / 2 if within else right_edge
    label_width = measure(entity.label, _CHIP) * BOLD + 10
    rightmost = max(width - label_width, 0.0)
    left = min(max(middle - label_width / 2, 0.0), rightmost)
    return Box(line, left, left + label_width)


def _marks(
    entities: Sequence[Entity], covered: Sequence[slice], parts: Sequence[PlacedText], baselines: Sequence[float]
) -> Iterator[DrawnMark]:
    """Yield the backgrounds of entities; smaller entities are in front of larger ones, and less tall."""
    outer_entities: list[Entity] = []
    for entity, within in zip(entities, covered, strict=True):
        outer_entities = [outer for outer in outer_entities if outer.span.end > entity.span.start]
        inset = min(2 * len(outer_entities), 8)
        outer_entities.append(entity)
        for line, group in groupby(parts[within], key=lambda part: part.line):
            on_line = list(group)
            left, right = on_line[0].left - 1.5, on_line[-1].right + 1.5
            yield DrawnMark(entity, left, baselines[line] - 16 + inset, right - left, 22 - 2 * inset)


def _words(
    text: str, covered: Sequence[slice], parts: Sequence[PlacedText], baselines: Sequence[float]
) -> Iterator[DrawnWords]:
    """Yield the text in runs that lie wholly inside or outside of an entity, stretched to the planned widths."""
    innermost: dict[int, int] = {}
    for number, within in enumerate(covered):
        for at in range(*within.indices(len(parts))):
            innermost[at] = number
    for (line, _), group in groupby(range(len(parts)), key=lambda at: (parts[at].line, innermost.get(at))):
        run = [parts[at] for at in group]
        shown = text[run[0].start : run[0].end]
        for before, part in pairwise(run):
            if part.start > before.end:
                shown += " "
            shown += text[part.start : part.end]
        length = run[-1].right - run[0].left
        stretched = length if len(shown) > 1 else None
        yield DrawnWords(shown, run[0].left, baselines[line], stretched)


def _arc(segment: Segment, relation: Relation, label_width: float, y: float, feet: dict[End, float]) -> DrawnArc:
    """Draw a segment at y; `feet` are the heights at which it may end."""
    ends = (segment.left, segment.begins), (segment.right, segment.ends)
    arrows = [f"M{pixels(x)} {pixels(feet['tail'] - 1)}l-3.6 -6.5h7.2z" for x, end in ends if end == "tail"]
    heights = [feet[end] - (_ARROW if end == "tail" else 0) for _, end in ends]
    return DrawnArc(relation, segment, label_width, y, segment.path(y, *heights), arrows)
