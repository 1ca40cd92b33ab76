"""HTML from templates; the only module that knows jinja2, which is imported when the first page is made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from relatum.look.colours import hue

if TYPE_CHECKING:
    from jinja2 import Environment, Template

PACKAGE = Path(__file__).parent.parent
STYLES = Path(__file__).parent / "styles"

# Control characters other than white space have no place in HTML; Unicode has a picture of each.
_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n\f\r"} | {0x7F: "\u2421"}


def render(template: str, **values: object) -> str:
    """Fill in a template, a path inside the package; text among the values is escaped."""
    return _get(template).render(values)


def stream(template: str, **values: object) -> Iterator[str]:
    """Yield the content of `render` piece by piece, for pages that should not be in memory at once."""
    return _get(template).generate(values)


def style(*names: str) -> str:
    """Return style sheets, by their paths inside the package, as one text without comments."""
    sheets = [(PACKAGE / name).read_text(encoding="utf-8") for name in names]
    return re.sub(r"/\*.*?\*/\s*", "", "".join(sheets), flags=re.DOTALL)


@cache
def token(name: str) -> float:
    """Return a number of `styles/tokens.css`, such as the 19 of `--arc-level: 19px`."""
    (number,) = re.findall(rf"--{name}: ([\d.]+)", (STYLES / "tokens.css").read_text(encoding="utf-8"))
    return float(number)


def pixels(number: float) -> str:
    """Format a number of pixels, however large, for SVG; tenths are enough."""
    return f"{number:.1f}".removesuffix(".0")


def _get(template: str) -> Template:
    return _environment().get_template(template)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(PACKAGE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=_writable,
    )
    environment.globals.update(hue=hue, style=style)
    environment.filters["pixels"] = pixels
    return environment


def _writable(value: object) -> object:
    """Return a value for a template: text has no control characters and no half of a surrogate pair."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return value.encode(errors="replace").decode().translate(_PICTURES)
