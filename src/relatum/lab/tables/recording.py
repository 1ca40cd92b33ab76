"""The record of a table: all that was measured, from what, and the published numbers; enough to show it anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from relatum.config import EncoderConfig
from relatum.data.atomic import replacing_file
from relatum.errors import RelatumError
from relatum.files import read_json
from relatum.lab.tables.configs import configs_folder
from relatum.lab.tables.corpora import VARIABLE
from relatum.lab.tables.measuring import ceiling_of, measure, needs_gold_scores
from relatum.lab.tables.paper import SOURCE
from relatum.lab.tables.planning import PlannedRow
from relatum.lab.tables.running import Outcome
from relatum.lab.tables.selection import Request, SelectedRow
from relatum.lab.tables.table import COLUMNS, Column, Table
from relatum.training.result import RunResult
from relatum.training.runs.plan import PlannedRun
from relatum.training.runs.summary import Spread, find_common

FORMAT = "relatum table 1"
"""The value of the first key of a record, `format`, by which a record is recognised."""


def make_record(
    table: Table,
    request: Request,
    rows: Sequence[tuple[SelectedRow, PlannedRow | None]],
    outcome: Outcome,
    needs: Mapping[Path, str],
    command: str,
) -> dict[str, Any]:
    """Make the record of a table as far as it was measured; `needs` has, by folder, why a row could not be run."""
    records = [_row(table, request, selected, planned, outcome, needs) for selected, planned in rows]
    return {
        "format": FORMAT,
        "table": table.number,
        "title": table.title,
        "source": SOURCE,
        "published": table.published.to_dict(),
        "columns": [column.key for column in table.columns],
        "default": table.default,
        "notes": list(table.notes),
        "command": command,
        "part": request.part,
        "n_runs": request.n_runs,
        "steps": request.steps,
        "settings": _shown_settings(request),
        **_environment(planned for _, planned in rows if planned is not None),
        "complete": all(row["status"] in ("complete", "quoted") for row in records),
        "rows": records,
    }


def _row(
    table: Table,
    request: Request,
    selected: SelectedRow,
    planned: PlannedRow | None,
    outcome: Outcome,
    needs: Mapping[Path, str],
) -> dict[str, Any]:
    row = selected.row
    record: dict[str, Any] = {
        "key": row.key,
        "section": row.section,
        "label": row.label,
        "average": row.average,
        "corpus": selected.corpus.title,
        "published": dict(row.published),
    }
    if row.configs is None:
        return record | {"status": "quoted"}
    if selected.settings is None:
        return record | {"status": "needs", "message": selected.needs}
    record["encoder"] = encoder_title(selected.settings.config.encoder)
    file = selected.settings.file
    record["config"] = f"configs/{file.relative_to(configs_folder()).as_posix()}"
    record["settings"] = [_without_home(setting, request) for setting in selected.settings.overrides]
    if planned is None:
        return record | {"status": "needs", "message": selected.needs}
    columns = [column for column in table.columns if column.key in row.published]
    runs = [_run(planned, run, columns, request.part) for run in planned.complete]
    failures = outcome.failures.get(planned.folder.path, [])
    gold = [column for column in columns if needs_gold_scores(planned, column)]
    if gold:
        failures = [*failures, *outcome.gold_failures.get(planned.folder.path, [])]
    blocked = needs.get(planned.folder.path)
    status = _status(len(runs), len(planned.wanted), bool(failures), blocked is not None)
    message = failures[0].message if failures else blocked
    n_unscored = sum(any(run[column.key] is None for column in gold) for run in runs)
    if n_unscored and status in ("complete", "partial"):
        status, message = "partial", f"{n_unscored} of {len(runs)} models are not yet scored with the gold entities"
    record |= {
        "status": status,
        "message": message,
        "folder": planned.folder.path.name,
        "n_wanted": len(planned.wanted),
        "data": {"path": selected.data.shown if selected.data else None, "folds": _n_folds(planned)},
        "runs": runs,
        "measured": {
            column.key: Spread.of(values).to_dict()
            for column in columns
            if (values := _values(runs, column, _n_folds(planned) or 1))
        },
        "ceiling": _ceiling(planned, columns, request.part),
    }
    return record


def _ceiling(planned: PlannedRow, columns: Iterable[Column], part: str) -> dict[str, float]:
    """Return, by column, the best F1 (%) that the tagging allows, mean over the runs, if it is known and below 100."""
    ceiling = {}
    for column in columns:
        values = [ceiling_of(planned, run, column, part) for run in planned.complete]
        known = [100 * value for value in values if value is not None]
        if known and min(known) < 100:
            ceiling[column.key] = Spread.of(known).mean
    return ceiling


def _run(planned: PlannedRow, run: PlannedRun, columns: Iterable[Column], part: str) -> dict[str, Any]:
    result = RunResult.read(planned.folder.run(run).result)
    return {
        "name": run.name,
        "seed": run.seed,
        "fold": run.fold,
        "sha256": run.fingerprint,
        "best": asdict(result.best),
        "seconds": result.seconds,
        **{column.key: measure(planned, run, column, part) for column in columns},
    }


def _values(runs: Sequence[Mapping[str, Any]], column: Column, n_folds: int) -> list[float]:
    """Return a column's mean over the folds, in per cent or millions, for each seed that has all of its folds."""
    seeds: dict[int, list[float]] = {}
    for run in runs:
        if run[column.key] is not None:
            seeds.setdefault(run["seed"], []).append(run[column.key])
    scale = 1e-6 if column.task is None else 100.0
    return [scale * Spread.of(values).mean for values in seeds.values() if len(values) == n_folds]


def _status(n_complete: int, n_wanted: int, failed: bool, blocked: bool) -> str:
    if failed:
        return "failed"
    if n_complete == n_wanted:
        return "complete"
    if blocked:
        return "needs"
    return "partial" if n_complete else "not run"


def _n_folds(planned: PlannedRow) -> int | None:
    folds = {run.fold for run in planned.wanted}
    return None if folds == {None} else len(folds)


def _environment(rows: Iterable[PlannedRow]) -> dict[str, Any]:
    """Return the commits, versions and devices of the runs, each once."""
    results = [RunResult.read(row.folder.run(run).result) for row in rows for run in row.complete]
    return {
        "commit": find_common(result.commit for result in results),
        "versions": find_common(dict(result.versions) for result in results),
        "device": find_common(result.device for result in results),
    }


def _shown_settings(request: Request) -> list[str]:
    return [_without_home(setting, request) for setting in request.overrides]


def _without_home(setting: str, request: Request) -> str:
    """Write the folder of the corpora in a setting as the user named it: its full path is another on every machine."""
    paths = request.paths
    if paths.folder is None:
        return setting
    return setting.replace(str(paths.folder.absolute()), f"${VARIABLE}" if paths.variable else str(paths.folder))


def encoder_title(config: EncoderConfig) -> str:
    """Describe an encoder in a few words."""
    name = " and ".join(name.rstrip("/").rpartition("/")[2] for name in config.names) or "none"
    return name if config.tuning == "frozen" else f"{name}, tuned ({config.tuning})"


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    with replacing_file(path) as draft:
        draft.write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def read_record(path: Path) -> dict[str, Any]:
    """Read a record that was written before."""
    try:
        record: Any = read_json(path)
    except RelatumError as error:
        raise RelatumError(f"{error}; name a JSON file that relatum reproduce wrote") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise RelatumError(f'{path}: not the record of a table: expected "format": "{FORMAT}", as reproduce writes it')
    unknown = [key for key in record["columns"] if key not in COLUMNS]
    if unknown:
        raise RelatumError(f"{path}: found the unknown columns {', '.join(unknown)}; expected {', '.join(COLUMNS)}")
    return record
