"""The gates of a cell and their derivatives, value by value, in place, for any number of cells at once.

The last dimension of `gates` holds, H values each, r, z, λ… and, where reset comes after the projection, v. Forward
turns projections into gates; backward turns gates into the gradients of the projections. So one buffer serves all
three, and a scan needs no other memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Previous = Sequence[Tensor | None]
"""The states in the slots of a cell; None where the slot is not read and its state zero."""


def open_gates(gates: Tensor, n_lambdas: int, width: int) -> None:
    """Turn the projections of r, z and λ into gates."""
    if n_lambdas < 2:
        gates[..., : (2 + n_lambdas) * width].sigmoid_()
    else:
        gates[..., : 2 * width].sigmoid_()
        shares = gates[..., 2 * width : (2 + n_lambdas) * width].unflatten(-1, (n_lambdas, width))
        shares.copy_(torch.softmax(shares, -2))


def mix(gates: Tensor, previous: Previous, n_lambdas: int, width: int) -> Tensor | None:
    """Return the sum of the slots' states, weighted by λ; None for zero."""
    mixed: Tensor | None = None
    for slot, state in enumerate(previous):
        if state is None:
            continue
        share = share_of(gates, slot, n_lambdas, width)
        part = state if share is None else share * state
        mixed = part if mixed is None else mixed + part
    return mixed


def share_of(gates: Tensor, slot: int, n_lambdas: int, width: int) -> Tensor | None:
    """Return λ of a slot; None for 1. Two slots share one gate: the second has what the first leaves."""
    if n_lambdas == 0:
        return None
    if n_lambdas == 1:
        first = gates[..., 2 * width : 3 * width]
        return first if slot == 0 else 1 - first
    return gates[..., (2 + slot) * width : (3 + slot) * width]


def update(gates: Tensor, candidate: Tensor, previous: Previous, mask: Tensor, n_lambdas: int, width: int) -> Tensor:
    """Return the new states, from open gates and the candidate; zero where there is no word."""
    z = gates[..., width : 2 * width]
    mixed = mix(gates, previous, n_lambdas, width)
    if mixed is None:
        mixed = torch.zeros_like(candidate)
    return torch.where(mask, torch.lerp(mixed, candidate, z), 0)


def forward_after(
    gates: Tensor, candidate: Tensor, previous: Previous, mask: Tensor, n_lambdas: int, width: int
) -> Tensor:
    """Return the new states where reset comes after the projection; `candidate` holds u and then the candidate."""
    open_gates(gates, n_lambdas, width)
    r, v = gates[..., :width], gates[..., -width:]
    torch.tanh(torch.addcmul(candidate, r, v), out=candidate)
    return update(gates, candidate, previous, mask, n_lambdas, width)


def backward_update(
    gates: Tensor, candidate: Tensor, previous: Previous, grad: Tensor, n_lambdas: int, width: int
) -> tuple[Tensor, list[Tensor | None]]:
    """Return the gradient of the candidate before its tanh, and the gradients of the slots' states through λ.

    Turns z and λ into the gradients of their projections; leaves r as it is.
    """
    z = gates[..., width : 2 * width]
    mixed = mix(gates, previous, n_lambdas, width)
    grad_candidate = grad * z
    grad_mixed = grad - grad_candidate
    grad_activation = grad_candidate * (1 - candidate * candidate)
    difference = candidate if mixed is None else candidate - mixed
    # d z·(c − m) through the sigmoid: z (1 − z) (c − m).
    grad_z = grad_mixed * z * difference
    grads: list[Tensor | None] = []
    for slot, state in enumerate(previous):
        share = share_of(gates, slot, n_lambdas, width)
        grad_state = grad_mixed if share is None else grad_mixed * share
        grads.append(None if state is None else grad_state)
    if n_lambdas:
        base = grad_mixed.new_zeros(()) if mixed is None else mixed
        for slot in range(n_lambdas):
            # Through the softmax, and through the sigmoid of two slots alike: λ (state − mixture).
            share = gates[..., (2 + slot) * width : (3 + slot) * width]
            state = previous[slot]
            share.mul_(-base if state is None else state - base).mul_(grad_mixed)
    z.copy_(grad_z)
    return grad_activation, grads


def backward_after(
    gates: Tensor, candidate: Tensor, previous: Previous, grad: Tensor, n_lambdas: int, width: int
) -> list[Tensor | None]:
    """Return the gradients of the slots' states through λ; turn `gates` and `candidate` into projections' gradients."""
    activation, grads = backward_update(gates, candidate, previous, grad, n_lambdas, width)
    r, v = gates[..., :width], gates[..., -width:]
    grad_v = activation * r
    r.copy_(activation * v * r * (1 - r))
    v.copy_(grad_v)
    candidate.copy_(activation)
    return grads
