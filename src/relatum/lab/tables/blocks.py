"""Tables in a page of Markdown: the text between two marks is made from the file that the first mark names.

<!-- table: results/table-3.json -->
…
<!-- end of table -->
"""

from __future__ import annotations

import re
from collections.abc import Callable

from relatum.errors import RelatumError

_BLOCK = re.compile(r"(<!-- table: (?P<file>\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def files_of(page: str) -> list[str]:
    """Return the files that the marks of a page name."""
    return [match["file"] for match in _BLOCK.finditer(page)]


def fill(page: str, table: Callable[[str], str]) -> str:
    """Return the page with all tables made anew; `table` makes a table from its file's name. Errors name the line."""
    n_marks = page.count("<!-- table: ")
    if not n_marks or n_marks != len(files_of(page)):
        fault = "a mark of a table has no end" if n_marks else "there is no mark of a table"
        raise RelatumError(
            f"{fault}; expected <!-- table: FILE --> and <!-- end of table -->, each on a line of its own"
        )

    def make(match: re.Match[str]) -> str:
        try:
            rendered = table(match["file"])
        except RelatumError as error:
            raise RelatumError(f"line {page.count(chr(10), 0, match.start()) + 1}: {error}") from error
        return f"{match[1]}\n{rendered}\n{match[3]}"

    return _BLOCK.sub(make, page)
