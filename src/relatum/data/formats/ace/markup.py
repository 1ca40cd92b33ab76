"""Texts in the LDC's SGML: the text without its markup, and the conversion of offsets in the file to the text."""

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
_MARKUP = re.compile(rf"<[^>]+>|{_REFERENCE}")
_AFTER_TAGS = re.compile(_REFERENCE)
_FRAME = re.compile(r"<(/?)(DOC|BODY|TEXT)\b", re.IGNORECASE)

ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_TABLE = str.maketrans(ESCAPES)


class Piece(NamedTuple):
    """Part of a file and the text it stands for: nothing for a tag, the character for a reference."""

    raw: str
    text: str


def strip_markup(sgml: str) -> list[Piece]:
    """Split the file into pieces whose texts, joined, are the text without markup.

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
    """Return the text that a piece of markup stands for; a reference that means nothing stands for itself."""
    if markup[0] == "<":
        return ""
    if markup == "\r\n":
        return "\n"
    if markup[1] != "#" and markup[1:] not in html5:
        return markup
    resolved = html.unescape(markup)
    return markup if resolved in ("", "\ufffd") else resolved


def find_body(pieces: Sequence[Piece]) -> tuple[int, int] | None:
    """Return the start and end of the text inside <BODY>, or else <TEXT>; None if there is neither."""
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
class OffsetRule:
    """A way of counting characters in an offset; True for the markup that counts."""

    tags: bool
    references: bool
    """True if references count as the characters they are written with, not as the one character they mean."""
    returns: bool
    """True if carriage returns in front of newlines count."""

    def length(self, piece: Piece) -> int:
        if not piece.text:
            counts = self.tags
        elif piece.raw[0] == "&":
            counts = self.references
        else:
            counts = self.returns
        return len(piece.raw if counts else piece.text)


OFFSET_RULES = tuple(OffsetRule(*values) for values in product((False, True), (True, False), (False, True)))
"""All rules. The first is the LDC's; files that went through other hands may need another."""


class Ruler:
    """A converter of offsets, counted by one rule, to spans of the text."""

    def __init__(self, pieces: Sequence[Piece], rule: OffsetRule) -> None:
        self._offsets = list(accumulate(map(rule.length, pieces), initial=0))
        self._places = list(accumulate((len(piece.text) for piece in pieces), initial=0))

    def span(self, start: int, last: int) -> Span | None:
        """Return the span from `start` to `last`, inclusive; None if there is no text at either of them."""
        if not 0 <= start <= last < self._offsets[-1]:
            return None
        begin, after_first = self._character(start)
        before_last, end = self._character(last)
        return Span(begin, end) if begin < after_first and before_last < end else None

    def _character(self, offset: int) -> tuple[int, int]:
        """Return start and end in the text of the character at an offset of the file; they are equal inside a tag."""
        index = bisect_right(self._offsets, offset) - 1
        begin, end = self._places[index], self._places[index + 1]
        if end - begin != self._offsets[index + 1] - self._offsets[index]:
            return begin, end
        begin += offset - self._offsets[index]
        return begin, begin + 1


def escape_markup(text: str) -> str:
    """Escape a text so that `strip_markup` gives it back, to be put between tags of <DOC>, <BODY> and <TEXT>."""
    return text.translate(_TABLE)


def escaped_offsets(text: str) -> list[int]:
    """Return the offset, by the LDC's rule, of each character of the text, and of its end, once it is escaped."""
    return list(accumulate((len(ESCAPES.get(character, "_")) for character in text), initial=0))
