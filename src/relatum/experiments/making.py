"""A table from the request for it to the files that hold it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from relatum.data.atomic import replacing_file
from relatum.errors import RelatumError
from relatum.experiments.measuring import add_gold_scores, needs_gold_scores
from relatum.experiments.planning import PlannedRow, Planner
from relatum.experiments.record import encoder_title, make_record, write_json
from relatum.experiments.rendering import to_csv, to_markdown
from relatum.experiments.running import Outcome, complete_rows, find_encoders
from relatum.experiments.selection import Chosen, Request, choose, find_table
from relatum.experiments.tables import Table
from relatum.training.runs.summary import Failure


@dataclass(frozen=True, slots=True)
class Made:
    """A table as far as it was made, and the file of its record, beside which it is in other forms."""

    record: dict[str, Any]
    path: Path
    stopped: bool


def plan_table(request: Request, out: Path, device: str = "auto") -> list[tuple[Chosen, PlannedRow | None]]:
    """All rows; those that cannot be run have no plan, and say what they need."""
    planner = Planner(out, request, device)
    rows: list[tuple[Chosen, PlannedRow | None]] = []
    wrong: dict[str, str] = {}
    for chosen in choose(request):
        if chosen.data is None or chosen.corpus.name in wrong:
            needs = wrong.get(chosen.corpus.name, chosen.needs)
            rows.append((_with_needs(chosen, needs), None))
            continue
        try:
            rows.append((chosen, planner.plan(chosen)))
        except RelatumError as error:
            # Another corpus of the same table may be in order.
            wrong[chosen.corpus.name] = str(error)
            rows.append((_with_needs(chosen, str(error)), None))
    runnable = [chosen for chosen, _ in rows if chosen.settings is not None]
    if runnable and all(planned is None for _, planned in rows) and wrong:
        raise RelatumError("\n".join(wrong.values()))
    return rows


def make_table(
    request: Request,
    out: Path,
    *,
    device: str = "auto",
    jobs: int | Literal["auto"] | None = None,
    command: str = "",
    say: Callable[[str], None] = lambda _: None,
    console: Console | None = None,
) -> Made:
    """Make all runs that a table needs and that are not there, and write the table into `out`.

    Rows that fail, or need something, leave the others as they are and are named in the record.
    """
    table = find_table(request.table)
    rows = plan_table(request, out, device)
    planned = [row for _, row in rows if row is not None]
    needs = find_encoders(planned, say)
    able = [row for row in planned if row.folder.path not in needs]
    outcome = complete_rows(able, out.absolute(), device, jobs, console)
    if not outcome.stopped:
        _add_gold_scores(table, able, device, outcome, say)
    record = make_record(table, request, rows, outcome, needs, command)
    path = out / f"{file_name(request, record, rows)}.json"
    write_table(path, record)
    return Made(record, path, outcome.stopped)


def write_table(path: Path, record: Mapping[str, Any]) -> None:
    """Write the record, and the table as Markdown and CSV beside it."""
    write_json(path, record)
    for suffix, text in ((".md", to_markdown(record)), (".csv", to_csv(record))):
        with replacing_file(path.with_suffix(suffix)) as draft:
            draft.write_text(text, encoding="utf-8")


def file_name(request: Request, record: Mapping[str, Any], rows: Sequence[tuple[Chosen, PlannedRow | None]]) -> str:
    """A name that says what a table is of; corpus and encoder where all rows share them."""
    run = [chosen for chosen, _ in rows if chosen.settings is not None]
    corpora = {chosen.corpus.name for chosen in run}
    encoders = {encoder_title(chosen.settings.config.encoder) for chosen in run if chosen.settings is not None}
    parts = [f"table-{record['table']}", *(name for (name,) in (tuple(v) for v in (corpora, encoders) if len(v) == 1))]
    return re.sub(r"[^\w.-]+", "-", "-".join([*parts, request.part]))


def _add_gold_scores(
    table: Table, rows: Sequence[PlannedRow], device: str, outcome: Outcome, say: Callable[[str], None]
) -> None:
    """Score models with the gold entities, where a column wants that; what fails is noted with its row."""
    for row in rows:
        if not any(needs_gold_scores(row, column) for column in table.columns):
            continue
        for run in row.complete:
            try:
                add_gold_scores(row, run, device)
            except (RelatumError, OSError, RuntimeError) as error:
                message = f"no scores with gold entities: {error}"
                say(f"{row.folder.path.name}/{run.name}: {message}")
                failure = Failure(run, message, row.folder.run(run).path)
                outcome.failures.setdefault(row.folder.path, []).append(failure)


def _with_needs(chosen: Chosen, needs: str | None) -> Chosen:
    return Chosen(chosen.row, chosen.corpus, chosen.settings, None, needs)
