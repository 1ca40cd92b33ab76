"""spaCy's DocBin, a `.spacy` file: entities as spaCy keeps them, relations as the custom attribute `doc._.relations`.

Words are the tokens that are not white space; the text survives to the last character. Entities are `doc.ents`, or the
span group `doc.spans["relatum"]` where some overlap. What spaCy has no place for lies in custom attributes of the
`Doc` (register them with `Doc.set_extension(name, default=None)` to see them), in plain values that count tokens:

- `relations`: a list of `{"label", "head", "tail"}`, with `"score"`, `"id"` and `"attributes"` where there are any;
  head and tail are `{"start", "end", "label"}`, with the entity's `"id"` and `"fragments"` where it has them, and with
  its `"characters"` `[start, end]` from a pipeline, which stay right when a component merges tokens
- `entity_details`: the entities in their order with scores, fragments and attributes, where spaCy cannot say all this
- `id`; `clusters`, as lists of `[start, end]`; `metadata_json`, as JSON text; and `word_tokens`, the numbers of the
  tokens that are words, where white space alone does not tell

Relations in the form of spaCy's relation extraction tutorial, `doc._.rel`, are read too. A DocBin cannot be written
piece by piece: all documents are collected before the file appears.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from relatum.data.formats.base import Format, Holds
from relatum.data.problems import Problems
from relatum.errors import MissingExtraError
from relatum.types import Document

GROUP = "relatum"
"""The span group of entities that overlap."""

CUSTOM = ("id", "relations", "entity_details", "clusters", "metadata_json", "word_tokens")
"""Our custom attributes."""


def user_key(name: str) -> tuple[str, str, None, None]:
    """Return the key under which spaCy keeps a custom attribute of a whole document."""
    return ("._.", name, None, None)


def recognise(path: Path) -> bool:
    try:
        if path.suffix != ".spacy" or not path.is_file():
            return False
        with path.open("rb") as file:
            start = zlib.decompressobj().decompress(file.read(1024), 64)
    except (OSError, zlib.error):
        return False
    return start[:1] >= b"\x80" and b"attrs" in start  # a msgpack map, with a key that stands near its front


# What reads and writes imports spaCy, which not everybody has, and which takes long.


def read(path: Path, problems: Problems) -> Iterator[Document]:
    _need_spacy()
    from relatum.data.formats.docbin.reading import read_file

    return read_file(path, problems)


def write(path: Path, documents: Iterable[Document]) -> None:
    _need_spacy()
    from relatum.data.formats.docbin.writing import write_file

    write_file(path, documents)


def _need_spacy() -> None:
    import importlib.util

    if importlib.util.find_spec("spacy") is None:
        raise MissingExtraError("the DocBin format", "spacy")


FORMAT = Format(
    name="docbin",
    title="spaCy DocBin",
    suffix=".spacy",
    holds=Holds(
        ids=True, words=True, text=True, discontinuous=True, clusters=True, attributes=True, scores=True, metadata=True
    ),
    recognise=recognise,
    read=read,
    write=write,
)
