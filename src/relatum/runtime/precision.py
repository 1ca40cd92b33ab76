"""The precision that a model computes in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from relatum.errors import ConfigError

if TYPE_CHECKING:
    from relatum.models.model import Model
    from relatum.models.network import TableSequenceNetwork

Precision = Literal["fp32", "bf16", "int8"]


def check_precision(name: str) -> None:
    """Refuse a precision that does not exist."""
    if name not in get_args(Precision):
        known = ", ".join(map(repr, get_args(Precision)))
        raise ConfigError(f"precision {name!r}: there is none of that name; use {known}")


def set_precision(model: Model, precision: Precision) -> None:
    """Let a model compute in this precision from now on, by casting weights once.

    In int8 these are the weights of the encoder, a BERT that compiled code reads on a CPU; everything else stays in
    float32.

    In bf16 these are the weights of products over tables, which take most of the time. The rest stays in float32: the
    sequence, the scores of tags and of attention, and the sums that the encoder carries from layer to layer. Rounding
    the inputs of the encoder's products to bfloat16 would change answers more than everything else. On a CPU with AMX,
    each product of the encoder, and of the sequence, is therefore made of several in bfloat16, which keep 16 bits;
    elsewhere these products are float32. An ELMo stays as it is everywhere.
    """
    check_precision(precision)
    if precision == "bf16":
        import torch

        for layer in model.network.layers:
            for part in (layer.pairing, layer.table_encoder):
                if part is not None:
                    part.to(torch.bfloat16)
    elif precision == "int8":
        from relatum.runtime.native.encoder import round_encoder

        round_encoder(model)


def has_half_precision(network: TableSequenceNetwork) -> bool:
    """True if `set_precision` has cast the weights of products over tables to bfloat16."""
    import torch

    return any(weight.dtype == torch.bfloat16 for weight in network.layers.parameters())
