"""The sign-flip test of paired differences."""

from __future__ import annotations

import statistics

import pytest

from relatum.evaluation.paired import MAX_EXACT, N_DRAWN, sign_flip_test


def test_p_is_the_share_of_signs_that_give_as_large_a_mean() -> None:
    # Of the 8 ways to give signs to 1, 2 and 4, those with |sum| >= 5 are 1+2+4, -1+2+4 and their opposites.
    found = sign_flip_test([-1.0, 2.0, 4.0])
    assert found.p == 4 / 8
    assert found.mean == pytest.approx(5 / 3)
    assert found.std == pytest.approx(statistics.stdev([-1.0, 2.0, 4.0]))
    assert found.smallest_p == 2 / 8


@pytest.mark.parametrize(("n", "significant"), [(1, False), (5, False), (6, True), (10, True)])
def test_few_pairs_cannot_be_significant(n: int, significant: bool) -> None:
    found = sign_flip_test([0.1] * n)
    assert found.p == found.smallest_p == 2 / 2**n
    assert found.can_be_significant is significant


def test_no_difference_has_p_one() -> None:
    assert sign_flip_test([0.0] * 7).p == 1.0
    assert sign_flip_test([0.3, -0.3]).p == 1.0


def test_one_pair_has_no_deviation() -> None:
    assert sign_flip_test([0.2]).std is None


def test_many_pairs_are_drawn_by_the_seed_and_come_near_the_exact_value() -> None:
    differences = [0.3, -0.1, 0.2, 0.15, -0.2, 0.4, 0.05, -0.3, 0.1, 0.2, -0.05, 0.12, 0.08, -0.15, 0.22, 0.02]
    exact = sign_flip_test(differences)
    drawn = sign_flip_test([*differences, 0.0])  # a difference of 0 changes no sign's sum
    assert len(differences) == MAX_EXACT
    assert drawn.p == pytest.approx(exact.p, abs=4 * (0.25 / N_DRAWN) ** 0.5)
    assert drawn == sign_flip_test([*differences, 0.0])
    assert drawn.p != exact.p


def test_nothing_cannot_be_tested() -> None:
    with pytest.raises(ValueError, match="no differences"):
        sign_flip_test([])
