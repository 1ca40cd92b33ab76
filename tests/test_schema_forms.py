"""Schemas as JSON Schema, and from classes of pydantic."""

from __future__ import annotations

import json
from typing import Any, Literal, Optional

import jsonschema
import pytest
from pydantic import BaseModel, ConfigDict, Field

from relatum.errors import SchemaError
from relatum.extractor.result import Extraction
from relatum.schema import RelationType, Schema
from relatum.types import Annotation, Entity, Relation, Span

SCHEMA = Schema(
    ("Peop", "Org", "Loc"),
    (
        RelationType("Work_For", head_labels=("Peop",), tail_labels=("Org",)),
        RelationType("Near", symmetric=True),
        RelationType("In", False, ("Org", "Loc"), ("Loc", "Org"), (("Org", "Loc"), ("Loc", "Loc"))),
    ),
)


def is_valid(schema: Schema, record: object) -> bool:
    described = schema.to_json_schema()
    jsonschema.Draft202012Validator.check_schema(described)
    return bool(jsonschema.Draft202012Validator(described).is_valid(record))


def extraction(score: float | None = 0.75) -> Extraction:
    ada, bank = Entity(Span(0, 3), "Peop", score=score), Entity(Span(14, 18), "Org")
    return Extraction.of("Ada runs the  Bank", Annotation((ada, bank), (Relation(ada, bank, "Work_For", score),)))


@pytest.mark.parametrize("score", [0.75, 0.0, 1.0, None])
def test_json_schema_accepts_every_extraction(score: float | None) -> None:
    assert is_valid(SCHEMA, extraction(score).to_dict())
    assert is_valid(SCHEMA, Extraction.of("", Annotation()).to_dict())
    assert is_valid(Schema(("Peop",)), Extraction.of("", Annotation()).to_dict())


def changed(*path: str | int, to: object) -> dict[str, Any]:
    record: Any = extraction().to_dict()
    inner = record
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    assert isinstance(record, dict)
    return record


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("text",), 1),
        (("more",), 1),
        (("entities", 0, "label"), "Gene"),
        (("entities", 0, "start"), -1),
        (("entities", 0, "start"), 0.5),
        (("entities", 0, "score"), 1.1),
        (("entities", 0, "more"), 1),
        (("relations", 0, "label"), "Peop"),
        (("relations", 0, "head"), 1),
    ],
)
def test_json_schema_refuses_everything_else(path: tuple[str | int, ...], value: object) -> None:
    assert not is_valid(SCHEMA, changed(*path, to=value))


def test_json_schema_of_a_schema_without_relations_allows_none() -> None:
    assert not is_valid(Schema(("Peop", "Org")), extraction().to_dict())


@pytest.mark.parametrize("schema", [SCHEMA, Schema(("A",)), Schema(("A",), (RelationType("r"),))])
def test_json_schema_reads_back(schema: Schema) -> None:
    assert Schema.from_json_schema(json.loads(json.dumps(schema.to_json_schema()))) == schema


class FoundEntity(BaseModel):
    id: str
    label: Literal["Peop", "Org"]


class FoundRelation(BaseModel):
    label: Literal["Work_For"]


class Found(BaseModel):
    text: str
    entities: list[FoundEntity]
    relations: list[FoundRelation]


def test_labels_are_read_from_the_json_schema_of_others() -> None:
    expected = Schema(("Peop", "Org"), (RelationType("Work_For"),))
    assert Schema.from_json_schema(Found.model_json_schema()) == expected


def test_references_to_names_with_slashes_are_followed() -> None:
    labels: dict[str, Any] = {"items": {"properties": {"label": {"enum": ["Org"]}}}}
    record = {
        "properties": {"entities": {"$ref": "#/$defs/a~1b~0c"}, "relations": labels},
        "$defs": {"a/b~c": labels},
    }
    assert Schema.from_json_schema(record).entity_types == ("Org",)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "^found list, expected a JSON Schema: a dict"),
        ({}, r"^entities: found None, expected a JSON Schema of extractions"),
        ({"properties": {"entities": {"items": {"$ref": "#"}}}}, r"^entities\[\]: found None"),
        ({"properties": {"entities": {"$ref": "#/properties/entities"}}}, "^entities: found"),
        (
            {"properties": {"entities": {"items": {"properties": {"label": {"type": "string"}}}}}},
            r"^entities\[\]\.label: found None, expected an enum of strings",
        ),
    ],
)
def test_other_json_schemas_are_refused(record: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.from_json_schema(record)


def test_json_schema_that_contradicts_itself_is_refused() -> None:
    record = SCHEMA.to_json_schema()
    record["properties"]["relations"]["items"]["properties"]["label"]["enum"] = ["Near"]
    with pytest.raises(SchemaError, match=r"x-relation-types has Work_For, Near, In, but the enum"):
        Schema.from_json_schema(record)


class Place(BaseModel):
    name: str
    part_of: Place | None = None
    twins: list[Place] = Field([], json_schema_extra={"symmetric": True})


class Company(BaseModel):
    model_config = ConfigDict(title="Org")
    name: str
    based_in: list[Place] = Field([], alias="OrgBased_In")


class Person(BaseModel):
    name: str
    lives_in: Optional[Place] = None  # noqa: UP045
    knows: tuple[Person | Company, ...] = ()


class WorksFor(BaseModel):
    head: Person
    tail: Company | Place
    score: float = 1.0


def test_classes_are_entity_types_and_fields_are_relation_types() -> None:
    assert Schema.from_pydantic(Person, WorksFor) == Schema(
        ("Person", "Place", "Org"),
        (
            RelationType("lives_in", head_labels=("Person",), tail_labels=("Place",)),
            RelationType("knows", head_labels=("Person",), tail_labels=("Org", "Person")),
            RelationType("WorksFor", head_labels=("Person",), tail_labels=("Org", "Place")),
            RelationType("part_of", head_labels=("Place",), tail_labels=("Place",)),
            RelationType("twins", True, ("Place",), ("Place",)),
            RelationType("OrgBased_In", head_labels=("Org",), tail_labels=("Place",)),
        ),
    )


def test_a_field_of_several_classes_is_one_relation_type_with_its_pairs() -> None:
    class Ship(BaseModel):
        knows: Place

    (kind,) = [kind for kind in Schema.from_pydantic(Person, Ship).relation_types if kind.name == "knows"]
    assert kind.pairs == (("Person", "Person"), ("Person", "Org"), ("Ship", "Place"))


def test_classes_may_be_defined_in_any_order_and_place() -> None:
    class Uses(BaseModel):
        head: Drug
        tail: Disease

    class Drug(BaseModel):
        name: str

    class Disease(BaseModel):
        name: str

    schema = Schema.from_pydantic(Uses, Drug, Disease)
    assert (schema.entity_types, schema.relation_names) == (("Drug", "Disease"), ("Uses",))


class Aged(BaseModel):
    age: int


class Mixed(BaseModel):
    home: Place | str


class Dangling(BaseModel):
    home: Nowhere  # type: ignore[name-defined]  # noqa: F821


class OfRelation(BaseModel):
    head: WorksFor
    tail: Place


class HasRelation(BaseModel):
    work: WorksFor


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Aged, r"^Aged\.age: found int, expected another class that derives from BaseModel.*leave the field out"),
        (Mixed, r"^Mixed\.home: found str, expected"),
        (Dangling, r"^Dangling: .*Nowhere.*define the class"),
        (OfRelation, r"^OfRelation: WorksFor is a relation; expected the class of an entity"),
        (HasRelation, r"^HasRelation\.work names a relation; expected the class of an entity"),
        (int, r"^found <class 'int'>, expected classes that derive from pydantic"),
    ],
)
def test_what_is_no_relation_between_entities_is_refused(model: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.from_pydantic(model)
