"""The Ray engine: Ray Data streams shards through a pool of actors, on this machine or on a cluster.

Ray moves the work; our entries alone decide what is done. The machines of a cluster need relatum and the model under
the same names, and input and output that all of them reach.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relatum.errors import RelatumError
from relatum.scale.attempts import Attempts
from relatum.scale.job import Entry, Job
from relatum.scale.libraries import need_library
from relatum.scale.local import count_cores
from relatum.scale.progress import JobProgress
from relatum.scale.shards import Shard, cut_shards
from relatum.scale.worker import ShardReader, Task, WorkerPlan, memory_in_use
from relatum.training.stopping import Stopping

if TYPE_CHECKING:
    import pyarrow as pa

_WORKERS_PER_GPU = 4
"""Actors that take turns on a GPU."""


@dataclass(frozen=True, slots=True)
class RayEngine:
    """A pool of Ray actors."""

    workers: int | None = None
    threads: int = 1
    on_gpu: bool = False
    address: str | None = None
    """The address of a cluster, or "auto"; None starts Ray on this machine for the time of the job."""

    def run(self, job: Job, plan: WorkerPlan, on_progress: Callable[[JobProgress], None]) -> bool:
        """Do all pending shards; return False if the job was stopped by Ctrl-C or SIGTERM."""
        ray = need_library("ray", "ray")
        need_library("ray.data", "ray")
        began_here = not ray.is_initialized()
        if began_here:
            self._begin(ray)
        try:
            with Stopping() as stopping:
                return self._work(ray, job, plan, on_progress, lambda: stopping.asked)
        finally:
            if began_here:
                ray.shutdown()

    def _begin(self, ray: Any) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if self.address is None:
            wanted = (self.workers or count_cores()) * self.threads
            options.update(num_cpus=max(wanted, count_cores()), include_dashboard=False)
        try:
            ray.init(self.address, **options)
        except ConnectionError as error:
            raise RelatumError(f"--address {self.address}: no Ray cluster answers there ({error})") from None

    def _count_workers(self, resources: dict[str, float]) -> int:
        """Return the number of actors that the cluster has room for; asking for more is an error, not a wait."""
        room = int(resources.get("CPU", 0)) // self.threads
        if self.on_gpu:
            room = min(room, int(resources.get("GPU", 0)) * _WORKERS_PER_GPU)
        if room < 1 or room < (self.workers or 1):
            raise RelatumError(
                f"the Ray cluster has room for {room} workers of {self.threads} threads ({_describe(resources)}), and "
                f"{self.workers or 1} are asked for; ask for fewer with --workers, or add nodes"
            )
        return self.workers or room

    def _work(
        self,
        ray: Any,
        job: Job,
        plan: WorkerPlan,
        on_progress: Callable[[JobProgress], None],
        is_stopping: Callable[[], bool],
    ) -> bool:
        n_workers = self._count_workers(ray.cluster_resources())
        attempts = ray.remote(num_cpus=0)(Attempts).remote()
        progress = JobProgress(job.documents, job.failed)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        shards = ray.data.read_datasource(
            _make_datasource(job, attempts), override_num_blocks=1, ray_remote_args={"num_cpus": 0}
        )
        gpus = {"num_gpus": 1 / _WORKERS_PER_GPU} if self.on_gpu else {}
        entries = shards.map_batches(
            _Actor,
            batch_size=1,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=n_workers),
            fn_constructor_kwargs={"plan": plan, "threads": self.threads, "attempts": attempts},
            num_cpus=self.threads,
            **gpus,
        )
        stopped = False
        for batch in entries.iter_batches(batch_size=1, batch_format="pyarrow", prefetch_batches=0):
            if is_stopping() and not stopped:
                stopped = True
                ray.get(attempts.stop.remote())
            entry, worker, memory = pickle.loads(batch["entry"][0].as_py())
            if entry is None:
                continue
            job.commit(entry)
            progress.add(entry, worker, memory, job.share_done)
            on_progress(progress)
        progress.is_final = True
        on_progress(progress)
        return not stopped


def _describe(resources: dict[str, float]) -> str:
    return f"{resources.get('CPU', 0):g} CPUs, {resources.get('GPU', 0):g} GPUs"


class _Actor:
    """A model in a Ray actor."""

    def __init__(self, plan: WorkerPlan, threads: int, attempts: Any) -> None:
        import os

        import torch

        torch.set_num_threads(threads)
        self._reader = ShardReader(plan)
        self._attempts = attempts
        self._number = os.getpid()

    def __call__(self, batch: pa.Table) -> pa.Table:
        import pyarrow as pa

        answers = [pickle.dumps(self._read(pickle.loads(data.as_py()))) for data in batch["shard"]]
        return pa.table({"entry": pa.array(answers, pa.binary())})

    def _read(self, shard: Shard) -> tuple[Entry | None, int, int]:
        import ray

        if ray.get(self._attempts.is_stopping.remote()):
            return None, self._number, 0
        careful, deadly = ray.get(self._attempts.begin.remote(shard.number))

        def note(index: int | None) -> None:
            ray.get(self._attempts.note_reading.remote(shard.number, index))

        entry = self._reader.read(Task(shard, careful, deadly), note)
        ray.get(self._attempts.finish.remote(shard.number))
        return entry, self._number, memory_in_use()


def _make_datasource(job: Job, attempts: Any) -> Any:
    """Make the source of Ray Data that cuts the input into shards, one row each."""
    import pyarrow as pa
    import ray
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    source, settings = job.source, job.settings
    done = {number: entry.end for number, entry in job.entries.items()}

    def read() -> Iterator[pa.Table]:
        for shard in cut_shards(source, settings.columns, settings.shard, done):
            if ray.get(attempts.is_stopping.remote()):
                return
            yield pa.table({"shard": pa.array([pickle.dumps(shard)], pa.binary())})

    class Shards(Datasource):
        """The shards of a job."""

        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            del parallelism  # shards are cut in one order, by one task
            metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
            return [ReadTask(read, metadata)]

    made: Any = Shards  # its base has no types
    return made()
