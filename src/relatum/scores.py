"""Precision, recall and F1 as values that are written to files and read again; `evaluation.metrics` computes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Average = Literal["micro", "macro"]
MacroOver = Literal["gold", "schema", "all"]
"""The types that a macro average is over: types in gold, all types of the schema, or types in gold or predicted."""


@dataclass(frozen=True, slots=True)
class Score:
    """Precision, recall and F1, fractions between 0 and 1, and the number of gold items."""

    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True, slots=True)
class TaskScores:
    """The scores of one task; types are in the order of their names."""

    micro: Score
    macro: Score
    types: Mapping[str, Score] = field(default_factory=dict)
    macro_types: tuple[str, ...] = ()
    """The types that the macro average is over; empty if the scores were read from a file, which does not say."""

    def average(self, name: Average) -> Score:
        return self.micro if name == "micro" else self.macro

    def to_dict(self) -> dict[str, Any]:
        return {
            "micro": asdict(self.micro),
            "macro": asdict(self.macro),
            "types": {label: asdict(score) for label, score in self.types.items()},
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TaskScores:
        types = {label: Score(**score) for label, score in values["types"].items()}
        return cls(Score(**values["micro"]), Score(**values["macro"]), types)


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of the three tasks."""

    entities: TaskScores
    relations: TaskScores
    relations_strict: TaskScores
    macro_over: MacroOver | None = None
    """The kind of types that macro averages are over; None if the scores were read from a file, which does not say."""

    def task(self, name: str) -> TaskScores:
        """Return the scores of a task: entities, relations or relations_strict."""
        return dict(self.tasks())[name]

    def tasks(self) -> Iterator[tuple[str, TaskScores]]:
        yield "entities", self.entities
        yield "relations", self.relations
        yield "relations_strict", self.relations_strict

    def to_dict(self) -> dict[str, Any]:
        return {task: scores.to_dict() for task, scores in self.tasks()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Scores:
        return cls(
            TaskScores.from_dict(values["entities"]),
            TaskScores.from_dict(values["relations"]),
            TaskScores.from_dict(values["relations_strict"]),
        )
