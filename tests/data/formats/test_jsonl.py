from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from relatum.data.documents import from_words
from relatum.data.formats.base import Holds
from relatum.data.formats.jsonl import FORMAT, annotation_record, read, to_record, write
from relatum.data.problems import Problems
from relatum.errors import Problem
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

Documents = Callable[..., SearchStrategy[Document]]
ReadAs = Callable[[str, str | bytes], tuple[list[Document], Problems]]
Through = Callable[[str, Iterable[Document]], list[Document]]

TEXT: dict[str, Any] = {
    "id": "d1",
    "text": "Ann lives in Rome.",
    "entities": [
        {"id": "T1", "start": 0, "end": 3, "text": "Ann", "label": "Peop", "score": 0.5, "attributes": {"Known": True}},
        {"id": "T2", "start": 13, "end": 17, "label": "Loc", "attributes": {"Kind": ["city", "capital"]}},
    ],
    "relations": [{"id": "R1", "head": "T1", "tail": "T2", "label": "Live_In", "score": 1}],
    "clusters": [[[0, 3], [13, 17]]],
    "metadata": {"source": ["x", 1, None]},
}
WORDS: dict[str, Any] = {
    "id": 7,
    "words": ["Ann", "sings", "Rome", "burns"],
    "sentences": [[0, 2], [2, 4]],
    "entities": [{"start": 0, "end": 1, "label": "Peop"}, {"start": 2, "end": 4, "label": "Event"}],
    "relations": [{"head": 0, "tail": "1", "label": "Sees"}],
}


def _one(read_as: ReadAs, record: object) -> Document:
    documents, problems = read_as("jsonl", json.dumps(record))
    problems.raise_if_any()
    (document,) = documents
    return document


def _problem(read_as: ReadAs, record: object) -> Problem:
    """The one problem with a record that stands on line 3 as record 2."""
    good = json.dumps({"text": "good"})
    documents, problems = read_as("jsonl", f"{good}\n\n{json.dumps(record)}\n{good}\n")
    assert [document.id for document in documents] == ["data-1", "data-3"], "the others are read all the same"
    (problem,) = problems.kept
    assert Path(problem.path).name == "data"
    assert (problem.line, problem.record) == (3, 2)
    return problem


def _with(record: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**record, **changes}


def _entity(**changes: Any) -> dict[str, Any]:
    """A text of five characters with one entity."""
    return {"text": "Roman", "entities": [{"start": 0, "end": 4, "label": "Loc", **changes}]}


def test_jsonl_reads_text_with_character_offsets(read_as: ReadAs) -> None:
    document = _one(read_as, TEXT)
    ann, rome = Entity(Span(0, 3), "Peop"), Entity(Span(13, 17), "Loc")
    relation = Relation(ann, rome, "Live_In")
    assert document == Document(
        "d1",
        "Ann lives in Rome.",
        Annotation((ann, rome), (relation,)),
        clusters=((Span(0, 3), Span(13, 17)),),
        attributes=(Attribute(ann, "Known"), Attribute(rome, "Kind", "city"), Attribute(rome, "Kind", "capital")),
        metadata={"source": ["x", 1, None]},
    )
    assert [(entity.id, entity.score) for entity in document.annotation.entities] == [("T1", 0.5), ("T2", None)]
    assert (document.annotation.relations[0].id, document.annotation.relations[0].score) == ("R1", 1.0)


def test_jsonl_reads_words_with_word_spans_and_entities_by_number(read_as: ReadAs) -> None:
    ann, burning = Entity(Span(0, 1), "Peop"), Entity(Span(2, 4), "Event")
    annotation = Annotation((ann, burning), (Relation(ann, burning, "Sees"),))
    assert _one(read_as, WORDS) == from_words("7", [["Ann", "sings"], ["Rome", "burns"]], annotation)


def test_jsonl_reads_text_with_word_offsets_and_sentences(read_as: ReadAs) -> None:
    record = {"text": "Ann sings.  Bob!", "word_offsets": [[0, 3], [4, 9], [12, 15]], "sentences": [[0, 2], [2, 3]]}
    document = _one(read_as, record)
    assert document.words == (Span(0, 3), Span(4, 9), Span(12, 15))
    assert document.sentences == (Span(0, 2), Span(2, 3))


def test_jsonl_takes_words_without_sentences_for_one(read_as: ReadAs) -> None:
    assert _one(read_as, {"words": ["a", "b"]}).sentences == (Span(0, 2),)
    assert _one(read_as, {"text": "a b", "word_offsets": [[0, 1], [2, 3]]}).sentences == (Span(0, 2),)


def test_jsonl_reads_documents_without_words_or_text_in_them(read_as: ReadAs) -> None:
    assert _one(read_as, {"text": ""}) == Document("data-1", "")
    assert _one(read_as, {"words": []}) == Document("data-1", "", words=(), sentences=())
    assert _one(read_as, {"text": " ", "word_offsets": []}) == Document("data-1", " ", words=(), sentences=())


def test_jsonl_takes_null_for_absent(read_as: ReadAs) -> None:
    nulls = dict.fromkeys(("id", "entities", "relations", "sentences", "clusters", "metadata", "word_offsets"))
    assert _one(read_as, {"text": "a", **nulls}) == Document("data-1", "a")
    entity = dict.fromkeys(("id", "text", "score", "fragments", "attributes"))
    assert _one(read_as, _entity(**entity)).annotation.entities == (Entity(Span(0, 4), "Loc"),)


def test_jsonl_reads_discontinuous_entities(read_as: ReadAs) -> None:
    record = {
        "text": "right and left arm",
        "entities": [{"start": 0, "end": 18, "label": "X", "fragments": [[0, 5], [15, 18]]}],
    }
    assert _one(read_as, record).annotation.entities == (Entity(Span(0, 18), "X", (Span(0, 5), Span(15, 18))),)


def test_jsonl_takes_a_single_fragment_for_none(read_as: ReadAs) -> None:
    assert _one(read_as, _entity(fragments=[[0, 4]])).annotation.entities == (Entity(Span(0, 4), "Loc"),)


def test_jsonl_counts_characters_and_not_bytes_or_code_units(read_as: ReadAs) -> None:
    record = {"text": "🙂 é Rome", "entities": [{"start": 4, "end": 8, "text": "Rome", "label": "Loc"}]}
    assert _one(read_as, record).annotation.entities[0].span.of("🙂 é Rome") == "Rome"


@pytest.mark.parametrize(
    ("record", "field", "found", "expected"),
    [
        (5, None, "5", "an object"),
        ([], None, "[]", "an object"),
        ("text", None, '"text"', "an object"),
        (None, None, "null", "an object"),
        ({}, None, "only no keys", "the key 'text'"),
        ({"id": "x"}, None, "only 'id'", "the key 'text'"),
        ({"text": None}, "text", "null", "a string"),
        ({"text": "a\udc00"}, "text", "the lone surrogate U+DC00 at character 1", "valid Unicode text"),
        ({"words": "abc"}, "words", '"abc"', "a list"),
        ({"words": ["a", ""]}, "words[1]", '""', "a string that is not empty"),
        ({"words": ["a", 1]}, "words[1]", "1", "a string"),
        ({"text": "a", "id": ""}, "id", '""', "a string that is not empty"),
        ({"text": "a", "id": True}, "id", "true", "a string"),
        ({"text": "a", "id": 1.5}, "id", "1.5", "a string"),
        ({"text": "a", "metadata": []}, "metadata", "[]", "an object"),
        ({"text": "a", "entities": {}}, "entities", "{}", "a list"),
        ({"text": "a", "entities": [5]}, "entities[0]", "5", "an object"),
        ({"text": "a", "relations": "x"}, "relations", '"x"', "a list"),
        ({"text": "a", "clusters": [5]}, "clusters[0]", "5", "a list"),
        ({"text": "a", "clusters": [[[0]]]}, "clusters[0][0]", "[0]", "a list of 2"),
        ({"text": "a", "clusters": [[[0, 2]]]}, "clusters[0][0]", "[0, 2]", "0 <= start < end <= 1, in characters"),
        ({"words": ["abc"], "clusters": [[[0, 2]]]}, "clusters[0][0]", "[0, 2]", "0 <= start < end <= 1, in words"),
    ],
)
def test_jsonl_names_the_place_and_the_fault_of_a_bad_record(
    read_as: ReadAs, record: object, field: str | None, found: str, expected: str
) -> None:
    problem = _problem(read_as, record)
    assert (problem.field, problem.found, problem.expected) == (field, found, expected)


@pytest.mark.parametrize(
    ("record", "field", "expected"),
    [
        ({"txt": "a"}, "txt", "did you mean 'text'"),
        ({"text": "a", "entitties": []}, "entitties", "'entities'"),
        ({"text": "a", "words": ["a"]}, "text", "one of words, id"),
        ({"words": ["a"], "word_offsets": [[0, 1]]}, "word_offsets", "one of words, id"),
        (_entity(lable="x"), "entities[0].lable", "did you mean 'label'"),
        ({"text": "ab", "relations": [{"source": 0}]}, "relations[0].source", "one of id, head, tail"),
    ],
)
def test_jsonl_refuses_unknown_keys_and_names_the_nearest(
    read_as: ReadAs, record: object, field: str | None, expected: str
) -> None:
    problem = _problem(read_as, record)
    assert problem.field == field
    assert expected in problem.expected


@pytest.mark.parametrize("key", ["start", "end", "label"])
def test_jsonl_names_a_key_that_an_entity_lacks(read_as: ReadAs, key: str) -> None:
    record = _entity()
    del record["entities"][0][key]
    problem = _problem(read_as, record)
    assert (problem.field, problem.expected) == ("entities[0]", f"the key '{key}'")


@pytest.mark.parametrize(
    ("start", "end"), [(-1, 2), (0, 6), (5, 6), (3, 3), (4, 2), (-5, -1), (10**30, 10**31), (0, -1), (-(10**20), 1)]
)
@pytest.mark.parametrize("unit", ["characters", "words"])
def test_jsonl_refuses_spans_out_of_range(read_as: ReadAs, start: int, end: int, unit: str) -> None:
    text = {"text": "Roman"} if unit == "characters" else {"words": list("Roman")}
    problem = _problem(read_as, {**text, "entities": [{"start": start, "end": end, "label": "X"}]})
    assert problem.field == "entities[0]"
    assert problem.expected == f"0 <= start < end <= 5, in {unit}"
    assert str(start)[:20] in problem.found


@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, [1], float("nan"), float("inf")])
@pytest.mark.parametrize("key", ["start", "end"])
def test_jsonl_refuses_ends_that_are_no_whole_numbers(read_as: ReadAs, key: str, value: object) -> None:
    problem = _problem(read_as, _entity(**{key: value}))
    assert problem.field in ("entities[0]", f"entities[0].{key}")
    assert "whole number" in problem.expected


@pytest.mark.parametrize("value", ["", 5, None, True, [], "\ud800"])
def test_jsonl_refuses_labels_that_are_no_text(read_as: ReadAs, value: object) -> None:
    assert _problem(read_as, _entity(label=value)).field == "entities[0].label"
    relation = {"words": ["a"], "entities": [{"start": 0, "end": 1, "label": "X"}]}
    problem = _problem(read_as, {**relation, "relations": [{"head": 0, "tail": 0, "label": value}]})
    assert problem.field == "relations[0].label"


@pytest.mark.parametrize("value", [True, "0.5", [], float("nan"), float("inf"), pytest.param(10**400, id="huge")])
def test_jsonl_refuses_scores_that_are_no_finite_numbers(read_as: ReadAs, value: object) -> None:
    problem = _problem(read_as, _entity(score=value))
    assert (problem.field, problem.expected) == ("entities[0].score", "a finite number")


def test_jsonl_checks_the_text_of_an_entity_against_its_span(read_as: ReadAs) -> None:
    problem = _problem(read_as, _entity(text="oman"))
    assert problem.field == "entities[0].text"
    assert problem.found == '"oman"'
    assert problem.expected == "'Roma', the characters [0, 4) of the text"


def test_jsonl_checks_the_text_of_a_discontinuous_entity(read_as: ReadAs) -> None:
    record = _entity(end=5, fragments=[[0, 1], [4, 5]], text="R n")
    assert _one(read_as, record).annotation.entities[0].fragments == (Span(0, 1), Span(4, 5))
    assert _problem(read_as, _entity(end=5, fragments=[[0, 1], [4, 5]], text="nonsense")).field == "entities[0].text"


def test_jsonl_checks_the_text_of_an_entity_against_its_words(read_as: ReadAs) -> None:
    record = {"words": ["in", "New", "York"], "entities": [{"start": 1, "end": 3, "label": "Loc", "text": "New York"}]}
    assert _one(read_as, record).annotation.entities == (Entity(Span(3, 11), "Loc"),)
    record["entities"][0]["text"] = "in New"  # type: ignore[index]
    assert _problem(read_as, record).field == "entities[0].text"


def test_jsonl_keeps_a_complaint_about_a_long_text_short(read_as: ReadAs) -> None:
    text = "x" * 1_000_000
    record = {"text": text, "entities": [{"start": 0, "end": len(text), "label": "X", "text": "y" * 1_000_000}]}
    assert len(str(_problem(read_as, record))) < 1000


@pytest.mark.parametrize(
    "fragments",
    [
        [[0, 1], [2, 3]],
        [[1, 2], [3, 4]],
        [[2, 4], [0, 1]],
        [[0, 2], [1, 4]],
        [[0, 2], [2, 4]],
        [[0, 4], [0, 4]],
        [[0, 1], [3, 9]],
        [[0, 1, 2], [3, 4]],
        [5],
        "x",
    ],
)
def test_jsonl_refuses_fragments_that_do_not_fit_the_span(read_as: ReadAs, fragments: object) -> None:
    problem = _problem(read_as, _entity(fragments=fragments))
    assert problem.field is not None
    assert problem.field.startswith("entities[0]")


def test_jsonl_refuses_an_entity_id_that_stands_twice(read_as: ReadAs) -> None:
    entity = {"id": "T1", "start": 0, "end": 1, "label": "X"}
    problem = _problem(read_as, {"text": "ab", "entities": [entity, entity]})
    assert (problem.field, problem.found) == ("entities[1]", "the entity id 'T1' again")


@pytest.mark.parametrize("end", ["T9", 1, -1, "", None, True, 0.0, "0 "])
@pytest.mark.parametrize("key", ["head", "tail"])
def test_jsonl_refuses_a_relation_to_what_is_no_entity(read_as: ReadAs, key: str, end: object) -> None:
    record = _with(_entity(), relations=[{"head": 0, "tail": 0, "label": "R", key: end}])
    assert _problem(read_as, record).field == f"relations[0].{key}"


@pytest.mark.parametrize("key", ["head", "tail", "label"])
def test_jsonl_names_a_key_that_a_relation_lacks(read_as: ReadAs, key: str) -> None:
    relation = {"head": 0, "tail": 0, "label": "R"}
    del relation[key]
    problem = _problem(read_as, _with(_entity(), relations=[relation]))
    assert (problem.field, problem.expected) == ("relations[0]", f"the key '{key}'")


@pytest.mark.parametrize(
    "sentences",
    [[[0, 1]], [[0, 1], [2, 4]], [[0, 2], [1, 4]], [[1, 4]], [[0, 5]], [[2, 4], [0, 2]], [], [[0, 0], [0, 4]]],
)
def test_jsonl_refuses_sentences_that_do_not_cover_the_words_in_order(read_as: ReadAs, sentences: object) -> None:
    problem = _problem(read_as, _with(WORDS, sentences=sentences))
    assert problem.field is not None
    assert problem.field.startswith("sentences")


def test_jsonl_refuses_sentences_without_words(read_as: ReadAs) -> None:
    problem = _problem(read_as, {"text": "a b", "sentences": [[0, 1]]})
    assert problem.field == "sentences"
    assert "word_offsets" in problem.expected


@pytest.mark.parametrize(
    "offsets", [[[0, 2], [1, 3]], [[2, 3], [0, 1]], [[0, 4]], [[1, 1]], [[-1, 1]], [0, 1], [[0, 1, 2]]]
)
def test_jsonl_refuses_word_offsets_out_of_order_or_range(read_as: ReadAs, offsets: object) -> None:
    problem = _problem(read_as, {"text": "abc", "word_offsets": offsets})
    assert problem.field is not None
    assert problem.field.startswith("word_offsets")


@pytest.mark.parametrize("value", [False, None, 5, {}, [5], [None], [[]]])
def test_jsonl_refuses_attribute_values_it_could_not_keep(read_as: ReadAs, value: object) -> None:
    problem = _problem(read_as, _entity(attributes={"Known": value}))
    assert problem.field == "entities[0].attributes.Known"
    assert problem.expected == "true, a string, or a list of strings"


def test_jsonl_does_not_lose_an_attribute_with_an_empty_list(read_as: ReadAs) -> None:
    assert _problem(read_as, _entity(attributes={"Known": []})).field == "entities[0].attributes.Known"


@pytest.mark.parametrize(
    "record",
    [
        {"text": "a", "metadata": {"note": "\ud800"}},
        {"text": "a", "metadata": {"\ud800": 1}},
        {"text": "a", "metadata": {"notes": [{"deep": "\udfff"}]}},
        _entity(attributes={"\ud800": True}),
        _entity(attributes={"Known": "\ud800"}),
    ],
)
def test_jsonl_refuses_lone_surrogates_wherever_they_stand(read_as: ReadAs, record: object) -> None:
    assert "surrogate" in _problem(read_as, record).found


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_jsonl_refuses_metadata_that_is_no_json(read_as: ReadAs, value: str) -> None:
    documents, problems = read_as("jsonl", f'{{"text": "a", "metadata": {{"x": {value}}}}}\n')
    assert (documents, problems.count) == ([], 1)


def test_jsonl_reports_every_bad_record_with_its_line(read_as: ReadAs) -> None:
    lines = ["{", '{"text": 5}', '{"text": "ok"}', "", "[]", '{"text": "a", "entities": [{}]}', "\ufeff{"]
    documents, problems = read_as("jsonl", "\r\n".join(lines))
    assert [document.text for document in documents] == ["ok"]
    assert [problem.line for problem in problems.kept] == [1, 2, 5, 6, 7]
    assert problems.count == 5


def test_jsonl_reports_every_repeated_document_id(read_as: ReadAs) -> None:
    documents, problems = read_as("jsonl", '{"id": "a", "text": "1"}\n' * 3)
    assert len(documents) == 1
    assert [problem.line for problem in problems.kept] == [2, 3]


def test_jsonl_reads_and_writes_a_line_of_a_megabyte(read_as: ReadAs, written_and_read: Through) -> None:
    size = 1_000_000
    document = _one(read_as, {"text": "é" * size, "entities": [{"start": 0, "end": size, "label": "X"}]})
    assert written_and_read("jsonl", [document]) == [document]


@settings(max_examples=50)
@given(data=st.data())
def test_jsonl_gives_back_documents_of_words(
    data: st.DataObject, word_documents: Documents, written_and_read: Through
) -> None:
    documents = data.draw(
        st.lists(word_documents(min_sentences=0, clusters=True), max_size=3, unique_by=lambda d: d.id)
    )
    _assert_the_same(written_and_read("jsonl", documents), documents)


@settings(max_examples=80)
@given(data=st.data())
def test_jsonl_gives_back_documents_of_text(
    data: st.DataObject, text_documents: Documents, written_and_read: Through
) -> None:
    document = data.draw(text_documents())
    _assert_the_same(written_and_read("jsonl", [document]), [document])


def _assert_the_same(found: list[Document], documents: list[Document]) -> None:
    assert found == documents
    for one, other in zip(found, documents, strict=True):
        for items in ("entities", "relations"):
            pairs = zip(getattr(one.annotation, items), getattr(other.annotation, items), strict=True)
            for item, original in pairs:
                assert item.score == original.score
                assert original.id is None or item.id == original.id


def test_jsonl_gives_back_annotations_that_cut_through_words(written_and_read: Through) -> None:
    for span in (Span(0, 2), Span(1, 4), Span(2, 6), Span(0, 5), Span(4, 7)):
        document = Document(
            "d", "Rome is", Annotation((Entity(span, "X"),)), (Span(0, 4), Span(5, 7)), (Span(0, 2),), ((span,),)
        )
        assert written_and_read("jsonl", [document]) == [document]


def test_jsonl_gives_back_fragments_that_are_neighbouring_words(written_and_read: Through) -> None:
    entity = Entity(Span(0, 2), "X", (Span(0, 1), Span(1, 2)))
    document = from_words("d", [["New", "York"]], Annotation((entity,)))
    assert document.annotation.entities[0].fragments == (Span(0, 3), Span(4, 8))
    assert written_and_read("jsonl", [document]) == [document]


def test_jsonl_gives_back_words_of_white_space(written_and_read: Through) -> None:
    document = Document("d", "a    c", words=(Span(0, 1), Span(1, 3), Span(5, 6)), sentences=(Span(0, 3),))
    assert written_and_read("jsonl", [document]) == [document]


def test_jsonl_gives_back_equal_entities_with_what_hangs_on_each(written_and_read: Through) -> None:
    one, two = Entity(Span(0, 1), "X", id="a", score=0.1), Entity(Span(0, 1), "X", id="b", score=0.2)
    relations = (Relation(two, one, "R"), Relation(two, one, "R", id="r"))
    document = Document(
        "d", "x", Annotation((one, two), relations), attributes=(Attribute(two, "N"), Attribute(relations[1], "M"))
    )
    (found,) = written_and_read("jsonl", [document])
    assert found == document
    assert [(r.head.id, r.tail.id) for r in found.annotation.relations] == [("b", "a")] * 2
    record = to_record(document)
    assert "attributes" not in record["entities"][0]
    assert record["entities"][1]["attributes"] == {"N": True}
    assert "attributes" not in record["relations"][0]


def test_jsonl_writes_words_where_the_text_is_nothing_more() -> None:
    record = to_record(from_words("d", [["a", "b"], ["c"]], Annotation((Entity(Span(2, 3), "X"),))))
    assert record == {
        "id": "d",
        "words": ["a", "b", "c"],
        "sentences": [[0, 2], [2, 3]],
        "entities": [{"id": "T1", "start": 2, "end": 3, "label": "X"}],
        "relations": [],
    }


def test_jsonl_writes_text_and_surfaces_where_it_must() -> None:
    entity = Entity(Span(0, 5), "X", (Span(0, 1), Span(3, 5)))
    record = to_record(Document("d", "a  b ", Annotation((entity,)), (Span(0, 1), Span(3, 4)), (Span(0, 2),)))
    assert record == {
        "id": "d",
        "text": "a  b ",
        "word_offsets": [[0, 1], [3, 4]],
        "entities": [{"id": "T1", "start": 0, "end": 5, "fragments": [[0, 1], [3, 5]], "text": "a b ", "label": "X"}],
        "relations": [],
    }


def test_jsonl_annotation_record_names_every_entity() -> None:
    a, b = Entity(Span(0, 1), "X"), Entity(Span(1, 2), "Y", score=0.5, id="T1")
    assert annotation_record(Annotation((a, b), (Relation(a, b, "R", 0.25, "R1"),))) == {
        "entities": [
            {"id": "T2", "start": 0, "end": 1, "label": "X"},
            {"id": "T1", "start": 1, "end": 2, "label": "Y", "score": 0.5},
        ],
        "relations": [{"id": "R1", "head": "T2", "tail": "T1", "label": "R", "score": 0.25}],
    }


def test_jsonl_writes_plain_utf_8_one_record_a_line(tmp_path: Path) -> None:
    documents = [Document("a", "é\n\u2028\r"), Document("b", "🙂")]
    write(tmp_path / "out.jsonl", documents)
    content = (tmp_path / "out.jsonl").read_bytes()
    assert content.count(b"\n") == 2
    assert "é".encode() in content
    assert "🙂".encode() in content
    assert b"\r" not in content
    assert list(read(tmp_path / "out.jsonl", Problems())) == documents


def test_jsonl_writing_nothing_makes_an_empty_file(tmp_path: Path) -> None:
    write(tmp_path / "out.jsonl", [])
    assert (tmp_path / "out.jsonl").read_bytes() == b""
    assert list(read(tmp_path / "out.jsonl", Problems())) == []


def test_jsonl_streams_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n' * 3 + "broken\n", encoding="utf-8")
    problems = Problems()
    documents = read(path, problems)
    assert next(documents).id == "in-1"
    assert problems.count == 0


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 20) | st.floats() | st.text(max_size=3) | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["start", "end", "label", "id", "x"]), inner)
    ),
    max_leaves=6,
)


@settings(max_examples=150)
@given(data=st.data())
def test_jsonl_of_any_values_is_read_and_written_back_or_reported(
    data: st.DataObject, read_as: ReadAs, written_and_read: Through
) -> None:
    record = json.loads(json.dumps(data.draw(st.sampled_from([TEXT, WORDS]))))
    target = record
    for _ in range(data.draw(st.integers(1, 4))):
        key = data.draw(st.sampled_from(list(target) if isinstance(target, dict) else list(range(len(target)))))
        if isinstance(target[key], dict | list) and target[key] and data.draw(st.booleans()):
            target = target[key]
        else:
            target[key] = data.draw(VALUES)
            break
    documents, problems = read_as("jsonl", json.dumps(record))
    assert len(documents) + problems.count == 1
    assert all(str(problem).isprintable() for problem in problems.kept)
    assert written_and_read("jsonl", documents) == documents


@given(data=st.data())
def test_jsonl_of_any_damage_is_reported(data: st.DataObject, read_as: ReadAs) -> None:
    whole = json.dumps(TEXT).encode()
    content = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4) if content else st.just([])):
        content[place] = data.draw(st.integers(0, 255))
    documents, problems = read_as("jsonl", bytes(content))
    assert len(documents) + problems.count >= (1 if content.strip() else 0)


def test_jsonl_says_what_it_holds() -> None:
    limits = {"words": False, "metadata_keys": (), "attribute_names": (), "line_breaks": None}
    assert asdict(FORMAT.holds) == {field.name: True for field in fields(Holds)} | limits
