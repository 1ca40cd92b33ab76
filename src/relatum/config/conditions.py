"""Settings that do something only beside certain values of another setting.

Such a setting is refused where it cannot have an effect, so that nobody believes to have changed something. Sizes that
are often set for many networks at once, some without that part, are not among them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import reduce

from relatum.config.sections import Config


@dataclass(frozen=True, slots=True)
class Condition:
    """Settings that need another setting to have one of some values, or any value at all."""

    names: tuple[str, ...]
    key: str
    values: tuple[str, ...] = ()
    kind: str = ""
    """A description of the other setting's values, if any will do."""

    @property
    def wanted(self) -> str:
        """The values of the other setting, in words."""
        return self.kind or " or ".join(f'"{value}"' for value in self.values)

    def holds(self, value: object) -> bool:
        """True if the other setting has such a value."""
        return bool(value) if self.kind else value in self.values


def _of(section: str, *keys: str) -> tuple[str, ...]:
    return tuple(f"{section}.{key}" for key in keys)


CONDITIONS = (
    Condition(_of("table", "directions", "predecessors", "removed", "reset"), "table.kind", ("md-gru",)),
    Condition(_of("table", "kernel_size"), "table.kind", ("cnn",)),
    Condition(_of("table", "width", "attention_maps", "pairing"), "table.kind", ("md-gru", "cnn")),
    Condition(
        _of("encoder", "beside", "n_layers", "pooling", "attention_pooling", "context", "tuning", "adapters"),
        "encoder.kind",
        ("huggingface",),
    ),
    Condition(_of("encoder", "mixing"), "encoder.kind", ("huggingface", "elmo")),
    Condition(_of("encoder", "n_layers"), "encoder.mixing", ("mean",)),
    Condition(_of("encoder", "cache_path"), "encoder.cache", ("disk",)),
    Condition(_of("encoder", "cache_limit_mib"), "encoder.cache", ("memory", "disk")),
    Condition(_of("encoder", "lora_rank", "lora_alpha", "lora_dropout", "lora_modules"), "encoder.tuning", ("lora",)),
    Condition(_of("encoder", "adapters"), "encoder.tuning", ("frozen",)),
    Condition(_of("encoder", "attention_gradients", "gradient_checkpointing"), "encoder.tuning", ("lora", "full")),
    Condition(
        _of("training", "encoder_learning_rate", "encoder_layer_decay", "encoder_warmup_steps"),
        "encoder.tuning",
        ("lora", "full"),
    ),
    Condition(_of("tagging", "fill", "cells", "directed", "conflicts"), "tagging.kind", ("words",)),
    Condition(_of("decoding", "opposite", "entities"), "tagging.kind", ("words",)),
    Condition(
        _of("decoding", "overlap", "relations_of_pair", "entity_threshold", "relation_threshold"),
        "tagging.kind",
        ("spans",),
    ),
    Condition(_of("training", "decay_rate", "decay_steps", "decay_staircase"), "training.schedule", ("inverse",)),
    Condition(_of("training", "teacher_weight", "unlabelled"), "training.teachers", kind="a list of trained models"),
    Condition(_of("training", "unlabelled_sentences"), "training.unlabelled", kind="a file of text"),
)


def find_idle(config: Config, given: Collection[str]) -> Iterator[tuple[str, Condition, object]]:
    """Yield the given settings that do nothing, with the condition that does not hold and the value found instead."""
    for condition in CONDITIONS:
        value: object = reduce(getattr, condition.key.split("."), config)
        if not condition.holds(value):
            yield from ((name, condition, value) for name in condition.names if name in given)
