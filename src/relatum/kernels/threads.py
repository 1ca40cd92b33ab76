"""Compiled code on the threads that torch has."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

_OPENMP = re.compile(r"lib(g|i)?omp5?[-.].*so")


def share_threads(library: ctypes.CDLL) -> None:
    """Let a library of ours use torch's pool of threads; where there is none, it has threads of its own."""
    openmp = find_openmp()
    if openmp is not None:
        names = ("GOMP_parallel", "omp_get_num_threads", "omp_get_thread_num")
        library.relatum_use_threads(*(ctypes.cast(getattr(openmp, name), ctypes.c_void_p) for name in names))


def find_openmp() -> ctypes.CDLL | None:
    """The OpenMP library that torch has loaded; None where its threads are of another kind."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    paths = {fields[5] for fields in (line.split(None, 5) for line in lines) if len(fields) == 6}
    found = [path for path in sorted(paths) if _OPENMP.match(Path(path).name)]
    found.sort(key=lambda path: "/torch/" not in path)  # there may be several; torch's own lies in its folder
    return ctypes.CDLL(found[0]) if found else None
