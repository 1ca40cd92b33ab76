"""How scans are divided for any GPU, and that programs hold what they are thought to; `test_gpu` runs them."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from relatum.kernels.md_gru import CellSpec, gpu, triton_launch
from relatum.kernels.md_gru.spec import Form

from .ahead import compile_ahead

CUDA = torch.device("cuda")
ONE, TWO = Form(CellSpec(), ("se",)), Form(CellSpec(), ("nw", "se"))


@pytest.fixture(autouse=True)
def _h200(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU of which only the size is there."""
    monkeypatch.setattr(gpu, "n_processors", lambda _: 132)
    monkeypatch.setattr(gpu, "memory", lambda _: 227 * 1024)
    triton_launch._plan.cache_clear()


def n_bytes(plan: triton_launch._Plan, width: int, dtype: torch.dtype) -> int:
    return triton_launch._n_bytes(width, CellSpec(), dtype, plan.rows, plan.units, plan.split)


@pytest.mark.parametrize("form", [ONE, TWO], ids=["one direction", "two"])
@pytest.mark.parametrize(
    ("width", "dtype"),
    [
        *((width, torch.bfloat16) for width in (3, 64, 100, 128, 129, 200, 256)),
        *((width, torch.float32) for width in (3, 64, 100, 128)),
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [(1, 1), (1, 300), (3, 7), (24, 32), (24, 64), (200, 7), (256, 32)])
def test_division_has_room_for_every_sentence_and_every_unit(
    size: tuple[int, int], width: int, dtype: torch.dtype, form: Form
) -> None:
    n_batch, n_words = size
    plan = triton_launch._plan(*size, width, form, dtype, CUDA)
    assert plan.n_groups * plan.per_group >= n_batch > (plan.n_groups - 1) * plan.per_group
    assert plan.n_tiles * plan.rows >= plan.per_group * n_words > (plan.n_tiles - 1) * plan.rows
    assert plan.n_slices * plan.units >= width > (plan.n_slices - 1) * plan.units
    assert n_bytes(plan, width, dtype) <= 227 * 1024
    if plan.cooperates:
        assert plan.n_programs == plan.n_groups * len(form.directions) * plan.n_slices <= 132


@pytest.mark.parametrize(
    ("width", "dtype", "rows", "units"),
    [
        (100, torch.bfloat16, 64, 32),
        (64, torch.float32, 64, 16),
        (100, torch.float32, 32, 8),
        (128, torch.float32, 32, 8),
        (200, torch.bfloat16, 32, 16),
    ],
)
def test_wider_states_are_divided_into_smaller_tiles(width: int, dtype: torch.dtype, rows: int, units: int) -> None:
    plan = triton_launch._plan(24, 32, width, TWO, dtype, CUDA)
    assert (plan.rows, plan.units, plan.cooperates) == (rows, units, True)


def test_gpu_with_too_few_multiprocessors_for_a_group_reads_weights_at_every_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu, "n_processors", lambda _: 12)
    plan = triton_launch._plan(24, 32, 200, ONE, torch.bfloat16, CUDA)
    assert (plan.resident, plan.rows, plan.units, plan.n_slices, plan.n_programs) == (False, 32, 16, 13, 24)
    assert n_bytes(plan, 200, torch.bfloat16) <= 227 * 1024


@pytest.mark.parametrize("shape", [*triton_launch._SHAPES, *triton_launch._SPLIT_SHAPES])
def test_no_number_of_a_tile_is_read_by_two_threads(shape: tuple[int, tuple[int, ...]]) -> None:
    rows, (fewest, *_) = shape
    assert rows * fewest >= 32 * triton_launch._N_WARPS


def compiled_memory(plan: triton_launch._Plan, name: str, width: int, form: Form, dtype: torch.dtype, of: int) -> int:
    """The bytes of memory that a program of a kernel has, compiled for the compute capability `of`."""
    from triton.compiler import ASTSource

    from relatum.kernels.md_gru import triton_scan

    constants = triton_launch._constants(plan, form, 0, torch.empty(1, 3 * width, dtype=dtype), width)
    if name == "forward_kernel":
        constants |= {"KEEP": True, "FAST": dtype.itemsize == 2}
    options = ("num_warps", "num_stages", "launch_cooperative_grid")
    compiled = compile_ahead(
        ASTSource,
        getattr(triton_scan, name),
        {key: value for key, value in constants.items() if key not in options},
        dict.fromkeys(triton_scan._SIZES, "i32") | {"lengths": "*i32", "owed": "*fp32", "direct": "*fp32"},
        other={torch.bfloat16: "*bf16", torch.float32: "*fp32"}[dtype],
        capability=of,
    )
    return int(compiled.metadata.shared)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("name", ["forward_kernel", "backward_kernel"])
@pytest.mark.parametrize(("width", "form", "dtype"), [(200, ONE, torch.bfloat16), (100, TWO, torch.float32)], ids=str)
def test_kernel_with_small_tiles_holds_no_more_than_is_counted(
    width: int, form: Form, dtype: torch.dtype, name: str
) -> None:
    plan = triton_launch._plan(24, 32, width, form, dtype, CUDA)
    assert 0 < compiled_memory(plan, name, width, form, dtype, of=90) <= n_bytes(plan, width, dtype)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("name", ["forward_kernel", "backward_kernel"])
@pytest.mark.parametrize(
    ("capability", "processors", "kib", "rows", "units"),
    [(80, 108, 163, 64, 16), (86, 82, 99, 32, 16), (89, 58, 99, 32, 16), (120, 170, 99, 32, 16)],
    ids=["A100", "RTX 3090", "L4", "RTX 5090"],
)
def test_smaller_gpus_have_smaller_tiles_that_compile_into_their_memory(
    capability: int, processors: int, kib: int, rows: int, units: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "n_processors", lambda _: processors)
    monkeypatch.setattr(gpu, "memory", lambda _: kib * 1024)
    plan = triton_launch._plan(24, 32, 100, TWO, torch.bfloat16, CUDA)
    assert (plan.rows, plan.units, plan.cooperates) == (rows, units, True)
    counted = n_bytes(plan, 100, torch.bfloat16)
    assert 0 < compiled_memory(plan, name, 100, TWO, torch.bfloat16, capability) <= counted <= kib * 1024


def test_float32_of_the_papers_width_does_not_fit_into_small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "memory", lambda _: 99 * 1024)
    fitting = [width for width in (64, 100, 128) if triton_launch.fits(width, CellSpec(), torch.float32, CUDA)]
    assert fitting == [64]
    assert triton_launch.fits(128, CellSpec(), torch.bfloat16, CUDA)
