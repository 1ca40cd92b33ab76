"""Adapters of low rank (LoRA) beside the linear layers of an encoder, in the files that `peft` has for them.

They are trained through `peft`, and used without it, see `weight_changes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from relatum.config import EncoderConfig
from relatum.encoders.hashing import ADAPTER_WEIGHTS as WEIGHTS
from relatum.encoders.weight_changes import PREFIX, read_changes
from relatum.errors import ConfigError, MissingExtraError, RelatumError


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
    stored = {PREFIX + name: value.detach().to("cpu", dtype).contiguous() for name, value in weights.items()}
    save_file(stored, folder / WEIGHTS, metadata={"format": "pt"})
    settings: Any = model.peft_config
    settings["default"].save_pretrained(str(folder))


def load_adapters(model: nn.Module, folder: Path) -> None:
    """Copy adapters that were saved into the adapters of a model, which must have the same shapes."""
    read_changes(folder)  # it says what is wrong with the files
    weights = dict(model.named_parameters())
    for name, value in load_file(folder / WEIGHTS).items():
        own = weights.get(name.removeprefix(PREFIX).removesuffix(".weight") + ".default.weight")
        if own is None or own.shape != value.shape:
            raise ConfigError(
                f"{folder}: the adapters do not fit this encoder ({name}); leave encoder.name, encoder.lora_rank and "
                "encoder.lora_modules to the model that a run starts from"
            )
        own.data.copy_(value)
