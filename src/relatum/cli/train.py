"""`relatum train`: a model from annotated data, or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

import typer

from relatum.cli.config import ConfigFile, Override
from relatum.cli.options import DataFormat, Seed, read_splitting

if TYPE_CHECKING:
    from relatum.training.run import Run

Device = Annotated[
    Literal["auto", "cpu", "cuda"] | None,
    typer.Option(help="Where to compute; auto, the default, takes a GPU where there is one."),
]

_RESUMED = (
    "a run goes on as it was started: --resume RUN takes nothing but --device, --jobs, and --set text.words and "
    "text.sentences beside it, to name again the functions of your own that the run was started with"
)


class _Options(TypedDict):
    """The options that one run and several have in common."""

    overrides: list[str]
    format: str | None
    device: str
    fold: str | None
    with_test: bool


def train(
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA", help="A folder with train, dev (or valid) and test, or a file, of which some is held out."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="The folder of the run; new or empty. If not given, a new one in runs/."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Go on with what was stopped; takes --device, --jobs, and --set to name your own functions again.",
        ),
    ] = None,
    config: ConfigFile = None,
    override: Override = None,
    from_: DataFormat = None,
    seed: Seed = None,
    device: Device = None,
    fold: Annotated[
        str | None,
        typer.Option(metavar="FILE:K", help="Take the parts from the K-th fold of a file or folder of lists, from 1."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Start from a trained model, by name or folder: its encoder, its sizes, and every weight that fits. "
            "Helps most with few sentences.",
        ),
    ] = None,
    teacher: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL",
            help="Learn from a trained, larger model, too, by name or folder; may be given several times.",
        ),
    ] = None,
    unlabelled: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Plain text, a document a line, on which the teachers teach, too: a file or a folder of .txt files.",
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Make N runs, with the seed and those after it."),
    ] = None,
    folds: Annotated[
        str | None,
        typer.Option(
            metavar="K|FILE",
            help="Make runs on each of K folds of all documents, or on those of a file or folder of lists.",
        ),
    ] = None,
    jobs: Annotated[
        str | None,
        typer.Option(metavar="N|auto", help="Runs at once; auto, the default, takes as many as fit."),
    ] = None,
    no_test: Annotated[
        bool,
        typer.Option(
            "--no-test", help="Leave test alone: for choosing settings. Folds are of the rest, each dev once."
        ),
    ] = False,
    overlaps: Annotated[
        Literal["fail", "drop", "keep-longest", "keep"] | None,
        typer.Option(
            help="Entities that share words, and discontinuous ones. If not given, the former are learned by span "
            "tagging and else an error, and the latter are an error. Those left out of dev and test count as missed."
        ),
    ] = None,
    crossing: Annotated[
        Literal["fail", "drop", "join"] | None,
        typer.Option(
            help="Relations between sentences: an error, left out (in dev and test they count as missed), or the "
            "sentences are joined; fail if not given."
        ),
    ] = None,
) -> None:
    """Train a model, choose the best by its dev scores, and score it on test.

    RUN gets the model in RUN/model, the scores, the settings and the learning curve in RUN/result.json, and a line for
    every evaluation in RUN/log.jsonl. Ctrl-C stops after the update that is under way and saves the state, and so does
    SIGTERM; a run that was killed goes on from its last evaluation. The exit status is 130 for a run that was stopped.

    With --runs or --folds there are several runs, each of which learns as it would by itself: N seeds, beginning with
    training.seed, on every fold. RUN gets a folder for each of them (seed-0, or fold-1/seed-0), and RUN/results.json
    all scores with mean and standard deviation. Where one fails the others go on, and the exit status is 1.
    """
    from relatum.cli.monitor import TerminalMonitor
    from relatum.cli.runs import read_folds, read_jobs, show_runs
    from relatum.cli.runs_screen import RunsScreen
    from relatum.config.toml import to_toml
    from relatum.training import train as training

    if resume is not None:
        given = (data, out, config, from_, seed, fold, start, teacher, unlabelled, runs, folds, no_test or None)
        rules = (overlaps, crossing)
        if any(value is not None for value in (*given, *rules)):
            raise typer.BadParameter(_RESUMED)
        _resume(resume, device, jobs, read_splitting(override, _RESUMED))
        return
    if data is None:
        raise typer.BadParameter("give DATA, or --resume RUN")
    if fold is not None and folds is not None:
        raise typer.BadParameter("--fold takes one fold and --folds all of them; give one of the two")
    named = {
        "training.seed": seed,
        "training.start": start,
        "training.teachers": None if teacher is None else to_toml(teacher),
        "training.unlabelled": unlabelled,
        "data.overlaps": overlaps,
        "data.crossing": crossing,
    }
    options: _Options = {
        "overrides": [*(override or []), *(f"{key}={value}" for key, value in named.items() if value is not None)],
        "format": from_,
        "device": device or "auto",
        "fold": fold,
        "with_test": not no_test,
    }
    if runs is None and folds is None:
        _refuse_jobs(jobs)
        with _exit_status():
            _show(training.train(data, config, out, **options, monitor=TerminalMonitor()))
        return
    lists, n_jobs = read_folds(folds), read_jobs(jobs)
    with _exit_status():
        show_runs(
            training.train_runs(
                data, config, out, n_runs=runs, folds=lists, jobs=n_jobs, **options, monitor=RunsScreen()
            )
        )


def _resume(run: Path, device: str | None, jobs: str | None, functions: Mapping[str, str]) -> None:
    """Go on with one run or several, and print the scores."""
    from relatum.cli.monitor import TerminalMonitor
    from relatum.cli.runs import read_jobs, show_runs
    from relatum.cli.runs_screen import RunsScreen
    from relatum.training import train as training
    from relatum.training.runs.plan import is_runs_folder

    if is_runs_folder(run):
        n_jobs = read_jobs(jobs)
        with _exit_status():
            show_runs(training.resume_runs(run, device=device, jobs=n_jobs, **functions, monitor=RunsScreen()))
        return
    _refuse_jobs(jobs)
    with _exit_status():
        _show(training.resume(run, device=device, **functions, monitor=TerminalMonitor()))


def _refuse_jobs(jobs: str | None) -> None:
    if jobs is not None:
        raise typer.BadParameter("--jobs says how many runs go on at once, and here is one; give --runs or --folds")


@contextmanager
def _exit_status() -> Iterator[None]:
    """Turn arguments that do not go together into the exit status 2, and a run that was stopped into 130."""
    from relatum.cli.console import say
    from relatum.training.arguments import ArgumentError, OtherFunctionError
    from relatum.training.loop import TrainingStopped
    from relatum.training.processes import is_main_process

    try:
        yield
    except OtherFunctionError as error:
        raise typer.BadParameter(f"{error}; {_RESUMED}") from None
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from None
    except TrainingStopped as stopped:
        if is_main_process():
            say(str(stopped))
        raise typer.Exit(130) from None


def _show(run: Run) -> None:
    import shlex

    from relatum.cli.console import printable, results
    from relatum.cli.score_tables import show_scores
    from relatum.training.folder import function_options
    from relatum.training.processes import is_main_process

    if not is_main_process():
        return
    result = run.result
    given_spans = result.config.evaluation.entities == "gold"
    console = results()
    for part, scores in (("dev", run.dev), ("test", run.test)):
        if scores is not None:
            print(f"{part}, {result.data.parts[part].sentences:,} sentences")
            show_scores(console, scores, None, given_spans, run.ceilings[part])
    kept = "the weights" if run.dev is None else "best"
    print(printable(f"{kept} after step {result.best.step:,} of {result.steps:,}"))
    print(printable(f"model: {run.model}\nscores, settings and learning curve: {run.folder / 'result.json'}"))
    use = shlex.join(["relatum", "extract", "--model", str(run.model), *function_options(result.config.text)])
    print(printable(f'use it: {use} "…"'))
