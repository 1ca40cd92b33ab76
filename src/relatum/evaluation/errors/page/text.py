"""Text that may hold anything, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

# Control characters have no place in HTML; Unicode has a picture of each.
_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"} | {0x7F: "\u2421"}


def safe(text: str) -> str:
    """Escape a text for HTML, between tags or in a quoted attribute."""
    whole = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair cannot be written
    return escape(whole.translate(_PICTURES), quote=True)


def words_of(name: str) -> str:
    """Return the name of a kind of error in words."""
    return name.replace("_", " ")


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], n_text: int = 1, foot: int = 0) -> str:
    """Make an HTML table of cells that are HTML already.

    The first `n_text` columns are text, the others numbers; the last `foot` rows are set apart.
    """
    cells = [f'<th scope="col"{_number(place, n_text)}>{cell}</th>' for place, cell in enumerate(head)]
    lines = []
    body = list(rows)
    for number, row in enumerate(body):
        parted = ' class="parted"' if foot and number == len(body) - foot else ""
        first, *others = row
        shown = "".join(f"<td{_number(place, n_text)}>{cell}</td>" for place, cell in enumerate(others, 1))
        lines.append(f'<tr{parted}><th scope="row">{first}</th>{shown}</tr>')
    return (
        f'<div class="wide"><table><caption>{caption}</caption><thead><tr>{"".join(cells)}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _number(place: int, n_text: int) -> str:
    return "" if place < n_text else ' class="n"'
