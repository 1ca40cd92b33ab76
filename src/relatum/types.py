"""The typed objects that pass between stages.

All spans are half-open. A `Document` counts characters, a `Sentence` and what hangs on it counts words; nothing else
in the package has units of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import exp, log, log1p
from typing import NamedTuple

SURE = 1e-12
"""The least distance from 0 and 1 that scores are moved to before their logit is taken; the logit of 1 is infinite."""


class _Ends(NamedTuple):
    start: int
    end: int


class Span(_Ends):
    """A half-open, non-empty range of characters or words.

    There are more of these than of anything else, so it is a tuple: cheap to make, compare and hash.
    """

    __slots__ = ()

    def __new__(cls, start: int, end: int) -> Span:
        if not 0 <= start < end:
            raise ValueError(f"a span needs 0 <= start < end, got [{start}, {end})")
        return tuple.__new__(cls, (start, end))

    @property
    def width(self) -> int:
        return self.end - self.start

    def overlaps(self, other: Span) -> bool:
        return self.start < other.end and other.start < self.end

    def contains(self, other: Span) -> bool:
        return self.start <= other.start and other.end <= self.end

    def shift(self, by: int) -> Span:
        return Span(self.start + by, self.end + by)

    def of(self, text: str) -> str:
        return text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Entity:
    """A mention. `fragments` is empty unless the mention is discontinuous; then `span` covers them all.

    `text` holds the characters of the span in an `Extraction`, and is None elsewhere.
    """

    span: Span
    label: str
    fragments: tuple[Span, ...] = ()
    score: float | None = field(default=None, compare=False)
    id: str | None = field(default=None, compare=False)
    text: str | None = field(default=None, compare=False)

    def pieces(self) -> tuple[Span, ...]:
        return self.fragments or (self.span,)


@dataclass(frozen=True, slots=True)
class Relation:
    """A directed, labelled pair of mentions, held by value: a strict match is plain equality."""

    head: Entity
    tail: Entity
    label: str
    score: float | None = field(default=None, compare=False)
    id: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Annotation:
    """Entities and the relations between them; gold and found are the same type."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()

    def mean_score(self) -> float | None:
        """Return the mean score of all entities and relations that have one; None if there is none."""
        scores = [entity.score for entity in self.entities] + [relation.score for relation in self.relations]
        known = [score for score in scores if score is not None]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True)
class ScoreMap:
    """A map from a model's score to the probability that a finding is right: sigmoid(logit(score) / T + b).

    A higher score never gets a lower probability.
    """

    temperature: float = 1.0
    bias: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf") or not abs(self.bias) < float("inf"):
            raise ValueError(f"expected a temperature above 0 and a bias, both finite, got {self}")

    def __call__(self, score: float) -> float:
        score = min(max(score, SURE), 1 - SURE)
        logit = (log(score) - log1p(-score)) / self.temperature + self.bias
        logit = min(max(logit, -700.0), 700.0)  # beyond, exp is too large for a float
        return 1 / (1 + exp(-logit))


@dataclass(frozen=True, slots=True)
class Calibration:
    """The maps of a model's scores, fitted on annotated text."""

    entities: ScoreMap = ScoreMap()
    relations: ScoreMap = ScoreMap()

    def apply(self, annotation: Annotation, *, given: bool = False) -> Annotation:
        """Return the annotation with mapped scores; entities that were `given` to the model keep their scores."""
        entities = annotation.entities if given else tuple(map(self._entity, annotation.entities))
        ends = {entity: entity for entity in reversed(entities)}  # of equal ones the first
        relations = tuple(
            Relation(
                ends.get(one.head, one.head),
                ends.get(one.tail, one.tail),
                one.label,
                None if one.score is None else self.relations(one.score),
                one.id,
            )
            for one in annotation.relations
        )
        return Annotation(entities, relations)

    def _entity(self, entity: Entity) -> Entity:
        return entity if entity.score is None else replace(entity, score=self.entities(entity.score))


class Context(NamedTuple):
    """The nearest words before and after a sentence in the same text, in the order of the text."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def nearest(self, n: int) -> Context:
        """Return the `n` nearest words of each side, or all if there are fewer."""
        before, after = self
        if len(before) <= n and len(after) <= n:
            return self
        return Context(before[max(0, len(before) - n) :], after[:n])


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence for the model to read. `offsets` are the words' character spans in `text`, if there is a text.

    `context` has the words that an encoder with `encoder.context` reads beside the sentence; nothing is ever found in
    them. A passage of several sentences that are read together (`text.unit`) has the same form; `starts` are then the
    first words of its sentences.
    """

    words: tuple[str, ...]
    offsets: tuple[Span, ...] | None = None
    text: str | None = None
    context: Context = field(default=Context(), compare=False)
    starts: tuple[int, ...] = field(default=(), compare=False)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def ranges(self) -> list[Span]:
        """The sentences as ranges of words: several in a passage, none if there are no words."""
        n_words = len(self.words)
        inner = [start for start in self.starts if 0 < start < n_words]
        borders = [0, *inner, n_words] if n_words else []
        return [Span(start, end) for start, end in pairwise(borders)]


@dataclass(frozen=True, slots=True)
class Example:
    """A sentence with its gold annotation, in word spans.

    `gold` is what a model can learn. `left_out` is the rest of what was annotated: overlapping entities, relations to a
    later sentence, and so on. Its spans count words from this sentence's start and may end beyond the sentence.
    """

    sentence: Sentence
    gold: Annotation
    id: str = field(default="", compare=False)
    left_out: Annotation = Annotation()

    @property
    def full_gold(self) -> Annotation:
        """Everything that was annotated; all scores are computed against it."""
        if self.left_out == Annotation():
            return self.gold
        return Annotation(self.gold.entities + self.left_out.entities, self.gold.relations + self.left_out.relations)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A sentence with what was found in it, in word spans."""

    sentence: Sentence
    found: Annotation
    id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A property of one entity or relation, such as brat's `Negation`; `value` is None for a plain flag."""

    target: Entity | Relation
    name: str
    value: str | None = None
    id: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Document:
    """A text and what was annotated in it, in character spans: the form through which all formats pass.

    `words` (character spans) and `sentences` (ranges of words) are None until the text has been split. A document that
    came as words has them joined by single spaces, and its sentences by newlines, as its text.
    """

    id: str
    text: str
    annotation: Annotation = Annotation()
    words: tuple[Span, ...] | None = None
    sentences: tuple[Span, ...] | None = None
    clusters: tuple[tuple[Span, ...], ...] = ()
    attributes: tuple[Attribute, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
