"""The making of tables: from requests to files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from relatum.data.atomic import replacing_file
from relatum.errors import RelatumError
from relatum.lab.tables.measuring import needs_gold_scores
from relatum.lab.tables.planning import PlannedRow, Planner
from relatum.lab.tables.record import TableRecord
from relatum.lab.tables.recording import encoder_title, make_record
from relatum.lab.tables.rendering import to_csv, to_markdown
from relatum.lab.tables.running import Outcome, complete_rows, find_encoders
from relatum.lab.tables.scoring import GoldScoring
from relatum.lab.tables.selection import Request, SelectedRow, find_table, select_rows
from relatum.lab.tables.table import Table
from relatum.monitor import Monitor
from relatum.training.runs.plan import PlannedRun


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table as far as it was made, and the path of its record; the Markdown and CSV files lie beside the record."""

    record: TableRecord
    path: Path
    stopped: bool


@dataclass(frozen=True, slots=True)
class TableBuild:
    """A table that is being made: its rows, each with its plan if it can be run, and the folder to write it to."""

    table: Table
    request: Request
    rows: Sequence[tuple[SelectedRow, PlannedRow | None]]
    out: Path
    command: str

    @property
    def planned(self) -> list[PlannedRow]:
        return [row for _, row in self.rows if row is not None]

    def write(self, outcome: Outcome, needs: Mapping[Path, str]) -> WrittenTable:
        """Write the table of the runs that are complete."""
        record = make_record(self.table, self.request, self.rows, outcome, needs, self.command)
        path = self.out / f"{file_name(self.request, self.rows)}.json"
        write_table(path, record)
        return WrittenTable(record, path, outcome.stopped)


def plan_table(
    request: Request, out: Path, device: str = "auto", planner: Planner | None = None
) -> list[tuple[SelectedRow, PlannedRow | None]]:
    """Plan all rows; a row that cannot run has no plan and says what it needs. Tables with one planner share runs."""
    planner = planner or Planner(out, request, device)
    rows: list[tuple[SelectedRow, PlannedRow | None]] = []
    wrong: dict[str, str] = {}
    for selected in select_rows(request):
        if selected.data is None or selected.corpus.name in wrong:
            needs = wrong.get(selected.corpus.name, selected.needs)
            rows.append((_with_needs(selected, needs), None))
            continue
        try:
            rows.append((selected, planner.plan(selected)))
        except RelatumError as error:
            # Another corpus of the same table may be in order.
            wrong[selected.corpus.name] = str(error)
            rows.append((_with_needs(selected, str(error)), None))
    runnable = [selected for selected, _ in rows if selected.settings is not None]
    if runnable and all(planned is None for _, planned in rows) and wrong:
        raise RelatumError("\n".join(wrong.values()))
    return rows


def plan_tables(
    requests: Sequence[Request], out: Path, device: str = "auto"
) -> list[list[tuple[SelectedRow, PlannedRow | None]]]:
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
) -> list[WrittenTable]:
    """Make all missing runs that the tables need, side by side, and write the tables into `out`.

    A row that fails, or needs something, does not affect the other rows and is named in the record. Tables are written
    after every run, so that an interrupted table is there as far as it came. `as_is` runs nothing, and writes the
    tables of the runs that are complete. `command` makes the command line that the record of a table names.
    """
    builds = [
        TableBuild(find_table(request.table), request, rows, out, command(request))
        for request, rows in zip(requests, plan_tables(requests, out, device), strict=True)
    ]
    outcome, needs = Outcome(), dict[Path, str]()
    if as_is:
        if not any(row.complete for build in builds for row in build.planned):
            raise RelatumError(
                f"{out / 'runs'}: no run of these rows is complete; give the data and settings that runs there were "
                "made with, or leave out --as-is to make them"
            )
    else:
        needs = find_encoders([row for build in builds for row in build.planned], say)
        _check_able(builds, needs)
        outcome = _complete(builds, needs, out, device, jobs, say, monitor)
    return [build.write(outcome, needs) for build in builds]


def _check_able(builds: Sequence[TableBuild], needs: Mapping[Path, str]) -> None:
    """Refuse tables if none of their rows can be run or was run: they would replace better tables."""
    lacking: dict[str, None] = {}
    for build in builds:
        for selected, planned in build.rows:
            if planned is not None and (planned.complete or planned.folder.path not in needs):
                return
            if selected.row.configs is not None:
                lacking[selected.needs or "" if planned is None else needs[planned.folder.path]] = None
    raise RelatumError("none of these rows can be run; they need " + "; ".join(lacking))


class _Progress:
    """The scoring of models with gold entities, and the writing of tables, while runs are being made."""

    def __init__(
        self, builds: Sequence[TableBuild], needs: Mapping[Path, str], device: str, say: Callable[[str], None]
    ) -> None:
        self._builds, self._needs, self._say = builds, needs, say
        self.scoring = GoldScoring(device, say)
        self._scored = {
            row.folder.path
            for build in builds
            for row in build.planned
            if any(needs_gold_scores(row, column) for column in build.table.columns)
        }

    def score_complete(self, rows: Sequence[PlannedRow]) -> None:
        """Ask for the gold-entity scores of all runs that are complete."""
        for row in rows:
            for run in row.complete:
                self._score(row, run)

    def run_ended(self, row: PlannedRow, run: PlannedRun) -> None:
        self._score(row, run)
        self._write({row.folder.path})

    def write_scored(self) -> None:
        """Write the tables whose models have been scored since the last call."""
        self._write({row.folder.path for row in self.scoring.collect()})

    def _score(self, row: PlannedRow, run: PlannedRun) -> None:
        if row.folder.path in self._scored:
            self.scoring.ask(row, run)

    def _write(self, folders: set[Path]) -> None:
        """Write the tables that have a row in one of the folders."""
        for build in self._builds:
            if folders.isdisjoint(row.folder.path for row in build.planned):
                continue
            try:
                build.write(Outcome(gold_failures=self.scoring.failures), self._needs)
            except (RelatumError, OSError) as error:
                self._say(f"Table {build.table.number} is not written while runs go on: {error}")


def _complete(
    builds: Sequence[TableBuild],
    needs: Mapping[Path, str],
    out: Path,
    device: str,
    jobs: int | Literal["auto"] | None,
    say: Callable[[str], None],
    monitor: Monitor | None,
) -> Outcome:
    """Make all missing runs that can be made, with their scores, and write tables along the way."""
    able = [row for build in builds for row in build.planned if row.folder.path not in needs]
    progress = _Progress(builds, needs, device, say)
    finished = False
    try:
        progress.score_complete(able)
        outcome = complete_rows(able, out.absolute(), device, jobs, monitor, progress.run_ended, progress.write_scored)
        finished = not outcome.stopped
    finally:
        progress.scoring.close(cancel=not finished)
    outcome.gold_failures = progress.scoring.failures
    return outcome


def write_table(path: Path, record: TableRecord) -> None:
    """Write the record, and the table as Markdown and CSV beside it."""
    texts = {
        ".json": json.dumps(record.to_dict(), ensure_ascii=False, indent=2) + "\n",
        ".md": to_markdown(record),
        ".csv": to_csv(record),
    }
    for suffix, text in texts.items():
        with replacing_file(path.with_suffix(suffix)) as draft:
            draft.write_text(text, encoding="utf-8")


def file_name(request: Request, rows: Sequence[tuple[SelectedRow, PlannedRow | None]]) -> str:
    """Return a file name for a table: its number, the corpus and the encoder if all rows share them, and the part."""
    corpora: set[str] = set()
    encoders: set[str] = set()
    for selected, _ in rows:
        if selected.settings is not None:
            corpora.add(selected.corpus.name)
            encoders.add(encoder_title(selected.settings.config.encoder))
    parts = [f"table-{request.table}"]
    for names in (corpora, encoders):
        if len(names) == 1:
            parts += names
    return re.sub(r"[^\w.-]+", "-", "-".join([*parts, request.part]))


def _with_needs(selected: SelectedRow, needs: str | None) -> SelectedRow:
    return SelectedRow(selected.row, selected.corpus, selected.settings, None, needs)
