"""The interface of a runtime, and the choice between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from relatum.encoders.base import EncoderInput, EncoderOutput
from relatum.models.model import Model
from relatum.models.outputs import Outputs

if TYPE_CHECKING:
    from relatum.models.network import TableSequenceNetwork

RuntimeName = Literal["auto", "native", "torch"]
"""A choice of runtime: "native" is compiled code without torch, "torch" plain PyTorch, "auto" the best that can run."""


class Runtime(Protocol):
    """A way to read with a model; a new one is a module of its own and a line in `select`."""

    def read(self, batch: EncoderInput, keep_layers: bool = False, features: EncoderOutput | None = None) -> Outputs:
        """Return the scores of a batch without gradients; a GPU may still be computing them.

        Without `keep_layers` the outputs of the layers may be left out. Features are computed if they are not given.
        """


@dataclass(frozen=True, slots=True)
class RuntimeReport:
    """A runtime, and why it is used here or why not."""

    name: str
    is_used: bool
    reason: str


def select(model: Model) -> Runtime:
    """Return the fastest runtime for a model on the device where its weights are.

    Precision needs no argument: `precision.set_precision` has cast the weights that it is about.
    """
    from relatum.runtime.native.encoder import with_native_encoder
    from relatum.runtime.native.runtime import NativeRuntime
    from relatum.runtime.torch import TorchRuntime

    model = with_native_encoder(model)
    native = NativeRuntime(model)
    return native if native.find_refusal() is None else TorchRuntime(model)


def explain(model: Model | None = None) -> tuple[RuntimeReport, ...]:
    """Return all runtimes, the fastest first, and which of them reads with a model; with the shipped ones if None."""
    if model is None:
        from relatum.runtime.native.model import explain_machine

        is_native, reason = explain_machine()
    else:
        from relatum.runtime.native.runtime import explain_native

        is_native, reason = explain_native(model)
    return (
        RuntimeReport("native", is_native, reason),
        RuntimeReport("torch", not is_native, "plain PyTorch, on any device and for every model"),
    )


@contextmanager
def evaluating(network: TableSequenceNetwork) -> Iterator[bool]:
    """Within the block, read without dropout; yield True if the network is being trained."""
    was_training = network.training
    if was_training:
        network.eval()
    try:
        yield was_training
    finally:
        if was_training:
            network.train()
