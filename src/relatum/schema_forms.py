"""Schemas in the forms of others: JSON Schema, and classes of pydantic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from relatum.errors import SchemaError
from relatum.schema import RelationType, Schema

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = "x-relation-types"
"""A key of ours, which validators pass over: what each relation type connects, which JSON Schema cannot say."""
_CONTAINERS = (list, tuple, set, frozenset, Sequence, Union, UnionType)
_NAMES = ("name", "text")
_RELATION = {"head", "tail"}


def to_json_schema(schema: Schema) -> dict[str, Any]:
    """Return the JSON Schema of the dicts that `Extraction.to_dict` makes with the labels of a schema."""
    score = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
    entity = {
        "id": {"type": "string"},
        "start": {"type": "integer", "minimum": 0},
        "end": {"type": "integer", "minimum": 1},
        "text": {"type": "string", "minLength": 1},
        "label": _labels(schema.entity_types),
        "score": score,
    }
    relation = {
        "head": {"type": "string", "description": "the id of an entity"},
        "tail": {"type": "string", "description": "the id of an entity"},
        "label": _labels(schema.relation_names),
        "score": score,
    }
    relations = {"type": "array", "items": _object(relation), _TYPES: schema.to_dict()["relation_types"]}
    return {
        "$schema": _DIALECT,
        "title": "Extraction",
        **_object(
            {
                "text": {"type": "string"},
                "entities": {"type": "array", "items": _object(entity)},
                "relations": relations,
            }
        ),
    }


def _labels(names: Sequence[str]) -> dict[str, Any] | bool:
    return {"type": "string", "enum": list(names)} if names else False  # nothing is valid, so the list must be empty


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def from_json_schema(record: Mapping[str, Any]) -> Schema:
    """Read the labels from a JSON Schema that describes extractions, such as one that `to_json_schema` made.

    The labels are the enum of entities[].label and of relations[].label.
    """
    if not isinstance(record, Mapping):
        raise SchemaError(f"found {type(record).__name__}, expected a JSON Schema: a dict")
    entities = _enum(record, "entities")
    relations = _enum(record, "relations")
    listed = _properties(record).get("relations", {}).get(_TYPES)
    if listed is None:
        return Schema(entities, tuple(map(RelationType, relations)))
    schema = Schema.from_dict({"entity_types": list(entities), "relation_types": listed})
    if schema.relation_names != relations:
        raise SchemaError(
            f"{_TYPES} has {', '.join(schema.relation_names) or 'no types'}, but the enum of relations[].label has "
            f"{', '.join(relations) or 'none'}; expected the same in the same order"
        )
    return schema


def _enum(root: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the labels of the items of a list."""
    items = _resolve(root, _properties(root).get(name), name).get("items")
    found = _properties(_resolve(root, items, f"{name}[]")).get("label")
    if found is False:
        return ()
    label = _resolve(root, found, f"{name}[].label")
    values = [label["const"]] if "const" in label else label.get("enum")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise SchemaError(f"{name}[].label: found {values!r}, expected an enum of strings in the JSON Schema")
    return tuple(values)


def _properties(record: Mapping[str, Any]) -> Mapping[str, Any]:
    found = record.get("properties")
    return found if isinstance(found, Mapping) else {}


def _resolve(root: Mapping[str, Any], value: object, where: str) -> Mapping[str, Any]:
    """Follow references inside the JSON Schema."""
    for _ in range(100):  # references may go round in a circle
        if not isinstance(value, Mapping):
            break
        reference = value.get("$ref")
        if reference is None:
            return value
        value = root
        for key in str(reference).removeprefix("#/").split("/"):
            value = value.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(value, Mapping) else None
    raise SchemaError(
        f"{where}: found {value!r}, expected a JSON Schema of extractions: an object with lists of entities and "
        "relations, whose items have a label"
    )


def from_pydantic(models: Sequence[type[BaseModel]]) -> Schema:
    """Make a schema of pydantic's classes, and the classes that their fields name; see `Schema.from_pydantic`."""
    classes = _reachable(models)
    entities = {model: _label(model) for model in classes if not _is_relation(model)}
    pairs: dict[str, list[tuple[str, str]]] = {}
    symmetric: set[str] = set()
    for model in classes:
        for label, heads, tails, is_symmetric in _relations(model):
            if is_symmetric:
                symmetric.add(label)
            for head in heads:
                pairs.setdefault(label, []).extend((_label(head), _label(tail)) for tail in tails)
    kinds = [RelationType(label, label in symmetric).connecting(found) for label, found in pairs.items()]
    return Schema(tuple(entities.values()), tuple(kinds))


_Classes = Sequence["type[BaseModel]"]


def _reachable(models: Sequence[object]) -> list[type[BaseModel]]:
    """Return the classes and all classes that their fields name, each once."""
    from pydantic import BaseModel
    from pydantic.errors import PydanticUserError

    found: list[type[BaseModel]] = []
    waiting: list[object] = list(models)
    names = {model.__name__: model for model in models if isinstance(model, type)}  # fields may name them as strings
    while waiting:
        model = waiting.pop(0)
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise SchemaError(f"found {model!r}, expected classes that derive from pydantic.BaseModel")
        if model in found:
            continue
        found.append(model)
        try:
            model.model_rebuild(_types_namespace=names)
        except (NameError, PydanticUserError) as error:
            raise SchemaError(
                f"{model.__name__}: {str(error).splitlines()[0]}; define the class that the field names"
            ) from None
        for name, field in model.model_fields.items():
            waiting += _targets(model, name, field)
    return found


def _relations(model: type[BaseModel]) -> Iterator[tuple[str, _Classes, _Classes, bool]]:
    """Yield the label, the heads, the tails and the symmetry of each relation that a class defines."""
    fields = model.model_fields
    if _is_relation(model):
        heads, tails = (_targets(model, name, fields[name]) for name in ("head", "tail"))
        for end in (*heads, *tails):
            if _is_relation(end):
                raise SchemaError(f"{model.__name__}: {end.__name__} is a relation; expected the class of an entity")
        yield _label(model), heads, tails, _is_symmetric(model.model_config.get("json_schema_extra"))
        return
    for name, field in fields.items():
        tails = _targets(model, name, field)
        if any(map(_is_relation, tails)):
            raise SchemaError(f"{model.__name__}.{name} names a relation; expected the class of an entity")
        if tails:
            yield field.alias or name, [model], tails, _is_symmetric(field.json_schema_extra)


def _targets(model: type[BaseModel], name: str, field: FieldInfo) -> list[type[BaseModel]]:
    """Return the classes that a field names; none for the field with the name of an entity."""
    targets, others = _split_annotation(field.annotation)
    where = f"{model.__name__}.{name}"
    if targets and not others:
        return targets
    if not targets and others == [str] and name in _NAMES and not _is_relation(model):
        return []
    if not targets and others == [float] and name == "score" and _is_relation(model):
        return []
    found = ", ".join(getattr(one, "__name__", str(one)) for one in others) or "nothing"
    raise SchemaError(
        f"{where}: found {found}, expected another class that derives from BaseModel, alone or in a list: relatum "
        "finds relations between entities, no other values; leave the field out, or make a class for what it holds"
    )


def _split_annotation(annotation: Any) -> tuple[list[type[BaseModel]], list[Any]]:
    """Return the classes of pydantic in an annotation, and everything else that is not None."""
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation], []
    targets: list[type[BaseModel]] = []
    others: list[Any] = []
    if get_origin(annotation) in _CONTAINERS:
        for part in get_args(annotation):
            inner, rest = _split_annotation(part)
            targets += inner
            others += rest
    elif annotation not in (NoneType, Ellipsis):
        others.append(annotation)
    return targets, others


def _is_relation(model: type[BaseModel]) -> bool:
    return _RELATION <= model.model_fields.keys() <= {*_RELATION, "score"}


def _label(model: type[BaseModel]) -> str:
    return model.model_config.get("title") or model.__name__


def _is_symmetric(extra: object) -> bool:
    return isinstance(extra, Mapping) and extra.get("symmetric") is True
