"""The Triton kernels against the definition, interpreted on the CPU: states and every gradient, in double precision.

Whether kernels are interpreted is decided when they are defined, so each test runs in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")

CHECK = """
import torch
import test_md_gru as cases
from relatum.kernels.md_gru import CellSpec

torch.set_num_threads(1)

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


def run(checks: str, expected: int) -> None:
    """Run the checks, of which there must be so many."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [sys.executable, "-c", CHECK + checks], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("checked") == expected


def test_triton_equals_reference_for_every_set_of_predecessors() -> None:
    """Those that read a state of the same table; the others have no scan. Of 27 pairs of subsets 15 do so."""
    run(
        """
for slots in cases.SUBSETS:
    for read in cases.SUBSETS:
        if set(read) <= set(slots) and set(read) & {"up", "left"}:
            check(CellSpec(slots, read), ("nw", "se"), [1, 2])
""",
        expected=15,
    )


def test_triton_equals_reference_for_directions_lengths_and_widths() -> None:
    run(
        """
check(CellSpec(), ("sw",), [3])
check(CellSpec(), cases.DIRECTIONS, [2, 3])
for lengths in ([1], [4, 1, 3, 4], [0, 2]):
    check(CellSpec(), ("nw", "se"), lengths)
for width in (1, 16, 17):
    check(CellSpec(), ("ne", "sw"), [2, 3], width=width)
""",
        expected=8,
    )


def test_triton_equals_reference_without_a_layer_below() -> None:
    run(
        """
for spec in (CellSpec(), CellSpec(("up", "left"), ("up", "left")), CellSpec(("below", "up"), ("below", "up"))):
    check(spec, ("nw", "se"), [3, 2], with_below=False, width=17)
""",
        expected=3,
    )


def test_padding_that_is_not_a_number_stays_there_and_the_graph_can_be_used_twice() -> None:
    run(
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


def test_cells_without_a_kernel_are_refused_by_name() -> None:
    run(
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
