"""Vectors and attention maps of words from a Hugging Face encoder (paper, sections 4.1 and 4.4)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from relatum.config import EncoderConfig
from relatum.encoders.adapters import read_changes
from relatum.encoders.backbone import Backbone, LayerOutput
from relatum.encoders.base import EncoderOutput
from relatum.encoders.bert import Bert, BertShape, load_bert
from relatum.encoders.frozen import split_products
from relatum.encoders.hashing import adapters_hash, files_hash
from relatum.encoders.pieces import PieceTokenizer
from relatum.encoders.weights import read_settings
from relatum.errors import RelatumError
from relatum.kernels.encoder.cpu import PreparedReading, Reading
from relatum.types import Context

_NO_WORD, _NO_PIECE = -1, -2
"""Markers in place of the word that a piece belongs to: for a piece that belongs to no word, and for padding."""


class HuggingFaceEncoder:
    """A frozen transformer over pieces, read off in words.

    The vector of a piece is the mean of the last layers; or all layers side by side, the embeddings first, if the
    network is to mix them. The attention between two words is pooled from the attention between all their pieces;
    special pieces are dropped and the rest is not normalised again. Maps are ordered by layer, then by head. Words
    around a sentence are read with it and dropped in the same way.
    """

    def __init__(
        self,
        backbone: Backbone,
        tokenizer: PieceTokenizer,
        config: EncoderConfig,
        want_maps: bool,
        folder: Path,
        adapters: Path | None = None,
        or_all: bool = False,
    ) -> None:
        if or_all:
            config = config.model_copy(update={"n_layers": min(config.n_layers, backbone.n_layers)})
        if config.mixing == "mean" and config.n_layers > backbone.n_layers:
            raise RelatumError(
                f"encoder.n_layers asks for the last {config.n_layers} layers, but {folder} has only "
                f"{backbone.n_layers}; set encoder.n_layers to {backbone.n_layers} or less"
            )
        self.folder = folder
        self.adapters = adapters
        """The folder of the adapters that were added to the weights; None where there are none."""
        self._backbone = backbone
        self._tokenizer = tokenizer
        self._config = config
        self._want_maps = want_maps
        self.device = torch.device("cpu")

    @classmethod
    def load(
        cls,
        folder: Path,
        config: EncoderConfig,
        want_maps: bool = True,
        adapters: Path | None = None,
        or_all: bool = False,
    ) -> HuggingFaceEncoder:
        """Load the encoder of a folder with config.json, safetensors and a tokenizer; without maps it is faster.

        Adapters are made part of its weights. With `or_all`, an encoder with fewer layers than the settings say
        averages all of its layers.
        """
        shape = BertShape.from_config(read_settings(folder))
        changes = {} if adapters is None else read_changes(adapters)
        backbone: Backbone
        if shape is not None:
            backbone = load_bert(folder, shape, changes)
        else:
            from relatum.encoders.automodel import load_automodel  # transformers takes seconds to import

            backbone = load_automodel(folder, want_maps, changes)
        return cls(backbone, PieceTokenizer.load(folder), config, want_maps, folder, adapters, or_all)

    @property
    def width(self) -> int:
        return self._backbone.width * self.n_mixed

    @property
    def n_mixed(self) -> int:
        return self._backbone.n_layers + 1 if self._config.mixing == "learned" else 1

    @property
    def n_attention_maps(self) -> int:
        return self._backbone.n_layers * self._backbone.n_attention_heads if self._want_maps else 0

    @property
    def n_attention_heads(self) -> int:
        """The number of attention maps of each layer."""
        return self._backbone.n_attention_heads

    @property
    def max_pieces(self) -> int | None:
        n_positions = self._backbone.n_positions
        if n_positions is None:
            return None
        return n_positions - len(self._tokenizer.prefix) - len(self._tokenizer.suffix)

    @cached_property
    def fingerprint(self) -> str:
        config = self._config
        n_layers = config.n_layers if config.mixing == "mean" else config.mixing
        settings: list[object] = [n_layers, config.pooling, config.attention_pooling, self._want_maps]
        if self.adapters is not None:
            settings.append(adapters_hash(self.adapters))
        if config.context:
            settings.append(f"context {config.context}")
        return hashlib.sha256(f"{files_hash(self.folder)} {settings}".encode()).hexdigest()

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        return list(map(len, map(self._tokenizer.cut, words)))

    def to(self, device: torch.device | str) -> HuggingFaceEncoder:
        self.device = torch.device(device)
        self._backbone.to(self.device)
        return self

    def split_products(self) -> None:
        """Make each product with weights of several in bfloat16 from now on; only if `frozen.can_split` is true."""
        split_products(self._backbone)

    @torch.no_grad()
    def encode(self, sentences: Sequence[Sequence[str]], around: Sequence[Context] | None = None) -> EncoderOutput:
        return self._encode(sentences, around)

    def _encode(self, sentences: Sequence[Sequence[str]], around: Sequence[Context] | None) -> EncoderOutput:
        longest = max(map(len, sentences), default=0)
        if not longest:
            shape = len(sentences), 0
            maps = torch.zeros(*shape, 0, self.n_attention_maps, device=self.device) if self._want_maps else None
            return EncoderOutput(torch.zeros(*shape, self.width, device=self.device), maps)
        begun = self.begin(sentences, around)
        if begun is not None:
            begun.run()
            return EncoderOutput(begun.vectors, begun.maps)
        pieces, owners = self._batch(sentences, around)
        # A matrix from pieces to words does the pooling: (words, pieces) @ (pieces, …).
        members = (owners[:, None, :] == torch.arange(longest, device=self.device)[:, None]).float()
        share = members / members.sum(-1, keepdim=True).clamp(min=1)
        attending = share if self._config.attention_pooling == "mean" else members
        read, maps = self._read(pieces, owners > _NO_PIECE, attending, members)
        if self._config.pooling == "first":
            share = members * (members.cumsum(-1) == 1)
        return EncoderOutput(share.to(read.dtype) @ read, maps)

    def begin(
        self, sentences: Sequence[Sequence[str]], around: Sequence[Context] | None = None
    ) -> PreparedReading | None:
        """Prepare the features of sentences for one call of compiled code; None if compiled code cannot be used."""
        packed = self._backbone.pack() if isinstance(self._backbone, Bert) and any(sentences) else None
        if packed is None:
            return None
        rows, words = [], []
        for before, cut, after in self._cut(sentences, around):
            words.append(list(accumulate(map(len, cut), initial=len(before))))
            rows.append([*before, *chain.from_iterable(cut), *after])
        return packed.prepare(rows, words, self._reading)

    @cached_property
    def _reading(self) -> Reading:
        config = self._config
        return Reading(
            0 if config.mixing == "learned" else config.n_layers,
            config.pooling == "first",
            config.attention_pooling == "mean",
            self._want_maps,
        )

    def _read(self, pieces: Tensor, mask: Tensor, attending: Tensor, members: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the vectors of pieces (batch, pieces, width) and the attention of words (batch, words, words, maps).

        Attention is pooled layer by layer: a tensor of the attention between pieces in all layers would be the largest
        thing in memory. (Our own BERT has the attention of one layer at a time; the `transformers` library hands over
        all.)
        """
        n_kept = self._config.n_layers
        states: list[Tensor] = []
        maps: list[Tensor] = []
        total: Tensor | None = None
        for i, layer in enumerate(self._layers(pieces, mask)):
            if self._config.mixing == "learned":
                states.append(layer.hidden)
            elif i > self._backbone.n_layers - n_kept:
                total = layer.hidden if total is None else total + layer.hidden
            if self._want_maps and layer.attention is not None:
                maps.append(_pool(layer.attention, attending, members))
        return torch.cat(states, -1) if total is None else total / n_kept, torch.cat(maps, -1) if maps else None

    def _layers(self, pieces: Tensor, mask: Tensor) -> Iterable[LayerOutput]:
        return self._backbone.outputs(pieces, mask, self._want_maps)

    def _batch(
        self, sentences: Sequence[Sequence[str]], around: Sequence[Context] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return two tensors (batch, pieces): the pieces, and the word of each piece, `_NO_WORD` or `_NO_PIECE`."""
        rows, owners = [], []
        for before, cut, after in self._cut(sentences, around):
            owner = [i for i, pieces in enumerate(cut) for _ in pieces]
            rows.append([*before, *chain.from_iterable(cut), *after])
            owners.append([_NO_WORD] * len(before) + owner + [_NO_WORD] * len(after))
        longest = max(map(len, rows))
        filled = [
            [part + [filler] * (longest - len(part)) for part in parts]
            for parts, filler in ((rows, self._backbone.padding), (owners, _NO_PIECE))
        ]
        both = torch.from_numpy(np.array(filled, dtype=np.int64))  # torch reads lists at a third of the speed
        if self.device.type == "cuda":
            both = both.pin_memory()  # else the copy would wait for all that the GPU has still to do
        pieces, words_of_pieces = both.to(self.device, non_blocking=True)
        return pieces, words_of_pieces

    def _cut(
        self, sentences: Sequence[Sequence[str]], around: Sequence[Context] | None
    ) -> Iterator[tuple[Sequence[int], list[tuple[int, ...]], Sequence[int]]]:
        """Yield for each sentence: the pieces before its words, the pieces of each word, the pieces after its words."""
        prefix, suffix = self._tokenizer.prefix, self._tokenizer.suffix
        around = around if self._config.context else None
        for number, words in enumerate(sentences):
            cut = list(map(self._tokenizer.cut, words))
            n_pieces = sum(map(len, cut))
            self._check(n_pieces)
            if around is None:
                yield prefix, cut, suffix
            else:
                before, after = self._cut_context(around[number], n_pieces)
                yield [*prefix, *chain.from_iterable(before)], cut, [*chain.from_iterable(after), *suffix]

    def _cut_context(self, context: Context, n_pieces: int) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Return the pieces of the words that are read before and after a sentence of `n_pieces` pieces."""
        before, after = (list(map(self._tokenizer.cut, side)) for side in context.nearest(self._config.context))
        if self.max_pieces is None or n_pieces + sum(map(len, chain(before, after))) <= self.max_pieces:
            return before, after
        n_before, n_after = _share(list(map(len, reversed(before))), list(map(len, after)), self.max_pieces - n_pieces)
        return before[len(before) - n_before :], after[:n_after]

    def _check(self, n_pieces: int) -> None:
        if self.max_pieces is not None and n_pieces > self.max_pieces:
            raise RelatumError(
                f"a sentence of {n_pieces} pieces is longer than the encoder can read ({self.max_pieces}); "
                "read it in windows"
            )


def _pool(attention: Tensor, attending: Tensor, members: Tensor) -> Tensor:
    """Pool attention (batch, heads, pieces, pieces) to (batch, words, words, heads) by two (batch, words, pieces)."""
    to_words = (attention.flatten(1, 2) @ members.to(attention.dtype).mT).unflatten(1, attention.shape[1:3])
    to_words = to_words.permute(0, 2, 3, 1)  # (batch, pieces, words, heads)
    maps: Tensor = (attending.to(attention.dtype) @ to_words.flatten(2)).unflatten(2, to_words.shape[2:])
    return maps


def _share(before: Sequence[int], after: Sequence[int], room: int) -> tuple[int, int]:
    """Return the number of words of each side that fit, given the pieces of each word, the nearest word first.

    The side that has fewer pieces takes the next word; a side that is at its end, or whose next word does not fit,
    leaves the room that is left to the other side.
    """
    sides, taken, sizes, growing = (before, after), [0, 0], [0, 0], [0, 1]
    while growing:
        side = min(growing, key=sizes.__getitem__)
        ahead = sides[side][taken[side] : taken[side] + 1]
        if not ahead or sum(sizes) + ahead[0] > room:
            growing.remove(side)
        else:
            taken[side] += 1
            sizes[side] += ahead[0]
    return taken[0], taken[1]
