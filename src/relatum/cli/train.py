"""`relatum train`: a model from annotated data, or several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from relatum.cli.config import ConfigFile, Override
from relatum.cli.options import DataFormat, Seed, read_splitting

if TYPE_CHECKING:
    from relatum.config import Config
    from relatum.training.corpus import TrainingData
    from relatum.training.folder import RunRecord
    from relatum.training.run import Run

Device = Annotated[
    Literal["auto", "cpu", "cuda"] | None,
    typer.Option(help="Where to compute; auto, the default, takes a GPU where there is one."),
]

_RESUMED = (
    "a run goes on as it was started: --resume RUN takes nothing but --device, --jobs, and --set text.words and "
    "text.sentences beside it, to name again the functions of your own that the run was started with"
)


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of `relatum train` for a new run, or for several."""

    data: Path
    out: Path
    config: Path | None
    overrides: list[str]
    format: str | None
    device: str
    fold: str | None
    with_test: bool = True

    def arguments(self) -> list[str]:
        """Return the options that follow `relatum train DATA --out RUN`, except the fold."""
        given = {"--config": self.config, "--from": self.format}
        words = [word for option, value in given.items() if value is not None for word in (option, str(value))]
        words += [word for override in self.overrides for word in ("--set", override)]
        words += [] if self.with_test else ["--no-test"]
        return words + ([] if self.device == "auto" else ["--device", self.device])

    def command(self, *more: str) -> str:
        """Return the whole command, to be kept with its results."""
        import shlex

        fold = [] if self.fold is None else ["--fold", self.fold]
        return shlex.join(["relatum", "train", str(self.data), "--out", str(self.out), *fold, *more, *self.arguments()])


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
        Literal["fail", "drop", "keep-longest"] | None,
        typer.Option(
            help="Nested, overlapping, discontinuous entities, which no model can learn; fail if not given. Those left "
            "out of dev and test count as missed."
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
    from relatum.cli.console import say
    from relatum.cli.runs import complete_several, read_jobs, start_several
    from relatum.training.loop import TrainingStopped
    from relatum.training.processes import is_main_process, is_one_of_several

    functions: dict[str, str] = {}
    if resume is not None:
        given = (data, out, config, from_, seed, fold, runs, folds, no_test or None, overlaps, crossing)
        if any(value is not None for value in given):
            raise typer.BadParameter(_RESUMED)
        functions = read_splitting(override, _RESUMED)
    elif data is None:
        raise typer.BadParameter("give DATA, or --resume RUN")
    elif out is None and is_one_of_several():
        raise typer.BadParameter("several processes must know the folder of their run; give --out RUN")
    if fold is not None and folds is not None:
        raise typer.BadParameter("--fold takes one fold and --folds all of them; give one of the two")
    several = (resume / "runs.json").is_file() if resume is not None else runs is not None or folds is not None
    if jobs is not None and not several:
        raise typer.BadParameter("--jobs says how many runs go on at once, and here is one; give --runs or --folds")
    if several and is_one_of_several():
        raise typer.BadParameter(
            "a launcher started several processes for one run, and --runs and --folds make several runs; start them "
            "without it"
        )
    n_jobs = read_jobs(jobs)
    try:
        if resume is not None:
            if several:
                complete_several(resume, device, n_jobs, functions)
            else:
                _show(_resume(resume, device, functions))
            return
        assert data is not None
        is_named, out = out is not None, out or _free_folder(data)
        named = {"training.seed": seed, "data.overlaps": overlaps, "data.crossing": crossing}
        options = [f"{key}={value}" for key, value in named.items() if value is not None]
        overrides = [*(override or []), *options]
        call = Call(data, out, config, overrides, from_, device or "auto", fold, with_test=not no_test)
        if several:
            settled = start_several(call, runs, folds, n_jobs)
            if not is_named:
                say(_whereabouts(out))
            complete_several(out, functions=settled.text.functions())
        else:
            _show(_start(call, on_made=lambda: None if is_named else say(_whereabouts(out))))
    except TrainingStopped as stopped:
        if is_main_process():
            say(str(stopped))
        raise typer.Exit(130) from None


def _start(call: Call, on_made: Callable[[], None]) -> Run:
    from relatum.config import load_config
    from relatum.training.corpus import FoldChoice, load_training_data
    from relatum.training.folder import RunFolder, RunRecord

    settings = load_config(call.config, call.overrides)
    choice = None if call.fold is None else FoldChoice.parse(call.fold)
    RunFolder(call.out).check_new()
    loaded = load_training_data(call.data, settings, call.format, choice, with_test=call.with_test)
    settings = settle(call, loaded)
    record = RunRecord(
        config=settings,
        data=str(call.data.absolute()),
        format=call.format,
        fold=None if choice is None else f"{choice.path.absolute()}:{choice.number}",
        device=call.device,
        command=call.command(),
        fingerprint=loaded.fingerprint(),
        with_test=call.with_test,
    )
    return _run(loaded, record, call.out, call.device, resume=False, on_made=on_made)


def settle(call: Call, data: TrainingData) -> Config:
    """Return the settings of a call; settings that it leaves open are chosen for the data and machine, and printed."""
    from relatum.cli.console import say
    from relatum.extractor.device import choose_device
    from relatum.training import defaults
    from relatum.training.processes import is_main_process

    lengths = [len(example.sentence) for example in data.train]
    machine = defaults.find_machine(choose_device(call.device))
    config, choices = defaults.fill_defaults(call.config, call.overrides, lengths, machine)
    if choices and is_main_process():
        lines = "".join(f"\n  {choice}" for choice in choices)
        say(f"chosen for this data and machine (--set KEY=VALUE or --config FILE has other values):{lines}")
    return config


def _free_folder(data: Path) -> Path:
    """Return the first folder in runs/ that is named after the data and does not exist yet."""
    from itertools import count

    name = data.absolute().name.partition(".")[0] or "run"
    return next(path for number in count(1) if not (path := Path("runs") / f"{name}-{number}").exists())


def _whereabouts(run: Path) -> str:
    """Return the message about the folder of a run that the user did not name.

    It is shown once the folder is there: a run that is refused has none.
    """
    return f"the folder of the run is {run}"


def _resume(run: Path, device: str | None, functions: Mapping[str, str]) -> Run:
    from relatum.training.corpus import FoldChoice, load_training_data
    from relatum.training.folder import RunFolder

    record = RunFolder(run).read(functions.values())
    check_functions(record.config, functions)
    fold = None if record.fold is None else FoldChoice.parse(record.fold)
    loaded = load_training_data(Path(record.data), record.config, record.format, fold, with_test=record.with_test)
    return _run(loaded, record, run, device or record.device, resume=True)


def check_functions(config: Config, given: Mapping[str, str]) -> None:
    """Refuse rules for splitting text other than the rules that a run was started with."""
    for key, name in given.items():
        if config.text.to_dict()[key] != name:
            raise typer.BadParameter(
                f"--set text.{key}={name}: the run was started with {config.text.to_dict()[key]}; {_RESUMED}"
            )


def _run(
    data: TrainingData,
    record: RunRecord,
    run: Path,
    device: str,
    resume: bool,
    on_made: Callable[[], None] = lambda: None,
) -> Run:
    from relatum.cli.monitor import TerminalMonitor
    from relatum.extractor.device import choose_device
    from relatum.training.loop import train as start

    chosen = choose_device(device)
    return start(data, record, run, device=chosen, monitor=TerminalMonitor(), resume=resume, on_made=on_made)


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
