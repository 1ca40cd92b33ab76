"""A config as TOML, values as error messages show them, and the lines on which the keys of a file stand."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from itertools import groupby
from pathlib import PurePath

from relatum.config.conditions import Condition, find_idle
from relatum.config.keys import Key, join, list_keys, needed_keys, sections
from relatum.config.sections import Config
from relatum.config.values import Section
from relatum.errors import printable


def dump_config(
    config: Section, comments: bool = True, origins: Mapping[str, str] | None = None, changed: bool = False
) -> str:
    """Write the config as TOML that loads back to an equal config; a key that is unset, or has no effect, is a comment.

    `comments` adds what each key means and may be; `origins` says, by dotted name, where values come from; `changed`
    leaves out the defaults, as far as they are what a run has if nothing is given.
    """
    keys = needed_keys(config) if changed else list_keys(config)
    titles = {name: section.__doc__ or "" for name, section in sections(type(config)).items()}
    idle = {}
    if isinstance(config, Config):
        names = [key.name for key in keys]
        idle = {name: condition for name, condition, _ in find_idle(config, names)}
    tables = []
    for table, group in groupby(keys, key=lambda key: key.name.rpartition(".")[0]):
        lines = []
        if table:
            lines += [*(_comment(titles[table]) if comments else ()), f"[{table}]"]
        for number, key in enumerate(group):
            if comments:
                lines += [*([""] if number else []), *_comment(key.description), *_comment(key.expected)]
            lines.append(_line(key, (origins or {}).get(key.name), idle.get(key.name)))
        tables.append("\n".join(lines) + "\n")
    return ("\n\n" if comments else "\n").join(tables)


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _line(key: Key, origin: str | None, idle: Condition | None = None) -> str:
    name = key.name.rpartition(".")[2]
    if idle is not None and key.value is not None:
        return f"# {name} = {to_toml(key.value)}  (only if {idle.key} is {idle.wanted})"
    line = f"# {name} = (unset)" if key.value is None else f"{name} = {to_toml(key.value)}"
    if origin is None:
        return line
    default = "unset" if key.default is None else to_toml(key.default)
    return f"{line}  # {origin}" + (f" (default: {default})" if key.value != key.default else "")


def to_toml(value: object) -> str:
    """Write a string, path, boolean, number or list as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | PurePath):
        # JSON's escapes are also TOML's; DEL, which JSON leaves bare, is forbidden there.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(to_toml, value))}]"
    return str(value)


def show(value: object) -> str:
    """Format a value for an error message, short and printable."""
    if isinstance(value, dict):
        return f"a table (with {', '.join(map(printable, value)) or 'no keys'})"
    try:
        text = printable(to_toml(value))
    except ValueError:  # Python refuses to write out numbers of thousands of digits
        text = "a number too large to show"
    return text if len(text) <= 80 else text[:77] + "…"


_OPAQUE = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL)
_NAME = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_KEY = re.compile(rf"\s*(\[\[?)?\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*(?(1)\]|=)")


def key_lines(text: str) -> dict[str, int]:
    """Return the lines on which keys and tables begin, by dotted name, as far as the start of a line tells."""

    def hide(match: re.Match[str]) -> str:
        inert = match[0].startswith(("#", '"""', "'''"))
        return "\n" * match[0].count("\n") if inert else match[0]

    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(_OPAQUE.sub(hide, text).split("\n"), 1):
        if match := _KEY.match(line):
            name = ".".join(part.strip("\"'") for part in re.findall(_NAME, match[2]))
            if match[1]:
                table = name
            lines.setdefault(name if match[1] else join(table, name), number)
    return lines
