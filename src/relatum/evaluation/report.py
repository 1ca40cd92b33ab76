"""The report about one or two systems: scores, intervals, comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relatum.errors import RelatumError
from relatum.evaluation.ceiling import Ceiling, ceiling_record
from relatum.evaluation.matching import Counts, count
from relatum.evaluation.metrics import MacroOver, Scores, evaluate
from relatum.schema import Schema
from relatum.types import Annotation

if TYPE_CHECKING:
    from relatum.evaluation.confidence import Confidence
    from relatum.evaluation.significance import Comparison, Intervals

N_RESAMPLES = 1000
"""The default number of resamples and of swaps of a comparison."""


@dataclass(frozen=True, slots=True)
class SystemReport:
    """The scores of one system; if asked for, with intervals and the reliability of its confidence scores."""

    scores: Scores
    intervals: Intervals | None = None
    confidence: Confidence | None = None
    ceiling: Ceiling | None = None
    """The best scores that the model allows, if known."""

    def to_dict(self) -> dict[str, Any]:
        record = dict(self.scores.to_dict())
        if self.ceiling:
            record["ceiling"] = ceiling_record(self.ceiling)
        if self.intervals:
            record["intervals"] = self.intervals.to_dict()
        if self.confidence:
            record["confidence"] = self.confidence.to_dict()
        return record


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one system; or of two systems, with their comparison."""

    systems: tuple[SystemReport, ...]
    comparison: Comparison | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the record of one system by itself; of two systems as "a" and "b", with their "comparison"."""
        records = [system.to_dict() for system in self.systems]
        if self.comparison is None:
            return records[0]
        return {"a": records[0], "b": records[1], "comparison": self.comparison.to_dict()}


def check_resampling(n_resamples: int | None, seed: int) -> None:
    """Refuse a number of resamples, or a seed, that nothing can be drawn with."""
    if n_resamples is not None and n_resamples < 1:
        raise RelatumError(f"bootstrap is {n_resamples}; expected at least 1 resample, or None for no intervals")
    if seed < 0:
        raise RelatumError(f"seed is {seed}; expected 0 or more")


def make_report(
    systems: Sequence[Sequence[tuple[Annotation, Annotation]]],
    schema: Schema | None = None,
    macro_over: MacroOver = "gold",
    n_resamples: int | None = None,
    seed: int = 0,
    *,
    confidence: bool = False,
    given: bool = False,
    ceiling: Ceiling | None = None,
) -> Report:
    """Score one system, or score and compare two; each is given as a pair of gold and predicted for each document.

    Scores get intervals if `n_resamples` is given. With `confidence` the report of one system includes the reliability
    of its confidence scores; if entities were `given` to the system, of its relations only. The `ceiling` is for a
    report of one system.
    """
    if len(systems) not in (1, 2):
        raise ValueError(f"a report is about one system or two, not {len(systems)}")
    scores = [evaluate(pairs, schema, macro_over) for pairs in systems]
    measured = _measure(systems[0], schema, given) if confidence and len(systems) == 1 else None
    if len(systems) == 1 and n_resamples is None:
        return Report((SystemReport(scores[0], None, measured, ceiling),))

    from relatum.evaluation import significance  # brings numpy, which plain scores do without

    def count_all(pairs: Sequence[tuple[Annotation, Annotation]]) -> list[Counts]:
        return [count(gold, predicted, schema) for gold, predicted in pairs]

    counts = [count_all(pairs) for pairs in systems]
    intervals: list[Intervals | None] = [None] * len(systems)
    if n_resamples is not None:
        intervals = [significance.bootstrap(of_system, schema, macro_over, n_resamples, seed) for of_system in counts]
    comparison = None
    if len(systems) == 2:
        comparison = significance.compare(counts[0], counts[1], schema, macro_over, n_resamples or N_RESAMPLES, seed)
    reports = []
    for system_scores, system_intervals in zip(scores, intervals, strict=True):
        reports.append(SystemReport(system_scores, system_intervals, measured, ceiling))
    return Report(tuple(reports), comparison)


def _measure(pairs: Sequence[tuple[Annotation, Annotation]], schema: Schema | None, given: bool) -> Confidence:
    from relatum.evaluation.confidence import measure_confidence  # brings numpy as well

    return measure_confidence(pairs, schema, given)
