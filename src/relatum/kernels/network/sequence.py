"""A layer of the sequence encoder that the table guides, in one call of compiled code; see `native/sequence.h`."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from relatum.kernels.arrays import Array
from relatum.kernels.linear.structures import Dense, Norm
from relatum.kernels.network.cpu import Holder

MOST_HEADS = 64
"""The most attention heads that a layer can have."""


@dataclass(frozen=True, slots=True)
class SequenceWeights:
    """The weights of a layer; linear layers and norms are pairs of weight and bias."""

    guide: Array
    """(attention heads, table width)"""
    value: tuple[Array, Array]
    output: tuple[Array, Array]
    inner: tuple[Array, Array]
    outer: tuple[Array, Array]
    attention_norm: tuple[Array, Array]
    norm: tuple[Array, Array]


class PackedSequenceLayer(Holder):
    """The packed weights of a layer."""

    def __init__(self, weights: SequenceWeights, epsilons: tuple[float, float], activates: bool) -> None:
        super().__init__()
        self.n_heads, self._table_width = weights.guide.shape
        self._guide = self.pack(weights.guide)
        self._weights = {name: getattr(weights, name) for name in ("value", "output", "inner", "outer")}
        self._layers = {name: self.dense(*one) for name, one in self._weights.items()}
        self._split: dict[str, Dense] = {}
        attention_norm, norm = weights.attention_norm, weights.norm
        self._norms = {
            "attention_norm": self.norm(*attention_norm, epsilons[0]),
            "norm": self.norm(*norm, epsilons[1]),
        }
        self._activates = activates

    def weights_job(self, dtype: int, splits: bool = False) -> SequenceJob:
        """Return a job for `relatum_sequence` and a table of a dtype, but without what depends on the batch.

        With `splits`, each product is made of several products in bfloat16, see `kernels/linear`.
        """
        if splits and not self._split:
            self._split = {name: self.split_dense(*one) for name, one in self._weights.items()}
        layers = self._split if splits else self._layers
        return SequenceJob(
            guide=self._guide,
            **layers,
            **self._norms,
            dtype=dtype,
            width=self._layers["value"].depth,
            table_width=self._table_width,
            n_heads=self.n_heads,
            activates=self._activates,
            splits=splits,
        )


class SequenceJob(ctypes.Structure):
    """The structure `SequenceJob` of `native/sequence.h`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("sequence", "table", "lengths", "guide")),
        *((name, Dense) for name in ("value", "output", "inner", "outer")),
        ("attention_norm", Norm),
        ("norm", Norm),
        ("result", ctypes.c_void_p),
        ("attention", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("dtype", "n_sentences", "n_words", "width", "table_width", "n_heads")),
        ("activates", ctypes.c_int32),
        ("n_threads", ctypes.c_int32),
        ("splits", ctypes.c_int32),
    )
