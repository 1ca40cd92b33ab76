"""The published numbers, against the tables of the paper as they are printed.

`published.txt` was read off the LaTeX of the paper by `printed_tables`; nobody typed it. Where RELATUM_PAPER names the
file of the LaTeX, it is read off once more.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from relatum.lab.tables.paper import TABLES, WITH_MAPS, WITHOUT_MAPS
from relatum.lab.tables.table import Row, Table

FILE = Path(__file__).with_name("published.txt")
HEADINGS = [f"Table {number}" for number in TABLES]


def printed_tables(latex: str) -> list[list[str]]:
    """The rows of numbers of each table with scores; `-` stands where a cell has none."""
    tables = []
    for block in re.findall(r"\\begin{table}(.*?)\\end{table}", latex, re.DOTALL):
        rows = []
        for line in block.split(r"\\"):
            cells = [re.sub(r"\\(?:textbf|underline){([^}]*)}", r"\1", cell).strip() for cell in line.split("&")]
            values = [cell.removesuffix("M") for cell in cells if re.fullmatch(r"-|\d+\.\d+M?", cell)]
            rows += [" ".join(values)] if values else []
        if "NER" in block:
            tables.append(rows)
    return tables


def as_printed(table: Table) -> list[str]:
    """The published numbers of a table in the order in which the paper prints them."""
    rows = [row for row in table.rows if any(value is not None for value in row.published.values())]
    if table.number == 2:  # both halves stand side by side, and ELMo has no attention maps
        halves = [{row.label: row for row in rows if row.section == half} for half in (WITHOUT_MAPS, WITH_MAPS)]
        return [" ".join(_cells(table, halves[0][name]) + _cells(table, halves[1].get(name))) for name in halves[0]]
    if table.number == 4:
        half = len(rows) // 2
        pairs = zip(rows[:half], rows[half:], strict=True)
        return [" ".join(_cells(table, shared) + _cells(table, own)) for shared, own in pairs]
    return [" ".join(_cells(table, row)) for row in rows]


def _cells(table: Table, row: Row | None) -> list[str]:
    values = [None if row is None else row.published.get(column.key) for column in table.columns]
    return ["-" if value is None else f"{value:.1f}" for value in values]


def test_published_numbers_are_those_that_the_paper_prints() -> None:
    expected = FILE.read_text(encoding="utf-8").splitlines()
    found = []
    for heading, table in zip(HEADINGS, TABLES.values(), strict=True):
        found += [heading, *as_printed(table)]
    assert found == expected


def test_file_of_published_numbers_is_that_of_the_latex() -> None:
    path = os.environ.get("RELATUM_PAPER")
    if not path:
        pytest.skip("RELATUM_PAPER does not name the file of the paper's LaTeX")
    tables = printed_tables(Path(path).read_text(encoding="utf-8"))
    lines = [line for heading, rows in zip(HEADINGS, tables, strict=True) for line in (heading, *rows)]
    assert lines == FILE.read_text(encoding="utf-8").splitlines()


def test_numbers_are_read_off_latex_in_all_its_dresses() -> None:
    latex = r"""\begin{table}
    \scalebox{0.82} Model & NER & RE \\ \midrule
    Li & 2.2M & - \\ \cmidrule(l{5pt}r{5pt}){2-5}
    \quad\begin{tabular}{@{}l@{}} ours, \\[-5pt] really \end{tabular}
      & \textbf{90.1} & \underline{4.5M} \\
    \end{table} \begin{table} dropout & 0.5 \\ \end{table}"""
    assert printed_tables(latex) == [["2.2 -", "90.1 4.5"]]
