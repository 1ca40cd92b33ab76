"""The wavefront against the definition: states and every gradient, in double precision."""

from itertools import chain, combinations

import pytest
import torch
from torch import Tensor

from relatum.kernels.backend import use_backend
from relatum.kernels.md_gru import CellSpec, Direction, Predecessor, Reset, Weights, md_gru

ALL: tuple[Predecessor, ...] = ("below", "up", "left")
SUBSETS = tuple(chain.from_iterable(combinations(ALL, size) for size in range(4)))
DIRECTIONS: tuple[Direction, ...] = ("nw", "ne", "sw", "se")
X, H = 5, 3


def make_case(
    spec: CellSpec, directions: tuple[Direction, ...], lengths: list[int], with_below: bool = True, seed: int = 0
) -> tuple[Tensor, Tensor | None, Tensor, Weights]:
    """Random values in double precision that want gradients; what lies outside the sentences is noise."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    batch, n, d = len(lengths), max(lengths), len(directions)
    parts, slots = spec.n_parts * H, len(spec.slots) * H
    mask = torch.arange(n) < torch.tensor(lengths).unsqueeze(1)
    weights = Weights(random(d, X, parts), random(d, parts), random(d, slots, parts), random(d, parts))
    return random(batch, n, n, X), random(batch, n, n, d, H) if with_below else None, mask, weights


def run(
    backend: str,
    case: tuple[Tensor, Tensor | None, Tensor, Weights],
    directions: tuple[Direction, ...],
    spec: CellSpec,
) -> tuple[Tensor, list[Tensor]]:
    """The states, and the gradients of a weighted sum of them with respect to everything."""
    inputs, below, mask, weights = case
    leaves = [inputs, weights.input, weights.input_bias, weights.state, weights.state_bias]
    if below is not None:
        leaves.append(below)
    with use_backend(backend):
        states = md_gru(inputs, below, mask, weights, directions, spec)
    noise = torch.randn(states.shape, generator=torch.Generator().manual_seed(1), dtype=states.dtype)
    grads = torch.autograd.grad((states * noise).sum(), leaves, materialize_grads=True)
    return states.detach(), list(grads)


def assert_same(spec: CellSpec, directions: tuple[Direction, ...], lengths: list[int], with_below: bool = True) -> None:
    case = make_case(spec, directions, lengths, with_below)
    states, grads = run("wavefront", case, directions, spec)
    expected, expected_grads = run("reference", case, directions, spec)
    torch.testing.assert_close(states, expected, rtol=1e-10, atol=1e-12)
    for grad, expected_grad in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(grad, expected_grad, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("reset", ["after", "before"])
@pytest.mark.parametrize("read", SUBSETS, ids="+".join)
def test_wavefront_equals_reference_for_every_set_of_predecessors(read: tuple[Predecessor, ...], reset: Reset) -> None:
    for slots in SUBSETS:
        if set(read) <= set(slots):
            assert_same(CellSpec(slots, read, reset), ("nw", "se"), [4, 2])


@pytest.mark.parametrize(
    "directions", [c for size in range(1, 5) for c in combinations(DIRECTIONS, size)], ids="+".join
)
def test_wavefront_equals_reference_for_every_set_of_directions(directions: tuple[Direction, ...]) -> None:
    assert_same(CellSpec(), directions, [3, 5])


@pytest.mark.parametrize("lengths", [[1], [2], [7], [1, 6], [5, 1, 3, 5], [0, 4]], ids=str)
@pytest.mark.parametrize("reset", ["after", "before"])
def test_wavefront_equals_reference_for_ragged_batches(lengths: list[int], reset: Reset) -> None:
    assert_same(CellSpec(reset=reset), ("nw", "se", "ne"), lengths)


@pytest.mark.parametrize("reset", ["after", "before"])
def test_wavefront_equals_reference_without_a_layer_below(reset: Reset) -> None:
    assert_same(CellSpec(reset=reset), ("nw", "sw"), [4, 3], with_below=False)
    assert_same(CellSpec(("up", "left"), ("up", "left"), reset), ("nw", "sw"), [4, 3], with_below=False)


@pytest.mark.parametrize("backend", ["reference", "wavefront"])
def test_padding_changes_nothing_and_gets_no_state(backend: str) -> None:
    spec, directions = CellSpec(), DIRECTIONS
    inputs, below, mask, weights = make_case(spec, directions, [3, 6])
    assert below is not None
    with use_backend(backend):
        batch = md_gru(inputs, below, mask, weights, directions, spec)
        alone = md_gru(inputs[:1, :3, :3], below[:1, :3, :3], mask[:1, :3], weights, directions, spec)
    torch.testing.assert_close(batch[:1, :3, :3], alone, rtol=1e-12, atol=1e-13)
    assert batch[0, 3:].abs().max() == 0
    assert batch[0, :, 3:].abs().max() == 0


def test_state_flows_only_from_the_corner_where_a_direction_starts() -> None:
    """Changing the cell (1, 2) of a table of 4 words changes exactly the cells that come after it."""
    spec = CellSpec()
    reached = {
        "nw": lambda i, j: i >= 1 and j >= 2,
        "ne": lambda i, j: i >= 1 and j <= 2,
        "sw": lambda i, j: i <= 1 and j >= 2,
        "se": lambda i, j: i <= 1 and j <= 2,
    }
    inputs, below, mask, weights = make_case(spec, DIRECTIONS, [4])
    changed = inputs.detach().clone()
    changed[0, 1, 2] += 1
    with use_backend("wavefront"):
        before = md_gru(inputs, below, mask, weights, DIRECTIONS, spec)
        difference = before - md_gru(changed, below, mask, weights, DIRECTIONS, spec)
    for d, direction in enumerate(DIRECTIONS):
        for i in range(4):
            for j in range(4):
                assert bool(difference[0, i, j, d].abs().max() > 0) == reached[direction](i, j)


def test_non_contiguous_inputs_give_the_same_states() -> None:
    spec = CellSpec()
    inputs, below, mask, weights = make_case(spec, ("nw", "se"), [5, 4])
    assert below is not None
    turned = inputs.detach().transpose(1, 2).contiguous().transpose(1, 2)
    strided = below.detach().permute(4, 3, 0, 1, 2).contiguous().permute(2, 3, 4, 1, 0)
    with use_backend("wavefront"):
        expected = md_gru(inputs, below, mask, weights, ("nw", "se"), spec)
        found = md_gru(turned, strided, mask, weights, ("nw", "se"), spec)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("n_words", [1, 2])
@pytest.mark.parametrize("with_below", [True, False])
def test_nothing_that_is_given_is_changed_without_gradients(n_words: int, with_below: bool) -> None:
    spec = CellSpec()
    inputs, below, mask, weights = make_case(spec, ("nw",), [n_words], with_below)
    given = [
        inputs,
        weights.input,
        weights.input_bias,
        weights.state,
        weights.state_bias,
        *([below] if below is not None else []),
    ]
    before = [one.detach().clone() for one in given]
    with torch.inference_mode(), use_backend("wavefront"):
        states = md_gru(inputs, below, mask, weights, ("nw",), spec)
    torch.testing.assert_close(states, run("reference", (inputs, below, mask, weights), ("nw",), spec)[0])
    assert all(torch.equal(one, old) for one, old in zip(given, before, strict=True))


def test_graph_can_be_used_twice() -> None:
    inputs, below, mask, weights = make_case(CellSpec(), ("nw",), [4])
    with use_backend("wavefront"):
        total = md_gru(inputs, below, mask, weights, ("nw",), CellSpec()).sum()
    first = torch.autograd.grad(total, weights.state, retain_graph=True)[0]
    torch.testing.assert_close(torch.autograd.grad(total, weights.state)[0], first, rtol=0, atol=0)


def test_noise_in_padding_that_is_not_a_number_stays_there() -> None:
    spec = CellSpec()
    inputs, below, mask, weights = make_case(spec, ("nw", "se"), [2, 4])
    poisoned = inputs.detach().clone()
    poisoned[0, 2:] = torch.nan
    poisoned[0, :, 2:] = torch.nan
    with use_backend("wavefront"):
        expected = md_gru(inputs, below, mask, weights, ("nw", "se"), spec)
        found = md_gru(poisoned, below, mask, weights, ("nw", "se"), spec)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_spec_refuses_slots_out_of_order_and_reading_what_has_no_slot() -> None:
    with pytest.raises(ValueError, match="in the order below, up, left"):
        CellSpec(("up", "below"), ("up",))
    with pytest.raises(ValueError, match="not among slots"):
        CellSpec(("up", "left"), ("below",))
