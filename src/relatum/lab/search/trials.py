"""Searching for settings with Optuna: a small, stated space, and dev scores alone.

    tune.json        what the search was started with
    trials.db        every trial (SQLite); a search goes on from it
    trials/N/        the log of a trial; its model is not kept
    best.toml        the settings of the best trial so far

Test is not read at all. All trials have the same number of updates, and poor ones are ended at an evaluation.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from relatum.config import dump_config
from relatum.data.atomic import remove_drafts, replacing_file
from relatum.errors import NoSpaceError, RelatumError
from relatum.files import read_json
from relatum.lab.search.space import Value, apply, make_space
from relatum.monitor import Monitor
from relatum.training.folder import RunFolder, RunRecord

if TYPE_CHECKING:
    import optuna
    import torch

    from relatum.monitor import Evaluation
    from relatum.training.corpus import TrainingData

START_UP = 4
"""The number of complete trials before any trial is ended early."""


@dataclass(frozen=True, slots=True)
class TrialReport:
    """The outcome of a trial."""

    number: int
    state: str
    """The end of the trial: complete, pruned or failed."""
    score: float | None
    """The best score on dev."""
    step: int | None
    """The step of the last evaluation."""
    values: dict[str, Value]


class _Ended(Exception):
    """The end of a trial that is not worth going on with, or for which no time is left."""


class _TrialMonitor(Monitor):
    """A monitor that reports evaluations to the trial, and ends it if other trials did better or time is over."""

    def __init__(self, trial: optuna.Trial, inner: Monitor, deadline: float | None, loud: bool) -> None:
        self._trial = trial
        self._inner = inner
        self._deadline = deadline
        self._loud = loud
        self.best: float | None = None

    def start(self, step: int, steps: int) -> None:
        self._inner.start(step, steps)

    def advance(self, step: int, loss: float) -> None:
        self._inner.advance(step, loss)

    def evaluate(self, evaluation: Evaluation, best: bool) -> None:
        self._inner.evaluate(evaluation, best)
        self.best = evaluation.score if self.best is None else max(self.best, evaluation.score)
        self._trial.report(self.best, evaluation.step)
        late = self._deadline is not None and time.monotonic() > self._deadline
        if late or self._trial.should_prune():
            raise _Ended

    def say(self, message: str) -> None:
        if self._loud:  # the same remarks on the data would come with every trial
            self._inner.say(message)

    def close(self) -> None:
        self._inner.close()


class Search:
    """A search in a folder, new or taken up again."""

    def __init__(
        self, folder: Path, data: TrainingData, record: RunRecord, fixed: Sequence[str], say: Callable[[str], None]
    ) -> None:
        """Open the search; `record` is of a run with the settings to begin with, and each trial's is made from it."""
        if data.test:
            raise RelatumError("a search must not see the test part; load the data without it")
        _need_optuna()
        self._folder = folder
        self._data = data
        self._say = say
        training = record.config.training.model_copy(update={"sizes": "given"})
        self._record = replace(record, config=record.config.model_copy(update={"training": training}))
        self.space, self._start = make_space(self._record.config, fixed)
        if not self.space:
            raise RelatumError("every key of the space is fixed by --set; leave some of them open")
        self._check()
        self._study = self._open()

    @property
    def best_settings(self) -> Path:
        return self._folder / "best.toml"

    def reports(self) -> list[TrialReport]:
        """Return the trials that have ended, in their order."""
        names = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
        return [
            TrialReport(
                trial.number,
                names[trial.state.name],
                max(trial.intermediate_values.values(), default=None),
                trial.last_step,
                dict(trial.params),
            )
            for trial in self._study.get_trials(deepcopy=False)
            if trial.state.name in names and (trial.state.name != "FAIL" or "failed" in trial.user_attrs)
        ]

    def run(
        self,
        n_trials: int,
        minutes: float | None,
        device: torch.device,
        make_monitor: Callable[[], Monitor],
        ended: Callable[[TrialReport], None] = lambda _: None,
    ) -> TrialReport:
        """Make trials until there are `n_trials` or the time is over; return the best trial.

        A trial that is under way when time is over ends at its next evaluation. `TrainingStopped` says that the user
        asked to stop; the trial under way is made again when the search goes on.
        """
        deadline = None if minutes is None else time.monotonic() + 60 * minutes
        with RunFolder(self._folder).locked(self._say):
            remove_drafts(self._folder)
            self._repeat_abandoned()
            while len(self.reports()) < n_trials and (deadline is None or time.monotonic() < deadline):
                self._make_trial(device, make_monitor(), deadline)
                ended(self.reports()[-1])
                self._write_best()
        best = self.best()
        if best is None:
            raise RelatumError(f"{self._folder}: no trial was completed; give more time with --timeout, or --trials")
        return best

    def best(self) -> TrialReport | None:
        """Return the complete trial with the highest score, the first of equal ones; None if no trial is complete."""
        complete = [report for report in self.reports() if report.state == "complete" and report.score is not None]
        return max(complete, key=lambda report: report.score or 0.0, default=None)

    def _check(self) -> None:
        """Refuse a folder in which another search was started; begin the search in a new folder."""
        path = self._folder / "tune.json"
        mine = {
            "data": self._record.fingerprint,
            "config": self._record.config.to_dict(),
            "space": [str(dimension) for dimension in self.space],
        }
        if not path.exists():
            RunFolder(self._folder).check_new()
            with replacing_file(path) as draft:
                draft.write_text(json.dumps(mine, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
            return
        try:
            theirs = read_json(path)
        except RelatumError as error:
            raise RelatumError(f"{error}; name a new folder with --out") from None
        for key, what in (("data", "other data"), ("config", "other settings"), ("space", "another space")):
            if not isinstance(theirs, dict) or theirs.get(key) != mine[key]:
                raise RelatumError(f"{self._folder}: a search was started here with {what}; name a new folder")

    def _open(self) -> optuna.Study:
        import optuna
        from sqlalchemy.exc import SQLAlchemyError

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        path = self._folder / "trials.db"
        warm = self._record.config.training.steps // 4
        pruner = optuna.pruners.MedianPruner(n_startup_trials=START_UP, n_warmup_steps=warm)
        try:
            storage = optuna.storages.RDBStorage(f"sqlite:///{path.absolute()}")
            study = optuna.create_study(
                study_name="relatum", storage=storage, direction="maximize", load_if_exists=True, pruner=pruner
            )
        except (SQLAlchemyError, optuna.exceptions.OptunaError) as error:
            first = str(error).splitlines()[0]
            raise RelatumError(
                f"{path}: the trials cannot be read ({first}); remove it to begin the search again, or name a new "
                "folder with --out"
            ) from None
        if not study.get_trials(deepcopy=False):
            study.enqueue_trial(self._start)
        # Drawn by the seed; one that goes on must not draw again what it drew at the beginning.
        seed = self._record.config.training.seed + len(study.get_trials(deepcopy=False))
        study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=2 * START_UP)
        return study

    def _repeat_abandoned(self) -> None:
        """Queue trials that were under way when the search was stopped or killed, to begin them again."""
        from optuna.trial import TrialState

        for trial in self._study.get_trials(deepcopy=False):
            if trial.state.name == "RUNNING":
                self._study.tell(trial.number, state=TrialState.FAIL)
                if trial.params:
                    self._study.enqueue_trial(trial.params)

    def _make_trial(self, device: torch.device, inner: Monitor, deadline: float | None) -> None:
        from optuna.trial import TrialState

        from relatum.training.loop import TrainingStopped, train

        trial = self._study.ask()
        values = {dimension.key: dimension.suggest(trial) for dimension in self.space}
        record = replace(self._record, config=apply(self._record.config, values))
        path = self._folder / "trials" / str(trial.number)
        shutil.rmtree(path, ignore_errors=True)
        monitor = _TrialMonitor(trial, inner, deadline, loud=trial.number == 0)
        state = TrialState.COMPLETE
        try:
            train(self._data, record, path, device=device, monitor=monitor)
        except _Ended:
            state = TrialState.PRUNED
        except TrainingStopped:
            raise TrainingStopped(f"stopped in trial {trial.number}; the same command goes on with it") from None
        except NoSpaceError as error:  # the settings are not to blame
            raise NoSpaceError(error.problem, f"the same command goes on with trial {trial.number}") from error
        except RelatumError as error:
            self._say(f"trial {trial.number} failed: {error}")
            trial.set_user_attr("failed", True)  # and not one that was left behind
            state = TrialState.FAIL
        self._study.tell(trial, monitor.best if state == TrialState.COMPLETE else None, state=state)
        _keep_log(path)

    def _write_best(self) -> None:
        best = self.best()
        if best is None:
            return
        head = (
            f"# The best of {len(self.reports())} trials: number {best.number}, {best.score:.4f} on dev. "
            "For: relatum train DATA --config best.toml\n"
        )
        content = dump_config(apply(self._record.config, best.values), comments=False, changed=True)
        with replacing_file(self.best_settings) as draft:
            draft.write_text(head + content, encoding="utf-8")


def _keep_log(path: Path) -> None:
    """Remove all but the log from a trial's folder: states and models are large, and nobody needs them."""
    for item in path.iterdir() if path.is_dir() else ():
        if item.is_dir():
            shutil.rmtree(item)
        elif item.name != "log.jsonl":
            with suppress(OSError):
                item.unlink()


def _need_optuna() -> None:
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise RelatumError("searching for settings needs Optuna; pip install 'relatum[tune]'") from None
