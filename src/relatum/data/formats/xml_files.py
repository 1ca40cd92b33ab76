"""Reading XML without loading anything outside of the file, and escaping text for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from relatum.data.records import BadRecord, show

NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]|\ufffe|\uffff")  # as one set it would take long to compile
"""The characters that XML cannot hold."""
_CHUNK = 1 << 16
DEEPEST = 100
"""The most elements inside one another, for those who read elements by functions that call themselves."""
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_IN_ATTRIBUTE = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;"}
)


def parse_xml(data: bytes | str, deepest: float = inf) -> Element:
    """Parse XML into its root element; nothing outside the file is loaded, and declarations of entities are refused.

    So are more than `deepest` elements inside one another.
    """
    builder = TreeBuilder()
    _feed(_safe_parser(builder.start, builder.end, builder.data, deepest), data, is_last=True)
    return builder.close()


def iter_elements(path: Path, tag: str) -> Iterator[tuple[Element, int]]:
    """Yield each element of that name that is not inside another, with its line, as the file is read."""
    elements = _Elements(tag)
    with path.open("rb") as file:
        while True:
            chunk = file.read(_CHUNK)
            _feed(elements.parser, chunk, is_last=not chunk)
            yield from elements.done
            elements.done.clear()
            if not chunk:
                break


class _Elements:
    """A parser that builds the elements of one name and passes over everything else."""

    def __init__(self, tag: str) -> None:
        self.parser = _safe_parser(self._start, self._end, self._data, DEEPEST)
        self.done: list[tuple[Element, int]] = []
        self._tag = tag
        self._builder: TreeBuilder | None = None
        self._depth = self._line = 0

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._builder is None and name == self._tag:
            self._builder, self._depth, self._line = TreeBuilder(), 0, self.parser.CurrentLineNumber
        if self._builder is not None:
            self._builder.start(name, attributes)
            self._depth += 1

    def _end(self, name: str) -> None:
        if self._builder is not None:
            self._builder.end(name)
            self._depth -= 1
            if self._depth == 0:
                self.done.append((self._builder.close(), self._line))
                self._builder = None

    def _data(self, text: str) -> None:
        if self._builder is not None:
            self._builder.data(text)


def _safe_parser(
    start: Callable[[str, dict[str, str]], object],
    end: Callable[[str], object],
    data: Callable[[str], object],
    deepest: float,
) -> expat.XMLParserType:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.CharacterDataHandler = data
    depth = 0

    def begun(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > deepest:
            raise BadRecord(f"more than {deepest} elements inside one another", "XML of ordinary depth")
        start(name, attributes)

    def ended(name: str) -> None:
        nonlocal depth
        depth -= 1
        end(name)

    def declared(name: str, *_: object) -> None:
        raise BadRecord(f"a declaration of the entity {show(name)}", "XML that declares no entities")

    def unknown(name: str, is_parameter: bool) -> None:
        if not is_parameter:
            data(f"&{name};")

    parser.StartElementHandler = begun
    parser.EndElementHandler = ended
    parser.EntityDeclHandler = declared
    parser.SkippedEntityHandler = unknown
    return parser


def _feed(parser: expat.XMLParserType, data: bytes | str, *, is_last: bool) -> None:
    try:
        parser.Parse(data, is_last)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise BadRecord(f"an error in the XML ({error})", "well-formed XML") from None


def escape_text(text: str) -> str:
    """Escape a text between tags."""
    return text.translate(_IN_TEXT)


def escape_attribute(text: str) -> str:
    """Escape the value of an attribute between double quotes."""
    return text.translate(_IN_ATTRIBUTE)
