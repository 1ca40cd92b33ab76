"""The Ray engine: Ray Data streams shards through a pool of actors, on this machine or on a cluster.

Ray moves the work; our entries alone decide what is done. The machines of a cluster need relatum and the model under
the same names, and input and output that all of them reach.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relatum.errors import RelatumError
from relatum.extractor.finding import shipped_models
from relatum.kernels.threads import set_threads
from relatum.scale import ray_cluster
from relatum.scale.attempts import PATIENCE, Attempts
from relatum.scale.job import Entry, Job
from relatum.scale.progress import JobProgress
from relatum.scale.shards import Shard, cut_shards
from relatum.scale.worker import ShardReader, Task, WorkerPlan, describe_failure, memory_in_use
from relatum.training.stopping import Stopping

if TYPE_CHECKING:
    import pyarrow as pa

_TICK = 0.2
_ANSWER_SECONDS = 30.0


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
        with ray_cluster.quiet_ray() as ray:
            cpus = ray_cluster.default_cpus(self.workers, self.threads)
            with ray_cluster.cluster(ray, self.address, cpus), Stopping() as stopping:
                return self._work(ray, job, plan, on_progress, lambda: stopping.asked)

    def _work(
        self,
        ray: Any,
        job: Job,
        plan: WorkerPlan,
        on_progress: Callable[[JobProgress], None],
        is_stopping: Callable[[], bool],
    ) -> bool:
        room = ray_cluster.find_room(ray, self.threads, self.on_gpu)
        n_workers, needed = room.plan_workers(self.workers)
        ray_cluster.wait_for_free_worker(ray, needed)
        attempts = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_Attempts).remote()
        progress = JobProgress(job.documents, job.failed)
        is_done = True
        with _passing_on(is_stopping, attempts):
            for entry, worker, memory in self._entries(ray, job, plan, attempts, n_workers, needed):
                if entry is None:
                    is_done = False  # it was left for the next start
                elif entry.number not in job.entries:
                    job.commit(entry)
                    progress.add(entry, worker, memory, job.share_done)
                    progress.restarts = max(0, len(progress.by_worker) - n_workers)
                    on_progress(progress)
        progress.is_final = True
        on_progress(progress)
        return is_done

    def _entries(
        self, ray: Any, job: Job, plan: WorkerPlan, attempts: Any, n_workers: int, needed: dict[str, float]
    ) -> Iterator[_Answer]:
        """Yield the answers of the actors as they come."""
        context = ray.data.DataContext.get_current().copy()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.target_max_block_size = 1  # a block per shard: blocks are what Ray hands out
        with ray.data.DataContext.current(context):
            shards = ray.data.read_datasource(_make_datasource(job, attempts), override_num_blocks=1, num_cpus=0)
            answers = shards.map_batches(
                _Actor,
                batch_size=1,
                batch_format="pyarrow",
                compute=ray.data.ActorPoolStrategy(size=n_workers),
                fn_constructor_kwargs={
                    "plan": _for_other_folders(plan, job),
                    "threads": self.threads,
                    "attempts": attempts,
                },
                **needed,
            )
            try:
                for batch in answers.iter_batches(batch_size=1, batch_format="pyarrow", prefetch_batches=0):
                    yield pickle.loads(batch["answer"][0].as_py())
            except ray.exceptions.RayError as error:
                reason = ray.get(attempts.failure.remote(), timeout=_ANSWER_SECONDS)
                raise RelatumError(reason or ray_cluster.describe_error(error)) from None


_Answer = tuple[Entry | None, int, int]
"""The entry of a shard, None if it was not read; the number of the worker, and the bytes that it holds."""


class _Attempts(Attempts):
    """The attempts at every shard and at starting every actor, and the first error; itself an actor.

    Ray hands an error on as text with its frames, and starts an actor that ends in its constructor for ever.
    """

    def __init__(self) -> None:
        super().__init__()
        self._failure: str | None = None
        self._starts: Counter[str] = Counter()

    def begin_worker(self, actor: str) -> bool:
        """Begin the start of an actor; return False if it has ended too often before it was ready."""
        self._starts[actor] += 1
        return self._starts[actor] <= PATIENCE

    def finish_worker(self, actor: str) -> None:
        del self._starts[actor]

    def note_failure(self, reason: str) -> None:
        self._failure = self._failure or reason

    def failure(self) -> str | None:
        """Return the first error, None if there was none."""
        return self._failure


@contextmanager
def _noting_failure(attempts: Any, describe: Callable[[Exception], str]) -> Iterator[None]:
    """Note the reason of an error where the engine will look for it."""
    import ray

    try:
        yield
    except Exception as error:
        ray.get(attempts.note_failure.remote(describe(error)))
        raise


def _describe(error: Exception) -> str:
    if isinstance(error, RelatumError):
        return str(error)
    return f"{type(error).__name__}: {error}; run the same command again to go on"


@contextmanager
def _passing_on(is_stopping: Callable[[], bool], attempts: Any) -> Iterator[None]:
    """Tell the actors at once when the job is to stop; again and again, as one that was restarted has forgotten it."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_TICK):
            if is_stopping():
                attempts.stop.remote()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _for_other_folders(plan: WorkerPlan, job: Job) -> WorkerPlan:
    """Name folders in full: actors work in a folder of their own."""
    shipped = shipped_models()
    models = [name if name in shipped else str(Path(name).absolute()) for name in plan.settings.models]
    out = str(job.storage.path) if job.storage.is_local else plan.out
    return replace(plan, settings=replace(plan.settings, models=tuple(models)), out=out)


class _Actor:
    """A model in a Ray actor."""

    def __init__(self, plan: WorkerPlan, threads: int, attempts: Any) -> None:
        import ray

        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        set_threads(threads)
        name = ray.get_runtime_context().get_actor_id()
        with _noting_failure(attempts, _describe):
            if not ray.get(attempts.begin_worker.remote(name)):
                raise RelatumError(f"a worker process cannot start: it ended {PATIENCE} times without an error")
            self._reader = ShardReader(plan)
        ray.get(attempts.finish_worker.remote(name))
        self._attempts = attempts
        self._number = os.getpid()

    def __call__(self, batch: pa.Table) -> pa.Table:
        import pyarrow as pa

        answers = [pickle.dumps(self._read(pickle.loads(data.as_py()))) for data in batch["shard"]]
        return pa.table({"answer": pa.array(answers, pa.binary())})

    def _read(self, shard: Shard | None) -> _Answer:
        import ray

        if shard is None or ray.get(self._attempts.is_stopping.remote()):
            return None, self._number, 0

        def note(index: int | None) -> None:
            ray.get(self._attempts.note_reading.remote(shard.number, index))

        with _noting_failure(self._attempts, lambda error: describe_failure(error, shard)):
            careful, deadly = self._begin(shard)
            entry = self._reader.read(Task(shard, careful, deadly), note)
        ray.get(self._attempts.finish.remote(shard.number))
        return entry, self._number, memory_in_use()

    def _begin(self, shard: Shard) -> tuple[bool, frozenset[int]]:
        import ray

        try:
            begun: tuple[bool, frozenset[int]] = ray.get(self._attempts.begin.remote(shard.number))
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        return begun


def _make_datasource(job: Job, attempts: Any) -> Any:
    """Make the source of Ray Data that cuts the input into shards, one row each."""
    import pyarrow as pa
    import ray
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    source, settings = job.source, job.settings
    done = {number: entry.end for number, entry in job.entries.items()}

    def read() -> Iterator[pa.Table]:
        with _noting_failure(attempts, _describe):
            for shard in cut_shards(source, settings.columns, settings.shard, done):
                is_stopping = ray.get(attempts.is_stopping.remote())
                row = pickle.dumps(None if is_stopping else shard)  # None says that there were more
                yield pa.table({"shard": pa.array([row], pa.binary())})
                if is_stopping:
                    return

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
