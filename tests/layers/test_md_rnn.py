"""The layer of recurrent networks: which values of the layer below each direction reads, and how it starts."""

from __future__ import annotations

from math import sqrt

import pytest
import torch
from torch import Tensor

from relatum.kernels.backend import use_backend
from relatum.kernels.md_gru import CellSpec, Direction, Reset
from relatum.layers.md_rnn import MDRNN

X, N = 5, 3
ALL: tuple[Direction, ...] = ("nw", "ne", "sw", "se")


def make(directions: tuple[Direction, ...], own: int = 3, spec: CellSpec | None = None) -> MDRNN:
    torch.manual_seed(0)
    return MDRNN(X, own * len(directions), directions, spec or CellSpec()).double()


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def cell_by_appendix_a(x: Tensor, below: Tensor, up: Tensor, left: Tensor, rnn: MDRNN, d: int) -> Tensor:
    """One cell of one direction, the equations of appendix A one after the other.

    The state part of the candidate has its own bias inside the product with the reset gate.
    """
    own = len(below)
    previous = torch.cat((below, up, left))

    def part(number: int) -> tuple[Tensor, Tensor]:
        columns = slice(number * own, (number + 1) * own)
        of_input = x @ rnn.input[d][:, columns] + rnn.input_bias[d][columns]
        return of_input, previous @ rnn.state[d][:, columns] + rnn.state_bias[d][columns]

    r, z = torch.sigmoid(sum(part(0))), torch.sigmoid(sum(part(1)))  # type: ignore[arg-type]
    shares = torch.softmax(torch.stack([sum(part(2 + m)) for m in range(3)]), 0)  # type: ignore[misc]
    u, v = part(5)
    candidate = torch.tanh(u + r * v)
    mixed = shares[0] * below + shares[1] * up + shares[2] * left
    return z * candidate + (1 - z) * mixed


@pytest.mark.parametrize("directions", [("nw", "se"), ("ne", "sw"), ALL], ids="+".join)
def test_layer_is_appendix_a_in_each_direction(directions: tuple[Direction, ...]) -> None:
    """Directions (a) to (d) of the paper: row⁺ reads row i − 1 and row⁻ row i + 1, and columns alike."""
    rnn, own = make(directions), 3
    x, below = random(1, N, N, X), random(1, N, N, own * len(directions))
    found = rnn(x, below, torch.ones(1, N, dtype=torch.bool))[0]
    for d, direction in enumerate(directions):
        mine = slice(d * own, (d + 1) * own)
        row_step = 1 if direction[0] == "n" else -1
        column_step = 1 if direction[1] == "w" else -1
        for i in range(N):
            for j in range(N):
                nothing = torch.zeros(own, dtype=torch.float64)
                up = found[i - row_step, j, mine] if 0 <= i - row_step < N else nothing
                left = found[i, j - column_step, mine] if 0 <= j - column_step < N else nothing
                expected = cell_by_appendix_a(x[0, i, j], below[0, i, j, mine], up, left, rnn, d)
                torch.testing.assert_close(found[i, j, mine], expected, rtol=1e-10, atol=1e-12)


def test_two_predecessors_share_one_sigmoid() -> None:
    """The first layer has no layer below: λ and 1 − λ weigh the two neighbours."""
    rnn = make(("nw",), spec=CellSpec(("up", "left"), ("up", "left")))
    own = 3
    x = random(1, N, N, X)
    found = rnn(x, None, torch.ones(1, N, dtype=torch.bool))[0]
    up, left = found[0, 1], found[1, 0]
    from_input = x[0, 1, 1] @ rnn.input[0] + rnn.input_bias[0]
    from_state = torch.cat((up, left)) @ rnn.state[0] + rnn.state_bias[0]
    r, z, share = torch.sigmoid((from_input + from_state)[: 3 * own]).split(own)
    candidate = torch.tanh(from_input[3 * own :] + r * from_state[3 * own :])
    expected = z * candidate + (1 - z) * (share * up + (1 - share) * left)
    torch.testing.assert_close(found[1, 1], expected, rtol=1e-10, atol=1e-12)


def test_reset_before_the_projection_acts_on_the_states() -> None:
    """Appendix A, the second form: tanh(X W^x + (r ⊙ T^prev) W^p + b), r for each predecessor alike."""
    rnn, own = make(("nw",), spec=CellSpec(reset="before")), 3
    x, below = random(1, N, N, X), random(1, N, N, own)
    found = rnn(x, below, torch.ones(1, N, dtype=torch.bool))[0]
    previous = torch.cat((below[0, 1, 2], found[0, 2], found[1, 1]))
    from_input = x[0, 1, 2] @ rnn.input[0] + rnn.input_bias[0]
    gates = from_input + previous @ rnn.state[0] + rnn.state_bias[0]
    r, z = torch.sigmoid(gates[:own]), torch.sigmoid(gates[own : 2 * own])
    shares = torch.softmax(gates[2 * own : 5 * own].view(3, own), 0)
    kept = torch.cat([r * state for state in previous.split(own)])
    candidate = torch.tanh(from_input[5 * own :] + kept @ rnn.state[0][:, 5 * own :] + rnn.state_bias[0][5 * own :])
    mixed = (shares * previous.view(3, own)).sum(0)
    torch.testing.assert_close(found[1, 2], z * candidate + (1 - z) * mixed, rtol=1e-10, atol=1e-12)


def test_predecessor_that_is_not_read_is_zero_and_keeps_its_share() -> None:
    """As in the released ablations: λ is still a softmax over three, of which one weighs a state of zero."""
    rnn, own = make(("nw",), spec=CellSpec(read=("below", "left"))), 3
    x, below = random(1, N, N, X), random(1, N, N, own)
    found = rnn(x, below, torch.ones(1, N, dtype=torch.bool))[0]
    nothing = torch.zeros(own, dtype=torch.float64)
    expected = cell_by_appendix_a(x[0, 1, 1], below[0, 1, 1], nothing, found[1, 0], rnn, 0)
    torch.testing.assert_close(found[1, 1], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("reset", ["after", "before"])
def test_gradients_equal_differences_of_outputs(reset: Reset) -> None:
    """Independent of any other implementation."""
    rnn = make(("nw", "se"), own=2, spec=CellSpec(reset=reset))
    mask = torch.tensor([[True, True, False], [True, True, True]])
    x, below = random(2, N, N, X).requires_grad_(), random(2, N, N, 4).requires_grad_()
    names = [name for name, _ in rnn.named_parameters()]

    def outputs(x: Tensor, below: Tensor, *parameters: Tensor) -> Tensor:
        given = dict(zip(names, parameters, strict=True))
        found: Tensor = torch.func.functional_call(rnn, given, (x, below, mask))
        return found

    assert torch.autograd.gradcheck(outputs, (x, below, *rnn.parameters()), fast_mode=True)


def test_layer_can_learn_after_it_has_predicted() -> None:
    """What inference mode makes and keeps, such as the order of the cells, must not spoil a training step."""
    n_words = 11  # a length that nothing else here has
    rnn, mask = make(("ne", "sw")), torch.ones(1, n_words, dtype=torch.bool)
    x, below = random(1, n_words, n_words, X), random(1, n_words, n_words, 6)
    with torch.inference_mode():
        predicted = rnn(x, below, mask).clone()
    trained = rnn(x, below, mask)
    trained.sum().backward()
    # Without gradients a backend may add in another order.
    torch.testing.assert_close(trained, predicted, rtol=1e-12, atol=1e-14)
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in rnn.parameters())


@pytest.mark.parametrize("reset", ["after", "before"])
def test_single_precision_is_as_exact_as_cell_by_cell(reset: Reset) -> None:
    rnn = make(("nw", "se"), own=16, spec=CellSpec(reset=reset))
    n_words = 12
    x, below, mask = random(2, n_words, n_words, X), random(2, n_words, n_words, 32), torch.ones(2, n_words).bool()
    exact = rnn(x, below, mask)
    rnn.float()
    fast = rnn(x.float(), below.float(), mask)
    with use_backend("reference"):
        plain = rnn(x.float(), below.float(), mask)
    assert fast.dtype == torch.float32
    assert (fast - exact).abs().max() <= 2 * (plain - exact).abs().max()


@pytest.mark.parametrize("changed", range(4))
def test_each_direction_reads_its_own_states_of_the_layer_below(changed: int) -> None:
    rnn, own = make(ALL), 3
    x, below, mask = random(1, N, N, X), random(1, N, N, own * 4), torch.ones(1, N, dtype=torch.bool)
    other = below.clone()
    other[..., changed * own : (changed + 1) * own] += 1
    difference = (rnn(x, other, mask) - rnn(x, below, mask)).abs().unflatten(-1, (4, own))
    for d in range(4):
        assert bool(difference[..., d, :].min() > 0) == (d == changed)
        assert bool(difference[..., d, :].max() > 0) == (d == changed)


def test_weights_start_as_those_of_a_linear_layer() -> None:
    torch.manual_seed(0)
    rnn = MDRNN(400, 200, ("nw", "se"), CellSpec())
    for parameter, fan_in in ((rnn.input, 400), (rnn.input_bias, 400), (rnn.state, 300), (rnn.state_bias, 300)):
        bound = 1 / sqrt(fan_in)
        assert parameter.abs().max() <= bound
        assert parameter.abs().max() > 0.99 * bound
        assert abs(float(parameter.detach().std()) - bound / sqrt(3)) < 0.05 * bound


def test_width_that_directions_do_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="2 directions"):
        MDRNN(X, 5, ("nw", "se"), CellSpec())
