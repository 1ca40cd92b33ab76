"""Formats give back everything that they claim to hold, of any document."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from relatum.data.fitting import Policy, fit
from relatum.data.formats import FORMATS, Format, get_format
from relatum.data.problems import Problems
from relatum.data.records import BadRecord
from relatum.data.splitting import make_splitter
from relatum.types import Annotation, Document, Entity, Relation

Documents = Callable[..., SearchStrategy[Document]]
SPLITTER = make_splitter("whitespace", "lines")
NAMES = ["gliner2", "gliner", "triples", "uima", "pubtator", "docred", "prodigy", "webanno", "bioc", "bioc-json"]


def held(document: Document, format: Format) -> Document:
    """The document with only the things that the format holds, in the order of the text."""
    holds = format.holds
    metadata = {key: value for key, value in document.metadata.items() if holds.metadata or key in holds.metadata_keys}
    keeps_words = holds.words or holds.word_offsets
    return replace(
        document,
        annotation=Annotation(
            tuple(sorted(set(document.annotation.entities), key=repr)),
            tuple(sorted(set(document.annotation.relations), key=repr)),
        ),
        words=document.words or None if keeps_words else None,
        sentences=document.sentences or None if keeps_words else None,
        clusters=tuple(sorted(tuple(sorted(set(cluster))) for cluster in document.clusters)),
        attributes=tuple(
            sorted((a for a in document.attributes if holds.attributes or a.name in holds.attribute_names), key=repr)
        ),
        metadata={key: value for key, value in metadata.items() if key not in format.keys},
    )


def bare(document: Document) -> Document:
    """The document without scores and ids, which equality leaves out but `repr` shows."""
    entities = {entity: replace(entity, score=None, id=None) for entity in document.annotation.entities}
    relations = {
        relation: replace(relation, head=entities[relation.head], tail=entities[relation.tail], score=None, id=None)
        for relation in document.annotation.relations
    }
    targets: dict[Entity | Relation, Entity | Relation] = dict(chain(entities.items(), relations.items()))
    attributes = tuple(replace(a, target=targets[a.target], id=None) for a in document.attributes)
    annotation = Annotation(tuple(entities.values()), tuple(relations.values()))
    return replace(document, annotation=annotation, attributes=attributes)


def through(format: Format, *documents: Document) -> list[Document]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / f"data{format.suffix}"
        format.write(path, documents)
        assert not documents or format.recognise(path)
        problems = Problems()
        found = list(format.read(path, problems))
        problems.raise_if_any()
        return found


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(data=st.data())
def test_document_that_fits_reads_back_equal(
    name: str, data: st.DataObject, text_documents: Documents, word_documents: Documents
) -> None:
    format = get_format(name)
    documents = word_documents(clusters=True, max_sentences=3 if format.holds.documents else 1)
    if format.holds.text:
        documents |= text_documents(worded=True) | text_documents()
    drawn = bare(data.draw(documents))
    try:
        fitted = fit(drawn, format, SPLITTER, Policy("drop", crossing="drop"), lambda *_: None)
    except BadRecord:
        assume(False)
    (found,) = through(format, fitted)
    assert held(bare(found), format) == held(fitted, format)


def test_every_format_here_is_one_that_there_is() -> None:
    assert FORMATS.keys() >= set(NAMES)
