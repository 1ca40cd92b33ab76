"""The space that `search` tries: a few keys and their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relatum.config import Config, load_record

if TYPE_CHECKING:
    import optuna

Value = int | float


@dataclass(frozen=True, slots=True)
class Dimension:
    """A key that is searched: a few values, or all values between two bounds on a logarithmic scale."""

    key: str
    values: tuple[Value, ...] = ()
    between: tuple[float, float] | None = None

    def suggest(self, trial: optuna.Trial) -> Value:
        if self.between is not None:
            return trial.suggest_float(self.key, *self.between, log=True)
        value: Value = trial.suggest_categorical(self.key, self.values)
        return value

    def __str__(self) -> str:
        if self.between is not None:
            return f"{self.key}: {self.between[0]:g} to {self.between[1]:g}"
        return f"{self.key}: {', '.join(map(str, self.values))}"


def make_space(config: Config, fixed: Iterable[str] = ()) -> tuple[list[Dimension], dict[str, Value]]:
    """Return the dimensions to search, and the values that the search begins with.

    The values of `config` are always part of the space, so that no search ends with worse settings than these. Keys
    that are fixed are not searched.
    """
    training = config.training
    model = config.model
    rate = training.learning_rate
    weight = training.relation_weight
    width = config.table.width or model.width
    steps = training.steps
    start: dict[str, Value] = {
        "training.learning_rate": rate,
        "training.batch_size": training.batch_size,
        "training.warmup_steps": training.warmup_steps,
        "training.relation_weight": weight,
        "model.dropout": model.dropout,
        "model.n_layers": model.n_layers,
        "table.width": width,
    }
    space = [
        Dimension("training.learning_rate", between=(min(2e-4, rate), max(3e-3, rate))),
        Dimension("training.batch_size", _with(training.batch_size, 8, 16, 32)),
        Dimension("training.warmup_steps", _with(training.warmup_steps, steps // 20, steps // 10, steps // 5)),
        Dimension("model.dropout", _with(model.dropout, 0.1, 0.2, 0.35, 0.5)),
        Dimension("model.n_layers", _with(model.n_layers, 1, 2, 3)),
    ]
    if config.table.kind != "none":
        parts = len(config.table.directions) if config.table.kind == "md-gru" else 1  # that a width is divided into
        widths = [some for some in (64, 96, 128) if some % parts == 0]
        space.append(Dimension("table.width", _with(width, *widths)))
    if weight > 0:
        space.append(Dimension("training.relation_weight", between=(min(0.5, weight), max(2.0, weight))))
    left = set(fixed)
    space = [dimension for dimension in space if dimension.key not in left]
    return space, {dimension.key: start[dimension.key] for dimension in space}


def _with(current: Value, *values: Value) -> tuple[Value, ...]:
    return tuple(sorted({current, *values}))


def apply(config: Config, values: dict[str, Value]) -> Config:
    """Return the settings with other values for some keys."""
    record = config.to_dict()
    for name, value in values.items():
        section, key = name.split(".")
        record[section][key] = value
    return load_record(record, config.text.functions().values())
