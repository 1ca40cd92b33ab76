"""Adapters of low rank (LoRA) as changes of an encoder's weights, read from the files of `peft` without it.

What adapters add to an encoder is a change of its weights, so that a tuned encoder computes as fast as a frozen one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from relatum.encoders.hashing import ADAPTER_SETTINGS as SETTINGS
from relatum.encoders.hashing import ADAPTER_WEIGHTS as WEIGHTS
from relatum.encoders.weights import read_tensors
from relatum.errors import RelatumError
from relatum.files import open_file, read_json
from relatum.kernels.arrays import Array, multiply_in_order, to_float32

PREFIX = "base_model.model."
_A, _B = ".lora_A.weight", ".lora_B.weight"
_OTHER_KINDS = ("use_dora", "use_rslora", "fan_in_fan_out", "lora_bias", "rank_pattern", "alpha_pattern")
"""Settings of `peft` with which an adapter means something else."""


@dataclass(frozen=True, slots=True)
class WeightChange:
    """A change of a weight: the product of two thin matrices, times a scale."""

    scale: float
    up: Array
    down: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.up.shape[0], self.down.shape[1]

    def check(self, name: str, weight: Array | None, folder: Path) -> None:
        """Refuse a missing weight, or a weight of another shape.

        Two files of some kilobytes can make a matrix of many gigabytes, so shapes are compared before it is made.
        """
        if weight is None or weight.shape != self.shape:
            found = "no such weight" if weight is None else f"one of the shape {tuple(weight.shape)}"
            raise RelatumError(
                f"{folder}: the adapters are of another encoder: they change {name} of the shape {self.shape}, "
                f"and the encoder has {found}"
            )

    def add_to(self, weight: Array) -> Array:
        """Return the weight with the change added, in float32."""
        changed: Array = to_float32(weight) + np.float32(self.scale) * multiply_in_order(self.up, self.down)
        return changed


def _ending(weights: Mapping[str, Array], end: str) -> dict[str, Array]:
    """Return the weights whose names end so, by their names without the end."""
    return {name.removesuffix(end): weight for name, weight in weights.items() if name.endswith(end)}


def read_changes(folder: Path) -> dict[str, WeightChange]:
    """Read the changes that the adapters of a folder make to the weights of an encoder, by the names of the weights."""
    try:
        settings: Any = read_json(folder / SETTINGS)
        open_file(folder / WEIGHTS).close()
        weights = read_tensors(folder / WEIGHTS)
        kind = settings["peft_type"]
        scale = float(settings["lora_alpha"] / settings["r"])
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RelatumError, SafetensorError) as error:
        raise RelatumError(f"{folder}: the adapters of the encoder cannot be read ({error})") from error
    other = next((key for key in _OTHER_KINDS if settings.get(key)), None)
    if kind != "LORA" or other:
        raise RelatumError(f"{folder / SETTINGS}: expected plain LoRA adapters, found {other or kind}")
    if not math.isfinite(scale):
        raise RelatumError(f"{folder / SETTINGS}: found {scale} as lora_alpha / r, expected a finite number")
    downs = _ending(weights, _A)
    ups = _ending(weights, _B)
    if not downs or downs.keys() != ups.keys() or len(weights) != 2 * len(downs):
        raise RelatumError(f"{folder / WEIGHTS}: expected the two matrices of each adapter, and nothing else")
    for name, down in downs.items():
        if not (down.ndim == ups[name].ndim == 2 and ups[name].shape[1] == down.shape[0]):
            raise RelatumError(
                f"{folder / WEIGHTS}: found matrices of the shapes {tuple(down.shape)} and {tuple(ups[name].shape)} "
                f"for {name}, which cannot be multiplied"
            )
    return {f"{name.removeprefix(PREFIX)}.weight": WeightChange(scale, ups[name], down) for name, down in downs.items()}
