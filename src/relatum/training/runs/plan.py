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


def start_runs(
    out: Path,
    data: Path,
    config: Config,
    *,
    format: str | None = None,
    n_runs: int = 1,
    folds: int | Path | FoldChoice | None = None,
    device: str = "auto",
    jobs: int | None = None,
    with_test: bool = True,
    command: str = "",
    arguments: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> RunsPlan:
    """Make the folder of several runs with its plan: `n_runs` seeds, on each of the folds where there are any.

    `folds` is a number of folds to make of all documents, a file of lists, or one fold of such a file, which all runs
    have. `jobs` is the most runs at once; if it is None, as many go on as fit. Without test, no run is scored on test,
    and folds that are made are of train and dev, each of them dev once. Nothing is trained yet, and nothing is left
    behind if data or settings are wrong. `say` is told the remarks on the data, each once.
    """
    from relatum.extractor.device import choose_device
    from relatum.training.runs.budgets import share_cores
    from relatum.training.setup import with_absolute_paths

    folder = RunsFolder(out)
    RunFolder(folder.path).check_new()
    with_seed(config, config.training.seed + n_runs - 1)
    config = with_absolute_paths(config)
    made: tuple[Fold, ...] | None = None
    lists: Path | None = None
    numbers: list[int | None] = [None]
    if isinstance(folds, int):
        made = make_fold_lists(data, folds, config.training.seed, format, with_test=with_test)
        lists, numbers = folder.folds, [*range(1, folds + 1)]
        if with_test:
            say(f"{folds} folds of all documents of {data} (seed {config.training.seed}), whatever parts they were in")
        else:
            n_documents = sum(len(fold.dev) for fold in made)
            say(
                f"{folds} folds of the {n_documents:,} documents of {data} that are not apart for test (seed "
                f"{config.training.seed}); each is dev once"
            )
    elif isinstance(folds, FoldChoice):
        lists = folds.path.absolute()
    elif folds is not None:
        lists = folds.absolute()
        numbers = [*range(1, len(load_fold_lists(folds, data, format)) + 1)]
    cores = share_cores(len(numbers) * n_runs, jobs, choose_device(device))
    plan = RunsPlan(
        config=config,
        data=str(data.absolute()),
        format=format,
        folds=None if lists is None else str(lists),
        one_fold=folds.number if isinstance(folds, FoldChoice) else None,
        device=device,
        n_jobs=cores.n_jobs,
        by_memory=jobs is None,
        threads=cores.threads,
        command=command,
        arguments=tuple(arguments),
        runs=(),
        remarks=(),
        with_test=with_test,
    )
    seeds = range(config.training.seed, config.training.seed + n_runs)
    remarks: dict[str, None] = {}
    plan = replace(plan, runs=tuple(_plan_runs(plan, numbers, seeds, made, remarks)), remarks=tuple(remarks))
    for remark in plan.remarks:
        say(remark)
    with new_folder(folder.path) as draft:
        if made is not None:
            content = json.dumps([fold.parts() for fold in made])
            (draft / folder.folds.name).write_text(content + "\n", encoding="utf-8")
        content = json.dumps(plan.to_dict(), ensure_ascii=False, indent=2)
        (draft / folder.plan.name).write_text(content + "\n", encoding="utf-8")
    return plan


def _plan_runs(
    plan: RunsPlan,
    folds: Sequence[int | None],
    seeds: Sequence[int],
    made: tuple[Fold, ...] | None,
    remarks: dict[str, None],
) -> Iterator[PlannedRun]:
    """Yield the runs, fold by fold; read the data of each, so that problems are known before any run begins."""
    for fold in folds:
        fingerprint, by_seed = "", False
        for seed in seeds:
            name = f"seed-{seed}" if fold is None else f"fold-{fold}/seed-{seed}"
            run = PlannedRun(name, seed, fold, "")
            chosen = plan.fold_of(run)
            if not fingerprint or by_seed:
                choice = None if chosen is None else replace(FoldChoice.parse(chosen), lists=made)
                loaded = load_training_data(
                    Path(plan.data), with_seed(plan.config, seed), plan.format, choice, with_test=plan.with_test
                )
                fingerprint, by_seed = loaded.fingerprint(), loaded.dev_by_seed
                remarks.update(dict.fromkeys(loaded.remarks))
            yield replace(run, fingerprint=fingerprint)


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
