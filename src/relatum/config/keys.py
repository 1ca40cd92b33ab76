"""The keys of a tree of sections: their dotted names, and what they may be in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import reduce
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from relatum.config.values import Section


@dataclass(frozen=True, slots=True)
class Key:
    """One key as it is shown to people; `name` is the dotted name that `--set` takes."""

    name: str
    value: object
    default: object
    expected: str
    description: str


def list_keys(config: Section) -> list[Key]:
    """List every key of a config with its value, section by section."""
    keys = []
    for prefix, model in sections(type(config)).items():
        section: object = reduce(getattr, prefix.split("."), config) if prefix else config
        for name, info in model.model_fields.items():
            if subsection(info) is None:
                value = getattr(section, name)
                description = info.description or ""
                keys.append(Key(join(prefix, name), value, info.default, expected(info), description))
    return keys


TAKEN_SECTIONS = ("tagging", "encoder", "characters", "model", "table", "sequence")
"""The sections of which a run takes settings that are not given from the model that it starts from."""


def needed_keys(config: Section) -> list[Key]:
    """Return the keys that must be given to make a config anew.

    These are the keys that do not have their defaults, and all that other models would give a run otherwise.
    """
    training = getattr(config, "training", None)
    taken: tuple[str, ...] = ()
    if training is not None and training.start is not None:
        taken = TAKEN_SECTIONS
    elif training is not None and training.teachers:
        taken = ("tagging",)
    return [key for key in list_keys(config) if key.value != key.default or key.name.partition(".")[0] in taken]


def sections(model: type[Section], prefix: str = "") -> dict[str, type[Section]]:
    """Return the model, under the empty name, and every section in it, by dotted name."""
    models = {prefix: model}
    for name, info in model.model_fields.items():
        if (inner := subsection(info)) is not None:
            models |= sections(inner, join(prefix, name))
    return models


def subsection(info: FieldInfo) -> type[Section] | None:
    """Return the section class of a field that is a section; None if the field is a plain key."""
    kind = info.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def fields(model: type[Section]) -> dict[str, FieldInfo]:
    """Return every section and key by dotted name."""
    infos: dict[str, FieldInfo] = {}
    for prefix, section in sections(model).items():
        infos |= {join(prefix, name): info for name, info in section.model_fields.items()}
    return infos


def join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def nearest(name: str, valid: Sequence[str]) -> str:
    """Return a hint at the valid name most like `name`, as a whole or in its last part; empty if none is like it."""

    def likeness(other: str) -> tuple[float, float]:
        whole = SequenceMatcher(None, name, other)
        last = SequenceMatcher(None, name.rpartition(".")[2], other.rpartition(".")[2])
        return whole.ratio(), last.ratio()

    best = max(valid, key=lambda other: sum(likeness(other)))
    return f" (did you mean {best}?)" if max(likeness(best)) >= 0.6 else ""


_SCALARS: dict[object, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


def expected(info: FieldInfo) -> str:
    """Describe in words the values that a key may have, from its type."""
    unset = ", or the key left unset" if NoneType in get_args(info.annotation) else ""
    return _either(_choices(info.annotation)) + unset


def _choices(kind: object) -> list[str]:
    if kind in _SCALARS:
        return [_SCALARS[kind]]
    origin = get_origin(kind)
    parts = get_args(kind)
    if origin is Literal:
        return [f'"{value}"' for value in parts]
    if origin is Annotated:
        described = [item.description for item in parts[1:] if isinstance(item, FieldInfo) and item.description]
        return described or _choices(parts[0])
    if origin in (Union, UnionType):
        return [choice for part in parts if part is not NoneType for choice in _choices(part)]
    if origin is tuple:
        return [f"a list (each {_either(_choices(parts[0]))})"]
    raise TypeError(f"no words for a config key of the type {kind}; add them here")


def _either(choices: Sequence[str]) -> str:
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last
