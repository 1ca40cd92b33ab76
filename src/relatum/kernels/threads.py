"""Compiled code on the threads that torch has, or on threads of its own where torch is not imported.

On Linux, threads of its own come from the system's OpenMP library. On macOS and Windows they are those of
`pool/native/pool.cpp`: a second OpenMP library in a process stops it on macOS, and Windows has none that will do.

The threads of an OpenMP pool do not survive a fork, while the pool still counts on them: a child that asks for them
waits for ever. So the pool of the thread that forks is dissolved before every fork, and the child begins with one
thread; `set_threads` gives it more, in a pool of its own. The parent's pool comes back with its next use. A lock that
some other thread held would never be opened in the child, so locks of models are `ForkLock`s.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import sys
import threading
from functools import cache
from pathlib import Path
from types import TracebackType
from weakref import WeakSet

from relatum.kernels.compile import CompileError, load
from relatum.kernels.sources import pool_for
from relatum.kernels.systems import this_system

_log = logging.getLogger(__name__)

_OPENMP = re.compile(r"lib(g|i)?omp5?[-.].*(so|dylib)")
_SYSTEMS = ("libgomp.so.1", "libomp.so.5", "libiomp5.so")
"""The OpenMP libraries that Linux may have; the first comes with g++."""
_OPENMP_FUNCTIONS = ("GOMP_parallel", "omp_get_num_threads", "omp_get_thread_num")
_POOL_FUNCTIONS = ("relatum_pool_run", "relatum_pool_count", "relatum_pool_index")
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
    return _count_cores() or os.cpu_count() or 1


def _count_cores() -> int:
    """Return the number of cores; 0 if the system does not say. A core's two threads share its units, so one is enough.

    The efficient cores of a Mac are left out, as torch does: all threads would wait for the slowest.
    """
    if hasattr(os, "sched_getaffinity"):
        return len({_siblings(number) for number in os.sched_getaffinity(0)})
    if sys.platform == "darwin":
        number, size = ctypes.c_int32(0), ctypes.c_size_t(4)
        ask = ctypes.CDLL(None).sysctlbyname
        ask(b"hw.perflevel0.physicalcpu", ctypes.byref(number), ctypes.byref(size), None, ctypes.c_size_t(0))
        return number.value
    pool = _load_pool()
    return pool.relatum_pool_cores() if pool is not None else 0


def _siblings(number: int) -> str:
    """Return the list of the processor's threads that are on the same core as this one."""
    path = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return str(number)


def share_threads(library: ctypes.CDLL) -> None:
    """Let a library of ours use torch's pool of threads, the system's, or our own; without any it has one thread."""
    openmp = find_openmp()
    pool = _load_pool() if openmp is None else None
    if openmp is None and pool is None:
        openmp = _load_openmp()
    if openmp is not None:
        if openmp not in _in_use:
            _in_use.append(openmp)
        _give(library, openmp, _OPENMP_FUNCTIONS)
    elif pool is not None:
        _give(library, pool, _POOL_FUNCTIONS)


def _give(library: ctypes.CDLL, threads: ctypes.CDLL, functions: tuple[str, ...]) -> None:
    library.relatum_use_threads(*(ctypes.cast(getattr(threads, name), ctypes.c_void_p) for name in functions))


def find_openmp() -> ctypes.CDLL | None:
    """Find the OpenMP library that torch has loaded; None without torch, or if it has another kind of threads.

    Intel's library for Windows, which torch has there, cannot be called by the names of GNU's.
    """
    return _find_loaded() if "torch" in sys.modules else None


@cache
def _find_loaded() -> ctypes.CDLL | None:
    found = [path for path in sorted(_loaded_files()) if _OPENMP.match(Path(path).name)]
    found.sort(key=lambda path: "/torch/" not in path)  # there may be several; torch's own lies in its folder
    return ctypes.CDLL(found[0]) if found else None


def _loaded_files() -> set[str]:
    """Return the paths of the libraries that this process has loaded; none on Windows."""
    if sys.platform == "darwin":
        loader = ctypes.CDLL(None)
        loader._dyld_get_image_name.restype = ctypes.c_char_p
        names = [loader._dyld_get_image_name(number) for number in range(loader._dyld_image_count())]
        return {os.fsdecode(name) for name in names if name is not None}
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    fields_of_lines = [line.split(None, 5) for line in lines]
    return {fields[5] for fields in fields_of_lines if len(fields) == 6}


@cache
def _load_pool() -> ctypes.CDLL | None:
    """Load our own pool of threads; None if this system needs none, or it cannot be compiled or loaded."""
    for source in pool_for(this_system()):
        try:
            return load(source)
        except CompileError as error:
            _log.warning("compiled code has one thread: %s", error)
    return None


@cache
def _load_openmp() -> ctypes.CDLL | None:
    """Load the system's OpenMP library; None if it has none."""
    if sys.platform != "linux":
        return None
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
