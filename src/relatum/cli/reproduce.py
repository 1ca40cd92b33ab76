"""`relatum reproduce`: a table of the paper, with our numbers beside the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from relatum.cli.config import Override
from relatum.cli.options import Seed
from relatum.cli.train import Device

if TYPE_CHECKING:
    from relatum.experiments.selection import Request

Form = Literal["table", "markdown", "csv", "json"]


def reproduce(
    table: Annotated[
        int | None, typer.Argument(metavar="TABLE", help="The number of a table: 1, 2, 3, 4, 5, 8 or 9.")
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|PATH",
            help="ace04, ace05, conll04, ade, scierc, or annotated data; conll04 if not given, in Table 1 all it has.",
        ),
    ] = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="The encoder; the one that comes along if not given. In Table 2, its rows."),
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Only this row, by the key that --dry-run shows; may be repeated."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each row, with the seed and those after.")] = 5,
    folds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the first N folds of corpora that have folds.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR|NAME=PATH",
            help="A folder with corpora by name ($RELATUM_DATA if not given), or where one corpus is; may be repeated.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of tables and runs; the same one goes on.")] = (
        Path("reproduction")
    ),
    dev: Annotated[bool, typer.Option("--dev", help="Score on dev alone; test is not read.")] = False,
    steps: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Updates, with warm-up and evaluations in proportion; 20,000 otherwise."),
    ] = None,
    override: Override = None,
    seed: Seed = None,
    jobs: Annotated[
        str | None,
        typer.Option(metavar="N|auto", help="Runs at once, of all rows; auto, the default, takes as many as fit."),
    ] = None,
    device: Device = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List rows, runs and commands, and run nothing.")] = False,
    format: Annotated[Form, typer.Option(help="How the table is printed.")] = "table",
    render: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Print the table of a JSON file made before, and run nothing."),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(metavar="PAGE", help="Make every table anew between the marks of a page of Markdown."),
    ] = None,
) -> None:
    """Make a table of the paper again: each row is trained by its file of settings and stands beside what is published.

    DIR gets the table as JSON, Markdown and CSV, and the runs of each row in DIR/runs. Runs are known by a hash of
    their settings and data: what is there is never made twice, whichever table it was made for, and the same command
    goes on after Ctrl-C or a crash. Where a row fails the others go on, and the exit status is 1. ACE04 and ACE05 are
    licensed: their rows are run when --data says where they are.
    """
    from relatum.cli.console import printable, say

    if into is not None:
        _fill(into)
        return
    if render:
        for path in render:
            _show_file(path, format)
        return
    if table is None:
        raise typer.BadParameter("give the number of a TABLE (1, 2, 3, 4, 5, 8, 9), or --render FILE")

    from relatum.cli.runs import read_jobs
    from relatum.experiments.corpora import Places
    from relatum.experiments.making import make_table
    from relatum.experiments.selection import Request

    settings = [*(override or []), *([] if seed is None else [f"training.seed={seed}"])]
    request = Request(
        table,
        tuple(corpus or ()),
        tuple(encoder or ()),
        tuple(row or ()),
        runs,
        folds,
        not dev,
        steps,
        tuple(settings),
        Places.parse(data or ()),
    )
    if dry_run:
        _list(request, out)
        return
    command = _command(request, data or [], jobs, device)
    made = make_table(request, out, device=device or "auto", jobs=read_jobs(jobs), command=command, say=say)
    _show(made.record, format)
    say(f"wrote {made.path}, and the same as .md and .csv")
    if made.stopped:
        say("stopped; the states of all runs are saved. To go on, give the same command again")
        raise typer.Exit(130)
    failed = [one for one in made.record["rows"] if one["status"] == "failed"]
    for one in failed:
        logs = out / "runs" / one["folder"]
        say(printable(f"{one['key']} failed: {one['message']}\nall that its runs said: {logs}/*/output.txt"))
    if failed:
        say("when the cause is mended, give the same command again: what is complete is not made twice")
        raise typer.Exit(1)


def _list(request: Request, out: Path) -> None:
    """What would be run, and how it would be without this command."""
    from relatum.cli.console import printable
    from relatum.experiments.making import plan_table

    for chosen, planned in plan_table(request, out):
        if chosen.row.configs is None:
            continue
        title = f"{chosen.row.section}, {chosen.row.label}" if chosen.row.section else chosen.row.label
        print(printable(f"{chosen.row.key}: {title}"))
        if planned is None:
            print(printable(f"  needs {chosen.needs}"))
        else:
            n, wanted = len(planned.complete), len(planned.wanted)
            print(printable(f"  {n} of {wanted} runs are complete\n  {planned.command()}"))
    if not request.with_test:
        print("The commands score test as well; with --dev, relatum reproduce does not read it.")


def _show(record: dict[str, Any], format: Form) -> None:
    import json

    from relatum.cli.console import printable, results
    from relatum.experiments import rendering

    if format == "table":
        results().print(rendering.to_rich(record))
        for line in (rendering.caption(record), *rendering.remarks(record)):
            print(printable(line))
    elif format == "json":
        print(json.dumps(record, ensure_ascii=False, indent=2))
    else:
        print((rendering.to_markdown if format == "markdown" else rendering.to_csv)(record), end="")


def _show_file(path: Path, format: Form) -> None:
    from relatum.experiments.record import read_record

    _show(read_record(path), format)


def _fill(page: Path) -> None:
    """Make the tables of a page anew; files are named from the folder that the command is given in."""
    from relatum.cli.console import say
    from relatum.data.atomic import replacing_file
    from relatum.experiments.blocks import files_of, fill
    from relatum.experiments.record import read_record
    from relatum.experiments.rendering import to_markdown

    text = page.read_text(encoding="utf-8")
    filled = fill(text, lambda file: to_markdown(read_record(Path(file))))
    with replacing_file(page) as draft:
        draft.write_text(filled, encoding="utf-8")
    say(f"{len(files_of(filled))} tables in {page} are made anew")


def _command(request: Request, data: list[str], jobs: str | None, device: str | None) -> str:
    """The command, to be kept with its results; the folder of the runs is left to whoever gives it again."""
    import shlex

    lists = {
        "--corpus": request.corpora,
        "--encoder": request.encoders,
        "--row": request.rows,
        "--data": data,
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
