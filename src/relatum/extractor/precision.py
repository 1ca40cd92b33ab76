"""The numbers that a model computes with."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.errors import ConfigError
from relatum.models.model import Model

Precision = Literal["fp32", "bf16"]


def check_precision(name: str) -> None:
    """Refuse a precision that there is not."""
    if name not in get_args(Precision):
        known = " or ".join(map(repr, get_args(Precision)))
        raise ConfigError(f"precision {name!r}: there is none of that name; use {known}")


def set_precision(model: Model, precision: Precision) -> None:
    """Let a model compute in this precision from now on, by casting its weights once.

    Sums inside products, norms and softmaxes are float32 all the same, and so are the probabilities that are decoded.
    An ELMo stays as it is: only its features are narrowed.
    """
    check_precision(precision)
    if precision == "bf16":
        model.network.to(torch.bfloat16)
        if isinstance(model.encoder, HuggingFaceEncoder):
            model.encoder.narrow(torch.bfloat16)
