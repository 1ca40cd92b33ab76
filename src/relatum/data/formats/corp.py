r"""CoNLL04's original column file (`.corp`): for each sentence a table of rows, then its relations.

A row is one entity or one word outside of entities. Its nine columns, with tabs between them, are: sentence number,
entity type or O, row number, O, part-of-speech tags, words, O, O, O. The words of an entity are joined by `/`, and so
are their tags. After an empty line the relations follow, one a line: row of the head, row of the tail, type. Another
empty line ends the sentence.

As published, a comma is written COMMA and round brackets -LRB- and -RRB-; nothing else is replaced. So that every word
survives, a backslash protects what would be misread: `\/` is a slash inside a word of an entity, `\COMMA` the word
COMMA itself, `\\` a backslash.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from relatum.data.documents import from_words, split_parts, to_examples
from relatum.data.duplicates import SeenIds
from relatum.data.formats.base import Format, Holds
from relatum.data.json_files import read_bytes
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, shorten, show
from relatum.errors import FormatError, Problem
from relatum.types import Annotation, Document, Entity, Example, Relation, Span

_READ_AS = {"COMMA": ",", "-LRB-": "(", "-RRB-": ")"}
_WRITTEN_AS = {word: name for name, word in _READ_AS.items()}
_OUTSIDE = "O"
_UNTAGGED = "_"
_SPACE = r"[ \t\n\r\x0b\x0c]"
_ROW = "sentence, entity type, row, O, part-of-speech tags, words, O, O, O"
_RELATION = "row of the head, row of the tail, type"


class _Line(NamedTuple):
    number: int
    data: bytes


class _BadLine(BadRecord):
    def __init__(self, line: int, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.line = line


def recognise(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            start = file.read(1 << 16).removeprefix(codecs.BOM_UTF8)
    except OSError:
        return False
    first = next((line for line in start.splitlines() if line.strip()), b"")
    cells = first.split(b"\t")
    return len(cells) == 9 and cells[2].isdigit() and {cells[3], *cells[6:]} == {b"O"}


def read(path: Path, problems: Problems) -> Iterator[Document]:
    seen = SeenIds()
    try:
        for number, (table, relations) in enumerate(_blocks(path, problems), 1):
            try:
                document = _parse(path, table, relations, problems)
                first = seen.add(document.id, table[0].number)
                if first is not None:
                    found = f"the sentence number {show(document.id)} again (first on line {first})"
                    raise _BadLine(table[0].number, found, "sentence numbers that differ")
                yield document
            except _BadLine as bad:
                problems.add(Problem(str(path), bad.found, bad.expected, bad.line, number))
    finally:
        seen.close()


def _blocks(path: Path, problems: Problems) -> Iterator[tuple[list[_Line], list[_Line]]]:
    """Yield the lines of each sentence's table and of its relations."""
    table: list[_Line] = []
    relations: list[_Line] = []
    current = table
    gap = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if number == 1:
                if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    read_bytes(path, problems)
                    return
                line = line.removeprefix(codecs.BOM_UTF8)
            line = line.rstrip(b"\r\n")
            if not line.strip():
                gap += 1
                continue
            if gap and table:
                # Relations stand one empty line below their table; two empty lines mean that there are none.
                if gap == 1 and not relations and line.count(b"\t") != 8:
                    current = relations
                else:
                    yield table, relations
                    table, relations = [], []
                    current = table
            gap = 0
            current.append(_Line(number, line))
    if table:
        yield table, relations


def _parse(path: Path, table: list[_Line], relations: list[_Line], problems: Problems) -> Document:
    words: list[str] = []
    tags: list[str] = []
    rows: dict[int, Entity | None] = {}
    name = _cells(table[0], 9, _ROW)[0]
    for line in table:
        place = f"{path}:{line.number}"
        cells = _cells(line, 9, _ROW)
        sentence, label, row, _, joined_tags, joined_words = cells[:6]
        if not sentence or sentence != name:
            raise _BadLine(line.number, f"the sentence number {show(sentence)}", show(name) if name else "a number")
        if not label:
            raise _BadLine(line.number, "no entity type", "an entity type, or O outside of entities")
        index = _index(line, row)
        if index in rows:
            raise _BadLine(line.number, f"row {index} again", "row numbers that differ inside a sentence")
        if {cells[3], *cells[6:]} != {_OUTSIDE}:
            problems.remark("rows with more than O in a column that is not read", place)
        if label == _OUTSIDE:
            new_words, new_tags = [joined_words], [joined_tags]
        else:
            new_words, new_tags = _split_row(joined_words, joined_tags, place, problems)
        if "" in new_words or "" in new_tags:
            what = "word" if "" in new_words else "part-of-speech tag"
            raise _BadLine(line.number, f"an empty {what}", f"words and their tags, {_UNTAGGED} for an unknown tag")
        span = Span(len(words), len(words) + len(new_words))
        rows[index] = None if label == _OUTSIDE else Entity(span, label)
        words += map(_decode, new_words)
        tags += new_tags
    entities = tuple(entity for entity in rows.values() if entity)
    annotation = Annotation(entities, tuple(_relation(line, rows) for line in relations))
    metadata = {} if set(tags) == {_UNTAGGED} else {"pos": tags}
    return from_words(name, [words], annotation, metadata=metadata)


def _cells(line: _Line, width: int, columns: str) -> list[str]:
    try:
        cells = line.data.decode().split("\t")
    except UnicodeDecodeError as error:
        found = f"the byte 0x{line.data[error.start]:02X}, which is not UTF-8"
        raise _BadLine(line.number, found, "a UTF-8 file") from None
    if len(cells) != width:
        found = "one column" if len(cells) == 1 else f"{len(cells)} columns"
        raise _BadLine(line.number, found, f"{width} columns with tabs between them: {columns}")
    return cells


def _index(line: _Line, cell: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", cell):
        raise _BadLine(line.number, show(cell), "a row number")
    return int(cell)


def _relation(line: _Line, rows: dict[int, Entity | None]) -> Relation:
    *ends, label = _cells(line, 3, _RELATION)
    if not label:
        raise _BadLine(line.number, "no relation type", _RELATION)
    entities = []
    for cell in ends:
        entity = rows.get(_index(line, cell))
        if entity is None:
            raise _BadLine(line.number, f"row {cell}, which is no entity", "the row of an entity of this sentence")
        entities.append(entity)
    return Relation(entities[0], entities[1], label)


def _split_row(joined_words: str, joined_tags: str, place: str, problems: Problems) -> tuple[list[str], list[str]]:
    """Return the words of an entity and their tags; if there is a single tag, a slash belongs to the word."""
    words = _split(joined_words)
    tags = joined_tags.split("/")
    if tags == [_UNTAGGED]:
        tags *= len(words)
    elif len(tags) == 1:
        words = [joined_words]
    elif len(tags) != len(words):
        problems.remark("entities whose part-of-speech tags were left out, as they are not as many as the words", place)
        tags = [_UNTAGGED] * len(words)
    return words, tags


def _split(joined: str) -> list[str]:
    """Split at the slashes that no backslash protects."""
    parts = [""]
    for piece in re.findall(r"\\[\\/]|/|[^\\/]+|\\", joined):
        if piece == "/":
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _decode(part: str) -> str:
    if part in _READ_AS:
        return _READ_AS[part]
    if "\\" not in part:
        return part
    if part[0] == "\\" and part[1:] in _READ_AS:
        return part[1:]
    return re.sub(r"\\([\\/])", r"\1", part)


def _encode(word: str, inside: bool) -> str:
    if word in _WRITTEN_AS:
        return _WRITTEN_AS[word]
    if word in _READ_AS:
        return "\\" + word
    word = word.replace("\\", "\\\\")
    return word.replace("/", "\\/") if inside else word


def check(document: Document) -> None:
    """Raise `BadRecord` for what the columns cannot hold."""
    _content(document)


def write(path: Path, documents: Iterable[Document]) -> None:
    with path.open("wb") as out:
        for document in documents:
            try:
                out.write(_content(document))
            except BadRecord as bad:
                raise FormatError(f"document {shorten(document.id)}, {bad}") from None


def _content(document: Document) -> bytes:
    words, sentences = split_parts(document)
    tags = _tags(document, len(words))
    for number, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
        _check(word.of(document.text), "word", f"word {number}", _SPACE, "white space")
        _check(tag, "part-of-speech tag", f"word {number}", _SPACE, "white space")
    lines = [
        f"{line}\n"
        for example, sentence in zip(to_examples(document), sentences, strict=True)
        for line in _lines(example, tags[sentence.start : sentence.end])
    ]
    try:
        return "".join(lines).encode()
    except UnicodeEncodeError as error:
        raise BadRecord(f"text that is not valid Unicode: {error}", "text that UTF-8 can hold", "text") from None


def _tags(document: Document, n_words: int) -> Sequence[str]:
    tags = document.metadata.get("pos")
    if isinstance(tags, list | tuple) and len(tags) == n_words and all(isinstance(tag, str) for tag in tags):
        return tags
    return [_UNTAGGED] * n_words


def _lines(example: Example, tags: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a sentence; an empty line ends its rows, and another its relations."""
    words = example.sentence.words
    _check(example.id, "sentence id", "id", "[\t\r\n\ufeff]", "tab, line break or byte-order mark")
    rows: dict[Span, int] = {}
    row = at = 0
    for entity in (*sorted(example.gold.entities, key=lambda entity: entity.span), None):
        for index in range(at, entity.span.start if entity else len(words)):
            yield _row(example.id, _OUTSIDE, row, tags[index], _encode(words[index], False))
            row += 1
        if entity:
            span = entity.span
            inside = words[span.start : span.end]
            inside_tags = tags[span.start : span.end]
            field = f"entity {shorten(' '.join(inside))}"
            _check(entity.label, "entity type", field, r"[\t\r\n]|^O$", "tab or line break, and is not O")
            if span.start < at:
                raise BadRecord("an entity that overlaps another or stands twice", "a word in one entity only", field)
            for tag in inside_tags:
                _check(tag, "part-of-speech tag of an entity", field, "/", "slash")
            joined = "/".join(_encode(word, True) for word in inside)
            yield _row(example.id, entity.label, row, "/".join(inside_tags), joined)
            rows[span] = row
            row += 1
            at = span.end
    yield ""
    for relation in example.gold.relations:
        _check(relation.label, "relation type", "relations", r"[\t\r\n]", "tab or line break")
        yield f"{rows[relation.head.span]}\t{rows[relation.tail.span]}\t{relation.label}"
    yield ""


def _row(sentence: str, label: str, row: int, tags: str, words: str) -> str:
    return "\t".join((sentence, label, str(row), _OUTSIDE, tags, words, _OUTSIDE, _OUTSIDE, _OUTSIDE))


def _check(value: str, what: str, field: str, forbidden: str, name: str) -> None:
    if not value or re.search(forbidden, value):
        raise BadRecord(f"the {what} {shorten(value)}", f"one that is not empty and has no {name}", field)


FORMAT = Format(
    name="corp",
    title="CoNLL04 columns",
    suffix=".corp",
    holds=Holds(words=True, documents=False, overlaps=False, same_span=False, crossing=False, metadata_keys=("pos",)),
    recognise=recognise,
    read=read,
    write=write,
    check=check,
)
