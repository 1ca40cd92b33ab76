from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from relatum.data.documents import from_words, to_examples
from relatum.data.formats.table_sequence import write
from relatum.data.problems import Problems
from relatum.errors import Problem
from relatum.types import Annotation, Document, Entity, Relation, Span

Documents = Callable[..., SearchStrategy[Document]]
ReadAs = Callable[[str, str | bytes], tuple[list[Document], Problems]]
Through = Callable[[str, Iterable[Document]], list[Document]]

RECORD: dict[str, Any] = {
    "id": "s1",
    "tokens": ["Ann", "lives", "in", "New", "York"],
    "entities": [[0, 1, "Peop"], [3, 5, "Loc"]],
    "relations": [[0, 1, 3, 5, "Live_In"]],
}
ANN, YORK = Entity(Span(0, 1), "Peop"), Entity(Span(3, 5), "Loc")
DOCUMENT = from_words("s1", [RECORD["tokens"]], Annotation((ANN, YORK), (Relation(ANN, YORK, "Live_In"),)))


def _problem(read_as: ReadAs, **changes: Any) -> Problem:
    """The one problem with a record that stands between two good ones, on the second line."""
    good = {"tokens": ["a"], "entities": [], "relations": []}
    bad = {key: value for key, value in {**RECORD, **changes}.items() if value is not ...}
    documents, problems = read_as("table-sequence", "[" + ",\n".join(map(json.dumps, (good, bad, good))) + "]")
    assert [document.id for document in documents] == ["data-1", "data-3"], "the others are read all the same"
    (problem,) = problems.kept
    assert Path(problem.path).name == "data"
    assert (problem.line, problem.record) == (2, 2)
    return problem


@pytest.mark.parametrize("content", [json.dumps([RECORD]), json.dumps([RECORD], indent=1), json.dumps(RECORD) + "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_table_sequence_reads_an_array_or_lines(read_as: ReadAs, content: str, mark: str) -> None:
    documents, problems = read_as("table-sequence", mark + content)
    assert documents == [DOCUMENT]
    assert problems.count == 0


def test_table_sequence_numbers_records_without_an_id_and_keeps_other_keys(read_as: ReadAs) -> None:
    record = {"tokens": ["a"], "entities": [], "relations": [], "pos": ["NN"]}
    documents, _ = read_as("table-sequence", f"{json.dumps(record)}\n\n{json.dumps(record)}\n")
    assert [(document.id, document.metadata) for document in documents] == [
        ("data-1", {"pos": ["NN"]}),
        ("data-2", {"pos": ["NN"]}),
    ]


@pytest.mark.parametrize(
    ("changes", "field", "found", "expected"),
    [
        ({"tokens": ...}, None, "only 'id', 'entities', 'relations'", "the key 'tokens'"),
        ({"tokens": {}}, "tokens", "{}", "a list"),
        ({"tokens": ["a", 5]}, "tokens[1]", "5", "a string"),
        ({"entities": ...}, None, "only 'id', 'tokens', 'relations'", "the key 'entities'"),
        ({"entities": 5}, "entities", "5", "a list"),
        ({"entities": [[0, 1]]}, "entities[0]", "[0, 1]", "a list of 3"),
        ({"entities": [{"type": "X"}]}, "entities[0]", '{"type": "X"}', "a list"),
        ({"entities": [[0, 1, 5]]}, "entities[0][2]", "5", "a string"),
        ({"entities": [[0, 1, ""]]}, "entities[0][2]", '""', "a string that is not empty"),
        ({"relations": ...}, None, "only 'id', 'tokens', 'entities'", "the key 'relations'"),
        ({"relations": [[0, 1, "R"]]}, "relations[0]", '[0, 1, "R"]', "a list of 5"),
        ({"relations": [[0, 1, 3, 5, None]]}, "relations[0][4]", "null", "a string"),
        (
            {"relations": [[0, 1, 3, 4, "R"]]},
            "relations[0]",
            "[3, 4), which is none",
            "the span of an entity of this record",
        ),
        ({"id": True}, "id", "true", "a string"),
    ],
)
def test_table_sequence_names_the_place_and_the_fault_of_a_bad_record(
    read_as: ReadAs, changes: dict[str, Any], field: str | None, found: str, expected: str
) -> None:
    problem = _problem(read_as, **changes)
    assert (problem.field, problem.found, problem.expected) == (field, found, expected)


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 2), (3, 1), (0, 6), (True, 2), (0, 1.0), ("0", 1), (None, 1)])
def test_table_sequence_refuses_bad_spans(read_as: ReadAs, start: object, end: object) -> None:
    expected = ("0 <= start < end <= 5, in words", "whole numbers for start and end, in words")
    problem = _problem(read_as, entities=[[start, end, "X"]], relations=[])
    assert problem.field == "entities[0]"
    assert problem.expected in expected
    problem = _problem(read_as, relations=[[0, 1, start, end, "R"]])
    assert problem.field == "relations[0]"
    assert problem.expected in expected


def test_table_sequence_says_so_where_a_relation_does_not_tell_which_entity_it_means(read_as: ReadAs) -> None:
    _, problems = read_as(
        "table-sequence", json.dumps([{**RECORD, "entities": [[0, 1, "X"], [0, 1, "Y"], [3, 5, "Z"]]}])
    )
    assert problems.count or problems.remarks


@settings(max_examples=50)
@given(data=st.data())
def test_table_sequence_gives_back_sentences(
    data: st.DataObject, word_documents: Documents, written_and_read: Through
) -> None:
    sentences = word_documents(max_sentences=1, same_span=False)
    documents = data.draw(st.lists(sentences, max_size=3, unique_by=lambda document: document.id))
    assert written_and_read("table-sequence", documents) == documents


@settings(max_examples=50)
@given(data=st.data())
def test_table_sequence_writes_documents_sentence_by_sentence(
    data: st.DataObject, word_documents: Documents, written_and_read: Through
) -> None:
    document = data.draw(word_documents(min_sentences=2, crossing=False, same_span=False))
    found = written_and_read("table-sequence", [document])
    assert [one.id for one in found] == [f"{document.id}#{number}" for number in range(1, len(found) + 1)]
    assert [to_examples(one)[0] for one in found] == to_examples(document)


@pytest.mark.parametrize("key", ["id", "tokens", "entities", "relations"])
def test_table_sequence_does_not_let_metadata_write_over_the_record(written_and_read: Through, key: str) -> None:
    (found,) = written_and_read("table-sequence", [replace(DOCUMENT, metadata={key: []})])
    assert (found.id, found.text, found.annotation) == (DOCUMENT.id, DOCUMENT.text, DOCUMENT.annotation)


def test_table_sequence_does_not_lose_a_document_without_words(read_as: ReadAs, written_and_read: Through) -> None:
    documents, problems = read_as("table-sequence", '[{"tokens": [], "entities": [], "relations": [], "id": "empty"}]')
    assert [document.id for document in documents] == ["empty"] or problems.count == 1
    found = written_and_read("table-sequence", documents)
    assert [document.id for document in found] == [document.id for document in documents]


def test_table_sequence_refuses_lone_surrogates_wherever_they_stand(read_as: ReadAs) -> None:
    for note in ("\ud800", ["\ud800"], {"\ud800": 1}):
        assert "surrogate" in _problem(read_as, note=note).found


def test_table_sequence_writes_the_record_it_read(tmp_path: Path) -> None:
    write(tmp_path / "out.json", [DOCUMENT])
    assert json.loads((tmp_path / "out.json").read_bytes()) == [RECORD]
