"""The definition: appendix A of the paper, one cell after the other.

The equations are the appendix's. Two forms that the text leaves open follow the published numbers: the state part of
the candidate has a bias of its own, inside the product with r, and states are zero where there is no word.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from relatum.kernels.md_gru.spec import CellSpec, Direction, Weights


def md_gru_reference(
    inputs: Tensor,
    below: Tensor | None,
    mask: Tensor,
    weights: Weights,
    directions: Sequence[Direction],
    spec: CellSpec,
) -> Tensor:
    """See `op.md_gru`."""
    tables = []
    for d, direction in enumerate(directions):
        own = Weights(weights.input[d], weights.input_bias[d], weights.state[d], weights.state_bias[d])
        tables.append(_run(inputs, None if below is None else below[..., d, :], mask, own, direction, spec))
    return torch.stack(tables, dim=3)


def _run(
    inputs: Tensor, below: Tensor | None, mask: Tensor, weights: Weights, direction: Direction, spec: CellSpec
) -> Tensor:
    """Run one direction: (B, N, N, X) to (B, N, N, H)."""
    n_words = inputs.shape[1]
    width = weights.input.shape[1] // spec.n_parts
    nothing = inputs.new_zeros(inputs.shape[0], width)
    rows = range(n_words) if direction[0] == "n" else range(n_words - 1, -1, -1)
    columns = range(n_words) if direction[1] == "w" else range(n_words - 1, -1, -1)
    row_step, column_step = rows.step, columns.step
    states: dict[tuple[int, int], Tensor] = {}
    for i in rows:
        for j in columns:
            around = {
                "below": nothing if below is None else below[:, i, j],
                "up": states.get((i - row_step, j), nothing),
                "left": states.get((i, j - column_step), nothing),
            }
            previous = [around[slot] if slot in spec.read else nothing for slot in spec.slots]
            real = (mask[:, i] & mask[:, j]).unsqueeze(-1)
            states[i, j] = torch.where(real, md_gru_cell(inputs[:, i, j], previous, weights, spec), nothing)
    cells = [states[i, j] for i in range(n_words) for j in range(n_words)]
    table: Tensor = torch.stack(cells, 1).unflatten(1, (n_words, n_words))
    return table


def md_gru_cell(x: Tensor, previous: Sequence[Tensor], weights: Weights, spec: CellSpec) -> Tensor:
    """Return the state of one cell, from its input (B, X) and the states in its slots, (B, H) each."""
    t_prev = torch.cat(list(previous), -1) if previous else x.new_zeros(len(x), 0)
    n_gates = spec.n_parts - 1
    from_input = torch.stack((x @ weights.input + weights.input_bias).chunk(spec.n_parts, -1))
    from_state = torch.stack((t_prev @ weights.state + weights.state_bias).chunk(spec.n_parts, -1))
    gates = from_input[:n_gates] + from_state[:n_gates]
    r, z = torch.sigmoid(gates[0]), torch.sigmoid(gates[1])
    if spec.reset == "after":
        candidate = torch.tanh(from_input[-1] + r * from_state[-1])
    else:
        own = slice(-from_input.shape[-1], None)
        kept = t_prev * r.repeat(1, len(previous))
        candidate = torch.tanh(from_input[-1] + kept @ weights.state[:, own] + weights.state_bias[own])
    mixed = torch.zeros_like(candidate)
    for share, state in zip(_shares(gates[2:], len(previous)), previous, strict=True):
        mixed = mixed + share * state
    return z * candidate + (1 - z) * mixed


def _shares(gates: Tensor, n_slots: int) -> Sequence[Tensor]:
    """Return λ of each slot; the λ sum to 1 for every hidden unit."""
    if n_slots < 2:
        return [gates.new_ones(1)] * n_slots
    if n_slots == 2:
        first = torch.sigmoid(gates[0])
        return [first, 1 - first]
    return list(torch.softmax(gates, 0))
