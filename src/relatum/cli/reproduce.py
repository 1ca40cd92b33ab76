"""`relatum reproduce`: tables of the paper, with our numbers beside the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from relatum.cli.config import Override
from relatum.cli.options import Seed
from relatum.cli.train import Device

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from relatum.lab.tables.record import TableRecord
    from relatum.lab.tables.selection import Request

Form = Literal["table", "markdown", "csv", "json"]


def reproduce(
    tables: Annotated[
        list[int] | None,
        typer.Argument(metavar="TABLE...", help="The tables to make: one or more of 1, 2, 3, 4, 5, 8, 9."),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|PATH",
            help="ace04, ace05, conll04, ade, scierc, or annotated data. Default: conll04; in Table 1, all corpora.",
        ),
    ] = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="The encoder. Default: the one that comes with relatum. In Table 2, selects rows."
        ),
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Only the row with this key (see --dry-run), in tables that have it."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="Runs per row, with consecutive seeds.")] = 5,
    folds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Use only the first N folds, for corpora with folds.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR|NAME=PATH",
            help="A folder with corpora by name (default: $RELATUM_DATA), or the path of one corpus; may be repeated.",
        ),
    ] = None,
    lists: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PATH",
            help="Lists of the documents in each part or fold of a corpus. Default: lists or folds.json in its folder.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of tables and runs; name it again to continue.")
    ] = (Path("reproduction")),
    dev: Annotated[bool, typer.Option("--dev", help="Score on dev only; test is not read.")] = False,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of updates, with a proportional warm-up and 20 evaluations. Default: 20,000.",
        ),
    ] = None,
    override: Override = None,
    seed: Seed = None,
    jobs: Annotated[
        str | None,
        typer.Option(metavar="N|auto", help="Parallel runs, over all rows and tables. Default: auto, as many as fit."),
    ] = None,
    device: Device = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List rows, runs and commands without running them.")
    ] = False,
    as_is: Annotated[bool, typer.Option("--as-is", help="Make tables of the complete runs, without new runs.")] = False,
    format: Annotated[
        Form, typer.Option(help="Output format. Several tables are a list in JSON, and share a header in CSV.")
    ] = "table",
    render: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Print the table of an existing JSON file, without runs; may be repeated."),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(metavar="PAGE", help="Update every table between marks in a Markdown page."),
    ] = None,
) -> None:
    """Re-run tables of the paper: train each row by its settings file, and show it beside the published numbers.

    DIR gets each table as JSON, Markdown and CSV, updated after every run, and the runs of each row in DIR/runs. Runs
    are identified by a hash of their settings and data, so no run is made twice, and tables share runs. Repeat the
    command to continue after Ctrl-C or a crash. If a row fails, the others continue, and the exit status is 1. ACE04
    and ACE05 are licensed: give their paths with --data.
    """
    from relatum.cli.console import say
    from relatum.lab.tables.record import TableRecord

    if into is not None:
        _fill(into)
        return
    if render:
        _show([TableRecord.read(path) for path in render], format)
        return
    if not tables:
        raise typer.BadParameter("give the number of a TABLE (1, 2, 3, 4, 5, 8, 9), or --render FILE")

    from relatum.cli.runs import read_jobs
    from relatum.cli.runs_screen import RunsScreen
    from relatum.lab.tables.corpora import CorpusPaths
    from relatum.lab.tables.making import make_tables
    from relatum.lab.tables.selection import Request

    settings = [*(override or []), *([] if seed is None else [f"training.seed={seed}"])]
    corpora, encoders, rows = (tuple(names or ()) for names in (corpus, encoder, row))
    paths = CorpusPaths.parse(data or (), lists=lists or ())
    request = Request(tables[0], corpora, encoders, rows, runs, folds, not dev, steps, tuple(settings), paths, dry_run)
    requests = _share_rows(request, list(dict.fromkeys(tables)))
    if dry_run:
        _list(requests, out)
        return
    made = make_tables(
        requests,
        out,
        device=device or "auto",
        jobs=read_jobs(jobs),
        command=lambda one: _command(one, data or [], lists or [], jobs, device),
        as_is=as_is,
        say=say,
        monitor=RunsScreen(),
    )
    _show([one.record for one in made], format)
    for one in made:
        say(f"wrote {one.path}, and the same as .md and .csv")
    if made[0].stopped:
        say("stopped; the states of all runs are saved. To go on, give the same command again")
        raise typer.Exit(130)
    _exit_if_failed([one.record for one in made], out)


def _share_rows(request: Request, tables: Sequence[int]) -> list[Request]:
    """Return the request for each table that has a row of it, and name the tables that have none."""
    from relatum.cli.console import say
    from relatum.lab.tables.selection import share_rows

    requests = share_rows([replace(request, table=number) for number in tables])
    for number in tables:
        if not any(one.table == number for one in requests):
            say(f"Table {number} has no such row, and is left out")
    return list(requests)


def _exit_if_failed(records: Sequence[TableRecord], out: Path) -> None:
    """Name the rows that failed, each once even if several tables have it, and end the command with status 1."""
    from relatum.cli.console import printable, say

    rows = [row for record in records for row in record.rows if row.status == "failed"]
    failed = {(row.key, row.message): out / "runs" / row.folder for row in rows}
    for (key, message), logs in failed.items():
        say(printable(f"{key} failed: {message}\nall that its runs said: {logs}/*/output.txt"))
    if failed:
        say("when the cause is mended, give the same command again: what is complete is not made twice")
        raise typer.Exit(1)


def _list(requests: Sequence[Request], out: Path) -> None:
    """Print the runs that would be made, and the commands that make them without this command."""
    from relatum.cli.console import printable
    from relatum.lab.tables.making import plan_tables
    from relatum.lab.tables.selection import find_missing_words, find_table

    plans = plan_tables(requests, out)
    for request, rows in zip(requests, plans, strict=True):
        if len(requests) > 1:
            print(printable(f"Table {request.table}. {find_table(request.table).title}"))
        for selected, planned in rows:
            if selected.row.configs is None:
                continue
            title = f"{selected.row.section}, {selected.row.label}" if selected.row.section else selected.row.label
            print(printable(f"{selected.row.key}: {title}"))
            if planned is None:
                print(printable(f"  needs {selected.needs}"))
            else:
                n, wanted = len(planned.complete), len(planned.wanted)
                print(printable(f"  {n} of {wanted} runs are complete\n  {planned.command()}"))
    if len(requests) > 1:
        every = [row for rows in plans for _, row in rows if row is not None]
        distinct = {row.folder.path: row for row in every}.values()
        n, wanted = sum(len(row.complete) for row in distinct), sum(len(row.wanted) for row in distinct)
        print(f"In all {len(every)} rows, {len(distinct)} of them distinct: {n} of {wanted} runs are complete")
    missing = find_missing_words(requests[0])
    if missing is not None and any(selected.row.configs is not None for rows in plans for selected, _ in rows):
        print(printable(f"The commands need word vectors: {missing}"))
    if not requests[0].with_test:
        print("The commands score test as well; with --dev, relatum reproduce does not read it.")


def _show(records: Sequence[TableRecord], format: Form) -> None:
    """Print tables one after the other; in JSON, a single table is a record, and several are a list of records."""
    from relatum.cli.console import printable, results, show_json
    from relatum.lab.tables import rendering

    if format == "json":
        values = [record.to_dict() for record in records]
        show_json(values[0] if len(values) == 1 else values)
    elif format == "csv":
        print(rendering.to_csv(*records), end="")
    elif format == "markdown":
        print("\n".join(map(rendering.to_markdown, records)), end="")
    else:
        for number, record in enumerate(records):
            if number:
                print()
            results().print(make_table(record))
            for line in (rendering.caption(record), *rendering.remarks(record)):
                print(printable(line))


def make_table(record: TableRecord) -> RichTable:
    """Make the table for a terminal, without caption and remarks."""
    from rich import box
    from rich.table import Table

    from relatum.cli.console import printable
    from relatum.lab.tables.rendering import lay_out

    layout = lay_out(record)
    title = printable(f"Table {record.table}. {record.title}")
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for number, name in enumerate(layout.head):
        task, _, whose = name.rpartition(" ")
        table.add_column(
            f"{task}\n{whose}" if number >= layout.n_text and task else name,
            justify="left" if number < layout.n_text else "right",
            overflow="fold",
        )
    for number, (name, rows) in enumerate(layout.sections):
        if number:
            table.add_section()
        if name:
            table.add_row(printable(name), style="bold")
        for row in rows:
            table.add_row(*map(printable, row))
    return table


def _fill(page: Path) -> None:
    """Make the tables of a page anew; file names on the page are relative to the current folder."""
    from relatum.cli.console import say
    from relatum.data.atomic import replacing_file
    from relatum.errors import RelatumError
    from relatum.lab.tables.blocks import files_of, fill
    from relatum.lab.tables.record import TableRecord
    from relatum.lab.tables.rendering import to_markdown

    text = page.read_text(encoding="utf-8")
    try:
        filled = fill(text, lambda file: to_markdown(TableRecord.read(Path(file))))
    except RelatumError as error:
        raise RelatumError(f"{page}: {error}") from error
    with replacing_file(page) as draft:
        draft.write_text(filled, encoding="utf-8")
    say(f"{len(files_of(filled))} tables in {page} are made anew")


def _command(request: Request, data: list[str], listed: list[str], jobs: str | None, device: str | None) -> str:
    """Return the command, to be kept with its results; without --out, which whoever repeats it chooses."""
    import shlex

    lists = {
        "--corpus": request.corpora,
        "--encoder": request.encoders,
        "--row": request.rows,
        "--data": data,
        "--lists": listed,
        "--set": request.overrides,
    }
    single = {
        "--runs": request.n_runs,
        "--folds": request.n_folds,
        "--steps": request.steps,
        "--jobs": jobs,
        "--device": device,
    }
    words = ["relatum", "reproduce", str(request.table)]
    words += [word for option, values in lists.items() for value in values for word in (option, value)]
    words += [word for option, value in single.items() if value is not None for word in (option, str(value))]
    return shlex.join(words + ([] if request.with_test else ["--dev"]))
