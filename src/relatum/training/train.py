"""Training from Python: one model or several, new or resumed. `relatum train` calls these functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Literal

from relatum.config import Config, list_keys
from relatum.extractor.device import choose_device
from relatum.monitor import Monitor, as_monitor
from relatum.training import loop
from relatum.training.arguments import (
    ArgumentError,
    OtherFunctionError,
    Overrides,
    TrainArguments,
    config_overrides,
    list_overrides,
)
from relatum.training.corpus import FoldChoice, load_training_data, make_fold_lists
from relatum.training.folder import RunFolder
from relatum.training.processes import is_one_of_several
from relatum.training.run import Run
from relatum.training.runs import parallel
from relatum.training.runs.plan import RunsFolder, RunsRequest, is_runs_folder, start_runs
from relatum.training.runs.summary import Runs

Jobs = int | Literal["auto"] | None
Listener = Monitor | Callable[[str], object] | None


def train(
    data: str | Path,
    config: str | Path | Config | None = None,
    out: str | Path | None = None,
    *,
    overrides: Overrides = (),
    format: str | None = None,
    seed: int | None = None,
    device: str = "auto",
    fold: str | None = None,
    with_test: bool = True,
    monitor: Listener = None,
) -> Run:
    """Train a model, choose the best by its dev scores, and score it on test.

    - `data`: a folder with the parts train, dev (or valid) and test, or a single file. Without a dev part, some of
      train is held out for it.
    - `config`: a TOML file of settings or a `Config`. Without one, model and training sizes are chosen for the data and
      the machine.
    - `out`: the folder of the run, new or empty. If not given, a new folder in `runs/` is made.
    - `overrides`: single settings that come before those of `config`: `{"training.steps": 200}`, or
      `["training.steps=200"]` as `--set` takes them.
    - `format`: the format of the data; guessed if not given.
    - `seed`: the setting `training.seed`. The same seed gives the same model on a CPU.
    - `device`: "cpu", "cuda", or "auto", which is a GPU if there is one.
    - `fold`: take the parts from one fold of a file of lists: "FILE:K", with K from 1.
    - `with_test`: False to leave test alone, while you still choose settings.
    - `monitor`: hears messages, updates and scores: a function such as `print`, which gets lines, or a
      `relatum.monitor.Monitor`. Nothing is printed without one.

    The folder gets the model, its predictions, a report and `result.json`. `TrainingStopped`, after Ctrl-C, says that
    the run was stopped and its state saved: `resume` goes on with it. Nothing is left behind if data or settings are
    wrong.
    """
    if out is None and is_one_of_several():
        raise ArgumentError("several processes must know the folder of their run; give --out RUN")
    hears = as_monitor(monitor)
    arguments = _make_arguments(data, config, out, overrides, seed)
    arguments = replace(arguments, format=format, device=device, fold=fold, with_test=with_test)
    arguments.load_config()  # before anything else: mistakes in settings are found at once
    choice = arguments.fold_choice()
    RunFolder(arguments.out).check_new()
    loaded, settings = arguments.prepare(choice, hears.say)
    record = arguments.make_record(settings, loaded, choice)

    def say_folder() -> None:
        if out is None:
            hears.say(_run_folder_message(arguments.out))

    place = choose_device(device)
    return loop.train(loaded, record, arguments.out, device=place, monitor=hears, on_made=say_folder)


def resume(
    run: str | Path,
    *,
    device: str | None = None,
    words: str | None = None,
    sentences: str | None = None,
    monitor: Listener = None,
) -> Run:
    """Go on with a run that was stopped, as it was started, and return it when it is complete.

    - `run`: the folder of the run.
    - `device`: another device than the run was started with.
    - `words`, `sentences`: the functions of your own that split texts, if the run was started with some. They must be
      named again: a function is never imported because a file names it.
    - `monitor`: hears messages, updates and scores, as for `train`.
    """
    path = Path(run)
    if is_runs_folder(path):
        raise ArgumentError(f"{path}: several runs were started here; go on with them by resume_runs")
    functions = _named_functions(words, sentences)
    record = RunFolder(path).read(functions.values())
    _check_functions(record.config, functions)
    fold = None if record.fold is None else FoldChoice.parse(record.fold)
    data = load_training_data(Path(record.data), record.config, record.format, fold, with_test=record.with_test)
    place = choose_device(device or record.device)
    return loop.train(data, record, path, device=place, monitor=as_monitor(monitor), resume=True)


def train_runs(
    data: str | Path,
    config: str | Path | Config | None = None,
    out: str | Path | None = None,
    *,
    n_runs: int | None = None,
    folds: int | str | Path | None = None,
    jobs: Jobs = None,
    overrides: Overrides = (),
    format: str | None = None,
    seed: int | None = None,
    device: str = "auto",
    fold: str | None = None,
    with_test: bool = True,
    monitor: Listener = None,
) -> Runs:
    """Train several models with the same settings: several seeds, on several folds, side by side.

    - `n_runs`: the number of seeds, beginning with `training.seed`; 1 if not given.
    - `folds`: a number of folds to make of all documents, or a file of lists; every seed has a run on every fold.
    - `jobs`: the most runs at once; "auto", the default, takes as many as fit.

    The other arguments are those of `train`. The folder gets a folder for each run, `seed-0` or `fold-1/seed-0`, and
    `results.json`. A run that fails does not keep the others from going on: it is among the `failures` of the answer,
    and `resume_runs` tries it again.
    """
    _check_no_launcher()
    if n_runs is not None and n_runs < 1:
        raise ArgumentError(f"n_runs is {n_runs}; expected 1 or more")
    if fold is not None and folds is not None:
        raise ArgumentError("fold takes one fold and folds all of them; give one of the two")
    hears = as_monitor(monitor)
    arguments = _make_arguments(data, config, out, overrides, seed)
    arguments = replace(arguments, format=format, device=device, fold=fold, with_test=with_test)
    chosen = arguments.fold_choice() or (Path(folds) if isinstance(folds, str) else folds)
    RunFolder(arguments.out).check_new()
    given = arguments.load_config()
    _, filled = arguments.prepare(_first_fold(arguments, chosen, given.training.seed), hears.say)
    options = {"--runs": n_runs, "--folds": folds, "--jobs": jobs}
    words = [str(word) for name, value in options.items() if value is not None for word in (name, value)]
    request = RunsRequest(
        n_runs=n_runs or 1,
        folds=chosen,
        format=format,
        device=device,
        jobs=jobs if isinstance(jobs, int) else None,
        with_test=with_test,
        command=arguments.command(*words),
        arguments=(*arguments.options(), *_filled_options(given, filled)),
    )
    start_runs(arguments.out, arguments.data, filled, request, hears.say)
    if out is None:
        hears.say(_run_folder_message(arguments.out))
    return parallel.complete_runs(arguments.out, functions=filled.text.functions().values(), monitor=hears)


def resume_runs(
    folder: str | Path,
    *,
    device: str | None = None,
    jobs: Jobs = None,
    words: str | None = None,
    sentences: str | None = None,
    monitor: Listener = None,
) -> Runs:
    """Go on with several runs that were stopped or failed, and return all runs of the folder.

    The arguments are those of `resume`; `jobs` is the most runs at once, as it was started with if not given.
    """
    _check_no_launcher()
    path, functions = Path(folder), _named_functions(words, sentences)
    _check_functions(RunsFolder(path).read(functions.values()).config, functions)
    return parallel.complete_runs(
        path, device=device, jobs=jobs, functions=functions.values(), monitor=as_monitor(monitor)
    )


def _make_arguments(
    data: str | Path, config: str | Path | Config | None, out: str | Path | None, overrides: Overrides, seed: int | None
) -> TrainArguments:
    words = [] if not isinstance(config, Config) else config_overrides(config)
    words += list_overrides(overrides)
    words += [] if seed is None else [f"training.seed={seed}"]
    file = None if config is None or isinstance(config, Config) else Path(config)
    return TrainArguments(Path(data), _free_folder(Path(data)) if out is None else Path(out), file, tuple(words))


def _free_folder(data: Path) -> Path:
    """Return the first folder in runs/ that is named after the data and does not exist yet."""
    name = data.absolute().name.partition(".")[0] or "run"
    return next(path for number in count(1) if not (path := Path("runs") / f"{name}-{number}").exists())


def _run_folder_message(run: Path) -> str:
    """Return the message about the folder of a run that the user did not name.

    It is said once the folder is there: a run that is refused has none.
    """
    return f"the folder of the run is {run}"


def _first_fold(arguments: TrainArguments, folds: int | Path | FoldChoice | None, seed: int) -> FoldChoice | None:
    """Return the fold whose sentences the settings of all runs are chosen for."""
    if isinstance(folds, int):
        lists = make_fold_lists(arguments.data, folds, seed, arguments.format, with_test=arguments.with_test)
        return FoldChoice(Path("folds.json"), 1, lists)
    return FoldChoice(folds, 1) if isinstance(folds, Path) else folds


def _filled_options(given: Config, filled: Config) -> list[str]:
    """Return the settings that were filled in for all runs as `--set` options.

    A single run needs them, since it would else be given settings for its own data.
    """
    pairs = zip(list_keys(given), list_keys(filled), strict=True)
    changed = [f"{new.name}={new.value}" for old, new in pairs if old.value != new.value]
    if changed and filled.training.start is not None:
        changed.append(f"encoder.tuning={filled.encoder.tuning}")  # with sizes given, it would be the model's
    return [word for setting in ("training.sizes=given", *changed) for word in ("--set", setting)] if changed else []


def _check_no_launcher() -> None:
    if is_one_of_several():
        raise ArgumentError(
            "a launcher started several processes for one run, and --runs and --folds make several runs; start them "
            "without it"
        )


def _named_functions(words: str | None, sentences: str | None) -> dict[str, str]:
    return {key: name for key, name in (("words", words), ("sentences", sentences)) if name is not None}


def _check_functions(config: Config, given: Mapping[str, str]) -> None:
    """Refuse rules for splitting text other than the rules that a run was started with."""
    started = config.text.to_dict()
    for key, name in given.items():
        if started[key] != name:
            raise OtherFunctionError(f"--set text.{key}={name}: the run was started with {started[key]}")
