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
from relatum.types import Example

if TYPE_CHECKING:
    from relatum.tagging.tagging import Tagging  # brings numpy, which plain scores do without


def measure_ceiling(examples: Iterable[Example], tagging: Tagging, macro_over: MacroOver = "gold") -> Scores:
    """Score the expressible part of gold against all of gold."""
    examples = list(examples)
    gold = [example.full_gold for example in examples]
    expressible = [tagging.find_expressible(example.gold, len(example.sentence)) for example in examples]
    schema = tagging.schema
    return evaluate(zip(gold, expressible, strict=True), schema, usable_macro(macro_over, schema, gold))


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
