"""Several encoders, with their features side by side."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import torch

from relatum.encoders.base import EncoderInput, EncoderOutput, FrozenEncoder, TextEncoder
from relatum.encoders.huggingface import HuggingFaceEncoder


class StackedEncoder(FrozenEncoder):
    """Frozen encoders that all read a sentence; the network reads the features of all, for words and for pairs.

    Each encoder cuts words into pieces of its own, so that one may know capital letters and another may not.
    """

    def __init__(self, members: Sequence[TextEncoder]) -> None:
        self._members = tuple(members)
        self.device = members[0].device

    @property
    def members(self) -> Sequence[TextEncoder]:
        return self._members

    @property
    def width(self) -> int:
        return sum(member.width for member in self._members)

    @property
    def n_mixed(self) -> int:
        return 1

    @property
    def n_attention_maps(self) -> int:
        return sum(member.n_attention_maps for member in self._members)

    @property
    def heads_per_layer(self) -> Sequence[int]:
        return [n_heads for member in self._members for n_heads in member.heads_per_layer]

    @property
    def max_pieces(self) -> int | None:
        """The lowest limit of any encoder; `count_pieces` has the most pieces that any encoder makes."""
        return min((member.max_pieces for member in self._members if member.max_pieces is not None), default=None)

    @property
    def folder(self) -> Path:
        """The folder of the first encoder."""
        return self._members[0].folder

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(" ".join(member.fingerprint for member in self._members).encode()).hexdigest()

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        return list(map(max, zip(*(member.count_pieces(words) for member in self._members), strict=True)))

    def to(self, device: torch.device | str) -> StackedEncoder:
        self.device = torch.device(device)
        for member in self._members:
            member.to(device)
        return self

    def save_learned(self, folder: Path, dtype: torch.dtype) -> None:
        self._members[0].save_learned(folder, dtype)

    def replace_transformers(self, replace: Callable[[HuggingFaceEncoder], TextEncoder]) -> TextEncoder:
        return StackedEncoder([member.replace_transformers(replace) for member in self._members])

    def encode(self, batch: EncoderInput) -> EncoderOutput:
        outputs = [member.encode(batch) for member in self._members]
        vectors = torch.cat([output.vectors for output in outputs], -1)
        maps = [output.attention_maps for output in outputs if output.attention_maps is not None]
        return EncoderOutput(vectors, torch.cat(maps, -1) if maps else None)
