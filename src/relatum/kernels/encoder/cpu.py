"""A BERT on a CPU: from pieces to the vectors of words and the attention between them, in one call of compiled code.

See `native/encoder.cpp`. At one sentence at a time most of what plain torch takes is not arithmetic: there are two
hundred small operations in a BERT of six layers.
"""

from __future__ import annotations

import ctypes
import logging
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain
from typing import Literal, NamedTuple, get_args

import numpy as np

from relatum.errors import RelatumError
from relatum.kernels.arrays import Array, address_of, allocate, name_of
from relatum.kernels.compile import CompileError, Source, can_load, load
from relatum.kernels.linear.structures import Dense, Norm
from relatum.kernels.linear.tiles import pack_tiles
from relatum.kernels.sources import ENCODER, READING
from relatum.kernels.threads import count_threads, share_threads

_log = logging.getLogger(__name__)

SOURCE = ENCODER

Products = Literal["float32", "split", "int8"]
"""Ways to multiply with weights: in float32, as several products in bfloat16 on a matrix unit (`kernels/linear`), or in
8-bit integers (`kernels/linear/native/bytes.h`)."""

_DTYPES = ("float32", "bfloat16", "float16")
_ALIGNMENT = 64
_MAX_ROWS = 128
"""About the number of pieces that go through all layers together: values between layers stay in the L2 cache."""


class NormWeights(NamedTuple):
    """The weights of a layer norm."""

    weight: Array
    bias: Array
    epsilon: float


class DenseWeights(NamedTuple):
    """The weights of a linear layer: (outputs, inputs) and (outputs)."""

    weight: Array
    bias: Array


class LayerWeights(NamedTuple):
    """The weights of a layer; the projection makes queries, keys and values, in this order."""

    projection: DenseWeights
    output: DenseWeights
    attention_norm: NormWeights
    inner: DenseWeights
    outer: DenseWeights
    norm: NormWeights


@dataclass(frozen=True, slots=True)
class EncoderWeights:
    """The weights of a BERT: float32, except the pieces, which may be in half precision."""

    pieces: Array
    """(vocabulary, width)"""
    positions: Array
    """(positions, width), including the vector that is added to every piece."""
    norm: NormWeights
    layers: Sequence[LayerWeights]
    n_attention_heads: int


@dataclass(frozen=True, slots=True)
class PoolingOptions:
    """The outputs that are wanted of the layers."""

    n_kept: int
    """The number of last layers whose mean is taken; 0 for the embeddings and all layers side by side."""
    first_piece: bool
    """True if a word's vector is the vector of its first piece, not the mean of all its pieces."""
    mean_attention: bool
    """True if the attention that a word pays is the mean over the word's pieces, not the sum."""
    want_maps: bool


class PreparedFeatures(NamedTuple):
    """Features that are yet to be computed."""

    vectors: Array
    maps: Array | None
    run: Callable[[], None]
    """Computes the features; before, the arrays may hold anything."""


@cache
def is_available(source: Source = SOURCE) -> bool:
    """True if the compiled library is usable. Compiles it on first call and warns if that fails."""
    if not can_load(source)[0]:
        return False
    try:
        _library(source)
    except CompileError as error:
        _log.warning("the encoder is computed in plain torch, which is slower: %s", error)
        return False
    return True


class PackedEncoder:
    """A BERT with packed weights; later changes of the weights are not seen."""

    def __init__(self, weights: EncoderWeights, products: Products = "float32", source: Source = SOURCE) -> None:
        _check(weights)
        self.products = products
        self._kind = get_args(Products).index(products)
        self._library = _library(source)
        self._held: list[Array] = []  # what the structures point to
        self._width, self._n_layers = weights.pieces.shape[1], len(weights.layers)
        self._n_heads = weights.n_attention_heads
        self._n_pieces, self._n_positions = len(weights.pieces), len(weights.positions)
        self._room = self._make_room(
            [one for layer in weights.layers for one in layer if isinstance(one, DenseWeights)]
        )
        self._layers = (_Layer * self._n_layers)(
            *(
                _Layer(
                    *map(self._pack, (layer.projection, layer.output, layer.inner, layer.outer)),
                    *map(self._hold_norm, (layer.attention_norm, layer.norm)),
                )
                for layer in weights.layers
            )
        )
        self._template = bytes(
            _Job(
                pieces=self._hold(weights.pieces),
                positions=self._hold(weights.positions),
                norm=self._hold_norm(weights.norm),
                layers=ctypes.addressof(self._layers),
                dtype=_DTYPES.index(name_of(weights.pieces.dtype)),
                width=self._width,
                inner_width=weights.layers[0].inner.weight.shape[0] if weights.layers else 0,
                n_layers=self._n_layers,
                n_heads=self._n_heads,
                n_pieces=self._n_pieces,
                n_positions=self._n_positions,
                products=self._kind,
                max_rows=_MAX_ROWS,
            )
        )

    def read(
        self, pieces: Sequence[Sequence[int]], words: Sequence[Sequence[int]], pooling: PoolingOptions
    ) -> tuple[Array, Array | None]:
        """Return the vectors, (batch, words, width), and the maps, (batch, words, words, maps).

        Both are zero where a sentence is shorter than the longest. See `prepare`.
        """
        prepared = self.prepare(pieces, words, pooling)
        prepared.run()
        return prepared.vectors, prepared.maps

    def prepare(
        self, pieces: Sequence[Sequence[int]], words: Sequence[Sequence[int]], pooling: PoolingOptions
    ) -> PreparedFeatures:
        """Prepare the features of sentences, and allocate them.

        Each sentence is given by its pieces, and by the positions at which its words begin in them, followed by the
        position behind the last word. Every word has a piece, and the words follow each other. The number of threads is
        `count_threads()`; results do not depend on it.
        """
        n_batch, n_words = len(pieces), [len(one) - 1 for one in words]
        longest, n_maps = max(n_words), self._n_layers * self._n_heads
        # Arrays of Python's: for a sentence, one of numpy takes longer to make than to fill.
        rows, begins = array("i", chain.from_iterable(pieces)), array("i", chain.from_iterable(words))
        starts, lengths = array("i", accumulate(map(len, pieces), initial=0)), array("i", n_words)
        n_mixed = 1 if pooling.n_kept else self._n_layers + 1
        vectors = allocate((n_batch, longest, n_mixed * self._width))
        maps = allocate((n_batch, longest, longest, n_maps)) if pooling.want_maps else None
        job = _Job.from_buffer_copy(self._template)
        job.rows, job.starts = rows.buffer_info()[0], starts.buffer_info()[0]
        job.words, job.n_words = begins.buffer_info()[0], lengths.buffer_info()[0]
        job.vectors, job.maps = address_of(vectors), None if maps is None else address_of(maps)
        job.n_sentences, job.most_words, job.n_kept = n_batch, longest, pooling.n_kept
        job.first_piece, job.mean_attention = pooling.first_piece, pooling.mean_attention
        job.n_threads = count_threads()

        # All that the job points to lives as long as this, whatever becomes of the rest.
        def run(_held: object = (rows, begins, starts, lengths, vectors, maps)) -> None:
            self._do(job, rows, max(map(len, pieces)))

        return PreparedFeatures(vectors, maps, run)

    def _do(self, job: _Job, rows: Sequence[int], most: int) -> None:
        failure = self._library.relatum_encoder(ctypes.byref(job))
        if failure == 3:
            raise RelatumError(
                f"a sentence of {most} pieces up to number {max(rows)}: the encoder has "
                f"{self._n_positions} positions and {self._n_pieces} pieces"
            )
        if failure == 2:
            raise RelatumError("products of the encoder cannot be split: this process may not use a matrix unit")
        if failure:
            raise MemoryError("the encoder found no memory for its buffers")

    def _hold(self, values: Array) -> int:
        self._held.append(np.ascontiguousarray(values))
        return address_of(self._held[-1])

    def _hold_norm(self, norm: NormWeights) -> Norm:
        return Norm(self._hold(norm.weight), self._hold(norm.bias), norm.epsilon)

    def _make_room(self, layers: Sequence[DenseWeights]) -> Array:
        """Allocate memory for all products' weights, one after the other, in large pages if the system has them."""
        room = allocate((sum(self._n_bytes(layer.weight) for layer in layers) + _ALIGNMENT,), np.uint8)
        self._library.relatum_encoder_advise(address_of(room), room.nbytes)
        return room

    def _n_bytes(self, weight: Array) -> int:
        width, depth = weight.shape
        n_bytes: int = self._library.relatum_encoder_packed_bytes(depth, width, self._kind)
        return -(-n_bytes // _ALIGNMENT) * _ALIGNMENT

    def _pack(self, layer: DenseWeights) -> Dense:
        width, depth = layer.weight.shape
        packed, self._room = np.split(self._room, [self._n_bytes(layer.weight)])
        if self.products == "split":
            tiles = pack_tiles(layer.weight).view(np.uint8)
            packed[: len(tiles)] = tiles
        else:
            weight = np.ascontiguousarray(layer.weight)
            self._library.relatum_encoder_pack(address_of(weight), depth, width, self._kind, address_of(packed))
        return Dense(self._hold(packed), self._hold(layer.bias), depth, width)


def _check(weights: EncoderWeights) -> None:
    dense = [part for layer in weights.layers for part in layer if isinstance(part, DenseWeights)]
    norms = [weights.norm, *(part for layer in weights.layers for part in layer if isinstance(part, NormWeights))]
    wide = [weights.positions, *(one for part in dense for one in part), *(one for part in norms for one in part[:2])]
    if name_of(weights.pieces.dtype) not in _DTYPES or any(one.dtype != np.float32 for one in wide):
        raise RelatumError("an encoder in compiled code has weights of float32; cast it first")
    if weights.pieces.shape[1] % weights.n_attention_heads:
        raise RelatumError(
            f"a width of {weights.pieces.shape[1]} cannot be divided among {weights.n_attention_heads} attention heads"
        )


class _Layer(ctypes.Structure):
    """The structure `EncoderLayer` of `native/encoder.cpp`."""

    _fields_ = (
        *((name, Dense) for name in ("projection", "output", "inner", "outer")),
        ("attention_norm", Norm),
        ("norm", Norm),
    )


class _Job(ctypes.Structure):
    """The structure `EncoderJob` of `native/encoder.cpp`."""

    _fields_ = (
        ("pieces", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("norm", Norm),
        *((name, ctypes.c_void_p) for name in ("layers", "rows", "starts", "words", "n_words", "vectors", "maps")),
        *((name, ctypes.c_int32) for name in ("dtype", "n_sentences", "most_words", "width", "inner_width")),
        *((name, ctypes.c_int32) for name in ("n_layers", "n_heads", "n_kept", "first_piece", "mean_attention")),
        *((name, ctypes.c_int32) for name in ("products", "n_threads", "max_rows", "n_pieces", "n_positions")),
    )


@cache
def _library(source: Source) -> ctypes.CDLL:
    library = load(source, READING if source == SOURCE else ())
    library.relatum_encoder_pack.argtypes = [ctypes.c_void_p, *[ctypes.c_int] * 3, ctypes.c_void_p]
    library.relatum_encoder_packed_bytes.restype = ctypes.c_int64
    library.relatum_encoder_advise.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    share_threads(library)
    return library
