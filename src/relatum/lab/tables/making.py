"""The making of tables: from requests to files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from relatum.data.atomic import replacing_file
from relatum.errors import RelatumError
from relatum.lab.tables.measuring import needs_gold_scores
from relatum.lab.tables.planning import PlannedRow, Planner
from relatum.lab.tables.record import encoder_title, make_record, write_json
from relatum.lab.tables.rendering import to_csv, to_markdown
from relatum.lab.tables.running import Outcome, complete_rows, find_encoders
from relatum.lab.tables.scoring import GoldScoring
from relatum.lab.tables.selection import Chosen, Request, choose, find_table
from relatum.lab.tables.table import Table
from relatum.monitor import Monitor
from relatum.training.runs.plan import PlannedRun


@dataclass(frozen=True, slots=True)
class Made:
    """A table as far as it was made, and the path of its record; the Markdown and CSV files lie beside the record."""

    record: dict[str, Any]
    path: Path
    stopped: bool


@dataclass(frozen=True, slots=True)
class Draft:
    """A table that is being made: its rows, each with its plan if it can be run, and the folder to write it to."""

    table: Table
    request: Request
    rows: Sequence[tuple[Chosen, PlannedRow | None]]
    out: Path
    command: str

    @property
    def planned(self) -> list[PlannedRow]:
        return [row for _, row in self.rows if row is not None]

    def write(self, outcome: Outcome, needs: Mapping[Path, str]) -> Made:
        """Write the table of the runs that are complete."""
        record = make_record(self.table, self.request, self.rows, outcome, needs, self.command)
        path = self.out / f"{file_name(self.request, record, self.rows)}.json"
        write_table(path, record)
        return Made(record, path, outcome.stopped)


def plan_table(
    request: Request, out: Path, device: str = "auto", planner: Planner | None = None
) -> list[tuple[Chosen, PlannedRow | None]]:
    """Plan all rows; a row that cannot run has no plan and says what it needs. Tables with one planner share runs."""
    planner = planner or Planner(out, request, device)
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


def plan_tables(
    requests: Sequence[Request], out: Path, device: str = "auto"
) -> list[list[tuple[Chosen, PlannedRow | None]]]:
    """Plan several tables, whose requests must differ in table and rows alone; runs that they share have one folder."""
    planner = Planner(out, requests[0], device)
    return [plan_table(request, out, device, planner) for request in requests]


def make_tables(
    requests: Sequence[Request],
    out: Path,
    *,
    device: str = "auto",
    jobs: int | Literal["auto"] | None = None,
    command: Callable[[Request], str] = lambda _: "",
    as_is: bool = False,
    say: Callable[[str], None] = lambda _: None,
    monitor: Monitor | None = None,
) -> list[Made]:
    """Make all missing runs that the tables need, side by side, and write the tables into `out`.

    A row that fails, or needs something, does not affect the other rows and is named in the record. Tables are written
    after every run, so that an interrupted table is there as far as it came. `as_is` runs nothing, and writes the
    tables of the runs that are complete. `command` makes the command line that the record of a table names.
    """
    drafts = [
        Draft(find_table(request.table), request, rows, out, command(request))
        for request, rows in zip(requests, plan_tables(requests, out, device), strict=True)
    ]
    outcome, needs = Outcome(), dict[Path, str]()
    if as_is:
        if not any(row.complete for draft in drafts for row in draft.planned):
            raise RelatumError(
                f"{out / 'runs'}: no run of these rows is complete; give the data and settings that runs there were "
                "made with, or leave out --as-is to make them"
            )
    else:
        needs = find_encoders([row for draft in drafts for row in draft.planned], say)
        _check_able(drafts, needs)
        outcome = _complete(drafts, needs, out, device, jobs, say, monitor)
    return [draft.write(outcome, needs) for draft in drafts]


def _check_able(drafts: Sequence[Draft], needs: Mapping[Path, str]) -> None:
    """Refuse tables if none of their rows can be run or was run: they would replace better tables."""
    lacking: dict[str, None] = {}
    for draft in drafts:
        for chosen, planned in draft.rows:
            if planned is not None and (planned.complete or planned.folder.path not in needs):
                return
            if chosen.row.configs is not None:
                lacking[chosen.needs or "" if planned is None else needs[planned.folder.path]] = None
    raise RelatumError("none of these rows can be run; they need " + "; ".join(lacking))


def _complete(
    drafts: Sequence[Draft],
    needs: Mapping[Path, str],
    out: Path,
    device: str,
    jobs: int | Literal["auto"] | None,
    say: Callable[[str], None],
    monitor: Monitor | None,
) -> Outcome:
    """Make all missing runs that can be made, with their scores, and write tables along the way."""
    scoring = GoldScoring(device, say)
    able = [row for draft in drafts for row in draft.planned if row.folder.path not in needs]
    scored = {
        row.folder.path
        for draft in drafts
        for row in draft.planned
        if any(needs_gold_scores(row, column) for column in draft.table.columns)
    }

    def write(paths: set[Path]) -> None:
        for draft in drafts:
            if paths.isdisjoint(row.folder.path for row in draft.planned):
                continue
            try:
                draft.write(Outcome(gold_failures=scoring.failures), needs)
            except (RelatumError, OSError) as error:
                say(f"Table {draft.table.number} is not written while runs go on: {error}")

    def ended(row: PlannedRow, run: PlannedRun) -> None:
        if row.folder.path in scored:
            scoring.ask(row, run)
        write({row.folder.path})

    def meanwhile() -> None:
        write({row.folder.path for row in scoring.collect()})

    finished = False
    try:
        for row in able:
            if row.folder.path in scored:
                for run in row.complete:
                    scoring.ask(row, run)
        outcome = complete_rows(able, out.absolute(), device, jobs, monitor, ended, meanwhile)
        finished = not outcome.stopped
    finally:
        scoring.close(cancel=not finished)
    outcome.gold_failures = scoring.failures
    return outcome


def write_table(path: Path, record: Mapping[str, Any]) -> None:
    """Write the record, and the table as Markdown and CSV beside it."""
    write_json(path, record)
    for suffix, text in ((".md", to_markdown(record)), (".csv", to_csv(record))):
        with replacing_file(path.with_suffix(suffix)) as draft:
            draft.write_text(text, encoding="utf-8")


def file_name(request: Request, record: Mapping[str, Any], rows: Sequence[tuple[Chosen, PlannedRow | None]]) -> str:
    """Return a file name for a table: its number, the corpus and the encoder if all rows share them, and the part."""
    run = [chosen for chosen, _ in rows if chosen.settings is not None]
    corpora = {chosen.corpus.name for chosen in run}
    encoders = {encoder_title(chosen.settings.config.encoder) for chosen in run if chosen.settings is not None}
    parts = [f"table-{record['table']}", *(name for (name,) in (tuple(v) for v in (corpora, encoders) if len(v) == 1))]
    return re.sub(r"[^\w.-]+", "-", "-".join([*parts, request.part]))


def _with_needs(chosen: Chosen, needs: str | None) -> Chosen:
    return Chosen(chosen.row, chosen.corpus, chosen.settings, None, needs)
