"""Words to pieces, with the tokenizer of a Hugging Face model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from sys import getsizeof
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from tokenizers import Tokenizer

from relatum.encoders.hashing import tokenizer_files
from relatum.encoders.weights import read_settings
from relatum.errors import RelatumError
from relatum.files import read_bytes

CACHE_BYTES = 16 * 2**20
"""The most memory for the cache of words and their pieces: room for some 80,000 ordinary words."""
_PIECE_BYTES = 32
"""The bytes that the number of a piece takes in memory."""
_HIGHEST = 2**24
"""The highest number of a piece that is believed."""

CODE_CURE = (
    "this encoder brings Python code of its own (auto_map in its JSON files), and relatum never runs code that comes "
    "with an encoder; take an encoder of a kind that the transformers library has built in, such as all-minilm-l6-v2"
)


def wants_code(error: Exception) -> bool:
    """True if `transformers` refused an encoder because it would have to run code of the encoder."""
    return "trust_remote_code" in str(error)


class PieceTokenizer:
    """A tokenizer that cuts words one by one, so that the pieces of a word do not depend on its neighbours.

    The special pieces around a sentence (`prefix` and `suffix`, [CLS] and [SEP] for BERT) are learned from the
    tokenizer. A word that spells such a special piece is cut like any other.
    """

    def __init__(self, tokenizer: Tokenizer, where: Path) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self._where = where
        highest = max(tokenizer.get_vocab().values(), default=0)
        if highest > _HIGHEST:  # the library makes room for all numbers below it
            raise RelatumError(f"found the piece number {highest}, expected at most {_HIGHEST:,}")
        self._space = " " if _marks_spaces(json.loads(tokenizer.to_str()).get("pre_tokenizer")) else ""
        self.prefix, self.suffix = self._specials()
        self._unknown = self._unknown_piece()
        self._lock = Lock()
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_cuts", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()
        self._forget()

    @classmethod
    def load(cls, folder: Path) -> PieceTokenizer:
        """Load the tokenizer of a folder; the `transformers` library is only used if there is no tokenizer.json."""
        path = folder / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_buffer(read_bytes(path)) if path.exists() else _convert(folder)
            return cls(tokenizer, folder)
        except Exception as error:  # the library raises nothing more exact
            if wants_code(error):
                raise RelatumError(f"{folder}: {CODE_CURE}") from error
            raise RelatumError(f"{folder}: the tokenizer cannot be read ({error})") from error
        except BaseException as error:  # a panic of the library's compiled code is no `Exception`
            if type(error).__name__ != "PanicException":
                raise
            raise RelatumError(f"{folder}: the tokenizer cannot be read ({error})") from error

    def cut(self, word: str) -> tuple[int, ...]:
        """Cut a word into pieces: at least one, the unknown piece if nothing is left of the word.

        Words are cached with their pieces; when there is no room for another word, the cache is emptied.
        """
        pieces = self._cuts.get(word)
        if pieces is None:
            pieces = self._cut(word)
            if self._lock.acquire(blocking=False):  # in a forked child it may be locked for ever
                try:
                    self._remember(word, pieces)
                finally:
                    self._lock.release()
        return pieces

    def _remember(self, word: str, pieces: tuple[int, ...]) -> None:
        n_bytes = getsizeof(word) + getsizeof(pieces) + _PIECE_BYTES * len(pieces)
        if self.n_cached_bytes + n_bytes > CACHE_BYTES:
            self._forget()
        if n_bytes <= CACHE_BYTES:
            self._cuts[word] = pieces
            self.n_cached_bytes += n_bytes

    def _forget(self) -> None:
        self._cuts: dict[str, tuple[int, ...]] = {}
        self.n_cached_bytes = 0

    def _cut(self, word: str) -> tuple[int, ...]:
        word = word.encode(errors="replace").decode()  # half a surrogate pair is not Unicode, and breaks the library
        pieces = self._tokenizer.encode(self._space + word, add_special_tokens=False).ids
        if pieces:
            return tuple(pieces)
        if self._unknown is None:
            raise RelatumError(f"{self._where}: the word {word!r} has no pieces, and the tokenizer no unknown piece")
        return (self._unknown,)

    def cut_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Cut whole texts into pieces, without special pieces around them."""
        whole = [text.encode(errors="replace").decode() for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch(whole, add_special_tokens=False)]

    def _specials(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        for probe in self._probes():
            encoding = self._tokenizer.encode(probe)
            if 0 in encoding.special_tokens_mask:
                inside = [i for i, special in enumerate(encoding.special_tokens_mask) if not special]
                return tuple(encoding.ids[: inside[0]]), tuple(encoding.ids[inside[-1] + 1 :])
        raise RelatumError(f"{self._where}: the tokenizer cuts no word into pieces; is its vocabulary empty?")

    def _probes(self) -> Iterator[str]:
        """Yield texts, one of which should have pieces; most tokenizers know the first text, and few need more."""
        yield "a"
        yield from islice(self._tokenizer.get_vocab(with_added_tokens=False), 1000)

    def _unknown_piece(self) -> int | None:
        named = getattr(self._tokenizer.model, "unk_token", None)
        for name in (named, "[UNK]", "<unk>"):
            if isinstance(name, str) and (piece := self._tokenizer.token_to_id(name)) is not None:
                return int(piece)
        return None

    @property
    def mask(self) -> int:
        """The mask piece, which stands for a hidden piece."""
        # In this order: MPNet's vocabulary also has the [MASK] of BERT, which MPNet has never learned.
        for name in ("<mask>", "[MASK]"):
            if (piece := self._tokenizer.token_to_id(name)) is not None:
                return int(piece)
        raise RelatumError(f"{self._where}: the tokenizer has no mask piece; take an encoder that has one")


def _marks_spaces(part: object) -> bool:
    """True if a space before a word changes the word's pieces: then every word is read as after a space."""
    if not isinstance(part, dict):
        return False
    if part.get("type") == "Sequence":
        return any(_marks_spaces(inner) for inner in part.get("pretokenizers", ()))
    return part.get("type") == "ByteLevel"


def _convert(folder: Path) -> Tokenizer:
    from transformers import AutoTokenizer

    # The library sees the files whose hash we know, and no other that may lie beside them.
    with TemporaryDirectory() as draft:
        for file in tokenizer_files(folder):
            (Path(draft) / file.name).write_bytes(read_bytes(file))
        (Path(draft) / "config.json").write_text(json.dumps(read_settings(folder)), encoding="utf-8")
        tokenizer = AutoTokenizer.from_pretrained(draft, local_files_only=True, trust_remote_code=False)
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(inner, Tokenizer):
        raise RelatumError("there is no tokenizer.json, and none can be made of the other files")
    return inner
