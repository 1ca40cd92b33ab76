r"""WebAnno TSV 3, as INCEpTION exports it: a folder of `.tsv` files, each a document, or a single file.

Entities are the annotations of one span layer: the layer that relations refer to, or else named entities, or else the
first layer. Relations are those of all relation layers on it. The label is the feature `value` or `label`, or else the
layer's first feature; without a value it is the layer's name. Other layers and features are counted.

Offsets in the file count UTF-16 units. Numbers in brackets tell annotations of several words, or on one word, apart:
`PER[1]|ORG[2]`. A relation stands in the row where its tail begins and names the row of its head: `1-4[2_1]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from relatum.data.formats.base import Format, Holds
from relatum.data.formats.folders import check_name, read_folder, recognise_files, write_folder
from relatum.data.formats.webanno.reading import parse_file, parse_text
from relatum.data.formats.webanno.writing import file_content
from relatum.data.problems import Problems
from relatum.data.records import BadRecord
from relatum.types import Document

SUFFIX = ".tsv"


def recognise(path: Path) -> bool:
    return recognise_files(path, SUFFIX, b"#FORMAT=WebAnno TSV 3")


def read(path: Path, problems: Problems) -> Iterator[Document]:
    return read_folder(path, SUFFIX, parse_file, problems)


def write(path: Path, documents: Iterable[Document]) -> None:
    write_folder(path, SUFFIX, documents, file_content)


def check(document: Document) -> None:
    """Refuse a document that would be read back differently."""
    check_name(document, SUFFIX)
    again = parse_text(file_content(document), document.id, "", Problems())
    if (again.text, again.words, again.sentences) != (document.text, document.words, document.sentences):
        raise BadRecord("white space or other characters outside of words that WebAnno TSV cannot hold", "plain text")


FORMAT = Format(
    name="webanno",
    title="WebAnno TSV",
    suffix="",
    holds=Holds(words=True, text=True),
    recognise=recognise,
    read=read,
    write=write,
    check=check,
)
