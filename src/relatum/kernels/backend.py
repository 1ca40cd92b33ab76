"""Which implementation computes the MD-GRU: chosen by what the machine has, or by name, and never silently another."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from relatum.errors import ConfigError

_named: ContextVar[str | None] = ContextVar("md_gru_backend", default=None)


@dataclass(frozen=True, slots=True)
class Backend:
    """An implementation, whether it can run here, and why or why not."""

    name: str
    available: bool
    reason: str


def explain(device: str | None = None) -> tuple[Backend, ...]:
    """Every implementation, the ones that are preferred first; `device` is "cpu" or "cuda", the best one if None."""
    return (
        _triton(device),
        Backend("wavefront", True, "anti-diagonals at once, in plain torch, on any device"),
        Backend("reference", True, "one cell after the other: the definition, for tests"),
    )


def _triton(device: str | None) -> Backend:
    if importlib.util.find_spec("triton") is None:
        return Backend("triton", False, "Triton is not installed; on Linux: pip install triton")
    if os.environ.get("TRITON_INTERPRET") == "1":
        return Backend("triton", True, "interpreted on the CPU, for tests (TRITON_INTERPRET=1)")
    import torch

    if device == "cpu" or not torch.cuda.is_available():
        return Backend("triton", False, "it needs a CUDA device")
    return Backend("triton", True, "two fused kernels an anti-diagonal, on a CUDA device")


def select(device: str, reset: str = "after", recurrent: bool = True) -> str:
    """The implementation for a device and a form of cell: the one that was named, or the fastest that can run.

    One that was named and cannot run is an error.
    """
    named = _named.get()
    has_kernel = reset == "after" and recurrent
    for backend in explain(device):
        fits = has_kernel or backend.name != "triton"
        if named is None and fits and backend.available and not (backend.name == "triton" and device == "cpu"):
            return backend.name
        if backend.name == named:
            reason = backend.reason if fits else "it has no kernel for this form of cell"
            if not (fits and backend.available):
                raise ConfigError(f"the MD-GRU backend {named!r} cannot run: {reason}")
            return named
    raise AssertionError("the wavefront can always run")


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Within the block, this implementation and no other."""
    known = [backend.name for backend in explain()]
    if name not in known:
        raise ConfigError(f"the MD-GRU has no backend {name!r}; choose from {', '.join(known)}")
    token = _named.set(name)
    try:
        yield
    finally:
        _named.reset(token)
