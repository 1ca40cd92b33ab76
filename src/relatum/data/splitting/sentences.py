"""Sentences in raw text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from relatum.data.splitting.abbreviations import (
    LEADING,
    LETTERED,
    NUMBERED,
    OPEN,
    REGIONS,
    STARTERS,
    is_abbreviation,
    is_ambiguous,
)
from relatum.types import Span

_STOPS = ".!?…؟۔।"
_WIDE_STOPS = "。！？｡"
_LINE_ENDS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
# Quotes and brackets, and the number of a reference as in `was seen.[12]`.
_CLOSERS = r"""(?:["')\]}”’»›」』）]|\[\d[\d,–-]{0,20}+\])*+"""
_LIST_ITEM = r"(?:[-*•·▪◦‣]|\(?(?:\d{1,2}|[a-z])\)|\d{1,2}\.)[ \t]"
# It begins with a plain set of characters, which makes the search for the next one fast.
_BREAKS = re.compile(
    rf"""
    [{_STOPS}{_WIDE_STOPS}{_LINE_ENDS}]
    (?: (?<=[{_STOPS}]) (?<![{_STOPS}].) [{_STOPS}]*+ {_CLOSERS} (?=\s|\Z) (?P<stop>)
      | (?<=[{_WIDE_STOPS}]) [{_WIDE_STOPS}]*+ {_CLOSERS}
      | (?<=[{_LINE_ENDS}]) (?:(?<=\r)\n)?+ [^\S{_LINE_ENDS}]*+ (?:[{_LINE_ENDS}](?P<blank>)|(?={_LIST_ITEM}))
      | (?<=[\n\r]) (?<![a-z,\s-].) (?:(?<=\r)\n)?+ [^\S{_LINE_ENDS}]*+ (?=[^\sa-z]) (?P<line>)
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_NEXT = re.compile(r"""(\s*+)(["'“‘«„(\[{`¿¡]*+)([^\W\d_]{0,20}+)(.?)""", re.DOTALL)
_GAP = re.compile(r"\s*+")
_STOP_WORD = re.compile(f"[{_STOPS}{_WIDE_STOPS}]++")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]")
_CLOSING_WORDS = frozenset("\"')]}”’»›」』）") | {"''"}
_ITEM = re.compile(_LIST_ITEM)
_LINE_END = re.compile(f"[{_LINE_ENDS}]")
_OPENERS = re.compile(r"""[-‐‑–—/(\[{"'“‘«„`]""")
_CONTINUES = frozenset(f"{_STOPS},;:)]}}%")
_WINDOW = 40
"""The number of characters before a stop in which the two words before it are looked for."""
_BEGINNING = 60
"""The number of characters of a sentence that tell whether it has more words than a heading or a greeting."""
_HEADLINE = 3
"""The fewest words of a headline in capitals."""


def split_sentences(text: str) -> list[Span]:
    """Split a text by rule: at stops that do not abbreviate, at blank lines, before list items, after headlines.

    A blank line inside a sentence, as in double-spaced text or at the end of a page, is passed over; see `_goes_on`.
    """
    spans: list[Span] = []
    start = _skip_space(text, 0)
    judged = 0  # blank lines up to here have been looked at
    for match in _BREAKS.finditer(text):
        kind, end = match.lastgroup, match.end()
        if end <= start or (kind == "blank" and end <= judged):
            continue
        if kind == "blank":
            judged = _skip_space(text, end)
            ends = not _goes_on(text, match.start(), judged, start)
        elif kind == "line":
            ends = _is_headline(text, start, match.start(), end)
        else:
            ends = not kind or _ends_sentence(text, match.start(), end, start)
        if ends:
            _add_trimmed(spans, text, start, end)
            start = _skip_space(text, end)
    _add_trimmed(spans, text, start, len(text))
    return spans


def split_lines(text: str) -> list[Span]:
    """Make a sentence of each line that is not blank; lines end where `str.splitlines` ends them."""
    spans: list[Span] = []
    start = 0
    for line in text.splitlines(keepends=True):
        _add_trimmed(spans, text, start, start + len(line))
        start += len(line)
    return spans


def one_sentence(text: str) -> list[Span]:
    """Return the whole text as one sentence."""
    spans: list[Span] = []
    _add_trimmed(spans, text, 0, len(text))
    return spans


def dot_ends_sentence(text: str, dot: int) -> bool:
    """True if the dot at this place ends a sentence, wherever the sentence began."""
    stop = _BREAKS.match(text, dot)
    return stop is not None and _ends_sentence(text, dot, stop.end(), 0)


def find_final_stops(words: Sequence[str]) -> range:
    """Return the indices of the stops that end a sentence of words, and of the quotes and brackets after them.

    The range is empty if there is no stop, or if the stop belongs to an abbreviation.
    """
    first, closing = _last_stops(words)
    if first == closing or (first and words[first] == "." and is_abbreviation(words[first - 1])):
        return range(0)
    return range(first, len(words))


def find_owned_stop(words: Sequence[str]) -> int | None:
    """Return the index of the stop that ends a sentence and belongs to the dotted letters before it, as in `U.S.`"""
    first, closing = _last_stops(words)
    if first in (0, closing) or words[first] != "." or not _DOTTED.fullmatch(words[first - 1]):
        return None
    return first


def _last_stops(words: Sequence[str]) -> tuple[int, int]:
    """Return the range of the stops at the end of a sentence of words, before quotes and brackets; it may be empty."""
    closing = len(words)
    while closing and words[closing - 1] in _CLOSING_WORDS:
        closing -= 1
    first = closing
    while first and _STOP_WORD.fullmatch(words[first - 1]):
        first -= 1
    return first, closing


def _skip_space(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


def _add_trimmed(spans: list[Span], text: str, start: int, end: int) -> None:
    part = text[start:end]
    if kept := part.strip():
        start += len(part) - len(part.lstrip())
        spans.append(Span(start, start + len(kept)))


def _is_headline(text: str, start: int, line_end: int, following: int) -> bool:
    """True if the line or lines from `start` are a headline in capitals, and the line at `following` is text."""
    if not text[start : min(line_end, start + _BEGINNING)].isupper():
        return False
    end = text.find("\n", following)
    line = text[following : len(text) if end < 0 else end]
    if line == line.upper():
        return False
    capitals = text[start:line_end]
    return capitals.isupper() and len(capitals.split()) >= _HEADLINE


def _goes_on(text: str, line_end: int, following: int, start: int) -> bool:
    """True if a sentence that began at `start` goes on after a blank line, with the word at `following`.

    It does where that word has a small letter, or the line ends with a word that none ends with, such as `of`, or with
    a comma. Headings, greetings and lines of a list, which are short or begin with a small letter, end at the line.
    """
    before = text[max(start, line_end - _WINDOW) : line_end].split()
    if not before or following == len(text) or text[start].islower() or _ITEM.match(text, following):
        return False
    n_words = len(text[start : min(line_end, start + _BEGINNING)].split())
    if n_words < _HEADLINE or before[-1][-1] in ":_":
        return False
    after = _NEXT.match(text, following)
    word, rest = (after[3], after[4]) if after and not after[2] else ("", "")
    if before[-1] in OPEN or (word.islower() and not rest.isdigit()):
        return True
    return n_words > _HEADLINE and before[-1].endswith(",") and bool(word) and word not in STARTERS


def _ends_sentence(text: str, dot: int, end: int, start: int) -> bool:
    """True if a stop before white space, with closing quotes and brackets, ends the sentence that began at `start`."""
    after = _NEXT.match(text, end)
    gap, opening, following, rest = after.groups() if after else ("", "", "", "")
    if not (opening or following or rest) or gap.count("\n") > 1:
        return True
    if rest in _CONTINUES and not following:
        return False
    # Names such as `mRNA` and `p53` also begin sentences, and so may any word on a new line.
    if following.islower() and not rest.isdigit() and not _LINE_END.search(gap):
        return False
    if text[dot] != "." or text[dot + 1] in _STOPS:
        return True
    *_, before, last = ["", "", *text[max(start, dot - _WINDOW) : dot].split()]
    numbers_item = dot - start == len(last) and (len(last) == 1 or (last.isdigit() and len(last) < 4))
    return not numbers_item and _ends_after(before, last, following, rest)


def _ends_after(before: str, last: str, following: str, rest: str) -> bool:
    """True if a dot ends the sentence, judged by the two words before it, the word after it and the text after that."""
    word = _OPENERS.split(last)[-1]
    if word in LEADING:
        return False
    if word in NUMBERED:
        return not rest.isdigit()
    if not word or not is_ambiguous(word):
        return True
    if len(word) == 1:
        is_unit = word.islower() and before[-1:].isdigit()
        if is_unit or before.lower() in LETTERED or last[-2:-1] in ("-", "/"):
            return True
    if word in REGIONS and before.endswith(",") and following:
        return True
    return following in STARTERS and rest != "."
