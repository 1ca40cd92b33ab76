"""Annotations come back identical after a journey through every format that can hold them."""

from __future__ import annotations

from pathlib import Path

import pytest

from relatum.data.conversion import convert_corpus
from relatum.data.corpus import open_corpus
from relatum.data.documents import to_examples
from relatum.data.fitting import Policy, split
from relatum.data.formats import FORMATS, get_format
from relatum.data.problems import Problems
from relatum.data.splitting import Splitter, make_splitter
from relatum.types import Annotation, Document, Span

BY_SPACES = make_splitter("whitespace", "lines")
BY_RULES = make_splitter("rules", "rules")

SENTENCES = (
    "jsonl",
    "spert",
    "scierc",
    "brat",
    "label-studio",
    "doccano",
    "webanno",
    "gliner",
    "docbin",
    "ace",
    "corp",
    "table-sequence",
    "jsonl",
)
CLUSTERS = ("jsonl", "brat", "brat-no-events", "docbin", "ace", "docred", "scierc")
DOCUMENTS = (*CLUSTERS, "label-studio", "doccano", "prodigy", "webanno", "jsonl")
TEXTS = (
    "gliner2",
    "triples",
    "uima",
    "bioc",
    "bioc-json",
    "brat",
    "label-studio",
    "doccano",
    "prodigy",
    "docbin",
    "ace",
    "jsonl",
)

LOSSY = {"pubtator"}
"""Formats that cannot hold every text: PubTator's has a single line break."""


def journey(start: Path, names: tuple[str, ...], folder: Path, splitter: Splitter) -> dict[str, list[Document]]:
    """The corpus after a conversion into each format in turn, read back by part; no bad record is allowed."""
    return read(stations(start, names, folder, splitter)[-1])


def stations(start: Path, names: tuple[str, ...], folder: Path, splitter: Splitter) -> list[Path]:
    """Convert the corpus into each format in turn; the file or folder of each."""
    places = [start]
    for number, name in enumerate(names):
        format = get_format(name)
        there = folder / f"{number}-{name}{format.suffix if start.is_file() else ''}"
        corpus = open_corpus(places[-1], names[number - 1] if number else None)
        assert convert_corpus(corpus, there, format, splitter, Policy()).problems.count == 0
        places.append(there)
    return places[1:]


def read(path: Path) -> dict[str, list[Document]]:
    problems = Problems()
    found = {part.name: list(part.read(problems)) for part in open_corpus(path).parts}
    assert problems.count == 0
    return found


def sentences(parts: dict[str, list[Document]]) -> dict[str, list[tuple[tuple[str, ...], Annotation]]]:
    """Words and annotation of every sentence: what a model would see. Folders keep no order, so ids give it."""
    return {
        name: [
            (example.sentence.words, in_order(example.gold))
            for document in sorted(documents, key=lambda document: document.id)
            for example in to_examples(split(document, BY_SPACES))
        ]
        for name, documents in parts.items()
    }


def texts(parts: dict[str, list[Document]]) -> dict[str, list[tuple[str, str, Annotation]]]:
    return {
        name: sorted(((d.id, d.text, in_order(d.annotation)) for d in documents), key=lambda text: text[0])
        for name, documents in parts.items()
    }


def in_order(annotation: Annotation) -> Annotation:
    """The same annotation in the order of the text, which is all that some formats keep."""
    return Annotation(
        tuple(sorted(annotation.entities, key=lambda e: (e.span, e.label))),
        tuple(sorted(annotation.relations, key=lambda r: (r.head.span, r.tail.span, r.label))),
    )


def test_chains_together_pass_through_every_format() -> None:
    assert {*SENTENCES, *DOCUMENTS, *TEXTS} == FORMATS.keys() - LOSSY
    assert set(CLUSTERS) == {name for name, format in FORMATS.items() if format.holds.clusters}


@pytest.mark.parametrize("name", ["news", "drugs"])
def test_raw_text_survives_every_text_format(examples_folder: Path, tmp_path: Path, name: str) -> None:
    before = read(examples_folder / name)
    after = journey(examples_folder / name, TEXTS, tmp_path, BY_RULES)
    assert texts(after) == texts(before)


@pytest.mark.parametrize("name", ["news", "drugs"])
def test_sentences_survive_every_format(examples_folder: Path, tmp_path: Path, name: str) -> None:
    split_once = tmp_path / "split"
    convert_corpus(open_corpus(examples_folder / name), split_once, get_format("spert"), BY_RULES, Policy())
    before = sentences(read(split_once))
    assert sum(len(part) for part in before.values()) > 60
    assert sentences(journey(split_once, SENTENCES, tmp_path, BY_SPACES)) == before


@pytest.mark.slow
def test_conll04_survives_every_format(shared_data: Path, tmp_path: Path) -> None:
    before = sentences(read(shared_data / "conll04"))
    assert sum(len(part) for part in before.values()) == 1441
    assert sentences(journey(shared_data / "conll04", SENTENCES, tmp_path, BY_SPACES)) == before


@pytest.mark.slow
def test_ade_survives_every_format(shared_data: Path, tmp_path: Path) -> None:
    """Every fourth sentence; all of them go through each of the slower formats, ACE and corp, in the tests of these."""
    (documents,) = read(shared_data / "ade").values()
    assert len(documents) == 4152
    get_format("jsonl").write(tmp_path / "some.jsonl", documents[::4])
    before = sentences(read(tmp_path / "some.jsonl"))
    after = journey(tmp_path / "some.jsonl", SENTENCES, tmp_path, BY_SPACES)
    assert list(sentences(after).values()) == list(before.values())


@pytest.mark.slow
def test_scierc_survives_every_format_for_documents(shared_data: Path, tmp_path: Path) -> None:
    """With its clusters, as far as formats hold them."""

    def clusters(parts: dict[str, list[Document]]) -> dict[str, set[frozenset[Span]]]:
        every = [document for documents in parts.values() for document in documents]
        return {document.id: set(map(frozenset, document.clusters)) for document in every}

    before = read(shared_data / "scierc")
    assert sum(map(len, sentences(before).values())) == 2687
    assert sum(map(len, clusters(before).values())) == 1015
    places = stations(shared_data / "scierc", DOCUMENTS, tmp_path, BY_SPACES)
    assert clusters(read(places[len(CLUSTERS) - 1])) == clusters(before)
    assert sentences(read(places[-1])) == sentences(before)
