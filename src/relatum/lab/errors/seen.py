"""Entities and words that were seen in training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from relatum.data.documents import WordIndex, split_parts
from relatum.data.fitting import split
from relatum.data.splitting import Splitter, make_splitter
from relatum.lab.errors.sentences import words_under
from relatum.types import Document

ENTITY_GROUPS = ("as this type", "as another type only", "all its words", "some of its words", "none of its words")
"""Groups of entities by what training data had: the same words as an entity, or else the words by themselves."""
RELATION_GROUPS = ("both arguments", "one argument", "no argument")
"""Groups of relations by the number of arguments that were entities in training data, of whatever type."""


class Seen:
    """The words and the entities of training documents, without regard to case."""

    def __init__(self, documents: Iterable[Document], splitter: Splitter | None = None) -> None:
        """Read documents; documents without words and sentences are split, by rules if there is no splitter."""
        splitter = splitter or make_splitter()
        self.n_sentences = 0
        self._words: set[str] = set()
        self._types: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        for document in (split(whole, splitter) for whole in documents):
            words, sentences = split_parts(document)
            self.n_sentences += len(sentences)
            self._words.update(word.of(document.text).casefold() for word in words)
            index = WordIndex(words)
            for entity in document.annotation.entities:
                self._types[words_under(document, index, entity)].add(entity.label)

    def entity_group(self, words: tuple[str, ...], label: str) -> str:
        """Return the group, one of `ENTITY_GROUPS`, of an entity with these words and this type."""
        types = self._types.get(words)
        if types is not None:
            return ENTITY_GROUPS[0 if label in types else 1]
        n_known = sum(word in self._words for word in words)
        if n_known == len(words):
            return ENTITY_GROUPS[2]
        return ENTITY_GROUPS[3 if n_known else 4]

    def relation_group(self, head: tuple[str, ...], tail: tuple[str, ...]) -> str:
        """Return the group, one of `RELATION_GROUPS`, of a relation between entities with these words."""
        return RELATION_GROUPS[(head not in self._types) + (tail not in self._types)]
