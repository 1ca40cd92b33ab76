"""Vectors of words made from their characters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from relatum.layers.dropout import Dropout

_SHARES = 256
"""Rows among which padding is shared out, see `CharacterLSTM._embed`."""


@dataclass(frozen=True, slots=True)
class CharacterBatch:
    """The characters of words, all first ones, then all second ones and so on, without padding.

    So memory grows with the text alone, however unequal the lengths. The longest word comes first.
    """

    characters: Tensor
    """(characters of all words): indices."""
    n_words: Tensor
    """(characters of the longest word): at each position, the number of words that have a character there. It stays on
    the CPU: to read it from a GPU would make every step wait."""
    places: Tensor
    """(batch, words): the number of the word at each position, from 1 on; 0 for padding."""

    @classmethod
    def pack(cls, characters: Tensor, lengths: Tensor, places: Tensor) -> CharacterBatch:
        """Pack the characters of words.

        `characters` holds the words one after the other, and `lengths` their lengths, none of which is 0. `places`
        counts words from 1 on.
        """
        # With numpy: these are twenty small steps, each of which takes torch several times as long.
        n_characters = lengths.numpy()
        order = np.argsort(-n_characters, kind="stable")
        starts = (n_characters.cumsum() - n_characters)[order]
        n_steps = int(n_characters.max(initial=0))
        n_words = len(order) - np.bincount(n_characters).cumsum()[:n_steps]
        steps = np.arange(n_steps).repeat(n_words)
        words = np.arange(len(characters)) - (n_words.cumsum() - n_words).repeat(n_words)
        numbers = np.zeros(len(order) + 1, dtype=np.int64)
        numbers[order + 1] = np.arange(1, len(order) + 1)
        packed = characters.numpy()[starts[words] + steps], n_words, numbers[places.numpy()]
        return cls(*map(torch.from_numpy, packed))

    def to(self, device: torch.device | str) -> CharacterBatch:
        return replace(
            self,
            characters=self.characters.to(device, non_blocking=True),
            places=self.places.to(device, non_blocking=True),
        )


@dataclass(frozen=True, slots=True)
class PaddedCharacterBatch:
    """The characters of the word at each position, with padding behind them.

    The shapes do not depend on the words, and the CPU reads none of the values, as a step in a CUDA graph needs it.
    """

    characters: Tensor
    """(characters, batch, words): indices, 0 behind the last one of a word."""
    lengths: Tensor
    """(batch, words): the number of characters of each word; 0 where there is no word."""

    def to(self, device: torch.device | str) -> PaddedCharacterBatch:
        return PaddedCharacterBatch(
            self.characters.to(device, non_blocking=True), self.lengths.to(device, non_blocking=True)
        )


class CharacterLSTM(nn.Module):
    """x^c of section 4.1: a bidirectional LSTM over the characters of each word, its two last states joined."""

    def __init__(self, n_characters: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_characters, width, padding_idx=0)
        self.dropout = Dropout(dropout)
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.width = width

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """All weights that the vectors of words depend on."""
        both = self.embedding._parameters, self.lstm._parameters  # at a tenth of the cost of `parameters()`
        return tuple(weight for part in both for weight in part.values() if weight is not None)

    def forward(self, batch: CharacterBatch | PaddedCharacterBatch) -> Tensor:
        """(batch, words, width), zero where there is no word."""
        if isinstance(batch, PaddedCharacterBatch):
            return self._read_padded(batch)
        vectors = self.embedding.weight.new_zeros(1, self.width)
        if len(batch.n_words):
            embedded = self.dropout(self.embedding(batch.characters))
            _, (last, _) = self.lstm(PackedSequence(embedded, batch.n_words))
            vectors = torch.cat((vectors, last.transpose(0, 1).flatten(1)))
        return nn.functional.embedding(batch.places, vectors)

    def _read_padded(self, batch: PaddedCharacterBatch) -> Tensor:
        """Read every word twice: with the padding behind the word, and with the padding before it.

        The first reading gives the last state of the forward direction, the second the last state of the backward
        direction; neither state has met any padding. The other two states are thrown away. Two calls of one direction
        each would take longer, and would need the weights of that direction in one piece.
        """
        lengths = batch.lengths.flatten()
        n_steps = len(batch.characters)
        n_words = len(lengths)
        steps = torch.arange(n_steps, device=lengths.device).unsqueeze(1)
        words = torch.arange(n_words, device=lengths.device)
        first = self.dropout(self._embed(batch.characters.flatten(1)))
        # Moved round in a circle, so that every row is read once and its gradient is of one addend.
        moved = (steps + lengths) % n_steps * n_words + words
        second = first.flatten(0, 1).index_select(0, moved.flatten()).view_as(first)
        outputs, _ = self.lstm(torch.cat((first, second), 1).transpose(0, 1))
        forwards = (lengths - 1) % n_steps * (2 * n_words) + words
        backwards = (n_steps - lengths) % n_steps * (2 * n_words) + n_words + words
        places = torch.stack((2 * forwards, 2 * backwards + 1), 1)  # the two directions lie side by side
        last = outputs.transpose(0, 1).reshape(-1, self.lstm.hidden_size).index_select(0, places.flatten())
        vectors: Tensor = last.view(n_words, -1).masked_fill((lengths == 0).unsqueeze(1), 0)
        return vectors.view(*batch.lengths.shape, -1)

    def _embed(self, characters: Tensor) -> Tensor:
        """Embed characters as `embedding` does, but spread padding over many rows of zeros.

        On a GPU, the gradients of a character are added up one after the other, and there is more padding than there
        are characters, so that a single row of padding would make the backward pass slow.
        """
        weight = self.embedding.weight
        shares = torch.arange(characters.numel(), device=weight.device).view_as(characters) % _SHARES
        rows = torch.where(characters == 0, shares + len(weight), characters)
        zeros = weight.new_zeros(_SHARES, self.width)
        return nn.functional.embedding(rows, torch.cat((weight, zeros)))
