"""Settings read from files and overrides, by dotted name; whatever is wrong with them is reported, not raised."""

from __future__ import annotations

import codecs
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relatum.config.keys import expected, fields, join, nearest, sections, subsection
from relatum.config.toml import key_lines, show
from relatum.config.values import Section
from relatum.errors import Problem, printable

DIRECTIVES = ("extends", "unset")
"""Top-level keys of files that are no settings."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that somebody gave, and where: a file and line, or `--set`."""

    value: object
    source: str
    line: int | None = None

    @property
    def origin(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """A place that sets keys: the command line, or a file with the lines of its keys."""

    model: type[Section]
    problems: list[Problem]
    label: str = "--set"
    lines: Mapping[str, int] = field(default_factory=dict)

    def line(self, name: str) -> int | None:
        """Return the line of a key, or of the table it stands in; None if neither is known."""
        while name and name not in self.lines:
            name = name.rpartition(".")[0]
        return self.lines.get(name)

    def report(self, name: str, found: str, expected: str) -> None:
        self.problems.append(Problem(self.label, found, expected, self.line(name), field=printable(name)))

    def settings(self, table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Setting]]:
        """Yield the keys of a table by dotted name; keys that have no place in the model are reported and left out."""
        section = sections(self.model)[prefix]
        for key, value in table.items():
            name = join(prefix, key)
            info = section.model_fields.get(key)
            inner = None if info is None else subsection(info)
            if info is None:
                near = nearest(name, [*fields(self.model), *DIRECTIVES])
                self.report(name, "an unknown key", f"one of {', '.join(section.model_fields)}{near}")
            elif inner is not None and isinstance(value, dict):
                yield from self.settings(value, name)
            elif inner is not None:
                self.report(name, show(value), f"a table with the keys {', '.join(inner.model_fields)}")
            elif isinstance(value, dict):
                self.report(name, show(value), expected(info))
            else:
                yield name, Setting(value, self.label, self.line(name))

    def unset(self, name: str, settings: dict[str, Setting], where: str) -> None:
        """Forget all settings of a key or section; `where` is the key that asks for it."""
        if name not in (names := list(fields(self.model))):
            self.report(where, f"the unknown name {show(name)}", f"a key or section{nearest(name, names)}")
        for key in [key for key in settings if key == name or key.startswith(f"{name}.")]:
            del settings[key]


class Files:
    """A reader of a TOML file and the files it extends; a file that several extend is read once."""

    def __init__(self, model: type[Section], problems: list[Problem]) -> None:
        self._model = model
        self._problems = problems
        self._done: dict[str, dict[str, Setting]] = {}

    def read(self, path: Path, chain: tuple[Path, ...] = ()) -> dict[str, Setting]:
        """Return the settings of the file over those of the files it extends; `chain` has the files that led to it."""
        route = " → ".join(printable(str(step)) for step in (*chain, path))
        text = self._read_text(path, route)
        if text is None:
            return {}
        identity = os.path.realpath(path)
        if identity in map(os.path.realpath, chain):
            self._problems.append(Problem(route, "a file that extends itself", "'extends' that leads to an end"))
            return {}
        if identity not in self._done:
            source = SettingsSource(self._model, self._problems, printable(str(path)), key_lines(text))
            self._done[identity] = self._merge(self._parse(text, route), source, path, (*chain, path))
        return self._done[identity]

    def _merge(
        self, table: dict[str, Any], source: SettingsSource, path: Path, chain: tuple[Path, ...]
    ) -> dict[str, Setting]:
        settings: dict[str, Setting] = {}
        for base in _names(table.pop("extends", []), "extends", source):
            settings |= self.read(path.parent / base, chain)
        for name in _names(table.pop("unset", []), "unset", source):
            source.unset(name, settings, "unset")
        return settings | dict(source.settings(table))

    def _read_text(self, path: Path, route: str) -> str | None:
        data = b""
        line = None
        try:
            data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
            return data.decode()
        except FileNotFoundError:
            found = "no such file"
        except IsADirectoryError:
            found = "a folder"
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            found = f"the byte 0x{data[error.start]:02X}, which is not UTF-8"
        except OSError as error:
            found = f"a file that cannot be read ({error.strerror})"
        except ValueError as error:
            found = f"a name that no file can have ({error})"
        self._problems.append(Problem(route, found, "a TOML file in UTF-8", line))
        return None

    def _parse(self, text: str, route: str) -> dict[str, Any]:
        line = None
        try:
            return tomllib.loads(text)
        except RecursionError:
            found = "values nested too deeply"
        except tomllib.TOMLDecodeError as error:
            # The message ends in "(at line 1, column 5)" or "(at end of document)".
            what, _, place = str(error).rpartition(" (at ")
            numbers = [int(number) for number in re.findall(r"\d+", place)]
            line = numbers[0] if numbers else text.rstrip().count("\n") + 1
            found = f"{what} at column {numbers[1]}" if numbers else f"{what} at the end"
        except ValueError as error:  # a number with more digits than Python reads
            found = str(error).partition(";")[0]
        self._problems.append(Problem(route, found, "valid TOML (strings stand in quotes)", line))
        return {}


def _names(value: object, key: str, source: SettingsSource) -> list[str]:
    items = value if isinstance(value, list) else [value]
    names = [item for item in items if isinstance(item, str)]
    if len(names) < len(items):
        source.report(key, show(value), "a string or a list of strings")
    return names
