"""Vectors of words made from their characters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence


@dataclass(frozen=True, slots=True)
class Spelling:
    """The characters of words, all first ones, then all second ones and so on, without padding.

    So memory grows with the text alone, however unequal the lengths. The longest word comes first.
    """

    characters: Tensor
    """(characters of all words): indices."""
    n_words: Tensor
    """(characters of the longest word): how many words have one more. It stays on the CPU: to read it from a GPU would
    make every step wait."""
    places: Tensor
    """(batch, words): which word stands there, from 1 on; 0 where there is none."""

    @classmethod
    def pack(cls, characters: Tensor, lengths: Tensor, places: Tensor) -> Spelling:
        """From words one after the other, with their lengths, of which none is 0; places count words from 1 on."""
        starts = lengths.cumsum(0) - lengths
        lengths, order = lengths.sort(descending=True, stable=True)
        n_steps = int(lengths[0]) if len(lengths) else 0
        n_words = len(lengths) - lengths.bincount().cumsum(0)[:n_steps]
        steps = torch.arange(n_steps).repeat_interleave(n_words)
        words = torch.arange(len(characters)) - (n_words.cumsum(0) - n_words).repeat_interleave(n_words)
        numbers = torch.zeros(len(lengths) + 1, dtype=torch.long)
        numbers[order + 1] = torch.arange(1, len(lengths) + 1)
        return cls(characters[starts[order][words] + steps], n_words, numbers[places])

    def to(self, device: torch.device | str) -> Spelling:
        return replace(
            self,
            characters=self.characters.to(device, non_blocking=True),
            places=self.places.to(device, non_blocking=True),
        )


class CharacterLSTM(nn.Module):
    """x^c of section 4.1: a bidirectional LSTM over the characters of each word, its two last states joined."""

    def __init__(self, n_characters: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_characters, width, padding_idx=0)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.width = width

    def forward(self, spelling: Spelling) -> Tensor:
        """(batch, words, width), zero where there is no word."""
        vectors = self.embedding.weight.new_zeros(1, self.width)
        if len(spelling.n_words):
            embedded = self.dropout(self.embedding(spelling.characters))
            _, (last, _) = self.lstm(PackedSequence(embedded, spelling.n_words))
            vectors = torch.cat((vectors, last.transpose(0, 1).flatten(1)))
        return nn.functional.embedding(spelling.places, vectors)
