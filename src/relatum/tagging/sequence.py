"""Entities as one tag a word, in the BIO scheme of the paper's section 3 or in BIOES, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import Literal, get_args

from relatum.errors import ConfigError
from relatum.schema import Schema
from relatum.types import Entity, Span

Scheme = Literal["bio", "bioes"]

_PARTS: dict[str, str] = {"bio": "BI", "bioes": "BIES"}

DISCONTINUOUS = "it is discontinuous"
SAME_WORDS = "another entity has the same words"
NESTED = "it lies inside or around another entity"
OVERLAPPING = "it overlaps another entity"


@dataclass(frozen=True, slots=True)
class LostEntity:
    """An entity that the tags of its sentence cannot express, and why."""

    entity: Entity
    reason: str


@dataclass(frozen=True, slots=True)
class SequenceLabels:
    """One tag index a word, and the entities that are not in them."""

    tags: tuple[int, ...]
    lost: tuple[LostEntity, ...] = ()


@dataclass(frozen=True)
class SequenceTags:
    """The tags of a scheme for the entity types of a schema; `names[0]` is `O`, the tag outside all entities."""

    schema: Schema
    scheme: Scheme = "bio"
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _meanings: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)
    """The part of an entity (such as `B`) and the entity type that each tag stands for."""

    def __post_init__(self) -> None:
        if self.scheme not in get_args(Scheme):
            raise ConfigError(f"tagging.scheme is {self.scheme!r}; choose from {', '.join(get_args(Scheme))}")
        parts = _PARTS[self.scheme]
        meanings = (("O", ""), *((part, label) for label in self.schema.entity_types for part in parts))
        object.__setattr__(self, "_meanings", meanings)
        object.__setattr__(self, "names", ("O", *(f"{part}-{label}" for part, label in meanings[1:])))

    def encode(self, entities: Iterable[Entity], n_words: int) -> SequenceLabels:
        """Tag the words of each entity; if two entities share a word, the first in the order given is tagged.

        An entity that is given twice is tagged once. An entity that does not fit into the sentence, or whose type the
        schema does not have, is an error.
        """
        parts = _PARTS[self.scheme]
        tags = [0] * n_words
        tagged: list[Entity] = []
        lost = []
        for entity in dict.fromkeys(entities):
            kind = self.schema.entity_index(entity.label)
            check_fit(entity, n_words)
            reason = _obstacle(entity, tagged)
            if reason is not None:
                lost.append(LostEntity(entity, reason))
                continue
            tagged.append(entity)
            for word, part in enumerate(self._shape(entity.span.width), entity.span.start):
                tags[word] = 1 + kind * len(parts) + parts.index(part)
        return SequenceLabels(tuple(tags), tuple(lost))

    def _shape(self, width: int) -> str:
        """Return the tags of an entity of `width` words, without its type."""
        if self.scheme == "bio":
            return "B" + "I" * (width - 1)
        return "S" if width == 1 else "B" + "I" * (width - 2) + "E"

    def decode(self, tags: Sequence[int]) -> tuple[Entity, ...]:
        """Return the entities that a sequence of tags, well formed or not, stands for, from left to right.

        A predicted sequence (equation 16 chooses each word's tag by itself) need not be well formed. In BIO an entity
        starts only at a B, whose type it takes; the I tags that follow extend it, whatever their type; an I that
        follows no entity is dropped. These are the rules behind the published scores.

        BIOES reads by the same principle: the tag that begins an entity (B or S) decides that there is one and of
        which type, the others only where it ends. After a B, tags I extend it and the first E, whatever its type, is
        its last word; without an E it ends before the next O, B or S, since dropping it would lose an entity that BIO
        finds. An S is an entity of its own. An I or E that follows no open entity is dropped.
        """
        return tuple(starmap(Entity, self.read(tags)))

    def may_follow(self, before: int, after: int) -> bool:
        """True if the tag `after` may follow the tag `before` where every entity is well formed, with tags of one type.

        The first word counts as following an `O`, and the last word as followed by an `O`.
        """
        left, of = self._meanings[before]
        right, label = self._meanings[after]
        goes_on = right in "IE"
        must_go_on = self.scheme == "bioes" and left in "BI"
        if goes_on:
            return left in "BI" and of == label
        return not must_go_on

    def read(self, tags: Sequence[int]) -> list[tuple[Span, str]]:
        """Return the span of words and the type of each entity, by the rules of `decode`."""
        if tags and not 0 <= min(tags) <= max(tags) < len(self.names):
            word, tag = next((i, tag) for i, tag in enumerate(tags) if not 0 <= tag < len(self.names))
            raise ValueError(f"word {word} has the tag {tag}; the tags are 0 to {len(self.names) - 1}")
        entities = []
        opened: tuple[int, str] | None = None
        for word, tag in enumerate((*tags, 0)):
            if not tag and opened is None:  # as most words are
                continue
            part, label = self._meanings[tag]
            if opened is not None and part not in "IE":
                entities.append((Span(opened[0], word), opened[1]))
                opened = None
            if part in "BS":
                opened = word, label
            if opened is not None and part in "ES":
                entities.append((Span(opened[0], word + 1), opened[1]))
                opened = None
        return entities


def check_fit(entity: Entity, n_words: int) -> None:
    """Refuse an entity that reaches beyond its sentence."""
    if entity.span.end > n_words:
        raise ValueError(
            f"the entity {entity.label} [{entity.span.start}, {entity.span.end}) does not fit into a sentence of "
            f"{n_words} words; count words from the sentence's start"
        )


def _obstacle(entity: Entity, tagged: Iterable[Entity]) -> str | None:
    """Return why the entity cannot be tagged beside the `tagged` ones; None if it can."""
    if entity.fragments:
        return DISCONTINUOUS
    span = entity.span
    other = next((taken.span for taken in tagged if taken.span.overlaps(span)), None)
    if other is None:
        return None
    if other == span:
        return SAME_WORDS
    return NESTED if other.contains(span) or span.contains(other) else OVERLAPPING
