"""Reading BioC: both forms become the objects of the JSON form, and these become documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from relatum.data.formats.bioc.infons import unpack
from relatum.data.formats.concepts import Concepts, sentence_finder
from relatum.data.formats.xml_files import iter_elements
from relatum.data.json_files import json_lines, json_records, parse_json, read_text
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, Field, Record, read_records, shorten
from relatum.errors import Problem
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

_LONGEST_GAP = 1 << 20
"""The most characters between two passages; more would be a text that is made of nothing."""
_LABELS = ("type", "relation", "relation type")
"""Infons that may hold the label of a relation."""
_HEADS, _TAILS = ("head", "subject", "arg1", "agent", "source"), ("tail", "object", "arg2", "target", "theme")


def read_file(path: Path, problems: Problems) -> Iterator[Document]:
    with path.open("rb") as file:
        is_xml = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    return read_records(path, (_xml_records if is_xml else _json_records)(path, problems), _parse, problems)


def _xml_records(path: Path, problems: Problems) -> Iterator[Record]:
    number = line = 0
    try:
        for number, (element, line) in enumerate(iter_elements(path, "document"), 1):
            yield Record(_plain(element), line, number)
    except BadRecord as bad:
        problems.add(Problem(str(path), bad.found, f"{bad.expected}; nothing after this place was read", line or 1))


def _json_records(path: Path, problems: Problems) -> Iterator[Record]:
    """Yield documents: those of a collection, of an array, or one a line."""
    if path.suffix in (".jsonl", ".ndjson"):
        yield from json_lines(path, problems)
        return
    with path.open("rb") as file:
        start = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"["):
        yield from json_records(path, problems)
        return
    text = read_text(path, problems)
    if text is None:
        return
    try:
        collection = Field.root(parse_json(text))
        documents = collection.need("documents") if "passages" not in collection.mapping() else None
        for number, item in enumerate(documents.items() if documents else [collection], 1):
            yield Record(item.value, 1, number, doubtful=True)
    except BadRecord as bad:
        if "\n" in text.strip() and text.lstrip().startswith('{"') and not bad.field:  # a document a line
            yield from json_lines(path, problems)
        else:
            problems.add(Problem(str(path), bad.found, bad.expected, 1, field=bad.field))


def _plain(element: Element) -> dict[str, Any]:
    """Return an element of BioC as an object of BioC JSON."""
    record: dict[str, Any] = {**element.attrib, "infons": {}}
    many = {"passage": "passages", "sentence": "sentences", "annotation": "annotations", "relation": "relations"}
    for child in element:
        if child.tag == "infon":
            record["infons"][child.get("key", "")] = child.text or ""
        elif child.tag in many:
            record.setdefault(many[child.tag], []).append(_plain(child))
        elif child.tag in ("location", "node"):
            numbers = {key: int(value) if re.fullmatch("[0-9]{1,12}", value) else value for key, value in child.items()}
            record.setdefault(f"{child.tag}s", []).append(numbers if child.tag == "location" else dict(child.items()))
        elif child.tag in ("id", "text", "offset"):
            text = child.text or ""
            is_offset = child.tag == "offset" and re.fullmatch(r"\s*[0-9]{1,12}\s*", text)
            record[child.tag] = int(text) if is_offset else text
    return record


def _parse(record: Field, default_id: str) -> Document:
    passages = record.need("passages").items()
    text = ""
    for part in (part for passage in passages for part in _texts(passage)):
        gap = part.need("offset").integer(0) - len(text)
        if not 0 <= gap <= _LONGEST_GAP:
            raise part.need("offset").bad(f"an offset of at least {len(text)}, the end of the passage before")
        text += "\n" * gap + part.need("text").text(empty=True)
    sentences = [sentence for passage in passages for sentence in passage.lists("sentences")]
    holders = [record, *passages, *sentences]
    reader = _Annotations(record, text)
    for holder in holders:
        for item in holder.lists("annotations"):
            reader.add(item)
    for holder in holders:
        for item in holder.lists("relations"):
            reader.add_relation(item)
        if holder is not record and holder.mapping().get("infons"):
            record.remark("infons of passages left out")
    infons = record.get("infons")
    metadata = unpack(infons)[0] if infons else {}
    name = record.optional_name("id") or default_id
    return Document(name, text, reader.annotation(), attributes=tuple(reader.attributes), metadata=metadata)


def _texts(passage: Field) -> list[Field]:
    """Return the parts of a passage that have text: the passage itself, or its sentences."""
    return [passage] if passage.mapping().get("text") else passage.lists("sentences") or [passage]


class _Annotations:
    """The annotation of a document, as far as it was read."""

    def __init__(self, record: Field, text: str) -> None:
        self._record = record
        self._text = text
        self._by_id: dict[str, Entity] = {}
        self._concepts = Concepts(lambda: sentence_finder(text))
        self._entities: list[Entity] = []
        self._relations: list[Relation] = []
        self.attributes: list[Attribute] = []

    def annotation(self) -> Annotation:
        return Annotation(tuple(self._entities), tuple(self._relations))

    def add(self, item: Field) -> None:
        pieces = sorted(self._piece(location) for location in item.lists("locations") if _length(location))
        if not pieces:
            item.remark("annotation without a place in the text left out")
            return
        if any(one.end > other.start for one, other in pairwise(pieces)):
            raise item.need("locations").bad("locations that do not overlap")
        infons = item.need("infons")
        label = infons.label("type")
        surface = item.get("text")
        found = " ".join(piece.of(self._text) for piece in pieces)
        if surface and len(pieces) == 1 and surface.text(empty=True).split() != found.split():
            raise surface.bad(f"{shorten(found)}, as the location says", shorten(surface.text(empty=True)))
        id = item.optional_name("id")
        fragments = tuple(pieces) if len(pieces) > 1 else ()
        entity = Entity(Span(pieces[0].start, pieces[-1].end), label, fragments, id=id)
        self._entities.append(entity)
        if id is not None and self._by_id.setdefault(id, entity) is not entity:
            item.remark("annotation with the id of another: relations refer to the first")
        rest, attributes = unpack(infons, "type")
        self.attributes += (Attribute(entity, name, value) for name, value in attributes)
        for value in rest.values():
            for key in dict.fromkeys([str(value), *re.split("[|,;]", str(value))]):
                self._concepts.add(key, entity)

    def _piece(self, location: Field) -> Span:
        start = location.need("offset").integer(0)
        return location.span(start, start + _length(location), len(self._text), "characters")

    def add_relation(self, item: Field) -> None:
        infons = item.get("infons") or Field({}, item, "infons")
        key = next((key for key in _LABELS if isinstance(infons.mapping().get(key), str)), "type")
        label = infons.label(key)
        nodes = [(node.optional_name("refid") or "", node.optional_name("role") or "") for node in item.lists("nodes")]
        if len(nodes) == 2 and nodes[0][1].lower() in _TAILS and nodes[1][1].lower() in _HEADS:
            nodes.reverse()
        ends = [self._by_id.get(refid) for refid, _ in nodes]
        rest, attributes = unpack(infons, key)
        if len(ends) == 2 and ends[0] and ends[1]:
            relations = [Relation(ends[0], ends[1], label, id=item.optional_name("id"))]
        elif len(nodes) > 2:
            item.remark("relation left out, as it has more than two nodes")
            return
        else:
            concepts = self._ends(rest, [refid for refid, _ in nodes])
            if concepts is None:
                item.remark("relation left out, as its nodes or infons name no two annotations or concepts")
                return
            relations = list(self._concepts.read(item, *concepts, label))
        known = set(self._relations)
        for relation in relations:
            if len(nodes) != 2 and relation in known:
                item.remark("relation between concepts that falls on the mentions of another, read once")
                continue
            self._relations.append(relation)
            self.attributes += (Attribute(relation, name, value) for name, value in attributes)

    def _ends(self, infons: Mapping[str, object], refids: list[str]) -> tuple[str, str] | None:
        """Return the concepts of a relation's ends: from its nodes, `entity1` and `entity2`, or two other infons."""
        named = [infons[key] for key in ("entity1", "entity2") if key in infons]
        known = [value for value in infons.values() if self._concepts.count(str(value))]
        for ends in (refids, named, known):
            if len(ends) == 2:
                return str(ends[0]), str(ends[1])
        return None


def _length(location: Field) -> int:
    return location.need("length").integer(0)
