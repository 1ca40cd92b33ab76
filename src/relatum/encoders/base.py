"""The interface of a language model to the rest of the package: vectors of words, and attention between words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from relatum.types import Context

if TYPE_CHECKING:  # words can be read, and cut into pieces, without torch
    import torch
    from torch import Tensor, nn
    from torch.nn import Parameter

    from relatum.encoders.huggingface import HuggingFaceEncoder


@dataclass(frozen=True, slots=True)
class EncoderInput:
    """A batch of sentences for an encoder to read."""

    words: Sequence[Sequence[str]]
    """The words of each sentence."""
    context: Sequence[Context] | None = None
    """The words around each sentence in its text; None if no encoder is to read them."""

    @property
    def lengths(self) -> list[int]:
        """The number of words of each sentence."""
        return list(map(len, self.words))


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
        features = []
        for number, length in enumerate(lengths):
            own_maps = None if maps is None else maps[number, :length, :length]
            features.append(Features(self.vectors[number, :length], own_maps))
        return features

    def pad(self, n_words: int) -> EncoderOutput:
        """Pad every sentence to this number of words."""
        more = n_words - self.vectors.shape[1]
        if more == 0:
            return self
        from torch.nn.functional import pad

        vectors = pad(self.vectors, (0, 0, 0, more))
        if self.attention_maps is None:
            return EncoderOutput(vectors, None)
        return EncoderOutput(vectors, pad(self.attention_maps, (0, 0, 0, more, 0, more)))


def stack_features(features: Sequence[Features]) -> EncoderOutput:
    """Stack the features of several sentences as one batch; the inverse of `EncoderOutput.split`."""
    import torch
    from torch.nn.functional import pad

    longest = max(len(sentence.vectors) for sentence in features)
    vectors = torch.stack([pad(sentence.vectors, (0, 0, 0, longest - len(sentence.vectors))) for sentence in features])
    first_maps = features[0].attention_maps
    if first_maps is None:
        return EncoderOutput(vectors, None)
    maps = vectors.new_zeros((len(features), longest, longest, first_maps.shape[-1]), dtype=first_maps.dtype)
    for row, sentence in zip(maps, features, strict=True):
        assert sentence.attention_maps is not None
        row[: len(sentence.vectors), : len(sentence.vectors)] = sentence.attention_maps
    return EncoderOutput(vectors, maps)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Sentences cut into pieces, padded to the longest of the batch or to more, on the encoder's device."""

    pieces: Tensor
    """(batch, pieces)"""
    owners: Tensor
    """(batch, pieces): the word of each piece; negative where there is none."""

    def to(self, device: torch.device | str) -> Pieces:
        return Pieces(self.pieces.to(device, non_blocking=True), self.owners.to(device, non_blocking=True))


class TrainedEncoder(Protocol):
    """An encoder whose weights are learned together with the network's."""

    @property
    def module(self) -> nn.Module:
        """The module with all weights of the encoder."""

    @property
    def can_be_recorded(self) -> bool:
        """True if `read` never waits for the device, so that an update with it can be recorded as a CUDA graph."""

    def learned_weights(self) -> list[list[Parameter]]:
        """Return the weights that are learned, from the embeddings to the top layer."""

    def cut_batch(self, batch: EncoderInput, fixed_sizes: bool = False) -> Pieces:
        """Cut the sentences of a batch; with `fixed_sizes`, pad them to one of few lengths."""

    def read(self, pieces: Pieces, n_words: int) -> EncoderOutput:
        """Return the features of `n_words` words of each sentence, with dropout and gradients."""


class TextEncoder(Protocol):
    """A language model. `FrozenEncoder` has the answers of a model that is not trained."""

    @property
    def width(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def n_mixed(self) -> int:
        """The number of layers side by side in a vector, for the network to mix; 1 if they are mixed already."""

    @property
    def n_attention_maps(self) -> int:
        """The number of attention maps: layers times heads; 0 if the model has no attention."""

    @property
    def heads_per_layer(self) -> Sequence[int]:
        """The number of attention maps of each layer, in their order."""

    @property
    def max_pieces(self) -> int | None:
        """The most pieces of a sentence that the encoder can read, special tokens not counted; None if unlimited."""

    @property
    def folder(self) -> Path:
        """The folder of the encoder's files."""

    @property
    def fingerprint(self) -> str:
        """A hash of the weights and of every setting that changes the features."""

    @property
    def trained(self) -> TrainedEncoder | None:
        """The same encoder as it reads while it is trained with the network; None if it is frozen."""

    @property
    def is_cached(self) -> bool:
        """True if the encoder keeps the features of sentences; then `encode_each` is the cheaper way to get them."""

    @property
    def members(self) -> Sequence[TextEncoder]:
        """The encoders that read side by side; usually the encoder alone."""

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        """Return the number of pieces that each word is cut into; at least 1."""

    def encode(self, batch: EncoderInput) -> EncoderOutput:
        """Return the features of sentences of words, on the encoder's device.

        An encoder reads as much context as its settings say and as it has room for; context gets no features. A
        sentence over `max_pieces` is an error: cutting it up is the caller's business. Nothing is learned from it, see
        `trained`.
        """

    def encode_each(self, batch: EncoderInput) -> list[Features]:
        """Return the features of each sentence by itself."""

    def flush(self) -> None:
        """Write out features that wait to be written, if the encoder keeps features on disk."""

    def save_learned(self, folder: Path, dtype: torch.dtype) -> None:
        """Write what was learned on top of the encoder's own files, adapters or all weights, to a folder.

        If nothing was learned, the folder is not made.
        """

    def replace_transformers(self, replace: Callable[[HuggingFaceEncoder], TextEncoder]) -> TextEncoder:
        """Return the encoder with `replace(transformer)` in place of every frozen transformer in it."""

    def to(self, device: torch.device | str) -> TextEncoder:
        """Move the encoder to a device; return the encoder itself."""


class FrozenEncoder:
    """The answers of an encoder that is not trained, keeps no features and has no transformer to replace."""

    is_cached = False

    @cached_property
    def device(self) -> torch.device:
        import torch

        return torch.device("cpu")

    @property
    def trained(self) -> TrainedEncoder | None:
        return None

    @property
    def heads_per_layer(self: TextEncoder) -> Sequence[int]:
        return [self.n_attention_maps] if self.n_attention_maps else []

    @property
    def members(self: TextEncoder) -> Sequence[TextEncoder]:
        return [self]

    def encode_each(self: TextEncoder, batch: EncoderInput) -> list[Features]:
        return self.encode(batch).split(batch.lengths)

    def flush(self) -> None:
        pass

    def save_learned(self, folder: Path, dtype: torch.dtype) -> None:
        pass

    def replace_transformers(self: TextEncoder, replace: Callable[[HuggingFaceEncoder], TextEncoder]) -> TextEncoder:
        del replace
        return self
