"""Several encoders, with their features side by side."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch

from relatum.encoders.base import EncoderOutput
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.types import Context


class StackedEncoder:
    """Frozen encoders that all read a sentence; the network reads the features of all, for words and for pairs.

    Each encoder cuts words into pieces of its own, so that one may know capital letters and another may not.
    """

    def __init__(self, encoders: Sequence[HuggingFaceEncoder]) -> None:
        self.encoders = tuple(encoders)
        self.device = torch.device("cpu")

    @property
    def width(self) -> int:
        return sum(one.width for one in self.encoders)

    @property
    def n_mixed(self) -> int:
        return 1

    @property
    def n_attention_maps(self) -> int:
        return sum(one.n_attention_maps for one in self.encoders)

    @property
    def max_pieces(self) -> int | None:
        """The lowest limit of any encoder; `count_pieces` has the most pieces that any encoder makes."""
        return min((one.max_pieces for one in self.encoders if one.max_pieces is not None), default=None)

    @property
    def folder(self) -> Path:
        """The folder of the first encoder."""
        return self.encoders[0].folder

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(" ".join(one.fingerprint for one in self.encoders).encode()).hexdigest()

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        return list(map(max, zip(*(one.count_pieces(words) for one in self.encoders), strict=True)))

    def to(self, device: torch.device | str) -> StackedEncoder:
        self.device = torch.device(device)
        for one in self.encoders:
            one.to(device)
        return self

    def split_products(self) -> None:
        """Call `HuggingFaceEncoder.split_products` on each encoder."""
        for one in self.encoders:
            one.split_products()

    def encode(self, sentences: Sequence[Sequence[str]], around: Sequence[Context] | None = None) -> EncoderOutput:
        outputs = [one.encode(sentences, around) for one in self.encoders]
        maps = [one.attention_maps for one in outputs if one.attention_maps is not None]
        return EncoderOutput(torch.cat([one.vectors for one in outputs], -1), torch.cat(maps, -1) if maps else None)
