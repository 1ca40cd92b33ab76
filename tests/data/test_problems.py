from __future__ import annotations

import pytest

from relatum.data.problems import SKIP_CURE, Cure, Problems, Remedy
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
    with pytest.raises(DataError, match=f"{SHOWN + 5:,} bad records in all. Fix them.") as caught:
        problems.raise_if_any("Fix them.")
    assert len(caught.value.problems) == SHOWN


def test_problems_raise_with_every_problem_and_the_cure() -> None:
    problems = Problems()
    problems.raise_if_any("Fix them.")
    problems.add(_problem(1))
    with pytest.raises(DataError) as caught:
        problems.raise_if_any("Fix them.")
    assert caught.value.problems == (_problem(1),)
    assert str(caught.value) == "a.jsonl:1: found 1; expected 2\nFix them."


def test_problems_of_one_record_count_as_one_record() -> None:
    problems = Problems()
    problems.add()
    assert (problems.n_records, problems.count) == (0, 0)
    problems.add(_problem(1))
    assert problems.size() == "1 bad record"
    problems.add(*map(_problem, range(SHOWN + 5)))
    assert (problems.n_records, problems.count, len(problems.kept)) == (2, SHOWN + 6, SHOWN)
    with pytest.raises(DataError, match=f"2 bad records with {SHOWN + 6:,} problems in all. Fix them."):
        problems.raise_if_any("Fix them.")


def _cure(cure: Cure, n_mended: int, n_other: int) -> str:
    problems = Problems()
    for line in range(n_mended):
        problems.add(_problem(line), remedy=Remedy("crossing", "drop", "the relations between sentences"))
    for line in range(n_other):
        problems.add(_problem(line))
    return cure.describe(problems)


def test_cure_names_the_setting_that_keeps_documents_before_the_one_that_leaves_them_out() -> None:
    keep = "Pass --crossing drop to keep 2 documents and leave out only the relations between sentences."
    assert _cure(SKIP_CURE, 2, 0) == f"Nothing was written. {keep}"
    rest = "Fix the other 3 records, or pass --on-error skip to leave them out."
    assert _cure(SKIP_CURE, 2, 3) == f"Nothing was written. {keep} {rest}"
    assert _cure(SKIP_CURE, 0, 2).endswith("Fix these records, or pass --on-error skip to leave them out.")
    assert "Pass --set data.crossing=drop to keep 1 document " in _cure(Cure("Nothing was trained."), 1, 0)
    assert _cure(Cure("None left.", skip=None), 0, 3) == "None left. Fix these records."


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
