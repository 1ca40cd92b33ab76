"""Confidence intervals of scores, and tests of the difference between two systems.

Both resample documents: whole documents are drawn anew, or swapped between the systems. A score follows
from summed counts, so a block of resamples is one matrix product: weights (resamples × documents) times counts
(documents × types). The sums are of whole numbers and exact, so results depend on the data and the seed alone.

Each resample is scored as `metrics` would score those documents, the types of the macro average included: "gold" means
the types in the gold of the resample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relatum.evaluation.matching import TASKS, Count, Counts
from relatum.evaluation.metrics import MacroOver, macro_types
from relatum.schema import Schema

AVERAGES = ("micro", "macro")
METRICS = ("precision", "recall", "f1")

_BLOCK = 2**21
"""The number of weights held at once, whatever the number of resamples: 16 MiB, or one resample if that is more."""

_TIE = 1e-12
"""Differences of F1 this close count as equal, so that rounding does not decide a tie."""

_Array: TypeAlias = NDArray[np.float64]


class Interval(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Intervals:
    """Bootstrap intervals by task, average and metric: `values["entities", "micro", "f1"]`."""

    values: Mapping[tuple[str, str, str], Interval]
    confidence: float
    n_resamples: int
    seed: int

    def to_dict(self) -> dict[str, Any]:
        tasks: dict[str, dict[str, dict[str, list[float]]]] = {}
        for (task, average, metric), interval in self.values.items():
            tasks.setdefault(task, {}).setdefault(average, {})[metric] = list(interval)
        return {"confidence": self.confidence, "resamples": self.n_resamples, "seed": self.seed, **tasks}


@dataclass(frozen=True, slots=True)
class Difference:
    """The F1 of two systems; `p` is the chance of a `difference` (b minus a) as large between equal systems."""

    a: float
    b: float
    difference: float
    interval: Interval
    p: float

    def to_dict(self) -> dict[str, Any]:
        values = {"a": self.a, "b": self.b, "difference": self.difference}
        return {**values, "interval": list(self.interval), "p": self.p}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems compared by F1, by task and average: `values["entities", "micro"]`."""

    values: Mapping[tuple[str, str], Difference]
    confidence: float
    n_resamples: int
    seed: int

    def to_dict(self) -> dict[str, Any]:
        tasks: dict[str, dict[str, Any]] = {}
        for (task, average), difference in self.values.items():
            tasks.setdefault(task, {})[average] = difference.to_dict()
        return {"confidence": self.confidence, "resamples": self.n_resamples, "seed": self.seed, **tasks}


def bootstrap(
    documents: Sequence[Counts],
    schema: Schema | None = None,
    macro_over: MacroOver = "gold",
    n_resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Intervals:
    """Percentile intervals of all scores, from `n_resamples` corpora drawn from the documents with replacement.

    `documents` holds the counts of each document (`matching.count`).
    """
    _check(documents, n_resamples, confidence)
    labels = _labels(documents, schema, macro_over)
    counts = _matrix(documents, labels)
    blocks = _draws(np.random.default_rng(seed), n_resamples, len(documents))
    scores = np.concatenate([_scores(weights @ counts, labels, macro_over) for weights in blocks])
    bounds = _bounds(scores, confidence)
    values = {
        (task, average, metric): Interval(*map(float, bounds[:, i, j, k]))
        for i, task in enumerate(TASKS)
        for j, average in enumerate(AVERAGES)
        for k, metric in enumerate(METRICS)
    }
    return Intervals(values, confidence, n_resamples, seed)


def compare(
    a: Sequence[Counts],
    b: Sequence[Counts],
    schema: Schema | None = None,
    macro_over: MacroOver = "gold",
    n_resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Comparison:
    """Compare two systems on the same documents, whose counts are given in the same order.

    The interval of the difference comes from drawing the same documents for both (paired bootstrap). The p-value is
    two-sided and comes from swapping the two systems' predictions in a random half of the documents (approximate
    randomisation): (c + 1) / (n + 1) when c of n swaps give a difference at least as large as the one observed.
    """
    _check(a, n_resamples, confidence)
    if len(a) != len(b):
        raise ValueError(f"two systems are compared on the same documents; got {len(a)} and {len(b)}")
    labels = _labels([*a, *b], schema, macro_over)
    counts_a = _matrix(a, labels)
    counts_b = _matrix(b, labels)
    if not np.array_equal(_by_kind(counts_a)[:, 2], _by_kind(counts_b)[:, 2]):
        raise ValueError("two systems are compared against the same gold; got counts of different gold annotations")

    def f1(totals: _Array) -> _Array:
        return _scores(totals, labels, macro_over)[..., METRICS.index("f1")]

    total_a = counts_a.sum(axis=0, keepdims=True)
    total_b = counts_b.sum(axis=0, keepdims=True)
    f1_a = f1(total_a)[0]
    f1_b = f1(total_b)[0]
    rng = np.random.default_rng(seed)
    blocks = _draws(rng, n_resamples, len(a))
    drawn = np.concatenate([f1(weights @ counts_b) - f1(weights @ counts_a) for weights in blocks])
    bounds = _bounds(drawn, confidence)

    observed = np.abs(f1_b - f1_a) - _TIE
    as_large = np.zeros(f1_a.shape, dtype=np.int64)
    for swapped in _swaps(rng, n_resamples, len(a)):
        moved = swapped @ (counts_b - counts_a)
        differences = f1(total_b - moved) - f1(total_a + moved)
        as_large += np.count_nonzero(np.abs(differences) >= observed, axis=0)
    p = (as_large + 1) / (n_resamples + 1)

    values = {
        (task, average): Difference(
            float(f1_a[i, j]),
            float(f1_b[i, j]),
            float(f1_b[i, j] - f1_a[i, j]),
            Interval(*map(float, bounds[:, i, j])),
            float(p[i, j]),
        )
        for i, task in enumerate(TASKS)
        for j, average in enumerate(AVERAGES)
    }
    return Comparison(values, confidence, n_resamples, seed)


def _check(documents: Sequence[Counts], n_resamples: int, confidence: float) -> None:
    if not documents:
        raise ValueError("there are no documents to draw from")
    if n_resamples < 1:
        raise ValueError(f"at least one resample is needed, got {n_resamples}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence lies between 0 and 1, got {confidence}")


def _labels(documents: Sequence[Counts], schema: Schema | None, macro_over: MacroOver) -> list[list[str]]:
    """The types of each task, in the order of its columns."""
    labels = []
    for task in TASKS:
        seen = {label for counts in documents for label in getattr(counts, task)}
        labels.append(macro_types(task, {label: Count(gold=1) for label in seen}, schema, macro_over))
    return labels


def _matrix(documents: Sequence[Counts], labels: list[list[str]]) -> _Array:
    """Return one row per document: for all types of all tasks the numbers correct, then predicted, then in gold."""
    names = [(task, label) for task, of_task in zip(TASKS, labels, strict=True) for label in of_task]
    column = {name: i for i, name in enumerate(names)}
    matrix = np.zeros((len(documents), 3, len(names)))
    for row, counts in zip(matrix, documents, strict=True):
        for task, by_label in counts.tasks():
            for label, of_type in by_label.items():
                row[:, column[task, label]] = of_type.correct, of_type.predicted, of_type.gold
    return matrix.reshape(len(documents), -1)


def _by_kind(totals: _Array) -> _Array:
    """Rows of counts as rows × (correct, predicted, gold) × types."""
    return totals.reshape(len(totals), 3, -1)


def _scores(totals: _Array, labels: list[list[str]], macro_over: MacroOver) -> _Array:
    """Scores of each row of summed counts: rows × tasks × averages × metrics."""
    scores = np.empty((len(totals), len(TASKS), len(AVERAGES), len(METRICS)))
    borders = np.cumsum([len(of_task) for of_task in labels])[:-1]
    for i, counts in enumerate(np.split(_by_kind(totals), borders, axis=2)):
        _, predicted, gold = (counts[:, kind] for kind in range(3))
        if macro_over == "gold":
            included = gold > 0
        elif macro_over == "all":
            included = gold + predicted > 0
        else:
            included = np.ones_like(gold, dtype=np.bool_)
        scores[:, i, 0] = _metrics(counts.sum(axis=2))
        by_type = np.where(included[:, None], _metrics(counts), 0.0)
        scores[:, i, 1] = _ratio(by_type.sum(axis=2), included.sum(axis=1, keepdims=True))
    return scores


def _metrics(counts: _Array) -> _Array:
    """Precision, recall and F1 where the second axis holds correct, predicted and gold."""
    correct, predicted, gold = (counts[:, kind] for kind in range(3))
    ratios = _ratio(correct, predicted), _ratio(correct, gold), _ratio(2 * correct, predicted + gold)
    return np.stack(ratios, axis=1)


def _ratio(part: _Array, whole: NDArray[Any]) -> _Array:
    ratio = np.zeros_like(part)
    np.divide(part, whole, out=ratio, where=whole > 0)
    return ratio


def _bounds(values: _Array, confidence: float) -> _Array:
    """Return the lower bounds, then the upper bounds."""
    return np.quantile(values, np.array([1 - confidence, 1 + confidence]) / 2, axis=0)


def _draws(rng: np.random.Generator, n_resamples: int, n_documents: int) -> Iterator[_Array]:
    """Yield blocks of resamples: the number of times that each resample draws each document."""
    for n_rows in _blocks(n_resamples, n_documents):
        drawn = rng.integers(n_documents, size=(n_rows, n_documents))
        drawn += np.arange(n_rows)[:, None] * n_documents
        times = np.bincount(drawn.ravel(), minlength=drawn.size)
        yield times.reshape(drawn.shape).astype(np.float64)


def _swaps(rng: np.random.Generator, n_resamples: int, n_documents: int) -> Iterator[_Array]:
    """Yield blocks of swaps: 1 for a document whose predictions change sides."""
    for n_rows in _blocks(n_resamples, n_documents):
        yield rng.integers(2, size=(n_rows, n_documents), dtype=np.int8).astype(np.float64)


def _blocks(n_rows: int, n_columns: int) -> Iterator[int]:
    size = max(1, _BLOCK // n_columns)
    for start in range(0, n_rows, size):
        yield min(size, n_rows - start)
