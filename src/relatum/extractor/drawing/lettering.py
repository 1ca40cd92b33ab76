"""The widths and line breaks of text, without a browser.

Widths are taken from Helvetica; Arial, Liberation Sans and their like share them. For other letters they are guesses.
Whoever draws the text stretches it to the widths that this module returns.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

# In thousandths of the size of the font, from the space to the tilde.
_WIDTHS = (
    "278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 "
    "278 278 584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 "
    "611 722 667 944 667 667 611 278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 "
    "556 556 556 556 333 500 278 556 500 722 500 500 500 334 260 334 584"
)
_LATIN = {chr(32 + place): int(width) / 1000 for place, width in enumerate(_WIDTHS.split())}
BOLD = 1.07
"""The approximate width of bold text, relative to plain text."""


@dataclass(frozen=True, slots=True)
class PlacedText:
    """A word of the text, or a part of one, at its place on a line."""

    start: int
    end: int
    line: int
    left: float
    right: float


def measure(text: str, size: float) -> float:
    """Return the width of a text on one line."""
    return sum(map(_width, text)) * size


def has_right_to_left(text: str) -> bool:
    """True if some of the text runs from right to left; this module does not know where that would stand."""
    return any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)


def break_lines(text: str, cuts: Iterable[int], size: float, width: float) -> tuple[list[PlacedText], int]:
    """Lay out the words of a text on lines of at most that width; return its parts and the number of lines.

    Words are cut at `cuts`, and where a word is wider than a line. White space is one space wide. A line break of the
    text also breaks the line here; several line breaks in a row leave one line empty.
    """
    places = sorted(set(cuts))
    space = _width(" ") * size
    parts: list[PlacedText] = []
    line = 0
    x = 0.0
    at = 0
    for word in re.finditer(r"\S+", text):
        breaks = text.count("\n", at, word.start())
        at = word.end()
        needed = measure(word.group(), size)
        if parts and breaks:
            line += min(breaks, 2)
            x = 0.0
        elif parts:
            x += space
            if x + needed > width:
                line += 1
                x = 0.0
        inner = places[bisect_right(places, word.start()) : bisect_left(places, word.end())]
        for start, end in pairwise([word.start(), *inner, word.end()]):
            while start < end:
                stop = _fitting(text, start, end, size, width - x)
                if stop == start and x > 0:
                    line += 1
                    x = 0.0
                    continue
                stop = max(stop, start + 1)  # a letter wider than the line stands there all the same
                right = x + measure(text[start:stop], size)
                parts.append(PlacedText(start, stop, line, x, right))
                start = stop
                x = right
    return parts, line + 1


def _fitting(text: str, start: int, end: int, size: float, room: float) -> int:
    """Return the place up to which the text from start to end fits in the room."""
    room += 1e-6
    for place in range(start, end):
        room -= _width(text[place]) * size
        if room < 0:
            return place
    return end


@lru_cache(maxsize=4096)
def _width(character: str) -> float:
    if (known := _LATIN.get(character)) is not None:
        return known
    if unicodedata.category(character)[0] in "MC":  # accents on their own, and what is not seen at all
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    base = unicodedata.normalize("NFD", character)[0]
    return _LATIN.get(base, 0.6)
