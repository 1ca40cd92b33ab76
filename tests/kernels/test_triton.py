"""The Triton kernels against the definition, interpreted on the CPU: states and every gradient.

Whether kernels are interpreted is decided when they are defined, so the tests run in other processes. Interpreted
programs run one after the other, so none can wait for another: `test_gpu.py` has what is left out here.
"""

from __future__ import annotations

import importlib.util

import pytest

from ..prepared import Prepared

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")

CHECK = """
import torch
import test_md_gru as cases
from relatum.kernels.md_gru import CellSpec, Weights, gpu, triton_launch
from relatum.kernels.md_gru.spec import Form

torch.set_num_threads(1)

def plan(spec, directions, lengths, width, dtype=torch.float64):
    form = Form(spec, directions)
    return triton_launch._plan(len(lengths), max(lengths), width, form, dtype, torch.device("cpu"))

def check(spec, directions, lengths, with_below=True, width=3):
    cases.H = width
    case = cases.make_case(spec, directions, lengths, with_below)
    states, grads = cases.run("triton", case, directions, spec)
    expected, expected_grads = cases.run("reference", case, directions, spec)
    said = str((spec, directions, lengths, with_below, width))
    torch.testing.assert_close(states, expected, rtol=1e-10, atol=1e-12, msg=lambda text: said + text)
    for grad, expected_grad in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(grad, expected_grad, rtol=1e-9, atol=1e-11, msg=lambda text: said + text)
    print("checked")
"""


def run(interpreter: Prepared, checks: str, expected: int) -> None:
    """Run the checks, of which there must be so many."""
    said = interpreter.run(CHECK + checks)
    assert said.count("checked") == expected, said


def test_triton_equals_reference_for_every_set_of_predecessors(interpreter: Prepared) -> None:
    """Those that read a state of the same table; the others have no scan. Of 27 pairs of subsets 15 do so."""
    run(
        interpreter,
        """
for slots in cases.SUBSETS:
    for read in cases.SUBSETS:
        if set(read) <= set(slots) and set(read) & {"up", "left"}:
            check(CellSpec(slots, read), ("se",) if len(read) < 3 else ("nw", "se"), [1, 2])
""",
        expected=15,
    )


def test_triton_equals_reference_for_directions_lengths_and_widths(interpreter: Prepared) -> None:
    run(
        interpreter,
        """
check(CellSpec(), ("sw",), [3])
check(CellSpec(), cases.DIRECTIONS, [2, 1])
for lengths in ([1], [4, 1, 3, 4], [0, 2]):
    check(CellSpec(), ("nw", "se"), lengths)
for width in (1, 16, 17):
    check(CellSpec(), ("ne", "sw"), [2, 1], width=width)
""",
        expected=8,
    )


def test_triton_equals_reference_fallow_fewer_layers_units_in_one_slice_or_in_several(interpreter: Prepared) -> None:
    """In double precision a program can keep the weights of 32 units; of more, it takes 16 units at a time."""
    run(
        interpreter,
        """
for lengths, width, resident, n_slices in (([3], 30, True, 1), ([2], 70, False, 5), ([2, 0, 1], 33, False, 3)):
    found = plan(CellSpec(), ("se",), lengths, width)
    assert (found.resident, found.n_slices) == (resident, n_slices), found
    check(CellSpec(), ("se",), lengths, width=width)
""",
        expected=3,
    )


def test_triton_equals_reference_for_several_sentences_in_a_tile(interpreter: Prepared) -> None:
    run(
        interpreter,
        """
lengths = [2, 4, 1, 0, 3]
found = plan(CellSpec(), ("nw", "se"), lengths, 2)
assert (found.n_groups, found.per_group, found.n_tiles) == (1, 5, 1), found
check(CellSpec(), ("nw", "se"), lengths, width=2)
""",
        expected=1,
    )


def test_triton_equals_reference_for_several_tiles(interpreter: Prepared) -> None:
    """Tables of more rows than a tile has, and tables that begin in one tile and end in the next.

    Tiles have fewer rows here than on a GPU, for the interpreter would take minutes for a table of 65.
    """
    run(
        interpreter,
        """
triton_launch._SHAPES = ((2, (16,)),)
for directions, lengths, width, n_processors, expected in (
    (("ne", "sw"), [3, 2], 2, 64, (2, 1, 2)),  # groups, sentences of a group, tiles
    (("nw",), [2, 3], 2, 1, (1, 2, 3)),
    (("se",), [3], 33, 64, (1, 1, 2)),  # with several slices
):
    gpu.n_processors = lambda _: n_processors
    triton_launch._plan.cache_clear()
    found = plan(CellSpec(), directions, lengths, width)
    assert (found.n_groups, found.per_group, found.n_tiles) == expected, found
    check(CellSpec(), directions, lengths, width=width)
""",
        expected=3,
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_error_is_at_most_twice_that_of_plain_torch(interpreter: Prepared, dtype: str) -> None:
    """Root mean square, since the largest error is a matter of luck. The interpreter cannot compute in bfloat16."""
    run(
        interpreter,
        f"dtype = torch.{dtype}\n"
        """
def errors(backend):
    states, grads = cases.run(backend, case, directions, CellSpec())
    return [(a.double() - b).square().mean().sqrt().item() for a, b in zip([states, *grads], exact, strict=True)]

def to(tensor, dtype):
    return tensor.detach().to(dtype).requires_grad_()

directions = ("nw", "se")
cases.H = 20
inputs, below, mask, weights = cases.make_case(CellSpec(), directions, [3, 5, 1])
weights = [weights.input / 3, weights.input_bias, weights.state / 8, weights.state_bias]
case = to(inputs, dtype), to(below, dtype), mask, Weights(*(to(weight, dtype) for weight in weights))
double = tuple(to(one, torch.float64) for one in case[:2]), tuple(to(weight, torch.float64) for weight in case[3])
states, grads = cases.run("wavefront", (*double[0], mask, Weights(*double[1])), directions, CellSpec())
exact = [states, *grads]
for found, plain in zip(errors("triton"), errors("wavefront"), strict=True):
    assert found <= 2 * plain, (found, plain)
    print("checked")
""",
        expected=7,
    )


def test_triton_equals_reference_without_a_layer_below(interpreter: Prepared) -> None:
    run(
        interpreter,
        """
for spec in (CellSpec(), CellSpec(("up", "left"), ("up", "left")), CellSpec(("below", "up"), ("below", "up"))):
    check(spec, ("nw", "se"), [3, 2], with_below=False, width=17)
""",
        expected=3,
    )


def test_padding_that_is_not_a_number_stays_there_and_the_graph_can_be_used_twice(interpreter: Prepared) -> None:
    run(
        interpreter,
        """
from relatum.kernels.backend import use_backend
from relatum.kernels.md_gru import md_gru

spec, directions = CellSpec(), ("nw", "se")
inputs, below, mask, weights = cases.make_case(spec, directions, [2, 3])
poisoned, poisoned_below = inputs.detach().clone(), below.detach().clone()
for part in (poisoned, poisoned_below):
    part[0, 2:] = torch.nan
    part[0, :, 2:] = torch.nan
with use_backend("triton"):
    expected = md_gru(inputs, below, mask, weights, directions, spec)
    found = md_gru(poisoned, poisoned_below, mask, weights, directions, spec)
torch.testing.assert_close(found, expected, rtol=0, atol=0)
assert found[0, 2:].abs().max() == found[0, :, 2:].abs().max() == 0
first = torch.autograd.grad(expected.sum(), weights.state, retain_graph=True)[0]
torch.testing.assert_close(torch.autograd.grad(expected.sum(), weights.state)[0], first, rtol=0, atol=0)
print("checked")
""",
        expected=1,
    )


def test_cells_without_a_kernel_are_refused_by_name(interpreter: Prepared) -> None:
    run(
        interpreter,
        """
from relatum.errors import ConfigError

for spec in (CellSpec(reset="before"), CellSpec(("below", "up", "left"), ("below",))):
    case = cases.make_case(spec, ("nw",), [2])
    try:
        cases.run("triton", case, ("nw",), spec)
    except ConfigError as error:
        assert "has no kernel for this form of cell" in str(error)
        print("checked")
""",
        expected=2,
    )
