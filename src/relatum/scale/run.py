"""Jobs from beginning to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, get_args

from relatum.errors import RelatumError
from relatum.extractor.device import is_cpu
from relatum.scale.inputs import Source, find_source, path_of
from relatum.scale.job import Job, JobReport, JobSettings
from relatum.scale.local import LocalEngine, count_cores
from relatum.scale.progress import JobProgress
from relatum.scale.storage import Storage
from relatum.scale.worker import WorkerPlan

Engine = Literal["local", "ray"]

GPU_BATCH = 128
"""Sentences in a batch on a GPU by default."""
GPU_CELLS = 2**18
"""Cells in the tables of a batch on a GPU by default."""
WORKERS_PER_GPU = 16
"""Processes that share a GPU by default, where there are as many cores, and memory for them."""
WORKER_MEMORY = 2**32
"""The memory of a GPU that a worker needs with batches of that size, in bytes."""


def extract_job(
    input: str,
    out: str,
    settings: JobSettings | None = None,
    *,
    engine: Engine = "local",
    workers: int | None = None,
    threads: int | None = None,
    address: str | None = None,
    on_progress: Callable[[JobProgress], None] | None = None,
) -> JobReport:
    """Extract from all documents of a source into a folder of shards; called again, go on where the job stopped.

    `input` is a file, a folder, a pattern or a URL with Parquet, JSONL, CSV or text files; `out` a folder or a URL.
    `workers` processes share the cores: by default one per core, or several per GPU. `threads` is the number of threads
    of each worker. The results depend on neither. `address` is that of a Ray cluster; without it Ray starts on this
    machine.
    """
    _check_arguments(engine, workers, threads)
    settings = _for_device(settings or JobSettings(), engine)
    source = find_source(str(input))
    storage = Storage(str(out))
    _check_folders(source, storage)
    job = Job(storage, source, settings)
    with _locked(storage):
        job.begin()
        plan = WorkerPlan(settings, source.format, job.kept_types, str(out), settings.device)
        done = _choose_engine(engine, workers, threads, address, settings.device).run(job, plan, on_progress or _ignore)
        if done and find_source(source.url).fingerprint() != source.fingerprint():
            raise RelatumError(
                f"{source.url}: the input changed while the job was running, so that nobody knows what {storage.url} "
                "holds; run the job again in another folder"
            )
        return job.finish() if done else job.report_stopped()


def _check_arguments(engine: str, workers: int | None, threads: int | None) -> None:
    if engine not in get_args(Engine):
        raise RelatumError(f"the engine is {engine!r}; expected {' or '.join(get_args(Engine))}")
    for name, number in (("workers", workers), ("threads", threads)):
        if number is not None and number < 1:
            raise RelatumError(f"{name} is {number}; expected at least 1, or None for the default")


def _check_folders(source: Source, storage: Storage) -> None:
    """Refuse a folder of results that would be part of the input at the next start, or that workers cannot reach."""
    if storage.url.startswith("memory:"):
        raise RelatumError(f"{storage.url}: the memory of this process, which its workers do not share; name a folder")
    folder = source.folder
    if folder is not None and f"{path_of(storage.url)}/".startswith(f"{folder}/"):
        raise RelatumError(
            f"{storage.url}: the folder of the results lies in that of the input, {source.url}; name another folder"
        )


def _for_device(settings: JobSettings, engine: Engine) -> JobSettings:
    """Fill in the device, and the sizes of batches on a GPU; the machine that starts Ray need not have one itself."""
    device = settings.device
    if engine != "ray" or device != "cuda":
        device = "cpu" if is_cpu(device) else "cuda"
    if device != "cuda":
        return replace(settings, device=device)
    batch_size, max_cells = settings.batch_size or GPU_BATCH, settings.max_cells or GPU_CELLS
    return replace(settings, device=device, batch_size=batch_size, max_cells=max_cells)


def _choose_engine(engine: Engine, workers: int | None, threads: int | None, address: str | None, device: str) -> Any:
    if engine == "ray":
        from relatum.scale.ray import RayEngine

        return RayEngine(workers, threads or 1, device == "cuda", address)
    if address is not None:
        raise RelatumError("--address is for --engine ray; leave it out, or add --engine ray")
    cores = count_cores()
    gpus = _count_gpus() if device == "cuda" else 0
    n_workers = workers or (max(gpus, min(cores, gpus * _count_places())) if gpus else cores)
    return LocalEngine(n_workers, threads or max(1, cores // n_workers), gpus)


def _ignore(progress: JobProgress) -> None:
    del progress


def _count_gpus() -> int:
    import torch

    return torch.cuda.device_count()


def _count_places() -> int:
    """Return the number of workers that a GPU has memory for."""
    import torch

    memory: int = torch.cuda.get_device_properties(0).total_memory
    return max(1, min(WORKERS_PER_GPU, memory // WORKER_MEMORY))


@contextmanager
def _locked(storage: Storage) -> Iterator[None]:
    """Refuse a second process that works on the same folder; the lock ends with the process, however it ends."""
    if not storage.is_local:
        yield
        return
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    folder = storage.path / "_job"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RelatumError(
                f"{storage.url}: another process is working on this job; wait for it, or stop it"
            ) from None
        yield
