"""ACE 2004 and 2005 as the LDC ships them: a folder of `.sgm` texts, each with its annotations in an `.apf.xml` file.

Entities are the heads of mentions with the coarse type of their ACE entity; the mentions of one ACE entity are a
cluster. Relations go from Arg-1 to Arg-2, also where the order means nothing, as in PER-SOC and in the Near kind of
PHYS. DISC (2004) and METONYMY (2005) are left out, as in the usual setting, and so are values, times and events. Of a
document that stands in several of the folders timex2norm, adj, fp1 and fp2, the first of these is read.

The text of a document is its `.sgm` file without the tags, header and all, so that the LDC's offsets hold, but for
references such as `&amp;`, which are resolved. Where the body lies is kept as `metadata["body"]`.

What is written is the form of 2005. A cluster that ACE has no words for, of a single mention or of several types, is
spread over entities with one value of `CLUSTER`, an attribute of our own.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from relatum.data.documents import Names
from relatum.data.formats.base import Format, Holds
from relatum.data.formats.sgml import (
    READINGS,
    Piece,
    Ruler,
    escape_markup,
    escaped_offsets,
    find_body,
    strip_markup,
)
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, read_bytes, read_text, show
from relatum.errors import FormatError, Problem
from relatum.types import Annotation, Document, Entity, Relation, Span

PASSES = ("timex2norm", "adj", "fp1", "fp2")
"""The folders of ACE 2005 in which one document may stand several times, the one to read first."""

LEFT_OUT = ("DISC", "METONYMY")
"""Relation types that are not read."""

_ANNOTATION, _TEXT = ".apf.xml", ".sgm"
_ROLES = {"Arg-1": "Arg-1", "1": "Arg-1", "Arg-2": "Arg-2", "2": "Arg-2"}
_LOOKED_AT = 10_000
_LONGEST_NAME = 200
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_IN_ATTRIBUTE = _IN_TEXT | str.maketrans({'"': "&quot;", "\t": "&#9;", "\n": "&#10;"})
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def recognise(path: Path) -> bool:
    seen = 0
    for _, folders, files in os.walk(path):
        if any(name.endswith(_ANNOTATION) for name in files):
            return True
        seen += len(folders) + len(files)
        if seen > _LOOKED_AT:
            break
    return False


def read(path: Path, problems: Problems) -> Iterator[Document]:
    seen: dict[str, Path] = {}
    for file in _annotation_files(path, problems):
        try:
            document = _read_pair(file, problems)
        except OSError as error:
            problems.add(Problem(str(error.filename), error.strerror or "an error", "a file that can be read"))
            continue
        except BadRecord as bad:
            problems.add(Problem(str(file), bad.found, bad.expected, field=bad.field))
            continue
        if document is None:
            continue
        first = seen.setdefault(document.id, file)
        if first is not file:
            problems.add(Problem(str(file), f"the id {show(document.id)} again (first in {first})", "ids that differ"))
        else:
            yield document


def _annotation_files(path: Path, problems: Problems) -> list[Path]:
    """The annotation file of each document, from the best of its passes."""
    if path.is_file():
        return [path]
    passes: dict[tuple[Path, str], list[Path]] = {}
    for file in sorted(path.rglob(f"*{_ANNOTATION}")):
        folder = file.parent.parent if file.parent.name in PASSES else file.parent
        passes.setdefault((folder, file.name), []).append(file)
    chosen = []
    for files in passes.values():
        best, *others = sorted(files, key=_rank)
        chosen.append(best)
        if others:
            problems.remark(f"annotations left out in favour of {best.parent.name}", str(others[0]), len(others))
    if not chosen:
        problems.add(Problem(str(path), f"no {_ANNOTATION} file", "a folder of the LDC's ACE 2004 or 2005"))
    for file in sorted(path.rglob(f"*{_TEXT}")):
        if not _beside(file, _TEXT, _ANNOTATION).exists():
            problems.remark(f"texts left out that have no {_ANNOTATION} file beside them", str(file))
    return chosen


def _rank(file: Path) -> int:
    return PASSES.index(file.parent.name) if file.parent.name in PASSES else len(PASSES)


def _beside(file: Path, suffix: str, other: str) -> Path:
    return file.with_name(file.name.removesuffix(suffix) + other)


def _read_pair(file: Path, problems: Problems) -> Document | None:
    """The document of an annotation file and the text beside it; None where it brought problems of its own."""
    source = _beside(file, _ANNOTATION, _TEXT)
    if not source.is_file():
        raise BadRecord(f"no {source.name} beside it", f"an {_ANNOTATION} file and its {_TEXT} file")
    data, sgml = read_bytes(file, problems), read_text(source, problems)
    if data is None or sgml is None:
        return None
    root = _parse_xml(data)
    content = root if root.tag == "document" else root.find("document")
    if content is None:
        raise BadRecord(f"the element <{root.tag}>", "<source_file> with a <document> in it")
    pieces = strip_markup(sgml)
    text = "".join(piece.text for piece in pieces)
    found = _annotation(content, text, pieces, str(file), problems)
    if found is None:
        return None
    annotation, clusters = found
    for kind in ("value", "timex2", "event"):
        problems.remark(f"ACE {kind} mentions left out", str(file), sum(1 for _ in content.iter(f"{kind}_mention")))
    body = find_body(pieces)
    return Document(
        content.get("DOCID") or file.name.removesuffix(_ANNOTATION),
        text,
        annotation,
        clusters=clusters,
        metadata={} if body in (None, (0, len(text))) else {"body": list(body)},
    )


def _annotation(
    content: Element, text: str, pieces: Sequence[Piece], where: str, problems: Problems
) -> tuple[Annotation, tuple[tuple[Span, ...], ...]] | None:
    """Entities and relations, each once, and clusters; None where heads are not where the file says they are."""
    mentions = list(_mentions(content))
    spans = _heads(mentions, text, pieces, where, problems)
    if spans is None:
        return None
    by_id: dict[str, Entity] = {}
    known: dict[Entity, Entity] = {}
    groups: dict[tuple[str, str], set[Span]] = {}
    for mention, span in zip(mentions, spans, strict=True):
        entity = Entity(span, mention.label, id=mention.id)
        by_id[mention.id] = known.setdefault(entity, entity)
        groups.setdefault(mention.group, set()).add(span)
    problems.remark("mentions left out that have head and type of another", where, len(mentions) - len(known))
    relations: list[Relation] = []
    arguments: dict[Relation, tuple[str, str]] = {}
    for head, tail, label, name in _relations(content, by_id, where, problems):
        relation = Relation(by_id[head], by_id[tail], label, id=name)
        if arguments.setdefault(relation, (head, tail)) == (head, tail):
            relations.append(relation)
        else:
            problems.remark("relations left out that equal another, as their mentions do", where)
    entities = tuple(sorted(known, key=lambda entity: (entity.span, entity.label)))
    clusters = (tuple(sorted(group)) for key, group in groups.items() if len(group) > 1 or key[0] == "CLUSTER")
    return Annotation(entities, tuple(relations)), tuple(clusters)


def _parse_xml(data: bytes) -> Element:
    """The root element; nothing outside the file is loaded, and declarations of entities are refused."""
    builder = TreeBuilder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data

    def declared(name: str, *_: object) -> None:
        raise BadRecord(f"a declaration of the entity {show(name)}", "XML that declares no entities")

    def unknown(name: str, is_parameter: bool) -> None:
        if not is_parameter:
            builder.data(f"&{name};")

    parser.EntityDeclHandler = declared
    parser.SkippedEntityHandler = unknown
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise BadRecord(f"an error in the XML ({error})", "well-formed XML") from None
    return builder.close()


class _Mention(NamedTuple):
    """What the annotation file says of a mention; `last` is the offset of the last character of its head."""

    id: str
    label: str
    group: tuple[str, str]
    start: int
    last: int
    text: str


def _mentions(content: Element) -> Iterator[_Mention]:
    seen: set[str] = set()
    for number, entity in enumerate(content.iter("entity")):
        label = _need(entity, "TYPE")
        cluster = entity.get("CLUSTER")
        group = ("entity", str(number)) if cluster is None else ("CLUSTER", cluster)
        for mention in entity.iter("entity_mention"):
            name = _need(mention, "ID")
            field = f"mention {name}"
            if name in seen:
                raise BadRecord("an ID that another mention has", "IDs that differ", field)
            seen.add(name)
            head = mention.find("head/charseq")
            if head is None:
                raise BadRecord("no head", "<head> with a <charseq> in it", field)
            start, last = (_offset(head, key, field) for key in ("START", "END"))
            yield _Mention(name, label, group, start, last, "".join(head.itertext()))


def _need(element: Element, key: str) -> str:
    value, name = element.get(key), element.get("ID")
    if not value:
        found = f"<{element.tag}> without {key}"
        raise BadRecord(found, f"an attribute {key} that is not empty", f"{element.tag} {name}" if name else None)
    return value


def _offset(element: Element, key: str, field: str) -> int:
    value = element.get(key)
    if value is None or not re.fullmatch(r"[0-9]{1,9}", value):
        raise BadRecord(f"{key}={show(value)}" if value else f"no {key}", "a number of characters", field)
    return int(value)


def _heads(
    mentions: Sequence[_Mention], text: str, pieces: Sequence[Piece], where: str, problems: Problems
) -> list[Span] | None:
    """The head of each mention, under the reading of offsets that agrees with the texts the mentions bring along.

    None where no reading agrees with all; what the best one leaves over becomes problems.
    """
    best: list[Span | None] = []
    wrong = list(range(len(mentions) + 1))
    for reading in READINGS:
        ruler = Ruler(pieces, reading)
        spans = [ruler.span(mention.start, mention.last) for mention in mentions]
        differing = [
            number
            for number, (mention, span) in enumerate(zip(mentions, spans, strict=True))
            if span is None or _bare(span.of(text)) != _bare(mention.text)
        ]
        if len(differing) < len(wrong):
            best, wrong = spans, differing
        if not wrong:
            return [span for span in best if span]
    for number in wrong:
        mention, span = mentions[number], best[number]
        place = f"characters {mention.start} to {mention.last}"
        found = f"{place} in a text of {len(text)}" if span is None else f"{show(span.of(text))} at {place}"
        problems.add(Problem(where, found, f"the head {show(mention.text)}", field=f"mention {mention.id}"))
    return None


def _bare(text: str) -> str:
    """A text as it is compared: the two files may differ in white space and in what they write as a reference."""
    return "".join(html.unescape(text).split())


def _relations(
    content: Element, mentions: Mapping[str, Entity], where: str, problems: Problems
) -> Iterator[tuple[str, str, str, str | None]]:
    """The relations as the IDs of Arg-1 and Arg-2, type, and an ID of their own."""
    for relation in content.iter("relation"):
        label = _need(relation, "TYPE")
        found = list(relation.iter("relation_mention"))
        if label in LEFT_OUT:
            problems.remark(f"{label} relations left out, as is usual", where, max(len(found), 1))
            continue
        for mention in found:
            name = mention.get("ID")
            field = f"relation mention {name}"
            ends: dict[str, str] = {}
            for argument in mention:
                if argument.tag not in ("relation_mention_argument", "rel_mention_arg"):
                    continue
                role = _ROLES.get(argument.get("ROLE") or argument.get("ARGNUM") or "")
                if role is None:
                    problems.remark("arguments of relations left out that are neither Arg-1 nor Arg-2", where)
                    continue
                target = argument.get("REFID") or argument.get("ENTITYMENTIONID") or ""
                if target not in mentions:
                    raise BadRecord(f"the argument {show(target)}", "the ID of an entity mention of this file", field)
                if role in ends:
                    raise BadRecord(f"two arguments {role}", "one Arg-1 and one Arg-2", field)
                ends[role] = target
            if len(ends) < 2:
                raise BadRecord("too few arguments", "one Arg-1 and one Arg-2", field)
            yield ends["Arg-1"], ends["Arg-2"], label, name


def write(path: Path, documents: Iterable[Document]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for document in documents:
        try:
            _write_pair(path, document)
        except UnicodeEncodeError as error:
            raise FormatError(f"document {document.id!r} is not valid Unicode: {error}") from None


def _write_pair(path: Path, document: Document) -> None:
    name = quote(document.id, safe="")
    if not 0 < len(name) <= _LONGEST_NAME:
        raise FormatError(f"document {show(document.id)}: the id is empty, or too long to name a file; give it another")
    file = path / f"{name}{_ANNOTATION}"
    if file.exists():
        raise FormatError(f"document {document.id!r}: the id was used before; give it another")
    start, end = _body(document)
    text = document.text
    before, body, after = map(escape_markup, (text[:start], text[start:end], text[end:]))
    sgml = f"<DOC>{before}<BODY>{body}</BODY>{after}</DOC>"
    (path / f"{name}{_TEXT}").write_text(sgml, encoding="utf-8", newline="")
    lines = _annotation_lines(document, f"{name}{_TEXT}")
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")


def _body(document: Document) -> tuple[int, int]:
    size = len(document.text)
    match document.metadata.get("body"):
        case [int(start), int(end)] if 0 <= start <= end <= size:
            return start, end
    return 0, size


def _annotation_lines(document: Document, source: str) -> Iterator[str]:
    offsets = escaped_offsets(document.text)

    def attribute(value: str) -> str:
        if not value:
            raise FormatError(f"document {document.id!r}: an entity or relation with an empty id or label; give it one")
        return f'"{legal(value).translate(_IN_ATTRIBUTE)}"'

    def legal(value: str) -> str:
        if found := _NOT_XML.search(value):
            character = f"U+{ord(found[0]):04X}"
            raise FormatError(f"document {document.id!r}: XML cannot hold {character}, found in {value!r}; remove it")
        return value

    def characters(entity: Entity) -> str:
        start, end = offsets[entity.span.start], offsets[entity.span.end]
        text = legal(entity.span.of(document.text)).translate(_IN_TEXT)
        return f'<charseq START="{start}" END="{end - 1}">{text}</charseq>'

    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<!DOCTYPE source_file SYSTEM "apf.v5.1.1.dtd">'
    yield f'<source_file URI="{source}" SOURCE="unknown" TYPE="text" AUTHOR="relatum" ENCODING="UTF-8">'
    yield f"<document DOCID={attribute(document.id)}>"
    names = Names(document.annotation.entities, f"{document.id}-M")
    owners: dict[str, str] = {}
    for number, (label, cluster, mentions) in enumerate(_ace_entities(document, names.all), 1):
        owner = attribute(f"{document.id}-E{number}")
        mark = f' CLUSTER="{cluster}"' if cluster else ""
        yield f"<entity ID={owner} TYPE={attribute(label)}{mark}>"
        for name, entity in mentions.items():
            owners[name] = owner
            yield f"  <entity_mention ID={attribute(name)}>"
            yield f"    <extent>{characters(entity)}</extent>"
            yield f"    <head>{characters(entity)}</head>"
            yield "  </entity_mention>"
        yield "</entity>"
    for number, relation in enumerate(document.annotation.relations, 1):
        if relation.label in LEFT_OUT:
            why = f"relations {relation.label} are left out when ACE is read"
            raise FormatError(f"document {document.id!r}: {why}; rename the type, or write another format")
        name = f"{document.id}-R{number}"
        ends = (("Arg-1", relation.head), ("Arg-2", relation.tail))
        yield f"<relation ID={attribute(name)} TYPE={attribute(relation.label)}>"
        for role, entity in ends:
            yield f'  <relation_argument REFID={owners[names.of(entity)]} ROLE="{role}"/>'
        yield f"  <relation_mention ID={attribute(relation.id or f'{name}-1')}>"
        for role, entity in ends:
            yield f'    <relation_mention_argument REFID={attribute(names.of(entity))} ROLE="{role}">'
            yield f"      <extent>{characters(entity)}</extent>"
            yield "    </relation_mention_argument>"
        yield "  </relation_mention>"
        yield "</relation>"
    yield "</document>"
    yield "</source_file>"


def _ace_entities(document: Document, names: Sequence[str]) -> Iterator[tuple[str, str, dict[str, Entity]]]:
    """ACE entities as type, `CLUSTER` where it is needed, and mentions by ID: clusters first, then what is in none."""
    named = dict(zip(names, document.annotation.entities, strict=True))
    at: dict[Span, list[str]] = {}
    for name, entity in named.items():
        if entity.fragments:
            text = entity.span.of(document.text)
            raise FormatError(
                f"document {document.id!r}: ACE has no discontinuous entities such as {text!r}; leave it out"
            )
        at.setdefault(entity.span, []).append(name)
    written: set[str] = set()
    for number, cluster in enumerate(document.clusters, 1):
        spans = dict.fromkeys(cluster)
        for span in spans:
            if span not in at:
                raise FormatError(
                    f"document {document.id!r}: cluster {number} has {span.of(document.text)!r}, which is no entity; "
                    "ACE clusters are made of entities, so make it one or take it out"
                )
        labels = [{named[name].label for name in at[span]} for span in spans]
        shared = min(set.intersection(*labels), default=None) if labels else None
        parts: dict[str, dict[str, Entity]] = {}
        for span in spans:
            name = next((name for name in at[span] if named[name].label == shared), at[span][0])
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


FORMAT = Format(
    name="ace",
    title="ACE",
    suffix="",
    holds=Holds(words=False, text=True, clusters=True),
    recognise=recognise,
    read=read,
    write=write,
)
