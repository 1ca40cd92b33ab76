"""Sentences cut into pieces, with the context that an encoder reads around them; without torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from relatum.config import EncoderConfig
from relatum.encoders.base import EncoderInput
from relatum.encoders.pieces import PieceTokenizer
from relatum.errors import RelatumError
from relatum.types import Context


class CutSentence(NamedTuple):
    """The pieces of a sentence."""

    prefix: Sequence[int]
    """The special pieces and the context before the words."""
    words: Sequence[tuple[int, ...]]
    """The pieces of each word."""
    suffix: Sequence[int]
    """The context and the special pieces after the words."""

    @property
    def pieces(self) -> list[int]:
        """All pieces, in their order."""
        return [*self.prefix, *chain.from_iterable(self.words), *self.suffix]


class SentenceCutter:
    """The part of a transformer over pieces that knows the tokenizer and its limits."""

    tokenizer: PieceTokenizer
    config: EncoderConfig

    @property
    def n_positions(self) -> int | None:
        """The most pieces that the transformer can read, special pieces counted; None if there is no limit."""
        raise NotImplementedError

    @property
    def max_pieces(self) -> int | None:
        n_positions = self.n_positions
        if n_positions is None:
            return None
        return n_positions - len(self.tokenizer.prefix) - len(self.tokenizer.suffix)

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        return list(map(len, map(self.tokenizer.cut, words)))

    def cut(self, batch: EncoderInput) -> Iterator[CutSentence]:
        """Yield the pieces of each sentence; a sentence with too many pieces is an error."""
        prefix, suffix = self.tokenizer.prefix, self.tokenizer.suffix
        context = batch.context if self.config.context else None
        for number, words in enumerate(batch.words):
            cut = list(map(self.tokenizer.cut, words))
            n_pieces = sum(map(len, cut))
            self._check(n_pieces)
            if context is None:
                yield CutSentence(prefix, cut, suffix)
            else:
                before, after = self._cut_context(context[number], n_pieces)
                yield CutSentence([*prefix, *chain.from_iterable(before)], cut, [*chain.from_iterable(after), *suffix])

    def _cut_context(self, context: Context, n_pieces: int) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Return the pieces of the words that are read before and after a sentence of `n_pieces` pieces."""
        nearest = context.nearest(self.config.context)
        before = list(map(self.tokenizer.cut, nearest.before))
        after = list(map(self.tokenizer.cut, nearest.after))
        n_context = sum(map(len, before)) + sum(map(len, after))
        if self.max_pieces is None or n_pieces + n_context <= self.max_pieces:
            return before, after
        room = self.max_pieces - n_pieces
        n_before, n_after = _share(list(map(len, reversed(before))), list(map(len, after)), room)
        return before[len(before) - n_before :], after[:n_after]

    def _check(self, n_pieces: int) -> None:
        if self.max_pieces is not None and n_pieces > self.max_pieces:
            raise RelatumError(
                f"a sentence of {n_pieces} pieces is longer than the encoder can read ({self.max_pieces}); "
                "read it in windows"
            )


def _share(before: Sequence[int], after: Sequence[int], room: int) -> tuple[int, int]:
    """Return the number of words of each side that fit, given the pieces of each word, the nearest word first.

    The side that has fewer pieces takes the next word; a side that is at its end, or whose next word does not fit,
    leaves the room that is left to the other side.
    """
    sides = (before, after)
    taken = [0, 0]
    sizes = [0, 0]
    growing = [0, 1]
    while growing:
        side = min(growing, key=sizes.__getitem__)
        ahead = sides[side][taken[side] : taken[side] + 1]
        if not ahead or sum(sizes) + ahead[0] > room:
            growing.remove(side)
        else:
            taken[side] += 1
            sizes[side] += ahead[0]
    return taken[0], taken[1]
