from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relatum.data.corpus import open_corpus
from relatum.data.formats.doccano import FORMAT
from relatum.data.problems import Problems
from relatum.types import Annotation, Document, Entity, Relation, Span

TEXT = "Sony 🎬 bought Columbia."
SONY, COLUMBIA = Entity(Span(0, 4), "Org"), Entity(Span(14, 22), "Org")
# As the program exports them: a project with relations, one without, and one of an older version.
WITH_RELATIONS = {
    "id": 6400,
    "text": TEXT,
    "Comments": [],
    "entities": [
        {"id": 1662, "label": "Org", "start_offset": 0, "end_offset": 4},
        {"id": 1663, "label": "Org", "start_offset": 14, "end_offset": 22},
    ],
    "relations": [{"id": 273, "from_id": 1662, "to_id": 1663, "type": "Buys"}],
}
WITHOUT_RELATIONS = {"id": 1, "text": TEXT, "label": [[0, 4, "Org"], [14, 22, "Org"]], "Comments": ["sure?"]}
OLDER = {"id": 2, "data": TEXT, "labels": [[0, 4, "Org"]], "source": "news"}


def read(folder: Path, *records: object) -> tuple[list[Document], Problems]:
    path = folder / "export.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    problems = Problems()
    return list(FORMAT.read(path, problems)), problems


def written_and_read(folder: Path, *documents: Document) -> list[Document]:
    path = folder / "written.jsonl"
    FORMAT.write(path, documents)
    problems = Problems()
    found = list(FORMAT.read(path, problems))
    problems.raise_if_any()
    assert not problems.remarks
    return found


def test_read_takes_an_export_with_relations(tmp_path: Path) -> None:
    (document,), problems = read(tmp_path, WITH_RELATIONS)
    assert document == Document("6400", TEXT, Annotation((SONY, COLUMBIA), (Relation(SONY, COLUMBIA, "Buys"),)))
    assert [entity.id for entity in document.annotation.entities] == ["1662", "1663"]
    assert [relation.id for relation in document.annotation.relations] == ["273"]
    assert not problems.count
    assert not problems.remarks


def test_read_takes_exports_without_relations(tmp_path: Path) -> None:
    documents, problems = read(tmp_path, WITHOUT_RELATIONS, OLDER)
    assert documents == [
        Document("1", TEXT, Annotation((SONY, COLUMBIA)), metadata={"Comments": ["sure?"]}),
        Document("2", TEXT, Annotation((SONY,)), metadata={"source": "news"}),
    ]
    assert not problems.count


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"label": []}, "found only 'label'; expected the key 'text'"),
        ({**WITH_RELATIONS, "text": 5}, ", text: found 5; expected a string"),
        ({**WITHOUT_RELATIONS, "label": ["positive"]}, ', label[0]: found "positive"; expected a list'),
        ({**WITHOUT_RELATIONS, "label": [[0, 4]]}, ", label[0]: found [0, 4]; expected a list of 3"),
        ({**WITHOUT_RELATIONS, "label": [[0, 99, "X"]]}, "expected 0 <= start < end <= 23, in characters"),
        ({"text": "a", "entities": [{"id": 1, "label": "X", "start_offset": 0}]}, "expected the key 'end_offset'"),
        (
            {"text": "a", "entities": [{"id": 1, "label": "X", "start_offset": 0, "end_offset": 1}] * 2},
            ", entities[1]: found the entity id '1' again; expected entity ids that differ",
        ),
        (
            {**WITH_RELATIONS, "relations": [{"id": 1, "from_id": 1662, "to_id": 7, "type": "Buys"}]},
            ", relations[0].to_id: found 7; expected the id of an entity of this record",
        ),
    ],
)
def test_read_reports_what_is_wrong_with_a_record(tmp_path: Path, record: object, message: str) -> None:
    documents, problems = read(tmp_path, OLDER, record)
    assert len(documents) == 1
    (problem,) = problems.kept
    assert str(problem).startswith(f"{tmp_path / 'export.jsonl'}:2 (record 2)")
    assert message in str(problem)


def test_read_says_that_unknown_keys_of_entities_are_not_read(tmp_path: Path) -> None:
    record = {"text": "a", "entities": [{"id": 1, "label": "X", "start_offset": 0, "end_offset": 1, "user": 3}]}
    _, problems = read(tmp_path, record)
    assert problems.remark_lines() == [
        "1 × records whose entities have keys that are not read, beyond end_offset, id, label, start_offset "
        f"(first: {tmp_path / 'export.jsonl'}:1)"
    ]


def test_write_makes_the_exact_lines_with_numbers_that_differ_over_all_texts(tmp_path: Path) -> None:
    annotation = Annotation((SONY, COLUMBIA), (Relation(SONY, COLUMBIA, "Buys"),))
    FORMAT.write(
        tmp_path / "a.jsonl", [Document("7", TEXT, annotation, metadata={"n": 1}), Document("b", "", annotation)]
    )
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert records[0] == {
        "id": 7,
        "text": TEXT,
        "entities": [
            {"id": 0, "label": "Org", "start_offset": 0, "end_offset": 4},
            {"id": 1, "label": "Org", "start_offset": 14, "end_offset": 22},
        ],
        "relations": [{"id": 0, "from_id": 0, "to_id": 1, "type": "Buys"}],
        "n": 1,
    }
    assert records[1]["id"] == "b"
    assert [item["id"] for item in records[1]["entities"]] == [2, 3]
    assert records[1]["relations"] == [{"id": 1, "from_id": 2, "to_id": 3, "type": "Buys"}]


@pytest.mark.parametrize("record", [WITH_RELATIONS, WITHOUT_RELATIONS, OLDER, {"text": "a", "label": []}])
def test_recognise_knows_every_layout(tmp_path: Path, record: object) -> None:
    read(tmp_path, {"text": "Nothing here.", "entities": [], "relations": []}, record)
    assert FORMAT.recognise(tmp_path / "export.jsonl")
    assert open_corpus(tmp_path / "export.jsonl").format_names == "doccano"


@pytest.mark.parametrize(
    "record",
    [
        {"text": "a", "label": ["positive"]},
        {"text": "a", "label": "positive"},
        {"text": "a", "entities": [{"start": 0, "end": 1, "label": "X"}]},
        {"words": ["a"]},
        {"text": "a"},
        ["a"],
    ],
)
def test_recognise_leaves_other_records_alone(tmp_path: Path, record: object) -> None:
    read(tmp_path, record)
    assert not FORMAT.recognise(tmp_path / "export.jsonl")


STRINGS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
# A column of doccano's own name cannot be metadata too; `relatum convert` says that it is left out.
COLUMNS = STRINGS.filter(lambda key: key not in (*FORMAT.keys, "Comments"))
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | STRINGS
JSON: st.SearchStrategy[Any] = PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(STRINGS, PLAIN, max_size=2)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    text = draw(st.text("ab .\n🙂é漢", max_size=20))
    entities: list[Entity] = []
    for _ in range(draw(st.integers(0, 4)) if text else 0):
        start = draw(st.integers(0, len(text) - 1))
        entities.append(Entity(Span(start, draw(st.integers(start + 1, len(text)))), draw(STRINGS)))
    mention = st.sampled_from(entities) if entities else st.nothing()
    relations = draw(st.lists(st.builds(Relation, mention, mention, STRINGS), max_size=4))
    metadata = draw(st.dictionaries(COLUMNS, JSON, max_size=2))
    return Document(draw(STRINGS), text, Annotation(tuple(entities), tuple(relations)), metadata=metadata)


@settings(deadline=None)
@given(st.lists(documents(), max_size=3, unique_by=lambda document: document.id))
def test_written_documents_read_back_equal(written: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as name:
        assert written_and_read(Path(name), *written) == written


WHOLE = "".join(json.dumps(record) + "\n" for record in (WITH_RELATIONS, WITHOUT_RELATIONS, OLDER)).encode()


@settings(deadline=None)
@given(st.data())
def test_read_makes_documents_or_problems_of_anything(data: st.DataObject) -> None:
    content = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        put = st.binary(max_size=3) | st.sampled_from([b"null", b"[]", b"{}", b'"', b"-1", b"1e9", b"\\ud800", b","])
        content[start : start + data.draw(st.integers(0, 6))] = data.draw(put)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "export.jsonl"
        path.write_bytes(content)
        FORMAT.recognise(path)
        problems = Problems()
        found = list(FORMAT.read(path, problems))
        assert found or problems.count
        assert written_and_read(Path(name), *found) == found
