"""The choice of the MD-GRU's implementation: by what the machine has, or by name, and never silently another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from relatum.errors import ConfigError

if TYPE_CHECKING:
    import torch

    from relatum.kernels.md_gru.spec import CellSpec

_NAMES = ("triton", "cpu", "wavefront", "reference")
_EVERYWHERE = {
    "wavefront": "anti-diagonals at once, in plain torch, on any device",
    "reference": "one cell after the other: the definition, for tests",
}
_named: ContextVar[str | None] = ContextVar("md_gru_backend", default=None)


@dataclass(frozen=True, slots=True)
class Backend:
    """An implementation, whether it can run here, and why or why not."""

    name: str
    available: bool
    reason: str


def explain(device: str | None = None) -> tuple[Backend, ...]:
    """Return every implementation, the preferred ones first; `device` is "cpu" or "cuda", the best one if None."""
    return tuple(_explain(name, device) for name in _NAMES)


def _explain(name: str, device: str | None) -> Backend:
    if name == "triton":
        from relatum.kernels.md_gru import triton  # it takes torch with it

        return Backend(name, *triton.explain(device))
    if name == "cpu":
        from relatum.kernels.md_gru import cpu

        return Backend(name, *(cpu.explain() if device != "cuda" else (False, "it needs tensors on the CPU")))
    return Backend(name, True, _EVERYWHERE[name])


@lru_cache(maxsize=32)
def _explain_once(name: str, device: str, interpreted: str | None) -> Backend:
    """Explain an implementation, cached: a machine does not change in a run, and asking at every layer takes long."""
    del interpreted
    return _explain(name, device)


def select(device: str, spec: CellSpec, dtype: torch.dtype | str = "float32", width: int = 1) -> str:
    """Return the name of the implementation for a device, a form of cell, a type of numbers and a width of states.

    This is the implementation that `use_backend` named, or else the fastest that can run. A named implementation that
    cannot run is an error.
    """
    named, dtype = _named.get(), str(dtype).removeprefix("torch.")
    for name in _NAMES if named is None else (named,):
        reason = _refusal(name, device, spec, dtype)
        if reason is None:
            backend = _explain_once(name, device, os.environ.get("TRITON_INTERPRET"))
            reason = _failure(name, spec, dtype, width) if backend.available else backend.reason
            if reason is None:
                return name
        if named is not None:
            raise ConfigError(f"the MD-GRU backend {named!r} cannot run: {reason}")
    raise AssertionError("the wavefront can always run")


# The compiler cannot trace it and need not: a graph keeps what it answers. This is what
# `torch.compiler.assume_constant_result` does, which would import the compiler.
select._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=256)
def _failure(name: str, spec: CellSpec, dtype: str, width: int) -> str | None:
    """Return why an implementation that is there cannot do this after all, found out by trying; None if it can."""
    if name == "triton":
        import torch

        from relatum.kernels.md_gru import triton

        return triton.find_refusal(width, spec, getattr(torch, dtype))
    from relatum.kernels.md_gru import cpu

    return cpu.find_failure(dtype) if name == "cpu" else None


def _refusal(name: str, device: str, spec: CellSpec, dtype: str) -> str | None:
    """Return why an implementation that could run does not fit; None if it fits."""
    if name not in ("triton", "cpu"):
        return None
    interpreted = name == "triton" and os.environ.get("TRITON_INTERPRET") == "1"
    if spec.reset != "after" or not spec.recurrent:
        return "it has no kernel for this form of cell; the wavefront computes every form"
    if device != {"triton": "cuda", "cpu": "cpu"}[name] and not (interpreted and _named.get() == name):
        return f"it does not run on the device {device!r}"
    if name == "cpu" and dtype not in ("float32", "float64", "bfloat16", "float16"):
        return f"it does not compute in torch.{dtype}"
    if name == "triton" and dtype == "float64" and not interpreted:
        return "it has no kernel for double precision; the wavefront has"
    return None


def allows_compiled() -> bool:
    """True if compiled code may compute the rest of a network on a CPU: not if another backend was named."""
    return _named.get() in (None, "cpu")


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Use this implementation and no other within the block; only "cpu" allows compiled code for a CPU anywhere."""
    if name not in _NAMES:
        raise ConfigError(f"the MD-GRU has no backend {name!r}; choose from {', '.join(_NAMES)}")
    token = _named.set(name)
    try:
        yield
    finally:
        _named.reset(token)
