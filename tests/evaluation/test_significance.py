from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from relatum.errors import SchemaError
from relatum.evaluation import significance
from relatum.evaluation.matching import Counts, count
from relatum.evaluation.metrics import MacroOver, evaluate
from relatum.evaluation.significance import AVERAGES, METRICS, Interval, bootstrap, compare
from relatum.schema import RelationType, Schema
from relatum.types import Annotation, Entity, Relation, Span

Pair = tuple[Annotation, Annotation]
TASKS = ("entities", "relations", "relations_strict")
SCHEMA = Schema(("A", "B", "C"), (RelationType("r"), RelationType("s", symmetric=True)))


def mentions(n: int, label: str = "A", at: int = 0) -> tuple[Entity, ...]:
    return tuple(Entity(Span(at + i, at + i + 1), label) for i in range(n))


def entity_pair(correct: int, predicted: int, gold: int, label: str = "A") -> Pair:
    """A document with that many entities of one type right, predicted and in gold."""
    return (
        Annotation(mentions(gold, label)),
        Annotation(mentions(correct, label) + mentions(predicted - correct, label, at=100)),
    )


def random_annotation(rng: np.random.Generator) -> Annotation:
    entities = [Entity(Span(start, start + 1), str(rng.choice(["A", "B"]))) for start in range(4) if rng.random() < 0.8]
    relations = [
        Relation(head, tail, str(rng.choice(["r", "s"])))
        for head, tail in product(entities, repeat=2)
        if head != tail and rng.random() < 0.3
    ]
    return Annotation(tuple(entities), tuple(relations))


def random_pairs(n: int, seed: int) -> list[Pair]:
    rng = np.random.default_rng(seed)
    return [(random_annotation(rng), random_annotation(rng)) for _ in range(n)]


def counted(pairs: Sequence[Pair], schema: Schema | None = None) -> list[Counts]:
    return [count(gold, predicted, schema) for gold, predicted in pairs]


def all_scores(pairs: Sequence[Pair], schema: Schema | None = None, over: MacroOver = "gold") -> list[float]:
    """The eighteen numbers for which there are intervals, in order."""
    record = evaluate(pairs, schema, over).to_dict()
    return [record[task][average][metric] for task, average, metric in product(TASKS, AVERAGES, METRICS)]


def all_f1(pairs: Sequence[Pair]) -> list[float]:
    record = evaluate(pairs).to_dict()
    return [record[task][average]["f1"] for task, average in product(TASKS, AVERAGES)]


# Two documents make four resamples, as likely as each other: (1, 1), (1, 2), (2, 1), (2, 2).
# Counts (correct, predicted, gold): document 1 has (1, 2, 1), document 2 has (1, 1, 3).
#            counts     P     R     F1
#   (1, 1)   2, 4, 2   1/2    1    4/6
#   (1, 2)   2, 3, 4   2/3   1/2   4/7    (twice)
#   (2, 2)   2, 2, 6    1    1/3   4/8
TWO = [entity_pair(1, 2, 1), entity_pair(1, 1, 3)]


def test_bootstrap_interval_reaches_the_ends_of_an_enumerated_case() -> None:
    # Each end has a chance of 1/4 a resample, far more than the 2.5% that lie beyond a bound.
    found = bootstrap(counted(TWO), n_resamples=2000).values
    for average in AVERAGES:
        assert found["entities", average, "precision"] == (1 / 2, 1)
        assert found["entities", average, "recall"] == (1 / 3, 1)
        assert found["entities", average, "f1"] == (4 / 8, 4 / 6)


def test_bootstrap_interval_follows_the_confidence() -> None:
    # The middle value holds the quantiles from 1/4 to 3/4, so the inner 40% (0.3 to 0.7) are that value alone. That
    # fewer than 30% of 2000 draws fall below it, where 25% do on average, is a matter of 5 standard deviations.
    found = bootstrap(counted(TWO), n_resamples=2000, confidence=0.4).values
    assert found["entities", "micro", "precision"] == (2 / 3, 2 / 3)
    assert found["entities", "micro", "recall"] == (1 / 2, 1 / 2)
    assert found["entities", "micro", "f1"] == (4 / 7, 4 / 7)


@pytest.mark.parametrize(("schema", "over"), [(None, "gold"), (None, "all"), (SCHEMA, "schema"), (SCHEMA, "gold")])
def test_bootstrap_resample_is_scored_like_its_documents(schema: Schema | None, over: MacroOver) -> None:
    pairs = random_pairs(3, seed=0)
    possible = [all_scores(drawn, schema, over) for drawn in combinations_with_replacement(pairs, 3)]
    documents = counted(pairs, schema)
    met = set()
    for seed in range(60):
        values = bootstrap(documents, schema, over, n_resamples=1, seed=seed).values
        assert all(interval.low == interval.high for interval in values.values())
        drawn = [interval.low for interval in values.values()]
        (same,) = [i for i, scores in enumerate(possible) if drawn == pytest.approx(scores, rel=1e-12, abs=0)]
        met.add(same)
    # Three documents make ten different resamples; the rarest have a chance of 1/27 each.
    assert len(met) == len(possible) == 10


def test_bootstrap_draws_resamples_as_often_as_they_are_likely() -> None:
    pairs = random_pairs(4, seed=1)
    exact = np.array([all_scores(drawn) for drawn in product(pairs, repeat=4)])
    found = bootstrap(counted(pairs), n_resamples=40_000, confidence=0.5).values
    for column, interval in zip(exact.T, found.values(), strict=True):
        # The share of all 256 resamples at or below the bound is at least 1/4, below it at most 1/4: within 6
        # standard deviations of a share from 40,000 draws, sqrt(0.25 · 0.75 / 40,000) = 0.0022.
        for bound, share in ((interval.low, 0.25), (interval.high, 0.75)):
            assert np.mean(column <= bound + 1e-9) >= share - 6 * 0.0022
            assert np.mean(column < bound - 1e-9) <= share + 6 * 0.0022


def test_bootstrap_does_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = counted(random_pairs(7, seed=2))
    whole = bootstrap(documents, n_resamples=50)
    monkeypatch.setattr(significance, "_BLOCK", 20)  # two resamples a block
    assert bootstrap(documents, n_resamples=50) == whole
    monkeypatch.setattr(significance, "_BLOCK", 1)
    assert bootstrap(documents, n_resamples=50) == whole


def test_bootstrap_intervals_contain_the_score() -> None:
    pairs = random_pairs(60, seed=3)
    found = bootstrap(counted(pairs))
    for interval, score in zip(found.values.values(), all_scores(pairs), strict=True):
        assert interval.low < score < interval.high


def test_bootstrap_interval_shrinks_to_the_score_when_documents_are_alike() -> None:
    found = bootstrap(counted([entity_pair(1, 2, 3)] * 5), n_resamples=100)
    assert found.values["entities", "micro", "precision"] == (1 / 2, 1 / 2)
    assert found.values["entities", "macro", "f1"] == (2 / 5, 2 / 5)


def test_bootstrap_matches_the_binomial_closed_form() -> None:
    # 400 documents with one gold entity each, of which 300 are found, and no others predicted: recall is a share of
    # independent draws. Normal approximation: 0.75 ± 1.96 · sqrt(0.75 · 0.25 / 400) = 0.75 ± 0.0424.
    documents = counted([entity_pair(1, 1, 1)] * 300 + [entity_pair(0, 0, 1)] * 100)
    low, high = bootstrap(documents, n_resamples=20_000).values["entities", "micro", "recall"]
    # A recall moves in steps of 1/400 = 0.0025; a quantile of 20,000 draws strays by about 0.0004 (standard error).
    assert low == pytest.approx(0.75 - 0.0424, abs=0.0025 + 3 * 0.0004)
    assert high == pytest.approx(0.75 + 0.0424, abs=0.0025 + 3 * 0.0004)


def test_bootstrap_macro_is_over_the_types_of_the_resample() -> None:
    # Type B is in one document of two: a quarter of the resamples has only A, where macro recall is that of A alone.
    pairs = [entity_pair(1, 1, 1, "A"), entity_pair(0, 0, 1, "B")]
    values = bootstrap(counted(pairs), n_resamples=500).values
    assert values["entities", "macro", "recall"] == (0.0, 1.0)
    fixed = bootstrap(counted(pairs), Schema(("A", "B")), "schema", n_resamples=500).values
    assert fixed["entities", "macro", "recall"] == (0.0, 0.5)


def test_same_seed_gives_the_same_and_another_gives_another() -> None:
    a, b = counted(random_pairs(30, seed=5)), counted(random_pairs(30, seed=5))
    assert bootstrap(a, seed=1) == bootstrap(b, seed=1)
    assert bootstrap(a, seed=1).values != bootstrap(a, seed=2).values
    assert compare(a, b, seed=1) == compare(a, b, seed=1)


def systems(n: int, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Two systems on the same gold."""
    rng = np.random.default_rng(seed)
    gold = [random_annotation(rng) for _ in range(n)]
    return [(own, random_annotation(rng)) for own in gold], [(own, random_annotation(rng)) for own in gold]


def exact_p(a: list[Pair], b: list[Pair]) -> list[float]:
    """The share of all 2^n swaps with a difference at least as large as the observed one, for each of six F1."""
    observed = [abs(two - one) for one, two in zip(all_f1(a), all_f1(b), strict=True)]
    as_large = [0] * len(observed)
    for swaps in product((False, True), repeat=len(a)):
        one = [theirs if swap else own for own, theirs, swap in zip(a, b, swaps, strict=True)]
        two = [own if swap else theirs for own, theirs, swap in zip(a, b, swaps, strict=True)]
        for i, (f1_one, f1_two) in enumerate(zip(all_f1(one), all_f1(two), strict=True)):
            as_large[i] += abs(f1_two - f1_one) >= observed[i] - 1e-12
    return [n / 2 ** len(a) for n in as_large]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_p_values_agree_with_all_swaps_enumerated(seed: int) -> None:
    a, b = systems(6, seed)
    n = 20_000
    found = compare(counted(a), counted(b), n_resamples=n).values
    for difference, exact in zip(found.values(), exact_p(a, b), strict=True):
        # c of n swaps is binomial with share `exact`: 5 standard deviations, and at most 1/(n + 1) for adding one.
        bound = 5 * math.sqrt(exact * (1 - exact) / n) + 1 / (n + 1)
        assert abs(difference.p - exact) <= bound


def test_p_value_of_one_lopsided_case_is_the_hand_computed_one() -> None:
    # In each of 4 documents B finds the one entity and A does not: F1 is 0 and 1, a difference as large as it can be.
    # Only the two swaps that keep the systems whole reach it: p = 2/16.
    a, b = counted([entity_pair(0, 0, 1)] * 4), counted([entity_pair(1, 1, 1)] * 4)
    n = 20_000
    found = compare(a, b, n_resamples=n).values["entities", "micro"]
    assert (found.a, found.b, found.difference) == (0.0, 1.0, 1.0)
    assert found.interval == Interval(1.0, 1.0)
    assert abs(found.p - 2 / 16) <= 5 * math.sqrt(2 / 16 * 14 / 16 / n) + 1 / (n + 1)


def test_p_value_adds_one_to_both_counts() -> None:
    # With 30 documents no swap reaches the observed difference but by a chance of 2^-29: p = (0 + 1) / (99 + 1).
    a, b = counted([entity_pair(0, 0, 1)] * 30), counted([entity_pair(1, 1, 1)] * 30)
    assert compare(a, b, n_resamples=99).values["entities", "micro"].p == 1 / 100


def test_equal_systems_do_not_differ() -> None:
    documents = counted(random_pairs(10, seed=6))
    for difference in compare(documents, documents, n_resamples=200).values.values():
        assert difference.difference == 0
        assert difference.interval == Interval(0.0, 0.0)
        assert difference.p == 1


def test_comparison_turns_round_with_the_systems() -> None:
    a, b = (counted(pairs) for pairs in systems(12, seed=7))
    there, back = compare(a, b, n_resamples=300).values, compare(b, a, n_resamples=300).values
    for key, difference in there.items():
        turned = back[key]
        assert (difference.a, difference.b, difference.p) == (turned.b, turned.a, turned.p)
        assert difference.difference == -turned.difference
        assert difference.interval == pytest.approx((-turned.interval.high, -turned.interval.low), abs=1e-12)


def test_comparison_states_the_f1_of_both() -> None:
    a, b = systems(8, seed=8)
    found = compare(counted(a), counted(b), n_resamples=10).values.values()
    assert [difference.a for difference in found] == pytest.approx(all_f1(a), rel=1e-12)
    assert [difference.b for difference in found] == pytest.approx(all_f1(b), rel=1e-12)


def test_paired_interval_is_that_of_differences_on_the_same_documents() -> None:
    # F1 of A and B is 2/3 and 1 on document 1 alone, 6/11 and 8/12 on document 2 alone, 8/14 and 12/16 on both.
    # Differences: 1/3, 4/33 and 5/28; unpaired draws would reach from 2/3 - 2/3 = 0 to 1 - 6/11 = 5/11.
    a = [entity_pair(1, 1, 2), entity_pair(3, 3, 8)]
    b = [entity_pair(2, 2, 2), entity_pair(4, 4, 8)]
    found = compare(counted(a), counted(b), n_resamples=500).values["entities", "micro"]
    assert found.interval == pytest.approx((4 / 33, 1 / 3), rel=1e-12)


def test_comparison_covers_types_that_only_one_system_predicts() -> None:
    gold = Annotation(mentions(1))
    a, b = [(gold, gold)], [(gold, Annotation(mentions(1) + mentions(1, "Z")))]
    found = compare(counted(a), counted(b), macro_over="all", n_resamples=10).values
    assert (found["entities", "micro"].a, found["entities", "micro"].b) == (1.0, 2 / 3)
    assert (found["entities", "macro"].a, found["entities", "macro"].b) == (1.0, 1 / 2)


def test_different_gold_or_length_cannot_be_compared() -> None:
    one, two = counted([entity_pair(1, 1, 1)]), counted([entity_pair(1, 1, 2)])
    with pytest.raises(ValueError, match="same gold"):
        compare(one, two)
    with pytest.raises(ValueError, match="same documents; got 1 and 2"):
        compare(one, one * 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"n_resamples": 0}, "at least one resample"), ({"confidence": 1.0}, "between 0 and 1")],
)
def test_senseless_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bootstrap(counted(TWO), **options)


def test_no_documents_cannot_be_resampled() -> None:
    with pytest.raises(ValueError, match="no documents"):
        bootstrap([])


def test_macro_over_the_schema_needs_all_labels_in_it() -> None:
    with pytest.raises(SchemaError, match="entities: A"):
        bootstrap(counted(TWO), Schema(("B",)), "schema")


def test_documents_without_annotations_score_zero_throughout() -> None:
    found = bootstrap(counted([(Annotation(), Annotation())] * 3), n_resamples=5)
    assert Counter(found.values.values()) == {(0.0, 0.0): 18}


def test_to_dict_nests_by_task_and_average() -> None:
    documents = counted(TWO)
    record = bootstrap(documents, n_resamples=10, seed=3).to_dict()
    assert {key: record.pop(key) for key in ("confidence", "resamples", "seed")} == {
        "confidence": 0.95,
        "resamples": 10,
        "seed": 3,
    }
    assert list(record) == list(TASKS)
    assert record["entities"].keys() == {"micro", "macro"}
    assert record["entities"]["micro"].keys() == {"precision", "recall", "f1"}
    assert isinstance(record["entities"]["micro"]["f1"], list)
    compared = compare(documents, documents, n_resamples=10).to_dict()
    assert compared["relations"]["macro"] == {"a": 0.0, "b": 0.0, "difference": 0.0, "interval": [0.0, 0.0], "p": 1.0}
