"""Writing documents as pairs of an `.sgm` and an `.apf.xml` file, in the form of 2005."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from relatum.data.documents import Names
from relatum.data.formats.ace import ANNOTATION, LEFT_OUT, TEXT
from relatum.data.formats.ace.markup import ESCAPES, escape_markup, escaped_offsets
from relatum.data.records import BadRecord, Field, shorten
from relatum.errors import FormatError
from relatum.types import Document, Entity, Span

_LONGEST_NAME = 200
_IN_ATTRIBUTE = str.maketrans(ESCAPES | {'"': "&quot;", "\t": "&#9;", "\n": "&#10;"})
_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]|\ufffe|\uffff")  # as one set it would take long to compile


def check_document(document: Document) -> None:
    """Refuse a document if the two files could not hold everything in it."""
    _check_name(document.id, "id")
    if len(_file_name(document)) > _LONGEST_NAME:
        raise BadRecord(
            f"{shorten(document.id)}, of {len(_file_name(document))} characters as the name of a file",
            f"an id of at most {_LONGEST_NAME}",
            "id",
        )
    Field(document.text, None, "text").text(empty=True)
    _check_entities(document)
    _check_relations(document)
    _check_clusters(document)


def _check_entities(document: Document) -> None:
    text = document.text
    for number, entity in enumerate(document.annotation.entities):
        field = f"entities[{number}]"
        if entity.fragments:
            raise BadRecord(
                f"the discontinuous entity {shorten(entity.span.of(text))}",
                "entities of one piece, as ACE holds no others",
                field,
            )
        _check_name(entity.label, f"{field}.label")
        if entity.id is not None:
            _check_name(entity.id, f"{field}.id")
        _check_xml(entity.span.of(text), field)


def _check_relations(document: Document) -> None:
    for number, relation in enumerate(document.annotation.relations):
        field = f"relations[{number}]"
        _check_name(relation.label, f"{field}.label")
        if relation.label in LEFT_OUT:
            raise BadRecord(
                f"the type {relation.label}",
                "another name for it, or another format: relations of this type are left out when ACE is read",
                f"{field}.label",
            )
        if relation.id is not None:
            _check_name(relation.id, f"{field}.id")


def _check_clusters(document: Document) -> None:
    known = {entity.span for entity in document.annotation.entities}
    for number, cluster in enumerate(document.clusters):
        for span in cluster:
            if span not in known:
                raise BadRecord(
                    f"{shorten(span.of(document.text))} at characters [{span.start}, {span.end}), which is no entity",
                    "clusters of entities, as ACE has them; make it one, or take it out",
                    f"clusters[{number}]",
                )


def _check_name(value: str, field: str) -> None:
    Field(value, None, field).text()
    _check_xml(value, field)


def _check_xml(value: str, field: str) -> None:
    if match := _NOT_XML.search(value):
        raise BadRecord(
            f"the character U+{ord(match[0]):04X} in {shorten(value)}", "characters that XML can hold; remove it", field
        )


def write_folder(path: Path, documents: Iterable[Document]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for document in documents:
        try:
            check_document(document)
        except BadRecord as bad:
            raise FormatError(f"document {shorten(document.id)}, {bad}") from None
        _write_pair(path, document)


def _file_name(document: Document) -> str:
    return quote(document.id, safe="")


def _write_pair(path: Path, document: Document) -> None:
    name = _file_name(document)
    file = path / f"{name}{ANNOTATION}"
    if file.exists():
        raise FormatError(f"document {shorten(document.id)}: the id was used before; give it another")
    start, end = _body(document)
    text = document.text
    before, body, after = map(escape_markup, (text[:start], text[start:end], text[end:]))
    sgml = f"<DOC>{before}<BODY>{body}</BODY>{after}</DOC>"
    (path / f"{name}{TEXT}").write_text(sgml, encoding="utf-8", newline="")
    lines = _annotation_lines(document, f"{name}{TEXT}")
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")


def _body(document: Document) -> tuple[int, int]:
    size = len(document.text)
    match document.metadata.get("body"):
        case [int(start), int(end)] if 0 <= start <= end <= size:
            return start, end
    return 0, size


def _annotation_lines(document: Document, source: str) -> Iterator[str]:
    offsets = escaped_offsets(document.text)

    def characters(entity: Entity) -> str:
        start, end = offsets[entity.span.start], offsets[entity.span.end]
        return f'<charseq START="{start}" END="{end - 1}">{escape_markup(entity.span.of(document.text))}</charseq>'

    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<!DOCTYPE source_file SYSTEM "apf.v5.1.1.dtd">'
    yield f'<source_file URI="{source}" SOURCE="unknown" TYPE="text" AUTHOR="relatum" ENCODING="UTF-8">'
    yield f"<document DOCID={_quoted(document.id)}>"
    names = Names(document.annotation.entities, f"{document.id}-M")
    owners: dict[str, str] = {}
    for number, (label, cluster, mentions) in enumerate(_ace_entities(document, names.all), 1):
        owner = _quoted(f"{document.id}-E{number}")
        mark = f' CLUSTER="{cluster}"' if cluster else ""
        yield f"<entity ID={owner} TYPE={_quoted(label)}{mark}>"
        for name, entity in mentions.items():
            owners[name] = owner
            yield f"  <entity_mention ID={_quoted(name)}>"
            yield f"    <extent>{characters(entity)}</extent>"
            yield f"    <head>{characters(entity)}</head>"
            yield "  </entity_mention>"
        yield "</entity>"
    for number, relation in enumerate(document.annotation.relations, 1):
        name = f"{document.id}-R{number}"
        ends = (("Arg-1", relation.head), ("Arg-2", relation.tail))
        yield f"<relation ID={_quoted(name)} TYPE={_quoted(relation.label)}>"
        for role, entity in ends:
            yield f'  <relation_argument REFID={owners[names.of(entity)]} ROLE="{role}"/>'
        yield f"  <relation_mention ID={_quoted(relation.id or f'{name}-1')}>"
        for role, entity in ends:
            yield f'    <relation_mention_argument REFID={_quoted(names.of(entity))} ROLE="{role}">'
            yield f"      <extent>{characters(entity)}</extent>"
            yield "    </relation_mention_argument>"
        yield "  </relation_mention>"
        yield "</relation>"
    yield "</document>"
    yield "</source_file>"


def _quoted(value: str) -> str:
    return f'"{value.translate(_IN_ATTRIBUTE)}"'


def _ace_entities(document: Document, names: Sequence[str]) -> Iterator[tuple[str, str, dict[str, Entity]]]:
    """Yield ACE entities as type, `CLUSTER` if needed, and mentions by ID: clusters first, then the other entities."""
    named = dict(zip(names, document.annotation.entities, strict=True))
    names_at: dict[Span, list[str]] = {}
    labels_at: dict[Span, set[str]] = {}
    for name, entity in named.items():
        names_at.setdefault(entity.span, []).append(name)
        labels_at.setdefault(entity.span, set()).add(entity.label)
    written: set[str] = set()
    for number, cluster in enumerate(document.clusters, 1):
        spans = dict.fromkeys(cluster)
        labels = [labels_at[span] for span in spans]
        shared = min(set.intersection(*labels), default=None) if labels else None
        parts: dict[str, dict[str, Entity]] = {}
        for span in spans:
            names_here = names_at[span]
            name = next((name for name in names_here if named[name].label == shared), names_here[0])
            copy = name
            while copy in written or (copy != name and copy in named):  # in two clusters, so written once for each
                copy += "-again"
            written.add(copy)
            parts.setdefault(named[name].label, {})[copy] = named[name]
        mark = "" if len(spans) > 1 and len(parts) == 1 else str(number)
        for label, mentions in parts.items():
            yield label, mark, mentions
    for name, entity in named.items():
        if name not in written:
            yield entity.label, "", {name: entity}
