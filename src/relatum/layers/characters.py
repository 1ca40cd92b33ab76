"""Vectors of words made from their characters."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence


class CharacterLSTM(nn.Module):
    """x^c of section 4.1: a bidirectional LSTM over the characters of each word, its two last states joined."""

    def __init__(self, n_characters: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_characters, width, padding_idx=0)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.width = width

    def forward(self, characters: Tensor, counts: Tensor) -> Tensor:
        """(batch, words, characters) of indices, 0 after the last, to (batch, words, width); zero for no characters.

        `counts` says how many characters each word has. It stays on the CPU, since reading it from a GPU would make
        every step wait.
        """
        # A word without characters is padding: it is read as one, and its vector put out.
        embedded = self.dropout(self.embedding(characters.flatten(0, 1)))
        lengths = counts.flatten().clamp(min=1)
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)
        vectors: Tensor = last.transpose(0, 1).reshape(*characters.shape[:2], self.width)
        return vectors * (characters[..., :1] != 0)
