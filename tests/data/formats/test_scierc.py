from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from relatum.data.documents import from_words
from relatum.data.formats.scierc import write
from relatum.data.problems import Problems
from relatum.errors import Problem
from relatum.types import Annotation, Document, Entity, Relation, Span

Documents = Callable[..., SearchStrategy[Document]]
ReadAs = Callable[[str, str | bytes], tuple[list[Document], Problems]]
Through = Callable[[str, Iterable[Document]], list[Document]]

RECORD: dict[str, Any] = {
    "doc_key": "X1",
    "sentences": [["We", "use", "deep", "nets", "."], ["They", "work", "."]],
    "ner": [[[2, 3, "Method"]], [[5, 5, "Generic"]]],
    "relations": [[[2, 3, 5, 5, "SAME"]], []],
    "clusters": [[[2, 3], [5, 5]]],
}
NETS, THEY = Entity(Span(2, 4), "Method"), Entity(Span(5, 6), "Generic")
DOCUMENT = from_words(
    "X1",
    RECORD["sentences"],
    Annotation((NETS, THEY), (Relation(NETS, THEY, "SAME"),)),
    [[Span(2, 4), Span(5, 6)]],
)


def _problem(read_as: ReadAs, **changes: Any) -> Problem:
    """The one problem with a record that stands on the second line."""
    good = {"sentences": [["a"]]}
    bad = {key: value for key, value in {**RECORD, **changes}.items() if value is not ...}
    documents, problems = read_as("scierc", "\n".join(map(json.dumps, (good, bad, good))))
    assert [document.id for document in documents] == ["data-1", "data-3"], "the others are read all the same"
    (problem,) = problems.kept
    assert Path(problem.path).name == "data"
    assert (problem.line, problem.record) == (2, 2)
    return problem


def test_scierc_reads_inclusive_ends_in_words_of_the_document(read_as: ReadAs) -> None:
    documents, problems = read_as("scierc", "\ufeff" + json.dumps(RECORD) + "\r\n")
    assert problems.count == 0
    assert documents == [DOCUMENT]
    assert [entity.span.of(DOCUMENT.text) for entity in documents[0].annotation.entities] == ["deep nets", "They"]
    assert documents[0].sentences == (Span(0, 5), Span(5, 8))


def test_scierc_reads_a_document_that_has_nothing_but_sentences(read_as: ReadAs) -> None:
    documents, _ = read_as("scierc", '{"sentences": [["a"], ["b"]], "dataset": "x", "clusters": null}')
    assert documents == [from_words("data-1", [["a"], ["b"]], Annotation(), metadata={"dataset": "x"})]


@pytest.mark.parametrize(
    ("changes", "field", "found", "expected"),
    [
        ({"sentences": 5}, "sentences", "5", "a list"),
        ({"sentences": [["a"], "b"]}, "sentences[1]", '"b"', "a list"),
        ({"sentences": [["a"], [""]]}, "sentences[1][0]", '""', "a string that is not empty"),
        ({"ner": {}}, "ner", "{}", "a list"),
        ({"ner": [[]]}, "ner", "[[]]", "a list of 2"),
        ({"ner": [[], 5]}, "ner[1]", "5", "a list"),
        ({"ner": [[[0, 1]], []]}, "ner[0][0]", "[0, 1]", "a list of 3"),
        ({"ner": [[[0, 8, "X"]], []]}, "ner[0][0][1]", "8", "a number of at most 7"),
        ({"ner": [[[-1, 1, "X"]], []]}, "ner[0][0][0]", "-1", "a number of at least 0"),
        ({"ner": [[[2, 1, "X"]], []]}, "ner[0][0][0]", "2", "a number of at most 1"),
        ({"ner": [[[0, -1, "X"]], []]}, "ner[0][0][1]", "-1", "a number of at least 0"),
        ({"ner": [[[True, 1, "X"]], []]}, "ner[0][0][0]", "true", "a whole number"),
        ({"ner": [[[0, 1.0, "X"]], []]}, "ner[0][0][1]", "1.0", "a whole number"),
        ({"ner": [[[0, 1, None]], []]}, "ner[0][0][2]", "null", "a string"),
        ({"relations": [[]]}, "relations", "[[]]", "a list of 2"),
        ({"relations": [[[2, 3, 5, 5]], []]}, "relations[0][0]", "[2, 3, 5, 5]", "a list of 5"),
        (
            {"relations": [[[2, 3, 5, 6, "R"]], []]},
            "relations[0][0]",
            "[5, 7), which is none",
            "the span of an entity of this record",
        ),
        ({"clusters": [5]}, "clusters[0]", "5", "a list"),
        ({"clusters": [[[1]]]}, "clusters[0][0]", "[1]", "a list of 2"),
        ({"clusters": [[[0, 8]]]}, "clusters[0][0][1]", "8", "a number of at most 7"),
        ({"doc_key": []}, "doc_key", "[]", "a string"),
    ],
)
def test_scierc_names_the_place_and_the_fault_of_a_bad_record(
    read_as: ReadAs, changes: dict[str, Any], field: str | None, found: str, expected: str
) -> None:
    problem = _problem(read_as, **changes)
    assert (problem.field, problem.found, problem.expected) == (field, found, expected)


def test_scierc_names_a_key_that_is_missing(read_as: ReadAs) -> None:
    assert _problem(read_as, sentences=...).expected == "the key 'sentences'"


def test_scierc_says_so_where_there_are_no_words_to_annotate(read_as: ReadAs) -> None:
    problem = _problem(read_as, sentences=[[]], ner=[[[0, 0, "X"]]], relations=[[]], clusters=[])
    assert "-1" not in problem.expected


def test_scierc_says_so_where_a_relation_does_not_tell_which_entity_it_means(read_as: ReadAs) -> None:
    content = {**RECORD, "ner": [[[2, 3, "Method"], [2, 3, "Task"]], [[5, 5, "Generic"]]]}
    documents, problems = read_as("scierc", json.dumps(content))
    assert documents == []
    assert [problem.expected for problem in problems.kept] == ["a span that only one entity has"]


def test_scierc_says_so_where_it_drops_a_sentence_without_words(read_as: ReadAs, written_and_read: Through) -> None:
    record = {
        "doc_key": "d",
        "sentences": [["a"], [], ["b"]],
        "ner": [[], [], [[1, 1, "X"]]],
        "relations": [[], [], []],
    }
    documents, problems = read_as("scierc", json.dumps(record))
    assert written_and_read("scierc", documents) == documents
    assert problems.remarks == {"documents with sentences that have no words, which are passed over": 1}


def _contents(document: Document) -> tuple[object, ...]:
    """All of a document, but for the order of its annotations, which are filed by sentence."""
    annotation = document.annotation
    return (replace(document, annotation=Annotation()), Counter(annotation.entities), Counter(annotation.relations))


@settings(max_examples=50)
@given(data=st.data())
def test_scierc_gives_back_documents(data: st.DataObject, word_documents: Documents, written_and_read: Through) -> None:
    strategy = word_documents(min_sentences=0, clusters=True, same_span=False)
    documents = data.draw(st.lists(strategy, max_size=3, unique_by=lambda document: document.id))
    found = written_and_read("scierc", documents)
    assert list(map(_contents, found)) == list(map(_contents, documents))
    assert written_and_read("scierc", found) == found


@pytest.mark.parametrize("key", ["doc_key", "sentences", "ner", "relations", "clusters"])
def test_scierc_does_not_let_metadata_write_over_the_record(written_and_read: Through, key: str) -> None:
    (found,) = written_and_read("scierc", [replace(DOCUMENT, metadata={key: []})])
    assert replace(found, metadata={}) == DOCUMENT


def test_scierc_refuses_lone_surrogates_wherever_they_stand(read_as: ReadAs) -> None:
    for note in ("\ud800", ["\ud800"], {"\ud800": 1}):
        assert "surrogate" in _problem(read_as, note=note).found


def test_scierc_writes_the_record_it_read(tmp_path: Path) -> None:
    write(tmp_path / "out.jsonl", [DOCUMENT, replace(DOCUMENT, id="é", metadata={"dataset": 1})])
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [RECORD, {**RECORD, "doc_key": "é", "dataset": 1}]
    assert '"é"' in lines[1]
