"""Entity and relation types: the one place where names become indices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relatum.errors import RelatumError, SchemaError
from relatum.files import read_json
from relatum.types import Annotation

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class RelationType:
    """A relation's name and, where known, what it may connect; an empty label tuple allows every entity type."""

    name: str
    symmetric: bool = False
    head_labels: tuple[str, ...] = ()
    tail_labels: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    """The labels of head and tail that go together; where there are none, every head goes with every tail."""

    def allows(self, head: str, tail: str) -> bool:
        """True if the relation may go from an entity of type `head` to one of type `tail`; if symmetric, either way."""
        return self._allows(head, tail) or (self.symmetric and self._allows(tail, head))

    def connecting(self, pairs: Sequence[tuple[str, str]]) -> RelationType:
        """Return this relation type restricted to the given pairs of head and tail labels."""
        heads = sorted({head for head, _ in pairs})
        tails = sorted({tail for _, tail in pairs})
        return replace(self, head_labels=tuple(heads), tail_labels=tuple(tails)).only(pairs)

    def only(self, pairs: Iterable[tuple[str, str]]) -> RelationType:
        """Return this relation type with these `pairs`, or with none if they are all that its labels can make."""
        listed = tuple(dict.fromkeys(pairs))
        is_all = set(listed) == set(product(self.head_labels, self.tail_labels))
        return replace(self, pairs=() if is_all else listed)

    def _allows(self, head: str, tail: str) -> bool:
        if self.pairs:
            return (head, tail) in self.pairs
        head_fits = not self.head_labels or head in self.head_labels
        tail_fits = not self.tail_labels or tail in self.tail_labels
        return head_fits and tail_fits


@dataclass(frozen=True)
class Schema:
    """The labels of a task, in a fixed order."""

    entity_types: tuple[str, ...]
    relation_types: tuple[RelationType, ...] = ()
    _entity_index: Mapping[str, int] = field(init=False, repr=False, compare=False)
    _relation_index: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        relations = [kind.name for kind in self.relation_types]
        for what, names in (("entity", self.entity_types), ("relation", relations)):
            repeated = min((name for name, count in Counter(names).items() if count > 1), default=None)
            if repeated is not None:
                raise SchemaError(f"{what} type {repeated!r} stands twice in the schema; remove one")
            if "" in names:
                raise SchemaError(f"{'an' if what == 'entity' else 'a'} {what} type has an empty name; give it one")
        known = set(self.entity_types)
        for kind in self.relation_types:
            for label in (*kind.head_labels, *kind.tail_labels, *chain.from_iterable(kind.pairs)):
                if label not in known:
                    raise SchemaError(
                        f"relation type {kind.name!r} names the entity type {label!r}, which the schema does not have; "
                        f"it has {', '.join(self.entity_types)}"
                    )
        object.__setattr__(self, "_entity_index", {name: i for i, name in enumerate(self.entity_types)})
        object.__setattr__(self, "_relation_index", {name: i for i, name in enumerate(relations)})

    @property
    def relation_names(self) -> tuple[str, ...]:
        return tuple(kind.name for kind in self.relation_types)

    def entity_index(self, label: str) -> int:
        return self._look_up("entity", self._entity_index, label)

    def relation_index(self, label: str) -> int:
        return self._look_up("relation", self._relation_index, label)

    def relation_type(self, label: str) -> RelationType:
        return self.relation_types[self.relation_index(label)]

    def is_symmetric(self, label: str) -> bool:
        """True if the order of head and tail has no meaning; False for a type that the schema does not have."""
        index = self._relation_index.get(label)
        return index is not None and self.relation_types[index].symmetric

    def restrict(self, annotation: Annotation) -> Annotation:
        """Keep the entities and relations whose types the schema has; a relation also needs both its entities."""
        entities = tuple(entity for entity in annotation.entities if entity.label in self._entity_index)
        ends = set(entities)
        relations = tuple(
            relation
            for relation in annotation.relations
            if relation.label in self._relation_index and relation.head in ends and relation.tail in ends
        )
        return Annotation(entities, relations)

    def unknown_types(self, annotations: Iterable[Annotation]) -> list[str]:
        """Return the types used in the annotations that the schema does not have, sorted."""
        unknown: set[str] = set()
        for annotation in annotations:
            unknown.update(item.label for item in annotation.entities if item.label not in self._entity_index)
            unknown.update(item.label for item in annotation.relations if item.label not in self._relation_index)
        return sorted(unknown)

    @staticmethod
    def _look_up(what: str, index: Mapping[str, int], label: str) -> int:
        try:
            return index[label]
        except KeyError:
            known = ", ".join(index) or "none"
            raise SchemaError(f"{what} type {label!r} is not in the schema; it has {known}") from None

    def to_dict(self) -> dict[str, Any]:
        return {
            "entity_types": list(self.entity_types),
            "relation_types": list(map(_relation_record, self.relation_types)),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Schema:
        """Read our own `schema.json` or SpERT's `types.json`, whichever the keys say it is."""
        if "entity_types" in record:
            _keys(record, "the schema", "entity_types", "relation_types")
            kinds = _list(record.get("relation_types", []), "relation_types")
            return cls(_strings(record["entity_types"], "entity_types"), tuple(map(_relation_type, kinds)))
        entities, relations = record.get("entities"), record.get("relations")
        if not isinstance(entities, Mapping) or not isinstance(relations, Mapping):
            raise SchemaError(_SHAPES)
        types = []
        for name, details in relations.items():
            if not isinstance(details, Mapping):
                raise SchemaError(f"relations.{name}: found {details!r}, expected an object; {_SHAPES}")
            types.append(RelationType(name, _flag(details.get("symmetric", False), f"relations.{name}.symmetric")))
        return cls(tuple(entities), tuple(types))

    def to_json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the dicts that `Extraction.to_dict` makes with these labels."""
        from relatum.schema_forms import to_json_schema

        return to_json_schema(self)

    @classmethod
    def from_json_schema(cls, record: Mapping[str, Any]) -> Schema:
        """Read the labels from a JSON Schema that describes extractions, such as one that `to_json_schema` made.

        The labels are the enum of entities[].label and of relations[].label.
        """
        from relatum.schema_forms import from_json_schema

        return from_json_schema(record)

    @classmethod
    def from_pydantic(cls, *models: type[BaseModel]) -> Schema:
        """Make a schema of classes of pydantic, and of the classes that their fields name.

        A class is an entity type. A field whose type is another class, or a list of it, is a relation type from the
        first class to the other. A class with the fields `head` and `tail` is a relation type between their classes.
        Labels are the names of classes and fields, or the title of a class and the alias of a field. An entity may
        have its `name` or `text`; every other field is refused.
        """
        from relatum.schema_forms import from_pydantic

        return from_pydantic(models)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        try:
            record = read_json(Path(path))
            if not isinstance(record, dict):
                raise SchemaError(f"found {type(record).__name__}, expected a JSON object")
            return cls.from_dict(record)
        except SchemaError as error:
            raise SchemaError(f"{path}: {error}") from None
        except RelatumError as error:
            raise SchemaError(str(error)) from None


_SHAPES = (
    "a schema needs either 'entity_types' and 'relation_types' (our schema.json) or 'entities' and 'relations' "
    "(SpERT's types.json)"
)


def _relation_record(kind: RelationType) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": kind.name,
        "symmetric": kind.symmetric,
        "head_labels": list(kind.head_labels),
        "tail_labels": list(kind.tail_labels),
    }
    if kind.pairs:
        record["pairs"] = list(map(list, kind.pairs))
    return record


def _relation_type(value: object) -> RelationType:
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise SchemaError(f"relation_types: found {value!r}, expected an object with a name; {_SHAPES}")
    name = value["name"]
    _keys(value, f"relation type {name!r}", "name", "symmetric", "head_labels", "tail_labels", "pairs")
    return RelationType(
        name,
        _flag(value.get("symmetric", False), f"relation type {name!r}, symmetric"),
        _strings(value.get("head_labels", []), f"relation type {name!r}, head_labels"),
        _strings(value.get("tail_labels", []), f"relation type {name!r}, tail_labels"),
        tuple(_pair(pair, name) for pair in _list(value.get("pairs", []), f"relation type {name!r}, pairs")),
    )


def _pair(value: object, name: str) -> tuple[str, str]:
    labels = _strings(value, f"relation type {name!r}, pairs")
    if len(labels) != 2:
        raise SchemaError(
            f"relation type {name!r}, pairs: found {value!r}, expected the labels of a head and of a tail"
        )
    return labels[0], labels[1]


def _keys(record: Mapping[str, Any], where: str, *known: str) -> None:
    for key in record:
        if key not in known:
            raise SchemaError(f"{where}: found the unknown key {key!r}, expected {', '.join(known)}")


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list | tuple):
        raise SchemaError(f"{where}: found {value!r}, expected a list; {_SHAPES}")
    return list(value)


def _strings(value: object, where: str) -> tuple[str, ...]:
    items = _list(value, where)
    for item in items:
        if not isinstance(item, str):
            raise SchemaError(f"{where}: found {item!r}, expected a string; {_SHAPES}")
    return tuple(item for item in items if isinstance(item, str))


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise SchemaError(f"{where}: found {value!r}, expected true or false")
    return value


class SchemaBuilder:
    """Gathers a schema from annotations as they stream past; types are ordered by name."""

    def __init__(self) -> None:
        self._entities: set[str] = set()
        self._pairs: dict[str, set[tuple[str, str]]] = {}

    def add(self, annotation: Annotation) -> None:
        self._entities.update(entity.label for entity in annotation.entities)
        for relation in annotation.relations:
            self._pairs.setdefault(relation.label, set()).add((relation.head.label, relation.tail.label))

    def build(self, known: Schema | None = None) -> Schema:
        """Return the schema; `known` says which relation types are symmetric, as annotations do not."""
        return Schema(
            tuple(sorted(self._entities)),
            tuple(
                RelationType(name, known is not None and known.is_symmetric(name)).connecting(sorted(pairs))
                for name, pairs in sorted(self._pairs.items())
            ),
        )


def infer_schema(annotations: Iterable[Annotation]) -> Schema:
    """Return the schema that the annotations use, each relation type with the entity types it was seen to connect."""
    builder = SchemaBuilder()
    for annotation in annotations:
        builder.add(annotation)
    return builder.build()
