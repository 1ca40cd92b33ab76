"""The result of a complete run, `result.json`: what the run was, how it went and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from relatum.config import Config, load_record
from relatum.errors import ConfigError, RelatumError
from relatum.evaluation.ceiling import Ceiling, ceiling_record
from relatum.evaluation.confidence import Calibrated
from relatum.files import read_json
from relatum.monitor import Evaluation
from relatum.scores import Scores
from relatum.training.folder import resume_command


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The number of annotations that no model can learn, and that count as missed."""

    entities: int = 0
    relations: int = 0


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """The sentences of a part, and how often each label is in its gold annotations."""

    sentences: int
    entities: Mapping[str, int]
    relations: Mapping[str, int]
    left_out: LeftOut = LeftOut()

    @property
    def n_entities(self) -> int:
        return sum(self.entities.values())

    @property
    def n_relations(self) -> int:
        return sum(self.relations.values())


@dataclass(frozen=True, slots=True)
class DataSummary:
    """The data of a run."""

    path: str
    fold: str | None
    sha256: str
    """The fingerprint of all sentences and annotations."""
    parts: Mapping[str, LabelCounts]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BestModel:
    """The step after which the kept model was saved, and its score on dev; 0 if there is no dev part."""

    step: int
    score: float


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a complete run: its origin, its data, the scores of its model, its settings and its history."""

    command: str
    commit: str | None
    """The commit of the source; None if relatum was installed from a package."""
    versions: Mapping[str, str]
    """The versions of relatum, Python and the packages that influence the numbers."""
    device: str
    seconds: float
    seed: int
    data: DataSummary
    n_parameters: int
    steps: int
    """The number of updates."""
    stopped_early: bool
    best: BestModel
    dev: Scores | None
    test: Scores | None
    part_cells: int | None
    """The most table cells that were computed at once; None for no limit."""
    messages: tuple[str, ...]
    """The messages that the user was told, each once."""
    config: Config
    history: tuple[Evaluation, ...]
    ceilings: Mapping[str, Ceiling] | None = None
    """The best scores that the model allows, by part; None in results of earlier versions."""
    confidence: Calibrated = field(default_factory=lambda: Calibrated(None, {}, {}))
    """The calibration of the model's confidence; empty in results of earlier versions."""

    @property
    def scored(self) -> dict[str, Scores]:
        """The scores of the parts that were scored: dev, test, both or neither."""
        parts = {"dev": self.dev, "test": self.test}
        return {part: scores for part, scores in parts.items() if scores is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return the content of `result.json`."""
        return {
            "command": self.command,
            "commit": self.commit,
            "versions": dict(self.versions),
            "device": self.device,
            "seconds": self.seconds,
            "seed": self.seed,
            "data": asdict(self.data) | {"remarks": list(self.data.remarks)},
            "n_parameters": self.n_parameters,
            "steps": self.steps,
            "stopped_early": self.stopped_early,
            "best": asdict(self.best),
            "dev": None if self.dev is None else self.dev.to_dict(),
            "test": None if self.test is None else self.test.to_dict(),
            "ceiling": ceiling_records(self.ceilings),
            "confidence": self.confidence.to_dict(),
            "part_cells": self.part_cells,
            "messages": list(self.messages),
            "config": self.config.to_dict(),
            "history": [evaluation.to_dict() for evaluation in self.history],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunResult:
        """Read the content of `result.json`, also of earlier versions.

        No function that the settings name is imported.
        """
        config = load_record(values["config"], _named_functions(values["config"]))
        made = {**_earliest(config), **values, "config": config}
        made["history"] = [Evaluation.from_dict(one) for one in values["history"]]
        made["ceilings"] = made.pop("ceiling", None)
        if "confidence" in made:
            made["confidence"] = Calibrated.from_dict(made["confidence"])
        return _adapter().validate_python(made)

    @classmethod
    def read(cls, path: Path) -> RunResult:
        """Read a `result.json`; an error says what is wrong with the file and how to have it written again."""
        cure = f"remove it, and have it written again by {resume_command(path.parent)}"
        try:
            values: Any = read_json(path)
        except RelatumError as error:
            raise RelatumError(f"{error}; it is not the result of a run: {cure}") from None
        try:
            return cls.from_dict(values)
        except (ConfigError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise RelatumError(
                f"{path}: not the result of a run of this version: {explain_damage(error)}; {cure}"
            ) from None


def ceiling_records(ceilings: Mapping[str, Ceiling] | None) -> dict[str, Any] | None:
    """Return ceilings as JSON, by part."""
    return None if ceilings is None else {part: ceiling_record(one) for part, one in ceilings.items()}


@cache
def _adapter() -> TypeAdapter[RunResult]:
    return TypeAdapter(RunResult)


def _earliest(config: Config) -> dict[str, Any]:
    """Return the values that the earliest version did not write: it never stopped early, and kept no messages."""
    return {"steps": config.training.steps, "stopped_early": False, "part_cells": None, "messages": []}


def _named_functions(config: Mapping[str, Any]) -> list[str]:
    """Return every value of the text settings: the settings are shown and compared, and nothing is imported."""
    return [str(value) for value in config.get("text", {}).values()]


def explain_damage(error: Exception) -> str:
    """Describe in one line why values do not fit the type that they are read as."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    if isinstance(error, KeyError):
        return f"there is no {error}"
    return str(error).replace("\n", "; ")
