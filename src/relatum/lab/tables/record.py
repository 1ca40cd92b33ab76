"""The record of a table: all that was measured, from what, and the published numbers; enough to show it anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter

from relatum.errors import RelatumError
from relatum.files import read_json
from relatum.lab.tables.table import COLUMNS, Column, Numbers, Published
from relatum.scores import Average
from relatum.training.result import BestModel, explain_damage
from relatum.training.runs.summary import Spread

FORMAT = "relatum table 1"
"""The value of the key `format`, by which the file of a record is recognised."""

Status: TypeAlias = Literal["quoted", "needs", "not run", "partial", "failed", "complete"]


@dataclass(frozen=True, slots=True)
class RowData:
    """The data that the runs of a row were trained on."""

    path: str = ""
    folds: int | None = None
    """The number of folds; None if the corpus is not divided into folds."""


@dataclass(frozen=True, slots=True)
class RunScores:
    """A complete run of a row, and its scores."""

    name: str
    seed: int
    fold: int | None
    sha256: str
    """The fingerprint of the run's data."""
    best: BestModel
    seconds: float
    scores: Mapping[str, int | float | None]
    """An F1 between 0 and 1, or a count, by the key of its column; None if it is not measured yet."""

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        scores = values.pop("scores")
        return {**values, **scores}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRecord:
    """A row of a table. A quoted row has only published numbers; a row that cannot be run says what it needs."""

    key: str
    section: str
    label: str
    average: Average
    corpus: str
    published: Numbers
    encoder: str = ""
    """The encoder; empty, like `config`, if the row has no settings."""
    config: str = ""
    settings: tuple[str, ...] = ()
    status: Status
    message: str | None = None
    """The failure of the row, or what it needs."""
    folder: str = ""
    """The name of the folder of the runs; empty if no runs are planned."""
    n_wanted: int = 0
    data: RowData = RowData()
    runs: tuple[RunScores, ...] = ()
    measured: Mapping[str, Spread] = field(default_factory=dict)
    """Our numbers by the key of their column, in per cent or millions."""
    ceiling: Mapping[str, float] | None = None
    """The best F1 (%) that the tagging allows, by column, if below 100; None in records of earlier versions."""

    def mean(self, column: Column) -> float | None:
        spread = self.measured.get(column.key)
        return None if spread is None else spread.mean

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON, without the keys that have no meaning for it."""
        values: dict[str, Any] = {
            "key": self.key,
            "section": self.section,
            "label": self.label,
            "average": self.average,
            "corpus": self.corpus,
            "published": dict(self.published),
        }
        if self.encoder:
            values |= {"encoder": self.encoder, "config": self.config, "settings": list(self.settings)}
        values["status"] = self.status
        if self.status != "quoted":
            values["message"] = self.message
        if self.folder:
            values |= {
                "folder": self.folder,
                "n_wanted": self.n_wanted,
                "data": asdict(self.data),
                "runs": [run.to_dict() for run in self.runs],
                "measured": {key: spread.to_dict() for key, spread in self.measured.items()},
            }
        if self.ceiling is not None:
            values["ceiling"] = dict(self.ceiling)
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRecord:
    """A table as far as it was measured. Commit, versions and device are lists if runs differ, None without runs."""

    table: int
    title: str
    source: str
    published: Published
    columns: tuple[Column, ...]
    default: str | None
    """The key of the row that all others are compared with."""
    notes: tuple[str, ...]
    command: str
    part: str
    n_runs: int
    steps: int | None
    settings: tuple[str, ...]
    commit: str | list[str | None] | None
    versions: dict[str, str] | list[dict[str, str]] | None
    device: str | list[str] | None
    rows: tuple[RowRecord, ...]

    @property
    def complete(self) -> bool:
        return all(row.status in ("complete", "quoted") for row in self.rows)

    @property
    def default_row(self) -> RowRecord | None:
        return next((row for row in self.rows if row.key == self.default), None)

    @property
    def runnable_rows(self) -> list[RowRecord]:
        """The rows that are not quoted."""
        return [row for row in self.rows if row.status != "quoted"]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the table's JSON file."""
        return {
            "format": FORMAT,
            "table": self.table,
            "title": self.title,
            "source": self.source,
            "published": self.published.to_dict(),
            "columns": [column.key for column in self.columns],
            "default": self.default,
            "notes": list(self.notes),
            "command": self.command,
            "part": self.part,
            "n_runs": self.n_runs,
            "steps": self.steps,
            "settings": list(self.settings),
            "commit": self.commit,
            "versions": self.versions,
            "device": self.device,
            "complete": self.complete,
            "rows": [row.to_dict() for row in self.rows],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableRecord:
        """Read the content of a table's JSON file; unknown keys are left out."""
        rows = [{**row, "runs": [_gather_scores(run) for run in row.get("runs", ())]} for row in values["rows"]]
        return _adapter().validate_python({**values, "columns": _find_columns(values["columns"]), "rows": rows})

    @classmethod
    def read(cls, path: Path) -> TableRecord:
        """Read a table's JSON file; an error says what is wrong with the file and how to mend it."""
        try:
            values = read_json(path)
        except RelatumError as error:
            raise RelatumError(f"{error}; name a JSON file that relatum reproduce wrote") from None
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise RelatumError(
                f'{path}: not the record of a table: expected "format": "{FORMAT}", as reproduce writes it'
            )
        try:
            return cls.from_dict(values)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RelatumError(
                f"{path}: not a record as relatum reproduce writes it: {explain_damage(error)}; make the table again "
                "by relatum reproduce, or name another file"
            ) from None


@cache
def _adapter() -> TypeAdapter[TableRecord]:
    return TypeAdapter(TableRecord)


def _find_columns(keys: list[str]) -> list[Column]:
    unknown = [key for key in keys if key not in COLUMNS]
    if unknown:
        raise ValueError(f"found the unknown columns {', '.join(unknown)}; expected {', '.join(COLUMNS)}")
    return [COLUMNS[key] for key in keys]


def _gather_scores(run: Mapping[str, Any]) -> dict[str, Any]:
    """Gather the scores of a run, which the JSON file has beside the run's other values."""
    return {**run, "scores": {key: value for key, value in run.items() if key in COLUMNS}}
