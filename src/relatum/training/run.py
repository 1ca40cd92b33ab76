"""A complete run: its folder, its model and its scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relatum.evaluation.ceiling import Ceiling
from relatum.extractor.extractor import Extractor
from relatum.scores import Scores
from relatum.training.folder import RunFolder
from relatum.training.result import RunResult


@dataclass(frozen=True, slots=True)
class Run:
    """A complete run: the folder that holds its model and reports, and its result."""

    folder: Path
    result: RunResult
    """The content of `result.json`: scores, data, settings, versions and the history of the run."""

    @classmethod
    def read(cls, folder: Path | str) -> Run:
        """Read a complete run from its folder."""
        return cls(Path(folder), RunResult.read(RunFolder(Path(folder)).result))

    @property
    def model(self) -> Path:
        """The folder of the trained model."""
        return RunFolder(self.folder).model

    @property
    def dev(self) -> Scores | None:
        """The scores of the model on dev; None if there is no dev part."""
        return self.result.dev

    @property
    def test(self) -> Scores | None:
        """The scores of the model on test; None if test was not scored."""
        return self.result.test

    @property
    def ceilings(self) -> Mapping[str, Ceiling]:
        """The best scores that the model allows, by part: dev and test."""
        return self.result.ceilings or {}

    def load(self, **options: Any) -> Extractor:
        """Load the trained model; the options are the keyword arguments of `Extractor.from_pretrained`."""
        return Extractor.from_pretrained(str(self.model), **options)
