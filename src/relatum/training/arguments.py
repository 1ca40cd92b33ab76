"""The arguments of a new run, and the command that gives the same ones."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from relatum.config import Config, change_section, find_given, find_idle, load_config, needed_keys, trace_config
from relatum.config.toml import to_toml
from relatum.errors import RelatumError
from relatum.extractor.device import choose_device
from relatum.tagging.shape import measure_shape
from relatum.training.batches import cut_long
from relatum.training.corpus import FoldChoice, TrainingData, load_training_data
from relatum.training.defaults import (
    FEW,
    DefaultedSetting,
    fill_defaults,
    find_machine,
    freezes,
    leaves_tagging_open,
    may_start,
)
from relatum.training.folder import RunRecord
from relatum.training.processes import is_main_process

Overrides = Mapping[str, object] | Sequence[str]
"""Settings by their dotted names, or as `--set` takes them, such as "training.steps=200"."""


class ArgumentError(RelatumError):
    """Arguments that do not go together."""


class OtherFunctionError(ArgumentError):
    """A rule for splitting texts that is not the one a run was started with."""


@dataclass(frozen=True, slots=True)
class TrainArguments:
    """The arguments of a new run, or of several."""

    data: Path
    out: Path
    config: Path | None = None
    """The file of settings."""
    overrides: tuple[str, ...] = ()
    """Settings that override the file, as `--set` takes them."""
    format: str | None = None
    device: str = "auto"
    fold: str | None = None
    """One fold, as `--fold` takes it."""
    with_test: bool = True

    def options(self) -> list[str]:
        """Return the options that follow `relatum train DATA --out RUN`, except the fold."""
        given = {"--config": self.config, "--from": self.format}
        words = [word for option, value in given.items() if value is not None for word in (option, str(value))]
        words += [word for override in self.overrides for word in ("--set", override)]
        words += [] if self.with_test else ["--no-test"]
        return words + ([] if self.device == "auto" else ["--device", self.device])

    def command(self, *more: str) -> str:
        """Return the whole command, to be kept with its results."""
        fold = [] if self.fold is None else ["--fold", self.fold]
        return shlex.join(["relatum", "train", str(self.data), "--out", str(self.out), *fold, *more, *self.options()])

    def load_config(self) -> Config:
        """Load the settings as they were given."""
        return load_config(self.config, self._with_taken())

    def _config_to_read_with(self) -> Config:
        """Load the settings to read the data with: those that are left open have no part in it, but for the tagging."""
        config, given = trace_config(self.config, self._with_taken())
        if not leaves_tagging_open(config, self.config, given):
            return config
        return config.model_copy(update={"tagging": change_section(config.tagging, kind="spans")})

    def _with_taken(self) -> list[str]:
        """Return the overrides, after the settings that the run takes from other models."""
        from relatum.training.warm_start import taken_overrides

        return [*taken_overrides(self.config, self.overrides, self._freezes()), *self.overrides]

    def _freezes(self) -> bool:
        return freezes(self.config, find_given(self.config, self.overrides), lambda: choose_device(self.device).type)

    def fold_choice(self) -> FoldChoice | None:
        return None if self.fold is None else FoldChoice.parse(self.fold)

    def prepare(self, fold: FoldChoice | None, say: Callable[[str], None]) -> tuple[TrainingData, Config]:
        """Load the data, and the settings, of which those that are left open are filled in for the data and machine."""
        first = self._config_to_read_with()
        data = load_training_data(self.data, first, self.format, fold, with_test=self.with_test)
        return data, self._fill_defaults(data, say)

    def _fill_defaults(self, data: TrainingData, say: Callable[[str], None]) -> Config:
        """Load the settings; settings that are left open are filled in for the data and machine, and said."""
        machine = find_machine(choose_device(self.device))
        train, _ = cut_long([*data.train, *data.unlabelled], None, self.load_config())
        lengths = [len(example.sentence) for example in train]
        # Dev takes part, too: what a model cannot hold is refused there.
        shape = measure_shape(example.gold for example in (*train, *data.dev))
        config, settings = fill_defaults(self.config, self._with_taken(), lengths, machine, shape)
        if self._freezes():
            why = "the encoder stays as it is in that model, since an update takes 0.4 of the time then"
            settings.append(DefaultedSetting("encoder.tuning", "frozen", why))
        if settings and is_main_process():
            lines = "".join(f"\n  {setting}" for setting in settings)
            say(f"chosen for this data and machine (--set KEY=VALUE or --config FILE has other values):{lines}")
            if len(train) < FEW and may_start(config):
                n = len(train)
                say(f"{n} training sentences are few: if they are English, --set training.start=wiki helps")
        return config

    def make_record(self, config: Config, data: TrainingData, fold: FoldChoice | None = None) -> RunRecord:
        """Make the record that a run is started with."""
        return RunRecord(
            config=config,
            data=str(self.data.absolute()),
            format=self.format,
            fold=None if fold is None else f"{fold.path.absolute()}:{fold.number}",
            device=self.device,
            command=self.command(),
            fingerprint=data.fingerprint(),
            with_test=self.with_test,
        )


def list_overrides(overrides: Overrides) -> list[str]:
    """Return overrides as `--set` takes them."""
    if isinstance(overrides, Mapping):
        return [write_override(key, value) for key, value in overrides.items()]
    return list(overrides)


def config_overrides(config: Config) -> list[str]:
    """Return the overrides that make a config out of the defaults.

    `training.sizes` is always among them: a whole config leaves nothing open, unless it says so.
    """
    values = {key.name: key.value for key in needed_keys(config)} | {"training.sizes": config.training.sizes}
    idle = {name for name, _, _ in find_idle(config, values)}
    return [write_override(name, value) for name, value in values.items() if name not in idle and value is not None]


def write_override(key: str, value: object) -> str:
    """Return a setting as `--set` takes it."""
    if value is None:
        return f"{key}=unset"
    return f"{key}={to_toml(value)}"
