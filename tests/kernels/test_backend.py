"""Which backend is chosen: the fastest that can run, or the one that was named, and a reason wherever one cannot."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest
import torch

from relatum.errors import ConfigError
from relatum.kernels import backend as selection
from relatum.kernels.backend import Backend, explain, select, use_backend
from relatum.kernels.compile import CompileError
from relatum.kernels.md_gru import CellSpec, Weights, cpu, gpu, md_gru, triton

from ..prepared import Prepared

BEFORE = CellSpec(reset="before")
NO_NEIGHBOUR = CellSpec(("below", "up", "left"), ("below",))


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a machine has is found out once a process; these tests change it."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    selection._explain_once.cache_clear()
    selection._failure.cache_clear()
    yield
    selection._explain_once.cache_clear()
    selection._failure.cache_clear()


def pretend(monkeypatch: pytest.MonkeyPatch, **reasons: str | None) -> None:
    """Let backends be available, or else not, for the reason given."""
    for name, reason in reasons.items():
        module = {"triton": triton, "cpu": cpu}[name]
        found = (reason is None, reason or "pretended")
        monkeypatch.setattr(module, "explain", lambda *_, found=found: found)
    monkeypatch.setattr(cpu, "find_failure", lambda _: None)


@pytest.fixture(scope="module")
def python() -> Iterator[Prepared]:
    with Prepared("import torch") as one:
        yield one


@pytest.mark.parametrize(
    "module", ["backend", "compile", "md_gru", "md_gru.op", "md_gru.fused", "md_gru.cpu", "md_gru.triton"]
)
def test_every_module_can_be_imported_first(python: Prepared, module: str) -> None:
    """Selection and the backends know each other; neither may need the other to be there already."""
    script = f"import relatum.kernels.{module}; from relatum.kernels.backend import explain; print(len(explain()))"
    assert python.run(script).strip() == "4"


def test_every_backend_is_explained_and_the_preferred_come_first() -> None:
    for device in ("cpu", "cuda", None):
        found = explain(device)
        assert [backend.name for backend in found] == ["triton", "cpu", "wavefront", "reference"]
        assert all(backend.reason for backend in found)
        assert found[2].available
        assert found[3].available


def test_triton_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("triton") is not None:
        assert explain("cpu")[0] == Backend("triton", False, "it needs a CUDA device")
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        assert explain("cpu")[0].available
        assert "TRITON_INTERPRET=1" in explain("cpu")[0].reason
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert explain("cuda")[0] == Backend("triton", False, "Triton is not installed; on Linux: pip install triton")


def test_cpu_without_a_compiler_says_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    available, reason = cpu.explain()
    if not available or "came with the package" in reason:
        pytest.skip(f"nothing is compiled here: {reason}")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    found = explain("cpu")[1]
    assert not found.available
    assert "there is no C++ compiler" in found.reason
    assert "apt install g++" in found.reason
    assert select("cpu", CellSpec()) == "wavefront"
    with use_backend("cpu"), pytest.raises(ConfigError, match=r"'cpu' cannot run: there is no C\+\+ compiler"):
        select("cpu", CellSpec())


def test_fastest_that_can_run_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, triton=None, cpu=None)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert select("cuda", CellSpec(), dtype) == "triton"
        assert select("cpu", CellSpec(), dtype) == "cpu"
    assert select("cpu", CellSpec(), torch.float64) == "cpu"
    assert select("cuda", CellSpec(), torch.float64) == "wavefront"
    for spec in (BEFORE, NO_NEIGHBOUR):
        assert select("cuda", spec) == select("cpu", spec) == "wavefront"


def test_wavefront_is_chosen_where_nothing_faster_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, triton="no GPU", cpu="no compiler")
    assert select("cuda", CellSpec()) == select("cpu", CellSpec()) == select("mps", CellSpec()) == "wavefront"


def test_interpreted_kernels_are_only_taken_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, triton=None, cpu="no compiler")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert select("cpu", CellSpec()) == "wavefront"
    with use_backend("triton"):
        assert select("cpu", CellSpec(), torch.float64) == "triton"


def test_named_backend_is_taken_within_its_block_only(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, cpu=None)
    with use_backend("reference"):
        assert select("cpu", CellSpec()) == "reference"
        with use_backend("wavefront"):
            assert select("cpu", CellSpec()) == "wavefront"
        assert select("cpu", CellSpec()) == "reference"
    assert select("cpu", CellSpec()) == "cpu"


def test_backend_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="choose from triton, cpu, wavefront, reference"), use_backend("fast"):
        pass


@pytest.mark.parametrize(
    ("name", "device", "spec", "dtype", "reason"),
    [
        ("triton", "cpu", CellSpec(), torch.float32, "it does not run on the device 'cpu'"),
        ("triton", "cuda", CellSpec(), torch.float64, "it has no kernel for double precision; the wavefront has"),
        ("triton", "cuda", BEFORE, torch.float32, "it has no kernel for this form of cell"),
        ("triton", "cuda", NO_NEIGHBOUR, torch.float32, "it has no kernel for this form of cell"),
        ("cpu", "cuda", CellSpec(), torch.float32, "it does not run on the device 'cuda'"),
        ("cpu", "cpu", BEFORE, torch.float32, "it has no kernel for this form of cell"),
        ("cpu", "cpu", NO_NEIGHBOUR, torch.float32, "it has no kernel for this form of cell"),
    ],
)
def test_named_backend_that_does_not_fit_is_refused_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, name: str, device: str, spec: CellSpec, dtype: torch.dtype, reason: str
) -> None:
    pretend(monkeypatch, triton=None, cpu=None)
    with use_backend(name), pytest.raises(ConfigError, match=f"the MD-GRU backend '{name}' cannot run: {reason}"):
        select(device, spec, dtype)


@pytest.mark.parametrize("name", ["triton", "cpu"])
def test_named_backend_that_the_machine_cannot_run_is_refused_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pretend(monkeypatch, **{name: "the moon is full"})
    device = "cuda" if name == "triton" else "cpu"
    with use_backend(name), pytest.raises(ConfigError, match=f"'{name}' cannot run: the moon is full"):
        select(device, CellSpec())


def test_layer_does_not_fall_back_from_a_named_backend() -> None:
    spec = CellSpec()
    columns = spec.n_parts * 2
    weights = Weights(
        torch.ones(1, 3, columns), torch.ones(1, columns), torch.ones(1, 6, columns), torch.ones(1, columns)
    )
    inputs, mask = torch.ones(1, 2, 2, 3), torch.ones(1, 2, dtype=torch.bool)
    with use_backend("triton"), pytest.raises(ConfigError, match="'triton' cannot run"):
        md_gru(inputs, None, mask, weights, ("nw",), spec)
    assert md_gru(inputs, None, mask, weights, ("nw",), spec).shape == (1, 2, 2, 1, 2)


def test_environment_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that was kept must not outlive the variable that it depends on."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    assert os.environ.get("TRITON_INTERPRET") is None
    with use_backend("triton"):
        with pytest.raises(ConfigError):
            select("cpu", CellSpec())
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        assert select("cpu", CellSpec()) == "triton"


def test_compiler_that_fails_leaves_the_wavefront_and_a_warning_or_an_error_where_cpu_was_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise CompileError("g++ failed; install another")

    monkeypatch.setattr(cpu, "explain", lambda: (True, "there is a compiler"))
    monkeypatch.setattr(cpu, "_library", fail)
    cpu.find_failure.cache_clear()
    try:
        assert select("cpu", CellSpec()) == "wavefront"
        assert select("cpu", CellSpec()) == "wavefront"
        assert caplog.text.count("g++ failed; install another") == 1  # said once, not at every layer
        with use_backend("cpu"), pytest.raises(ConfigError, match=r"'cpu' cannot run: g.. failed"):
            select("cpu", CellSpec())
    finally:
        cpu.find_failure.cache_clear()


def test_cpu_refuses_types_it_does_not_compute_in() -> None:
    with use_backend("cpu"), pytest.raises(ConfigError, match=r"does not compute in torch\.int32"):
        select("cpu", CellSpec(), torch.int32)


def test_states_too_wide_for_the_memory_of_a_gpu_are_left_to_the_wavefront(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, triton=None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu, "memory", lambda _: 227 * 1024)
    assert select("cuda", CellSpec(), torch.bfloat16, 256) == "triton"
    assert select("cuda", CellSpec(), torch.bfloat16, 257) == "wavefront"
    assert select("cuda", CellSpec(), torch.float32, 128) == "triton"
    assert select("cuda", CellSpec(), torch.float32, 129) == "wavefront"
    with use_backend("triton"), pytest.raises(ConfigError, match="states 257 wide do not fit"):
        select("cuda", CellSpec(), torch.bfloat16, 257)
