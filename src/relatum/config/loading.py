"""From files and overrides to a config, or to all that is wrong with them."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from relatum.config.conditions import find_idle
from relatum.config.keys import expected, fields
from relatum.config.sections import Config
from relatum.config.sources import DIRECTIVES, Files, Setting, SettingsSource
from relatum.config.toml import show
from relatum.config.values import Section
from relatum.errors import ConfigError, Problem

S = TypeVar("S", bound=Section)

_RETIRED: Mapping[str, Mapping[str, Any]] = {
    "encoder": {"attention_scale": "linear", "masking": 0.0, "masked_readings": 4},
    "training": {
        "consistency": 0.0,
        "relation_loss": "plain",
        "balance_beta": 0.9999,
        "focal_gamma": 2.0,
        "swapped_copies": 0,
        "swapped_share": 0.5,
    },
}
"""Settings that were removed, by section, with the values by which they did nothing.

Models of format 2 and the files in `results` may still have them.
"""

_EARLIER: Mapping[str, Mapping[str, Any]] = {"model": {"initialisation": "torch"}, "tagging": {"conflicts": "first"}}
"""Settings that were added later, by section, with the values that were in force before and are not the defaults.

Older models and most files in `results` lack them.
"""


def load_config(path: Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """Load the config from a file and overrides such as `"text.words=whitespace"`; the last to set a key wins.

    Raises `ConfigError` with every problem found.
    """
    return trace_config(path, overrides)[0]


def trace_config(path: Path | None = None, overrides: Sequence[str] = ()) -> tuple[Config, dict[str, Setting]]:
    """Load a config as `load_config` does, and return it with the settings that were given, by dotted name.

    All other keys have their defaults.
    """
    return load(Config, path, overrides)


def find_given(path: Path | None, overrides: Sequence[str]) -> dict[str, Setting]:
    """Return the settings that a file and overrides give, by dotted name, whether they can be used or not."""
    return _read(Config, path, overrides)[1]


class OwnFunctionError(ConfigError):
    """A record names a function that the user did not name."""


def load_record(record: Mapping[str, Any], functions: Collection[str] = ()) -> Config:
    """Load a config from a record made by `Config.to_dict`; keys that the record lacks get their defaults.

    The record may have been made before settings were removed or added: removed settings are ignored if they did
    nothing, and added settings get the values that were in force before.

    The record may also come from a stranger, so that no function it names is ever imported: it may name built-in rules,
    and beside them only the `functions` that the user named in this process.
    """
    known = dict(record)
    for section, gone in _RETIRED.items():
        if isinstance(settings := known.get(section), Mapping):
            known[section] = {key: value for key, value in settings.items() if key not in gone or value != gone[key]}
    for section, before in _EARLIER.items():
        if isinstance(settings := known.get(section), Mapping):
            known[section] = {**before, **settings}
    try:
        config = Config.model_validate(_frozen(known))
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, detail['loc'])) or 'config'}: {detail['msg']}" for detail in error.errors()]
        raise ConfigError("\n".join(lines)) from None
    for key, name in config.text.functions().items():
        if name not in functions:
            raise OwnFunctionError(
                f"text.{key}: found the function {name!r}; relatum never imports a function because a file of a model "
                f"or a run names it. If you know and trust this function, name it yourself: --set text.{key}={name} "
                f"on the command line, {key}={name!r} in Python"
            )
    return config


def load(model: type[S], path: Path | None, overrides: Sequence[str]) -> tuple[S, dict[str, Setting]]:
    """Load any tree of sections as `trace_config` loads a `Config`."""
    config, settings, problems = _read(model, path, overrides)
    if isinstance(config, Config):
        problems += _idle_settings(config, settings)
    if config is None or problems:
        raise ConfigError("\n".join(dict.fromkeys(map(str, problems))))
    return config, settings


def change_section(section: S, **changes: object) -> S:
    """Return a section with some keys changed; None leaves a key as it is.

    Raises `ConfigError` with every value that a key cannot have.
    """
    given = {key: value for key, value in changes.items() if value is not None}
    try:
        return type(section).model_validate({**section.to_dict(), **given})
    except ValidationError as error:
        known = fields(type(section))
        keys = [str(detail["loc"][0]) for detail in error.errors()]
        problems = [Problem(key, show(given[key]), expected(known[key])) for key in keys]
        raise ConfigError("\n".join(map(str, problems))) from None


def without_idle(path: Path | None, own: Sequence[str], shared: Sequence[str]) -> list[str]:
    """Leave out the shared overrides that do nothing beside a file and its own overrides.

    They are shared with other files, where they may do something.
    """
    config, settings, _ = _read(Config, path, [*own, *shared])
    idle = set() if config is None else {name for name, _, _ in find_idle(config, settings)}
    return [override for override in shared if override.partition("=")[0].strip() not in idle]


def _read(
    model: type[S], path: Path | None, overrides: Sequence[str]
) -> tuple[S | None, dict[str, Setting], list[Problem]]:
    """Read a file and overrides; the config is None if problems keep it from being built."""
    problems: list[Problem] = []
    settings = {} if path is None else Files(model, problems).read(path)
    for override in overrides:
        _apply(override, settings, SettingsSource(model, problems))
    return _validate(model, settings, problems), settings, problems


def _apply(override: str, settings: dict[str, Setting], source: SettingsSource) -> None:
    """Set or unset one key."""
    left, sign, text = (part.strip() for part in override.partition("="))
    parts = [part.strip() for part in left.split(".")]
    name = ".".join(parts)
    if not sign or not all(parts):
        found = show(override) if override.strip() else "an empty override"
        source.problems.append(Problem(source.label, found, "SECTION.KEY=VALUE, such as text.words=whitespace"))
    elif name in DIRECTIVES:
        source.report(name, "a key that only files have", "--config FILE to use a file, KEY=unset to unset")
    elif not text:
        source.report(name, "nothing after the '='", f"a value, or {name}=unset for the default")
    elif text == "unset":
        source.unset(name, settings, name)
    else:
        try:
            value = _parse(text)
        except (ValueError, RecursionError):
            cure = f"single quotes around it all keep the shell from taking its quotes away: --set '{name}=[\"a\"]'"
            source.report(name, show(text), f"a TOML value ({cure})")
            return
        for part in reversed(parts):
            value = {part: value}
        settings.update(source.settings(value))


def _parse(text: str) -> Any:
    """Parse a TOML value, or a bare word as a string; text that begins like a list, table or quote must be TOML."""
    try:
        table = tomllib.loads(f"value = {text}")
    except ValueError:
        if text[0] in "[{\"'" or "\n" in text:
            raise
        return text
    if len(table) > 1:
        raise ValueError("more than one value")
    return table["value"]


def _validate(model: type[S], settings: Mapping[str, Setting], problems: list[Problem]) -> S | None:
    tree: dict[str, Any] = {}
    for name, setting in settings.items():
        *above, key = name.split(".")
        table = tree
        for section in above:
            table = table.setdefault(section, {})
        table[key] = _frozen(setting.value)
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        problems += [_problem(model, settings, detail) for detail in error.errors()]
        return None


def _idle_settings(config: Config, settings: Mapping[str, Setting]) -> list[Problem]:
    """Report every setting that was given and cannot have an effect."""
    problems = []
    for name, condition, found in find_idle(config, settings):
        setting = settings[name]
        cure = f"leave it out ({name}=unset), or set {condition.key} to {condition.wanted}"
        wanted = f"no {name}, which does nothing as {condition.key} is {show(found)}; {cure}"
        problems.append(Problem(setting.source, show(setting.value), wanted, setting.line, field=name))
    return problems


def _frozen(value: object) -> object:
    """Turn lists into tuples, since a config does not change."""
    if isinstance(value, Mapping):
        return {key: _frozen(inner) for key, inner in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _problem(model: type[Section], settings: Mapping[str, Setting], detail: ErrorDetails) -> Problem:
    said = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    # Places in a list and members of a union stand behind the key's own name.
    parts = [str(part) for part in detail["loc"]]
    names = [".".join(parts[:depth]) for depth in range(len(parts), 0, -1)]
    name = next((name for name in names if name in settings), None)
    if name is None:
        return Problem(names[0] if names else "config", "settings that do not go together", said)
    setting = settings[name]
    beyond_type = detail["type"].startswith(("value_error", "greater_", "less_", "too_", "multiple_"))
    wanted = said if beyond_type else expected(fields(model)[name])
    return Problem(setting.source, show(setting.value), wanted, setting.line, field=name)
