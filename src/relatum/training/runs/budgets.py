"""The number of runs that may go on side by side on one device."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from relatum.config import Config

MARGIN = 1.5
"""A run is counted with this many times the memory that the greediest has taken so far."""
BESIDE = 2**30
"""Bytes a run on a GPU takes beside what it asks for: kernels, handles."""
USABLE = 0.9
"""The share of the free memory that is given away."""


@dataclass(frozen=True, slots=True)
class CoreBudget:
    """The most runs at once, and the threads of each; None leaves the threads to torch, as for one run by itself."""

    n_jobs: int
    threads: int | None


def _most_jobs(cores: int, threads: int, device: torch.device, given: bool) -> int:
    """Return the number of runs that there are cores for; `given` if the threads of a run are fixed."""
    if device.type != "cpu":
        return cores
    return cores // threads if given else threads


def share_cores(n_runs: int, jobs: int | None, device: torch.device) -> CoreBudget:
    """Divide the cores among runs; `jobs` None asks for as many runs at once as there are cores for.

    A run by itself, one on a GPU, and any where OMP_NUM_THREADS is set, keep the threads that they would have alone.
    """
    cores, threads = _cores(), torch.get_num_threads()
    given = device.type != "cpu" or "OMP_NUM_THREADS" in os.environ
    if jobs is None:
        jobs = _most_jobs(cores, threads, device, given)
    jobs = max(1, min(jobs, n_runs))
    return CoreBudget(jobs, None if given or jobs == 1 else max(1, threads // jobs))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int | None:
    """Return the bytes of memory that a process could take; None if the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None


class MemoryBudget:
    """The number of runs that fit, as far as the reports of the runs under way tell.

    If that number depends on memory, or if a cache on disk has yet to be filled, one run goes ahead and the others
    follow: if memory on a GPU decides, after the first evaluation of that run, else when its features are there and
    updates begin. Then as many further runs fit as nine tenths of the memory that was free at that moment hold, each
    counted with one and a half times the memory that the greediest run has taken so far (and 1 GiB on a GPU).
    """

    def __init__(self, config: Config, n_jobs: int, by_memory: bool, device: torch.device) -> None:
        self._n_jobs, self._by_memory = n_jobs, by_memory
        self._on_gpu = device.type == "cuda"
        self._first = "evaluate" if self._on_gpu and by_memory else "start"
        fills_disk = config.encoder.kind != "none" and config.encoder.cache == "disk"
        self._open = not (by_memory or fills_disk)
        self._peak = 0
        self._free: int | None = None

    @property
    def limit(self) -> int:
        """The number of runs that may go on at this moment."""
        if not self._open:
            return 1
        if not self._by_memory or self._free is None or not self._peak:
            return self._n_jobs
        need = MARGIN * self._peak + (BESIDE if self._on_gpu else 0)
        return min(self._n_jobs, 1 + int(USABLE * self._free / need))

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take note of an event of a run."""
        if event.get("peak") is not None:
            self._peak = max(self._peak, event["peak"])
        if not self._open and event["event"] in (self._first, "evaluate"):
            self._open = True
            self._free = event.get("free")
