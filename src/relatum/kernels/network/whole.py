"""A whole network, from the vectors of words to the scores of tags, in one call of compiled code.

See `native/network.h`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from relatum.kernels.arrays import Array, address_of, allocate, name_of
from relatum.kernels.linear.structures import Dense
from relatum.kernels.md_gru.cpu import ScanWeights, find_function, make_weights_job
from relatum.kernels.md_gru.spec import Form
from relatum.kernels.network.cpu import TABLE_DTYPES, Holder, Words, call, library
from relatum.kernels.network.pairing import PackedPairing
from relatum.kernels.network.sequence import PackedSequenceLayer
from relatum.kernels.threads import count_threads

Part = tuple[Array, Array | None]
"""Vectors of words: (batch, words, width), or (rows, width) and the row of each word, (batch, words)."""
_MOST_PARTS = 3
_ALIGNMENT = 64


class LayerResult(NamedTuple):
    """The output of a layer; zero where there is no word."""

    sequence: Array
    table: Array
    attention: Array


class NetworkScores(NamedTuple):
    """The output of the network; zero where there is no word."""

    of_words: Array
    of_cells: Array | None
    states: list[LayerResult]


class PreparedScores(NamedTuple):
    """Scores that are yet to be computed."""

    scores: NetworkScores
    run: Callable[[], None]
    """Computes the scores; before, the arrays may hold anything."""


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """The parts of a table-sequence layer."""

    pairing: PackedPairing
    scan: ScanWeights
    form: Form
    sequence: PackedSequenceLayer


@dataclass(frozen=True, slots=True)
class OuterLayers:
    """The linear layers before and after the table-sequence layers; weight and bias of each."""

    projection: tuple[Array, Array]
    entity_scorer: tuple[Array, Array]
    relation_scorer: tuple[Array, Array] | None
    on_diagonal: bool
    """True if entities are scored on the diagonal of the table, not in the sequence."""


class PackedNetwork(Holder):
    """A network with packed weights; the weights of the MD-GRU are not packed but read as they lie.

    The layers are gone through `n_rounds` times; without `reads_sequence`, all tables are made of the first sequence.
    """

    def __init__(
        self, layers: Sequence[PackedLayer], outer: OuterLayers, n_rounds: int = 1, reads_sequence: bool = True
    ) -> None:
        super().__init__()
        pairing, self._n_heads = layers[0].pairing, layers[0].sequence.n_heads
        self._dtype, self._width, self._table_width = pairing.dtype, pairing.width, pairing.table_width
        self._n_steps = len(layers) * n_rounds
        self._n_entity_tags = len(outer.entity_scorer[0])
        self._n_relation_tags = 0 if outer.relation_scorer is None else len(outer.relation_scorer[0])
        dtype = name_of(self._dtype)
        kind = TABLE_DTYPES.index(dtype)
        # Where tables are rounded to bfloat16, what splitting adds to the sequence is nothing beside it.
        splits = dtype == "bfloat16" and bool(library().relatum_network_splits())
        self._jobs = [
            (
                layer.pairing.weights_job(),
                make_weights_job(layer.scan, layer.form),
                layer.sequence.weights_job(kind, splits),
            )
            for layer in layers
        ]
        self._packed_layers = layers  # they hold what the jobs point to
        self._layers = (_Layer * len(layers))(
            *(
                _Layer(*map(ctypes.addressof, (pairing, scan.structure, sequence)))
                for pairing, scan, sequence in self._jobs
            )
        )
        self._template = bytes(
            _NetworkJob(
                projection=self.dense(*outer.projection),
                entity_scorer=self.dense(*outer.entity_scorer),
                relation_scorer=Dense() if outer.relation_scorer is None else self.dense(*outer.relation_scorer),
                layers=ctypes.addressof(self._layers),
                scan=ctypes.cast(find_function("layer", dtype), ctypes.c_void_p),
                n_layers=len(layers),
                n_rounds=n_rounds,
                reads_sequence=reads_sequence,
                on_diagonal=outer.on_diagonal,
            )
        )

    def read(self, parts: Sequence[Part], maps: Array, lengths: Sequence[int], keep: bool = False) -> NetworkScores:
        """Return the scores of tags; see `prepare`."""
        prepared = self.prepare(parts, maps, lengths, keep)
        prepared.run()
        return prepared.scores

    def prepare(self, parts: Sequence[Part], maps: Array, lengths: Sequence[int], keep: bool = False) -> PreparedScores:
        """Prepare the scoring of words, from their vectors side by side and the maps between words; allocate results.

        `lengths` are the numbers of words of the sentences. With `keep` the results include the output of each layer in
        every round. All values that are given are float32; contiguous values are not read before the scores are
        computed.
        """
        words = Words.of(lengths)
        maps, parts = np.ascontiguousarray(maps), [(np.ascontiguousarray(values), rows) for values, rows in parts]
        n_kept = self._n_steps if keep else min(2, self._n_steps)
        of_sequence, of_table = words.shape(1, self._width), words.shape(2, self._table_width)
        of_words = words.make(words.shape(1, self._n_entity_tags))
        of_cells = words.make(words.shape(2, self._n_relation_tags)) if self._n_relation_tags else None
        job = _NetworkJob.from_buffer_copy(self._template)
        for place, (values, rows) in enumerate(parts):
            width = values.shape[-1]
            job.parts[place] = _Part(
                address_of(values), None if rows is None else address_of(rows), values.size // width, width
            )
        job.maps, job.lengths = address_of(maps), words.address
        job.n_sentences, job.n_words, job.n_threads = len(words.lengths), words.n_words, count_threads()
        job.entity_logits = address_of(of_words)
        job.relation_logits = None if of_cells is None else address_of(of_cells)
        job.n_kept = n_kept
        states: tuple[Array, ...] = ()
        sizes = {"initial": 4 * prod(of_sequence), "pairs": self._dtype.itemsize * prod(of_table)}
        if keep:
            of_attention = len(words.lengths), self._n_heads, words.n_words, words.n_words
            states = (
                words.make((n_kept, *of_sequence)),
                words.make((n_kept, *of_table), self._dtype),
                words.make((n_kept, *of_attention)),
            )
            job.sequences, job.tables, job.attention = map(address_of, states)
        else:
            sizes |= {"sequences": n_kept * sizes["initial"], "tables": n_kept * sizes["pairs"]}
        room = _give_room(job, sizes)
        scores = NetworkScores(of_words, of_cells, [LayerResult(*one) for one in zip(*states, strict=True)])

        # All that the job points to lives as long as this, whatever becomes of the rest.
        def run(_held: object = (self, words, maps, parts, room, scores)) -> None:
            call("relatum_network", job)

        return PreparedScores(scores, run)


def _give_room(job: ctypes.Structure, sizes: Mapping[str, int]) -> Array:
    """Allocate memory for fields of a job, given the bytes of each; it must live until the job is done."""
    room = allocate((sum(sizes.values()) + len(sizes) * _ALIGNMENT,), np.uint8)
    start = address_of(room)
    for name, size in sizes.items():
        setattr(job, name, start)
        start += -(-size // _ALIGNMENT) * _ALIGNMENT
    return room


class _Layer(ctypes.Structure):
    """The structure `NetworkLayer` of `native/network.h`."""

    _fields_ = (("pairing", ctypes.c_void_p), ("scan", ctypes.c_void_p), ("sequence", ctypes.c_void_p))


class _Part(ctypes.Structure):
    """The structure `NetworkPart` of `native/network.h`."""

    _fields_ = (
        ("values", ctypes.c_void_p),
        ("rows", ctypes.c_void_p),
        ("n_rows", ctypes.c_int32),
        ("width", ctypes.c_int32),
    )


class _NetworkJob(ctypes.Structure):
    """The structure `NetworkJob` of `native/network.h`."""

    _fields_ = (
        ("parts", _Part * _MOST_PARTS),
        ("maps", ctypes.c_void_p),
        ("lengths", ctypes.c_void_p),
        *((name, Dense) for name in ("projection", "entity_scorer", "relation_scorer")),
        *((name, ctypes.c_void_p) for name in ("layers", "scan", "initial", "pairs", "sequences", "tables")),
        *((name, ctypes.c_void_p) for name in ("attention", "entity_logits", "relation_logits")),
        *((name, ctypes.c_int32) for name in ("n_layers", "n_rounds", "n_kept", "reads_sequence", "on_diagonal")),
        *((name, ctypes.c_int32) for name in ("n_sentences", "n_words", "n_threads")),
    )
