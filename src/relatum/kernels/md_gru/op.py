"""The one function that the rest of the package calls."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from relatum.kernels.backend import select
from relatum.kernels.md_gru.cpu_scanner import CpuScanner
from relatum.kernels.md_gru.fused import fused, register
from relatum.kernels.md_gru.reference import md_gru_reference
from relatum.kernels.md_gru.scan import scan
from relatum.kernels.md_gru.spec import CellSpec, Direction, Weights
from relatum.kernels.md_gru.triton import md_gru_triton
from relatum.kernels.md_gru.wavefront import Wavefront

register("cpu", CpuScanner())


def md_gru(
    inputs: Tensor,
    below: Tensor | None,
    mask: Tensor,
    weights: Weights,
    directions: Sequence[Direction],
    spec: CellSpec,
) -> Tensor:
    """Return the states of every cell in every direction (equations 3 to 6): (B, N, N, D, H).

    `inputs` is X_l, (B, N, N, X); `below` the states of the layer below, (B, N, N, D, H), each direction reading its
    own, or None for zero; `mask` is (B, N), true where there is a word; words come first. States are zero in cells that
    have no word. Under autocast everything is computed in its type of numbers, sums within a cell in single precision.
    """
    device = inputs.device.type
    if torch.is_autocast_enabled(device):
        to = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            return md_gru(inputs.to(to), None if below is None else below.to(to), mask, weights, directions, spec)
    backend = select(device, spec, inputs.dtype, spec.width(weights))
    if backend == "triton":
        return md_gru_triton(inputs, below, mask, weights, directions, spec)
    if weights.input.dtype != inputs.dtype:
        weights = Weights(*(part.to(inputs.dtype) for part in weights))
    if backend == "reference":
        return md_gru_reference(inputs, below, mask, weights, directions, spec)
    if backend == "wavefront":
        return scan(inputs, below, mask, weights, directions, spec, Wavefront())
    return fused(inputs, below, mask, weights, directions, spec, backend)
