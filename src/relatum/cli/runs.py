"""The options and answers of `relatum train` with several runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from relatum.training.runs.summary import Key, Runs, Spread

_TITLES = {"entities": "NER", "relations": "RE", "relations_strict": "RE+"}


def read_jobs(text: str | None) -> int | Literal["auto"] | None:
    """Parse the value of --jobs."""
    if text is None or text == "auto":
        return text  # type: ignore[return-value]
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"--jobs {text}: expected a number from 1, or auto")
    return int(text)


def read_folds(text: str | None) -> int | str | None:
    """Parse the value of --folds."""
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    if not Path(text).is_file():
        raise typer.BadParameter(f"--folds {text}: expected a number from 2, or a JSON file of lists")
    return text


def show_runs(runs: Runs) -> None:
    """Print the scores of all runs, and name those that failed; the exit status is 1 if there are any."""
    from relatum.cli.console import printable, results, say
    from relatum.training.folder import resume_command

    if runs.results:
        show_results(results(), runs)
    print(printable(f"scores, mean and standard deviation: {runs.folder / 'results.json'}"))
    for failure in runs.failures:
        log = runs.folder / failure.log.relative_to(runs.folder.absolute())
        say(f"{failure.run.name} failed: {failure.message}\nall that it said: {log}")
    if runs.missing:
        say(f"when the cause is mended: {resume_command(runs.folder, runs.plan.config)}")
        raise typer.Exit(1)


def show_results(console: Console, runs: Runs) -> None:
    """Print a row for each run, then mean and standard deviation, in per cent."""
    from rich import box
    from rich.table import Table

    from relatum.cli.console import printable
    from relatum.evaluation.metrics import per_cent
    from relatum.training.runs.summary import list_scores, summarise

    average = runs.plan.config.training.selection
    summary, seed_means = runs.summary(), [*runs.seed_means().values()]
    columns = [key for key in summary if key[2:] == (average, "f1")]
    table = Table(title=f"F1 ({average}) of {len(runs.results)} runs", box=box.SIMPLE_HEAD)
    table.title_justify, table.title_style = "left", "bold"
    table.add_column("run")
    table.add_column("best step" if any(part == "dev" for part, *_ in columns) else "last step", justify="right")
    for part, task, *_ in columns:
        table.add_column(f"{part} {_TITLES[task]}", justify="right")
    for run, result in runs.results.items():
        scores = list_scores(result.scored)
        table.add_row(printable(run.name), f"{result.best.step:,}", *(per_cent(scores[key]) for key in columns))
    table.add_section()
    table.add_row("mean ± std", "", *(_spread_cell(summary[key]) for key in columns))
    if len(seed_means) > 1:
        by_seed = summarise(seed_means)
        table.add_row("seeds' means ± std", "", *(_spread_cell(by_seed[key]) for key in columns))
    if best := _mean_ceilings(runs, columns):
        table.add_row("ceiling", "", *map(per_cent, best))
    console.print(table)
    for run in runs.missing:
        status = "not complete" if runs.failure(run) is None else "failed"
        console.print(f"{printable(run.name)}: {status}, without scores", soft_wrap=True)


def _spread_cell(spread: Spread) -> str:
    from relatum.evaluation.metrics import per_cent

    return per_cent(spread.mean) + ("" if spread.std is None else f" ± {per_cent(spread.std)}")


def _mean_ceilings(runs: Runs, columns: Sequence[Key]) -> list[float]:
    """Return the mean ceiling of each column; empty if no ceiling limits a run, or an older run does not say."""
    from relatum.evaluation.ceiling import is_limited
    from relatum.training.runs.summary import Spread, list_scores

    ceilings = [result.ceilings or {} for result in runs.results.values()]
    if not all(ceilings) or not any(is_limited(part) for one in ceilings for part in one.values()):
        return []
    best = [list_scores(one) for one in ceilings]
    return [Spread.of([one[key] for one in best]).mean for key in columns]
