"""Tables in a page of Markdown: what stands between two marks is made from the file that the first one names.

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
    """The files that the marks of a page name."""
    return [match["file"] for match in _BLOCK.finditer(page)]


def fill(page: str, table: Callable[[str], str]) -> str:
    """The page with every table made anew; `table` makes one from the name of its file."""
    if page.count("<!-- table: ") != len(files_of(page)):
        raise RelatumError(
            "a mark of a table has no end; expected <!-- table: FILE --> and <!-- end of table -->, each on a line of "
            "its own"
        )
    return _BLOCK.sub(lambda match: f"{match[1]}\n{table(match['file'])}\n{match[3]}", page)
