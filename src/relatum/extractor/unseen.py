"""Characters that a model has never seen: emoji, which it reads as separators, and scripts, of which it warns.

A model's character vocabulary has every character of its training texts. An emoji that is not among them means nothing
to the model, and would stick to the name beside it. Text in a script that is not among them is answered with nonsense.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from unicodedata import category, name, normalize

from relatum.models.model import Model
from relatum.runtime.native.model import NativeModel
from relatum.types import Span

_log = logging.getLogger(__name__)

_SEPARATORS = (";", ",", "-")
"""Words that emoji are read as: the first that the model has seen."""
_INVISIBLE = frozenset(("Cf", "Cc", "Cs"))
"""Categories of Unicode: marks such as the zero-width space, control characters, half characters."""
_FIRST_EMOJI = "\u2190"
"""Symbols before this one are parts of names and numbers, such as ™ and °."""
_EMOJI = range(0x1F000, 0x1FB00)
"""The blocks of emoji, including emoji that are newer than Python's tables."""
_KEYCAP = "\u20e3"
"""Makes an emoji of the digit, # or * before it."""
_KANA = frozenset(("HIRAGANA", "KATAKANA"))
_MAIN = 0.1
"""The share of a model's letters that a script needs to count as one that the model was trained on."""


class UnseenCharacters:
    """The characters that are in none of a model's training texts; `characters` are the characters that are in them."""

    def __init__(self, characters: Iterable[str]) -> None:
        self._seen = frozenset(characters)
        letters = Counter(_script(character) for character in self._seen if character.isalpha())
        self._scripts = [script for script, n in letters.most_common() if n >= _MAIN * letters.total()]
        self._separator = next((character for character in _SEPARATORS if character in self._seen), None)
        self._kinds: dict[str, str] = {}
        self._warned = False

    def drop_invisible(
        self, text: str, words: tuple[Span, ...], sentences: tuple[Span, ...]
    ) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """Return the words and sentences of a text without invisible words, and without sentences that become empty.

        Warns, once, if most letters of a sentence are of a script that the model was not trained on.
        """
        kinds = set(map(self._kind, set(text).difference(self._seen)))
        if "letter" in kinds and not self._warned:
            self._warn_about_scripts(text, words, sentences)
        if "invisible" not in kinds:
            return words, sentences
        kept: list[Span] = []
        ranges: list[Span] = []
        for start, end in sentences:
            first = len(kept)
            kept += [word for word in words[start:end] if not self._is_all(word.of(text), "invisible")]
            if len(kept) > first:
                ranges.append(Span(first, len(kept)))
        return tuple(kept), tuple(ranges)

    def find_emoji(self, words: Sequence[str]) -> list[int]:
        """Return the indices of words that are emoji, flags or other pictures which the model has never seen."""
        if "".join(words).isascii():
            return []  # as nearly always
        return [number for number, word in enumerate(words) if self._is_all(word, "emoji")]

    def replace_emoji(self, words: Sequence[str]) -> Sequence[str]:
        """Return the words as the model reads them: a separator in the place of each unseen emoji."""
        emoji = self.find_emoji(words) if self._separator else []
        if not emoji:
            return words
        replaced = list(words)
        for number in emoji:
            replaced[number] = self._separator or ""
        return replaced

    def _is_all(self, word: str, kind: str) -> bool:
        """True for a word that begins with a character of this kind, and has no letter, digit or seen character."""
        if word[1:].endswith(_KEYCAP):
            return kind == "emoji" and _KEYCAP not in self._seen
        return self._kind(word[0]) == kind and self._seen.isdisjoint(word) and not any(map(str.isalnum, word))

    def _warn_about_scripts(self, text: str, words: Sequence[Span], sentences: Sequence[Span]) -> None:
        for start, end in sentences:
            letters = list(filter(str.isalpha, text[words[start].start : words[end - 1].end]))
            foreign = [letter for letter in letters if self._kind(letter) == "letter"]
            if 2 * len(foreign) > len(letters):
                self._warned = True
                scripts = Counter(map(_script, foreign))
                script = "Japanese" if scripts.keys() & _KANA else _title(scripts.most_common(1)[0][0])
                _log.warning(
                    "a text has %s letters, but the model was trained on %s letters alone: what it finds there means "
                    "little; use a model that was trained on such texts (further texts are not reported)",
                    script,
                    " and ".join(map(_title, self._scripts)),
                )
                return

    def _kind(self, character: str) -> str:
        kind = self._kinds.get(character)
        if kind is None:
            kind = self._kinds[character] = self._find_kind(character)
        return kind

    def _find_kind(self, character: str) -> str:
        if character in self._seen or character.isspace():
            return "seen"
        if character.isalpha():
            return "letter" if self._is_foreign(character) else "seen"
        group = category(character)
        if group in _INVISIBLE:
            return "invisible"
        return "emoji" if (group == "So" and character >= _FIRST_EMOJI) or ord(character) in _EMOJI else "other"

    def _is_foreign(self, letter: str) -> bool:
        """True for a letter of a script that the model was not trained on, unless it has seen the letter bare."""
        base = _base(letter)
        seen = not self._seen.isdisjoint((base, base.lower(), base.upper()))
        return bool(self._scripts) and not seen and _script(letter) not in self._scripts


def _base(letter: str) -> str:
    """A letter without its accents, and in its plain form."""
    return normalize("NFKD", letter)[0]


def _script(letter: str) -> str:
    """The script of a letter, which is the first word of its name in Unicode."""
    return name(_base(letter), "UNKNOWN").partition(" ")[0]


def _title(script: str) -> str:
    return "Chinese" if script == "CJK" else script.title()


def find_unseen(models: Sequence[Model | NativeModel]) -> UnseenCharacters | None:
    """Return the characters that none of the models has seen; None if some model does not read characters."""
    vocabularies = [model.characters.entries for model in models if model.characters is not None]
    return UnseenCharacters(chain.from_iterable(vocabularies)) if len(vocabularies) == len(models) else None
