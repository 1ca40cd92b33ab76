"""Precision, recall and F1 of entities and relations: per type, micro and macro.

What counts as right is defined in `matching`. A ratio of nothing to nothing is 0.0: precision without predictions,
recall without gold, F1 with neither, macro over no types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from relatum.data.problems import Problems
from relatum.errors import SchemaError
from relatum.evaluation.matching import GOLD_SPANS_CURE, Count, Counts, check_gold_spans
from relatum.schema import Schema
from relatum.scores import MacroOver, Score, Scores, TaskScores
from relatum.types import Annotation

__all__ = [
    "MacroOver",
    "Score",
    "Scores",
    "TaskScores",
    "evaluate",
    "macro_types",
    "per_cent",
    "score_counts",
    "usable_macro",
]


def evaluate(
    pairs: Iterable[tuple[Annotation, Annotation]],
    schema: Schema | None = None,
    macro_over: MacroOver = "gold",
    gold_entities: bool = False,
) -> Scores:
    """Score pairs of gold and predicted annotations; the two of a pair belong to one text and share a unit.

    The schema says which relation types are symmetric. With `gold_entities` every predicted mention must have the span
    of a gold entity, as if the model was given the gold entities; else `DataError` names the mention, and nothing is
    scored.
    """
    counts = Counts()
    problems = Problems()
    for number, (gold, predicted) in enumerate(pairs, 1):
        if gold_entities:
            check_gold_spans(gold, predicted, problems, record=number)
        counts.add(gold, predicted, schema)
    problems.raise_if_any(GOLD_SPANS_CURE)
    return score_counts(counts, schema, macro_over)


def score_counts(counts: Counts, schema: Schema | None = None, macro_over: MacroOver = "gold") -> Scores:
    """The scores that follow from counts."""
    scored = {
        task: _score_task(by_label, macro_types(task, by_label, schema, macro_over))
        for task, by_label in counts.tasks()
    }
    return Scores(**scored, macro_over=macro_over)


def usable_macro(macro_over: MacroOver, schema: Schema | None, gold: Iterable[Annotation]) -> MacroOver:
    """The types to average over: all of them where gold has types that the wanted schema lacks."""
    return "all" if macro_over == "schema" and schema is not None and schema.unknown_types(gold) else macro_over


def macro_types(task: str, counts: Mapping[str, Count], schema: Schema | None, macro_over: MacroOver) -> list[str]:
    """The types that the macro average of a task is over, sorted; over the schema's, all labels must be in it."""
    if macro_over == "gold":
        return sorted(label for label, of_type in counts.items() if of_type.gold)
    if macro_over == "all":
        return sorted(counts)
    if macro_over != "schema":
        raise ValueError(f"macro_over is one of {', '.join(get_args(MacroOver))}; got {macro_over!r}")
    if schema is None:
        raise SchemaError(
            "a macro average over the types of the schema needs a schema; give one (--schema), or average over gold"
        )
    names = schema.entity_types if task == "entities" else schema.relation_names
    unknown = sorted(set(counts).difference(names))
    if unknown:
        raise SchemaError(
            f"the schema lacks types that are in the data ({task}: {', '.join(unknown)}), so an average over its "
            "types would leave them out; add them to the schema, or average over gold or all types"
        )
    return sorted(names)


def _score_task(counts: Mapping[str, Count], macro_over: list[str]) -> TaskScores:
    labels = sorted({*counts, *macro_over})
    types = {label: _score(counts.get(label, Count())) for label in labels}
    total = Count(
        sum(of_type.correct for of_type in counts.values()),
        sum(of_type.predicted for of_type in counts.values()),
        sum(of_type.gold for of_type in counts.values()),
    )
    averaged = [types[label] for label in macro_over]
    macro = Score(
        _ratio(sum(score.precision for score in averaged), len(averaged)),
        _ratio(sum(score.recall for score in averaged), len(averaged)),
        _ratio(sum(score.f1 for score in averaged), len(averaged)),
        total.gold,
    )
    return TaskScores(_score(total), macro, types, tuple(macro_over))


def _score(count: Count) -> Score:
    return Score(
        _ratio(count.correct, count.predicted),
        _ratio(count.correct, count.gold),
        _ratio(2 * count.correct, count.predicted + count.gold),
        count.gold,
    )


def _ratio(part: float, whole: int) -> float:
    return part / whole if whole else 0.0


def per_cent(fraction: float) -> str:
    """Format a fraction in per cent, with two digits."""
    return f"{100 * fraction:.2f}"
