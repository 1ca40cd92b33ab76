"""BioC, as XML (`bioc`) and as JSON (`bioc-json`): documents of passages, with annotations and relations.

Both formats read either form. Passages stand at their offsets, which count characters, with line breaks between them.
An annotation with several locations is a discontinuous entity; its label is the infon `type`, and other infons are
attributes. A relation has two nodes, head and tail. Without nodes it connects concepts, as in BC5CDR and BioRED: then
two of its infons, or `entity1` and `entity2`, have values that infons of annotations have too, and it is read by the
rule in `concepts.py`.

What infons cannot hold, values other than text or several of one name, stands as JSON in the infon `relatum`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from relatum.data.formats.base import Format, Holds
from relatum.data.json_files import first_record
from relatum.data.problems import Problems
from relatum.types import Document


def recognise_xml(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError:
        return False
    return start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") and b"<collection" in start


def recognise_json(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(4096)
    if b'"bioctype"' in start or (b'"documents"' in start and b'"infons"' in start):
        return start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    record = first_record(path)
    return isinstance(record, dict) and isinstance(record.get("passages"), list)


# Few people need BioC: what reads and writes it is imported when it is called.


def read(path: Path, problems: Problems) -> Iterator[Document]:
    from relatum.data.formats.bioc.reading import read_file

    return read_file(path, problems)


def write_xml(path: Path, documents: Iterable[Document]) -> None:
    from relatum.data.formats.bioc.writing import write_xml_file

    write_xml_file(path, documents)


def write_json(path: Path, documents: Iterable[Document]) -> None:
    from relatum.data.formats.bioc.writing import write_json_file

    write_json_file(path, documents)


def check_xml(document: Document) -> None:
    from relatum.data.formats.bioc.writing import check_xml_document

    check_xml_document(document)


FORMAT = Format(
    name="bioc",
    title="BioC XML",
    suffix=".xml",
    holds=Holds(ids=True, words=False, text=True, discontinuous=True, attributes=True, metadata=True),
    recognise=recognise_xml,
    read=read,
    write=write_xml,
    check=check_xml,
)

JSON = replace(
    FORMAT,
    name="bioc-json",
    title="BioC JSON",
    suffix=".json",
    recognise=recognise_json,
    write=write_json,
    check=None,
    record_keys=("id", "infons", "passages", "annotations", "relations"),
)
