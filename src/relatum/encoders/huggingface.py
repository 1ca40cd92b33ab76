"""Vectors and attention maps of words from a Hugging Face encoder (paper, sections 4.1 and 4.4)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from relatum.config import EncoderConfig
from relatum.encoders.backbone import Backbone, LayerOutput
from relatum.encoders.base import EncoderInput, EncoderOutput, FrozenEncoder, Pieces, TextEncoder
from relatum.encoders.bert import load_bert
from relatum.encoders.bert_weights import BertShape
from relatum.encoders.cutting import CutSentence, SentenceCutter
from relatum.encoders.hashing import files_hash, read_adapters
from relatum.encoders.pieces import PieceTokenizer
from relatum.encoders.weight_changes import read_changes
from relatum.encoders.weights import read_settings
from relatum.errors import RelatumError

_NO_WORD, _NO_PIECE = -1, -2
"""Markers in place of the word that a piece belongs to: for a piece that belongs to no word, and for padding."""


class HuggingFaceEncoder(SentenceCutter, FrozenEncoder):
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
        self._adapter_files = {} if adapters is None else read_adapters(adapters)
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
    def n_positions(self) -> int | None:
        return self.backbone.n_positions

    @cached_property
    def fingerprint(self) -> str:
        config = self.config
        n_layers = config.n_layers if config.mixing == "mean" else config.mixing
        settings: list[object] = [n_layers, config.pooling, config.attention_pooling, self.want_maps]
        if self._adapter_files:
            hashes = " ".join(hashlib.sha256(content).hexdigest() for content in self._adapter_files.values())
            settings.append(hashlib.sha256(hashes.encode()).hexdigest())
        if config.context:
            settings.append(f"context {config.context}")
        return hashlib.sha256(f"{files_hash(self.folder)} {settings}".encode()).hexdigest()

    def to(self, device: torch.device | str) -> HuggingFaceEncoder:
        self.device = torch.device(device)
        self.backbone.to(self.device)
        return self

    def save_learned(self, folder: Path, dtype: torch.dtype) -> None:
        """Write the adapters that were added to the weights, as they were loaded."""
        del dtype  # they stay as they are stored
        for name, content in self._adapter_files.items():
            folder.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)

    def replace_transformers(self, replace: Callable[[HuggingFaceEncoder], TextEncoder]) -> TextEncoder:
        return replace(self)

    @torch.no_grad()
    def encode(self, batch: EncoderInput) -> EncoderOutput:
        longest = max(batch.lengths, default=0)
        if not longest:
            shape = len(batch.words), 0
            maps = torch.zeros(*shape, 0, self.n_attention_maps, device=self.device) if self.want_maps else None
            return EncoderOutput(torch.zeros(*shape, self.width, device=self.device), maps)
        return self._read_words(self.cut_batch(batch), longest)

    def _read_words(self, batch: Pieces, n_words: int) -> EncoderOutput:
        pieces, owners = batch.pieces, batch.owners
        # A matrix from pieces to words does the pooling: (words, pieces) @ (pieces, …).
        members = (owners[:, None, :] == torch.arange(n_words, device=self.device)[:, None]).float()
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

    def cut_batch(self, batch: EncoderInput, fixed_sizes: bool = False) -> Pieces:
        """Cut the sentences of a batch; pieces of no word have the owner `_NO_WORD`, padding has `_NO_PIECE`."""
        sentences: list[CutSentence] = list(self.cut(batch))
        rows = [sentence.pieces for sentence in sentences]
        owners = []
        for prefix, words, suffix in sentences:
            owner = [number for number, pieces in enumerate(words) for _ in pieces]
            owners.append([_NO_WORD] * len(prefix) + owner + [_NO_WORD] * len(suffix))
        longest = max(map(len, rows))
        if fixed_sizes:
            longest = _round_pieces(longest, self.n_positions)
        padding = self.backbone.padding
        filled = [
            [row + [padding] * (longest - len(row)) for row in rows],
            [owner + [_NO_PIECE] * (longest - len(owner)) for owner in owners],
        ]
        both = torch.from_numpy(np.array(filled, dtype=np.int64))  # torch reads lists at a third of the speed
        if self.device.type == "cuda":
            both = both.pin_memory()  # else the copy would wait for all that the GPU has still to do
        return Pieces(*both.to(self.device, non_blocking=True))


def _round_pieces(n_pieces: int, limit: int | None) -> int:
    """Round the pieces of a batch up to a multiple of 16, so that there are few CUDA graphs; not beyond the limit."""
    rounded = -(-n_pieces // 16) * 16
    return rounded if limit is None else min(rounded, limit)


def _pool(attention: Tensor, attending: Tensor, members: Tensor) -> Tensor:
    """Pool attention (batch, heads, pieces, pieces) to (batch, words, words, heads) by two (batch, words, pieces)."""
    summed = attention.flatten(1, 2) @ members.to(attention.dtype).mT
    to_words = summed.unflatten(1, attention.shape[1:3]).permute(0, 2, 3, 1)  # (batch, pieces, words, heads)
    pooled = attending.to(attention.dtype) @ to_words.flatten(2)
    maps: Tensor = pooled.unflatten(2, to_words.shape[2:])
    return maps
