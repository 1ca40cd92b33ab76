from __future__ import annotations

import pytest

from relatum.data.problems import Problems
from relatum.errors import SHOWN, DataError, Problem


def _problem(line: int) -> Problem:
    return Problem("a.jsonl", "1", "2", line)


def test_problems_keep_each_in_order_and_count_them() -> None:
    problems = Problems()
    for line in (1, 2, 3):
        problems.add(_problem(line))
    assert problems.kept == [_problem(1), _problem(2), _problem(3)]
    assert problems.count == 3


def test_problems_beyond_the_limit_are_only_counted() -> None:
    problems = Problems()
    for line in range(SHOWN + 5):
        problems.add(_problem(line))
    assert len(problems.kept) == SHOWN
    assert problems.count == SHOWN + 5
    with pytest.raises(DataError, match=f"{SHOWN + 5} bad records in all. Mend them.") as caught:
        problems.raise_if_any("Mend them.")
    assert len(caught.value.problems) == SHOWN


def test_problems_raise_with_every_problem_and_the_cure() -> None:
    problems = Problems()
    problems.raise_if_any("Mend them.")
    problems.add(_problem(1))
    with pytest.raises(DataError) as caught:
        problems.raise_if_any("Mend them.")
    assert caught.value.problems == (_problem(1),)
    assert str(caught.value) == "a.jsonl:1: found 1; expected 2\nMend them."


def test_problems_count_remarks_and_remember_the_first_place() -> None:
    problems = Problems()
    problems.remark("words cut", "doc 1")
    problems.remark("attributes left out", "doc 2", 3)
    problems.remark("words cut", "doc 3", 2)
    assert problems.remark_lines() == ["3 × words cut (first: doc 1)", "3 × attributes left out (first: doc 2)"]
    problems.raise_if_any()


def test_problems_do_not_remark_on_what_never_happened() -> None:
    problems = Problems()
    problems.remark("words cut", "doc 1", 0)
    assert problems.remark_lines() == []
    problems.remark("words cut", "doc 2")
    assert problems.remark_lines() == ["1 × words cut (first: doc 2)"]
