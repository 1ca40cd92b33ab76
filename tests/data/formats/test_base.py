from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relatum.data.formats.base import natural_order

DIGITS = st.text("01²٣a-/", max_size=6)


def test_natural_order_compares_numbers_as_numbers() -> None:
    names = ["", "9", "10", "a", "a/2", "a/10", "a/b", "train", "train-2", "train-2b", "train-10", "train-10a"]
    assert sorted(sorted(names), key=natural_order) == names


def test_natural_order_tells_equal_numbers_apart_by_their_digits() -> None:
    assert sorted(["a2", "a002", "a02", "a1"], key=natural_order) == ["a1", "a002", "a02", "a2"]


@given(st.lists(st.text(max_size=5) | DIGITS | st.just("9" * 5000) | st.just("\udc80")))
def test_natural_order_can_order_any_names(names: list[str]) -> None:
    backwards = names[::-1]
    assert sorted(backwards, key=natural_order) == sorted(names, key=natural_order)


@given(st.text("ab/-", max_size=3), st.integers(0, 10**20), st.integers(0, 10**20))
def test_natural_order_agrees_with_the_numbers(stem: str, one: int, other: int) -> None:
    assert (natural_order(f"{stem}{one}.x") < natural_order(f"{stem}{other}.x")) == (one < other)
