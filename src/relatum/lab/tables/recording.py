"""The making of a table's record from its plan and its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from relatum.config import EncoderConfig
from relatum.lab.tables.configs import configs_folder
from relatum.lab.tables.corpora import VARIABLE
from relatum.lab.tables.measuring import ceiling_of, measure, needs_gold_scores
from relatum.lab.tables.paper import SOURCE
from relatum.lab.tables.planning import PlannedRow
from relatum.lab.tables.record import RowData, RowRecord, RunScores, Status, TableRecord
from relatum.lab.tables.running import Outcome
from relatum.lab.tables.selection import Request, SelectedRow
from relatum.lab.tables.table import Column, Table
from relatum.training.result import RunResult
from relatum.training.runs.plan import PlannedRun
from relatum.training.runs.summary import Spread, find_common


def make_record(
    table: Table,
    request: Request,
    rows: Sequence[tuple[SelectedRow, PlannedRow | None]],
    outcome: Outcome,
    needs: Mapping[Path, str],
    command: str,
) -> TableRecord:
    """Make the record of a table as far as it was measured; `needs` has, by folder, why a row could not be run."""
    records: list[RowRecord] = []
    results: list[RunResult] = []
    for selected, planned in rows:
        record = _describe_row(selected, request)
        if planned is not None:
            record = _add_runs(record, table, planned, request.part, outcome, needs)
            results += [RunResult.read(planned.folder.run(run).result) for run in planned.complete]
        records.append(record)
    return TableRecord(
        table=table.number,
        title=table.title,
        source=SOURCE,
        published=table.published,
        columns=table.columns,
        default=table.default,
        notes=table.notes,
        command=command,
        part=request.part,
        n_runs=request.n_runs,
        steps=request.steps,
        settings=_shown_settings(request.overrides, request),
        commit=find_common(result.commit for result in results),
        versions=find_common(dict(result.versions) for result in results),
        device=find_common(result.device for result in results),
        rows=tuple(records),
    )


def _describe_row(selected: SelectedRow, request: Request) -> RowRecord:
    """Make the record of a row without runs: a quoted row, or one that needs something before it can be run."""
    row, settings = selected.row, selected.settings
    record = RowRecord(
        key=row.key,
        section=row.section,
        label=row.label,
        average=row.average,
        corpus=selected.corpus.title,
        published=row.published,
        status="quoted" if row.configs is None else "needs",
        message=selected.needs,
    )
    if settings is None:
        return record
    return replace(
        record,
        encoder=encoder_title(settings.config.encoder),
        config=f"configs/{settings.file.relative_to(configs_folder()).as_posix()}",
        settings=_shown_settings(settings.overrides, request),
    )


def _add_runs(
    record: RowRecord, table: Table, planned: PlannedRow, part: str, outcome: Outcome, needs: Mapping[Path, str]
) -> RowRecord:
    """Return the record of a row with its complete runs and their scores."""
    assert planned.selected.data is not None
    columns = [column for column in table.columns if column.key in record.published]
    runs = tuple(_score_run(planned, run, columns, part) for run in planned.complete)
    status, message = _find_status(planned, runs, columns, outcome, needs)
    n_folds = _n_folds(planned)
    measured: dict[str, Spread] = {}
    for column in columns:
        values = _seed_means(runs, column, n_folds or 1)
        if values:
            measured[column.key] = Spread.of(values)
    return replace(
        record,
        status=status,
        message=message,
        folder=planned.folder.path.name,
        n_wanted=len(planned.wanted),
        data=RowData(planned.selected.data.shown, n_folds),
        runs=runs,
        measured=measured,
        ceiling=_find_ceiling(planned, columns, part),
    )


def _find_status(
    planned: PlannedRow,
    runs: Sequence[RunScores],
    columns: Sequence[Column],
    outcome: Outcome,
    needs: Mapping[Path, str],
) -> tuple[Status, str | None]:
    """Return the status of a row, and the message that explains it."""
    folder = planned.folder.path
    gold = [column.key for column in columns if needs_gold_scores(planned, column)]
    failures = [*outcome.failures.get(folder, [])]
    if gold:
        failures += outcome.gold_failures.get(folder, [])
    if failures:
        return "failed", failures[0].message
    is_complete = len(runs) == len(planned.wanted)
    if folder in needs and not is_complete:
        return "needs", needs[folder]
    unscored = {run.name for run in runs for key in gold if run.scores[key] is None}
    n_unscored = len(unscored)
    if n_unscored:
        return "partial", f"{n_unscored} of {len(runs)} models are not yet scored with the gold entities"
    if is_complete:
        return "complete", None
    return ("partial" if runs else "not run"), None


def _find_ceiling(planned: PlannedRow, columns: Sequence[Column], part: str) -> dict[str, float]:
    """Return, by column, the best F1 (%) that the tagging allows, mean over the runs, if it is known and below 100."""
    ceiling = {}
    for column in columns:
        values = [ceiling_of(planned, run, column, part) for run in planned.complete]
        known = [100 * value for value in values if value is not None]
        if known and min(known) < 100:
            ceiling[column.key] = Spread.of(known).mean
    return ceiling


def _score_run(planned: PlannedRow, run: PlannedRun, columns: Sequence[Column], part: str) -> RunScores:
    result = RunResult.read(planned.folder.run(run).result)
    scores = {column.key: measure(planned, run, column, part) for column in columns}
    return RunScores(run.name, run.seed, run.fold, run.fingerprint, result.best, result.seconds, scores)


def _seed_means(runs: Sequence[RunScores], column: Column, n_folds: int) -> list[float]:
    """Return a column's mean over the folds, in per cent or millions, for each seed that has all of its folds."""
    seeds: dict[int, list[float]] = {}
    for run in runs:
        score = run.scores[column.key]
        if score is not None:
            seeds.setdefault(run.seed, []).append(score)
    scale = 1e-6 if column.task is None else 100.0
    return [scale * Spread.of(scores).mean for scores in seeds.values() if len(scores) == n_folds]


def _n_folds(planned: PlannedRow) -> int | None:
    folds = {run.fold for run in planned.wanted}
    return None if folds == {None} else len(folds)


def _shown_settings(settings: Sequence[str], request: Request) -> tuple[str, ...]:
    """Write the folder of the corpora in settings as the user named it: its full path is another on every machine."""
    paths = request.paths
    if paths.folder is None:
        return tuple(settings)
    shown = f"${VARIABLE}" if paths.variable else str(paths.folder)
    return tuple(setting.replace(str(paths.folder.absolute()), shown) for setting in settings)


def encoder_title(config: EncoderConfig) -> str:
    """Describe an encoder in a few words."""
    name = " and ".join(name.rstrip("/").rpartition("/")[2] for name in config.names) or "none"
    if config.tuning == "frozen":
        return name if config.adapters is None else f"{name} with adapters"
    return f"{name}, tuned ({config.tuning})"
