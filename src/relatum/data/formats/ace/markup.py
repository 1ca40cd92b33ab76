"""Texts in the LDC's SGML: the text without its markup, and what offsets into the file mean in it."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.entities import html5
from itertools import accumulate, product
from typing import NamedTuple

from relatum.types import Span

_REFERENCE = r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|\w{1,31});|\r\n"
_MARKUP, _AFTER_TAGS = re.compile(rf"<[^>]+>|{_REFERENCE}"), re.compile(_REFERENCE)
_FRAME = re.compile(r"<(/?)(DOC|BODY|TEXT)\b", re.IGNORECASE)

ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_TABLE = str.maketrans(ESCAPES)


class Piece(NamedTuple):
    """Part of a file and what it is in the text: nothing for a tag, the character for a reference."""

    raw: str
    text: str


def strip_markup(sgml: str) -> list[Piece]:
    """The pieces that make up the file; their texts make up the text.

    A space beside a tag becomes a newline, so that a headline or a speaker's name stays apart from what follows; only
    the tags around the whole text and its body leave everything as it is.
    """
    pieces = list(_pieces(sgml))
    parting = [not piece.text and not _FRAME.match(piece.raw) for piece in pieces]
    for index, (raw, text) in enumerate(pieces):
        if raw == text:
            if text[0] == " " and index and parting[index - 1]:
                text = "\n" + text[1:]
            if text[-1] == " " and index + 1 < len(pieces) and parting[index + 1]:
                text = text[:-1] + "\n"
            pieces[index] = Piece(raw, text)
    return pieces


def _pieces(sgml: str) -> Iterator[Piece]:
    at = 0
    # Behind the last ">" nothing is a tag, and looking for one at every "<" would take quadratic time.
    border = sgml.rfind(">") + 1
    for pattern, start, end in ((_MARKUP, 0, border), (_AFTER_TAGS, border, len(sgml))):
        for match in pattern.finditer(sgml, start, end):
            resolved = _resolve(match[0])
            if resolved != match[0]:
                if at < match.start():
                    yield Piece(sgml[at : match.start()], sgml[at : match.start()])
                yield Piece(match[0], resolved)
                at = match.end()
    if at < len(sgml):
        yield Piece(sgml[at:], sgml[at:])


def _resolve(markup: str) -> str:
    """What a piece of markup is in the text; a reference that means nothing is text."""
    if markup[0] == "<":
        return ""
    if markup == "\r\n":
        return "\n"
    if markup[1] != "#" and markup[1:] not in html5:
        return markup
    resolved = html.unescape(markup)
    return markup if resolved in ("", "\ufffd") else resolved


def find_body(pieces: Sequence[Piece]) -> tuple[int, int] | None:
    """Where the text inside <BODY>, or else <TEXT>, begins and ends; None where there is neither."""
    starts: dict[str, int] = {}
    ends: dict[str, int] = {}
    at = 0
    for piece in pieces:
        frame = None if piece.text else _FRAME.match(piece.raw)
        if frame and frame[1]:
            ends[frame[2].upper()] = at
        elif frame:
            starts.setdefault(frame[2].upper(), at)
        at += len(piece.text)
    for name in ("BODY", "TEXT"):
        if name in starts:
            return starts[name], max(starts[name], ends.get(name, at))
    return None


@dataclass(frozen=True, slots=True)
class Reading:
    """What counts in an offset."""

    tags: bool
    references: bool
    """As the characters they are written with, and not as the one they mean."""
    returns: bool
    """The carriage returns in front of newlines."""

    def length(self, piece: Piece) -> int:
        if not piece.text:
            counts = self.tags
        elif piece.raw[0] == "&":
            counts = self.references
        else:
            counts = self.returns
        return len(piece.raw if counts else piece.text)


READINGS = tuple(Reading(*values) for values in product((False, True), (True, False), (False, True)))
"""All there are. The first is the LDC's; files that went through other hands may need another."""


class Ruler:
    """Turns offsets under one reading into spans of the text."""

    def __init__(self, pieces: Sequence[Piece], reading: Reading) -> None:
        self._offsets = list(accumulate(map(reading.length, pieces), initial=0))
        self._places = list(accumulate((len(piece.text) for piece in pieces), initial=0))

    def span(self, start: int, last: int) -> Span | None:
        """The characters from one offset to another, that one included; None where there is no text at either."""
        if not 0 <= start <= last < self._offsets[-1]:
            return None
        (begin, after_first), (before_last, end) = self._character(start), self._character(last)
        return Span(begin, end) if begin < after_first and before_last < end else None

    def _character(self, offset: int) -> tuple[int, int]:
        """The characters of the text that the one at an offset has become; none for one of a tag."""
        index = bisect_right(self._offsets, offset) - 1
        begin, end = self._places[index], self._places[index + 1]
        if end - begin != self._offsets[index + 1] - self._offsets[index]:
            return begin, end
        begin += offset - self._offsets[index]
        return begin, begin + 1


def escape_markup(text: str) -> str:
    """The text so that `strip_markup` gives it back, to be put between tags of <DOC>, <BODY> and <TEXT>."""
    return text.translate(_TABLE)


def escaped_offsets(text: str) -> list[int]:
    """Where each character of the text, and its end, lies once it is escaped, under the LDC's reading."""
    return list(accumulate((len(ESCAPES.get(character, "_")) for character in text), initial=0))
