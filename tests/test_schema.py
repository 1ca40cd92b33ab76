from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.errors import SchemaError
from relatum.schema import RelationType, Schema, SchemaBuilder, infer_schema
from relatum.types import Annotation, Entity, Relation, Span

CONLL = Schema(
    ("Loc", "Org", "Peop"),
    (
        RelationType("Live_In", head_labels=("Peop",), tail_labels=("Loc",)),
        RelationType("Sibling", symmetric=True, head_labels=("Peop",), tail_labels=("Peop",)),
        RelationType("Near"),
    ),
)

names = st.lists(st.text(min_size=1, max_size=6), unique=True, max_size=5)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    entities = draw(names)
    some = st.lists(st.sampled_from(entities), unique=True).map(tuple) if entities else st.just(())
    pairs = st.lists(st.tuples(*[st.sampled_from(entities)] * 2)).map(tuple) if entities else st.just(())
    kinds = tuple(RelationType(name, draw(st.booleans()), draw(some), draw(some), draw(pairs)) for name in draw(names))
    return Schema(tuple(entities), kinds)


@given(schemas())
def test_schema_survives_json(schema: Schema) -> None:
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


@given(schemas())
def test_schema_indices_count_from_0_in_the_given_order(schema: Schema) -> None:
    assert [schema.entity_index(name) for name in schema.entity_types] == list(range(len(schema.entity_types)))
    assert [schema.relation_index(name) for name in schema.relation_names] == list(range(len(schema.relation_types)))
    assert [schema.relation_type(name) for name in schema.relation_names] == list(schema.relation_types)


def test_schema_knows_which_relations_are_symmetric() -> None:
    assert CONLL.is_symmetric("Sibling")
    assert not CONLL.is_symmetric("Live_In")
    assert not CONLL.is_symmetric("Unheard_Of")


def test_schema_is_frozen_and_compares_by_its_labels() -> None:
    with pytest.raises(FrozenInstanceError):
        CONLL.entity_types = ()  # type: ignore[misc]
    assert Schema(("A", "B")) == Schema(("A", "B"))
    assert Schema(("A", "B")) != Schema(("B", "A"))


def test_schema_lists_what_it_has_where_a_type_is_unknown() -> None:
    with pytest.raises(SchemaError, match="entity type 'Place' is not in the schema; it has Loc, Org, Peop"):
        CONLL.entity_index("Place")
    with pytest.raises(SchemaError, match="relation type 'Kill' is not in the schema; it has Live_In, Sibling, Near"):
        CONLL.relation_type("Kill")
    with pytest.raises(SchemaError, match="relation type 'Kill' is not in the schema; it has none"):
        Schema(("A",)).relation_index("Kill")


def test_schema_refuses_a_name_that_stands_twice() -> None:
    with pytest.raises(SchemaError, match="entity type 'A' stands twice"):
        Schema(("A", "B", "A"))
    with pytest.raises(SchemaError, match="relation type 'R' stands twice"):
        Schema(("A",), (RelationType("R"), RelationType("R", symmetric=True)))


def test_schema_refuses_an_empty_name() -> None:
    with pytest.raises(SchemaError, match="an entity type has an empty name"):
        Schema(("A", ""))
    with pytest.raises(SchemaError, match="a relation type has an empty name"):
        Schema(("A",), (RelationType(""),))


def test_schema_refuses_a_signature_of_unknown_entity_types() -> None:
    with pytest.raises(SchemaError, match="'R' names the entity type 'C', which the schema does not have; it has A, B"):
        Schema(("A", "B"), (RelationType("R", head_labels=("A",), tail_labels=("C",)),))


def test_schema_refuses_pairs_that_are_none() -> None:
    with pytest.raises(SchemaError, match="'R' names the entity type 'C', which the schema does not have"):
        Schema(("A", "B"), (RelationType("R", pairs=(("A", "C"),)),))
    for pair in (["A"], ["A", "A", "A"], "AA", [1, 2]):
        with pytest.raises(SchemaError, match="relation type 'R', pairs: found"):
            Schema.from_dict({"entity_types": ["A"], "relation_types": [{"name": "R", "pairs": [pair]}]})


def test_schema_of_models_without_pairs_is_written_as_it_was() -> None:
    assert all("pairs" not in kind for kind in CONLL.to_dict()["relation_types"])


def test_relation_type_allows_what_its_labels_or_its_pairs_say() -> None:
    live, sibling, near = CONLL.relation_types
    assert live.allows("Peop", "Loc")
    assert not live.allows("Loc", "Peop")
    assert not live.allows("Peop", "Org")
    assert sibling.allows("Peop", "Peop")
    assert near.allows("Loc", "whatever")
    paired = RelationType("R", False, ("A", "B"), ("A", "B"), (("A", "B"),))
    assert paired.allows("A", "B")
    assert not paired.allows("B", "A")
    assert not paired.allows("A", "A")
    assert RelationType("R", True, pairs=(("A", "B"),)).allows("B", "A")
    assert RelationType("R", True, ("A",), ("B",)).allows("B", "A")


def test_schema_reads_the_types_file_of_spert() -> None:
    record = {
        "entities": {"Loc": {"short": "Loc", "verbose": "Location"}, "Peop": {"short": "Peop", "verbose": "People"}},
        "relations": {
            "Live_In": {"short": "Live", "verbose": "Live in", "symmetric": False},
            "Sibling": {"short": "Sib", "verbose": "Sibling", "symmetric": True},
        },
    }
    schema = Schema.from_dict(record)
    assert schema == Schema(("Loc", "Peop"), (RelationType("Live_In"), RelationType("Sibling", symmetric=True)))


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"entities": {"A": {}}},
        {"relations": {}},
        {"entity_types": 5},
        {"entity_types": None},
        {"entity_types": ["A"], "relation_types": [{"symmetric": True}]},
        {"entity_types": ["A"], "relation_types": ["R"]},
        {"entity_types": ["A"], "relation_types": 7},
        {"entities": {"A": {}}, "relations": {"R": None}},
        {"entities": {"A": {}}, "relations": ["R"]},
        {"entities": [["A"]], "relations": {}},
    ],
)
def test_schema_of_the_wrong_shape_is_a_schema_error_that_says_what_is_needed(record: dict[str, object]) -> None:
    with pytest.raises(SchemaError, match=r"'entity_types' and 'relation_types' .* 'entities' and 'relations'"):
        Schema.from_dict(record)


@pytest.mark.parametrize(
    "record",
    [
        {"entity_types": "Loc"},
        {"entity_types": ["Loc", None]},
        {"entity_types": ["Loc", 1]},
        {"entity_types": ["Loc"], "relation_types": [{"name": None}]},
        {"entity_types": ["Loc"], "relation_types": [{"name": "R", "symmetric": "false"}]},
        {"entities": "Loc", "relations": {}},
        {"entities": {}, "relations": {"R": {"symmetric": "no"}}},
    ],
)
def test_schema_does_not_bend_values_of_the_wrong_type_into_labels(record: dict[str, object]) -> None:
    with pytest.raises(SchemaError):
        Schema.from_dict(record)


@pytest.mark.parametrize(
    ("key", "record"),
    [
        ("relation_type", {"entity_types": ["Loc"], "relation_type": [{"name": "R"}]}),
        ("symetric", {"entity_types": ["Loc"], "relation_types": [{"name": "R", "symetric": True}]}),
    ],
)
def test_schema_refuses_a_misspelt_key(key: str, record: dict[str, object]) -> None:
    with pytest.raises(SchemaError, match=key):
        Schema.from_dict(record)


def test_schema_loads_from_a_file_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    text = json.dumps(CONLL.to_dict())
    for encoding in ("utf-8", "utf-8-sig"):
        (tmp_path / "schema.json").write_text(text, encoding=encoding)
        assert Schema.load(tmp_path / "schema.json") == CONLL
        assert Schema.load(str(tmp_path / "schema.json")) == CONLL


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b"null",
        b"\xff\xfe{\x00}\x00",
        b"\x80",
        b"[" * 100_000,
        b'{"entity_types": [' + b"9" * 5000 + b"]}",
        b'{"entity_types": ["A", "A"]}',
    ],
)
def test_schema_file_that_is_bad_is_named_in_the_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "schema.json"
    path.write_bytes(content)
    with pytest.raises(SchemaError) as caught:
        Schema.load(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_schema_file_that_is_missing_or_a_folder_is_named_in_the_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(SchemaError) as caught:
            Schema.load(path)
        assert str(caught.value).startswith(f"{path}: ")


def _entity(start: int, label: str) -> Entity:
    return Entity(Span(start, start + 1), label)


def test_infer_schema_gathers_types_and_signatures_ordered_by_name() -> None:
    peop, loc, org = _entity(0, "Peop"), _entity(1, "Loc"), _entity(2, "Org")
    annotations = [
        Annotation((peop, loc), (Relation(peop, loc, "Live_In"),)),
        Annotation((org, loc), (Relation(org, loc, "Based_In"), Relation(org, loc, "Live_In"))),
        Annotation((_entity(0, "Other"),)),
        Annotation(),
    ]
    assert infer_schema(iter(annotations)) == Schema(
        ("Loc", "Org", "Other", "Peop"),
        (
            RelationType("Based_In", False, ("Org",), ("Loc",)),
            RelationType("Live_In", False, ("Org", "Peop"), ("Loc",)),
        ),
    )


def test_schema_builder_gives_the_same_schema_in_any_order() -> None:
    a, b = _entity(0, "A"), _entity(1, "B")
    annotations = [Annotation((a, b), (Relation(a, b, "R"),)), Annotation((b, a), (Relation(b, a, "Q"),))]
    forth, back = SchemaBuilder(), SchemaBuilder()
    for one, other in zip(annotations, reversed(annotations), strict=True):
        forth.add(one)
        back.add(other)
    assert forth.build() == back.build()


def test_infer_schema_lists_pairs_only_where_labels_alone_would_say_more() -> None:
    peop, loc, org = _entity(0, "Peop"), _entity(1, "Loc"), _entity(2, "Org")
    some = (Relation(peop, loc, "In"), Relation(org, peop, "In"), Relation(peop, loc, "In"))
    (kind,) = infer_schema([Annotation((peop, loc, org), some)]).relation_types
    assert kind == RelationType("In", False, ("Org", "Peop"), ("Loc", "Peop"), (("Org", "Peop"), ("Peop", "Loc")))
    rest = (Relation(org, loc, "In"), Relation(peop, _entity(3, "Peop"), "In"))
    (kind,) = infer_schema([Annotation((peop, loc, org), (*some, *rest))]).relation_types
    assert kind == RelationType("In", False, ("Org", "Peop"), ("Loc", "Peop"))


def test_infer_schema_of_nothing_is_empty() -> None:
    assert infer_schema([]) == Schema(())


def test_load_refuses_a_type_that_stands_twice(tmp_path: Path) -> None:
    path = tmp_path / "types.json"
    path.write_text('{"entities": {"Loc": {}}, "relations": {"In": {"symmetric": true}, "In": {}}}')
    with pytest.raises(SchemaError, match='the key "In" stands twice in one object; remove one'):
        Schema.load(path)
