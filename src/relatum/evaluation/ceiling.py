"""The best scores that a tagging allows.

Gold can hold more than tags can express: overlapping entities, relations between sentences, two relations on one pair.
All of it is scored, so that no model reaches 100 % there. The ceiling is the score of the gold annotation that a model
learns (`Example.gold`), as far as the tags express it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from relatum.evaluation.metrics import MacroOver, Scores, evaluate, usable_macro
from relatum.types import Annotation, Example

if TYPE_CHECKING:
    from relatum.tagging.sequence import SequenceTags
    from relatum.tagging.table import TableTags  # brings numpy, which plain scores do without


def measure_ceiling(
    examples: Iterable[Example], sequence: SequenceTags, table: TableTags, macro_over: MacroOver = "gold"
) -> Scores:
    """Score the expressible part of gold against all of gold."""
    pairs = [(example.full_gold, find_expressible(example, sequence, table)) for example in examples]
    schema = sequence.schema
    return evaluate(pairs, schema, usable_macro(macro_over, schema, (gold for gold, _ in pairs)))


def find_expressible(example: Example, sequence: SequenceTags, table: TableTags) -> Annotation:
    """Return the gold entities and relations of a sentence that the tags express."""
    known = sequence.schema.restrict(example.gold)
    n_words = len(example.sentence)
    lost_entities = {lost.entity for lost in sequence.encode(known.entities, n_words).lost}
    entities = tuple(entity for entity in known.entities if entity not in lost_entities)
    lost_relations = {lost.relation for lost in table.encode(Annotation(entities, known.relations), n_words).lost}
    return Annotation(entities, tuple(relation for relation in known.relations if relation not in lost_relations))


def is_limited(ceiling: Scores) -> bool:
    """True if the ceiling is below 100 %, that is, if the tags cannot express all of gold."""
    return any(task.micro.support and task.micro.recall < 1 for _, task in ceiling.tasks())


def describe_ceiling(ceiling: Scores) -> str:
    """Describe the best micro scores of all tasks in one line."""
    titles = {"entities": "NER", "relations": "RE", "relations_strict": "RE+"}
    best = [
        f"{titles[name]} recall {100 * task.micro.recall:.2f}, F1 {100 * task.micro.f1:.2f}"
        for name, task in ceiling.tasks()
        if task.micro.support
    ]
    return "; ".join(best)


def ceiling_record(ceiling: Scores) -> dict[str, Any]:
    """Return the ceiling as JSON: the averages of each task, without its types."""
    return {name: {"micro": asdict(task.micro), "macro": asdict(task.macro)} for name, task in ceiling.tasks()}
