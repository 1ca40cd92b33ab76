"""Vectors and attention maps of words from a Hugging Face encoder (paper, sections 4.1 and 4.4)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from relatum.config import EncoderConfig
from relatum.encoders.backbone import Backbone
from relatum.encoders.base import EncoderOutput
from relatum.encoders.bert import BertShape, load_bert
from relatum.encoders.hashing import files_hash
from relatum.encoders.pieces import PieceTokenizer
from relatum.errors import RelatumError


class HuggingFaceEncoder:
    """A frozen transformer over pieces, read off in words.

    The vector of a piece is the mean of the last layers. The attention between two words is that between all their
    pieces; special pieces are dropped and the rest is not normalised again. Maps are ordered by layer, then by head.
    """

    def __init__(
        self, backbone: Backbone, tokenizer: PieceTokenizer, config: EncoderConfig, want_maps: bool, folder: Path
    ) -> None:
        if config.n_layers > backbone.n_layers:
            raise RelatumError(
                f"encoder.n_layers asks for the last {config.n_layers} layers, but {folder} has only "
                f"{backbone.n_layers}; set encoder.n_layers to {backbone.n_layers} or less"
            )
        self.folder = folder
        self._backbone = backbone
        self._tokenizer = tokenizer
        self._config = config
        self._want_maps = want_maps
        self.device = torch.device("cpu")

    @classmethod
    def load(cls, folder: Path, config: EncoderConfig, want_maps: bool = True) -> HuggingFaceEncoder:
        """The encoder of a folder with config.json, safetensors and a tokenizer; without maps it is faster."""
        path = folder / "config.json"
        try:
            described = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RelatumError(f"{path}: the encoder's configuration cannot be read ({error})") from error
        shape = BertShape.from_config(described) if isinstance(described, dict) else None
        backbone: Backbone
        if shape is not None:
            backbone = load_bert(folder, shape)
        else:
            from relatum.encoders.automodel import load_automodel  # transformers takes seconds to import

            backbone = load_automodel(folder, want_maps)
        return cls(backbone, PieceTokenizer.load(folder), config, want_maps, folder)

    @property
    def width(self) -> int:
        return self._backbone.width

    @property
    def n_attention_maps(self) -> int:
        return self._backbone.n_layers * self._backbone.n_attention_heads if self._want_maps else 0

    @property
    def max_pieces(self) -> int | None:
        n_positions = self._backbone.n_positions
        if n_positions is None:
            return None
        return n_positions - len(self._tokenizer.prefix) - len(self._tokenizer.suffix)

    @cached_property
    def fingerprint(self) -> str:
        config = self._config
        settings = [config.n_layers, config.pooling, config.attention_pooling, self._want_maps]
        return hashlib.sha256(f"{files_hash(self.folder)} {settings}".encode()).hexdigest()

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        return [len(self._tokenizer.cut(word)) for word in words]

    def to(self, device: torch.device | str) -> HuggingFaceEncoder:
        self.device = torch.device(device)
        self._backbone.to(self.device)
        return self

    @torch.no_grad()
    def encode(self, sentences: Sequence[Sequence[str]]) -> EncoderOutput:
        longest = max(map(len, sentences), default=0)
        maps: Tensor | None = None
        if self._want_maps:
            maps = torch.zeros(len(sentences), longest, longest, self.n_attention_maps, device=self.device)
        if not longest:
            return EncoderOutput(torch.zeros(len(sentences), 0, self.width, device=self.device), maps)
        pieces, mask, members = self._batch(sentences, longest)
        # A matrix from pieces to words does the pooling: (words, pieces) @ (pieces, …).
        share = members / members.sum(-1, keepdim=True).clamp(min=1)
        attending = share if self._config.attention_pooling == "mean" else members
        kept: list[Tensor] = []
        for i, layer in enumerate(self._backbone.outputs(pieces, mask, self._want_maps)):
            if i > self._backbone.n_layers - self._config.n_layers:
                kept.append(layer.hidden)
            if maps is not None and layer.attention is not None:
                n_heads = self._backbone.n_attention_heads
                between_words = attending[:, None] @ layer.attention @ members[:, None].transpose(-1, -2)
                maps[..., (i - 1) * n_heads : i * n_heads] = between_words.permute(0, 2, 3, 1)
        if self._config.pooling == "first":
            share = members * (members.cumsum(-1) == 1)
        return EncoderOutput(share @ torch.stack(kept).mean(0), maps)

    def _batch(self, sentences: Sequence[Sequence[str]], longest: int) -> tuple[Tensor, Tensor, Tensor]:
        """Pieces and their mask (batch, pieces), and which pieces make a word: (batch, words, pieces), 1 or 0."""
        prefix, suffix = self._tokenizer.prefix, self._tokenizer.suffix
        rows, owners = [], []
        for words in sentences:
            cut = [self._tokenizer.cut(word) for word in words]
            row = [*prefix, *(piece for pieces in cut for piece in pieces), *suffix]
            owner = [i for i, pieces in enumerate(cut) for _ in pieces]
            self._check(len(owner))
            rows.append(torch.tensor(row, dtype=torch.long))
            owners.append(torch.tensor([-1] * len(prefix) + owner + [-1] * len(suffix), dtype=torch.long))
        batch = pad_sequence(rows, batch_first=True, padding_value=self._backbone.padding)
        words_of_pieces = pad_sequence(owners, batch_first=True, padding_value=-1)
        mask = pad_sequence([torch.ones_like(row, dtype=torch.bool) for row in rows], batch_first=True)
        members = (words_of_pieces[:, None, :] == torch.arange(longest)[:, None]).float()
        return batch.to(self.device), mask.to(self.device), members.to(self.device)

    def _check(self, n_pieces: int) -> None:
        if self.max_pieces is not None and n_pieces > self.max_pieces:
            raise RelatumError(
                f"a sentence of {n_pieces} pieces is longer than the encoder can read ({self.max_pieces}); "
                "read it in windows"
            )
