"""A cache of the character vectors of words in tensors of torch, for weights that may change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from relatum.models.collate import send
from relatum.models.inputs import Vectors
from relatum.models.model import Model
from relatum.runtime.packing import states_of
from relatum.runtime.row_cache import RowCache, join_words, pad_word_rows

Read = Callable[[Sequence[str], Tensor, int], None]
"""Writes the vectors of words into the rows of a table, from a given row on."""


class CharacterVectorCache(RowCache[Tensor]):
    """A cache of the vectors that a network computes for single words, valid until its weights change.

    The vectors are rows of one tensor on the device of the weights.

    A change of weights is noticed if they are moved, or written to in a way that autograd knows of. The replay of a
    CUDA graph is not such a way, so the cache must not be used with a network in training.
    """

    def vectors(self, sentences: Sequence[Sequence[str]], model: Model, read: Read) -> Vectors | None:
        """Return the vectors of the words of sentences, on the model's device; None if it reads no characters.

        `read` writes the vectors of words that are not in the cache.
        """
        reader = model.network.embedder.characters
        if reader is None:
            return None
        table, rows = self.find(join_words(sentences), reader.weights, reader.width, read)
        return Vectors(table, send(torch.from_numpy(pad_word_rows(sentences, rows)), model.device))

    def find(self, words: Sequence[str], weights: Sequence[Tensor], width: int, read: Read) -> tuple[Tensor, list[int]]:
        """Return vectors (rows, width) and the row of each word.

        `read` writes the vectors of new words, each of them once; `weights` are all the weights that it uses.
        """

        def hold() -> list[Tensor]:
            return [weight.detach() for weight in weights]  # so that no others come to lie where they do

        @torch.inference_mode()
        def grow(table: Tensor | None, n_used: int, n_rows: int) -> Tensor:
            grown = weights[0].new_zeros(n_rows, width)
            if table is not None:
                grown[:n_used] = table[:n_used]
            return grown

        return self.find_rows(words, states_of(weights), hold, grow, read)
