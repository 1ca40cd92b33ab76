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
from relatum.data.formats.spert import types_json, write
from relatum.data.problems import Problems
from relatum.errors import Problem
from relatum.schema import RelationType, Schema
from relatum.types import Annotation, Document, Entity, Relation, Span

Documents = Callable[..., SearchStrategy[Document]]
ReadAs = Callable[[str, str | bytes], tuple[list[Document], Problems]]
Through = Callable[[str, Iterable[Document]], list[Document]]

RECORD: dict[str, Any] = {
    "tokens": ["Ann", "lives", "in", "New", "York"],
    "entities": [{"type": "Peop", "start": 0, "end": 1}, {"type": "Loc", "start": 3, "end": 5}],
    "relations": [{"type": "Live_In", "head": 0, "tail": 1}],
    "orig_id": 17,
}
ANN, YORK = Entity(Span(0, 1), "Peop"), Entity(Span(3, 5), "Loc")
DOCUMENT = from_words("17", [RECORD["tokens"]], Annotation((ANN, YORK), (Relation(ANN, YORK, "Live_In"),)))


def _problem(read_as: ReadAs, **changes: Any) -> Problem:
    """The one problem with a record that stands between two good ones, on the second line."""
    good = {"tokens": ["a"], "entities": [], "relations": []}
    bad = {key: value for key, value in {**RECORD, **changes}.items() if value is not ...}
    documents, problems = read_as("spert", "[" + ",\n".join(map(json.dumps, (good, bad, good))) + "]")
    assert [document.id for document in documents] == ["data-1", "data-3"], "the others are read all the same"
    (problem,) = problems.kept
    assert Path(problem.path).name == "data"
    assert (problem.line, problem.record) == (2, 2)
    return problem


@pytest.mark.parametrize("content", [json.dumps([RECORD]), json.dumps([RECORD], indent=1), json.dumps(RECORD) + "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_spert_reads_an_array_or_lines(read_as: ReadAs, content: str, mark: str) -> None:
    documents, problems = read_as("spert", mark + content)
    assert documents == [DOCUMENT]
    assert problems.count == 0


def test_spert_keeps_other_keys_as_metadata(read_as: ReadAs) -> None:
    documents, _ = read_as("spert", json.dumps([{**RECORD, "pos": ["NN"], "dep": {"a": None}}]))
    assert documents == [replace(DOCUMENT, metadata={"pos": ["NN"], "dep": {"a": None}})]


def test_spert_names_records_without_an_id_after_the_file(read_as: ReadAs) -> None:
    documents, _ = read_as("spert", json.dumps([{"tokens": ["a"], "entities": [], "relations": []}] * 2))
    assert [document.id for document in documents] == ["data-1", "data-2"]


@pytest.mark.parametrize(
    ("changes", "field", "found", "expected"),
    [
        ({"tokens": ...}, None, "only 'entities', 'relations', 'orig_id'", "the key 'tokens'"),
        ({"tokens": "Ann"}, "tokens", '"Ann"', "a list"),
        ({"tokens": ["a", ""]}, "tokens[1]", '""', "a string that is not empty"),
        ({"tokens": ["a", None]}, "tokens[1]", "null", "a string"),
        ({"tokens": ["a\ud800"]}, "tokens[0]", "the lone surrogate U+D800 at character 1", "valid Unicode text"),
        ({"entities": ...}, None, "only 'tokens', 'relations', 'orig_id'", "the key 'entities'"),
        ({"entities": None}, "entities", "null", "a list"),
        ({"entities": [[0, 1, "X"]]}, "entities[0]", '[0, 1, "X"]', "an object"),
        ({"relations": ...}, None, "only 'tokens', 'entities', 'orig_id'", "the key 'relations'"),
        ({"relations": {}}, "relations", "{}", "a list"),
        ({"orig_id": 1.5}, "orig_id", "1.5", "a string"),
    ],
)
def test_spert_names_the_place_and_the_fault_of_a_bad_record(
    read_as: ReadAs, changes: dict[str, Any], field: str | None, found: str, expected: str
) -> None:
    problem = _problem(read_as, **changes)
    assert (problem.field, problem.found, problem.expected) == (field, found, expected)


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 2), (3, 1), (0, 6), (True, 2), (0, 1.0), ("0", 1), (None, 1)])
def test_spert_refuses_bad_spans(read_as: ReadAs, start: object, end: object) -> None:
    entity = {"type": "X", "start": start, "end": end}
    problem = _problem(read_as, entities=[entity], relations=[])
    assert problem.field == "entities[0]"
    assert problem.expected in ("0 <= start < end <= 5, in words", "whole numbers for start and end, in words")
    assert problem.found == json.dumps(entity)


@pytest.mark.parametrize("key", ["start", "end", "type"])
def test_spert_names_a_key_that_an_entity_lacks(read_as: ReadAs, key: str) -> None:
    entity = {name: value for name, value in RECORD["entities"][0].items() if name != key}
    problem = _problem(read_as, entities=[entity], relations=[])
    assert (problem.field, problem.expected) == ("entities[0]", f"the key '{key}'")


@pytest.mark.parametrize("end", [-1, 2, True, "0", 0.0, None, 10**20])
@pytest.mark.parametrize("key", ["head", "tail"])
def test_spert_refuses_a_relation_to_what_is_no_entity(read_as: ReadAs, key: str, end: object) -> None:
    problem = _problem(read_as, relations=[{"type": "R", "head": 0, "tail": 1, key: end}])
    assert problem.field == f"relations[0].{key}"
    assert problem.found == json.dumps(end)


def test_spert_says_so_where_a_relation_has_no_entities_to_name(read_as: ReadAs) -> None:
    problem = _problem(read_as, entities=[], relations=[{"type": "R", "head": 0, "tail": 0}])
    assert problem.field == "relations[0].head"
    assert "-1" not in problem.expected


def test_spert_says_so_where_an_entity_or_a_relation_holds_more_than_it_reads(read_as: ReadAs) -> None:
    for key, item in (("entities", {"type": "X", "start": 0, "end": 1}), ("relations", RECORD["relations"][0])):
        _, problems = read_as("spert", json.dumps([{**RECORD, key: [{**item, "score": 0.5}] * 2}]))
        assert problems.count or problems.remarks, f"the score of {key} was dropped without a word"


def test_spert_reports_every_bad_record(read_as: ReadAs) -> None:
    records = [{**RECORD, "orig_id": number, "tokens": number % 2 and ["a"] * 5} for number in range(10)]
    documents, problems = read_as("spert", json.dumps(records))
    assert [document.id for document in documents] == ["1", "3", "5", "7", "9"]
    assert [problem.record for problem in problems.kept] == [1, 3, 5, 7, 9]


def test_spert_reports_repeated_ids(read_as: ReadAs) -> None:
    documents, problems = read_as("spert", json.dumps([RECORD, RECORD]))
    assert documents == [DOCUMENT]
    assert [problem.found for problem in problems.kept] == ['the id "17" again (first on line 1)']


@settings(max_examples=50)
@given(data=st.data())
def test_spert_gives_back_sentences(data: st.DataObject, word_documents: Documents, written_and_read: Through) -> None:
    sentences = word_documents(max_sentences=1)
    documents = data.draw(st.lists(sentences, max_size=3, unique_by=lambda document: document.id))
    assert written_and_read("spert", documents) == documents


@settings(max_examples=50)
@given(data=st.data())
def test_spert_writes_documents_sentence_by_sentence(
    data: st.DataObject, word_documents: Documents, written_and_read: Through
) -> None:
    document = data.draw(word_documents(min_sentences=2, crossing=False))
    found = written_and_read("spert", [document])
    assert [one.id for one in found] == [f"{document.id}#{number}" for number in range(1, len(found) + 1)]
    assert [to_examples(one)[0] for one in found] == to_examples(document)


def test_spert_writes_relations_between_entities_of_one_span(written_and_read: Through) -> None:
    one, two = Entity(Span(0, 1), "X"), Entity(Span(0, 1), "Y")
    document = from_words("d", [["a"]], Annotation((one, two), (Relation(two, one, "R"), Relation(one, two, "R"))))
    assert written_and_read("spert", [document]) == [document]


@pytest.mark.parametrize("key", ["tokens", "entities", "relations", "orig_id"])
def test_spert_does_not_let_metadata_write_over_the_record(written_and_read: Through, key: str) -> None:
    (found,) = written_and_read("spert", [replace(DOCUMENT, metadata={key: []})])
    assert (found.id, found.text, found.annotation) == (DOCUMENT.id, DOCUMENT.text, DOCUMENT.annotation)


def test_spert_does_not_lose_a_document_without_words(read_as: ReadAs, written_and_read: Through) -> None:
    documents, problems = read_as("spert", '[{"tokens": [], "entities": [], "relations": [], "orig_id": "empty"}]')
    assert [document.id for document in documents] == ["empty"] or problems.count == 1
    assert [document.id for document in written_and_read("spert", documents)] == [document.id for document in documents]


def test_spert_refuses_lone_surrogates_wherever_they_stand(read_as: ReadAs) -> None:
    for note in ("\ud800", ["\ud800"], {"\ud800": 1}):
        assert "surrogate" in _problem(read_as, note=note).found


def test_spert_writes_an_array_with_one_record_a_line(tmp_path: Path) -> None:
    write(tmp_path / "out.json", [DOCUMENT, replace(DOCUMENT, id="é")])
    content = (tmp_path / "out.json").read_bytes()
    assert json.loads(content) == [{**RECORD, "orig_id": "17"}, {**RECORD, "orig_id": "é"}]
    assert content.count(b"\n") == 2
    assert "é".encode() in content


def test_spert_writing_nothing_makes_an_empty_array(tmp_path: Path) -> None:
    write(tmp_path / "out.json", [])
    assert json.loads((tmp_path / "out.json").read_bytes()) == []


def test_spert_types_file_is_read_back_by_the_schema() -> None:
    schema = Schema(("Loc", "Örtlich"), (RelationType("Near", symmetric=True), RelationType("In")))
    name, content = types_json(schema)
    assert name == "types.json"
    assert Schema.from_dict(json.loads(content)) == schema
    assert json.loads(content)["entities"]["Loc"] == {"short": "Loc", "verbose": "Loc"}
    assert json.loads(content)["relations"]["Near"] == {"short": "Near", "verbose": "Near", "symmetric": True}
