"""Windows laid over one another, against a loop over all places."""

from __future__ import annotations

from math import inf

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from relatum.data.windows import make_windows
from relatum.extractor.introspection.overlay import lay_cells, lay_rows, lay_words
from relatum.types import Span


def margin(word: int, window: Span, n_words: int) -> float:
    """How far a word stands from the nearest edge at which the sentence goes on; −1 outside."""
    if not window.start <= word < window.end:
        return -1
    left = word - window.start if window.start else inf
    right = window.end - 1 - word if window.end < n_words else inf
    return min(left, right)


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 8), st.integers(0, 100))
def test_each_place_is_of_the_window_that_saw_most_around_it(
    n_words: int, max_words: int, overlap: int, seed: int
) -> None:
    windows = make_windows([1] * n_words, None, max_words, min(overlap, max_words // 2))
    random = np.random.default_rng(seed)
    tables = [random.random((window.width, window.width, 3)) for window in windows]
    words = lay_words(windows, [table[0] for table in tables], n_words)
    cells = lay_cells(windows, tables, n_words)
    independent = lay_cells(windows, tables, n_words, no_relation=None)
    rows = lay_rows(windows, [np.moveaxis(table, -1, 0) for table in tables], n_words)
    for i in range(n_words):
        home = max(range(len(windows)), key=lambda one: (margin(i, windows[one], n_words), -one))
        start, end = windows[home]
        assert (words[i] == tables[home][0, i - start]).all()
        assert (rows[:, i, start:end] == tables[home][i - start].T).all()
        assert rows[:, i, :start].sum() == rows[:, i, end:].sum() == 0
        for j in range(n_words):
            reach = [min(margin(i, window, n_words), margin(j, window, n_words)) for window in windows]
            if max(reach) < 0:
                assert cells[i, j].tolist() == [1, 0, 0]
                assert independent[i, j].tolist() == [0, 0, 0]
            else:
                best = reach.index(max(reach))
                assert (cells[i, j] == tables[best][i - windows[best].start, j - windows[best].start]).all()
                assert (independent[i, j] == cells[i, j]).all()
