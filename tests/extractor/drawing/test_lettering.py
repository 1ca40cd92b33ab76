"""Widths and lines without a browser."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.extractor.drawing.lettering import break_lines, has_right_to_left, measure


def words(text: str, width: float, cuts: list[int] | None = None) -> list[list[str]]:
    atoms, n_lines = break_lines(text, cuts or [], 10, width)
    return [[text[a.start : a.end] for a in atoms if a.line == line] for line in range(n_lines)]


def test_widths_are_those_of_the_letters() -> None:
    assert measure("iW", 10) == pytest.approx(11.66)
    assert measure("é", 10) == measure("e", 10)
    assert measure("e\u0301", 10) == measure("e", 10)
    assert measure("日", 10) == 10
    assert measure("", 10) == 0


def test_lines_break_at_spaces_and_where_the_text_does() -> None:
    assert words("aa aa aa", 28) == [["aa", "aa"], ["aa"]]
    assert words("a\nb  c\n\n\nd", 100) == [["a"], ["b", "c"], [], ["d"]]
    assert words("", 100) == [[]]


def test_words_are_cut_where_told_and_where_they_are_too_long() -> None:
    assert words("abcd ef", 100, [0, 2, 4]) == [["ab", "cd", "ef"]]
    assert words("aaaaa b", 12) == [["aa"], ["aa"], ["a"], ["b"]]
    assert words("mm", 3) == [["m"], ["m"]]


@given(st.text("ab \n日é", max_size=40), st.lists(st.integers(0, 40), max_size=5), st.floats(12, 90))
def test_every_letter_has_its_place(text: str, cuts: list[int], width: float) -> None:
    atoms, n_lines = break_lines(text, cuts, 10, width)
    assert "".join(text[a.start : a.end] for a in atoms) == "".join(text.split())
    assert all(a.end <= b.start for a, b in pairwise(atoms))
    assert all(a.line < b.line or a.right <= b.left for a, b in pairwise(atoms))
    assert all(0 <= a.left < a.right <= width + 1e-5 and a.line < n_lines for a in atoms)
    assert not any(a.start < cut < a.end for a in atoms for cut in cuts)


def test_text_from_right_to_left_is_known() -> None:
    assert has_right_to_left("abc עברית")
    assert has_right_to_left("العربية")
    assert not has_right_to_left("abc 日本 é 1")
