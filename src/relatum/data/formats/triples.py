"""Triples in a table: CSV or TSV with a header, one row for each relation, with the text that it is in.

Columns are found by their names, in any order: `document`, `text`, `head`, `head_type`, `relation`, `tail`,
`tail_type`, and the offsets `head_start`, `head_end`, `tail_start`, `tail_end`, which count characters. Only `text`,
`head`, `relation` and `tail` are needed. Consecutive rows with the same document and text are one document.

Without offsets a name must have a single place in its text, else its row is left out and counted. A row without a
relation and a tail is an entity alone, and one without a head is a document without annotation.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from relatum.data.formats.base import Format, Holds
from relatum.data.formats.locating import NamedMentions
from relatum.data.json_files import read_bytes
from relatum.data.problems import Problems
from relatum.data.records import Field, Record, read_records, shorten
from relatum.errors import Problem
from relatum.files import MAX_RECORD
from relatum.types import Annotation, Document, Entity, Relation, Span

_COLUMNS = (
    "document", "text",
    "head", "head_type", "head_start", "head_end",
    "relation",
    "tail", "tail_type", "tail_start", "tail_end",
)  # fmt: skip
_NEEDED = ("text", "head", "relation", "tail")
_ALIASES = {
    "document": ("document_id", "doc_id", "doc", "id"),
    "text": ("sentence", "context"),
    "head": ("subject", "subj", "head_entity", "entity1", "entity_1"),
    "tail": ("object", "obj", "tail_entity", "entity2", "entity_2"),
    "relation": ("predicate", "relation_type", "rel", "label"),
}
_WITHOUT_TYPE = "Entity"


def _aliases() -> dict[str, str]:
    """Return the column for each name that it may have."""
    names = {column: column for column in _COLUMNS}
    for column, others in _ALIASES.items():
        for other in others:
            names[other] = column
            for part in ("type", "start", "end") if column in ("head", "tail") else ():
                names[f"{other}_{part}"] = f"{column}_{part}"
    return names


_NAMES = _aliases()


def _header(cells: Sequence[str]) -> list[str]:
    """Return the column of each cell of the header; an empty text for one that is not known, or known already."""
    columns: list[str] = []
    for cell in cells:
        name = re.sub(r"[\s-]+", "_", cell.strip("\ufeff \t").lower())
        column = _NAMES.get(name, "")
        columns.append("" if column in columns else column)
    return columns


def _delimiter(line: str) -> str:
    return max("\t,;", key=line.count)


def recognise(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            line = file.readline(4096).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return False
    cells = line.strip("\r\n").replace('"', "").split(_delimiter(line))
    return set(_header(cells)).issuperset(_NEEDED)


def read(path: Path, problems: Problems) -> Iterator[Document]:
    return read_records(path, _documents(path, problems), _parse, problems)


def _documents(path: Path, problems: Problems) -> Iterator[Record]:
    """Yield for each document a list of its rows, which are objects by column."""
    names: Counter[str] = Counter()
    rows: list[dict[str, str]] = []
    first_line = number = 0
    for line, row in chain(_rows(path, problems), [(0, None)]):
        if rows and (row is None or any(row.get(key) != rows[0].get(key) for key in ("document", "text"))):
            number += 1
            name = rows[0].get("document", "")
            names[name] += 1
            if name and names[name] > 1:
                problems.remark("further text of a document, read as a document of its own", f"{path}:{first_line}")
                name = f"{name}-{names[name]}"
            yield Record({"document": name, "rows": rows}, first_line, number)
            rows = []
        if row is not None:
            first_line = first_line if rows else line
            rows.append(row)


def _rows(path: Path, problems: Problems) -> Iterator[tuple[int, dict[str, str]]]:
    with path.open("rb") as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            read_bytes(path, problems)
            return
    csv.field_size_limit(MAX_RECORD)
    line = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            delimiter = _delimiter(file.readline(4096))
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            names = next(reader, [])
            columns = _header(names)
            if missing := [column for column in _NEEDED if column not in columns]:
                expected = f"a header with the columns {', '.join(_NEEDED)}"
                problems.add(Problem(str(path), f"no column {', '.join(missing)}", expected, 1))
                return
            unread = [name for name, column in zip(names, columns, strict=True) if not column]
            problems.remark(
                f"columns that are not read, such as {shorten((unread or [''])[0])}", f"{path}:1", len(unread)
            )
            line = reader.line_num + 1
            for cells in reader:
                if len(cells) == len(columns):
                    yield line, {column: cell for column, cell in zip(columns, cells, strict=True) if column}
                elif cells:
                    problems.add(Problem(str(path), f"{len(cells)} cells", f"{len(columns)}, as in the header", line))
                line = reader.line_num + 1
    except UnicodeDecodeError as error:
        found = f"the byte 0x{error.object[error.start]:02X}, which is not UTF-8"
        problems.add(Problem(str(path), found, "a UTF-8 file; nothing after this place was read", line))
    except csv.Error as error:
        expected = "a table of CSV or TSV; nothing after this place was read"
        problems.add(Problem(str(path), f"an error in the table ({error})", expected, line))


def _parse(record: Field, default_id: str) -> Document:
    rows = record.need("rows").items()
    text = rows[0].need("text").text(empty=True)
    mentions = NamedMentions(record, text)
    relations = []
    for row in rows:
        head, tail = (_mention(row, role, mentions, text) for role in ("head", "tail"))
        label = row.need("relation").text(empty=True)
        if head and tail and label:
            relations.append(Relation(head, tail, label))
        elif label and row.mapping()["head"] and row.mapping()["tail"]:
            record.remark("row left out, as the place of its head or tail is not clear")
        elif label or row.mapping()["tail"]:
            raise row.bad("a head, a relation and a tail", "a row that lacks one of them")
    name = record.mapping()["document"] or default_id
    return Document(name, text, Annotation(tuple(mentions.all), tuple(relations)))


def _mention(row: Field, role: str, mentions: NamedMentions, text: str) -> Entity | None:
    cells: Mapping[str, str] = row.mapping()
    name, label = cells[role], cells.get(f"{role}_type") or ""
    start, end = cells.get(f"{role}_start") or "", cells.get(f"{role}_end") or ""
    if not name and not start:
        return None
    if not label:
        row.remark(f"entity without a type, read as {_WITHOUT_TYPE}")
        label = _WITHOUT_TYPE
    if not start and not end:
        found = mentions.find(name, label)
        return found[0] if found else None
    if not all(re.fullmatch("[0-9]{1,12}", offset) for offset in (start, end)):
        raise row.bad(f"whole numbers in {role}_start and {role}_end", f"{shorten(start)} and {shorten(end)}")
    span = row.need(role).span(int(start), int(end), len(text), "characters")
    if name.split() != span.of(text).split():
        raise row.need(role).bad(f"{shorten(span.of(text))}, as the offsets say")
    return mentions.add(span, label)


def write(path: Path, documents: Iterable[Document]) -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(_COLUMNS)
        for document in documents:
            writer.writerows(_document_rows(document))


def _document_rows(document: Document) -> Iterator[list[object]]:
    annotation = document.annotation
    nothing = [""] * 4
    begin = [document.id, document.text]
    related = {end for relation in annotation.relations for end in (relation.head, relation.tail)}
    for entity in annotation.entities:
        if entity not in related:
            yield [*begin, *_cells(entity, document.text), "", *nothing]
    for relation in annotation.relations:
        head, tail = (_cells(end, document.text) for end in (relation.head, relation.tail))
        yield [*begin, *head, relation.label, *tail]
    if not annotation.entities:
        yield [*begin, *nothing, "", *nothing]


def _cells(entity: Entity, text: str) -> list[object]:
    span: Span = entity.span
    return [span.of(text), entity.label, span.start, span.end]


FORMAT = Format(
    name="triples",
    title="CSV of triples",
    suffix=".csv",
    holds=Holds(words=False, text=True),
    recognise=recognise,
    read=read,
    write=write,
)
