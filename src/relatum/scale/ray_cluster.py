"""The Ray cluster of a job: started here or joined, its room for workers, and its messages."""

from __future__ import annotations

import logging
import os
import socket
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from relatum.errors import RelatumError
from relatum.scale.libraries import need_library
from relatum.scale.local import count_cores

WORKERS_PER_GPU = 4
"""Actors that take turns on a GPU, at most."""
_ANSWER_SECONDS = 5.0
_FREE_SECONDS = 30.0
"""Seconds until a cluster that others use must have room for one worker."""
_LOG_LEVEL = "RAY_BACKEND_LOG_LEVEL"
_STEPS = 10_000
"""Ray counts a GPU in steps of 1 / 10,000."""


@contextmanager
def cluster(ray: Any, address: str | None, cpus: int) -> Iterator[None]:
    """Join the cluster at an address, or start one with so many CPUs on this machine; leave or end it afterwards.

    A connection that the caller has made already is used, and stays.
    """
    if ray.is_initialized():
        _check_connection(ray, address)
        yield
        return
    _connect(ray, address, cpus)
    internals = ray._private.worker  # no setting keeps the message about a worker that died from standard output
    internals._worker_logs_enabled = False
    try:
        yield
    finally:
        ray.shutdown()
        internals._worker_logs_enabled = True


def _check_connection(ray: Any, address: str | None) -> None:
    """Refuse an address other than that of the cluster that this process is connected to."""
    connected = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", connected):
        raise RelatumError(f"--address {address}: this process is connected to the Ray cluster at {connected}")


def _connect(ray: Any, address: str | None, cpus: int) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address is None:
        options.update(num_cpus=cpus, include_dashboard=False)
    else:
        _check_address(address)
    try:
        with _quiet_start():
            ray.init(address or "local", **options)  # with None, Ray joins any cluster that it finds on this machine
    except (ConnectionError, RuntimeError, ValueError) as error:
        what = "cannot start Ray" if address is None else f"--address {address}: cannot join the Ray cluster"
        reason = str(error.__cause__ or error).strip().rpartition("\n")[2]
        raise RelatumError(f"{what}: {reason}") from None


def _check_address(address: str) -> None:
    """Refuse an address where nothing answers: Ray itself would try for minutes."""
    if address == "auto":
        return
    if "://" in address:
        raise RelatumError(
            f"--address {address}: jobs do not run over Ray Client; start relatum on a machine of the cluster with "
            "--address auto"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise RelatumError(f"--address {address}: expected HOST:PORT, such as 10.0.0.1:6379, or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise RelatumError(f"--address {address}: no Ray cluster answers there ({error})") from None


@dataclass(frozen=True, slots=True)
class Room:
    """The room of a cluster for workers with so many threads."""

    nodes: Sequence[Mapping[str, float]]
    """The resources of every node."""
    threads: int
    on_gpu: bool

    def plan_workers(self, wanted: int | None) -> tuple[int, dict[str, float]]:
        """Return the number of workers, and the resources of each; more workers than fit are an error.

        The workers are spread over the GPUs: each GPU has as few of them as possible.
        """
        most = self._count(WORKERS_PER_GPU)
        n_workers = wanted or most
        if not 0 < n_workers <= most:
            raise RelatumError(
                f"the Ray cluster has room for {most} workers of {self.threads} threads ({self._describe()}), and "
                f"{wanted or 1} are asked for; ask for fewer with --workers, for fewer --threads, or add nodes"
            )
        needed: dict[str, float] = {"num_cpus": self.threads}
        if self.on_gpu:
            shares = range(1, WORKERS_PER_GPU + 1)
            per_gpu = next(share for share in shares if self._count(share) >= n_workers)
            needed["num_gpus"] = _STEPS // per_gpu / _STEPS
        return n_workers, needed

    def _count(self, per_gpu: int) -> int:
        """Count the workers that fit; each must find its cores and its GPU on one node."""
        count = 0
        for node in self.nodes:
            fitting = int(node.get("CPU", 0) // self.threads)
            count += min(fitting, int(node.get("GPU", 0)) * per_gpu) if self.on_gpu else fitting
        return count

    def _describe(self) -> str:
        cpus = sum(node.get("CPU", 0) for node in self.nodes)
        gpus = sum(node.get("GPU", 0) for node in self.nodes)
        return f"{cpus:g} CPUs and {gpus:g} GPUs on {len(self.nodes)} nodes"


def find_room(ray: Any, threads: int, on_gpu: bool) -> Room:
    """Return the room of the cluster that this process is connected to, be it free or not."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return Room(nodes, threads, on_gpu)


def wait_for_free_worker(ray: Any, needed: Mapping[str, float]) -> None:
    """Wait until one worker has a place; a cluster that is full of other work is an error, not a wait for ever."""
    end = time.monotonic() + _FREE_SECONDS
    while True:
        free = ray.available_resources()
        if all(free.get(name.removeprefix("num_").upper()[:3], 0) >= amount for name, amount in needed.items()):
            return
        if time.monotonic() > end:
            raise RelatumError(
                f"the Ray cluster is busy: {free.get('CPU', 0):g} CPUs and {free.get('GPU', 0):g} GPUs are free; try "
                "again later, or add nodes"
            )
        time.sleep(0.2)


@contextmanager
def quiet_ray() -> Iterator[Any]:
    """Yield the module `ray`; meanwhile it keeps its messages, and warnings about its own code, from the terminal."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"ray(\.|$)")
        ray = need_library("ray", "ray")
        need_library("ray.data", "ray")
        handlers = logging.getLogger("ray.data").handlers
        consoles = {handler: handler.level for handler in handlers if type(handler).__name__ == "PlainRayHandler"}
        for handler in consoles:
            handler.setLevel(logging.CRITICAL + 1)  # the log files of Ray have all messages
        try:
            yield ray
        finally:
            for handler, level in consoles.items():
                handler.setLevel(level)


@contextmanager
def _quiet_start() -> Iterator[None]:
    """Keep Ray's compiled code from writing to standard error, now and later: it heeds only a variable.

    When it reads the variable it says so there, for which standard error leads nowhere for the moment.
    """
    before = os.environ.get(_LOG_LEVEL)
    os.environ[_LOG_LEVEL] = before or "fatal"
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
        if before is None:
            del os.environ[_LOG_LEVEL]


def describe_error(error: Exception) -> str:
    """Return the message for an error of Ray itself."""
    last_line = str(error).strip().rpartition("\n")[2]
    return f"Ray: {type(error).__name__}: {last_line}; run the same command again to go on"


def default_cpus(workers: int | None, threads: int) -> int:
    """Return the CPUs of a cluster that is started here: those of the machine, or as many as are asked for."""
    return max(count_cores(), (workers or 1) * threads)
