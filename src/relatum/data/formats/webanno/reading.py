"""Reading WebAnno TSV."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relatum.data.formats.folders import BadLine
from relatum.data.formats.utf16 import characters_of_units, n_units
from relatum.data.json_files import read_text
from relatum.data.problems import Problems
from relatum.data.records import shorten, show
from relatum.types import Annotation, Document, Entity, Relation, Span

_ADDRESS = re.compile(r"([0-9]{1,9})-([0-9]{1,9})(?:\.([0-9]{1,9}))?")
_OFFSETS = re.compile("([0-9]{1,12})-([0-9]{1,12})")
_NUMBERED = re.compile(r"((?:\\.|[^\\[])*)(?:\[([0-9]{1,9})\])?", re.DOTALL)
_PARTS = re.compile(r"(?:\\.|[^\\|])+", re.DOTALL)
"""Annotations in a cell, between vertical bars without a backslash."""
_SOURCE = re.compile(r"([0-9]+-[0-9]+(?:\.[0-9]+)?)(?:\[([0-9]{1,9})(?:_([0-9]{1,9}))?\])?")
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\f": "\f", "\\b": "\b"}
_LONGEST_GAP = 1 << 20
"""The most characters between two sentences; more would be a text that is made of nothing."""
_NONE, _NO_VALUE = "_", "*"
_LINGUISTIC = re.compile(r"\.(lexmorph|segmentation|transform|syntax)\.")
"""Layers that hold no entities, such as parts of speech."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer: its kind (SP, RL or CH), name, features, base layer if it is of relations, and first column."""

    kind: str
    name: str
    features: tuple[str, ...]
    base: str
    column: int

    @property
    def width(self) -> int:
        return max(1, len(self.features)) + (self.kind == "RL")

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def label_column(self) -> int:
        names = ("value", "label", *self.features)
        number = next((self.features.index(name) for name in names if name in self.features), 0)
        return self.column + number


@dataclass(slots=True)
class _Row:
    line: int
    address: str
    span: Span
    cells: Sequence[str]


@dataclass(slots=True)
class _File:
    """The layers of a file, its text, and its rows with spans that count UTF-16 units."""

    layers: list[Layer] = field(default_factory=list)
    text: str = ""
    n_units: int = 0
    rows: list[_Row] = field(default_factory=list)
    sentences: list[int] = field(default_factory=list)
    """The number of words of each sentence."""


def unescape(text: str) -> str:
    return re.sub(r"\\(?:->|.)", lambda match: _ESCAPES.get(match[0], match[0][1:]), text, flags=re.DOTALL)


def parse_file(path: Path, id: str, problems: Problems) -> Document | None:
    content = read_text(path, problems)
    return None if content is None else parse_text(content, id, str(path), problems)


def parse_text(content: str, id: str, where: str, problems: Problems) -> Document:
    file = _read_rows(content)
    layer, relation_layers = _choose(file.layers)
    for other in file.layers:
        n_used = sum(set(_cells(row, other)) != {_NONE} for row in file.rows)
        if other is not layer and other not in relation_layers:
            problems.remark(f"rows with annotations of the layer {other.name}, which is not read", where, n_used)
    entities = _Entities(file, layer)
    relations = [relation for one in relation_layers for relation in entities.relations(one)]
    for used in (layer, *relation_layers) if layer else ():
        columns = range(used.column, used.column + max(1, len(used.features)))
        others = [column for column in columns if column != used.label_column]
        values = [value for row in file.rows for column in others for value, _ in _annotations(row, column)]
        n_more = len(values) - values.count(_NO_VALUE)
        problems.remark(f"values of features of {used.name} that are not read", where, n_more)
    words = [row for row in file.rows if "." not in row.address]
    positions = characters_of_units(file.text)
    borders, at = [], 0
    for size in file.sentences:
        borders.append(Span(at, at + size))
        at += size
    return Document(
        id,
        file.text,
        Annotation(tuple(entities.all), tuple(relations)),
        tuple(_character_span(row, positions) for row in words),
        tuple(borders),
    )


def _cells(row: _Row, layer: Layer) -> Sequence[str]:
    return row.cells[layer.column : layer.column + layer.width]


def _choose(layers: Sequence[Layer]) -> tuple[Layer | None, list[Layer]]:
    """Return the layer of entities and the layers of relations between them."""
    spans = {layer.name: layer for layer in layers if layer.kind == "SP"}
    plain = [layer for layer in spans.values() if not _LINGUISTIC.search(layer.name)]
    bases = [layer.base for layer in layers if layer.kind == "RL"]
    candidates = [spans[base] for base in bases if base in spans and spans[base] in plain]
    candidates += [layer for layer in plain if layer.short_name == "NamedEntity"]
    chosen = next(iter([*candidates, *plain]), None)
    return chosen, [layer for layer in layers if layer.kind == "RL" and chosen and layer.base == chosen.name]


def _read_rows(content: str) -> _File:
    lines = content.removeprefix("\ufeff").split("\n")
    if not lines[0].startswith("#FORMAT=WebAnno TSV 3"):
        raise BadLine(1, show(lines[0]), "#FORMAT=WebAnno TSV 3.3, or another TSV of version 3")
    file = _File()
    text: str | None = None
    n_columns = 3
    for number, line in enumerate(lines[1:], 2):
        line = line.removesuffix("\r")
        if line.startswith("#T_"):
            layer = _layer(number, line, n_columns)
            file.layers.append(layer)
            n_columns += layer.width
        elif line.startswith("#Text="):
            new = unescape(line.removeprefix("#Text="))
            text = new if text is None else f"{text}\n{new}"
        elif line.startswith("#"):
            continue
        elif not line.strip("\t "):
            text = None
        else:
            row = _row(number, line, n_columns)
            if text is not None and (not file.rows or row.address.endswith("-1")):
                _add_sentence(file, row, text)
            _add_row(file, row)
    return file


def _layer(number: int, line: str, column: int) -> Layer:
    kind, equals, rest = line.removeprefix("#T_").partition("=")
    name, *features = rest.split("|")
    if kind not in ("SP", "RL", "CH") or not equals or not name:
        raise BadLine(number, show(line), "#T_SP=, #T_RL= or #T_CH=, the name of a layer, and its features")
    base = features.pop() if kind == "RL" and features else ""
    if kind == "RL" and not base.startswith("BT_"):
        raise BadLine(number, show(line), "a relation layer that ends in BT_ and the name of its span layer")
    return Layer(kind, name, tuple(features), base.removeprefix("BT_"), column)


def _row(number: int, line: str, n_columns: int) -> _Row:
    cells = line.split("\t")
    if len(cells) == n_columns + 1 and not cells[-1]:
        del cells[-1]
    address, offsets = _ADDRESS.fullmatch(cells[0]), _OFFSETS.fullmatch(cells[1]) if len(cells) > 1 else None
    if address is None or offsets is None or len(cells) != n_columns or not cells[-1]:
        raise BadLine(number, shorten(line), f"{n_columns} columns: a number such as 1-1, offsets, a word, annotations")
    start, end = int(offsets[1]), int(offsets[2])
    if start >= end:
        raise BadLine(number, f"the offsets {cells[1]}", "a start before the end")
    return _Row(number, address[0], Span(start, end), cells)


def _add_sentence(file: _File, row: _Row, text: str) -> None:
    """Add the text of a sentence so that its first word stands where the row says."""
    word = unescape(row.cells[2])
    at = text.find(word)
    gap = row.span.start - n_units(text[: max(at, 0)]) - file.n_units
    if at < 0 or not 0 <= gap <= _LONGEST_GAP:
        found = f"the word {shorten(word)} at {row.cells[1]}"
        raise BadLine(row.line, found, "the first word of the text of its sentence, behind the sentence before")
    file.text += "\n" * gap + text
    file.n_units += gap + n_units(text)
    file.sentences.append(0)


def _add_row(file: _File, row: _Row) -> None:
    if not file.sentences:
        raise BadLine(row.line, "a word", "#Text= and the text of its sentence before it")
    if row.span.end > file.n_units:
        raise BadLine(row.line, f"the offsets {row.cells[1]}", f"at most {file.n_units}, the end of its sentence")
    if "." not in row.address:
        if file.rows and row.span.start < file.rows[-1].span.start:
            raise BadLine(row.line, f"the offsets {row.cells[1]}", "words in the order of the text")
        file.sentences[-1] += 1
    file.rows.append(row)


def _character_span(row: _Row, positions: Sequence[int]) -> Span:
    start, end = positions[row.span.start], positions[row.span.end]
    if start < 0 or end < 0:
        raise BadLine(row.line, f"the offsets {row.cells[1]}", "UTF-16 offsets that do not cut a character in two")
    return Span(start, end)


def _annotations(row: _Row, column: int) -> Iterator[tuple[str, int]]:
    """Yield the annotations in a cell: the value as it stands, and the number in brackets or 0."""
    cell = row.cells[column]
    if cell == _NONE:
        return
    for part in _PARTS.findall(cell):
        match = _NUMBERED.fullmatch(part)
        if match is None:
            raise BadLine(row.line, shorten(part), "a value, and a number in brackets if there is one")
        yield match[1], int(match[2] or 0)


class _Entities:
    """The entities of a layer, and a search for them by row and number."""

    def __init__(self, file: _File, layer: Layer | None) -> None:
        self._file = file
        self._positions = characters_of_units(file.text)
        self._by_place: dict[tuple[str, int], Entity] = {}
        self.all: list[Entity] = []
        parts: dict[tuple[str, int], tuple[str, list[_Row]]] = {}
        _check_words(file, self._positions)
        for row in file.rows if layer else ():
            assert layer is not None
            for value, number in _annotations(row, layer.label_column):
                label = layer.short_name if value == _NO_VALUE else unescape(value)
                key = ("" if number else row.address, number)
                known, rows = parts.setdefault(key, (label, []))
                if known != label or not label:
                    raise BadLine(row.line, f"{show(label)} with the number {number}", f"{show(known)} there too")
                rows.append(row)
        for (_, number), (label, rows) in parts.items():
            spans = [_character_span(row, self._positions) for row in rows]
            entity = Entity(Span(min(s.start for s in spans), max(s.end for s in spans)), label)
            self.all.append(entity)
            for row in rows:
                self._by_place[row.address, number] = entity
        self._count: dict[str, list[Entity]] = {}  # the only annotation of a row, for relations that name no number
        for (address, _), entity in self._by_place.items():
            self._count.setdefault(address, []).append(entity)

    def relations(self, layer: Layer) -> Iterator[Relation]:
        last = layer.column + layer.width - 1
        for row in self._file.rows:
            if row.cells[last] == _NONE:
                continue
            sources = row.cells[last].split("|")
            labels = [value for value, _ in _annotations(row, layer.label_column)] if layer.features else []
            if len(labels) not in (0, len(sources)):
                raise BadLine(row.line, show(row.cells[last]), f"{len(labels)} relations, as there are labels")
            for number, source in enumerate(sources):
                match = _SOURCE.fullmatch(source)
                if match is None:
                    raise BadLine(row.line, show(source), "the row of a relation's head, such as 1-1 or 1-1[2_0]")
                label = labels[number] if labels else _NO_VALUE
                yield Relation(
                    self._find(row, match[1], int(match[2] or 0)),
                    self._find(row, row.address, int(match[3] or 0)),
                    layer.short_name if label == _NO_VALUE else unescape(label),
                )

    def _find(self, row: _Row, address: str, number: int) -> Entity:
        found = self._by_place.get((address, number))
        at_row = self._count.get(address, [])
        if found is None and not number and len(at_row) == 1:
            found = at_row[0]
        if found is None:
            raise BadLine(row.line, f"a relation with {address}[{number}]", "a row with an annotation of that number")
        return found


def _check_words(file: _File, positions: Sequence[int]) -> None:
    end = 0
    for row in file.rows:
        span = _character_span(row, positions)
        if row.cells[2] != span.of(file.text) and unescape(row.cells[2]) != span.of(file.text):
            raise BadLine(
                row.line, f"the word {shorten(row.cells[2])}", f"{shorten(span.of(file.text))}, as the offsets say"
            )
        if "." not in row.address:
            if span.start < end:
                raise BadLine(row.line, f"the offsets {row.cells[1]}", "words that do not overlap")
            end = span.end
