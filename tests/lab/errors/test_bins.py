from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.lab.errors.bins import equal_bins, single_bins


def test_equal_bins_hold_a_quarter_each() -> None:
    bins = equal_bins([5, 1, 2, 3, 8, 4, 7, 6])
    assert bins.names == ("1–2", "3–4", "5–6", "7–8")
    assert [bins.group(value) for value in (0, 2, 3, 8, 99)] == ["1–2", "1–2", "3–4", "7–8", "7–8"]


@pytest.mark.parametrize(("values", "names"), [([3, 3, 3, 3, 9], ("3", "4–9")), ([2], ("2",)), ([], ("0",))])
def test_equal_bins_are_fewer_where_values_are_the_same(values: list[int], names: tuple[str, ...]) -> None:
    assert equal_bins(values).names == names


def test_single_bins_end_with_all_above() -> None:
    bins = single_bins(1, 3)
    assert bins.names == ("1", "2", "3+")
    assert [bins.group(value) for value in (0, 1, 2, 3, 50)] == ["1", "1", "2", "3+", "3+"]


@given(st.lists(st.integers(0, 30), min_size=1))
def test_every_value_is_in_the_range_that_its_bin_is_named_after(values: list[int]) -> None:
    bins = equal_bins(values)
    assert len(bins.names) <= 4
    for value in values:
        first, _, last = bins.group(value).partition("–")
        assert int(first) <= value <= int(last or first)
