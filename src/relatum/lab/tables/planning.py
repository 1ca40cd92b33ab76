"""The plan of a table: the runs that it needs, and which of them are there.

    table-3-….json, .md, .csv    tables
    folds/                       folds that were made here
    runs/NAME-HASH/              the runs of one setting, as `training.runs` describes them

The hash covers all settings but the seed, and the data. So rows that are the same in several tables share their runs,
more runs can be asked for later, and a run is never taken for one with other settings or data.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from relatum.config import Config
from relatum.data.atomic import replacing_file
from relatum.data.corpus import open_corpus
from relatum.data.partition import Fold
from relatum.errors import RelatumError
from relatum.lab.tables.corpora import CORPORA, CorpusPath
from relatum.lab.tables.identity import settings_hash, settings_record
from relatum.lab.tables.selection import Request, SelectedRow
from relatum.training.corpus import FoldChoice, load_fold_lists, load_training_data, make_fold_lists
from relatum.training.runs.plan import PlannedRun, RunsFolder, RunsPlan, with_seed
from relatum.training.setup import with_absolute_paths


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """A row with its runs, in the order of their seeds and then folds."""

    selected: SelectedRow
    folder: RunsFolder
    plan: RunsPlan
    wanted: tuple[PlannedRun, ...]
    """The runs of the plan that this table asks for."""

    @property
    def complete(self) -> list[PlannedRun]:
        return [run for run in self.wanted if self.folder.run(run).result.exists()]

    def command(self, out: Path | None = None) -> str:
        """Return the command that makes these runs by hand, in the folder `out` or else in the row's own folder."""
        assert self.selected.settings is not None
        assert self.selected.data is not None
        n_seeds = len({run.seed for run in self.wanted})
        words = ["relatum", "train", self.plan.data, "--out", str(out or self.folder.path)]
        words += [*self.selected.settings.arguments(), "--runs", str(n_seeds)]
        if self.plan.folds is not None:
            words += ["--folds", self.plan.folds]
        return shlex.join(words)


class Planner:
    """A planner of rows in one folder, which reads data that rows share once."""

    def __init__(self, out: Path, request: Request, device: str) -> None:
        """Use only the runs, folds and parts of the request: tables that have these in common share a planner."""
        self._out = out.absolute()
        self._request = request
        self._device = device
        self._folders: dict[str, Path] = {}
        self._prints: dict[tuple[object, ...], str] = {}
        self._folds: dict[tuple[Path, Path], list[Fold]] = {}

    def plan(self, selected: SelectedRow) -> PlannedRow:
        """Plan the runs of a row that has settings and data. Nothing is written but folds that have to be made."""
        settings = selected.settings
        data = selected.data
        assert settings is not None
        assert data is not None
        config = settings.config
        request = self._request
        if data.folds is None and selected.corpus.name in CORPORA:
            _check_parts(data, selected.corpus.name, request.with_test)
        lists = self._lists(data, selected.corpus.name)
        n_folds = 0 if lists is None else len(self._read_folds(lists, data.path))
        folds = [*range(1, n_folds + 1)][: request.n_folds] or [None]
        first = with_seed(config, 0)
        folder = RunsFolder(self._folder(selected, self._fingerprint(data, first, lists, folds[0])))
        seeds = range(config.training.seed, config.training.seed + request.n_runs)
        wanted = tuple(
            PlannedRun(
                f"seed-{seed}" if fold is None else f"fold-{fold}/seed-{seed}",
                seed,
                fold,
                self._fingerprint(data, with_seed(config, seed), lists, fold),
            )
            for seed in seeds
            for fold in folds
        )
        before = folder.read_runs() if folder.plan.exists() else ()
        plan = RunsPlan(
            config=with_absolute_paths(config),
            data=str(data.path.absolute()),
            format=None,
            folds=None if lists is None else str(lists),
            one_fold=None,
            device=self._device,
            n_jobs=1,
            by_memory=False,
            threads=None,
            command="",
            arguments=tuple(settings.arguments()),
            runs=(*before, *(run for run in wanted if run not in before)),
            remarks=(),
            with_test=request.with_test,
        )
        row = PlannedRow(selected, folder, plan, wanted)
        return replace(row, plan=replace(plan, command=row.command()))

    def _folder(self, selected: SelectedRow, fingerprint: str) -> Path:
        """Return the folder of runs with these settings and data: one on disk, one planned for another row, or new."""
        assert selected.settings is not None
        key = settings_hash(settings_record(selected.settings.config), fingerprint, self._request.with_test)
        if key in self._folders:
            return self._folders[key]
        runs = self._out / "runs"
        existing = [path for path in runs.glob(f"*-{key}") if path.is_dir()]
        configs = selected.row.configs or ("default",)
        names = [name.removeprefix("ablations/").replace("/", "-") for name in configs]
        new = runs / "-".join([selected.corpus.name, *names, key])
        self._folders[key] = existing[0] if existing else new
        return self._folders[key]

    def _lists(self, data: CorpusPath, name: str) -> Path | None:
        """Return the file of folds, and make it if there is none; None if the corpus is not divided into folds."""
        if not isinstance(data.folds, int):
            return None if data.folds is None else data.folds.absolute()
        path = self._out / "folds" / f"{name}-{data.folds}.json"
        if not path.exists():
            folds = make_fold_lists(data.path, data.folds, seed=0)
            with replacing_file(path) as draft:
                draft.write_text(json.dumps([fold.parts() for fold in folds]) + "\n", encoding="utf-8")
        return path

    def _read_folds(self, lists: Path, data: Path) -> list[Fold]:
        if (lists, data) not in self._folds:
            self._folds[lists, data] = load_fold_lists(lists, data)
        return self._folds[lists, data]

    def _fingerprint(self, data: CorpusPath, config: Config, lists: Path | None, fold: int | None) -> str:
        """Return the fingerprint of a run's data; the seed decides without a dev part, or with unlabelled text."""
        if lists is None:
            has_own_dev = has_dev(data.path)
        else:
            has_own_dev = all(divided.dev for divided in self._read_folds(lists, data.path))
        training = config.training
        seed = None if has_own_dev and training.unlabelled is None else training.seed
        settings = config.data.model_dump_json(), config.text.model_dump_json(), training.dev
        text = training.unlabelled, training.unlabelled_sentences
        key = (data.path, lists, fold, seed, *settings, *text)
        if key not in self._prints:
            choice = None if lists is None or fold is None else FoldChoice(lists, fold)
            loaded = load_training_data(data.path, config, None, choice, with_test=self._request.with_test)
            self._prints[key] = loaded.fingerprint()
        return self._prints[key]


def write_plans(rows: Sequence[PlannedRow]) -> None:
    """Write the plans of rows that have new runs."""
    for row in rows:
        if row.folder.plan.exists() and row.folder.read_runs() == row.plan.runs:
            continue
        with replacing_file(row.folder.plan) as draft:
            draft.write_text(json.dumps(row.plan.to_dict(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _check_parts(data: CorpusPath, name: str, with_test: bool) -> None:
    """Refuse a published corpus that is not divided: parts held out by chance are not the parts that others use."""
    names = {part.name for part in open_corpus(data.path).parts}
    if "train" not in names or (with_test and "test" not in names):
        raise RelatumError(
            f"{data.shown}: found {', '.join(sorted(names))}; expected the parts train, dev and test. Give "
            f"the published lists of its documents by --lists {name}=PATH, or put them into it as a folder named lists"
        )


@cache
def has_dev(path: Path) -> bool:
    names = {part.name for part in open_corpus(path).parts}
    return len(names) > 1 and bool(names & {"dev", "valid"})
