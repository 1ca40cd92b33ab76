"""Reading brat folders."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from relatum.data.formats.base import natural_order
from relatum.data.formats.file_names import id_of, is_unicode
from relatum.data.json_files import parse_json, read_text
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, Field, check_plain, shorten, show
from relatum.errors import Problem
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

_LOOKED_AT = 10_000
"""The most files of a folder that are looked at to find one that ends in .ann or .a1."""

_PARTS = (".a1", ".a2", ".rel")
"""Files that hold the annotation together where there is no .ann file, as in the shared tasks of BioNLP."""

_ID = re.compile(r"[TRAME][0-9]+\S*")
_NUMBER = re.compile(r"(?<=.)[0-9]+\Z")
"""The number that brat puts behind a role when an event has several arguments in it: Theme2."""
_ABOUT = re.compile(r"(?P<kind>\S+\t\S+ +)(?P<target>\S+)")
"""The start of a note or reference, as far as the id of what it is about."""
_NUMBERS = "-?[0-9]{1,15} -?[0-9]{1,15}"
_MENTION = re.compile(rf"(\S+) ({_NUMBERS}(?:;{_NUMBERS})*) *")
_BLANKS = str.maketrans(dict.fromkeys("\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029", " "))


def recognise(path: Path) -> bool:
    try:
        return path.is_dir() and any(file.endswith((".ann", ".a1")) for file in islice(_files(path), _LOOKED_AT))
    except OSError:
        return False


def _files(folder: Path) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        for name in names:
            yield (Path(parent) / name).relative_to(folder).as_posix()


def read(path: Path, problems: Problems, *, with_events: bool) -> Iterator[Document]:
    """Read a folder, with events as relations, or with events and what hangs on them as lines in the metadata."""
    if not path.is_dir():
        found = "a file" if path.exists() else "nothing"
        problems.add(Problem(str(path), found, "a folder of .txt files, each with an .ann file beside it"))
        return
    seen: dict[str, str] = {}
    files = set(_files(path))
    names = {file.rpartition(".")[0] for file in files if file.endswith((".txt", ".ann", ".a1"))}
    for name in sorted(names, key=natural_order):
        document = _read_document(path, name, files, problems, with_events)
        if document is None:
            continue
        first = seen.setdefault(document.id, name)
        if first == name:
            yield document
        else:
            found = f"the id {show(document.id)} again (first of {first}.txt)"
            problems.add(Problem(f"{path / name}.txt", found, "ids that differ"))


def _read_document(
    folder: Path, name: str, files: Collection[str], problems: Problems, with_events: bool
) -> Document | None:
    in_parts = f"{name}.a1" in files and f"{name}.ann" not in files
    suffixes = [suffix for suffix in _PARTS if f"{name}{suffix}" in files] if in_parts else [".ann"]
    annotations = [folder / f"{name}{suffix}" for suffix in suffixes]
    txt = folder / f"{name}.txt"
    ann = annotations[0]
    extra = folder / f"{name}.metadata.json"
    if not is_unicode(name) or name.endswith("/") or not name:
        path = os.fsencode(txt).decode(errors="replace")
        problems.add(Problem(path, "a file name that cannot be an id", "a name in UTF-8 before the suffix"))
        return None
    try:
        if not txt.is_file():
            problems.add(Problem(str(ann), "no text file beside it", f"its text in {txt.name}"))
            return None
        annotated = ann.is_file()
        text = read_text(txt, problems)
        contents = [read_text(path, problems) for path in annotations] if annotated else [""]
        metadata = _read_metadata(extra, problems) if f"{name}.metadata.json" in files else {}
        has_mark = txt.read_bytes().startswith(codecs.BOM_UTF8)
    except OSError as error:
        problems.add(Problem(str(error.filename or txt), error.strerror or str(error), "a file that can be read"))
        return None
    if text is None or None in contents or metadata is None:
        return None
    lines = [content.split("\n") for content in contents if content is not None]
    brat = _read_annotation(text, has_mark, list(chain.from_iterable(lines)), with_events)
    if brat.bad:
        problems.add(*_bad_lines(brat.bad, annotations, lines))
        return None
    if not annotated:
        problems.remark("text without an .ann file, read as a document without annotation", str(txt))
    if f"{name}.a1" in files and not in_parts:
        problems.remark("annotation in .a1 that is not read, since there is an .ann file", str(ann))
    for remark, times in brat.remarks().items():
        problems.remark(remark, str(ann), times)
    return brat.document(id_of(name), metadata)


def _bad_lines(
    bad: Mapping[int, BadRecord], paths: Sequence[Path], lines: Sequence[Sequence[str]]
) -> Iterator[Problem]:
    """Yield a problem for each bad line; `bad` counts the lines of all files from 1, a problem those of its file."""
    origins = []
    for path, file_lines in zip(paths, lines, strict=True):
        origins += [(str(path), line) for line, _ in enumerate(file_lines, 1)]
    for number, record in sorted(bad.items()):
        path_name, line = origins[number - 1]
        yield Problem(path_name, record.found, record.expected, line, field=record.field)


def _read_metadata(path: Path, problems: Problems) -> dict[str, Any] | None:
    text = read_text(path, problems)
    if text is None:
        return None
    try:
        field = Field.root(parse_json(text))
        check_plain(field)
        return field.mapping()
    except BadRecord as bad:
        problems.add(Problem(str(path), bad.found, bad.expected, field=bad.field))
        return None


def _read_annotation(text: str, has_mark: bool, lines: Sequence[str], with_events: bool) -> _BratDocument:
    """Read the annotation, counting offsets so that the mentions' texts fit; if no count fits, the plain one is used.

    Tools that read text with universal newlines count CRLF as one character, and brat counts a byte-order mark.
    """
    numbered = [(number, line.removesuffix("\r")) for number, line in enumerate(lines, 1) if line.strip()]
    order = {"T": 0, "E": 1, "R": 2}  # mentions, events and relations before what hangs on them

    def rank(item: tuple[int, str]) -> int:
        _, line = item
        return 3 if is_kept(line, with_events) else order.get(line[0], 3)

    numbered.sort(key=rank)
    texts = [text, text.replace("\r\n", "\n")] if "\r\n" in text else [text]
    tried = []
    for shift in (0, 1) if has_mark else (0,):
        for counted in texts:
            brat = _BratDocument(counted, shift, with_events, is_changed=counted is not text)
            for number, line in numbered:
                brat.add(number, line)
            brat.add_arguments()
            if brat.fits:
                return brat
            tried.append(brat)
    return tried[0]


@dataclass(frozen=True, slots=True)
class _Event:
    """An event: its line, its trigger, and the role and id of each argument."""

    line: int
    trigger: Entity
    arguments: tuple[tuple[str, str], ...]


class _BratDocument:
    """The annotation read from the lines of an .ann file, and the problems found in them."""

    def __init__(self, text: str, shift: int, with_events: bool, is_changed: bool) -> None:
        self.text = text
        self.shift = shift
        self.with_events = with_events
        self.is_changed = is_changed
        self.entities: dict[str, Entity] = {}
        self.events: dict[str, _Event] = {}
        self.arguments: dict[Relation, None] = {}
        self.relations: dict[str, Relation] = {}
        self.attributes: dict[str, Attribute] = {}
        self.clusters: list[tuple[Span, ...]] = []
        self.kept: list[str] = []
        self.n_shared = self.n_rearranged = self.n_other_roles = self.n_rests = self.n_other_types = 0
        self.fits = True
        self.bad: dict[int, BadRecord] = {}

    def document(self, id: str, metadata: dict[str, Any]) -> Document:
        return Document(
            id,
            self.text,
            Annotation(tuple(self.entities.values()), (*self.relations.values(), *self.arguments)),
            clusters=tuple(self.clusters),
            attributes=tuple(self.attributes.values()),
            metadata=metadata | ({"brat": self.kept} if self.kept else {}),
        )

    def remarks(self) -> dict[str, int]:
        triggers = [event.trigger.id for event in self.events.values()]
        n_arguments = sum(len(event.arguments) for event in self.events.values())
        return {
            "event read as its trigger (--from brat-no-events keeps events as lines instead)": len(self.events),
            "argument of an event read as a relation from the trigger": len(self.arguments),
            "argument that stands twice at one trigger, read once": n_arguments - len(self.arguments),
            "event with the trigger of another one: which arguments go together is lost": len(triggers)
            - len(set(triggers)),
            "event of another type than its trigger, which is the one that was read": self.n_other_types,
            "text whose offsets count CRLF as one character: its line ends were read as LF": int(self.is_changed),
            "text whose offsets count the byte-order mark as a character": self.shift,
            "mention whose pieces were joined over a line break or put in order": self.n_rearranged,
            "relation with roles other than Arg1 and Arg2: the first was read as the head": self.n_other_roles,
            "mention in an equivalence whose span another has too: only the span is kept": self.n_shared,
            "text behind a relation, attribute or equivalence left out": self.n_rests,
            "line that is no entity, relation, attribute or equivalence, kept as it is": len(self.kept),
        }

    def add(self, number: int, line: str) -> None:
        """Add a line; a bad one is noted."""
        if is_kept(line, self.with_events):
            self.kept.append(self._without_event(line))
            return
        id, tab, data = line.partition("\t")
        try:
            if not tab:
                raise BadRecord(show(line), "an id, a tab and an annotation")
            self._check_id(id)
            self._add_annotation(number, id, data)
        except BadRecord as bad:
            self.bad[number] = bad
            self._add_stand_in(number, id)

    def _check_id(self, id: str) -> None:
        if id != "*" and not _ID.fullmatch(id):
            raise BadRecord(show(id), "an id such as T1, R1 or A1")
        if any(id in known for known in (self.entities, self.events, self.relations, self.attributes)):
            raise BadRecord(f"the id {id} again", "ids that differ", id)

    def _add_annotation(self, number: int, id: str, data: str) -> None:
        if id.startswith("T"):
            self._add_entity(id, data)
            return
        data, _, rest = data.partition("\t")
        self.n_rests += bool(rest.strip())
        if id == "*":
            self._add_equivalence(data)
        elif id.startswith("R"):
            self._add_relation(id, data)
        elif id.startswith("E"):
            self._add_event(number, id, data)
        else:
            self._add_attribute(id, data)

    def _add_stand_in(self, number: int, id: str) -> None:
        """Add something in place of a bad annotation, so that annotations that refer to it are not called bad too."""
        stand_in = Entity(Span(0, 1), "?")
        if id.startswith("T"):
            self.fits = False
            self.entities.setdefault(id, stand_in)
        elif id.startswith("E"):
            self.events.setdefault(id, _Event(number, stand_in, ()))
        elif id.startswith("R"):
            self.relations.setdefault(id, Relation(stand_in, stand_in, "?"))

    def _add_entity(self, id: str, data: str) -> None:
        type_and_offsets, tab, reference = data.partition("\t")
        match = _MENTION.fullmatch(type_and_offsets)
        if not tab or match is None:
            raise BadRecord(show(data), "TYPE START END, a tab, and the text; pieces as START END;START END", id)
        spans = [self._span(numbers, id) for numbers in match[2].split(";")]
        texts = [span.of(self.text) for span in spans]
        # Before brat 1.3 the texts of the pieces stood without a space between them.
        expected_texts = (" ".join(texts).translate(_BLANKS), "".join(texts).translate(_BLANKS))
        if reference.translate(_BLANKS) not in expected_texts:
            where = ", ".join(f"[{span.start}, {span.end})" for span in spans)
            expected = f"{shorten(' '.join(texts))}, the characters {where} of the .txt"
            raise BadRecord(f"the text {shorten(reference)}", expected, id)
        ordered = sorted(spans)
        if any(a.end > b.start for a, b in pairwise(ordered)):
            raise BadRecord(show(match[2]), "pieces that do not overlap", id)
        pieces = _joined(ordered, self.text)
        self.n_rearranged += pieces != spans
        fragments = tuple(pieces) if len(pieces) > 1 else ()
        span = Span(pieces[0].start, pieces[-1].end)
        self.entities[id] = Entity(span, match[1], fragments, id=id)

    def _span(self, numbers: str, id: str) -> Span:
        start, end = map(int, numbers.split(" "))
        low, high = self.shift, self.shift + len(self.text)
        if not low <= start < end <= high:
            raise BadRecord(f"the characters [{start}, {end})", f"{low} <= start < end <= {high}", id)
        return Span(start - self.shift, end - self.shift)

    def _add_relation(self, id: str, data: str) -> None:
        label, *arguments = data.split() or [""]
        ends = dict(map(_role_and_target, arguments))
        if len(arguments) != 2 or len(ends) != 2 or not all(ends) or not all(ends.values()):
            raise BadRecord(show(data), "TYPE Arg1:ID Arg2:ID, or two other roles", id)
        roles = sorted(ends) if ends.keys() == {"Arg1", "Arg2"} else [*ends]
        self.n_other_roles += roles != ["Arg1", "Arg2"]
        head, tail = (self._mention(ends[role], id) for role in roles)
        self.relations[id] = Relation(head, tail, label, id=id)

    def _add_event(self, number: int, id: str, data: str) -> None:
        """Remember an event; its arguments may be events that come later."""
        pairs = list(map(_role_and_target, data.split()))
        if not pairs or not all(role and target for role, target in pairs):
            raise BadRecord(show(data), "TYPE:TRIGGER and ROLE:ID for each argument", id)
        (label, trigger), *arguments = pairs
        if trigger not in self.entities:
            raise BadRecord(
                f"the trigger {trigger}, which is not in this file", "the id of its trigger (T1, T2, …)", id
            )
        self.events[id] = _Event(number, self.entities[trigger], tuple(arguments))
        self.n_other_types += self.entities[trigger].label != label

    def add_arguments(self) -> None:
        """Make relations of the arguments of all events."""
        for id, event in self.events.items():
            try:
                for role, target in event.arguments:
                    relation = Relation(event.trigger, self._mention(target, id), _NUMBER.sub("", role))
                    self.arguments[relation] = None
            except BadRecord as bad:
                self.bad[event.line] = bad

    def _without_event(self, line: str) -> str:
        """Make a note or a reference that is about an event be about its trigger."""
        match = _ABOUT.match(line)
        if match is None or match["target"] not in self.events:
            return line
        event = self.events[match["target"]]
        return f"{match['kind']}{event.trigger.id}{line[match.end() :]}"

    def _mention(self, target: str, id: str | None) -> Entity:
        if target in self.events:
            return self.events[target].trigger
        if target not in self.entities:
            known = "entity or event (T1, E1, …)" if self.with_events else "entity (T1, T2, …)"
            raise BadRecord(f"{target}, which is not in this file", f"the id of an {known} of this file", id)
        return self.entities[target]

    def _add_attribute(self, id: str, data: str) -> None:
        name, *rest = data.split(" ", 2)
        if not name or not rest:
            raise BadRecord(show(data), "NAME ID or NAME ID VALUE", id)
        about, *values = rest
        event = self.events.get(about)
        target = event.trigger if event else self.entities.get(about) or self.relations.get(about)
        if target is None:
            raise BadRecord(f"{about}, which is not in this file", "the id of an entity, relation or event", id)
        value = values[0] if values and values[0].strip() else None
        self.attributes[id] = Attribute(target, name, value, id)

    def _add_equivalence(self, data: str) -> None:
        members = data.split()[1:]
        if not members:
            raise BadRecord(show(data), "Equiv and the ids of the mentions that are equivalent")
        mentions = [self._mention(member, None) for member in members]
        spans = [entity.span for entity in self.entities.values()]
        self.n_shared += sum(spans.count(mention.span) > 1 for mention in mentions)
        self.clusters.append(tuple(mention.span for mention in mentions))


def is_kept(line: str, with_events: bool) -> bool:
    """True for a line that is carried along as it is: a note, or one of an unknown kind.

    Unless events are read, so are events and what hangs on them.
    """
    id, tab, data = line.partition("\t")
    words = data.partition("\t")[0].split()
    if id == "*":
        if words[:1] != ["Equiv"]:
            return True
        return not with_events and any(member.startswith("E") for member in words[1:])
    if id.startswith(("A", "M")):
        return not with_events and len(words) > 1 and words[1].startswith("E")
    if id.startswith("R"):
        return not with_events and any(argument.partition(":")[2].startswith("E") for argument in words[1:])
    if with_events and id.startswith("E"):
        return False
    if id.startswith("#"):
        return True
    return bool(tab) and id.split() == [id] and not id.startswith(("T", "R", "\ufeff"))


def _role_and_target(argument: str) -> tuple[str, str]:
    """Split `ROLE:ID`; without a colon the target is empty."""
    role, _, target = argument.partition(":")
    return role, target


def _joined(spans: Sequence[Span], text: str) -> list[Span]:
    """Join pieces of a mention that touch or have only a line break and white space between them."""
    joined = [spans[0]]
    for span in spans[1:]:
        last = joined[-1]
        between = text[last.end : span.start]
        if not between or (between.isspace() and has_break(between)):
            joined[-1] = Span(last.start, span.end)
        else:
            joined.append(span)
    return joined


def has_break(text: str) -> bool:
    return "\n" in text or "\r" in text
