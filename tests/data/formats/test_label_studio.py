from __future__ import annotations

import json
import re
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relatum.data.conversion import convert_corpus
from relatum.data.corpus import open_corpus
from relatum.data.fitting import Policy
from relatum.data.formats import jsonl
from relatum.data.formats.label_studio import FORMAT
from relatum.data.problems import Problems
from relatum.data.records import BadRecord
from relatum.data.splitting import make_splitter
from relatum.errors import DataError, FormatError
from relatum.schema import RelationType, Schema
from relatum.types import Annotation, Document, Entity, Relation, Span

TEXT = "Sony bought Columbia."
# As the program exports it, with what this package has no use for.
EXPORT = """[
  {
    "id": 7,
    "annotations": [
      {
        "id": 12,
        "completed_by": 1,
        "result": [
          {"value": {"start": 0, "end": 4, "text": "Sony", "labels": ["Org"]},
           "id": "aX_3", "from_name": "label", "to_name": "text", "type": "labels", "origin": "manual"},
          {"value": {"start": 12, "end": 20, "text": "Columbia", "labels": ["Org"]},
           "id": "bY-4", "from_name": "label", "to_name": "text", "type": "labels", "score": 0.75},
          {"from_id": "aX_3", "to_id": "bY-4", "type": "relation", "direction": "right", "labels": ["Buys"]}
        ],
        "was_cancelled": false,
        "ground_truth": false,
        "created_at": "2024-03-09T22:16:08.728353Z",
        "lead_time": 4.288,
        "task": 7
      }
    ],
    "file_upload": "news.json",
    "drafts": [],
    "predictions": [],
    "data": {"text": "Sony bought Columbia."},
    "meta": {},
    "created_at": "2024-03-09T21:52:49.513742Z",
    "inner_id": 1,
    "total_annotations": 1,
    "project": 83
  }
]
"""
SONY, COLUMBIA = Entity(Span(0, 4), "Org"), Entity(Span(12, 20), "Org")


def read(path: Path, content: str | bytes | list[Any]) -> tuple[list[Document], Problems]:
    if isinstance(content, list):
        content = json.dumps(content)
    file = path / "data.json"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    problems = Problems()
    return list(FORMAT.read(file, problems)), problems


def read_one(path: Path, task: dict[str, Any]) -> tuple[Document, Problems]:
    documents, problems = read(path, [task])
    problems.raise_if_any()
    (document,) = documents
    return document, problems


def read_bad(path: Path, task: dict[str, Any]) -> str:
    documents, problems = read(path, [task])
    assert documents == []
    assert not problems.remarks
    (problem,) = problems.kept
    assert (problem.line, problem.record) == (1, 1)
    return f"{problem.field}: found {problem.found}; expected {problem.expected}"


def region(start: object, end: object, *labels: str, id: str | None = None, **more: Any) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "labels", "from_name": "label", "to_name": "text", **more}
    item["value"] = {"start": start, "end": end, "labels": list(labels), **more.get("value", {})}
    return item if id is None else {**item, "id": id}


def relation(head: str, tail: str, *labels: str, **more: Any) -> dict[str, Any]:
    return {"type": "relation", "from_id": head, "to_id": tail, "labels": list(labels), **more}


def task(*result: dict[str, Any], text: str = TEXT, **more: Any) -> dict[str, Any]:
    return {"id": 1, "data": {"text": text}, "annotations": [{"result": list(result)}], **more}


def written_and_read(path: Path, *documents: Document) -> list[Document]:
    assert FORMAT.check is not None
    for document in documents:
        FORMAT.check(document)
    FORMAT.write(path / "out.json", documents)
    problems = Problems()
    found = list(FORMAT.read(path / "out.json", problems))
    problems.raise_if_any()
    return found


def test_read_takes_an_export(tmp_path: Path) -> None:
    (document,), problems = read(tmp_path, EXPORT)
    assert document == Document("7", TEXT, Annotation((SONY, COLUMBIA), (Relation(SONY, COLUMBIA, "Buys"),)))
    assert [(entity.id, entity.score) for entity in document.annotation.entities] == [("aX_3", None), ("bY-4", 0.75)]
    assert problems.count == 0
    assert not problems.remarks


def test_read_takes_the_completions_of_old_exports(tmp_path: Path) -> None:
    old = task(region(0, 4, "Org"))
    old["completions"] = old.pop("annotations")
    assert read_one(tmp_path, old)[0].annotation.entities == (SONY,)
    assert read_one(tmp_path, {**old, "annotations": []})[0].annotation.entities == (SONY,)


def test_read_names_tasks_without_id_by_their_number(tmp_path: Path) -> None:
    documents, _ = read(tmp_path, [{"data": {"text": "a"}, "annotations": [{"result": []}]}] * 2)
    assert [document.id for document in documents] == ["data-1", "data-2"]


@pytest.mark.parametrize(
    ("data", "more", "text"),
    [
        ({"text": "a", "title": "b"}, {}, "a"),
        ({"text": "a", "title": "b"}, {"to_name": "title"}, "b"),
        ({"text": "a", "title": "b"}, {"source": "$title"}, "b"),
        ({"text": "a", "n": "b"}, {"source": "$gone", "to_name": "gone"}, "a"),
        ({"body": "a", "year": 1999}, {"to_name": "message"}, "a"),
    ],
)
def test_read_finds_the_column_of_the_text(
    tmp_path: Path, data: dict[str, Any], more: dict[str, Any], text: str
) -> None:
    document, _ = read_one(tmp_path, {**task(region(0, 1, "N", **more)), "data": data})
    assert document.text == text
    assert document.metadata == {"label_studio_data": {key: value for key, value in data.items() if value != text}}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"a": "x", "b": "y"}, "data: found the strings 'a', 'b'; expected the key 'text', or one string only"),
        ({"a": 1}, "data: found the strings none; expected the key 'text', or one string only"),
        ({"text": 1}, "data.text: found 1; expected a string"),
        ({"text": "\ud800"}, "data.text: found the lone surrogate U+D800 at character 0; expected valid Unicode text"),
        ([1], "data: found [1]; expected an object"),
    ],
)
def test_read_reports_data_without_a_text(tmp_path: Path, data: object, expected: str) -> None:
    assert read_bad(tmp_path, {"id": 1, "data": data, "annotations": [{"result": []}]}) == expected


def test_read_reports_regions_on_several_texts(tmp_path: Path) -> None:
    bad = read_bad(tmp_path, task(region(0, 1, "N"), region(0, 1, "N", to_name="title")))
    assert bad == 'data: found regions on "text", "title"; expected all regions on one text'


@pytest.mark.parametrize(
    ("annotations", "label", "remarks"),
    [
        ([("a", {}), ("b", {"ground_truth": True}), ("c", {})], "b", {"annotation beside the one that was read": 2}),
        ([("a", {"was_cancelled": True}), ("b", {}), ("c", {})], "b", {"annotation beside the one that was read": 2}),
        (
            [("a", {"was_cancelled": True, "ground_truth": True}), ("b", {"was_cancelled": False})],
            "b",
            {"annotation beside the one that was read": 1},
        ),
    ],
)
def test_read_chooses_one_annotation_and_counts_the_others(
    tmp_path: Path, annotations: list[tuple[str, dict[str, Any]]], label: str, remarks: dict[str, int]
) -> None:
    several = [{"result": [region(0, 4, label)], **more} for label, more in annotations]
    document, problems = read_one(tmp_path, {**task(), "annotations": several})
    assert [entity.label for entity in document.annotation.entities] == [label]
    assert problems.remarks == remarks


@pytest.mark.parametrize(
    ("annotations", "remark"),
    [
        (None, "task that nobody has annotated, left out"),
        ([], "task that nobody has annotated, left out"),
        ([{"result": [], "was_cancelled": True}] * 2, "task whose annotations were all cancelled, left out"),
    ],
)
def test_read_leaves_out_tasks_without_an_annotation_whatever_was_predicted(
    tmp_path: Path, annotations: list[Any] | None, remark: str
) -> None:
    predicted = {"result": [region(0, 4, "Org")], "score": 0.9}
    unannotated = {"id": 1, "data": {"text": TEXT}, "annotations": annotations, "predictions": [predicted, 17]}
    content = json.dumps([unannotated, task(id=2)]).encode()
    documents, problems = read(tmp_path, content)
    assert [document.id for document in documents] == ["2"]
    assert problems.remarks == {remark: 1, "predictions left out": 2}


def test_read_takes_an_annotation_that_finds_nothing(tmp_path: Path) -> None:
    document, problems = read_one(tmp_path, task(predictions=[{"result": [region(0, 4, "Org")]}]))
    assert document.annotation == Annotation()
    assert problems.remarks == {"predictions left out": 1}


def test_read_says_that_predictions_and_drafts_are_left_out(tmp_path: Path) -> None:
    _, problems = read_one(tmp_path, task(predictions=[{"result": []}] * 2, drafts=[{}]))
    assert problems.remarks == {"predictions left out": 2, "drafts left out": 1}


def test_read_makes_an_entity_of_each_label(tmp_path: Path) -> None:
    items = [region(0, 4, "Org", "Name", id="a"), region(0, 4, "Firm", id="a"), region(12, 20, "Org", id="b")]
    document, problems = read_one(tmp_path, task(*items, relation("a", "b", "Buys")))
    assert [(entity.label, entity.id) for entity in document.annotation.entities] == [
        ("Org", "a"),
        ("Name", None),
        ("Firm", None),
        ("Org", "b"),
    ]
    assert document.annotation.relations == (Relation(SONY, COLUMBIA, "Buys"),)
    assert problems.remarks == {"relation at a region with several labels, read as of the first of them": 1}


def test_read_reports_one_id_at_two_places(tmp_path: Path) -> None:
    bad = read_bad(tmp_path, task(region(0, 4, "Org", id="a"), region(12, 20, "Org", id="a")))
    assert bad == (
        'annotations[0].result[1]: found the region id "a" at another place; expected region ids that differ'
    )


@pytest.mark.parametrize(
    ("direction", "expected"),
    [("right", ["ab"]), (None, ["ab"]), ("left", ["ba"]), ("bi", ["ab", "ba"])],
)
def test_read_follows_the_direction_of_relations(tmp_path: Path, direction: str | None, expected: list[str]) -> None:
    items = [region(0, 4, "a"), region(12, 20, "b")]
    items = [{**item, "id": item["value"]["labels"][0]} for item in items]
    document, problems = read_one(tmp_path, task(*items, relation("a", "b", "R", direction=direction)))
    assert [r.head.label + r.tail.label for r in document.annotation.relations] == expected
    assert problems.remarks == ({"relation in both directions, read as two": 1} if direction == "bi" else {})


def test_read_makes_a_relation_of_each_label(tmp_path: Path) -> None:
    items = [region(0, 4, "Org", id="a"), region(12, 20, "Org", id="b")]
    document, _ = read_one(tmp_path, task(*items, relation("a", "b", "Buys", "Likes", score=0.5)))
    assert document.annotation.relations == (Relation(SONY, COLUMBIA, "Buys"), Relation(SONY, COLUMBIA, "Likes"))
    assert [r.score for r in document.annotation.relations] == [0.5, 0.5]


RESULT = "annotations[0].result[0]"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (relation("a", "b", "R"), f'{RESULT}.from_id: found "a"; expected the id of a region with labels, of the same'),
        (region(3, 3, "N"), "0 <= start < end <= 21, in characters"),
        (region(4, 3, "N"), "0 <= start < end <= 21, in characters"),
        (region(3, 22, "N"), "0 <= start < end <= 21, in characters"),
        (region(-1, 3, "N"), f"{RESULT}.value.start: found -1; expected a number of at least 0"),
        (region("0", 3, "N"), f'{RESULT}.value.start: found "0"; expected a whole number'),
        (region(0.5, 3, "N"), f"{RESULT}.value.start: found 0.5; expected a whole number"),
        (region(0, 10**400, "N"), "0 <= start < end <= 21, in characters"),
        (region(0, 3), f"{RESULT}.value.labels: found []; expected at least one label"),
        (region(0, 3, ""), f'{RESULT}.value.labels[0]: found ""; expected a string that is not empty'),
        (region(0, 3, "N", score="high"), f'{RESULT}.score: found "high"; expected a finite number'),
        (
            region(0, 4, "N", value={"text": "Soni"}),
            f"{RESULT}.value.text: found 'Soni'; expected 'Sony', the characters [0, 4) of the text",
        ),
        ({"value": {}}, f"{RESULT}: found only 'value'; expected the key 'type'"),
        ({"type": 1}, f"{RESULT}.type: found 1; expected a string"),
        ({"type": "labels"}, f"{RESULT}: found only 'type'; expected the key 'value'"),
        ({"type": "relation"}, f"{RESULT}: found only 'type'; expected the key 'from_id'"),
    ],
)
def test_read_reports_what_is_wrong_with_an_item(tmp_path: Path, item: dict[str, Any], expected: str) -> None:
    assert expected in read_bad(tmp_path, task(item))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"labels": []}, "found a relation without label; expected a label in 'labels'"),
        ({"labels": None}, "found a relation without label; expected a label in 'labels'"),
        ({"labels": ["R"], "direction": "up"}, 'direction: found "up"; expected right, left or bi'),
        ({"labels": ["R", "S"], "scores": [1]}, "scores: found [1]; expected a list of 2"),
        ({"labels": ["R"], "to_id": "zz"}, 'to_id: found "zz"; expected the id of a region'),
    ],
)
def test_read_reports_what_is_wrong_with_a_relation(tmp_path: Path, more: dict[str, Any], expected: str) -> None:
    items = [region(0, 4, "Org", id="a"), region(12, 20, "Org", id="b")]
    assert expected in read_bad(tmp_path, task(*items, {**relation("a", "b"), **more}))


@pytest.mark.parametrize(
    "bad",
    [
        {"annotations": {}},
        {"annotations": [1]},
        {"annotations": [{}]},
        {"annotations": [{"result": {}}]},
        {"annotations": [{"result": [1]}]},
        {"id": []},
        {"meta": {"a": "\ud800"}},
        {"annotations": [{"result": [{"type": "choices", "value": "\ud800"}]}]},
    ],
)
def test_read_reports_tasks_of_another_shape(tmp_path: Path, bad: dict[str, Any]) -> None:
    read_bad(tmp_path, {**task(), **bad})


def test_read_names_the_cure_for_json_min(tmp_path: Path) -> None:
    minimal = {"id": 1, "text": TEXT, "label": [{"start": 0, "end": 4, "text": "Sony", "labels": ["Org"]}]}
    assert "export from Label Studio as JSON, not as JSON-MIN" in read_bad(tmp_path, minimal)


def test_read_goes_on_after_a_bad_task_and_gives_its_place(tmp_path: Path) -> None:
    good = json.dumps(task(region(0, 4, "Org")))
    documents, problems = read(tmp_path, f'[{{"id": 2}},\n{good},\n{good}]')
    assert [document.id for document in documents] == ["1"]
    assert [(problem.line, problem.record) for problem in problems.kept] == [(1, 1), (3, 3)]
    assert problems.kept[1].found == 'the id "1" again (first on line 2)'


def test_read_counts_characters_where_the_texts_fit(tmp_path: Path) -> None:
    text = "🙂 Sony 🙂 Sony"
    items = [region(2, 6, "Org", value={"text": "Sony"}), region(0, 1, "Face"), region(9, 13, "Org")]
    document, problems = read_one(tmp_path, task(*items, text=text))
    assert [entity.span.of(text) for entity in document.annotation.entities] == ["Sony", "🙂", "Sony"]
    assert not problems.remarks


def test_read_counts_utf16_units_where_only_that_fits(tmp_path: Path) -> None:
    text = "🙂 Sony 🙂🙂 Sony"
    items = [
        region(3, 7, "Org", value={"text": "Sony"}),
        region(8, 12, "Face"),
        region(13, 17, "Org", value={"text": "Sony"}),
    ]
    document, problems = read_one(tmp_path, task(*items, text=text))
    assert [entity.span for entity in document.annotation.entities] == [Span(2, 6), Span(7, 9), Span(10, 14)]
    assert problems.remarks == {"task whose offsets count UTF-16 units, read so": 1}


def test_read_reports_offsets_in_characters_where_neither_way_of_counting_fits(tmp_path: Path) -> None:
    items = [region(3, 7, "Org", value={"text": "Sony"}), region(1, 4, "N", value={"text": "x"})]
    assert "found 'Sony'; expected 'ony.', the characters [3, 7) of the text" in read_bad(
        tmp_path, task(*items, text="🙂 Sony.")
    )


@pytest.mark.parametrize("surface", ["New\\nYork", "New York", "New\nYork", " New  York ", "", None])
def test_read_passes_over_what_label_studio_changes_in_a_regions_text(tmp_path: Path, surface: str | None) -> None:
    text = "In New \n York"
    document, problems = read_one(tmp_path, task(region(3, 13, "Loc", value={"text": surface}), text=text))
    assert document.annotation.entities == (Entity(Span(3, 13), "Loc"),)
    assert not problems.remarks


def test_read_keeps_other_items_columns_and_meta(tmp_path: Path) -> None:
    others = [
        {"type": "choices", "id": "a", "value": {"choices": ["news"]}, "from_name": "kind", "to_name": "text"},
        {"type": "rating", "value": {"rating": 4}},
    ]
    given_task = task(others[0], region(0, 4, "Org", id="a"), others[1], meta={"by": "me"})
    given_task["data"]["year"] = 1989
    document, problems = read_one(tmp_path, given_task)
    assert document.metadata == {"by": "me", "label_studio_data": {"year": 1989}, "label_studio": others}
    assert problems.remarks == {"result item that is no region or relation, kept as it is": 2}
    assert written_and_read(tmp_path, document) == [document]


def test_read_says_which_properties_of_regions_are_left_out(tmp_path: Path) -> None:
    _, problems = read_one(tmp_path, task(region(0, 4, "Org", meta={"text": ["sure?"]}, origin="manual")))
    assert problems.remarks == {"property 'meta' of a region left out": 1}


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[", b"[1]", b'[{"data": {"text": "x"', b"\xff\xfe[", b"[\xff]", b"[" * 100_000]
)
def test_read_reports_files_that_are_no_array_of_tasks(tmp_path: Path, content: bytes) -> None:
    documents, problems = read(tmp_path, content)
    assert documents == []
    assert problems.count == 1


def test_recognise_looks_at_the_first_task(tmp_path: Path) -> None:
    def recognised(content: str | bytes) -> bool:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return FORMAT.recognise(path)

    assert recognised(EXPORT)
    assert recognised("\ufeff" + EXPORT)
    assert recognised('[{"data": {"text": "x"}, "completions": []}]')
    assert not recognised('[{"id": 1, "text": "x", "label": [], "annotation_id": 3}]')
    assert not recognised('[{"data": {"text": "x"}}]')
    assert not recognised('[{"data": "x", "annotations": []}]')
    assert not recognised("[[]]")
    assert not recognised(b"\xff\x00")
    assert not recognised("")
    assert not FORMAT.recognise(tmp_path)
    assert not FORMAT.recognise(tmp_path / "nothing\0here")


def test_write_makes_the_exact_tasks(tmp_path: Path) -> None:
    text = "🙂 Sony bought Columbia."
    sony, columbia = Entity(Span(2, 6), "Org", id="T3"), Entity(Span(14, 22), "Org", score=0.5, id="x#1")
    relations = (
        Relation(sony, columbia, "Buys", id="R1"),
        Relation(columbia, sony, "Of", score=0.25),
        Relation(sony, columbia, "Likes", score=0.75),
    )
    document = Document(
        "abc#3",
        text,
        Annotation((sony, columbia), relations),
        metadata={"label_studio": [{"type": "rating"}], "label_studio_data": {"year": 1989}, "by": "me"},
    )
    FORMAT.write(tmp_path / "out.json", [document, Document("12", "")])
    names = {"from_name": "label", "to_name": "text", "type": "labels"}
    assert json.loads((tmp_path / "out.json").read_text()) == [
        {
            "id": "abc#3",
            "data": {"text": text, "year": 1989},
            "annotations": [
                {
                    "result": [
                        {"id": "T3", **names, "value": {"start": 2, "end": 6, "text": "Sony", "labels": ["Org"]}},
                        {
                            "id": "T1",
                            **names,
                            "value": {"start": 14, "end": 22, "text": "Columbia", "labels": ["Org"]},
                            "score": 0.5,
                        },
                        {
                            "from_id": "T3",
                            "to_id": "T1",
                            "type": "relation",
                            "direction": "right",
                            "labels": ["Buys", "Likes"],
                            "scores": [None, 0.75],
                            "ids": ["R1", None],
                        },
                        {
                            "from_id": "T1",
                            "to_id": "T3",
                            "type": "relation",
                            "direction": "right",
                            "labels": ["Of"],
                            "score": 0.25,
                        },
                        {"type": "rating"},
                    ],
                    "was_cancelled": False,
                    "ground_truth": False,
                }
            ],
            "predictions": [],
            "meta": {"by": "me"},
        },
        {
            "id": 12,
            "data": {"text": ""},
            "annotations": [{"result": [], "was_cancelled": False, "ground_truth": False}],
            "predictions": [],
        },
    ]
    assert FORMAT.recognise(tmp_path / "out.json")


def test_write_says_nothing_twice_for_an_ordered_pair_of_regions(tmp_path: Path) -> None:
    document = Document("d", TEXT, Annotation((SONY, COLUMBIA), (Relation(SONY, COLUMBIA, "R"),) * 3))
    FORMAT.write(tmp_path / "out.json", [document])
    (task,) = json.loads((tmp_path / "out.json").read_text())
    assert [item["type"] for item in task["annotations"][0]["result"]] == ["labels", "labels", "relation"]


BROKEN = Entity(Span(0, 20), "Org", (Span(0, 4), Span(12, 20)))


def test_discontinuous_entities_are_refused(tmp_path: Path) -> None:
    assert FORMAT.check is not None
    document = Document("d#1", TEXT, Annotation((BROKEN,)))
    with pytest.raises(BadRecord) as caught:
        FORMAT.check(document)
    assert caught.value.found == "the discontinuous entity Org 'Sony … Columbia'"
    assert caught.value.expected == "entities of one piece, as Label Studio holds no others"
    with pytest.raises(FormatError, match=re.escape(f"document 'd#1': found {caught.value.found}; expected entities")):
        FORMAT.write(tmp_path / "out.json", [document])


def test_convert_reports_every_document_that_label_studio_cannot_hold_or_skips_them(tmp_path: Path) -> None:
    source, target = tmp_path / "source.jsonl", tmp_path / "target.json"
    jsonl.FORMAT.write(
        source,
        [
            Document("a", TEXT, Annotation((BROKEN,))),
            Document("b", TEXT, Annotation((SONY, COLUMBIA))),
            Document("c", TEXT, Annotation((SONY, BROKEN))),
        ],
    )
    corpus, splitter = open_corpus(source), make_splitter("rules", "rules")
    with pytest.raises(DataError) as caught:
        convert_corpus(corpus, target, FORMAT, splitter, Policy())
    assert [(problem.path, problem.field) for problem in caught.value.problems] == [
        (str(source), "document 'a'"),
        (str(source), "document 'c'"),
    ]
    assert all(problem.found.startswith("the discontinuous entity Org 'Sony") for problem in caught.value.problems)
    assert all("entities that Label Studio JSON can hold" in problem.expected for problem in caught.value.problems)
    assert not target.exists()
    done = convert_corpus(corpus, target, FORMAT, splitter, Policy(), on_error="skip")
    assert (done.documents, done.problems.count) == ({"source": 1}, 2)
    assert [document.id for document in FORMAT.read(target, Problems())] == ["b"]


def test_companion_lists_labels_and_relations() -> None:
    assert FORMAT.companion is not None
    name, content = FORMAT.companion(Schema(("Loc", 'A "&" B'), (RelationType("Lives <In>"),)))
    assert name == "labeling_config.xml"
    assert content == (
        "<View>\n"
        '  <Relations choice="multiple">\n'
        '    <Relation value="Lives &lt;In&gt;"/>\n'
        "  </Relations>\n"
        '  <Labels name="label" toName="text">\n'
        '    <Label value="Loc"/>\n'
        "    <Label value='A \"&amp;\" B'/>\n"
        "  </Labels>\n"
        '  <Text name="text" value="$text"/>\n'
        "</View>\n"
    )
    ElementTree.fromstring(content)
    assert "Relation" not in FORMAT.companion(Schema(("Loc",)))[1]


STRINGS = st.text(min_size=1, max_size=5)
IDS = STRINGS | st.integers(0, 10**17).map(str) | st.sampled_from(["abc#3", "007", "-1"])
SCORES = st.none() | st.floats(0, 1)
TEXTS = st.text("ab \n\r\t\\n🙂🙂é\u2028漢", max_size=20) | st.text(max_size=20)
PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON: st.SearchStrategy[Any] = (
    PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(st.text(max_size=5), PLAIN, max_size=2)
)


@st.composite
def entities(draw: st.DrawFn, text: str) -> Entity:
    start, end = sorted(draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=2)))
    ids = st.none() | STRINGS | st.sampled_from(["T1", "T2", "a#1"])
    return Entity(Span(start, end), draw(STRINGS), score=draw(SCORES), id=draw(ids))


@st.composite
def documents(draw: st.DrawFn) -> Document:
    text = draw(TEXTS)
    mentions = draw(st.lists(entities(text), max_size=5)) if text else []
    mention = st.sampled_from(mentions) if mentions else st.nothing()
    relations = draw(st.lists(st.builds(Relation, mention, mention, STRINGS, SCORES, st.none() | STRINGS), max_size=5))
    others = st.lists(JSON.map(lambda value: {"type": "choices", "value": value}), min_size=1, max_size=2)
    metadata = draw(st.dictionaries(STRINGS, JSON, max_size=2))
    metadata |= draw(st.fixed_dictionaries({}, optional={"label_studio": others | JSON, "label_studio_data": JSON}))
    return Document(draw(IDS), text, Annotation(tuple(mentions), tuple(relations)), metadata=metadata)


@settings(deadline=None)
@given(st.lists(documents(), max_size=2, unique_by=lambda document: document.id))
def test_written_documents_read_back_equal(written: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as path:
        found = written_and_read(Path(path), *written)
    assert len(found) == len(written)
    for ours, theirs in zip(written, found, strict=True):
        # The relations of one pair of regions come together; otherwise their order stays.
        without = [replace(document, annotation=Annotation()) for document in (ours, theirs)]
        assert without[0] == without[1]
        assert ours.annotation.entities == theirs.annotation.entities
        assert [e.score for e in ours.annotation.entities] == [e.score for e in theirs.annotation.entities]
        counts = [Counter((r, r.score, r.id) for r in d.annotation.relations) for d in (ours, theirs)]
        assert counts[0] == counts[1]


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """The bytes cut short, or with some of them replaced, left out, doubled or put in."""
    data = bytearray(whole[: draw(st.integers(0, len(whole)))] if draw(st.booleans()) else whole)
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 6)))
        put = [b"null", b"[]", b"{}", b'"', b"-1", b"1e9", b"true", b'"a"', b"\\ud800", b",", b":", b"}"]
        data[start:end] = draw(st.binary(max_size=3) | st.sampled_from(put))
    return bytes(data)


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 30)
    | st.sampled_from([10**30, 0.5, "", "a", "text", "labels", "relation", "bi", "\ud800"])
    | st.sampled_from([[], {}, [[]], ["a"]]).map(deepcopy)  # a later change to one must not reach other examples
)


@st.composite
def twisted(draw: st.DrawFn) -> bytes:
    """An export with some of its values replaced by others, so that it stays JSON."""
    tasks = json.loads(EXPORT)

    def places(value: Any) -> list[tuple[Any, Any]]:
        keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        return [place for key in keys for place in ((value, key), *places(value[key]))]

    for _ in range(draw(st.integers(1, 3))):
        inside, key = draw(st.sampled_from(places(tasks) or [([0], 0)]))
        inside[key] = draw(VALUES)
    return json.dumps(tasks).encode()


@settings(deadline=None)
@given(st.binary(max_size=60) | damaged(EXPORT.encode()) | twisted())
def test_read_makes_documents_or_problems_of_anything(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        found, problems = read(Path(name), content)
        FORMAT.recognise(Path(name) / "data.json")
        assert found or problems.count or re.match(rb"(\xef\xbb\xbf)?\s*\[\s*\]", content)
        written_and_read(Path(name), *found)


def test_read_takes_a_line_of_a_megabyte(tmp_path: Path) -> None:
    text = "x" * 1_000_000
    document, _ = read_one(tmp_path, task(region(0, len(text), "N", value={"text": text}), text=text))
    assert document.annotation.entities[0].span.width == len(text)
    documents, problems = read(tmp_path, b"[" + b"x" * 1_000_000)
    assert documents == []
    assert len(str(problems.kept[0])) < 1000
