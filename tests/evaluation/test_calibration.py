from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relatum.evaluation.calibration import (
    LEAST_IN_BIN,
    N_BINS,
    THRESHOLDS,
    by_threshold,
    calibration_error,
    fit_map,
    reliability,
)
from relatum.types import ScoreMap

SCORES = st.floats(0, 1)
JUDGED = st.lists(st.tuples(SCORES, st.booleans()), max_size=120)
MAPS = st.builds(ScoreMap, st.floats(0.01, 100), st.floats(-20, 20))


def draw(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores that are the probabilities of being right, and what is right by them."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0.05, 0.99, n)
    return scores, rng.random(n) < scores


def sharpen(scores: np.ndarray, temperature: float, bias: float = 0.0) -> np.ndarray:
    """The scores that sigmoid(logit / temperature + bias) takes back to these."""
    logits = temperature * (np.log(scores / (1 - scores)) - bias)
    return np.asarray(1 / (1 + np.exp(-logits)))


def error(scores: np.ndarray, right: np.ndarray) -> float:
    found = calibration_error(reliability(scores, right))
    assert found is not None
    return found


def mapped(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    fitted = fit_map(scores, right)
    return np.array([fitted(score) for score in scores])


def test_error_by_hand() -> None:
    scores = [0.2] * 20 + [0.6] * 10 + [0.7] * 10
    right = [True] * 5 + [False] * 15 + [True] * 8 + [False] * 12
    low, high = reliability(scores, right)
    assert (low.low, low.high, low.n, low.right) == (0.2, 0.2, 20, 0.25)
    assert (high.low, high.high, high.n, high.right) == (0.6, 0.7, 20, 0.4)
    assert high.score == pytest.approx(0.65)
    assert calibration_error([low, high]) == pytest.approx((0.05 + 0.25) / 2)


def test_error_of_nothing_is_none() -> None:
    assert reliability([], []) == []
    assert calibration_error([]) is None


@pytest.mark.parametrize(("n", "n_bins"), [(1, 1), (39, 1), (40, 2), (199, 9), (200, 10), (5000, 10)])
def test_bins_have_equal_mass_and_are_as_many_as_the_examples_allow(n: int, n_bins: int) -> None:
    scores, right = draw(n)
    bins = reliability(scores, right)
    assert len(bins) == n_bins <= N_BINS
    assert max(one.n for one in bins) - min(one.n for one in bins) <= 1
    assert n_bins == 1 or min(one.n for one in bins) >= LEAST_IN_BIN


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.4, 0.5, 0.9, 1.0]), st.booleans()), min_size=1, max_size=300))
def test_bins_part_no_equal_scores_and_hold_everything_in_any_order(judged: list[tuple[float, bool]]) -> None:
    scores, right = zip(*judged, strict=True)
    bins = reliability(scores, right)
    assert sum(one.n for one in bins) == len(judged)
    assert all(one.high < other.low for one, other in pairwise(bins))
    assert sum(one.n * one.right for one in bins) == pytest.approx(sum(right))
    again = reliability(scores[::-1], right[::-1])
    assert [(one.low, one.high, one.n) for one in again] == [(one.low, one.high, one.n) for one in bins]
    assert calibration_error(again) == pytest.approx(calibration_error(bins))


@given(JUDGED.filter(len))
def test_error_lies_between_the_distance_of_means_and_one(judged: list[tuple[float, bool]]) -> None:
    scores, right = (np.array(one) for one in zip(*judged, strict=True))
    distance = abs(scores.mean() - right.mean())
    assert distance - 1e-12 <= error(scores, right) <= 1


def test_error_of_calibrated_scores_is_near_zero() -> None:
    assert error(*draw(40_000)) < 0.01


@pytest.mark.parametrize("temperature", [0.4, 2.5, 5.0])
@pytest.mark.parametrize("bias", [0.0, -0.8])
def test_fit_finds_the_map_that_was_undone(temperature: float, bias: float) -> None:
    scores, right = draw(20_000)
    sharp = sharpen(scores, temperature, bias)
    found = fit_map(sharp, right)
    assert found.temperature == pytest.approx(temperature, rel=0.05)
    assert found.bias == pytest.approx(bias, abs=0.05)
    assert error(sharp, right) > 0.03
    assert error(mapped(sharp, right), right) < 0.01


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.floats(2.5, 6))
def test_error_of_overconfident_scores_drops(seed: int, temperature: float) -> None:
    scores, right = draw(1000, seed)
    sharp = sharpen(scores, temperature)
    assert error(mapped(sharp, right), right) < error(sharp, right)


def test_bias_is_left_out_where_it_does_not_help_on_what_was_held_out() -> None:
    scores, right = draw(400, seed=1)
    assert fit_map(sharpen(scores, 4), right).bias == 0
    assert fit_map(sharpen(scores, 4, -1.5), right).bias == pytest.approx(-1.5, abs=0.4)


def test_fit_without_examples_changes_nothing() -> None:
    assert fit_map([], []) == ScoreMap(1, 0)


@pytest.mark.parametrize("n", [1, 3, 12, 500])
@pytest.mark.parametrize("score", [0.0, 0.4, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("right", [True, False])
def test_fit_stays_finite_where_all_are_right_allow_fewer_layers_wrong(n: int, score: float, right: bool) -> None:
    found = fit_map([score] * n, [right] * n)
    assert 0.05 <= found.temperature <= 100
    assert abs(found.bias) < 20
    if n >= 500:
        assert found(score) == pytest.approx(float(right), abs=0.05)


def test_fit_of_few_goes_a_part_of_the_way() -> None:
    all_right = fit_map([0.8] * 3, [True] * 3)
    assert 0.8 < all_right(0.8) < 0.95
    one_wrong = fit_map([0.999] * 3, [True, True, False])
    assert 0.5 < one_wrong(0.999) < 0.9


def test_fit_never_turns_the_order_around() -> None:
    scores = np.linspace(0.01, 0.99, 400)
    found = fit_map(scores, scores < 0.5)  # the contrary of what they say
    assert found.temperature == 100
    assert found(0.2) < found(0.8)


@settings(max_examples=40, deadline=None)
@given(JUDGED)
def test_fit_is_usable_and_independent_of_the_order(judged: list[tuple[float, bool]]) -> None:
    scores, right = [score for score, _ in judged], [own for _, own in judged]
    found = fit_map(scores, right)
    assert 0.05 <= found.temperature <= 100
    assert math.isfinite(found.bias)
    assert fit_map(scores[::-1], right[::-1]) == found


@given(MAPS, SCORES, SCORES)
def test_map_is_monotonic_and_gives_probabilities(own: ScoreMap, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= own(low) <= own(high) <= 1


@given(st.floats(1e-9, 1 - 1e-9))
def test_map_of_temperature_one_is_the_identity(score: float) -> None:
    assert ScoreMap()(score) == pytest.approx(score, rel=1e-9)


def test_map_tells_scores_apart_that_are_all_shown_as_one() -> None:
    own = ScoreMap(4.4, -0.6)
    values = [own(1 - distance) for distance in (1e-4, 1e-6, 1e-8)]
    assert all(later - earlier > 0.01 for earlier, later in pairwise(values))
    assert own(1.0) < 1


@pytest.mark.parametrize(
    "values", [(0.0, 0.0), (-1.0, 0.0), (math.inf, 0.0), (math.nan, 0.0), (1.0, math.nan), (1.0, -math.inf)]
)
def test_map_that_cannot_be_is_refused(values: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        ScoreMap(*values)


def test_rows_by_threshold_by_hand() -> None:
    rows = by_threshold([0.9, 0.5, 0.3, 0.6], [True, True, False, False], 4, (0.0, 0.5, 0.55, 0.95))
    assert [row.n for row in rows] == [4, 3, 2, 0]  # what has the very score of a threshold stays
    assert [row.precision for row in rows] == [0.5, 2 / 3, 0.5, 0]
    assert [row.recall for row in rows] == [0.5, 0.5, 0.25, 0]
    assert [row.f1 for row in rows] == [0.5, 4 / 7, 2 / 6, 0]


def test_rows_of_nothing_are_zero() -> None:
    rows = by_threshold([], [], 0)
    assert [row.threshold for row in rows] == list(THRESHOLDS)
    assert {(row.n, row.precision, row.recall, row.f1) for row in rows} == {(0, 0.0, 0.0, 0.0)}


@given(JUDGED, st.integers(0, 5))
def test_rows_lose_recall_and_nothing_at_the_threshold_of_zero(judged: list[tuple[float, bool]], missed: int) -> None:
    scores, right = [score for score, _ in judged], [own for _, own in judged]
    rows = by_threshold(scores, right, sum(right) + missed)
    assert rows[0].n == len(judged)
    assert all(one.recall >= other.recall for one, other in pairwise(rows))


@pytest.mark.parametrize(("scores", "right"), [([0.5], []), ([0.5, 1.5], [True, True]), ([math.nan], [True])])
def test_scores_that_are_none_are_refused(scores: list[float], right: list[bool]) -> None:
    for function in (reliability, fit_map):
        with pytest.raises(ValueError, match="scores"):
            function(scores, right)
