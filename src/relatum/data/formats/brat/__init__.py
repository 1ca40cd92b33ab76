"""brat standoff: a folder of `.txt` files, each with its annotation in an `.ann` file beside it.

Where there is no `.ann` file, the annotation is read from `.a1`, `.a2` and `.rel`, as BioNLP's shared tasks have it.

A document's id is its path in the folder, without the suffix. What a file name cannot hold (and `%`) is written as
`%XX`, and read back; so is a name that differs from another only in case.

brat keeps each piece of a mention on one line of the text, so a mention that runs over a line break stands in the file
as pieces around the break. Such pieces are read as one mention again; a mention that truly has two pieces with only a
line break and white space between them cannot be told from it.

An event becomes its trigger, which is an entity, and a relation from the trigger to each argument, with the role as its
label and without the number that brat puts behind a role that comes twice. An event that is an argument, or has a
relation, an attribute, an equivalence or a note, stands there as its trigger. `brat-no-events` keeps events, and what
hangs on them, as lines.

Lines of other kinds (normalizations, notes) are kept as they are in the metadata, under `brat`; ids stay as they are,
so that such lines still find what they are about. All other metadata goes to a third file, `.metadata.json`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from relatum.data.formats.base import Format, Holds
from relatum.data.formats.brat.reading import read, recognise
from relatum.data.formats.brat.writing import annotation_conf, check, write

FORMAT = Format(
    name="brat",
    title="brat standoff folder",
    suffix="",
    holds=Holds(ids=True, words=False, text=True, discontinuous=True, clusters=True, attributes=True, metadata=True),
    recognise=recognise,
    read=partial(read, with_events=True),
    write=partial(write, with_events=True),
    companion=annotation_conf,
    check=partial(check, with_events=True),
)

WITHOUT_EVENTS = replace(
    FORMAT,
    name="brat-no-events",
    title="brat standoff folder without events",
    recognise=lambda _: False,  # a folder is never taken for this one unless it is named
    read=partial(read, with_events=False),
    write=partial(write, with_events=False),
    check=partial(check, with_events=False),
)
