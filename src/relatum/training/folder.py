"""The folder of a run, in which every file is whole at every instant.

    run.json          the settings, the data and the command, written first
    checkpoints/      the last states to go on from
    best/step-N/      the best model so far, and the models that checkpoints name
    log.jsonl         one line per evaluation
    model/            the best model, at the end
    predictions/      what the model found in dev and test, beside the gold annotations
    curves.png        the learning curve
    report.html       all of it, to be read
    summary.txt       the same in short
    result.json       settings, scores and history, last of all
    bad-batch/        the batch at which the loss was not a number or exploded

A model is a folder of several files and cannot be replaced at once. So a new best one is written under a name of its
own and becomes the best when the next checkpoint says so; the one that the last checkpoint names is still there. At the
end the best is renamed to `model`, which is one step.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any

from relatum.config import Config, OwnFunctionError, TextConfig, load_record
from relatum.data.atomic import is_draft, remove_drafts, replacing_file
from relatum.errors import ConfigError, RelatumError
from relatum.files import read_json

if TYPE_CHECKING:
    from relatum.training.result import RunResult

_BEST = re.compile(r"step-(\d+)")


def resume_command(path: Path, config: Config | None = None) -> str:
    """Return the command that resumes a run, or several runs, whatever the folder is called.

    The user's own functions that the settings name are part of the command: a folder may not name them.
    """
    return shlex.join(
        ["relatum", "train", "--resume", str(path), *function_options(None if config is None else config.text)]
    )


def function_options(text: TextConfig | None) -> list[str]:
    """Return the options that name the user's own functions of some settings again."""
    functions = {} if text is None else text.functions()
    return [word for key, name in functions.items() for word in ("--set", f"text.{key}={name}")]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The settings, data and options that a run was started with, to resume it without giving them anew."""

    config: Config
    data: str
    format: str | None
    fold: str | None
    device: str
    command: str
    fingerprint: str
    with_test: bool = True
    """True if the test part is read and scored."""

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"config": self.config.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], functions: Collection[str] = ()) -> RunRecord:
        """Read a record; it may name only those functions of the user's own that are among `functions`."""
        check_kinds(values, {"data": str, "device": str, "command": str, "fingerprint": str, "with_test": bool})
        check_kinds(values, {"format": str | None, "fold": str | None})
        return cls(**{**values, "config": load_record(values["config"], functions)})


def check_kinds(values: object, kinds: Mapping[str, type | UnionType]) -> None:
    """Refuse a record that is no JSON object, or has a value of another kind; keys may be missing."""
    if not isinstance(values, dict):
        raise TypeError(f"found {type(values).__name__}, expected an object")
    for key, kind in kinds.items():
        if key in values and not isinstance(values[key], kind):
            raise TypeError(f"found {type(values[key]).__name__} for {key!r}")


def refuse_special_files(paths: Iterable[Path]) -> None:
    """Refuse paths that are links, pipes or devices; paths that do not exist are fine."""
    for path in paths:
        if path.is_symlink() or (path.exists() and not (path.is_file() or path.is_dir())):
            what = "a link" if path.is_symlink() else "a pipe, a device or a socket"
            raise RelatumError(
                f"{path}: found {what} in the folder of a run, which is written to; put the file or folder itself there"
            )


class RunFolder:
    """The folder of a run, with the paths of its files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"
        self.predictions = path / "predictions"
        self.log = path / "log.jsonl"
        self.result = path / "result.json"
        self.curves = path / "curves.png"
        self.report = path / "report.html"
        self.summary = path / "summary.txt"
        self.bad_batch = path / "bad-batch"
        self._best = path / "best"
        self._lock = path / ".lock"
        self._record = path / "run.json"

    @property
    def is_started(self) -> bool:
        return self._record.exists()

    def check_new(self) -> None:
        """Refuse a folder that is neither new nor empty; drafts of a run that was killed as it began do not count."""
        if self.path.exists() and (not self.path.is_dir() or any(map(self._is_used, self.path.iterdir()))):
            started = self.is_started or (self.path / "runs.json").exists()
            cure = f"go on with it by {resume_command(self.path)}, or name" if started else "name"
            raise RelatumError(f"{self.path} is not an empty folder; {cure} a new one with --out")

    def create(self, record: RunRecord) -> None:
        """Begin a run; no other process may be writing there."""
        self.check_new()
        remove_drafts(self.path)
        self._write(self._record, record.to_dict())

    def read(self, functions: Collection[str] = ()) -> RunRecord:
        """Read what the run was started with; it may name only those of the user's own functions that are given.

        The folder may come from a stranger, and whoever reads the record goes on to write here: links are refused.
        """
        if not self._record.exists():
            raise RelatumError(
                f"{self.path}: no run was started here (there is no {self._record.name}); start one with relatum train "
                "DATA --out RUN"
            )
        self._check_files()
        values: Any = read_json(self._record)
        try:
            return RunRecord.from_dict(values, functions)
        except OwnFunctionError as error:
            raise OwnFunctionError(f"{self._record}: {error}") from None
        except (ConfigError, ValueError, TypeError, KeyError) as error:
            raise RelatumError(f"{self._record}: not the record of a run of this version: {error}") from None

    def _check_files(self) -> None:
        """Refuse a folder in which something that a run reads or writes is a link, a pipe or a device."""
        own = [path for path in vars(self).values() if path != self.path]
        for folder in (self.checkpoints, self._best, self.predictions, self.bad_batch):
            own += folder.iterdir() if folder.is_dir() and not folder.is_symlink() else ()
        refuse_special_files(own)

    @contextmanager
    def locked(self, say: Callable[[str], None]) -> Iterator[None]:
        """Keep a second process from going on with the run at the same time; `say` is told if that is not possible."""
        try:
            import fcntl
        except ImportError:  # Windows has none
            say(f"{self.path} cannot be locked on this system; do not start a second process on the same run")
            yield
            return
        self.path.mkdir(parents=True, exist_ok=True)
        with self._lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RelatumError(f"{self.path}: another process is training here; wait for it, or stop it") from None
            yield

    def best(self, step: int) -> Path:
        """Return the path at which the model of a step is, was, or will be."""
        return self._best / f"step-{step}"

    def newest_best(self) -> Path | None:
        """Return the latest of the best models that are there; None if there is none."""
        return next(reversed(self._models()), None)

    def remove_after(self, step: int) -> None:
        """Remove models that are later than the state a run goes on from, and all drafts; the run must be locked."""
        for model in self._models():
            if self._step(model) > step:
                shutil.rmtree(model)
        own = (self.path, self.checkpoints, self._best, self.model, self.predictions, self.bad_batch)
        remove_drafts(*own, *self._models())

    def remove_old(self, n_checkpoints: int = 2) -> None:
        """Remove all models that no checkpoint names: each kept checkpoint names one model, and none an older one."""
        for model in self._models()[:-n_checkpoints]:
            shutil.rmtree(model)

    def finish(self, step: int) -> None:
        """Make the model of a step the model of the run, and remove the other models; may be called again."""
        if not self.model.exists():
            self.best(step).rename(self.model)
        if self._best.exists():
            shutil.rmtree(self._best)

    def write_result(self, result: RunResult) -> None:
        self._write(self.result, result.to_dict())

    def _is_used(self, path: Path) -> bool:
        return path != self._lock and not (is_draft(path) and path.name.startswith((".run.json.", ".tune.json.")))

    def _models(self) -> list[Path]:
        found = self._best.iterdir() if self._best.is_dir() else ()
        return sorted((model for model in found if _BEST.fullmatch(model.name)), key=self._step)

    @staticmethod
    def _step(model: Path) -> int:
        return int(model.name.removeprefix("step-"))

    @staticmethod
    def _write(path: Path, record: dict[str, Any]) -> None:
        with replacing_file(path) as draft:
            draft.write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
