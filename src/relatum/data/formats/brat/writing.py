"""Writing brat folders."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, starmap
from pathlib import Path
from typing import TypeAlias

from relatum.data.formats.brat.reading import has_break, is_kept
from relatum.data.formats.file_names import FileNames
from relatum.data.records import BadRecord, shorten
from relatum.errors import FormatError
from relatum.schema import Schema
from relatum.types import Attribute, Document, Entity, Relation, Span

_LONGEST = 255
"""The most bytes that the name of a file or folder may have on almost all systems."""


def check(document: Document, *, with_events: bool) -> None:
    """Raise `BadRecord` for what brat cannot hold, whatever the other documents are."""
    suffix = max(_files(document, with_events), key=len)
    name = FileNames().of(document.id) + suffix
    width = max(len(part.encode()) for part in name.split("/"))
    if width > _LONGEST:
        raise BadRecord(f"an id that makes a file name of {width} bytes", f"{_LONGEST} at most; shorten the id")


def write(path: Path, documents: Iterable[Document], *, with_events: bool) -> None:
    path.mkdir(parents=True, exist_ok=True)
    names = FileNames()
    for document in documents:
        try:
            files = _files(document, with_events)
            stem = path / names.of(document.id)
            stem.parent.mkdir(parents=True, exist_ok=True)
            for suffix, content in files.items():
                stem.with_name(stem.name + suffix).write_bytes(content)
        except BadRecord as bad:
            raise FormatError(f"document {shorten(document.id)}: found {bad.found}; expected {bad.expected}") from None
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise FormatError(
                f"document {shorten(document.id)}: the id is too long for a file name; shorten it"
            ) from None


def _files(document: Document, with_events: bool) -> dict[str, bytes]:
    """Return the contents of a document's files by suffix; raise `BadRecord` for content that brat cannot hold."""
    kept = _kept_lines(document.metadata, with_events)
    metadata = {key: value for key, value in document.metadata.items() if key != "brat" or not kept}
    # A mark of its own keeps the reader from taking the text's first character for one.
    mark = "\ufeff" if document.text.startswith("\ufeff") else ""
    files = {".txt": mark + document.text, ".ann": "".join(f"{line}\n" for line in _lines(document, kept))}
    if metadata:
        files[".metadata.json"] = json.dumps(metadata) + "\n"
    try:
        return {suffix: content.encode() for suffix, content in files.items()}
    except UnicodeEncodeError as error:
        raise BadRecord(f"text that is not valid Unicode: {error}", "text that UTF-8 can hold") from None


def _lines(document: Document, kept: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the .ann file; lines kept from an earlier .ann file come last."""
    text = document.text
    annotation = document.annotation
    taken = {word for line in kept for word in re.split(r"[\s:]+", line)}
    mentions = _Ids(annotation.entities, "T", taken)
    links = _Ids(annotation.relations, "R", taken)
    by_span: dict[Span, str] = {}
    for entity, id in zip(annotation.entities, mentions.all, strict=True):
        pieces = [part for piece in entity.pieces() for part in _unbroken(piece, text)]
        spans = ";".join(f"{piece.start} {piece.end}" for piece in pieces)
        reference = re.sub(r"[\r\n]", " ", " ".join(piece.of(text) for piece in pieces))
        yield f"{id}\t{_name(entity.label, 'entity type')} {spans}\t{reference}"
        by_span.setdefault(entity.span, id)
    for relation, id in zip(annotation.relations, links.all, strict=True):
        ends = f"Arg1:{mentions.of(relation.head)} Arg2:{mentions.of(relation.tail)}"
        yield f"{id}\t{_name(relation.label, 'relation type')} {ends}"
    names = _Ids(document.attributes, "AM", taken)
    for attribute, id in zip(document.attributes, names.all, strict=True):
        ids = mentions if isinstance(attribute.target, Entity) else links
        target = ids.of(attribute.target)
        yield f"{id}\t{_name(attribute.name, 'attribute')} {target}{_value(attribute)}"
    for cluster in document.clusters:
        for span in cluster:
            if span not in by_span:
                raise BadRecord(
                    f"{shorten(span.of(text))} at characters [{span.start}, {span.end}) in a cluster",
                    "clusters of entities, as brat holds no others; make it an entity first",
                )
        if cluster:
            yield "*\tEquiv " + " ".join(by_span[span] for span in cluster)
    yield from kept


def _kept_lines(metadata: Mapping[str, object], with_events: bool) -> list[str]:
    """Return the lines under `brat`; none if these are not lines that a reader would keep."""
    lines = metadata.get("brat")
    if isinstance(lines, list) and all(isinstance(line, str) and _can_keep(line, with_events) for line in lines):
        return lines
    return []


def _can_keep(line: str, with_events: bool) -> bool:
    return is_kept(line, with_events) and not has_break(line)


_Item: TypeAlias = Entity | Relation | Attribute


class _Ids:
    """The brat ids of all annotations of a kind: their own ids if these begin with one of `letters`, else new ones."""

    def __init__(self, items: Sequence[_Item], letters: str, taken: set[str]) -> None:
        fit = re.compile(rf"[{letters}][0-9]+\S*")
        used = taken | {item.id for item in items if item.id is not None}
        new = (f"{letters[0]}{number}" for number in count(1))
        free = (name for name in new if name not in used)
        self._items: dict[str, _Item] = {}
        for item in items:
            name = item.id
            if name is None or name in self._items or not fit.fullmatch(name):
                name = next(free)
            self._items[name] = item
        self.all = list(self._items)
        self._by_object = {id(item): name for name, item in self._items.items()}
        self._by_value = {item: name for name, item in reversed(self._items.items())}

    def of(self, item: _Item) -> str:
        """Return the id of this very item, else of the equal item with the same id, else of the first equal item."""
        if id(item) in self._by_object:
            return self._by_object[id(item)]
        if item.id is not None and self._items.get(item.id) == item:
            return item.id
        return self._by_value[item]


def _name(name: str, what: str) -> str:
    if not re.fullmatch(r"\S+", name):
        raise BadRecord(f"the {what} {shorten(name)}", "a name without white space, as brat needs; rename it first")
    return name


def _value(attribute: Attribute) -> str:
    value = attribute.value
    if value is None:
        return ""
    if not value.strip() or has_break(value) or "\t" in value:
        raise BadRecord(
            f"the value {shorten(value)} of the attribute {shorten(attribute.name)}",
            "a value that is not blank and has no tab or line break, as brat needs; change it first",
        )
    return f" {value}"


def _unbroken(piece: Span, text: str) -> list[Span]:
    """Return the parts of a piece on each line of the text; the piece itself if it begins or ends with a line break."""
    starts = [piece.start]
    ends = []
    for space in re.compile(r"\s+").finditer(text, piece.start, piece.end):
        if has_break(space[0]):
            ends.append(space.start())
            starts.append(space.end())
    ends.append(piece.end)
    parts = list(zip(starts, ends, strict=True))
    if any(start == end for start, end in parts):
        return [piece]
    return list(starmap(Span, parts))


def annotation_conf(schema: Schema) -> tuple[str, str]:
    """Return the name and content of brat's file of types, in which mentions may overlap."""
    relations = []
    for kind in schema.relation_types:
        heads, tails = ("|".join(labels) or "<ENTITY>" for labels in (kind.head_labels, kind.tail_labels))
        symmetric = ", <REL-TYPE>:symmetric" if kind.symmetric else ""
        relations.append(f"{kind.name}\tArg1:{heads}, Arg2:{tails}{symmetric}")
    if "Equiv" not in schema.relation_names:
        relations.append("Equiv\tArg1:<ENTITY>, Arg2:<ENTITY>, <REL-TYPE>:symmetric-transitive")
    relations.append("<OVERLAP>\tArg1:<ENTITY>, Arg2:<ENTITY>, <OVL-TYPE>:<ANY>")
    sections = (("entities", schema.entity_types), ("relations", relations), ("events", ()), ("attributes", ()))
    blocks = []
    for name, lines in sections:
        blocks.append("".join(f"{line}\n" for line in (f"[{name}]", *lines)))
    return "annotation.conf", "\n".join(blocks)
