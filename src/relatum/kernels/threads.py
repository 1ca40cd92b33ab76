"""Compiled code on the threads that torch has, or on threads of its own where torch is not imported.

The threads of an OpenMP pool do not survive a fork, while the pool still counts on them: a child that asks for them
waits for ever. So the pool of the thread that forks is dissolved before every fork, and the child begins with one
thread; `set_threads` gives it more, in a pool of its own. The parent's pool comes back with its next use. A lock that
some other thread held would never be opened in the child, so locks of models are `ForkLock`s.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
from functools import cache
from pathlib import Path
from types import TracebackType
from weakref import WeakSet

_OPENMP = re.compile(r"lib(g|i)?omp5?[-.].*so")
_SYSTEMS = ("libgomp.so.1", "libomp.so.5", "libiomp5.so")
"""The OpenMP libraries that a system may have; the first comes with g++."""
_PAUSE_HARD = 2
"""`omp_pause_hard` of OpenMP 5.0: give back threads and everything that belongs to them."""


class _Chosen(threading.local):
    """The number of threads that was set in a thread; None if none was."""

    number: int | None = None


_chosen = _Chosen()
_in_use: list[ctypes.CDLL] = []
"""The OpenMP libraries that compiled code was given."""


class ForkLock:
    """A lock that is open in a forked child, where the thread that held it does not exist; a copy is a new lock."""

    def __init__(self) -> None:
        self.reopen()
        _locks.add(self)

    def reopen(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[ForkLock], tuple[()]]:
        return ForkLock, ()


_locks: WeakSet[ForkLock] = WeakSet()


def count_threads() -> int:
    """Return the number of threads that work in the calling thread is shared among: torch's, if torch is imported."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):
        number: int = torch.get_num_threads()
        return number
    return _chosen.number or _default_threads()


def set_threads(number: int) -> None:
    """Let work in the calling thread be shared among so many threads, in torch too if it is imported."""
    _chosen.number = number
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "set_num_threads"):
        torch.set_num_threads(number)


@cache
def _default_threads() -> int:
    """Return what OMP_NUM_THREADS says, or else the number of cores that this process may use."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if first.isdecimal() and int(first):
        return int(first)
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    # Two threads of the same core share its units: more threads than cores make products slower.
    return len({_siblings(number) for number in usable}) or 1


def _siblings(number: int) -> str:
    """Return the list of the processor's threads that are on the same core as this one."""
    path = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return str(number)


def share_threads(library: ctypes.CDLL) -> None:
    """Let a library of ours use torch's pool of threads, or the system's; without OpenMP it has one thread."""
    openmp = find_openmp()
    if openmp is None:
        openmp = _load_openmp()
    if openmp is not None:
        if openmp not in _in_use:
            _in_use.append(openmp)
        names = ("GOMP_parallel", "omp_get_num_threads", "omp_get_thread_num")
        library.relatum_use_threads(*(ctypes.cast(getattr(openmp, name), ctypes.c_void_p) for name in names))


def find_openmp() -> ctypes.CDLL | None:
    """Find the OpenMP library that torch has loaded; None where its threads are of another kind, or without torch."""
    return _find_loaded() if "torch" in sys.modules else None


@cache
def _find_loaded() -> ctypes.CDLL | None:
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return None
    fields_of_lines = [line.split(None, 5) for line in lines]
    paths = {fields[5] for fields in fields_of_lines if len(fields) == 6}
    found = [path for path in sorted(paths) if _OPENMP.match(Path(path).name)]
    found.sort(key=lambda path: "/torch/" not in path)  # there may be several; torch's own lies in its folder
    return ctypes.CDLL(found[0]) if found else None


@cache
def _load_openmp() -> ctypes.CDLL | None:
    """Load the system's OpenMP library; None if it has none."""
    for name in _SYSTEMS:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _dissolve_pools() -> None:
    """End the threads of this thread's pools, where the libraries can do it."""
    for openmp in (find_openmp(), *_in_use):
        pause = getattr(openmp, "omp_pause_resource_all", None)
        if pause is not None:
            pause(_PAUSE_HARD)


def _begin_child() -> None:
    set_threads(1)
    for lock in _locks:
        lock.reopen()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_dissolve_pools, after_in_child=_begin_child)
