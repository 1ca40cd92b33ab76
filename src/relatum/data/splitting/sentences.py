"""Sentences in raw text."""

from __future__ import annotations

import re

from relatum.data.splitting.abbreviations import LEADING, LETTERED, NUMBERED, REGIONS, STARTERS, is_ambiguous
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
      | (?<=[{_LINE_ENDS}]) (?:(?<=\r)\n)?+ [^\S{_LINE_ENDS}]*+ (?:[{_LINE_ENDS}]|(?={_LIST_ITEM}))
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_NEXT = re.compile(r"""(\s*+)(["'“‘«„(\[{`¿¡]*+)([^\W\d_]{0,20}+)(.?)""", re.DOTALL)
_GAP = re.compile(r"\s*+")
_LINE_END = re.compile(f"[{_LINE_ENDS}]")
_OPENERS = re.compile(r"""[-‐‑–—/(\[{"'“‘«„`]""")
_CONTINUES = frozenset(f"{_STOPS},;:)]}}%")
_WINDOW = 40
"""How far back a stop looks for the two words before it."""


def split_sentences(text: str) -> list[Span]:
    """Sentences by rule: they end at stops that do not abbreviate, at blank lines, and before list items."""
    spans: list[Span] = []
    start = _skip_space(text, 0)
    for match in _BREAKS.finditer(text):
        end = match.end()
        if end <= start:
            continue
        if not match.lastgroup or _ends_sentence(text, match.start(), end, start):
            _add_trimmed(spans, text, start, end)
            start = _skip_space(text, end)
    _add_trimmed(spans, text, start, len(text))
    return spans


def split_lines(text: str) -> list[Span]:
    """One sentence for each line that is not blank; lines end where `str.splitlines` ends them."""
    spans: list[Span] = []
    start = 0
    for line in text.splitlines(keepends=True):
        _add_trimmed(spans, text, start, start + len(line))
        start += len(line)
    return spans


def one_sentence(text: str) -> list[Span]:
    """The whole text as one sentence."""
    spans: list[Span] = []
    _add_trimmed(spans, text, 0, len(text))
    return spans


def dot_ends_sentence(text: str, dot: int) -> bool:
    """Whether the dot at this place ends a sentence, wherever that began."""
    stop = _BREAKS.match(text, dot)
    return stop is not None and _ends_sentence(text, dot, stop.end(), 0)


def _skip_space(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


def _add_trimmed(spans: list[Span], text: str, start: int, end: int) -> None:
    part = text[start:end]
    if kept := part.strip():
        start += len(part) - len(part.lstrip())
        spans.append(Span(start, start + len(kept)))


def _ends_sentence(text: str, dot: int, end: int, start: int) -> bool:
    """Whether a stop before white space, with what closes after it, ends the sentence that began at `start`."""
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
    """Whether a dot ends the sentence, from the two words before it, the word after it and what comes next."""
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
