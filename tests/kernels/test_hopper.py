"""How scans are divided for GPUs of compute capability 9, and that the kernels compile; `test_gpu` runs them."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch

from relatum.kernels.md_gru import CellSpec, gpu, hopper_launch
from relatum.kernels.md_gru.spec import Form

from .ahead import compile_ahead

N_PROCESSORS, MEMORY = 132, 227 * 1024
"""Those of an H200."""
FORM = Form(CellSpec(), ("nw", "se"))
POINTERS = {"lengths": "*i32", "words": "*i32", "owed": "*fp32"}
SIZES = [(1, 1), (1, 300), (3, 7), (24, 32), (24, 64), (40, 65), (200, 7), (256, 32)]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("width", [17, 64, 100, 128])
@pytest.mark.parametrize("size", SIZES)
def test_division_has_room_for_every_sentence_and_every_unit(size: tuple[int, int], width: int, backward: bool) -> None:
    n_batch, n_words = size
    plan = hopper_launch.make_plan(n_batch, n_words, width, FORM, N_PROCESSORS, MEMORY, backward)
    in_group = plan.n_lanes * plan.n_rounds
    assert plan.n_groups * in_group >= n_batch > (plan.n_groups - 1) * in_group
    assert plan.n_tiles * 64 >= plan.n_lanes * n_words > (plan.n_tiles - 1) * 64
    assert plan.n_slices * plan.units >= width > (plan.n_slices - 1) * plan.units
    assert plan.n_programs == plan.n_groups * len(FORM.directions) * plan.n_slices


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_programs_that_wait_for_each_other_can_all_run_and_have_the_memory(
    size: tuple[int, int], backward: bool
) -> None:
    for n_processors in (16, 60, 132):
        for width in (20, 100, 128):
            plan = hopper_launch.make_plan(*size, width, FORM, n_processors, MEMORY, backward)
            assert plan.n_programs <= n_processors
            assert hopper_launch.n_bytes(width, FORM.spec, plan.units, backward) <= MEMORY


def test_long_batches_are_read_in_rounds() -> None:
    """Sentences that follow each other in the same rows need fewer steps than those that wait for each other."""
    plan = hopper_launch.make_plan(256, 32, 100, FORM, N_PROCESSORS, MEMORY, False)
    assert plan.n_rounds > 1


@pytest.mark.parametrize("width", [4, 16, 17, 100, 128])
def test_order_of_units_has_each_once_and_is_its_own_reverse(width: int) -> None:
    order = hopper_launch.order_of_units(width)
    assert sorted(order) == list(range(width))
    assert [order[order[unit]] for unit in range(width)] == list(range(width))


def test_order_of_units_puts_together_what_four_threads_read_at_once() -> None:
    assert hopper_launch.order_of_units(18)[:5] == [0, 4, 8, 12, 1]
    assert hopper_launch.order_of_units(18)[16:] == [16, 17]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_types_and_devices_have_other_kernels(dtype: torch.dtype) -> None:
    assert not hopper_launch.serves(100, FORM, dtype, torch.device("cuda"))
    assert not hopper_launch.serves(100, FORM, torch.bfloat16, torch.device("cpu"))
    assert not hopper_launch.serves(200, FORM, torch.bfloat16, torch.device("cuda"))


def test_slice_of_a_gpu_that_is_too_small_has_other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fourteen multiprocessors cannot run a group for each of four directions, backward."""
    device, four = torch.device("cuda"), Form(CellSpec(), ("nw", "ne", "sw", "se"))
    monkeypatch.setattr(hopper_launch, "are_for", lambda _: True)
    monkeypatch.setattr(gpu, "memory", lambda _: MEMORY)
    monkeypatch.setattr(gpu, "n_processors", lambda _: 14)
    assert hopper_launch.serves(100, FORM, torch.bfloat16, device)
    assert not hopper_launch.serves(100, four, torch.bfloat16, device)
    monkeypatch.setattr(gpu, "n_processors", lambda _: N_PROCESSORS)
    assert hopper_launch.serves(100, four, torch.bfloat16, device)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("name", ["forward_kernel", "backward_kernel"])
def test_kernel_compiles_without_a_gpu(name: str) -> None:
    """For the size in the paper."""
    from triton.experimental.gluon._runtime import GluonASTSource

    from relatum.kernels.md_gru import hopper_scan

    constants: dict[str, Any] = {
        "WIDTH": 100,
        "OF_CELL": 408,
        "N_DIRECTIONS": 2,
        "SOUTH": 2,
        "EAST": 2,
        "N_LAMBDAS": 3,
        "BELOW": 0,
        "UP": 1,
        "LEFT": 2,
        "READS_BELOW": True,
        "READS_UP": True,
        "READS_LEFT": True,
        "KEEP": True,
        "UNITS": 32,
        "INNER": 128,
        "ONE_TILE": True,
        "ROWS": 64,
        "SENTENCES": 16,
    }
    compiled = compile_ahead(
        GluonASTSource, getattr(hopper_scan, name), constants, dict.fromkeys(hopper_scan._SIZES, "i32") | POINTERS
    )
    assert compiled.metadata.shared <= MEMORY
    assert "wgmma" in compiled.asm["ptx"]
