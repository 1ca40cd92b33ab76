"""The history of a run: evaluations on dev, and which of them was the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from relatum.config import TrainingConfig
from relatum.evaluation.metrics import Scores, TaskScores
from relatum.monitor import Evaluation
from relatum.training.divergence import LossWatch

_KEPT = 1 - 1 / 50
"""The weight of an update in the smoothed loss, relative to the weight of the next update."""


@dataclass(slots=True)
class Progress:
    """The progress of a run, as JSON can hold it; the module `state` adds its weights and random numbers."""

    step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    """The losses of all words since the last evaluation."""
    n_words: int = 0
    """The number of words that `loss_sum` is summed over."""
    recent_loss: float = 0.0
    """Like `loss_sum`, but each update counts a little less with every later update."""
    recent_words: float = 0.0
    evaluations: list[Evaluation] = field(default_factory=list)
    watch: LossWatch = field(default_factory=LossWatch)
    part_cells: int | None = None
    """The most table cells to compute at once, as set or as found when memory ran out; None for no limit."""
    messages: list[str] = field(default_factory=list)
    """The messages that the user was told, each once."""
    teachers: list[str] = field(default_factory=list)
    """The versions of the teachers whose probabilities are learned."""

    def add_loss(self, loss: float, n_words: int) -> None:
        """Note the loss of an update, summed over its words and their cells."""
        self.loss_sum += loss
        self.n_words += n_words
        self.recent_loss = _KEPT * self.recent_loss + loss
        self.recent_words = _KEPT * self.recent_words + n_words

    @property
    def mean_loss(self) -> float:
        """The mean loss per word since the last evaluation."""
        return self.loss_sum / max(self.n_words, 1)

    @property
    def smoothed_loss(self) -> float:
        """The mean loss per word of about the last 50 updates."""
        return self.recent_loss / max(self.recent_words, 1e-9)

    @property
    def n_since_best(self) -> int:
        """The number of evaluations after the best one; 0 before anything was found at all."""
        best = self.best
        return 0 if best is None or not best.score else len(self.evaluations) - 1 - self.evaluations.index(best)

    @property
    def best(self) -> Evaluation | None:
        """The evaluation with the highest score, the first of equal ones; the last one if nothing was found yet."""
        best = max(self.evaluations, key=lambda one: one.score, default=None)
        return best if best is None or best.score else self.evaluations[-1]

    def to_dict(self) -> dict[str, Any]:
        return asdict(replace(self, evaluations=[])) | {"evaluations": [one.to_dict() for one in self.evaluations]}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Progress:
        evaluations = [Evaluation.from_dict(one) for one in record["evaluations"]]
        if "n_losses" in record:  # an earlier version, which summed losses of batches
            record = {name: value for name, value in record.items() if name not in ("loss_sum", "n_losses")}
        return cls(**{**record, "evaluations": evaluations, "watch": LossWatch(**record.get("watch", {}))})


def selection_score(scores: Scores, config: TrainingConfig) -> float:
    """Return the score that the best model is chosen by: the mean of the entity and the relation F1."""
    relations = scores.relations if config.selection_relations == "boundaries" else scores.relations_strict
    return (selected_f1(scores.entities, config) + selected_f1(relations, config)) / 2


def selected_f1(task: TaskScores, config: TrainingConfig) -> float:
    """Return the average F1 of a task that the settings choose."""
    return (task.micro if config.selection == "micro" else task.macro).f1
