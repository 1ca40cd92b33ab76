"""A layer as one operator of torch: large products around a scan that a fused kernel makes in one go.

What depends on the input or on the layer below is projected before the scan, and the gradients of all weights are
products after it; in between, a `Scanner` visits the cells. Tables stay as they lie: a scanner finds its way along the
anti-diagonals by itself, and touches no cell outside the sentences.
"""

# An operator's stand-in for the compiler has its arguments, used or not.
# ruff: noqa: ARG001

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from relatum.kernels.md_gru.spec import CellSpec, Direction, Form, Predecessor, Weights


class Scanner(Protocol):
    """The scan of a device, forward and backward.

    Reset comes after the projection, and at least one neighbour is read. Cells are rows of tensors: with C cells of all
    tables, `projected` is (C, D, (1 + parts) · H), without gaps: u, r, z, λ…, v, as far as they do not depend on the
    neighbours. `below` is (C, D, H), or None for zero. `recurrent` is (D, sides · H, parts · H), the weights of the
    neighbours that are read, in the order up, left. `tables` is (B, 3), 32-bit integers: the first cell of a sentence's
    table, the cells from one row of it to the next, and the number of words. No sentence has more than `n_words`.
    """

    def forward(
        self,
        projected: Tensor,
        below: Tensor | None,
        recurrent: Tensor,
        tables: Tensor,
        n_words: int,
        form: Form,
        keep: bool,
    ) -> tuple[Tensor, Tensor]:
        """Return the states, (C, D, H), zero outside the tables; and, with `keep`, the projections with open gates.

        The latter are candidate, r, z, λ…, v, undefined outside the tables; without `keep` they have no cells.
        """

    def layer(self, inputs: Tensor, below: Tensor | None, weights: Weights, tables: Tensor, form: Form) -> Tensor:
        """Return the states that `forward` finds, from the inputs, (C, X), and the weights; makes the products too."""

    def backward(
        self,
        grad: Tensor,
        gates: Tensor,
        states: Tensor,
        below: Tensor | None,
        recurrent: Tensor,
        tables: Tensor,
        n_words: int,
        form: Form,
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return the gradient of the projections, zero outside the tables; of `below`, by way of λ; and the neighbours.

        The neighbours are the states that the cells have read, (C, D, sides · H), zero where there was none.
        """


_SCANNERS: dict[str, Scanner] = {}


def register(name: str, scanner: Scanner) -> None:
    """Make a scanner known to the operator by the name of its backend."""
    _SCANNERS[name] = scanner


def fused(
    inputs: Tensor,
    below: Tensor | None,
    mask: Tensor,
    weights: Weights,
    directions: Sequence[Direction],
    spec: CellSpec,
    backend: str,
) -> Tensor:
    """See `op.md_gru`."""
    n_batch, n_words, _, input_width = inputs.shape
    n_directions, width = len(directions), spec.width(weights)
    states, _ = torch.ops.relatum.md_gru(
        inputs.reshape(-1, input_width),
        None if below is None or "below" not in spec.read else below.reshape(-1, n_directions, width),
        weights.input,
        weights.input_bias,
        weights.state,
        weights.state_bias,
        _padded_tables(mask),
        n_words,
        Form(spec, tuple(directions)).to_text(),
        backend,
        torch.is_grad_enabled(),
    )
    return cast("Tensor", states).view(n_batch, n_words, n_words, n_directions, width)


def _padded_tables(mask: Tensor) -> Tensor:
    """Return the `tables` of a `Scanner`: n_words × n_words cells each, one after the other, with a corner filled."""
    n_batch, n_words = mask.shape
    first = torch.arange(0, n_batch * n_words**2, n_words**2, device=mask.device, dtype=torch.int32)
    length = mask.sum(1, dtype=torch.int32)
    return torch.stack((first, torch.full_like(length, n_words), length), 1)


def _layer(
    inputs: Tensor,
    below: Tensor | None,
    input_weight: Tensor,
    input_bias: Tensor,
    state_weight: Tensor,
    state_bias: Tensor,
    tables: Tensor,
    n_words: int,
    form: str,
    backend: str,
    keep: bool,
) -> tuple[Tensor, Tensor]:
    """Return the states of all cells, and the open gates, which the backward pass needs; cells are rows."""
    shape = Form.from_text(form)
    n_directions, _, columns = input_weight.shape
    width = columns // shape.spec.n_parts
    scanner = _SCANNERS[backend]
    if not keep:
        weights = Weights(input_weight, input_bias, state_weight, state_bias)
        states = scanner.layer(inputs, below, weights, tables, shape)
        return states, inputs.new_empty(0, n_directions, columns + width)
    weight, bias = _joined_weight(input_weight, width), _joined_bias(input_bias, state_bias, width)
    projected = torch.addmm(bias, inputs, weight).unflatten(1, (len(shape.directions), -1))
    if below is not None:
        for direction, rows in enumerate(_rows(state_weight, shape.spec, ("below",))):
            projected[:, direction, width:].addmm_(below[:, direction], rows)
    recurrent = _rows(state_weight, shape.spec, shape.spec.recurrent)
    return scanner.forward(projected, below, recurrent, tables, n_words, shape, keep)


def _fake_layer(
    inputs: Tensor,
    below: Tensor | None,
    input_weight: Tensor,
    input_bias: Tensor,
    state_weight: Tensor,
    state_bias: Tensor,
    tables: Tensor,
    n_words: int,
    form: str,
    backend: str,
    keep: bool,
) -> tuple[Tensor, Tensor]:
    n_directions, _, columns = input_weight.shape
    width = columns // Form.from_text(form).spec.n_parts
    n_kept = inputs.shape[0] if keep else 0
    return (
        inputs.new_empty(inputs.shape[0], n_directions, width),
        inputs.new_empty(n_kept, n_directions, columns + width),
    )


def _layer_backward(
    grad: Tensor,
    gates: Tensor,
    states: Tensor,
    inputs: Tensor,
    below: Tensor | None,
    input_weight: Tensor,
    state_weight: Tensor,
    tables: Tensor,
    n_words: int,
    form: str,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of the inputs, of `below` (empty if `below` is None), and of the four weights."""
    shape = Form.from_text(form)
    spec, width, n_directions = shape.spec, states.shape[2], states.shape[1]
    recurrent = _rows(state_weight, spec, spec.recurrent)
    projected, grad_below, neighbours = _SCANNERS[backend].backward(
        grad.contiguous(), gates, states, below, recurrent, tables, n_words, shape
    )
    flat = projected.flatten(1)
    grad_inputs = flat @ _joined_weight(input_weight, width).mT
    grad_joined = (inputs.mT @ flat).unflatten(1, (n_directions, -1)).transpose(0, 1)
    grad_input_weight = torch.cat((grad_joined[..., width:-width], grad_joined[..., :width]), -1)
    sums = projected.sum(0)  # half precision is summed in float32
    grad_input_bias = torch.cat((sums[:, width:-width], sums[:, :width]), -1)
    grad_state_bias = sums[:, width:].clone()
    grad_state_weight = torch.zeros_like(state_weight)
    read = {"below": below, **dict(zip(spec.recurrent, neighbours.split(width, 2), strict=True))}
    for slot, rows in zip(spec.slots, grad_state_weight.split(width, 1), strict=True):
        seen = read.get(slot)
        if seen is not None:
            for direction in range(n_directions):
                torch.mm(seen[:, direction].mT, projected[:, direction, width:], out=rows[direction])
    if below is None or grad_below is None:
        grad_below = grad.new_empty(0)
    else:
        for direction, rows in enumerate(_rows(state_weight, spec, ("below",))):
            grad_below[:, direction].addmm_(projected[:, direction, width:], rows.mT)
    return grad_inputs, grad_below, grad_input_weight, grad_input_bias, grad_state_weight, grad_state_bias


def _fake_backward(
    grad: Tensor,
    gates: Tensor,
    states: Tensor,
    inputs: Tensor,
    below: Tensor | None,
    input_weight: Tensor,
    state_weight: Tensor,
    tables: Tensor,
    n_words: int,
    form: str,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    n_directions, _, columns = input_weight.shape
    return (
        torch.empty_like(inputs),
        grad.new_empty(0) if below is None else torch.empty_like(below),
        torch.empty_like(input_weight),
        input_weight.new_empty(n_directions, columns),
        torch.empty_like(state_weight),
        state_weight.new_empty(n_directions, columns),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    cells, below, input_weight, _, state_weight, _, tables, n_words, form, backend, _ = inputs
    states, gates = output
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(gates, states, cells, below, input_weight, state_weight, tables)
    ctx.rest = n_words, form, backend


def _differentiate(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 11
    gates, states, cells, below, input_weight, state_weight, tables = ctx.saved_tensors
    grads = torch.ops.relatum.md_gru_backward(
        grad, gates, states, cells, below, input_weight, state_weight, tables, *ctx.rest
    )
    grad_inputs, grad_below, *of_weights = grads
    return grad_inputs, None if below is None else grad_below, *of_weights, None, None, None, None, None


def _joined_weight(weight: Tensor, width: int) -> Tensor:
    """Return the input's projection, (X, D · (1 + parts) · H), all directions side by side; it has no part in v."""
    gates, candidate = weight[..., :-width], weight[..., -width:]
    return torch.cat((candidate, gates, torch.zeros_like(candidate)), -1).transpose(0, 1).flatten(1)


def _joined_bias(of_input: Tensor, of_state: Tensor, width: int) -> Tensor:
    gates = of_input[:, :-width] + of_state[:, :-width]
    return torch.cat((of_input[:, -width:], gates, of_state[:, -width:]), -1).flatten()


def _rows(state_weight: Tensor, spec: CellSpec, slots: Sequence[Predecessor]) -> Tensor:
    """Return the rows of the states' projection that belong to the slots: (D, slots · H, parts · H)."""
    width = state_weight.shape[2] // spec.n_parts
    places = [spec.slots.index(slot) for slot in slots]
    if places == list(range(places[0], places[0] + len(places))):  # without a copy
        return state_weight[:, places[0] * width : (places[-1] + 1) * width]
    return torch.cat([state_weight[:, place * width : (place + 1) * width] for place in places], 1)


# The plain way to define operators: `torch.library.custom_op` imports the compiler on the first call, a second or more.
_LIBRARY = torch.library.Library("relatum", "DEF")
_LIBRARY.define(
    "md_gru(Tensor inputs, Tensor? below, Tensor input_weight, Tensor input_bias, Tensor state_weight, "
    "Tensor state_bias, Tensor tables, int n_words, str form, str backend, bool keep) -> (Tensor, Tensor)"
)
_LIBRARY.define(
    "md_gru_backward(Tensor grad, Tensor gates, Tensor states, Tensor inputs, Tensor? below, Tensor input_weight, "
    "Tensor state_weight, Tensor tables, int n_words, str form, str backend) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_LIBRARY.impl("md_gru", _layer, "CompositeExplicitAutograd")
_LIBRARY.impl("md_gru_backward", _layer_backward, "CompositeExplicitAutograd")
torch.library.register_fake("relatum::md_gru", _fake_layer, lib=_LIBRARY)
torch.library.register_fake("relatum::md_gru_backward", _fake_backward, lib=_LIBRARY)
torch.library.register_autograd("relatum::md_gru", _differentiate, setup_context=_save, lib=_LIBRARY)
