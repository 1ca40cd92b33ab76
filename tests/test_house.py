"""The few rules of style that nothing else checks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "relatum"
RIDDLE = re.compile(r"(What|Where|Whether|Which|Those|That|Of|How|As|When)\b")
"""First words after which the reader must guess the subject."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module, its classes, functions and attributes, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def test_docstrings_say_their_subject() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text.splitlines()[0]}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in docstrings(ast.parse(path.read_text(encoding="utf-8")))
        if RIDDLE.match(text)
    ]
    assert not found, "begin with a verb or a noun:\n" + "\n".join(found)
