"""The interface of a language model to the rest of the package: vectors of words, and attention between words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from relatum.types import Context


@dataclass(frozen=True, slots=True)
class Features:
    """The features that an encoder gives one sentence."""

    vectors: Tensor
    """(words, width): the contextual vectors x^ℓ of the paper's section 4.1."""
    attention_maps: Tensor | None
    """(words, words, maps): who attends (first) to whom (second), T^ℓ of section 4.4; None where there are none."""

    @property
    def n_bytes(self) -> int:
        maps = self.attention_maps
        return self.vectors.nbytes + (0 if maps is None else maps.nbytes)


@dataclass(frozen=True, slots=True)
class EncoderOutput:
    """The features of a batch of sentences, zero where a sentence is shorter than the longest."""

    vectors: Tensor
    """(batch, words, width)"""
    attention_maps: Tensor | None
    """(batch, words, words, maps)"""

    def split(self, lengths: Sequence[int]) -> list[Features]:
        """Split the batch into the features of each sentence."""
        maps = self.attention_maps
        return [Features(self.vectors[i, :n], None if maps is None else maps[i, :n, :n]) for i, n in enumerate(lengths)]

    def pad(self, n_words: int) -> EncoderOutput:
        """Pad every sentence to this number of words."""
        more = n_words - self.vectors.shape[1]
        if more == 0:
            return self
        maps = self.attention_maps
        return EncoderOutput(
            pad(self.vectors, (0, 0, 0, more)), None if maps is None else pad(maps, (0, 0, 0, more, 0, more))
        )


def stack_features(features: Sequence[Features]) -> EncoderOutput:
    """Stack the features of several sentences as one batch; the inverse of `EncoderOutput.split`."""
    longest = max(len(one.vectors) for one in features)
    vectors = torch.stack([pad(one.vectors, (0, 0, 0, longest - len(one.vectors))) for one in features])
    if features[0].attention_maps is None:
        return EncoderOutput(vectors, None)
    maps = vectors.new_zeros(
        (len(features), longest, longest, features[0].attention_maps.shape[-1]), dtype=features[0].attention_maps.dtype
    )
    for row, one in zip(maps, features, strict=True):
        assert one.attention_maps is not None
        row[: len(one.vectors), : len(one.vectors)] = one.attention_maps
    return EncoderOutput(vectors, maps)


class TextEncoder(Protocol):
    """A frozen language model."""

    @property
    def width(self) -> int: ...

    @property
    def n_mixed(self) -> int:
        """The number of layers side by side in a vector, for the network to mix; 1 if they are mixed already."""

    @property
    def n_attention_maps(self) -> int:
        """The number of attention maps: layers times heads; 0 if the model has no attention."""

    @property
    def max_pieces(self) -> int | None:
        """The most pieces of a sentence that the encoder can read, special tokens not counted; None if unlimited."""

    @property
    def folder(self) -> Path:
        """The folder of the encoder's files."""

    @property
    def fingerprint(self) -> str:
        """A hash of the weights and of every setting that changes the features."""

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        """Return the number of pieces that each word is cut into; at least 1."""

    def encode(self, sentences: Sequence[Sequence[str]], around: Sequence[Context] | None = None) -> EncoderOutput:
        """Return the features of sentences of words, on the encoder's device and without gradients.

        Of the context around a sentence, the encoder reads as much as its settings say and as it has room for; context
        gets no features. A sentence over `max_pieces` is an error: cutting it up is the caller's business.
        """

    def to(self, device: torch.device | str) -> TextEncoder:
        """Move the encoder to a device; return the encoder itself."""
