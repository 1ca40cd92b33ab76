"""Adapters of low rank (LoRA) beside the linear layers of an encoder, in the files that `peft` has for them.

They are trained through `peft`, and used without it: what they add to an encoder is a change of its weights, so that a
tuned encoder computes as fast as a frozen one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from relatum.config import EncoderConfig
from relatum.encoders.hashing import ADAPTER_SETTINGS as SETTINGS
from relatum.encoders.hashing import ADAPTER_WEIGHTS as WEIGHTS
from relatum.errors import ConfigError, MissingExtraError, RelatumError
from relatum.files import open_file, read_json

_PREFIX = "base_model.model."
_A, _B = ".lora_A.weight", ".lora_B.weight"
_OTHER_KINDS = ("use_dora", "use_rslora", "fan_in_fan_out", "lora_bias", "rank_pattern", "alpha_pattern")
"""Settings of `peft` with which an adapter means something else."""


def add_adapters(model: nn.Module, config: EncoderConfig) -> None:
    """Put new adapters, which change nothing yet, beside linear layers of a model, whose own weights are frozen."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise MissingExtraError('encoder.tuning = "lora"', "train") from error
    settings = LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,  # type: ignore[arg-type]  # it is only ever divided
        lora_dropout=config.lora_dropout,
        target_modules=_targets(model, config.lora_modules),
        base_model_name_or_path=config.name,
    )
    inject_adapter_in_model(settings, model)


def _targets(model: nn.Module, wanted: Sequence[str] | None) -> list[str]:
    """The names of the linear layers that get adapters."""
    names = [name for name, part in model.named_modules() if isinstance(part, nn.Linear)]
    if wanted is None:
        names = [name for name in names if "embedding" not in name]
        if not names:
            raise RelatumError('the encoder has no linear layers for adapters; set encoder.tuning to "full"')
        return names
    targets = set()
    for end in wanted:
        ending = [name for name in names if name == end or name.endswith(f".{end}")]
        if not ending:
            known = ", ".join(dict.fromkeys(".".join(name.split(".")[-2:]) for name in names))
            raise ConfigError(f"encoder.lora_modules: the encoder has no linear layer {end!r}; it has {known}")
        targets.update(ending)
    return [name for name in names if name in targets]


def save_adapters(model: nn.Module, folder: Path, dtype: torch.dtype) -> None:
    """Write the adapters of a model to a folder, which `peft` can read, too."""
    from peft import get_peft_model_state_dict

    weights = get_peft_model_state_dict(model, save_embedding_layers=False)
    stored = {_PREFIX + name: value.detach().to("cpu", dtype).contiguous() for name, value in weights.items()}
    save_file(stored, folder / WEIGHTS, metadata={"format": "pt"})
    settings: Any = model.peft_config
    settings["default"].save_pretrained(str(folder))


def load_adapters(model: nn.Module, folder: Path) -> None:
    """Copy adapters that were saved into the adapters of a model, which must have the same shapes."""
    read_changes(folder)  # it says what is wrong with the files
    weights = dict(model.named_parameters())
    for name, value in load_file(folder / WEIGHTS).items():
        own = weights.get(name.removeprefix(_PREFIX).removesuffix(".weight") + ".default.weight")
        if own is None or own.shape != value.shape:
            raise ConfigError(
                f"{folder}: the adapters do not fit this encoder ({name}); leave encoder.name, encoder.lora_rank and "
                "encoder.lora_modules to the model that a run starts from"
            )
        own.data.copy_(value)


@dataclass(frozen=True, slots=True)
class WeightChange:
    """A change of a weight: the product of two thin matrices, times a scale."""

    scale: float
    up: Tensor
    down: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return self.up.shape[0], self.down.shape[1]

    def add_to(self, name: str, weight: Tensor | None, folder: Path) -> Tensor:
        """Return the weight with the change added, in float32; a missing weight, or one of another shape, is an error.

        Two files of some kilobytes can make a matrix of many gigabytes, so the shape is compared before the matrix is
        made.
        """
        if weight is None or tuple(weight.shape) != self.shape:
            found = "no such weight" if weight is None else f"one of the shape {tuple(weight.shape)}"
            raise RelatumError(
                f"{folder}: the adapters are of another encoder: they change {name} of the shape {self.shape}, "
                f"and the encoder has {found}"
            )
        return weight.float() + self.scale * (self.up.float() @ self.down.float())


def _ending(weights: Mapping[str, Tensor], end: str) -> dict[str, Tensor]:
    """Return the weights whose names end so, by their names without the end."""
    return {name.removesuffix(end): weight for name, weight in weights.items() if name.endswith(end)}


def read_changes(folder: Path) -> dict[str, WeightChange]:
    """Read the changes that the adapters of a folder make to the weights of an encoder, by the names of the weights."""
    try:
        settings: Any = read_json(folder / SETTINGS)
        open_file(folder / WEIGHTS).close()
        weights = load_file(folder / WEIGHTS)
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
    return {
        f"{name.removeprefix(_PREFIX)}.weight": WeightChange(scale, ups[name], down) for name, down in downs.items()
    }
