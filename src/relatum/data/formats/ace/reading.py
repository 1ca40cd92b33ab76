"""Reading a folder of ACE: choosing its files, and making a document of each pair of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from relatum.data.formats.ace import ANNOTATION, TEXT
from relatum.data.formats.ace.annotations import read_annotation
from relatum.data.formats.ace.markup import find_body, strip_markup
from relatum.data.formats.base import natural_order
from relatum.data.formats.xml_files import parse_xml
from relatum.data.json_files import read_bytes, read_text
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, show
from relatum.errors import Problem
from relatum.types import Document

PASSES = ("timex2norm", "adj", "fp1", "fp2")
"""The folders of ACE 2005, several of which may hold the same document, in order of preference."""


def read_folder(path: Path, problems: Problems) -> Iterator[Document]:
    """Yield the documents of a folder, or of a single annotation file."""
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
    """Return the annotation file of each document, from the best of its passes."""
    if path.is_file():
        return [path]
    passes: dict[tuple[Path, str], list[Path]] = {}
    for file in sorted(path.rglob(f"*{ANNOTATION}"), key=_place):
        folder = file.parent.parent if file.parent.name in PASSES else file.parent
        passes.setdefault((folder, file.name), []).append(file)
    chosen = []
    for files in passes.values():
        best, *others = sorted(files, key=_rank)
        chosen.append(best)
        if others:
            problems.remark(f"annotations left out in favour of {best.parent.name}", str(others[0]), len(others))
    if not chosen:
        problems.add(Problem(str(path), f"no {ANNOTATION} file", "a folder of the LDC's ACE 2004 or 2005"))
    for file in sorted(path.rglob(f"*{TEXT}"), key=_place):
        if not _beside(file, TEXT, ANNOTATION).exists():
            problems.remark(f"texts left out that have no {ANNOTATION} file beside them", str(file))
    return chosen


def _place(file: Path) -> list[object]:
    """Return a sort key: the folders, and then the name of the document."""
    return [natural_order(part) for part in (*file.parent.parts, file.name.removesuffix(ANNOTATION).removesuffix(TEXT))]


def _rank(file: Path) -> int:
    return PASSES.index(file.parent.name) if file.parent.name in PASSES else len(PASSES)


def _beside(file: Path, suffix: str, other: str) -> Path:
    return file.with_name(file.name.removesuffix(suffix) + other)


def _read_pair(file: Path, problems: Problems) -> Document | None:
    """Read the document of an annotation file and the text beside it; None if this added problems."""
    source = _beside(file, ANNOTATION, TEXT)
    if not source.is_file():
        raise BadRecord(f"no {source.name} beside it", f"an {ANNOTATION} file and its {TEXT} file")
    data = read_bytes(file, problems)
    sgml = read_text(source, problems)
    if data is None or sgml is None:
        return None
    root = parse_xml(data)
    content = root if root.tag == "document" else root.find("document")
    if content is None:
        raise BadRecord(f"the element <{root.tag}>", "<source_file> with a <document> in it")
    pieces = strip_markup(sgml)
    text = "".join(piece.text for piece in pieces)
    contents = read_annotation(content, text, pieces, str(file), problems)
    if contents is None:
        return None
    annotation, clusters = contents
    for kind in ("value", "timex2", "event"):
        problems.remark(f"ACE {kind} mentions left out", str(file), sum(1 for _ in content.iter(f"{kind}_mention")))
    body = find_body(pieces)
    return Document(
        content.get("DOCID") or os.fsencode(file.name).decode(errors="replace").removesuffix(ANNOTATION),
        text,
        annotation,
        clusters=clusters,
        metadata={} if body in (None, (0, len(text))) else {"body": list(body)},
    )
