"""UIMA CAS as XMI, as INCEpTION exports it: a folder of `.xmi` files, each a document, or a single file.

Relations are elements with `Governor` and `Dependent`, or `source` and `target`, that name annotations. Entities are
the annotations of the types that relations name, or else named entities, or else the annotations of the first type
that is not one of DKPro's. Labels are the features `value` or `label`; without one the label is the name of the type.
DKPro's tokens and sentences are words and sentences. Other annotations are counted.

Offsets in the file count UTF-16 units. `TypeSystem.xml` is written beside the data and not needed to read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from relatum.data.formats.base import Format, Holds
from relatum.data.formats.folders import read_folder, recognise_files, write_folder
from relatum.data.problems import Problems
from relatum.schema import Schema
from relatum.types import Document

SUFFIX = ".xmi"


def recognise(path: Path) -> bool:
    return recognise_files(path, SUFFIX, b"http://www.omg.org/XMI")


# Few people need XMI: what reads and writes it is imported when it is called.


def read(path: Path, problems: Problems) -> Iterator[Document]:
    from relatum.data.formats.uima.reading import parse_file

    return read_folder(path, SUFFIX, parse_file, problems)


def write(path: Path, documents: Iterable[Document]) -> None:
    from relatum.data.formats.uima.writing import file_content

    write_folder(path, SUFFIX, documents, file_content)


def check(document: Document) -> None:
    from relatum.data.formats.folders import check_name
    from relatum.data.formats.uima.writing import file_content

    check_name(document, SUFFIX)
    file_content(document)


def type_system(_schema: Schema) -> tuple[str, str]:
    """Return the description of the types that are written."""
    from relatum.data.formats.uima.writing import TYPE_SYSTEM

    return "TypeSystem.xml", TYPE_SYSTEM


FORMAT = Format(
    name="uima",
    title="UIMA CAS XMI",
    suffix="",
    holds=Holds(words=False, text=True, word_offsets=True),
    recognise=recognise,
    read=read,
    write=write,
    companion=type_system,
    check=check,
)
