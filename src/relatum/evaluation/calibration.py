"""Calibration: the distance of scores from probabilities of being right, and a map that reduces it.

The expected calibration error is the mean distance between the mean score of a bin and the share of its members that
are right, weighted by the number of members. Bins have equal mass: nearly all scores of a model lie close to 1, so with
bins of equal width one bin would hold nearly everything, and the others too little to say anything. There are `N_BINS`
bins, fewer if a bin would have less than `LEAST_IN_BIN` members; equal scores are never divided between bins.

The map is sigmoid(logit(score) / T + b) (`types.ScoreMap`), fitted by maximum likelihood with normal priors of 1/T
around 1 and of b around 0, both of deviation 1: with hundreds of examples the priors have no visible effect, and
without examples the scores stay as they are. Cross-validation decides if there is a bias: the likelihood of halves of
the examples under maps that were fitted to the other halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from relatum.types import SURE, ScoreMap

N_BINS = 10
LEAST_IN_BIN = 20
THRESHOLDS = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""The default thresholds of a table; calibrated scores are seldom above the last."""

_N_HALVINGS = 10
_LEAST_FOR_BIAS = 10
_SLOPES = (0.01, 20.0)
"""The bounds of 1/T: even if scores say nothing, or are lower for what is right, the map keeps their order."""
_PRIOR = np.array([1.0, 0.0])
_N_STEPS = 100
_CLOSE = 1e-10

_Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bin:
    """A group of items with neighbouring scores."""

    low: float
    high: float
    n: int
    score: float
    """The mean score of the items."""
    right: float
    """The share of the items that are right."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class AtThreshold:
    """The scores of a system if items below a threshold are left out; fractions, 0 for nothing out of nothing."""

    threshold: float
    n: int
    precision: float
    recall: float
    f1: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def reliability(scores: ArrayLike, right: ArrayLike) -> list[Bin]:
    """Divide items into bins of equal mass, in the order of their scores; no items, no bins."""
    values, truth = _arrays(scores, right)
    order = np.argsort(values, kind="stable")
    values, truth = values[order], truth[order]
    n = len(values)
    n_bins = min(N_BINS, max(1, n // LEAST_IN_BIN))
    at_cuts = [values[n * number // n_bins] for number in range(1, n_bins)]
    # A cut between equal scores moves to the first of them.
    cuts = {int(np.searchsorted(values, value)) for value in at_cuts} - {0}
    edges = [0, *sorted(cuts), n] if n else []
    return [
        Bin(
            float(values[start]),
            float(values[end - 1]),
            end - start,
            float(values[start:end].mean()),
            float(truth[start:end].mean()),
        )
        for start, end in pairwise(edges)
    ]


def calibration_error(bins: Sequence[Bin]) -> float | None:
    """Return the expected calibration error, a fraction; None if the bins are empty."""
    n = sum(bin.n for bin in bins)
    return sum(bin.n * abs(bin.score - bin.right) for bin in bins) / n if n else None


def by_threshold(
    scores: ArrayLike, right: ArrayLike, n_gold: int, thresholds: Sequence[float] = THRESHOLDS
) -> list[AtThreshold]:
    """Return precision, recall and F1 at each threshold; `n_gold` is the number of gold items."""
    values, truth = _arrays(scores, right)
    rows = []
    for threshold in thresholds:
        kept = values >= threshold
        n = int(kept.sum())
        correct = int(truth[kept].sum())
        rows.append(
            AtThreshold(
                threshold,
                n,
                correct / n if n else 0.0,
                correct / n_gold if n_gold else 0.0,
                2 * correct / (n + n_gold) if n + n_gold else 0.0,
            )
        )
    return rows


def fit_map(scores: ArrayLike, right: ArrayLike) -> ScoreMap:
    """Fit the map of scores by maximum likelihood; the result does not depend on the order of the scores."""
    values, truth = _arrays(scores, right)
    order = np.lexsort((truth, values))
    logits = _logits(values[order])
    truth = truth[order]
    with_bias = len(logits) >= _LEAST_FOR_BIAS and _held_out_loss(logits, truth, True) < _held_out_loss(
        logits, truth, False
    )
    slope, bias = _fit(logits, truth, with_bias)
    return ScoreMap(1 / slope, bias)


def _held_out_loss(logits: _Array, right: _Array, with_bias: bool) -> float:
    """Return the loss of halves of the examples under maps fitted to the other halves, over several fixed halvings."""
    rng = np.random.default_rng(0)
    total = 0.0
    for _ in range(_N_HALVINGS):
        first, second = np.array_split(rng.permutation(len(logits)), 2)
        for known, unknown in ((first, second), (second, first)):
            slope, bias = _fit(logits[known], right[known], with_bias)
            total += float(_losses(slope * logits[unknown] + bias, right[unknown]).sum())
    return total


def _fit(logits: _Array, right: _Array, with_bias: bool) -> tuple[float, float]:
    """Return the likeliest slope 1/T and bias."""
    free = np.array([True, with_bias])
    fitted = _minimise(logits, right, _PRIOR, free)
    bounded = np.clip(fitted[0], *_SLOPES)
    if bounded != fitted[0]:  # the loss is convex: its least value within bounds that are passed lies on them
        start = np.array([bounded, fitted[1]])
        fitted = _minimise(logits, right, start, np.array([False, with_bias]))
    return float(fitted[0]), float(fitted[1])


def _minimise(logits: _Array, right: _Array, start: _Array, free: NDArray[np.bool_]) -> _Array:
    """Minimise the loss by Newton's method over slope and bias, as far as they are free.

    Each step is halved until the loss goes down.
    """
    columns = np.stack([logits, np.ones_like(logits)], axis=1)
    free_columns = columns[:, free]

    def loss(point: _Array) -> float:
        return float(_losses(columns @ point, right).sum() + 0.5 * ((point - _PRIOR) ** 2).sum())

    point = start
    height = loss(start)
    for _ in range(_N_STEPS if free.any() else 0):
        likely = _sigmoid(columns @ point)
        gradient = free_columns.T @ (likely - right) + (point - _PRIOR)[free]
        weights = likely * (1 - likely)
        curvature = (free_columns * weights[:, None]).T @ free_columns + np.eye(int(free.sum()))
        step = np.zeros_like(point)
        step[free] = np.linalg.solve(curvature, gradient)
        while np.abs(step).max() > _CLOSE and loss(point - step) > height:
            step /= 2
        if np.abs(step).max() <= _CLOSE:
            break
        point = point - step
        height = loss(point)
    return point


def _losses(values: _Array, right: _Array) -> _Array:
    """Return minus the log-likelihood of each example."""
    losses: _Array = np.logaddexp(0.0, values) - right * values
    return losses


def _sigmoid(values: _Array) -> _Array:
    probabilities: _Array = np.exp(-np.logaddexp(0.0, -values))
    return probabilities


def _logits(scores: _Array) -> _Array:
    clipped = np.clip(scores, SURE, 1 - SURE)
    logits: _Array = np.log(clipped) - np.log1p(-clipped)
    return logits


def _arrays(scores: ArrayLike, right: ArrayLike) -> tuple[_Array, _Array]:
    values = np.asarray(scores, dtype=np.float64)
    truth = np.asarray(right, dtype=np.float64)
    if values.ndim != 1 or values.shape != truth.shape:
        raise ValueError(f"expected as many scores as there are verdicts, got {values.shape} and {truth.shape}")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("expected scores between 0 and 1")
    return values, truth
