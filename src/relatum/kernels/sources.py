"""The C++ of the compiled code: one list for those who load it and for the build of wheels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from relatum.kernels.compile import AMX, Source
from relatum.kernels.systems import System, this_system

_KERNELS = Path(__file__).parent

SCAN = Source(_KERNELS / "md_gru/native", "scan.cpp")
LINEAR = Source(_KERNELS / "linear/native", "linear.cpp", shared=(SCAN.folder,), needs=AMX)
ENCODER = Source(_KERNELS / "encoder/native", "encoder.cpp", shared=(LINEAR.folder, SCAN.folder))
NETWORK = Source(_KERNELS / "network/native", "network.cpp", shared=(LINEAR.folder, SCAN.folder))
ALL = (SCAN, LINEAR, ENCODER, NETWORK)
POOL = Source(_KERNELS / "pool/native", "pool.cpp", shared=(SCAN.folder,), for_any_cpu=True)
"""Threads, and what Python cannot ask the system; for systems that need it."""


def pool_for(system: System | None) -> tuple[Source, ...]:
    """Return the pool's source if compiled code may need it on a system; nothing otherwise."""
    return (POOL,) if system is not None and system.needs_pool else ()


def scan_of(dtype: int, source: Source = SCAN) -> Source:
    """Return the scan's source for one dtype, so that nobody waits for the others; shipped binaries have them all."""
    return replace(source, parts=(f"-DRELATUM_DTYPE={dtype}",))


READING = (scan_of(0), ENCODER, NETWORK, *pool_for(this_system()))
"""The sources that the shipped models are read with, in float32."""
