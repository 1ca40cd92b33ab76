"""The corpora in examples/ are what their README says they are."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from relatum.data.fitting import crossing_relations, overlapping
from relatum.data.formats.jsonl import FORMAT
from relatum.data.problems import Problems
from relatum.data.splitting import make_splitter
from relatum.schema import infer_schema
from relatum.types import Document

SPLITS = ("train", "dev", "test")
ENTITIES = {"news": {"Peop", "Org", "Loc", "Other"}, "drugs": {"Drug", "Adverse-Effect"}}
SIGNATURES = {
    "news": {
        "Work_For": ("Peop", "Org"),
        "Kill": ("Peop", "Peop"),
        "OrgBased_In": ("Org", "Loc"),
        "Live_In": ("Peop", "Loc"),
        "Located_In": ("Loc", "Loc"),
    },
    "drugs": {"Adverse-Effect": ("Adverse-Effect", "Drug")},
}
both = pytest.mark.parametrize("name", ["news", "drugs"])


def read(path: Path) -> list[Document]:
    """The documents, split into words and sentences; reading compares each entity's text with its offsets."""
    problems = Problems()
    documents = list(FORMAT.read(path, problems))
    problems.raise_if_any()
    assert not problems.remarks
    splitter = make_splitter()
    parts = [splitter.split(document.text) for document in documents]
    return [replace(d, words=words, sentences=s) for d, (words, s) in zip(documents, parts, strict=True)]


def sentence_texts(document: Document) -> list[str]:
    words = document.words or ()
    return [document.text[words[s.start].start : words[s.end - 1].end] for s in document.sentences or ()]


@both
@pytest.mark.parametrize("split", SPLITS)
def test_examples_have_every_label_in_every_split(examples_folder: Path, name: str, split: str) -> None:
    schema = infer_schema(document.annotation for document in read(examples_folder / name / f"{split}.jsonl"))
    assert set(schema.entity_types) == ENTITIES[name]
    found = {kind.name: (*kind.head_labels, *kind.tail_labels) for kind in schema.relation_types}
    assert found == SIGNATURES[name]


@both
@pytest.mark.parametrize("split", SPLITS)
def test_examples_mark_whole_words_in_single_sentences(examples_folder: Path, name: str, split: str) -> None:
    for document in read(examples_folder / name / f"{split}.jsonl"):
        assert document.id.startswith(f"{name}-{split}-")
        assert 1 <= len(document.sentences or ()) <= 4, document.id
        assert not crossing_relations(document), document.id
        assert not overlapping(document.annotation.entities), document.id
        starts = {word.start for word in document.words or ()}
        ends = {word.end for word in document.words or ()}
        for entity in document.annotation.entities:
            assert entity.span.start in starts, (document.id, entity)
            assert entity.span.end in ends, (document.id, entity)


@both
def test_examples_repeat_no_sentence(examples_folder: Path, name: str) -> None:
    documents = [d for split in SPLITS for d in read(examples_folder / name / f"{split}.jsonl")]
    sentences = [sentence.casefold() for document in documents for sentence in sentence_texts(document)]
    assert len(set(sentences)) == len(sentences)
    assert any(not d.annotation.entities for d in documents)
    assert any(d.annotation.entities and not d.annotation.relations for d in documents)


def test_examples_readme_counts_what_is_there(examples_folder: Path) -> None:
    readme = (examples_folder / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(.+?)` \| (.+) \|$", readme, re.MULTILINE))
    counted = {}
    for path in sorted(examples_folder.glob("*/*.jsonl")):
        documents = read(path)
        counts = (
            len(documents),
            sum(len(document.sentences or ()) for document in documents),
            sum(len(document.annotation.entities) for document in documents),
            sum(len(document.annotation.relations) for document in documents),
        )
        counted[path.relative_to(examples_folder).as_posix()] = " | ".join(map(str, counts))
    assert counted == rows
    assert len(counted) == 6
