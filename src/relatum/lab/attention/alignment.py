"""Agreement of attention with entities and relations, as average precision (the paper's section 6.6 in figures).

All ordered pairs of different words of a corpus are ranked by the weight that an attention head gives from the first
word to the second, and a pattern says which pairs are right. An attention head that knows nothing has an average
precision of about the share of pairs that are right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relatum.types import Annotation, Entity

PATTERNS = ("entity", "head to tail", "tail to head")
"""From a word to another word of the same entity; from a word of a relation's head to a word of its tail; and back."""

_Array = NDArray[np.floating[Any]]

_N_BINS = int(np.array(1, dtype=np.float16).view(np.uint16)) + 1
"""The numbers of half precision from 0 to 1; read as integers they have the same order."""


def make_patterns(annotation: Annotation, n_words: int) -> dict[str, NDArray[np.bool_]]:
    """Return a mask (words, words) for each pattern: true if it connects two words, which are never the same word."""
    patterns = {name: np.zeros((n_words, n_words), dtype=np.bool_) for name in PATTERNS}

    def connect(name: str, first: Entity, second: Entity) -> None:
        patterns[name][np.ix_(_words(first), _words(second))] = True

    for entity in annotation.entities:
        connect("entity", entity, entity)
    for relation in annotation.relations:
        connect("head to tail", relation.head, relation.tail)
        connect("tail to head", relation.tail, relation.head)
    for pattern in patterns.values():
        np.fill_diagonal(pattern, False)
    return patterns


def nearness(n_words: int) -> NDArray[np.float64]:
    """Return the weights (1, words, words) of an attention head that knows only positions: nearer words weigh more.

    Most words of the same entity stand side by side, so an attention head that looks at neighbours does well by that
    alone.
    """
    positions = np.arange(n_words)
    distance: NDArray[np.float64] = np.maximum(np.abs(positions[:, None] - positions), 1).astype(np.float64)
    return 1 / distance[None]


@dataclass(frozen=True, slots=True)
class Alignment:
    """The agreement of attention heads with a pattern."""

    average_precision: NDArray[np.float64]
    """The average precision of each attention head."""
    chance: float
    """The share of all pairs that the pattern connects."""
    n_connected: int


class AlignmentCounter:
    """Histograms of the weights of attention heads, filled sentence by sentence; memory does not grow with the text.

    Weights are counted in half precision: weights that differ by less than a two-thousandth count as equal, and so do
    weights below 6e-8.
    """

    def __init__(self, n_heads: int) -> None:
        self.n_heads = n_heads
        self.n_pairs = 0
        self._all = np.zeros(n_heads * _N_BINS, dtype=np.int64)
        self._connected = {name: np.zeros_like(self._all) for name in PATTERNS}

    def add(self, weights: _Array, patterns: Mapping[str, NDArray[np.bool_]]) -> None:
        """Count a sentence: weights (attention heads, words, words), rows attending to columns, and its patterns."""
        n_heads, n_words, n_columns = weights.shape
        if n_heads != self.n_heads or n_words != n_columns:
            shape = (self.n_heads, "words", "words")
            raise ValueError(f"expected weights of the shape {shape}, found {weights.shape}")
        others = ~np.eye(n_words, dtype=np.bool_)
        halves = np.clip(weights, 0, 1).astype(np.float16).view(np.uint16).astype(np.int64)
        bins = halves + _N_BINS * np.arange(n_heads)[:, None, None]
        np.add.at(self._all, bins[:, others].ravel(), 1)
        for name, counts in self._connected.items():
            np.add.at(counts, bins[:, patterns[name] & others].ravel(), 1)
        self.n_pairs += n_words * (n_words - 1)

    def alignment(self, pattern: str) -> Alignment:
        """Return the agreement of each attention head with a pattern; NaN if the pattern connects nothing."""
        right = self._falling(self._connected[pattern])
        ranked = self._falling(self._all)
        n_connected = int(right[0, -1]) if self.n_heads else 0
        precision = right / np.maximum(ranked, 1)
        gained = np.diff(right, prepend=0)
        average_precision = (precision * gained).sum(1) / n_connected if n_connected else np.full(self.n_heads, np.nan)
        return Alignment(average_precision, n_connected / self.n_pairs if self.n_pairs else 0.0, n_connected)

    def _falling(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of pairs with at least the weight of a bin (attention heads, bins), highest bin first."""
        return counts.reshape(self.n_heads, _N_BINS)[:, ::-1].cumsum(1)


def _words(entity: Entity) -> list[int]:
    return [word for piece in entity.pieces() for word in range(piece.start, piece.end)]
