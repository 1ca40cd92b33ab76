"""Measure how hard the source is to read.

    python scripts/house.py [TREE]

TREE is a checkout of relatum; by default the one that holds this script. A function's tokens are counted without its
docstring, comments and line breaks, and its lines with them. "One sentence" counts the functions of relatum that
`Extractor.from_pretrained("news")(text)` enters once it has been warmed up.
"""

from __future__ import annotations

import ast
import os
import statistics
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
LAYOUT |= {tokenize.ENDMARKER, tokenize.ENCODING}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
TRACE = "--trace"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """A Python file: its syntax tree, and the number of tokens on each of its lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.nodes = list(ast.walk(self.tree))
        self.functions = [node for node in self.nodes if isinstance(node, Function)]
        self.n_lines = path.read_text(encoding="utf-8").count("\n")
        self.tokens = [0] * (self.n_lines + 2)
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type not in LAYOUT:
                    self.tokens[token.start[0]] += 1
        for text in self._docstrings():
            self.tokens[text.lineno] = 0

    def count(self, *kinds: type[ast.AST]) -> int:
        """Count the syntax nodes of some kinds."""
        return sum(isinstance(node, kinds) for node in self.nodes)

    def tokens_of(self, function: Function) -> int:
        """Count the tokens of a function, from `def` to its last line."""
        return sum(self.tokens[function.lineno : last_line(function) + 1])

    def _docstrings(self) -> Iterator[ast.Expr]:
        for node in self.nodes:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                yield node


def last_line(function: Function) -> int:
    """Return the line that a function ends on."""
    return function.end_lineno or function.lineno


def encoder_classes(package: Path) -> set[str]:
    """Return the names of the classes in encoders/ that are encoders; the protocol is none of them."""
    classes = set()
    for path in (package / "encoders").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Encoder") and node.name != "TextEncoder":
                classes.add(node.name)
    return classes


def encoder_questions(package: Path) -> list[str]:
    """Return the places outside encoders/ that ask `isinstance` for a class of encoder."""
    classes = encoder_classes(package)
    places = []
    for path in sorted(package.rglob("*.py")):
        if not path.is_relative_to(package / "encoders"):
            calls = isinstance_calls(ast.parse(path.read_text(encoding="utf-8")))
            places += [f"{path.relative_to(package)}:{line}" for line, names in calls if names & classes]
    return places


def isinstance_calls(tree: ast.Module) -> Iterator[tuple[int, set[str]]]:
    """Yield the line of each call of `isinstance`, and the names of the classes that it asks for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            yield node.lineno, {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}


def trace() -> None:
    """Print the functions, files and package switches of one sentence."""
    import relatum
    from relatum import Extractor

    root = Path(relatum.__file__).parent
    extractor = Extractor.from_pretrained("news")
    text = "Marta Figueira works for the Portuguese Railway Company in Lisbon."
    for _ in range(3):
        extractor(text)
    functions: set[tuple[str, int, str]] = set()
    packages: list[str] = []

    def enter(frame: object, event: str, _: object) -> None:
        code = getattr(frame, "f_code")  # noqa: B009 - the type of a frame is not public
        path = Path(code.co_filename)
        if event != "call" or code.co_name.startswith("<") or not path.is_relative_to(root):
            return
        functions.add((code.co_filename, code.co_firstlineno, code.co_name))
        package = path.relative_to(root).parts[0]
        if packages[-1:] != [package]:
            packages.append(package)

    sys.setprofile(enter)
    extractor(text)
    sys.setprofile(None)
    files = {file for file, _, _ in functions}
    print(f"{len(functions)} functions, {len(files)} files, {len(packages) - 1} package switches")


def measure(tree: Path) -> Iterator[tuple[str, str]]:
    """Yield what is measured, and the figure."""
    package = tree / "src" / "relatum"
    modules = [Module(path) for path in sorted(package.rglob("*.py"))]
    native = [path for end in ("*.cpp", "*.h") for path in package.rglob(end)]
    yield "Python", f"{len(modules)} files, {sum(module.n_lines for module in modules):,} lines"
    n_lines = sum(path.read_text(encoding="utf-8").count("\n") for path in native)
    yield "C++", f"{len(native)} files, {n_lines:,} lines"
    functions = [(module, function) for module in modules for function in module.functions]
    yield "functions", f"{len(functions):,}"
    yield "lines a function", spread([last_line(function) - function.lineno + 1 for _, function in functions])
    yield "tokens a function", spread([module.tokens_of(function) for module, function in functions])
    tokens = [n for module in modules for n in module.tokens if n]
    yield "tokens a line", f"{sum(tokens) / len(tokens):.1f}"
    for name, kinds in (("comprehensions", COMPREHENSIONS), ("conditional expressions", (ast.IfExp,))):
        n = sum(module.count(*kinds) for module in modules)
        yield f"{name} per 100 functions", f"{100 * n / len(functions):.0f}"
    yield "isinstance on encoders outside encoders/", str(len(encoder_questions(package)))
    command = [sys.executable, __file__, TRACE]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    yield "one sentence", subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def spread(numbers: list[int]) -> str:
    """Format the median and the 90th percentile of some numbers."""
    return f"median {statistics.median(numbers):.0f}, p90 {statistics.quantiles(numbers, n=10)[-1]:.0f}"


def main() -> None:
    """Print the figures of a tree, or count the calls of one sentence."""
    if sys.argv[1:] == [TRACE]:
        trace()
        return
    tree = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1]
    for name, figure in measure(tree.resolve()):
        print(f"{name:42}{figure.strip()}")


if __name__ == "__main__":
    main()
