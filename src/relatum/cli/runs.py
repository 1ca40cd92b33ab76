"""Several runs of `relatum train`: started, taken up again, and their scores shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from relatum.cli.train import Call
    from relatum.config import Config
    from relatum.training.corpus import FoldChoice
    from relatum.training.runs.summary import Key, Runs, Spread

Jobs = int | Literal["auto"] | None

_TITLES = {"entities": "NER", "relations": "RE", "relations_strict": "RE+"}


def read_jobs(text: str | None) -> Jobs:
    """Parse the value of --jobs."""
    if text is None or text == "auto":
        return text  # type: ignore[return-value]
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"--jobs {text}: expected a number from 1, or auto")
    return int(text)


def start_several(call: Call, n_runs: int | None, folds: str | None, jobs: Jobs) -> Config:
    """Make the folder of the runs, with nothing trained yet; return the settings that they will be trained with."""
    from relatum.cli.console import say
    from relatum.cli.train import settle
    from relatum.config import load_config
    from relatum.training.corpus import FoldChoice, load_training_data, make_fold_lists
    from relatum.training.folder import RunFolder
    from relatum.training.runs.plan import RunsRequest, start_runs

    options = {"--runs": n_runs, "--folds": folds, "--jobs": jobs}
    chosen: int | Path | FoldChoice | None = None
    if call.fold is not None:
        chosen = FoldChoice.parse(call.fold)
    elif folds is not None:
        chosen = int(folds) if folds.isdecimal() else Path(folds)
        if isinstance(chosen, Path) and not chosen.is_file():
            raise typer.BadParameter(f"--folds {folds}: expected a number from 2, or a JSON file of lists")
    RunFolder(call.out).check_new()
    config = load_config(call.config, call.overrides)
    first = FoldChoice(chosen, 1) if isinstance(chosen, Path) else chosen
    if isinstance(first, int):
        lists = make_fold_lists(call.data, first, config.training.seed, call.format, with_test=call.with_test)
        first = FoldChoice(Path("folds.json"), 1, lists)
    settled = settle(call, load_training_data(call.data, config, call.format, first, with_test=call.with_test))
    start_runs(
        call.out,
        call.data,
        settled,
        RunsRequest(
            n_runs=n_runs or 1,
            folds=chosen,
            format=call.format,
            device=call.device,
            jobs=jobs if isinstance(jobs, int) else None,
            with_test=call.with_test,
            command=call.command(
                *(str(w) for name, value in options.items() if value is not None for w in (name, value))
            ),
            arguments=(*call.arguments(), *_chosen(config, settled)),
        ),
        say,
    )
    return settled


def _chosen(given: Config, settled: Config) -> list[str]:
    """Return the settings that were chosen for all runs as `--set` options.

    A single run needs them, since it would else choose settings for its own data.
    """
    from relatum.config import list_keys

    pairs = zip(list_keys(given), list_keys(settled), strict=True)
    changed = [f"{new.name}={new.value}" for old, new in pairs if old.value != new.value]
    return [word for setting in ("training.sizes=given", *changed) for word in ("--set", setting)] if changed else []


def complete_several(
    path: Path, device: str | None = None, jobs: Jobs = None, functions: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Complete all runs, and print their scores; the exit status is 1 if some failed.

    `functions` are the rules for splitting text that the user named, by the keys of the section text.
    """
    from relatum.cli.console import printable, results, say
    from relatum.cli.runs_screen import RunsScreen
    from relatum.cli.train import check_functions
    from relatum.training.folder import resume_command
    from relatum.training.runs.parallel import complete_runs
    from relatum.training.runs.plan import RunsFolder

    config = RunsFolder(path).read(functions.values()).config
    check_functions(config, functions)
    runs = complete_runs(path, device=device, jobs=jobs, functions=functions.values(), monitor=RunsScreen())
    if runs.results:
        show_results(results(), runs)
    print(printable(f"scores, mean and standard deviation: {path / 'results.json'}"))
    for failure in runs.failures:
        log = path / failure.log.relative_to(runs.folder)
        say(f"{failure.run.name} failed: {failure.message}\nall that it said: {log}")
    if runs.missing:
        say(f"when the cause is mended: {resume_command(path, config)}")
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
