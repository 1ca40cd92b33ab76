"""The layout of the arcs of relations above lines of text; in pixels, without knowing how they are drawn.

This is the reference. The page of `relatum serve` lays out its arcs in the browser, where it knows the fonts and the
width of the window: web/static/layout.js has the same functions, and a test compares the two. The sizes are those of
look/styles/tokens.css for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from relatum.look.rendering import pixels, token

End = Literal["head", "tail", "edge"]

APART = token("arc-apart")
"""The distance between arcs side by side, on an entity and on a level."""
MOST_LINES = token("arc-lines")
"""The most lines over which an arc is drawn all the way; of a longer arc, only the two ends are drawn."""
LEVEL = token("arc-level")
"""The distance from an arc to the arc above it."""
LIFT = token("arc-lift")
"""The height of a label above its arc, if the arc is so short that the label would hide all of it."""


@dataclass(slots=True)
class Box:
    """The place of an entity's label; `level` counts from the text up."""

    line: int
    left: float
    right: float
    level: int = 0

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2


@dataclass(frozen=True, slots=True)
class Arc:
    """A relation between two boxes, by their numbers."""

    head: int
    tail: int
    label_width: float


@dataclass(slots=True)
class Segment:
    """The part of an arc on one line, and the kinds of its two ends; `middle` is the middle of its label.

    It is drawn `rise` above the lowest segments; its label interrupts it, or stands `lift` above it.
    """

    arc: int
    left: float
    right: float
    begins: End
    ends: End
    middle: float = 0.0
    rise: float = 0.0
    lift: float = 0.0

    def path(self, y: float, left_foot: float, right_foot: float) -> str:
        """Return the segment as an SVG path: up, along at y, and down."""
        round = min(7.0, (self.right - self.left) / 2)
        left = pixels(self.left)
        right = pixels(self.right)
        above = pixels(y)
        below = pixels(y + round)
        if self.begins == "edge":
            begin = f"M{left} {above}"
        else:
            begin = f"M{left} {pixels(left_foot)}V{below}Q{left} {above} {pixels(self.left + round)} {above}"
        if self.ends == "edge":
            return f"{begin}H{right}"
        return f"{begin}H{pixels(self.right - round)}Q{right} {above} {right} {below}V{pixels(right_foot)}"


def arrange(boxes: Sequence[Box], arcs: Sequence[Arc], n_lines: int, width: float) -> list[list[Segment]]:
    """Return the segments of arcs on every line, with their heights."""
    places = _attach(boxes, arcs, width)
    lines: list[list[Segment]] = [[] for _ in range(n_lines)]
    for number, arc in enumerate(arcs):
        ends: list[tuple[int, float, End]] = [
            (boxes[arc.head].line, places[number, "head"], "head"),
            (boxes[arc.tail].line, places[number, "tail"], "tail"),
        ]
        (first, left, begins), (last, right, stops) = sorted(ends)
        if first == last:
            lines[first].append(Segment(number, left, right, begins, stops))
            continue
        lines[first].append(Segment(number, left, max(width, left), begins, "edge"))
        if last - first <= MOST_LINES:
            for line in range(first + 1, last):
                lines[line].append(Segment(number, 0, width, "edge", "edge"))
        lines[last].append(Segment(number, 0, max(right, 0), "edge", stops))
    for segments in lines:
        _stack(segments, arcs, width)
    return lines


def pile(boxes: Sequence[Box]) -> int:
    """Give boxes of a line that would cover each other levels of their own; return the number of levels."""
    gap = APART / 2
    for number, box in enumerate(boxes):
        earlier = boxes[:number]
        covered = [other for other in earlier if other.left < box.right + gap and box.left < other.right + gap]
        taken = {other.level for other in covered}
        box.level = next(level for level in range(len(boxes)) if level not in taken)
    return max((box.level + 1 for box in boxes), default=0)


def _stack(segments: Sequence[Segment], arcs: Sequence[Arc], width: float) -> None:
    """Give every segment the lowest place above all shorter segments that it spans, and above their labels."""
    placed: list[tuple[float, float, float]] = []
    for segment in sorted(segments, key=lambda p: (p.right - p.left, p.left)):
        half = arcs[segment.arc].label_width / 2
        middle = (segment.left + segment.right) / 2
        segment.middle = min(max(middle, half), width - half)
        left = min(segment.left, segment.middle - half) - APART / 2
        right = max(segment.right, segment.middle + half) + APART / 2
        spanned = [above for other, end, above in placed if other < right and left < end]
        segment.rise = max(spanned, default=0.0)
        is_narrow = segment.right - segment.left < 2 * half + 2 * APART
        segment.lift = LIFT if is_narrow else 0.0
        placed.append((left, right, segment.rise + LEVEL + segment.lift))


def _attach(boxes: Sequence[Box], arcs: Sequence[Arc], width: float) -> Mapping[tuple[int, End], float]:
    """Spread the arcs of an entity over its label, so that arcs to the same side of it do not cross."""
    ends: dict[int, list[tuple[float, int, End]]] = {}
    for number, arc in enumerate(arcs):
        head = boxes[arc.head]
        tail = boxes[arc.tail]
        # Rounded, so that two arcs between the same entities reach equally far.
        reach = round((tail.line - head.line) * width * 2 + tail.middle - head.middle, 3)
        ends.setdefault(arc.head, []).append((_order(reach, "head"), number, "head"))
        ends.setdefault(arc.tail, []).append((_order(-reach, "tail"), number, "tail"))
    places: dict[tuple[int, End], float] = {}
    for at, attached in ends.items():
        box = boxes[at]
        share = (box.right - box.left) / len(attached)
        wanted = max(APART, min(share, 3 * APART))
        step = min(wanted, width / len(attached))
        span = (len(attached) - 1) * step
        first = max(min(box.middle - span / 2, width - span - 1), 1)
        for rank, (_, number, end) in enumerate(sorted(attached)):
            places[number, end] = first + rank * step
    return places


def _order(reach: float, end: End) -> float:
    """Return a sort key for arcs on a label, from left to right: short and long leftward, long and short rightward."""
    leftward = reach < 0 or (reach == 0 and end == "head")
    return (-1 if leftward else 1) / (1 + abs(reach))
