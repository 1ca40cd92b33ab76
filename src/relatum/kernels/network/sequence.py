"""A layer of the sequence encoder that the table guides, in one call of compiled code; see `native/sequence.h`."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch
from torch import Tensor

from relatum.kernels.linear.structures import Dense, Norm
from relatum.kernels.network.cpu import TABLE_DTYPES, Holder, Words, call

MOST_HEADS = 64
"""The most attention heads that it can have."""


@dataclass(frozen=True, slots=True)
class SequenceWeights:
    """Those of a layer; linear layers and norms as pairs of weight and bias."""

    guide: Tensor
    """(attention heads, table width)"""
    value: tuple[Tensor, Tensor]
    output: tuple[Tensor, Tensor]
    inner: tuple[Tensor, Tensor]
    outer: tuple[Tensor, Tensor]
    attention_norm: tuple[Tensor, Tensor]
    norm: tuple[Tensor, Tensor]


class PackedSequenceLayer(Holder):
    """The weights of a layer, put in order."""

    def __init__(self, weights: SequenceWeights, epsilons: tuple[float, float], activates: bool) -> None:
        super().__init__()
        self._n_heads, self._table_width = weights.guide.shape
        self._guide = self.pack(weights.guide)
        self._layers = {name: self.dense(*getattr(weights, name)) for name in ("value", "output", "inner", "outer")}
        attention_norm, norm = weights.attention_norm, weights.norm
        self._norms = {
            "attention_norm": self.norm(*attention_norm, epsilons[0]),
            "norm": self.norm(*norm, epsilons[1]),
        }
        self._activates = activates

    def read(self, sequence: Tensor, table: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The next sequence, and attention, (batch, heads, words, words); zero where there is no word."""
        sequence, table = sequence.detach().contiguous(), table.detach().contiguous()
        words = Words.of(mask)
        result, attention = words.make(sequence.shape[2]), self.make_attention(words)
        call("relatum_sequence", self.job(sequence, table, words, result, attention))
        return result, attention

    def make_attention(self, words: Words) -> Tensor:
        """Room for the weights of attention."""
        shape = len(words.lengths), self._n_heads, words.n_words, words.n_words
        return torch.zeros(shape) if words.is_ragged else torch.empty(shape)

    def job(self, sequence: Tensor, table: Tensor, words: Words, result: Tensor, attention: Tensor) -> SequenceJob:
        """What `relatum_sequence` is asked for; the tensors are without gaps and must live until it is done."""
        return SequenceJob(
            sequence=sequence.data_ptr(),
            table=table.data_ptr(),
            lengths=words.address,
            guide=self._guide,
            **self._layers,
            **self._norms,
            result=result.data_ptr(),
            attention=attention.data_ptr(),
            dtype=TABLE_DTYPES.index(table.dtype),
            n_sentences=len(words.lengths),
            n_words=words.n_words,
            width=sequence.shape[2],
            table_width=self._table_width,
            n_heads=self._n_heads,
            activates=self._activates,
            n_threads=torch.get_num_threads(),
        )


class SequenceJob(ctypes.Structure):
    """As in `native/sequence.h`."""

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
    )
