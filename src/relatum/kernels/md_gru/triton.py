"""A layer on a GPU as one operator of torch: a large product, and the whole scan in one Triton kernel.

The input, the states of the layer below and two ones, for the biases, lie side by side in a row for each cell, so that
all that does not depend on neighbours is one product, and so are its gradients. Its weights are gathered from the
parameters: the kernels want the values of a hidden unit next to each other, see `triton_scan`.
"""

# An operator's stand-in for the compiler has its arguments, used or not.
# ruff: noqa: ARG001

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from relatum.kernels.md_gru import hopper_launch as hopper
from relatum.kernels.md_gru.gpu import padded_width
from relatum.kernels.md_gru.spec import CellSpec, Direction, Form, Weights
from relatum.kernels.md_gru.triton_launch import VALUES, fits, scan_back, scan_forward

_ALIGNED = 8
"""The values in the row of a cell are padded to a multiple of this number; otherwise products are slow."""


def explain(device: str | None) -> tuple[bool, str]:
    """Return whether the kernels can run, and why or why not."""
    if importlib.util.find_spec("triton") is None:
        return False, "Triton is not installed; on Linux: pip install triton"
    if os.environ.get("TRITON_INTERPRET") == "1":
        return True, "interpreted on the CPU, for tests (TRITON_INTERPRET=1)"
    if device == "cpu" or not torch.cuda.is_available():
        return False, "it needs a CUDA device"
    if torch.cuda.get_device_capability() < (8, 0):
        return False, "it needs a GPU of compute capability 8.0 or more"
    own = hopper.are_for(torch.device("cuda", torch.cuda.current_device()))
    more = "; in half precision one written for this GPU" if own else ""
    return True, f"the whole scan of a layer in one kernel, on a CUDA device{more}"


def find_refusal(width: int, spec: CellSpec, dtype: torch.dtype) -> str | None:
    """Return why the kernels cannot compute states of a width; None if they can."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if fits(width, spec, dtype, device):
        return None
    return f"the weights of states {width} wide do not fit into the memory of this GPU's multiprocessors"


def md_gru_triton(
    inputs: Tensor,
    below: Tensor | None,
    mask: Tensor,
    weights: Weights,
    directions: Sequence[Direction],
    spec: CellSpec,
) -> Tensor:
    """See `op.md_gru`."""
    n_batch, n_words, _, input_width = inputs.shape
    n_directions, width = len(directions), spec.width(weights)
    form = Form(spec, tuple(directions))
    if "below" not in spec.read:
        below = None
    layout = form.to_text(), input_width, width, below is not None, inputs.dtype, inputs.device
    n_rows, order, ones = _layout(*layout)
    parts = [inputs.reshape(-1, input_width)]
    if below is not None:
        parts.append(below.reshape(-1, n_directions * width))
    n_before = sum(part.shape[1] for part in parts)
    parts.append(ones.repeat(len(parts[0]), 1))  # not expanded: what lies in one piece is joined twice as fast
    parameters = torch.cat([*(part.flatten() for part in weights), weights.input.new_zeros(1)]).to(inputs.dtype)
    gathered = _take(parameters, order)
    n_joined = n_rows * n_directions * width * VALUES
    states, _ = torch.ops.relatum.md_gru_triton(
        torch.cat(parts, -1),
        gathered[:n_joined].view(n_rows, -1),
        gathered[n_joined:].view(n_directions, -1, width * VALUES),
        mask,
        -1 if below is None else input_width,
        n_before,
        form.to_text(),
        torch.is_grad_enabled(),
    )
    return cast("Tensor", states[:-1].unflatten(0, (n_batch, n_words, n_words)))


class _Take(torch.autograd.Function):
    """A reordering that takes each value at most once, except the last; the gradient is put back without adding up."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        ctx.n_values = len(values)
        return values[order]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return grad.new_zeros(ctx.n_values).scatter_(0, order, grad), None


_take = cast("Callable[[Tensor, Tensor], Tensor]", _Take.apply)


def _layout(
    text: str, input_width: int, width: int, reads_below: bool, dtype: torch.dtype, device: torch.device
) -> tuple[int, Tensor, Tensor]:
    """Return the number of values of a cell, the places of its weights among the parameters, and the ones for biases.

    The parameters follow each other, and then a zero; behind the weights of a cell are the weights of the neighbours.
    """
    return _find_layout(text, input_width, width, reads_below, dtype, device)


# A graph of the compiler keeps them; see `backend.select`.
_layout._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=64)
def _find_layout(
    text: str, input_width: int, width: int, reads_below: bool, dtype: torch.dtype, device: torch.device
) -> tuple[int, Tensor, Tensor]:
    form = Form.from_text(text)
    spec, n = form.spec, len(form.directions)
    columns = spec.n_parts * width
    sizes = [n * input_width * columns, n * columns, n * len(spec.slots) * width * columns, n * columns]
    starts = [sum(sizes[:one]) for one in range(5)]
    nothing = starts[4]
    of_input = torch.arange(starts[0], starts[1]).view(n, input_width, columns)
    of_input_bias = torch.arange(starts[1], starts[2]).view(n, 1, columns)
    of_state = torch.arange(starts[2], starts[3]).view(n, -1, columns)
    of_state_bias = torch.arange(starts[3], starts[4]).view(n, 1, columns)

    def spread(places: Tensor, candidate: int) -> Tensor:
        """(D, rows, parts · H) to (D, rows, H · VALUES), the candidate's part as the value of that number."""
        parts = list(places.unflatten(-1, (spec.n_parts, width)).unbind(2))
        empty = torch.full_like(parts[0], nothing)
        values = [empty] * VALUES
        values[: spec.n_parts - 1] = parts[:-1]
        values[candidate] = parts[-1]
        return torch.stack(values, -1).flatten(-2)

    def rows(slot: str) -> Tensor:
        number = [*spec.slots].index(slot)  # type: ignore[arg-type]
        return spread(of_state[:, number * width : (number + 1) * width], _V)

    blocks = [spread(of_input, _U).transpose(0, 1)]
    if reads_below:
        own = rows("below")
        for direction in range(n):  # each direction reads its own states
            block = torch.full((width, n, width * VALUES), nothing)
            block[:, direction] = own[direction]
            blocks.append(block)
    blocks += [spread(of_input_bias, _U).transpose(0, 1), spread(of_state_bias, _V).transpose(0, 1)]
    n_rows = sum(map(len, blocks))
    n_padding = -n_rows % _ALIGNED
    joined = torch.cat([*blocks, torch.full((n_padding, n, width * VALUES), nothing)])
    recurrent = torch.cat([rows(slot) for slot in spec.recurrent], 1)
    if hopper.serves(width, form, dtype, device):
        units = hopper.order_of_units(width)
        joined, recurrent = (one.unflatten(2, (width, VALUES))[:, :, units].flatten(2) for one in (joined, recurrent))
    with torch.inference_mode(False):  # they may serve training later
        order = torch.cat((joined.flatten(), recurrent.flatten())).to(device)
        ones = (torch.arange(2 + n_padding, device=device) < 2).to(dtype)
    return n_rows + n_padding, order, ones


_V, _U = 5, 6
"""The places of v and u among a unit's values; before them are r, z and up to three λ."""


def _forward(
    cells: Tensor, joined: Tensor, recurrent: Tensor, mask: Tensor, below: int, ones: int, form: str, keep: bool
) -> tuple[Tensor, Tensor]:
    """Return the states of all cells, and the open gates, which the backward pass needs.

    `below` is the column where the states below begin, or −1; `ones` is the column where the two ones begin.
    """
    shape = Form.from_text(form)
    # One cell more than there are: the kernels read beyond the values of the last.
    projected = cells.new_empty(len(cells) + 1, joined.shape[1])
    torch.mm(cells, joined, out=projected[:-1])
    projected = projected.unflatten(1, (len(shape.directions), -1))
    return scan_forward(projected, cells, recurrent, mask, below, shape, keep)


def _fake_forward(
    cells: Tensor, joined: Tensor, recurrent: Tensor, mask: Tensor, below: int, ones: int, form: str, keep: bool
) -> tuple[Tensor, Tensor]:
    n_directions, _, columns = recurrent.shape
    n_cells, width = cells.shape[0] + 1, columns // VALUES
    return (
        cells.new_empty(n_cells, n_directions, padded_width(width))[..., :width],
        cells.new_empty(n_cells if keep else 0, n_directions, columns),
    )


def _backward(
    grad: Tensor,
    gates: Tensor,
    states: Tensor,
    cells: Tensor,
    joined: Tensor,
    recurrent: Tensor,
    mask: Tensor,
    below: int,
    ones: int,
    form: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the cells and of both weights."""
    shape = Form.from_text(form)
    projected, grad_cells, neighbours = scan_back(
        grad.contiguous(), gates, states, cells, recurrent, mask, below, shape
    )
    flat = projected.flatten(1)
    grad_recurrent = neighbours.permute(1, 2, 0) @ projected.transpose(0, 1)
    grad_joined = cells.mT @ flat
    if flat.dtype == torch.float32:  # where a product with ones may round what it adds up, to TF32
        grad_joined[ones : ones + 2] = flat.sum(0)
    return grad_cells.addmm_(flat, joined.mT), grad_joined, grad_recurrent


def _fake_backward(
    grad: Tensor,
    gates: Tensor,
    states: Tensor,
    cells: Tensor,
    joined: Tensor,
    recurrent: Tensor,
    mask: Tensor,
    below: int,
    ones: int,
    form: str,
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(cells), torch.empty_like(joined), torch.empty_like(recurrent)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    cells, joined, recurrent, mask, *rest, _ = inputs
    states, gates = output
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(gates, states, cells, joined, recurrent, mask)
    ctx.rest = rest


def _differentiate(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 8
    grads = torch.ops.relatum.md_gru_triton_backward(grad, *ctx.saved_tensors, *ctx.rest)
    return *grads, None, None, None, None, None


_LIBRARY = torch.library.Library("relatum", "FRAGMENT")
_LIBRARY.define(
    "md_gru_triton(Tensor cells, Tensor joined, Tensor recurrent, Tensor mask, int below, int ones, str form, "
    "bool keep) -> (Tensor, Tensor)"
)
_LIBRARY.define(
    "md_gru_triton_backward(Tensor grad, Tensor gates, Tensor states, Tensor cells, Tensor joined, Tensor recurrent, "
    "Tensor mask, int below, int ones, str form) -> (Tensor, Tensor, Tensor)"
)
_LIBRARY.impl("md_gru_triton", _forward, "CompositeExplicitAutograd")
_LIBRARY.impl("md_gru_triton_backward", _backward, "CompositeExplicitAutograd")
torch.library.register_fake("relatum::md_gru_triton", _fake_forward, lib=_LIBRARY)
torch.library.register_fake("relatum::md_gru_triton_backward", _fake_backward, lib=_LIBRARY)
torch.library.register_autograd("relatum::md_gru_triton", _differentiate, setup_context=_save, lib=_LIBRARY)
