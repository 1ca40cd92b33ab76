"""How well attention agrees with patterns, against a plain ranking of all pairs."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from relatum.lab.attention.alignment import PATTERNS, AlignmentCounter, make_patterns, nearness
from relatum.types import Annotation, Entity, Relation, Span

PEOP, LOC = Entity(Span(0, 2), "Peop"), Entity(Span(3, 4), "Loc")
ANNOTATION = Annotation((PEOP, LOC), (Relation(PEOP, LOC, "Live_In"),))


def pairs_of(pattern: NDArray[np.bool_]) -> set[tuple[int, int]]:
    return {(int(i), int(j)) for i, j in np.argwhere(pattern)}


def average_precision(weights: list[float], right: list[bool]) -> float:
    """The precision at every right pair, averaged; pairs of the same weight stand at the same place."""
    places = [sum(other >= weight for other in weights) for weight in weights]
    above = [sum(r and other >= weight for other, r in zip(weights, right, strict=True)) for weight in weights]
    return float(np.mean([a / p for a, p, r in zip(above, places, right, strict=True) if r]))


def test_patterns_connect_different_words_of_entities_and_of_related_entities() -> None:
    patterns = make_patterns(ANNOTATION, 5)
    assert tuple(patterns) == PATTERNS
    assert pairs_of(patterns["entity"]) == {(0, 1), (1, 0)}
    assert pairs_of(patterns["head to tail"]) == {(0, 3), (1, 3)}
    assert pairs_of(patterns["tail to head"]) == {(3, 0), (3, 1)}


def test_words_between_the_fragments_of_an_entity_are_not_connected() -> None:
    apart = Entity(Span(0, 4), "Drug", (Span(0, 1), Span(3, 4)))
    assert pairs_of(make_patterns(Annotation((apart,)), 5)["entity"]) == {(0, 3), (3, 0)}
    within = Entity(Span(0, 3), "Drug")
    nested = Annotation((within, PEOP), (Relation(within, PEOP, "part"),))
    assert (0, 0) not in pairs_of(make_patterns(nested, 3)["head to tail"])


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 1000))
def test_average_precision_is_that_of_all_pairs_of_all_sentences_ranked_together(lengths: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    counter = AlignmentCounter(2)
    ranked: list[tuple[list[float], bool]] = []
    for n_words in lengths:
        # Weights that half precision can hold, so that the same ones are equal in both rankings.
        weights = random.choice([0.0, 0.125, 0.25, 0.5, 1.0, 0.75], size=(2, n_words, n_words))
        pattern = random.random((n_words, n_words)) < 0.3
        counter.add(weights, dict.fromkeys(PATTERNS, pattern))
        ranked += [
            ([float(weights[0, i, j]), float(weights[1, i, j])], bool(pattern[i, j]))
            for i in range(n_words)
            for j in range(n_words)
            if i != j
        ]
    found = counter.alignment("entity")
    right = [one for _, one in ranked]
    assert found.n_connected == sum(right)
    assert counter.n_pairs == len(ranked)
    if not any(right):
        assert all(map(isnan, found.average_precision))
        return
    assert found.chance == sum(right) / len(ranked)
    for head in (0, 1):
        expected = average_precision([weights[head] for weights, _ in ranked], right)
        assert found.average_precision[head] == pytest.approx(expected, abs=1e-12)


def test_a_head_that_knows_the_pattern_is_perfect_and_one_that_knows_nothing_has_chance() -> None:
    patterns = make_patterns(ANNOTATION, 5)
    counter = AlignmentCounter(3)
    knows, knows_not = patterns["head to tail"] * 0.3, np.full((5, 5), 0.2)
    counter.add(np.stack([knows, knows_not, 1 - knows]), patterns)
    found = counter.alignment("head to tail")
    assert found.average_precision[0] == 1
    assert found.average_precision[1] == pytest.approx(found.chance) == pytest.approx(2 / 20)
    assert found.average_precision[2] == pytest.approx(found.chance)


def test_tiny_differences_of_weights_do_not_matter_and_larger_ones_do() -> None:
    patterns = {name: np.array([[False, True, False], [False] * 3, [False] * 3]) for name in PATTERNS}
    for weight, expected in ((0.4, 1 / 6), (0.4 * (1 - 1e-5), 1 / 6), (0.4 * (1 - 2e-3), 1.0)):
        counter = AlignmentCounter(1)
        weights = np.full((1, 3, 3), weight)
        weights[0, 0, 1] = 0.4
        counter.add(weights, patterns)
        assert counter.alignment("entity").average_precision[0] == pytest.approx(expected)


def test_nearness_prefers_words_side_by_side() -> None:
    counter = AlignmentCounter(1)
    patterns = {name: np.eye(6, k=1, dtype=np.bool_) | np.eye(6, k=-1, dtype=np.bool_) for name in PATTERNS}
    counter.add(nearness(6), patterns)
    assert counter.alignment("entity").average_precision[0] == 1


def test_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="expected weights of the shape"):
        AlignmentCounter(2).add(np.zeros((3, 4, 4)), make_patterns(Annotation(), 4))
