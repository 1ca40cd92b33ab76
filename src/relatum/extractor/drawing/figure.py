"""A text with its entities and the arcs of its relations as SVG, laid out here and not by a browser."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby, pairwise

from relatum.extractor.drawing.arcs import LEVEL, Arc, Box, Piece, arrange, pile, short
from relatum.extractor.drawing.lettering import BOLD, Atom, break_lines, measure
from relatum.extractor.result import Extraction, mention, shown_score
from relatum.types import Entity, Relation

WIDE, NARROW = 736, 312
"""The widths of figures: for a page, and for a phone."""

# In pixels; the sizes of letters are those that `STYLE` in html.py gives.
_TEXT, _LABEL, _CHIP = 16.0, 11.0, 10.5
_LINE, _CHIP_HEIGHT = 30.0, 17.0
_ABOVE = 16.0
"""The distance from the top of a line with arcs to the highest arc."""


def figure(extraction: Extraction, width: int, name: str, hue: Callable[[str], int], titles: bool = True) -> str:
    """Draw an extraction as an `svg` of that width and of the class `name`; titles show scores under the mouse."""
    text, entities, relations = extraction.text, extraction.entities, extraction.relations
    atoms, n_lines = break_lines(text, [place for entity in entities for place in entity.span], _TEXT, width)
    covered = _covered(entities, atoms)
    boxes = [_box(entity, atoms[within], atoms, width) for entity, within in zip(entities, covered, strict=True)]
    numbers = {entity: number for number, entity in enumerate(entities)}
    arcs = [
        Arc(numbers[relation.head], numbers[relation.tail], measure(relation.label, _LABEL) * BOLD + 8)
        for relation in relations
    ]
    on_line: list[list[int]] = [[] for _ in range(n_lines)]
    for number, box in enumerate(boxes):
        on_line[box.line].append(number)
    lines = arrange(boxes, arcs, n_lines, width)
    baselines: list[float] = []
    drawn: list[str] = []
    top = 0.0
    for here, pieces in zip(on_line, lines, strict=True):
        n_chips = pile([boxes[number] for number in here])
        highest = max((piece.rise for piece in pieces), default=0.0)
        chips = top + (highest + LEVEL + _ABOVE - 2 if pieces else 0)
        tops = {number: chips + (n_chips - 1 - boxes[number].level) * _CHIP_HEIGHT for number in here}
        # High arcs first: the labels of low ones stay in front of the feet of high ones.
        for piece in sorted(pieces, key=lambda piece: -piece.rise):
            y = top + highest - piece.rise + _ABOVE
            relation = relations[piece.arc]
            title = _title(_told(relation, text)) if titles else ""
            drawn.append(_arc(piece, arcs[piece.arc], relation.label, y, tops, hue(relation.label), title))
        for number in here:
            title = _title(_named(entities[number])) if titles else ""
            drawn.append(_chip(boxes[number], entities[number].label, tops[number], hue, title))
        top = chips + n_chips * _CHIP_HEIGHT + _LINE
        baselines.append(top - 10)
    marks = _marks(entities, covered, atoms, baselines, hue)
    words = _words(text, covered, atoms, baselines)
    size = f'width="{width}" height="{short(top)}" viewBox="0 0 {width} {short(top)}"'
    return f'<svg class="{name}" {size} aria-hidden="true">{"".join([*marks, *drawn, *words])}</svg>'


def _covered(entities: Sequence[Entity], atoms: Sequence[Atom]) -> list[slice]:
    """Return the slice of atoms of every entity; it is empty for an entity that is nothing but space."""
    starts = [atom.start for atom in atoms]
    return [slice(*(bisect_left(starts, place) for place in entity.span)) for entity in entities]


def _box(entity: Entity, within: Sequence[Atom], atoms: Sequence[Atom], width: float) -> Box:
    """Return the place for an entity's label: above the entity's words on the first line that has any."""
    # What is nothing but space stands behind the word before it.
    before = within or [atom for atom in atoms if atom.end <= entity.span.start][-1:]
    line = before[0].line if before else 0
    ends = [end for atom in before if atom.line == line for end in (atom.left, atom.right)] or [0.0]
    middle = (min(ends) + max(ends)) / 2 if within else max(ends)
    label = measure(entity.label, _CHIP) * BOLD + 10
    left = min(max(middle - label / 2, 0.0), max(width - label, 0.0))
    return Box(line, left, left + label)


def _marks(
    entities: Sequence[Entity],
    covered: Sequence[slice],
    atoms: Sequence[Atom],
    baselines: Sequence[float],
    hue: Callable[[str], int],
) -> Iterator[str]:
    """Yield the backgrounds of entities; smaller entities are in front of larger ones, and less tall."""
    open: list[Entity] = []
    for entity, within in zip(entities, covered, strict=True):
        open = [one for one in open if one.span.end > entity.span.start]
        inset = min(2 * len(open), 8)
        open.append(entity)
        for line, group in groupby(atoms[within], key=lambda atom: atom.line):
            part = list(group)
            left, right = part[0].left - 1.5, part[-1].right + 1.5
            y, height = baselines[line] - 16 + inset, 22 - 2 * inset
            yield (
                f'<rect class="mark" style="--hue: {hue(entity.label)}" x="{short(left)}" y="{short(y)}" '
                f'width="{short(right - left)}" height="{height}" rx="5"/>'
            )


def _words(text: str, covered: Sequence[slice], atoms: Sequence[Atom], baselines: Sequence[float]) -> Iterator[str]:
    """Yield the text in runs that lie wholly inside or outside of an entity, stretched to the planned widths."""
    innermost: dict[int, int] = {}
    for number, within in enumerate(covered):
        innermost.update(dict.fromkeys(range(*within.indices(len(atoms))), number))
    for _, group in groupby(range(len(atoms)), key=lambda at: (atoms[at].line, innermost.get(at))):
        run = [atoms[at] for at in group]
        shown = text[run[0].start : run[0].end]
        for before, atom in pairwise(run):
            shown += (" " if atom.start > before.end else "") + text[atom.start : atom.end]
        length = run[-1].right - run[0].left
        stretched = f' textLength="{short(length)}"' if length and len(shown) > 1 else ""
        yield f'<text x="{short(run[0].left)}" y="{short(baselines[run[0].line])}"{stretched}>{escape(shown)}</text>'


def _chip(box: Box, label: str, top: float, hue: Callable[[str], int], title: str) -> str:
    return (
        f'<g class="chip" style="--hue: {hue(label)}">{title}'
        f'<rect x="{short(box.left)}" y="{short(top)}" width="{short(box.right - box.left)}" height="15" rx="4"/>'
        f'<text x="{short(box.middle)}" y="{short(top + 11)}">{escape(label)}</text></g>'
    )


def _arc(piece: Piece, arc: Arc, label: str, y: float, tops: Mapping[int, float], hue: int, title: str) -> str:
    feet = {"head": tops.get(arc.head, y), "tail": tops.get(arc.tail, y) - 5, "edge": y}
    bow = piece.path(y, feet[piece.begins], feet[piece.ends])
    tips = [x for x, end in ((piece.left, piece.begins), (piece.right, piece.ends)) if end == "tail"]
    arrow = "".join(f'<path class="arrow" d="M{short(x)} {short(feet["tail"] + 4)}l-3.6 -6.5h7.2z"/>' for x in tips)
    width, lift = arc.label_width - 4, piece.lift
    return (
        f'<g class="arc" style="--hue: {hue}">{title}<path class="bow" d="{bow}"/>{arrow}'
        f'<rect class="gap" x="{short(piece.middle - width / 2)}" y="{short(y - 6 - lift)}" width="{short(width)}" '
        f'height="{11 if lift else 12}"/>'
        f'<text x="{short(piece.middle)}" y="{short(y + 4 - lift)}">{escape(label)}</text></g>'
    )


def _title(told: str) -> str:
    return f"<title>{escape(told)}</title>"


def _named(entity: Entity) -> str:
    return entity.label if entity.score is None else f"{entity.label}, score {entity.score:.4f}"


def _told(relation: Relation, text: str) -> str:
    head, tail = mention(relation.head, text), mention(relation.tail, text)
    return f"{head} —{relation.label}→ {tail}{shown_score(relation.score)}"
