"""The few rules of style that nothing else checks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "relatum"
RIDDLE = re.compile(r"(What|Where|Whether|Which|Those|That|Of|How|As|When)\b")
"""First words after which the reader must guess the subject."""

MODULE_LINES = 510
BODY_LINES = 50
GPU_KERNELS = {"kernels/md_gru/hopper_scan.py", "kernels/md_gru/triton_scan.py"}
"""A GPU kernel is one long function, and its parts are best read side by side."""
LONG_FUNCTIONS = {
    "training/reports/card.py": "make_card",  # a list of lines
}

FOREIGN_RECORDS = {"encoders/elmo.py", "web/reference.py"}
"""Modules that read files whose layout others have made."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
STILL_DENSE = (
    "cli/",
    "kernels/",
    "lab/comparison.py",
    "lab/tables/making.py",
    "lab/tables/record.py",
    "training/",
)
"""Packages and modules with comprehensions or conditions inside each other; take one out once it has none."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> Iterator[tuple[str, str, ast.Module]]:
    """Yield the name, text and syntax tree of every module of relatum."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield path.relative_to(SOURCE).as_posix(), text, ast.parse(text)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module, its classes, functions and attributes, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def body_lines(function: Function) -> int:
    """Count the lines of a function without its signature and docstring."""
    first = function.body[-1] if len(function.body) == 1 else function.body[ast.get_docstring(function) is not None]
    return (function.end_lineno or first.lineno) - first.lineno + 1


def isinstance_classes(node: ast.AST) -> set[str]:
    """Return the names of the classes that a call of `isinstance` asks for; none for any other node."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "isinstance":
        return set()
    return {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}


def is_text_key(node: ast.AST) -> bool:
    """True if the node is `something["key"]`."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
        and isinstance(node.ctx, ast.Load)
    )


def nested(tree: ast.Module, *kinds: type[ast.AST]) -> Iterator[int]:
    """Yield the lines of expressions of some kinds that hold another of these kinds."""
    for node in ast.walk(tree):
        if isinstance(node, kinds) and any(isinstance(part, kinds) for part in ast.walk(node) if part is not node):
            yield getattr(node, "lineno", 0)


def test_docstrings_say_their_subject() -> None:
    found = []
    for name, _, tree in modules():
        found += [f"{name}:{line}: {text.splitlines()[0]}" for line, text in docstrings(tree) if RIDDLE.match(text)]
    assert not found, "begin with a verb or a noun:\n" + "\n".join(found)


def test_modules_are_short() -> None:
    lines = {name: text.count("\n") for name, text, _ in modules() if name not in GPU_KERNELS}
    found = [f"{name}: {n} lines" for name, n in lines.items() if n > MODULE_LINES]
    assert not found, f"split what has more than {MODULE_LINES} lines:\n" + "\n".join(found)


def test_functions_are_short() -> None:
    found = []
    for name, _, tree in modules():
        functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
        long = [function for function in functions if body_lines(function) > BODY_LINES]
        if name not in GPU_KERNELS:
            found += [f"{name}: {function.name}" for function in long if LONG_FUNCTIONS.get(name) != function.name]
    assert not found, f"give names to the parts of a body of more than {BODY_LINES} lines:\n" + "\n".join(found)


def test_only_encoders_ask_which_encoder_it_is() -> None:
    encoders = set()
    for name, _, tree in modules():
        if name.startswith("encoders/"):
            classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
            encoders |= {one for one in classes if one.endswith("Encoder") and one != "TextEncoder"}
    assert len(encoders) > 3
    found = []
    for name, _, tree in modules():
        if not name.startswith(("encoders/", "runtime/native/")):  # a runtime knows its own encoder
            asked = [node for node in ast.walk(tree) if isinstance_classes(node) & encoders]
            found += [f"{name}:{getattr(node, 'lineno', 0)}" for node in asked]
    assert not found, "let the encoder's protocol tell it:\n" + "\n".join(found)


def test_records_are_objects_and_not_nested_dicts() -> None:
    found = []
    for name, _, tree in modules():
        chains = [node for node in ast.walk(tree) if isinstance(node, ast.Subscript) and is_text_key(node)]
        if name not in FOREIGN_RECORDS:
            found += [f"{name}:{node.lineno}" for node in chains if is_text_key(node.value)]
    assert not found, 'use a dataclass instead of record["…"]["…"]:\n' + "\n".join(found)


def test_loops_and_conditions_do_not_stand_inside_each_other() -> None:
    dense = {}
    for name, _, tree in modules():
        lines = {*nested(tree, *COMPREHENSIONS), *nested(tree, ast.IfExp)}
        if lines:
            dense[name] = [f"{name}:{line}" for line in sorted(lines)]
    found = [place for name, places in dense.items() if not name.startswith(STILL_DENSE) for place in places]
    assert not found, "give the inner comprehension or conditional expression a name:\n" + "\n".join(found)
    done = [exempt for exempt in STILL_DENSE if not any(name.startswith(exempt) for name in dense)]
    assert not done, f"take these out of STILL_DENSE: {', '.join(done)}"
