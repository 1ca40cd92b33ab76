"""The best scores that a model allows.

Gold can hold more than a model can find: overlapping entities, relations between sentences, two relations on one pair,
relations that no window holds. All of it is scored, so that no model reaches 100 % there. The ceiling is the score of
the gold annotation that a model learns (`Example.gold`), as far as its tags express it, its decoding gives it back and
a window of the text holds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from relatum.data.windows import within_any
from relatum.evaluation.metrics import MacroOver, Scores, evaluate, usable_macro
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span

if TYPE_CHECKING:
    from relatum.config import Config
    from relatum.tagging.spans import Overlap
    from relatum.tagging.tagging import Tagging  # brings numpy, which plain scores do without

FindWindows = Callable[[Sentence], Sequence[Span]]


@dataclass(frozen=True, slots=True)
class Loss:
    """The entities and relations that a model cannot find for one reason."""

    reason: str
    n_entities: int
    n_relations: int

    def __str__(self) -> str:
        counts = [(self.n_entities, "entity", "entities"), (self.n_relations, "relation", "relations")]
        said = [f"{count:,} {one if count == 1 else many}" for count, one, many in counts if count]
        return f"{self.reason}: {' and '.join(said)}"


@dataclass(frozen=True, slots=True)
class Ceiling(Scores):
    """The best scores that a model allows."""

    losses: tuple[Loss, ...] = ()
    """The gold annotations that count as missed, and relations that the tags add; empty in results of earlier versions.

    A relation that is lost with its entity counts for the same reason.
    """


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a model beside its tags."""

    overlap: Overlap = "any"
    several_relations: bool = True
    constraints: bool = False
    find_windows: FindWindows | None = None
    """A function that returns the ranges of words in which a sentence is read; None if every sentence is read whole."""

    @classmethod
    def of(cls, config: Config, find_windows: FindWindows | None = None, given: bool | None = None) -> Limits:
        """Return the limits that the settings say; `given` entities stay, whatever words they share."""
        decoding = config.decoding
        of_spans = config.tagging.kind == "spans"
        are_given = config.evaluation.entities == "gold" if given is None else given
        return cls(
            decoding.overlap if of_spans and not are_given else "any",
            decoding.relations_of_pair == "several" or not of_spans,
            decoding.constraints == "schema",
            find_windows,
        )


def measure_ceiling(
    examples: Iterable[Example], tagging: Tagging, macro_over: MacroOver = "gold", limits: Limits | None = None
) -> Ceiling:
    """Score the part of gold that a model can find against all of gold, and count the reasons for the rest."""
    examples = list(examples)
    gold = [example.full_gold for example in examples]
    losses = _Losses()
    reachable = [_find_reachable(example, tagging, limits or Limits(), losses) for example in examples]
    schema = tagging.schema
    scores = evaluate(zip(gold, reachable, strict=True), schema, usable_macro(macro_over, schema, gold))
    return Ceiling(scores.entities, scores.relations, scores.relations_strict, scores.macro_over, losses.listed())


class _Losses:
    """Lost entities and relations, counted by reason."""

    def __init__(self) -> None:
        self._entities: Counter[str] = Counter()
        self._relations: Counter[str] = Counter()

    def add(self, reason: str, entities: int = 0, relations: int = 0) -> None:
        self._entities[reason] += entities
        self._relations[reason] += relations

    def compare(self, reason: str, before: Annotation, after: Annotation) -> Annotation:
        """Count what is in `before` alone, and return `after`."""
        entities, relations = set(before.entities), set(before.relations)
        self.add(reason, len(entities.difference(after.entities)), len(relations.difference(after.relations)))
        return after

    def listed(self) -> tuple[Loss, ...]:
        """Return the reasons that took something away, in the order in which they came."""
        losses = [Loss(reason, count, self._relations[reason]) for reason, count in self._entities.items()]
        return tuple(loss for loss in losses if loss.n_entities or loss.n_relations)


def _find_reachable(example: Example, tagging: Tagging, limits: Limits, losses: _Losses) -> Annotation:
    """Return the gold annotation that a model can find, with relations that its tags add."""
    learned = losses.compare("left out by data.overlaps or data.crossing", example.full_gold, example.gold)
    known = losses.compare("types that the model does not know", learned, tagging.schema.restrict(learned))
    expressed = tagging.express(known, len(example.sentence))
    for entity in expressed.lost_entities:
        losses.add(f"no tags ({entity.reason})", entities=1)
    for relation in expressed.lost_relations:
        losses.add(f"no tags ({relation.reason})", relations=1)
    added = set(expressed.gained_relations)
    found = expressed.annotation
    found = Annotation(found.entities, (*found.relations, *expressed.gained_relations))
    for reason, limit in (
        (f'decoding.overlap is "{limits.overlap}"', _without_overlap),
        ('decoding.constraints is "schema", and train does not connect these types', _without_unlikely),
        ('decoding.relations_of_pair is "one"', _without_further),
    ):
        limited = limit(found, tagging, limits)
        losses.compare(reason, _without(found, added), _without(limited, added))
        found = limited
    if limits.find_windows is not None and found.entities:
        limited = _within_windows(found, limits.find_windows(example.sentence))
        losses.compare("in no window (extraction.max_words)", _without(found, added), _without(limited, added))
        found = limited
    losses.add("added by the tags, between entities that share words", relations=len(added & set(found.relations)))
    return found


def _without(annotation: Annotation, added: set[Relation]) -> Annotation:
    return Annotation(annotation.entities, tuple(one for one in annotation.relations if one not in added))


def _keep(annotation: Annotation, entities: Iterable[Entity]) -> Annotation:
    """Return an annotation with some of its entities, and the relations between them."""
    kept = dict.fromkeys(entities)
    relations = tuple(one for one in annotation.relations if one.head in kept and one.tail in kept)
    return Annotation(tuple(kept), relations)


def _without_overlap(annotation: Annotation, _: Tagging, limits: Limits) -> Annotation:
    """Keep the entities that may stand together; those that end first, which are the most if none may overlap."""
    if limits.overlap == "any":
        return annotation
    from relatum.tagging.spans import keep_compatible

    ordered = sorted(set(annotation.entities), key=lambda one: (one.span.end, -one.span.start, one.label))
    return _keep(annotation, keep_compatible(ordered, limits.overlap))


def _without_unlikely(annotation: Annotation, tagging: Tagging, limits: Limits) -> Annotation:
    if not limits.constraints:
        return annotation
    schema = tagging.schema
    relations = [
        one for one in annotation.relations if schema.relation_type(one.label).allows(one.head.label, one.tail.label)
    ]
    return Annotation(annotation.entities, tuple(relations))


def _without_further(annotation: Annotation, tagging: Tagging, limits: Limits) -> Annotation:
    """Keep the first relation from one entity to another."""
    if limits.several_relations:
        return annotation
    from relatum.tagging.table import canonical

    kept: dict[tuple[Entity, Entity], Relation] = {}
    for relation in annotation.relations:
        one = canonical(relation, tagging.schema)
        kept.setdefault((one.head, one.tail), relation)
    return Annotation(annotation.entities, tuple(kept.values()))


def _within_windows(annotation: Annotation, windows: Sequence[Span]) -> Annotation:
    entities = tuple(one for one in annotation.entities if within_any(windows, one))
    relations = tuple(one for one in annotation.relations if within_any(windows, one.head, one.tail))
    return Annotation(entities, relations)


def is_limited(ceiling: Scores) -> bool:
    """True if the ceiling is below 100 %, that is, if a model cannot find all of gold, and nothing else."""
    return any(task.micro.support and task.micro.f1 < 1 for _, task in ceiling.tasks())


def describe_ceiling(ceiling: Scores) -> str:
    """Describe the best micro scores of all tasks in one line."""
    titles = {"entities": "NER", "relations": "RE", "relations_strict": "RE+"}
    best = [
        f"{titles[name]} recall {100 * task.micro.recall:.2f}, F1 {100 * task.micro.f1:.2f}"
        for name, task in ceiling.tasks()
        if task.micro.support
    ]
    return "; ".join(best)


def ceiling_record(ceiling: Ceiling) -> dict[str, Any]:
    """Return the ceiling as JSON: the averages of each task, without its types, and the losses."""
    tasks = {name: {"micro": asdict(task.micro), "macro": asdict(task.macro)} for name, task in ceiling.tasks()}
    return {**tasks, "losses": [asdict(loss) for loss in ceiling.losses]}
