"""ACE 2004 and 2005 as the LDC ships them: a folder of `.sgm` texts, each with its annotations in an `.apf.xml` file.

Entities are the heads of mentions with the coarse type of their ACE entity; the mentions of one ACE entity are a
cluster. Relations go from Arg-1 to Arg-2, also where the order means nothing, as in PER-SOC and in the Near kind of
PHYS. DISC (2004) and METONYMY (2005) are left out, as in the usual setting, and so are values, times and events. Of a
document that stands in several of the folders timex2norm, adj, fp1 and fp2, the first of these is read.

The text of a document is its `.sgm` file without the tags, header and all, so that the LDC's offsets hold, but for
references such as `&amp;`, which are resolved. Where the body lies is kept as `metadata["body"]`.

What is written is the form of 2005. A cluster that ACE has no words for, of a single mention or of several types, is
spread over entities with one value of `CLUSTER`, an attribute of our own; an empty one leaves no trace.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from relatum.data.formats.base import Format, Holds
from relatum.data.problems import Problems
from relatum.types import Document

ANNOTATION, TEXT = ".apf.xml", ".sgm"

LEFT_OUT = ("DISC", "METONYMY")
"""Relation types that are not read."""

_LOOKED_AT = 10_000
"""The most files and folders that are looked at to guess the format."""


def recognise(path: Path) -> bool:
    seen = 0
    for _, folders, files in os.walk(path):
        if any(name.endswith(ANNOTATION) for name in files):
            return True
        seen += len(folders) + len(files)
        if seen > _LOOKED_AT:
            break
    return False


# XML and SGML are needed by nobody who has other data: what reads and writes them is imported when it is called.


def read(path: Path, problems: Problems) -> Iterator[Document]:
    from relatum.data.formats.ace.reading import read_folder

    return read_folder(path, problems)


def write(path: Path, documents: Iterable[Document]) -> None:
    from relatum.data.formats.ace.writing import write_folder

    write_folder(path, documents)


def check(document: Document) -> None:
    from relatum.data.formats.ace.writing import check_document

    check_document(document)


FORMAT = Format(
    name="ace",
    title="ACE",
    suffix="",
    holds=Holds(ids=True, words=False, text=True, clusters=True, metadata_keys=("body",)),
    recognise=recognise,
    read=read,
    write=write,
    check=check,
)
