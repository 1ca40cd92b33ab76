"""brat standoff: a folder of `.txt` files, each with its annotation in an `.ann` file beside it.

A document's id is its path in the folder, without the suffix. What a file name cannot hold (and `%`) is written as
`%XX`, and read back; so is a name that differs from another only in case.

brat keeps each piece of a mention on one line of the text, so a mention that runs over a line break stands in the file
as pieces around the break. Such pieces are read as one mention again; a mention that truly has two pieces with only a
line break and white space between them cannot be told from it.

Lines other than entities, relations, attributes of these and equivalences of entities (events, normalizations, notes)
are kept as they are in the metadata, under `brat`; ids stay as they are, so that such lines still find what they are
about. All other metadata goes to a third file, `.metadata.json`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from relatum.data.formats.base import Format, Holds
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, parse_json, read_text, show
from relatum.errors import FormatError, Problem
from relatum.schema import Schema
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

_SUFFIXES = (".txt", ".ann", ".metadata.json")
_LOOKED_AT = 10_000
"""How many files of a folder are looked at to find one that ends in .ann."""

_ID = re.compile(r"[TRAM][0-9]+\S*")
_NUMBERS = "-?[0-9]{1,15} -?[0-9]{1,15}"
_MENTION = re.compile(rf"(\S+) ({_NUMBERS}(?:;{_NUMBERS})*) *")
_BLANKS = str.maketrans(dict.fromkeys("\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029", " "))

_UNSAFE = r'[\x00-\x1f\x7f%<>:"/\\|?*]|\A\.|[. ]\Z'
_UNSAFE_FILE = re.compile(_UNSAFE)
# A folder must not have the name that some document's file has.
_UNSAFE_FOLDER = re.compile(_UNSAFE + r"|\.(?=(?:txt|ann|json)\Z)", re.IGNORECASE)


def recognise(path: Path) -> bool:
    try:
        return path.is_dir() and any(file.endswith(".ann") for file in islice(_files(path), _LOOKED_AT))
    except OSError:
        return False


def _files(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield (Path(place) / name).relative_to(folder).as_posix()


def read(path: Path, problems: Problems) -> Iterator[Document]:
    if not path.is_dir():
        found = "a file" if path.exists() else "nothing"
        problems.add(Problem(str(path), found, "a folder of .txt files, each with an .ann file beside it"))
        return
    seen: dict[str, str] = {}
    for name in sorted({file[:-4] for file in _files(path) if file.endswith((".txt", ".ann"))}):
        document = _read_document(path, name, problems)
        if document is None:
            continue
        first = seen.setdefault(document.id, name)
        if first == name:
            yield document
        else:
            found = f"the id {show(document.id)} again (first of {first}.txt)"
            problems.add(Problem(f"{path / name}.txt", found, "ids that differ"))


def _read_document(folder: Path, name: str, problems: Problems) -> Document | None:
    txt, ann, extra = (folder / f"{name}{suffix}" for suffix in _SUFFIXES)
    if not _is_unicode(name) or name.endswith("/") or not name:
        path = os.fsencode(txt).decode(errors="replace")
        problems.add(Problem(path, "a file name that cannot be an id", "a name in UTF-8 before the suffix"))
        return None
    try:
        if not txt.is_file():
            problems.add(Problem(str(ann), "no text file beside it", f"its text in {txt.name}"))
            return None
        annotated = ann.is_file()
        text, lines = read_text(txt, problems), read_text(ann, problems) if annotated else ""
        metadata = _read_metadata(extra, problems) if extra.is_file() else {}
        with txt.open("rb") as file:
            has_mark = file.read(3) == b"\xef\xbb\xbf"
    except OSError as error:
        problems.add(Problem(str(error.filename or txt), error.strerror or str(error), "a file that can be read"))
        return None
    if text is None or lines is None or metadata is None:
        return None
    reading = _best_reading(text, has_mark, lines)
    for number, bad in sorted(reading.bad.items()):
        problems.add(Problem(str(ann), bad.found, bad.expected, number, field=bad.field))
    if reading.bad:
        return None
    if not annotated:
        problems.remark("text without an .ann file, read as a document without annotation", str(txt))
    for remark, times in reading.remarks().items():
        problems.remark(remark, str(ann), times)
    return reading.document(_id_of(name), metadata)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_metadata(path: Path, problems: Problems) -> dict[str, Any] | None:
    text = read_text(path, problems)
    if text is None:
        return None
    try:
        value = parse_json(text)
        if not isinstance(value, dict) or not _is_unicode(json.dumps(value, ensure_ascii=False)):
            raise BadRecord(show(value), "a JSON object of valid Unicode text")
    except RecursionError:
        problems.add(Problem(str(path), "values nested too deeply", "a JSON object of ordinary depth"))
        return None
    except BadRecord as bad:
        problems.add(Problem(str(path), bad.found, bad.expected))
        return None
    return value


def _best_reading(text: str, has_mark: bool, lines: str) -> _Reading:
    """The annotation with its offsets counted so that the mentions' texts fit; the plain count where none does so.

    Tools that read text with universal newlines count CRLF as one character, and brat counts a byte-order mark.
    """
    numbered = [(number, line.removesuffix("\r")) for number, line in enumerate(lines.split("\n"), 1)]
    order = {"T": 0, "R": 1}  # mentions and relations before what hangs on them
    numbered = sorted((n for n in numbered if n[1].strip()), key=lambda n: order.get(n[1][0], 2))
    texts = [text, text.replace("\r\n", "\n")] if "\r\n" in text else [text]
    tried = []
    for shift in (0, 1) if has_mark else (0,):
        for counted in texts:
            reading = _Reading(counted, shift, is_changed=counted is not text)
            for number, line in numbered:
                reading.add(number, line)
            if reading.fits:
                return reading
            tried.append(reading)
    return tried[0]


class _Reading:
    """What the lines of an .ann file say about a text, and what is wrong with them."""

    def __init__(self, text: str, shift: int, is_changed: bool) -> None:
        self.text, self.shift, self.is_changed = text, shift, is_changed
        self.entities: dict[str, Entity] = {}
        self.relations: dict[str, Relation] = {}
        self.attributes: dict[str, Attribute] = {}
        self.clusters: list[tuple[Span, ...]] = []
        self.kept: list[str] = []
        self.n_rearranged = self.n_other_roles = 0
        self.fits = True
        self.bad: dict[int, BadRecord] = {}

    def document(self, id: str, metadata: dict[str, Any]) -> Document:
        return Document(
            id,
            self.text,
            Annotation(tuple(self.entities.values()), tuple(self.relations.values())),
            clusters=tuple(self.clusters),
            attributes=tuple(self.attributes.values()),
            metadata=metadata | ({"brat": self.kept} if self.kept else {}),
        )

    def remarks(self) -> dict[str, int]:
        return {
            "text whose offsets count CRLF as one character: its line ends were read as LF": int(self.is_changed),
            "text whose offsets count the byte-order mark as a character": self.shift,
            "mention whose pieces were joined over a line break or put in order": self.n_rearranged,
            "relation with roles other than Arg1 and Arg2: the first was read as the head": self.n_other_roles,
            "line that is no entity, relation, attribute or equivalence, kept as it is": len(self.kept),
        }

    def add(self, number: int, line: str) -> None:
        id, tab, data = line.partition("\t")
        try:
            if _is_kept(line):
                self.kept.append(line)
            elif not tab:
                raise BadRecord(show(line), "an id, a tab and an annotation")
            elif id == "*":
                self._add_equivalence(data)
            elif not _ID.fullmatch(id):
                raise BadRecord(show(id), "an id such as T1, R1 or A1")
            elif id in self.entities or id in self.relations or id in self.attributes:
                raise BadRecord(f"the id {id} again", "ids that differ", id)
            else:
                adders: dict[str, Callable[[str, str], None]] = {"T": self._add_entity, "R": self._add_relation}
                adders.get(id[0], self._add_attribute)(id, data)
        except BadRecord as bad:
            self.bad[number] = bad
            # What hangs on a bad line is not bad for that: a stand-in spares the user errors that only follow.
            stand_in = Entity(Span(0, 1), "?")
            if id.startswith("T"):
                self.fits = False
                self.entities.setdefault(id, stand_in)
            elif id.startswith("R"):
                self.relations.setdefault(id, Relation(stand_in, stand_in, "?"))

    def _add_entity(self, id: str, data: str) -> None:
        place, tab, reference = data.partition("\t")
        match = _MENTION.fullmatch(place)
        if not tab or match is None:
            raise BadRecord(show(data), "TYPE START END, a tab, and the text; pieces as START END;START END", id)
        spans = [self._span(numbers, id) for numbers in match[2].split(";")]
        texts = [span.of(self.text) for span in spans]
        # Before brat 1.3 the texts of the pieces stood without a space between them.
        if reference.translate(_BLANKS) not in {glue.join(texts).translate(_BLANKS) for glue in (" ", "")}:
            where = ", ".join(f"[{span.start}, {span.end})" for span in spans)
            raise BadRecord(
                f"the text {_quoted(reference)}", f"{_quoted(' '.join(texts))}, the characters {where} of the .txt", id
            )
        ordered = sorted(spans)
        if any(a.end > b.start for a, b in pairwise(ordered)):
            raise BadRecord(show(match[2]), "pieces that do not overlap", id)
        pieces = _joined(ordered, self.text)
        self.n_rearranged += pieces != spans
        fragments = tuple(pieces) if len(pieces) > 1 else ()
        self.entities[id] = Entity(Span(pieces[0].start, pieces[-1].end), match[1], fragments, id=id)

    def _span(self, numbers: str, id: str) -> Span:
        start, end = map(int, numbers.split(" "))
        low, high = self.shift, self.shift + len(self.text)
        if not low <= start < end <= high:
            raise BadRecord(f"the characters [{start}, {end})", f"{low} <= start < end <= {high}", id)
        return Span(start - self.shift, end - self.shift)

    def _add_relation(self, id: str, data: str) -> None:
        label, *arguments = data.partition("\t")[0].split() or [""]
        ends = {role: target for role, _, target in (argument.partition(":") for argument in arguments)}
        if len(arguments) != 2 or len(ends) != 2 or not all(ends) or not all(ends.values()):
            raise BadRecord(show(data), "TYPE Arg1:ID Arg2:ID, or two other roles", id)
        roles = sorted(ends) if ends.keys() == {"Arg1", "Arg2"} else [*ends]
        self.n_other_roles += roles != ["Arg1", "Arg2"]
        head, tail = (self._mention(ends[role], id) for role in roles)
        self.relations[id] = Relation(head, tail, label, id=id)

    def _mention(self, target: str, id: str | None) -> Entity:
        if target not in self.entities:
            found = f"{target}, an event" if target.startswith("E") else f"{target}, which is not in this file"
            raise BadRecord(found, "the id of a text-bound annotation (T1, T2, …) of this file", id)
        return self.entities[target]

    def _add_attribute(self, id: str, data: str) -> None:
        name, *rest = data.partition("\t")[0].split(" ", 2)
        if not name or not rest:
            raise BadRecord(show(data), "NAME ID or NAME ID VALUE", id)
        target = self.entities.get(rest[0]) or self.relations.get(rest[0])
        if target is None:
            raise BadRecord(f"{rest[0]}, which is not in this file", "the id of an entity, relation or event", id)
        self.attributes[id] = Attribute(target, name, rest[1] if rest[1:] and rest[1].strip() else None)

    def _add_equivalence(self, data: str) -> None:
        members = data.partition("\t")[0].split()[1:]
        if not members:
            raise BadRecord(show(data), "Equiv and the ids of the mentions that are equivalent")
        self.clusters.append(tuple(self._mention(member, None).span for member in members))


def _is_kept(line: str) -> bool:
    """Whether a line is carried along as it is: a note, an event, what hangs on an event, or of a kind unknown here."""
    id, tab, data = line.partition("\t")
    words = data.partition("\t")[0].split()
    if id == "*":
        return words[:1] != ["Equiv"] or any(member.startswith("E") for member in words[1:])
    if id.startswith(("A", "M")):
        return len(words) > 1 and words[1].startswith("E")
    return id.startswith("#") or (bool(tab) and id.split() == [id] and not id.startswith(("T", "R", "\ufeff")))


def _joined(spans: Sequence[Span], text: str) -> list[Span]:
    """The pieces of a mention, made one where they touch or have only a line break and white space between them."""
    joined = [spans[0]]
    for span in spans[1:]:
        last = joined[-1]
        between = text[last.end : span.start]
        if not between or (between.isspace() and _has_break(between)):
            joined[-1] = Span(last.start, span.end)
        else:
            joined.append(span)
    return joined


def _has_break(text: str) -> bool:
    return "\n" in text or "\r" in text


def _quoted(text: str) -> str:
    quoted = repr(text)
    return quoted if len(quoted) <= 80 else quoted[:77] + "…"


def write(path: Path, documents: Iterable[Document]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    names = _FileNames()
    for document in documents:
        place = path / names.of(document.id)
        # A mark of its own keeps the reader from taking the text's first character for one.
        text = "\ufeff" + document.text if document.text.startswith("\ufeff") else document.text
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            for suffix, content in zip(_SUFFIXES, (text, *_contents(document)), strict=True):
                if content is not None:
                    place.with_name(place.name + suffix).write_bytes(content.encode())
        except UnicodeEncodeError as error:
            raise FormatError(f"document {document.id!r} has text that is not valid Unicode: {error}") from None
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise FormatError(f"the document id {show(document.id)} is too long for a file name; shorten it") from None


def _contents(document: Document) -> tuple[str, str | None]:
    """The .ann file and, where there is more metadata than it holds, the .metadata.json file."""
    text, annotation, metadata = document.text, document.annotation, dict(document.metadata)
    kept = _take_kept_lines(metadata)
    taken = {word for line in kept for word in re.split(r"[\s:]+", line)}
    mentions, links = _Ids(annotation.entities, "T", taken), _Ids(annotation.relations, "R", taken)
    lines = []
    for entity, id in zip(annotation.entities, mentions.all, strict=True):
        _check_name(entity.label, "entity type", document)
        pieces = [part for piece in entity.pieces() for part in _unbroken(piece, text)]
        spans = ";".join(f"{piece.start} {piece.end}" for piece in pieces)
        reference = re.sub(r"[\r\n]", " ", " ".join(piece.of(text) for piece in pieces))
        lines.append(f"{id}\t{entity.label} {spans}\t{reference}")
    for relation, id in zip(annotation.relations, links.all, strict=True):
        _check_name(relation.label, "relation type", document)
        lines.append(f"{id}\t{relation.label} Arg1:{mentions.of(relation.head)} Arg2:{mentions.of(relation.tail)}")
    free = (id for id in (f"A{number}" for number in count(1)) if id not in taken)
    for attribute in document.attributes:
        target = (mentions if isinstance(attribute.target, Entity) else links).of(attribute.target)
        lines.append(f"{next(free)}\t{attribute.name} {target}{_attribute_value(attribute, document)}")
    by_span: dict[Span, str] = {}
    for entity, id in zip(annotation.entities, mentions.all, strict=True):
        by_span.setdefault(entity.span, id)
    lines += [
        "*\tEquiv " + " ".join(_cluster_ids(cluster, by_span, document)) for cluster in document.clusters if cluster
    ]
    return "".join(f"{line}\n" for line in [*lines, *kept]), json.dumps(metadata) + "\n" if metadata else None


def _take_kept_lines(metadata: dict[str, Any]) -> list[str]:
    """The lines under `brat`, taken out of the metadata; none where these are not lines that a reader would keep."""
    lines = metadata.get("brat")
    if (
        not isinstance(lines, list)
        or not lines
        or not all(isinstance(line, str) and _is_kept(line) and not _has_break(line) for line in lines)
    ):
        return []
    del metadata["brat"]
    return lines


class _Ids:
    """The brat id of every entity or relation: its own where brat can have it, else a new one."""

    def __init__(self, items: Sequence[Entity] | Sequence[Relation], letter: str, taken: set[str]) -> None:
        self.all: list[str] = []
        self._by_object: dict[int, str] = {}
        self._by_id: dict[str, Entity | Relation] = {}
        self._by_value: dict[Entity | Relation, str] = {}
        fit = re.compile(rf"{letter}[0-9]+\S*")
        used = taken | {item.id for item in items if item.id is not None}
        free = (name for name in (f"{letter}{number}" for number in count(1)) if name not in used)
        for item in items:
            name = item.id
            if name is None or name in self._by_id or not fit.fullmatch(name):
                name = next(free)
            self.all.append(name)
            self._by_object[id(item)] = name
            self._by_id[name] = item
            self._by_value.setdefault(item, name)

    def of(self, item: Entity | Relation) -> str:
        """The id of the item itself, or of the one that has its id and its value, or of the first with its value."""
        if id(item) in self._by_object:
            return self._by_object[id(item)]
        if item.id is not None and self._by_id.get(item.id) == item:
            return item.id
        return self._by_value[item]


def _check_name(name: str, what: str, document: Document) -> None:
    if not re.fullmatch(r"\S+", name):
        raise FormatError(
            f"document {document.id!r}: brat cannot hold the {what} {name!r}, since its names are not empty and have "
            "no white space; rename it first"
        )


def _unbroken(piece: Span, text: str) -> list[Span]:
    """The parts of a piece on each line of the text; the piece itself where it begins or ends with a line break."""
    breaks = [m.span() for m in re.compile(r"\s+").finditer(text, piece.start, piece.end) if _has_break(m[0])]
    starts = [piece.start, *(end for _, end in breaks)]
    ends = [*(start for start, _ in breaks), piece.end]
    parts = list(zip(starts, ends, strict=True))
    return [Span(*part) for part in parts] if all(start < end for start, end in parts) else [piece]


def _attribute_value(attribute: Attribute, document: Document) -> str:
    _check_name(attribute.name, "attribute", document)
    if attribute.value is None:
        return ""
    if not attribute.value.strip() or _has_break(attribute.value) or "\t" in attribute.value:
        raise FormatError(
            f"document {document.id!r}: brat cannot hold the value {attribute.value!r} of the attribute "
            f"{attribute.name!r}, since values are not blank and have no tabs or line breaks; change it first"
        )
    return f" {attribute.value}"


def _cluster_ids(cluster: Sequence[Span], by_span: dict[Span, str], document: Document) -> Iterator[str]:
    for span in cluster:
        if span not in by_span:
            raise FormatError(
                f"document {document.id!r}: brat holds clusters of entities only, but one has "
                f"{_quoted(span.of(document.text))}, the characters [{span.start}, {span.end}); make it an entity first"
            )
        yield by_span[span]


class _FileNames:
    """Gives every document id a file name that all file systems can hold and that no other id has."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._meanings: dict[str, str] = {}

    def of(self, id: str) -> str:
        if not id or not _is_unicode(id):
            raise FormatError(f"the document id {show(id)} cannot be a file name; give the document another")
        if id in self._ids:
            raise FormatError(f"two documents have the id {show(id)}, but their files need names that differ")
        self._ids.add(id)
        place = meaning = ""
        *folders, last = re.split(r"(?<=[^/])/(?=[^/])", id)
        for folder in folders:
            meaning += f"{folder}/"
            place += f"{self._name(place, folder, meaning, is_folder=True)}/"
        return place + self._name(place, last, id, is_folder=False)

    def _name(self, place: str, segment: str, meaning: str, is_folder: bool) -> str:
        """The segment made safe; escaped in full where another one differs from it only in case."""
        for name in (_safe(segment, is_folder), _percent(segment)):
            key = unicodedata.normalize("NFC", place + name).casefold() + "/" * is_folder
            if self._meanings.setdefault(key, meaning) == meaning:
                return name
        raise AssertionError("two segments have the same full escape")


def _percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def _safe(segment: str, is_folder: bool) -> str:
    return (_UNSAFE_FOLDER if is_folder else _UNSAFE_FILE).sub(lambda match: _percent(match[0]), segment)


def _id_of(name: str) -> str:
    """The id that a file name stands for; only what `_FileNames` would write is taken for an escape."""
    *folders, last = name.split("/")
    return "/".join([*(_meaning(folder, is_folder=True) for folder in folders), _meaning(last, is_folder=False)])


def _meaning(name: str, is_folder: bool) -> str:
    try:
        meaning = unquote(name, errors="strict")
    except UnicodeDecodeError:
        return name
    return meaning if name in (_safe(meaning, is_folder), _percent(meaning)) else name


def annotation_conf(schema: Schema) -> tuple[str, str]:
    """brat's file of types, in which mentions may overlap."""
    relations = []
    for kind in schema.relation_types:
        heads, tails = ("|".join(labels) or "<ENTITY>" for labels in (kind.head_labels, kind.tail_labels))
        symmetric = ", <REL-TYPE>:symmetric" if kind.symmetric else ""
        relations.append(f"{kind.name}\tArg1:{heads}, Arg2:{tails}{symmetric}")
    if "Equiv" not in schema.relation_names:
        relations.append("Equiv\tArg1:<ENTITY>, Arg2:<ENTITY>, <REL-TYPE>:symmetric-transitive")
    relations.append("<OVERLAP>\tArg1:<ENTITY>, Arg2:<ENTITY>, <OVL-TYPE>:<ANY>")
    sections = (("entities", schema.entity_types), ("relations", relations), ("events", ()), ("attributes", ()))
    return "annotation.conf", "\n".join(f"[{name}]\n" + "".join(f"{line}\n" for line in s) for name, s in sections)


FORMAT = Format(
    name="brat",
    title="brat standoff folder",
    suffix="",
    holds=Holds(words=False, text=True, discontinuous=True, clusters=True, attributes=True, metadata=True),
    recognise=recognise,
    read=read,
    write=write,
    companion=annotation_conf,
)
