"""Reading PubTator's text."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

from relatum.data.formats.concepts import Concepts, sentence_finder
from relatum.data.json_files import decode, read_bytes
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, Field, Record, read_records, shorten, show
from relatum.errors import Problem
from relatum.files import MAX_RECORD
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

ATTRIBUTES = ("concept", "novelty", "head_concept", "tail_concept")
"""Names of the attributes that PubTator can hold."""
NO_CONCEPT = ("", "-", "-1")

_PASSAGE = re.compile(r"([^|\t]+)\|([ta])\|(.*)", re.DOTALL)
_OWN = re.compile(r"mention:[0-9]+")
_GZIP = b"\x1f\x8b"
_DAMAGED = (EOFError, ValueError, gzip.BadGzipFile, zlib.error)
"""The errors of a gzip file that is cut off or changed."""
_MENTION = "PMID, start, end, text, type and concept, with tabs between them"
_RELATION = "PMID, type, concept and concept, with tabs between them"


def recognise(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with _open(path) as file:
            first = next((line for line in islice(iter(lambda: file.readline(4096), b""), 100) if line.strip()), b"")
    except (OSError, *_DAMAGED):
        return False
    return re.match(rb"[^|\t\n{\[]+\|[ta]\|", first.removeprefix(codecs.BOM_UTF8)) is not None


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        is_packed = file.read(2) == _GZIP
    return cast("BinaryIO", gzip.open(path)) if is_packed else path.open("rb")


def read(path: Path, problems: Problems) -> Iterator[Document]:
    return read_records(path, _articles(path, problems), _parse, problems)


Lines = list[tuple[int, str]]


def _articles(path: Path, problems: Problems) -> Iterator[Record]:
    """Yield the lines of each article, with their numbers."""
    lines: Lines = []
    number = 0
    for line_number, line in _lines(path, problems):
        if line.strip():
            lines.append((line_number, line))
        elif lines:
            number += 1
            yield Record(lines, lines[0][0], number)
            lines = []
    if lines:
        yield Record(lines, lines[0][0], number + 1)


def _lines(path: Path, problems: Problems) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with _open(path) as file:
            while line := file.readline(MAX_RECORD + 1):
                number += 1
                if number == 1:
                    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                        read_bytes(path, problems)
                        return
                    line = line.removeprefix(codecs.BOM_UTF8)
                if len(line) > MAX_RECORD:
                    found = f"a line of more than {MAX_RECORD:,} bytes"
                    problems.add(Problem(str(path), found, "shorter lines; nothing after this place was read", number))
                    return
                yield number, decode(line).removesuffix("\n").removesuffix("\r")
    except BadRecord as bad:
        expected = f"{bad.expected}; nothing after this place was read"
        problems.add(Problem(str(path), bad.found, expected, number))
    except _DAMAGED as error:
        found = f"a damaged gzip file ({error})"
        problems.add(Problem(str(path), found, "a whole one; nothing after this place was read", number))


def _parse(record: Field, _default_id: str) -> Document:
    lines = cast("Lines", record.value)
    passages = [(number, match) for number, line in lines if (match := _PASSAGE.fullmatch(line))]
    if not passages:
        raise BadRecord(shorten(lines[0][1]), "PMID|t|TITLE, the first line of an article", f"line {lines[0][0]}")
    name = passages[0][1][1]
    text = _text(passages)
    found = _Article(record, text)
    for number, line in lines:
        try:
            _check_id(line, name)
            if not _PASSAGE.fullmatch(line):
                found.add(line.split("\t"))
        except BadRecord as bad:
            raise BadRecord(bad.found, bad.expected, f"line {number}") from None
    return found.document(name)


def _check_id(line: str, name: str) -> None:
    if not line.startswith((f"{name}|", f"{name}\t")):
        raise BadRecord(shorten(line), f"a line that begins with {show(name)}, and an empty line between articles")


def _text(passages: Sequence[tuple[int, re.Match[str]]]) -> str:
    """Return title and abstract with a line break between them; an empty abstract leaves none."""
    parts: dict[str, str] = {}
    for number, match in passages:
        if match[2] in parts:
            raise BadRecord(f"|{match[2]}| again", "one title and one abstract in an article", f"line {number}")
        parts[match[2]] = match[3]
    return "\n".join([parts.get("t", ""), *filter(None, [parts.get("a")])])


class _Article:
    """The annotation read from the lines of an article."""

    def __init__(self, record: Field, text: str) -> None:
        self._record = record
        self._text = text
        self._concepts = Concepts(lambda: sentence_finder(text))
        self._entities: dict[Entity, None] = {}
        self._relations: list[tuple[str, str, str, str | None]] = []
        self._attributes: dict[Attribute, None] = {}

    def add(self, cells: Sequence[str]) -> None:
        if len(cells) > 4 and cells[1].isdecimal() and cells[2].isdecimal():
            self._add_mention(*cells[1:])
        else:
            self._add_relation(cells)

    def _add_mention(self, start: str, end: str, surface: str, label: str, concept: str = "", *rest: str) -> None:
        if len(start) > 15 or len(end) > 15 or not int(start) < int(end) <= len(self._text):
            raise BadRecord(f"the characters [{start[:20]}, {end[:20]})", f"start < end <= {len(self._text)}")
        entity = Entity(Span(int(start), int(end)), label)
        if not label:
            raise BadRecord("a mention without a type", _MENTION)
        if one_line(surface) != one_line(entity.span.of(self._text)):
            expected = f"{shorten(entity.span.of(self._text))}, as the offsets say"
            raise BadRecord(f"the text {shorten(surface)}", expected)
        if entity in self._entities:
            self._record.remark("mention that has place and type of another, read once")
        self._entities.setdefault(entity)
        if concept not in NO_CONCEPT:
            for key in concept_keys(concept):
                self._concepts.add(key, entity)
            if not _OWN.fullmatch(concept):
                self._attributes.setdefault(Attribute(entity, "concept", concept))
        if any(rest):
            self._record.remark("further columns of mentions left out")

    def _add_relation(self, cells: Sequence[str]) -> None:
        if len(cells) not in (4, 5) or not all(cells[1:4]):
            found = f"{len(cells)} columns" if all(cells[1:4]) else "an empty column"
            raise BadRecord(f"{found} in {shorten(' '.join(cells))}", f"{_MENTION}; or {_RELATION}")
        _, label, head, tail, *rest = cells
        self._relations.append((head, tail, label, rest[0] or None if rest else None))

    def document(self, name: str) -> Document:
        relations: dict[Relation, None] = {}
        for head, tail, label, novelty in self._relations:
            for relation in self._concepts.read(self._record, head, tail, label):
                if relation in relations:
                    self._record.remark("relation between concepts that falls on the mentions of another, read once")
                relations.setdefault(relation)
                if novelty:
                    self._attributes.setdefault(Attribute(relation, "novelty", novelty))
                for role, end, concept in (("head", relation.head, head), ("tail", relation.tail, tail)):
                    if not _OWN.fullmatch(concept) and Attribute(end, "concept", concept) not in self._attributes:
                        self._attributes.setdefault(Attribute(relation, f"{role}_concept", concept))
        annotation = Annotation(tuple(self._entities), tuple(relations))
        return Document(name, self._text, annotation, attributes=tuple(self._attributes))


def concept_keys(concept: str) -> list[str]:
    """Return a mention's concept, and its parts if it may be several concepts."""
    return list(dict.fromkeys([concept, *filter(None, re.split("[|,;]", concept))]))


def one_line(text: str) -> str:
    """Return the text with a space for every character of white space."""
    return re.sub(r"\s", " ", text)
