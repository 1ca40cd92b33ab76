from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relatum.data.corpus import open_corpus
from relatum.data.documents import from_words
from relatum.data.formats import get_format
from relatum.data.formats.gliner import FORMAT, TEXTS
from relatum.data.problems import Problems
from relatum.types import Annotation, Document, Entity, Relation, Span

ReadAs = Callable[[str, str | bytes], tuple[list[Document], Problems]]

RECORD: dict[str, Any] = {
    "tokenized_text": ["Mara", "Ilves", "runs", "Tarn"],
    "ner": [[0, 1, "person"], [3, 3, "company"]],
    "relations": [[0, 1, "runs"]],
}
PERSON, COMPANY = Entity(Span(0, 2), "person"), Entity(Span(3, 4), "company")
DOCUMENT = from_words(
    "data-1",
    [RECORD["tokenized_text"]],
    Annotation((PERSON, COMPANY), (Relation(PERSON, COMPANY, "runs"),)),
    metadata={"negatives": ["city"]},
)


def test_gliner_reads_inclusive_ends_and_numbers_of_entities(read_as: ReadAs) -> None:
    documents, problems = read_as("gliner", json.dumps([{**RECORD, "negatives": ["city"]}]))
    assert documents == [DOCUMENT]
    assert not problems.remarks


def test_gliner_writes_what_it_reads(tmp_path: Path) -> None:
    FORMAT.write(tmp_path / "a.json", [DOCUMENT])
    assert json.loads((tmp_path / "a.json").read_text()) == [{"id": "data-1", **RECORD, "negatives": ["city"]}]
    assert open_corpus(tmp_path / "a.json").format_names == "gliner"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ner": [[0, 4, "x"]]}, "ner[0][1]: found 4; expected a number of at most 3"),
        ({"ner": [[2, 1, "x"]]}, "ner[0][0]: found 2; expected a number of at most 1"),
        ({"ner": [[0, 1]]}, "ner[0]: found [0, 1]; expected a list of 3"),
        ({"relations": [[0, 2, "x"]]}, "relations[0][1]: found 2; expected a number of at most 1"),
        ({"tokenized_text": []}, "expected a list of words that is not empty"),
    ],
)
def test_gliner_reports_what_is_wrong(read_as: ReadAs, changes: dict[str, Any], message: str) -> None:
    documents, problems = read_as("gliner", json.dumps([RECORD, {**RECORD, **changes}]))
    assert len(documents) == 1
    assert message in str(problems.kept[0])


TEXT = "Ann met Tarn. Tarn fired Ann and Ivo."
# As gliner2's InputExample.to_dict writes it.
EXAMPLE: dict[str, Any] = {
    "input": TEXT,
    "output": {
        "entities": {"person": ["Ivo", "Ann", "Ann"], "company": [{"text": "Tarn", "start": 14, "end": 18}]},
        "classifications": [{"task": "tone", "labels": ["good", "bad"], "true_label": ["bad"]}],
        "relations": [{"fired": {"head": "Tarn", "tail": "Ivo"}}, {"fired": {"head": "Tarn", "tail": "Ann"}}],
    },
}
IVO, TARN = Entity(Span(33, 36), "person"), Entity(Span(14, 18), "company")
ANNS = Entity(Span(0, 3), "person"), Entity(Span(25, 28), "person")


def test_gliner2_finds_names_that_are_clear_and_counts_the_others(read_as: ReadAs) -> None:
    (document,), problems = read_as("gliner2", json.dumps(EXAMPLE))
    assert document.annotation.entities == (IVO, *ANNS, TARN)
    assert document.annotation.relations == (Relation(TARN, IVO, "fired"),)
    assert document.metadata == {"gliner2": {"classifications": EXAMPLE["output"]["classifications"]}}
    assert dict(problems.remarks) == {
        "relation left out, as no entity, or more than one, has the name of its head or tail": 1
    }


def test_gliner2_counts_names_without_a_clear_place(read_as: ReadAs) -> None:
    entities = {"person": ["Ann"], "city": ["Rome"]}
    (document,), problems = read_as("gliner2", json.dumps({"input": TEXT, "output": {"entities": entities}}))
    assert not document.annotation.entities
    assert dict(problems.remarks) == {
        "name without offsets left out, as it has more places in the text than mentions": 1,
        "name without offsets left out, as it has too few places in the text": 1,
    }


def test_gliner2_is_written_with_offsets_and_reads_back(tmp_path: Path, read_as: ReadAs) -> None:
    (document,), _ = read_as("gliner2", json.dumps(EXAMPLE))
    path = tmp_path / "a.jsonl"
    TEXTS.write(path, [document])
    (record,) = map(json.loads, path.read_text().splitlines())
    names = {"head": {"text": "Tarn", "start": 14, "end": 18}, "tail": {"text": "Ivo", "start": 33, "end": 36}}
    assert record["output"]["relations"] == [{"fired": names}]
    assert record["output"]["classifications"] == EXAMPLE["output"]["classifications"]
    corpus = open_corpus(path)
    assert corpus.format_names == "gliner2"
    problems = Problems()
    assert list(corpus.parts[0].read(problems)) == [document]
    assert not problems.remarks


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ([], "output: found []; expected an object"),
        ({"entities": {"x": "Ann"}}, 'output.entities.x: found "Ann"; expected a list'),
        ({"entities": {"": ["Ann"]}}, "found an empty type"),
        (
            {"entities": {"x": [{"text": "Ann", "start": 1, "end": 4}]}},
            "found \"Ann\"; expected 'nn ', as the offsets say",
        ),
        ({"entities": {"x": [{"start": 1, "end": 99}]}}, "expected 0 <= start < end <= 37, in characters"),
        ({"relations": [{"r": {"head": "Ann"}}]}, "expected the key 'tail'"),
    ],
)
def test_gliner2_reports_what_is_wrong(read_as: ReadAs, output: object, message: str) -> None:
    documents, problems = read_as("gliner2", json.dumps({"input": TEXT, "output": output}))
    assert not documents
    assert message in str(problems.kept[0])


def test_gliner_formats_are_two() -> None:
    assert (get_format("gliner"), get_format("gliner2")) == (FORMAT, TEXTS)
