"""PubTator's text: for each article a title, an abstract, lines of mentions, and lines of relations between concepts.

    PMID|t|TITLE
    PMID|a|ABSTRACT
    PMID<tab>START<tab>END<tab>TEXT<tab>TYPE<tab>CONCEPT
    PMID<tab>TYPE<tab>CONCEPT<tab>CONCEPT

An empty line ends the article. Offsets count characters of the title, a line break, and the abstract. Files may be
compressed by gzip.

The concept of a mention is an attribute of the entity, `concept`, and the fifth column of a relation, as BioRED has it,
is the attribute `novelty`. A mention of several concepts has them joined by `|`, `,` or `;`; the one of them that a
relation names is the attribute `head_concept` or `tail_concept`. Relations between concepts are read as relations
between mentions by the rule in `concepts.py`.

When writing, a mention without a concept that takes part in a relation gets one of its own, `mention:1`, which is
not read as an attribute. A document is refused if its concepts would make other relations when they are read.
"""

from __future__ import annotations

from relatum.data.formats.base import Format, Holds
from relatum.data.formats.pubtator.reading import ATTRIBUTES, read, recognise
from relatum.data.formats.pubtator.writing import check, write

FORMAT = Format(
    name="pubtator",
    title="PubTator",
    suffix=".pubtator",
    holds=Holds(words=False, text=True, line_breaks=1, attribute_names=ATTRIBUTES),
    recognise=recognise,
    read=read,
    write=write,
    check=check,
)
