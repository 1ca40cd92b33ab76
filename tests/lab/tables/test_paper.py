"""The tables as data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from relatum.lab.tables.configs import config_file
from relatum.lab.tables.paper import TABLES
from relatum.lab.tables.table import Table

BESIDE_THE_TABLES = {"gold-entities", "literal", "plain-batches", "reset-before", "without-context-vectors"}
"""Files for what the paper says outside of its tables."""


def test_all_tables_with_scores_are_there() -> None:
    assert list(TABLES) == [1, 2, 3, 4, 5, 8, 9]
    assert {number: sum(row.configs is not None for row in table.rows) for number, table in TABLES.items()} == {
        1: 7,
        2: 15,
        3: 8,
        4: 10,
        5: 7,
        8: 14,
        9: 6,
    }


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: str(table.number))
def test_rows_have_keys_of_their_own_and_files_that_are_there(table: Table) -> None:
    rows = [row for row in table.rows if row.configs is not None]
    assert Counter(row.key for row in rows).most_common(1)[0][1] == 1
    for row in rows:
        for name in row.configs or ():
            assert config_file(name).is_file()
    for row in table.rows:
        assert row.published.keys() <= {column.key for column in table.columns}
        assert row.published
    assert table.default is None or table.default in [row.key for row in rows]


def test_rows_that_are_the_same_have_the_same_published_numbers() -> None:
    numbers: dict[tuple[str, ...], set[tuple[float | None, float | None]]] = {}
    for table in (TABLES[number] for number in (3, 4, 5, 8, 9)):
        for row in table.rows:
            if row.configs is not None and {"ner", "re"} <= row.published.keys():
                numbers.setdefault(row.configs, set()).add((row.published["ner"], row.published["re"]))
    assert numbers[()] == {(89.5, 67.6)}
    assert {configs: found for configs, found in numbers.items() if len(found) > 1} == {}


def test_every_ablation_is_a_row_of_some_table() -> None:
    folder = Path(config_file("paper/conll04")).parent.parent / "ablations"
    used = {name for table in TABLES.values() for row in table.rows for name in row.configs or ()}
    unused = {path.stem for path in folder.glob("*.toml") if f"ablations/{path.stem}" not in used}
    assert unused == BESIDE_THE_TABLES
