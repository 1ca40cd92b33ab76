"""Word vectors in text files, as GloVe has them."""

from __future__ import annotations

import gzip
import warnings
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import count, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relatum.errors import SHOWN, DataError, Problem, RelatumError
from relatum.files import open_file

_CHUNK = 2048
"""Lines parsed at a time: enough for numpy to be fast, few enough to look at one by one when a number is bad."""

_LONGEST = 2**18
"""The most bytes of a line, so that a file without line ends does not fill the memory."""

_Numbers = npt.NDArray[np.float32]
_Line = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class WordVectors:
    """Words and a vector for each of them."""

    words: tuple[str, ...]
    vectors: Tensor
    """(words, width), float32"""

    @property
    def width(self) -> int:
        return self.vectors.shape[1]


def read_word_vectors(path: Path, only: Collection[str] | None = None) -> WordVectors:
    """Read the vectors of a text file, one word and its numbers per line; `.gz` is read too.

    If `only` is given, only its words are kept: the numbers of other words are counted but not parsed. A first line
    "count width", as word2vec writes it, is skipped. If a word is there twice, its first vector is kept.
    """
    reader = _Reader(path, None if only is None else frozenset(only))
    try:
        with open_file(path) as raw:
            reader.read(gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw)
    except (OSError, EOFError, zlib.error, RelatumError) as error:
        what = f"a file that cannot be read ({error})"
        raise DataError([Problem(str(path), what, "a text file of word vectors")]) from error
    return reader.result()


class _Reader:
    """A collector of vectors and problems while lines stream past."""

    def __init__(self, path: Path, only: frozenset[str] | None) -> None:
        self._path = path
        self._only = only
        self._width = 0
        self._vectors: list[_Numbers] = []
        self._words: dict[str, None] = {}
        self._problems: list[Problem] = []
        self._n_problems = 0

    def read(self, file: BufferedIOBase) -> None:
        lines = enumerate(self._lines(file), start=1)
        start = list(islice(lines, 2))
        if not start:
            self._add(1, "an empty file", "a word and its numbers in each line")
            return
        if _is_header(start):
            self._width = int(start.pop(0)[1].split(b" ")[1])
        else:
            self._width = start[0][1].count(b" ")
        if not self._width:
            self._add(start[0][0], _shown(start[0][1]), "a word and its numbers, separated by single spaces")
            return
        self._read_chunk(start)
        while chunk := list(islice(lines, _CHUNK)):
            self._read_chunk(chunk)

    def _lines(self, file: BufferedIOBase) -> Iterator[bytes]:
        for number in count(1):
            line = file.readline(_LONGEST)
            if len(line) == _LONGEST:
                self._add(number, f"a line of {_LONGEST:,} bytes or more", "a word and its numbers in each line")
                return
            if not line:
                return
            yield line.rstrip(b" \r\n")

    def result(self) -> WordVectors:
        if self._problems:
            more = self._n_problems - len(self._problems)
            cure = f"… and {more} more bad lines. " if more else ""
            raise DataError(self._problems, f"{cure}Correct these lines or take them out; nothing was read.")
        vectors = np.concatenate(self._vectors) if self._vectors else np.empty((0, self._width), np.float32)
        return WordVectors(tuple(self._words), torch.from_numpy(vectors))

    def _read_chunk(self, lines: list[_Line]) -> None:
        numbers, bodies = [], []
        for word, number, body in self._split(lines):
            if (self._only is None or word in self._only) and word not in self._words:
                self._words[word] = None
                numbers.append(number)
                bodies.append(body)
        if not bodies:
            return
        vectors = _parse(b" ".join(bodies))
        n_numbers = len(bodies) * self._width
        if vectors is None or vectors.size != n_numbers or not np.isfinite(vectors).all():
            self._blame(numbers, bodies)
        else:
            self._vectors.append(vectors.reshape(len(bodies), self._width))

    def _split(self, lines: list[_Line]) -> Iterator[tuple[str, int, bytes]]:
        """Yield the word of each good line, the number of the line, and the vector, unparsed."""
        for number, line in lines:
            # A few words of the largest GloVe file have spaces in them, so the numbers are counted from the right.
            spaces = line.count(b" ")
            parts = line.split(b" ", 1) if spaces == self._width else _cut(line, spaces - self._width)
            if parts is None or b"  " in parts[1]:
                found = f"{spaces + 1} parts" if line else "an empty line"
                self._add(number, found, f"a word and {self._width} numbers, separated by single spaces")
                continue
            try:
                yield parts[0].decode(), number, parts[1]
            except UnicodeDecodeError:
                self._add(number, _shown(parts[0]), "a word in UTF-8")

    def _blame(self, numbers: list[int], bodies: list[bytes]) -> None:
        for number, body in zip(numbers, bodies, strict=True):
            for text in body.split(b" "):
                value = _parse(text)
                if value is None or value.size != 1 or not np.isfinite(value[0]):
                    self._add(number, _shown(text), "a finite number")
                    break

    def _add(self, line: int, found: str, expected: str) -> None:
        self._n_problems += 1
        if len(self._problems) < SHOWN:
            self._problems.append(Problem(str(self._path), found, expected, line))


def _is_header(start: list[_Line]) -> bool:
    parts = start[0][1].split(b" ")
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        return False
    return len(start) == 1 or start[1][1].count(b" ") >= int(parts[1]) > 0


def _cut(line: bytes, n_spaces: int) -> list[bytes] | None:
    """Split a line into a word with `n_spaces` spaces in it, and the rest; None if `n_spaces` is negative."""
    if n_spaces < 0:
        return None
    parts = line.split(b" ", n_spaces + 1)
    return [b" ".join(parts[:-1]), parts[-1]]


def _parse(text: bytes) -> _Numbers | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(text, dtype=np.float32, sep=" ")
        except (ValueError, DeprecationWarning, RuntimeWarning):
            return None


def _shown(text: bytes) -> str:
    return repr(text[:40].decode(errors="backslashreplace")) + ("…" if len(text) > 40 else "")
