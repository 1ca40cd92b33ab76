"""Vectors and attention maps of words from a Hugging Face encoder (paper, sections 4.1 and 4.4)."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from relatum.config import EncoderConfig
from relatum.encoders.adapters import read_changes
from relatum.encoders.backbone import Backbone, LayerOutput
from relatum.encoders.base import EncoderInput, EncoderOutput, FrozenEncoder, TextEncoder
from relatum.encoders.bert import BertShape, load_bert
from relatum.encoders.hashing import adapters_hash, files_hash
from relatum.encoders.pieces import PieceTokenizer
from relatum.encoders.weights import read_settings
from relatum.errors import RelatumError
from relatum.types import Context

_NO_WORD, _NO_PIECE = -1, -2
"""Markers in place of the word that a piece belongs to: for a piece that belongs to no word, and for padding."""


class CutSentence(NamedTuple):
    """The pieces of a sentence."""

    prefix: Sequence[int]
    """The special pieces and the context before the words."""
    words: Sequence[tuple[int, ...]]
    """The pieces of each word."""
    suffix: Sequence[int]
    """The context and the special pieces after the words."""

    @property
    def pieces(self) -> list[int]:
        """All pieces, in their order."""
        return [*self.prefix, *chain.from_iterable(self.words), *self.suffix]


class HuggingFaceEncoder(FrozenEncoder):
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
        allow_fewer_layers: bool = False,
    ) -> None:
        if allow_fewer_layers:
            config = config.model_copy(update={"n_layers": min(config.n_layers, backbone.n_layers)})
        if config.mixing == "mean" and config.n_layers > backbone.n_layers:
            raise RelatumError(
                f"encoder.n_layers asks for the last {config.n_layers} layers, but {folder} has only "
                f"{backbone.n_layers}; set encoder.n_layers to {backbone.n_layers} or less"
            )
        self.folder = folder
        self.adapters = adapters
        """The folder of the adapters that were added to the weights; None where there are none."""
        self.backbone = backbone
        self.config = config
        self.want_maps = want_maps
        self.tokenizer = tokenizer
        self.device = torch.device("cpu")

    @classmethod
    def load(
        cls,
        folder: Path,
        config: EncoderConfig,
        want_maps: bool = True,
        adapters: Path | None = None,
        allow_fewer_layers: bool = False,
    ) -> HuggingFaceEncoder:
        """Load the encoder of a folder with config.json, safetensors and a tokenizer; without maps it is faster.

        Adapters are made part of its weights. With `allow_fewer_layers`, an encoder with fewer layers than the
        settings say averages all of its layers.
        """
        shape = BertShape.from_config(read_settings(folder))
        changes = {} if adapters is None else read_changes(adapters)
        backbone: Backbone
        if shape is not None:
            backbone = load_bert(folder, shape, changes)
        else:
            from relatum.encoders.automodel import load_automodel  # transformers takes seconds to import

            backbone = load_automodel(folder, want_maps, changes)
        return cls(backbone, PieceTokenizer.load(folder), config, want_maps, folder, adapters, allow_fewer_layers)

    @property
    def width(self) -> int:
        return self.backbone.width * self.n_mixed

    @property
    def n_mixed(self) -> int:
        return self.backbone.n_layers + 1 if self.config.mixing == "learned" else 1

    @property
    def n_attention_maps(self) -> int:
        return sum(self.heads_per_layer)

    @property
    def heads_per_layer(self) -> Sequence[int]:
        return [self.backbone.n_attention_heads] * self.backbone.n_layers if self.want_maps else []

    @property
    def max_pieces(self) -> int | None:
        n_positions = self.backbone.n_positions
        if n_positions is None:
            return None
        return n_positions - len(self.tokenizer.prefix) - len(self.tokenizer.suffix)

    @cached_property
    def fingerprint(self) -> str:
        config = self.config
        n_layers = config.n_layers if config.mixing == "mean" else config.mixing
        settings: list[object] = [n_layers, config.pooling, config.attention_pooling, self.want_maps]
        if self.adapters is not None:
            settings.append(adapters_hash(self.adapters))
        if config.context:
            settings.append(f"context {config.context}")
        return hashlib.sha256(f"{files_hash(self.folder)} {settings}".encode()).hexdigest()

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        return list(map(len, map(self.tokenizer.cut, words)))

    def to(self, device: torch.device | str) -> HuggingFaceEncoder:
        self.device = torch.device(device)
        self.backbone.to(self.device)
        return self

    def save_learned(self, folder: Path, dtype: torch.dtype) -> None:
        """Copy the adapters that were added to the weights."""
        del dtype  # they stay as they are stored
        if self.adapters is not None:
            shutil.copytree(self.adapters, folder, dirs_exist_ok=True)

    def replace_transformers(self, replace: Callable[[HuggingFaceEncoder], TextEncoder]) -> TextEncoder:
        return replace(self)

    @torch.no_grad()
    def encode(self, batch: EncoderInput, learning: bool = False) -> EncoderOutput:
        del learning
        return self._encode(batch)

    def _encode(self, batch: EncoderInput) -> EncoderOutput:
        longest = max(batch.lengths, default=0)
        if not longest:
            shape = len(batch.words), 0
            maps = torch.zeros(*shape, 0, self.n_attention_maps, device=self.device) if self.want_maps else None
            return EncoderOutput(torch.zeros(*shape, self.width, device=self.device), maps)
        pieces, owners = self._pad(list(self.cut(batch)))
        # A matrix from pieces to words does the pooling: (words, pieces) @ (pieces, …).
        members = (owners[:, None, :] == torch.arange(longest, device=self.device)[:, None]).float()
        share = members / members.sum(-1, keepdim=True).clamp(min=1)
        attending = share if self.config.attention_pooling == "mean" else members
        read, maps = self._read(pieces, owners > _NO_PIECE, attending, members)
        if self.config.pooling == "first":
            share = members * (members.cumsum(-1) == 1)
        return EncoderOutput(share.to(read.dtype) @ read, maps)

    def _read(self, pieces: Tensor, mask: Tensor, attending: Tensor, members: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the vectors of pieces (batch, pieces, width) and the attention of words (batch, words, words, maps).

        Attention is pooled layer by layer: a tensor of the attention between pieces in all layers would be the largest
        thing in memory. (Our own BERT has the attention of one layer at a time; the `transformers` library hands over
        all.)
        """
        n_kept = self.config.n_layers
        states: list[Tensor] = []
        maps: list[Tensor] = []
        total: Tensor | None = None
        for i, layer in enumerate(self._layers(pieces, mask)):
            if self.config.mixing == "learned":
                states.append(layer.hidden)
            elif i > self.backbone.n_layers - n_kept:
                total = layer.hidden if total is None else total + layer.hidden
            if self.want_maps and layer.attention is not None:
                maps.append(_pool(layer.attention, attending, members))
        return torch.cat(states, -1) if total is None else total / n_kept, torch.cat(maps, -1) if maps else None

    def _layers(self, pieces: Tensor, mask: Tensor) -> Iterable[LayerOutput]:
        return self.backbone.outputs(pieces, mask, self.want_maps)

    def _pad(self, sentences: Sequence[CutSentence]) -> tuple[Tensor, Tensor]:
        """Return two tensors (batch, pieces): the pieces, and the word of each piece, `_NO_WORD` or `_NO_PIECE`."""
        rows = [sentence.pieces for sentence in sentences]
        owners = []
        for prefix, words, suffix in sentences:
            owner = [number for number, pieces in enumerate(words) for _ in pieces]
            owners.append([_NO_WORD] * len(prefix) + owner + [_NO_WORD] * len(suffix))
        longest = max(map(len, rows))
        padding = self.backbone.padding
        filled = [
            [row + [padding] * (longest - len(row)) for row in rows],
            [owner + [_NO_PIECE] * (longest - len(owner)) for owner in owners],
        ]
        both = torch.from_numpy(np.array(filled, dtype=np.int64))  # torch reads lists at a third of the speed
        if self.device.type == "cuda":
            both = both.pin_memory()  # else the copy would wait for all that the GPU has still to do
        pieces, words_of_pieces = both.to(self.device, non_blocking=True)
        return pieces, words_of_pieces

    def cut(self, batch: EncoderInput) -> Iterator[CutSentence]:
        """Yield the pieces of each sentence; a sentence with too many pieces is an error."""
        prefix, suffix = self.tokenizer.prefix, self.tokenizer.suffix
        context = batch.context if self.config.context else None
        for number, words in enumerate(batch.words):
            cut = list(map(self.tokenizer.cut, words))
            n_pieces = sum(map(len, cut))
            self._check(n_pieces)
            if context is None:
                yield CutSentence(prefix, cut, suffix)
            else:
                before, after = self._cut_context(context[number], n_pieces)
                yield CutSentence([*prefix, *chain.from_iterable(before)], cut, [*chain.from_iterable(after), *suffix])

    def _cut_context(self, context: Context, n_pieces: int) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Return the pieces of the words that are read before and after a sentence of `n_pieces` pieces."""
        nearest = context.nearest(self.config.context)
        before = list(map(self.tokenizer.cut, nearest.before))
        after = list(map(self.tokenizer.cut, nearest.after))
        n_context = sum(map(len, before)) + sum(map(len, after))
        if self.max_pieces is None or n_pieces + n_context <= self.max_pieces:
            return before, after
        room = self.max_pieces - n_pieces
        n_before, n_after = _share(list(map(len, reversed(before))), list(map(len, after)), room)
        return before[len(before) - n_before :], after[:n_after]

    def _check(self, n_pieces: int) -> None:
        if self.max_pieces is not None and n_pieces > self.max_pieces:
            raise RelatumError(
                f"a sentence of {n_pieces} pieces is longer than the encoder can read ({self.max_pieces}); "
                "read it in windows"
            )


def _pool(attention: Tensor, attending: Tensor, members: Tensor) -> Tensor:
    """Pool attention (batch, heads, pieces, pieces) to (batch, words, words, heads) by two (batch, words, pieces)."""
    summed = attention.flatten(1, 2) @ members.to(attention.dtype).mT
    to_words = summed.unflatten(1, attention.shape[1:3]).permute(0, 2, 3, 1)  # (batch, pieces, words, heads)
    pooled = attending.to(attention.dtype) @ to_words.flatten(2)
    maps: Tensor = pooled.unflatten(2, to_words.shape[2:])
    return maps


def _share(before: Sequence[int], after: Sequence[int], room: int) -> tuple[int, int]:
    """Return the number of words of each side that fit, given the pieces of each word, the nearest word first.

    The side that has fewer pieces takes the next word; a side that is at its end, or whose next word does not fit,
    leaves the room that is left to the other side.
    """
    sides = (before, after)
    taken = [0, 0]
    sizes = [0, 0]
    growing = [0, 1]
    while growing:
        side = min(growing, key=sizes.__getitem__)
        ahead = sides[side][taken[side] : taken[side] + 1]
        if not ahead or sum(sizes) + ahead[0] > room:
            growing.remove(side)
        else:
            taken[side] += 1
            sizes[side] += ahead[0]
    return taken[0], taken[1]
