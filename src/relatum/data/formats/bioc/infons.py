"""Infons, the named texts of BioC, as attributes and metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from relatum.data.formats.xml_files import NOT_XML
from relatum.data.json_files import parse_json
from relatum.data.records import Field, check_plain
from relatum.types import Attribute

PACKED = "relatum"
"""The infon that holds as JSON what infons cannot."""


def pack_attributes(attributes: Sequence[Attribute], own: str) -> dict[str, str]:
    """Return attributes as infons; `own` is the name of an infon that they cannot have."""
    values = {attribute.name: attribute.value for attribute in attributes}
    if len(values) == len(attributes) and all(_is_plain(*item, own) for item in values.items()):
        return {name: value for name, value in values.items() if value is not None}
    return {PACKED: json.dumps([[attribute.name, attribute.value] for attribute in attributes])}


def pack_metadata(metadata: Mapping[str, object]) -> dict[str, Any]:
    """Return metadata as infons."""
    if all(_is_plain(name, value, "") for name, value in metadata.items()):
        return dict(metadata)
    return {PACKED: json.dumps(metadata)}


def _is_plain(name: str, value: object, own: str) -> bool:
    if not isinstance(value, str) or not value or name in (own, PACKED, "relation", "relation type"):
        return False
    return not NOT_XML.search(name + value)


def unpack(infons: Field, own: str = "") -> tuple[dict[str, Any], list[tuple[str, str | None]]]:
    """Return infons as metadata and as attributes, without the one that is `own`."""
    packed = infons.get(PACKED)
    if packed is None:
        rest = {key: value for key, value in infons.mapping().items() if key != own}
        return rest, [(key, value if isinstance(value, str) else json.dumps(value)) for key, value in rest.items()]
    value = Field(parse_json(packed.text()), infons, PACKED)
    check_plain(value)
    if isinstance(value.value, dict):
        return value.value, []
    pairs = [item.items(2) for item in value.items()]
    return {}, [(name.text(empty=True), None if text.value is None else text.text(empty=True)) for name, text in pairs]
