"""The one function that the rest of the package calls."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from relatum.kernels.backend import select
from relatum.kernels.md_gru.reference import md_gru_reference
from relatum.kernels.md_gru.scan import Steps, scan
from relatum.kernels.md_gru.spec import CellSpec, Direction, Weights
from relatum.kernels.md_gru.triton import TritonSteps
from relatum.kernels.md_gru.wavefront import Wavefront

_STEPS: dict[str, Steps] = {"wavefront": Wavefront(), "triton": TritonSteps()}


def md_gru(
    inputs: Tensor,
    below: Tensor | None,
    mask: Tensor,
    weights: Weights,
    directions: Sequence[Direction],
    spec: CellSpec,
) -> Tensor:
    """The states of every cell in every direction (equations 3 to 6): (B, N, N, D, H).

    `inputs` is X_l, (B, N, N, X); `below` the states of the layer below, (B, N, N, D, H), each direction reading its
    own, or None for zero; `mask` is (B, N), true where there is a word. States are zero in cells that have none.
    """
    backend = select(inputs.device.type, spec.reset, bool(spec.recurrent))
    if backend == "reference":
        return md_gru_reference(inputs, below, mask, weights, directions, spec)
    return scan(inputs, below, mask, weights, directions, spec, _STEPS[backend])
