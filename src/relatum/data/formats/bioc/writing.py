"""Writing BioC: documents become objects of the JSON form, which are written as JSON or XML."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from relatum.data.documents import Names
from relatum.data.formats.bioc.infons import pack_attributes, pack_metadata
from relatum.data.formats.xml_files import NOT_XML, escape_attribute, escape_text
from relatum.data.records import BadRecord, shorten, show
from relatum.errors import FormatError
from relatum.types import Attribute, Document, Entity, Relation

_HEADER = '<?xml version="1.0" encoding="UTF-8"?>\n<collection><source>relatum</source><date></date><key></key>\n'


def write_json_file(path: Path, documents: Iterable[Document]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.write('{"bioctype": "BioCCollection", "source": "relatum", "date": "", "key": "", "version": "1.0", ')
        out.write('"infons": {}, "documents": [')
        for number, document in enumerate(documents):
            out.write((",\n" if number else "\n") + json.dumps(_document(document), ensure_ascii=False))
        out.write("]}\n")


def write_xml_file(path: Path, documents: Iterable[Document]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.write(_HEADER)
        for document in documents:
            try:
                check_xml_document(document)
            except BadRecord as bad:
                found = f"document {shorten(document.id)}: found {bad.found}"
                raise FormatError(f"{found}; expected {bad.expected}") from None
            out.write("".join(_xml("document", _document(document))) + "\n")
        out.write("</collection>\n")


def check_xml_document(document: Document) -> None:
    """Refuse a document with characters that XML cannot hold; infons with such characters are packed."""
    annotation = document.annotation
    entities = [name for one in annotation.entities for name in (one.label, one.id or "")]
    relations = [name for one in annotation.relations for name in (one.label, one.id or "")]
    for text in (document.id, document.text, *entities, *relations):
        if match := NOT_XML.search(text):
            raise BadRecord(f"the character {show(match[0])}", "characters that XML can hold")


def _document(document: Document) -> dict[str, Any]:
    attributes: defaultdict[Entity | Relation, list[Attribute]] = defaultdict(list)
    for attribute in document.attributes:
        attributes[attribute.target].append(attribute)
    names = Names(document.annotation.entities)
    annotations = []
    for name, entity in zip(names.all, document.annotation.entities, strict=True):
        own = attributes.pop(entity, [])  # of equal entities the first has them
        annotations.append(_annotation(entity, name, own, document.text))
    used = {relation.id for relation in document.annotation.relations}
    free = (f"R{number}" for number in range(1, len(document.annotation.relations) * 2 + 2) if f"R{number}" not in used)
    relations = []
    for relation in document.annotation.relations:
        own = attributes.pop(relation, [])
        ends = ((names.of(relation.head), "head"), (names.of(relation.tail), "tail"))
        relations.append(
            {
                "id": next(free) if relation.id is None else relation.id,
                "infons": {"type": relation.label} | pack_attributes(own, "type"),
                "nodes": [{"refid": refid, "role": role} for refid, role in ends],
            }
        )
    passage = {
        "bioctype": "BioCPassage",
        "offset": 0,
        "infons": {},
        "text": document.text,
        "sentences": [],
        "annotations": annotations,
        "relations": relations,
    }
    return {
        "bioctype": "BioCDocument",
        "id": document.id,
        "infons": pack_metadata(document.metadata),
        "passages": [passage],
        "annotations": [],
        "relations": [],
    }


def _annotation(entity: Entity, name: str, attributes: Sequence[Attribute], text: str) -> dict[str, Any]:
    return {
        "id": name,
        "infons": {"type": entity.label, **pack_attributes(attributes, "type")},
        "text": " ".join(piece.of(text) for piece in entity.pieces()),
        "locations": [{"offset": piece.start, "length": piece.width} for piece in entity.pieces()],
    }


def _xml(tag: str, record: dict[str, Any]) -> Iterator[str]:
    """Yield the pieces of the element of an object of BioC JSON, in the order of the DTD."""
    id = f' id="{escape_attribute(record["id"])}"' if tag in ("annotation", "relation") else ""
    yield f"<{tag}{id}>"
    if tag == "document":
        yield f"<id>{escape_text(record['id'])}</id>"
    for key, value in record["infons"].items():
        yield f'<infon key="{escape_attribute(key)}">{escape_text(value)}</infon>'
    if "offset" in record:
        yield f"<offset>{record['offset']}</offset>"
    for location in record.get("locations", ()):
        yield f'<location offset="{location["offset"]}" length="{location["length"]}"/>'
    if "text" in record:
        yield f"<text>{escape_text(record['text'])}</text>"
    for node in record.get("nodes", ()):
        yield f'<node refid="{escape_attribute(node["refid"])}" role="{node["role"]}"/>'
    for name in ("passage", "annotation", "relation"):
        for item in record.get(f"{name}s", ()):
            yield from _xml(name, item)
    yield f"</{tag}>"
