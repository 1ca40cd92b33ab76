"""Several runs of the same settings, with other seeds or on other folds.

    runs.json                 the whole plan, written first
    folds.json                the folds, where they were made here
    seed-0/, fold-1/seed-0/   a folder each run, as `folder` describes it
    results.json              scores of all runs, their mean and standard deviation, at the end

Each run is what `relatum train` makes with its seed and fold; nothing is shared but the data.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from relatum.config import Config, OwnFunctionError, load_record
from relatum.data.atomic import new_folder, replacing_file
from relatum.data.partition import Fold
from relatum.errors import ConfigError, RelatumError
from relatum.files import read_json
from relatum.training.corpus import FoldChoice, load_fold_lists, load_training_data, make_fold_lists
from relatum.training.folder import RunFolder, RunRecord, check_kinds, refuse_special_files

T = TypeVar("T")
LOG = "output.txt"
"""The file in the folder of a run with all that was said by every process that worked on the run."""
_RUN_NAME = re.compile(r"(fold-\d{1,9}/)?seed-\d{1,20}")


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a plan; `fold` counts from 1, None where there are no folds."""

    name: str
    seed: int
    fold: int | None
    fingerprint: str


@dataclass(frozen=True, slots=True)
class RunsPlan:
    """All runs, and what they have in common."""

    config: Config
    """The settings of all runs, with the seed of the first run."""
    data: str
    format: str | None
    folds: str | None
    """The file of lists, if there are folds."""
    one_fold: int | None
    """The number of the fold that all runs have, if they all have the same."""
    device: str
    n_jobs: int
    """The most runs that go on side by side."""
    by_memory: bool
    """True if fewer runs go on side by side when memory is short."""
    threads: int | None
    """The threads of each run on a CPU; None leaves them to torch, as in a run by itself."""
    command: str
    arguments: tuple[str, ...]
    """The arguments that a single run is started with, but for its data, seed, fold and folder."""
    runs: tuple[PlannedRun, ...]
    remarks: tuple[str, ...]
    """The remarks on the data of all runs."""
    with_test: bool = True
    """True if the test part is read and scored."""

    def to_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return values | {"config": self.config.to_dict(), "runs": [asdict(run) for run in self.runs]}

    @classmethod
    def from_dict(cls, values: dict[str, Any], functions: Collection[str] = ()) -> RunsPlan:
        """Read a plan; it may name only those functions of the user's own that are among `functions`."""
        check_kinds(values, {"data": str, "device": str, "command": str, "n_jobs": int, "by_memory": bool})
        check_kinds(values, {"format": str | None, "folds": str | None, "one_fold": int | None, "threads": int | None})
        check_kinds(values, {"arguments": list, "remarks": list, "with_test": bool})
        runs = _planned_runs(values)
        lists = {name: tuple(values[name]) for name in ("arguments", "remarks")}
        return cls(**{**values, **lists, "config": load_record(values["config"], functions), "runs": runs})

    def fold_of(self, run: PlannedRun) -> str | None:
        """Return the fold of a run as `--fold` takes it."""
        number = run.fold or self.one_fold
        return None if number is None else f"{self.folds}:{number}"


class RunsFolder:
    """The folder of several runs, with the paths of its files."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.plan = self.path / "runs.json"
        self.folds = self.path / "folds.json"
        self.results = self.path / "results.json"

    def run(self, run: PlannedRun) -> RunFolder:
        return RunFolder(self.path / run.name)

    def read(self, functions: Collection[str] = ()) -> RunsPlan:
        """Read the plan; it may name only those of the user's own functions that are given."""
        return self._read(lambda values: RunsPlan.from_dict(values, functions))

    def read_runs(self) -> tuple[PlannedRun, ...]:
        """Read the runs of the plan, whatever its settings are."""
        return self._read(_planned_runs)

    def _read(self, parse: Callable[[dict[str, Any]], T]) -> T:
        if not self.plan.exists():
            raise RelatumError(f"{self.path}: no runs were started here (there is no {self.plan.name})")
        refuse_special_files((self.plan, self.folds, self.results))
        values: Any = read_json(self.plan)
        try:
            return parse(values)
        except OwnFunctionError as error:
            raise OwnFunctionError(f"{self.plan}: {error}") from None
        except (ConfigError, ValueError, TypeError, KeyError) as error:
            raise RelatumError(f"{self.plan}: not the plan of runs of this version: {error}") from None

    def prepare(self, plan: RunsPlan) -> list[PlannedRun]:
        """Begin the runs that are not there yet; return the runs that are not complete."""
        left = [run for run in plan.runs if not self.run(run).result.exists()]
        for run in left:
            folder = self.run(run)
            refuse_special_files((self.path / run.name.partition("/")[0], folder.path, folder.path / LOG))
            if not folder.is_started:
                folder.create(_record(plan, run, folder.path))
        return left

    def write_results(self, record: dict[str, Any]) -> None:
        with replacing_file(self.results) as draft:
            draft.write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _planned_runs(values: dict[str, Any]) -> tuple[PlannedRun, ...]:
    check_kinds(values, {"runs": list})
    for run in values["runs"]:
        check_kinds(run, {"name": str, "seed": int, "fold": int | None, "fingerprint": str})
        if not _RUN_NAME.fullmatch(run["name"]):  # it is the folder that the run is written to
            raise ValueError(f"found the run {run['name']!r:.50}, expected names such as seed-0 and fold-1/seed-0")
    return tuple(PlannedRun(**run) for run in values["runs"])


def is_runs_folder(path: Path) -> bool:
    """True if several runs were started in a folder, rather than one."""
    return (path / "runs.json").is_file()


@dataclass(frozen=True, slots=True)
class RunsRequest:
    """The runs that the user asked for."""

    n_runs: int = 1
    """The number of seeds, on each of the folds where there are any."""
    folds: int | Path | FoldChoice | None = None
    """A number of folds to make of all documents, a file of lists, or one fold of such a file, which all runs have."""
    format: str | None = None
    device: str = "auto"
    jobs: int | None = None
    """The most runs at once; None for as many as fit."""
    with_test: bool = True
    """False to score no run on test; folds that are made are then of train and dev, each of them dev once."""
    command: str = ""
    arguments: tuple[str, ...] = ()
    """The arguments that a single run is started with, but for its data, seed, fold and folder."""


@dataclass(frozen=True, slots=True)
class _PlannedFolds:
    """The folds of a plan."""

    numbers: tuple[int | None, ...] = (None,)
    """The folds that have runs of their own, counted from 1; None where there are none."""
    lists: Path | None = None
    """The file that holds the lists, or will hold them."""
    made: tuple[Fold, ...] | None = None
    """The folds that are made here, and not written yet."""
    one_fold: int | None = None
    """The fold that all runs have, if they all have the same."""


def start_runs(
    out: Path,
    data: Path,
    config: Config,
    request: RunsRequest,
    say: Callable[[str], None] = lambda _: None,
) -> RunsPlan:
    """Make the folder of several runs with its plan.

    Nothing is trained yet, and nothing is left behind if data or settings are wrong. `say` is told the remarks on the
    data, each once.
    """
    from relatum.training.setup import with_absolute_paths

    folder = RunsFolder(out)
    RunFolder(folder.path).check_new()
    with_seed(config, config.training.seed + request.n_runs - 1)
    config = with_absolute_paths(config)
    folds = _plan_folds(request, folder, data, config.training.seed, say)
    plan = _plan_without_runs(request, data, config, folds)
    remarks: dict[str, None] = {}
    seeds = range(config.training.seed, config.training.seed + request.n_runs)
    plan = replace(plan, runs=tuple(_plan_runs(plan, folds, seeds, remarks)), remarks=tuple(remarks))
    for remark in plan.remarks:
        say(remark)
    _write_plan(folder, plan, folds.made)
    return plan


def _plan_folds(
    request: RunsRequest, folder: RunsFolder, data: Path, seed: int, say: Callable[[str], None]
) -> _PlannedFolds:
    folds = request.folds
    if folds is None:
        return _PlannedFolds()
    if isinstance(folds, FoldChoice):
        return _PlannedFolds(lists=folds.path.absolute(), one_fold=folds.number)
    if isinstance(folds, Path):
        n_folds = len(load_fold_lists(folds, data, request.format))
        return _PlannedFolds(tuple(range(1, n_folds + 1)), folds.absolute())
    made = make_fold_lists(data, folds, seed, request.format, with_test=request.with_test)
    say(_describe_folds(made, data, seed, request.with_test))
    return _PlannedFolds(tuple(range(1, folds + 1)), folder.folds, made)


def _describe_folds(made: Sequence[Fold], data: Path, seed: int, with_test: bool) -> str:
    if with_test:
        return f"{len(made)} folds of all documents of {data} (seed {seed}), whatever parts they were in"
    n_documents = sum(len(fold.dev) for fold in made)
    return (
        f"{len(made)} folds of the {n_documents:,} documents of {data} that are not apart for test (seed {seed}); "
        "each is dev once"
    )


def _plan_without_runs(request: RunsRequest, data: Path, config: Config, folds: _PlannedFolds) -> RunsPlan:
    """Make a plan of everything that the runs have in common."""
    from relatum.extractor.device import choose_device
    from relatum.training.runs.budgets import share_cores

    cores = share_cores(len(folds.numbers) * request.n_runs, request.jobs, choose_device(request.device))
    return RunsPlan(
        config=config,
        data=str(data.absolute()),
        format=request.format,
        folds=None if folds.lists is None else str(folds.lists),
        one_fold=folds.one_fold,
        device=request.device,
        n_jobs=cores.n_jobs,
        by_memory=request.jobs is None,
        threads=cores.threads,
        command=request.command,
        arguments=request.arguments,
        runs=(),
        remarks=(),
        with_test=request.with_test,
    )


def _plan_runs(
    plan: RunsPlan, folds: _PlannedFolds, seeds: Sequence[int], remarks: dict[str, None]
) -> Iterator[PlannedRun]:
    """Yield the runs, fold by fold; read the data of each, so that problems are known before any run begins."""
    from relatum.training.distillation import check_teachers

    for fold in folds.numbers:
        fingerprint, by_seed = "", False
        for seed in seeds:
            name = f"seed-{seed}" if fold is None else f"fold-{fold}/seed-{seed}"
            run = PlannedRun(name, seed, fold, "")
            chosen = plan.fold_of(run)
            if not fingerprint or by_seed:
                choice = None if chosen is None else replace(FoldChoice.parse(chosen), lists=folds.made)
                loaded = load_training_data(
                    Path(plan.data), with_seed(plan.config, seed), plan.format, choice, with_test=plan.with_test
                )
                fingerprint, by_seed = loaded.fingerprint(), loaded.depends_on_seed
                check_teachers(plan.config, loaded.schema)
                remarks.update(dict.fromkeys(loaded.remarks))
            yield replace(run, fingerprint=fingerprint)


def _write_plan(folder: RunsFolder, plan: RunsPlan, made: Sequence[Fold] | None) -> None:
    with new_folder(folder.path) as draft:
        if made is not None:
            content = json.dumps([fold.parts() for fold in made])
            (draft / folder.folds.name).write_text(content + "\n", encoding="utf-8")
        content = json.dumps(plan.to_dict(), ensure_ascii=False, indent=2)
        (draft / folder.plan.name).write_text(content + "\n", encoding="utf-8")


def with_seed(config: Config, seed: int) -> Config:
    """Return the settings with another seed; raise an error if the seed is too large."""
    if seed >= 2**31:
        raise ConfigError(f"training.seed: found {seed}, expected a number below {2**31}; take smaller seeds")
    return config.model_copy(update={"training": config.training.model_copy(update={"seed": seed})})


def _record(plan: RunsPlan, run: PlannedRun, path: Path) -> RunRecord:
    fold = plan.fold_of(run)
    words = ["relatum", "train", plan.data, "--out", str(path), *plan.arguments]
    words += ["--set", f"training.seed={run.seed}"] + ([] if fold is None else ["--fold", fold])
    return RunRecord(
        config=with_seed(plan.config, run.seed),
        data=plan.data,
        format=plan.format,
        fold=fold,
        device=plan.device,
        command=shlex.join(words),
        fingerprint=run.fingerprint,
        with_test=plan.with_test,
    )
