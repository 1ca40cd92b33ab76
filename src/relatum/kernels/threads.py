"""Compiled code on the threads that torch has, and forked children that have none of them.

The threads of an OpenMP pool do not survive a fork, while the pool still counts on them: a child that asks for them
waits for ever. So the pool of the thread that forks is dissolved before every fork, and the child begins with one
thread; `torch.set_num_threads` gives it more, in a pool of its own. The parent's pool comes back with its next use.
"""

from __future__ import annotations

import ctypes
import os
import re
from functools import cache
from pathlib import Path

import torch

_OPENMP = re.compile(r"lib(g|i)?omp5?[-.].*so")
_PAUSE_HARD = 2
"""`omp_pause_hard` of OpenMP 5.0: give back threads and everything that belongs to them."""


def share_threads(library: ctypes.CDLL) -> None:
    """Let a library of ours use torch's pool of threads; where there is none, it has threads of its own."""
    openmp = find_openmp()
    if openmp is not None:
        names = ("GOMP_parallel", "omp_get_num_threads", "omp_get_thread_num")
        library.relatum_use_threads(*(ctypes.cast(getattr(openmp, name), ctypes.c_void_p) for name in names))


@cache
def find_openmp() -> ctypes.CDLL | None:
    """Find the OpenMP library that torch has loaded; None where its threads are of another kind."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return None
    fields_of_lines = [line.split(None, 5) for line in lines]
    paths = {fields[5] for fields in fields_of_lines if len(fields) == 6}
    found = [path for path in sorted(paths) if _OPENMP.match(Path(path).name)]
    found.sort(key=lambda path: "/torch/" not in path)  # there may be several; torch's own lies in its folder
    return ctypes.CDLL(found[0]) if found else None


def _dissolve_pool() -> None:
    """End the threads of this thread's pool, where the library can do it."""
    pause = getattr(find_openmp(), "omp_pause_resource_all", None)
    if pause is not None:
        pause(_PAUSE_HARD)


def _use_one_thread() -> None:
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_dissolve_pool, after_in_child=_use_one_thread)
