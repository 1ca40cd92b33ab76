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

from relatum.data.formats.base import Format, Holds
from relatum.data.formats.brat.reading import read, recognise
from relatum.data.formats.brat.writing import annotation_conf, check, write

FORMAT = Format(
    name="brat",
    title="brat standoff folder",
    suffix="",
    holds=Holds(ids=True, words=False, text=True, discontinuous=True, clusters=True, attributes=True, metadata=True),
    recognise=recognise,
    read=read,
    write=write,
    companion=annotation_conf,
    check=check,
)
