"""A worker: reads shards with its own model and writes their files. Also the process behind the local engine."""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from relatum.errors import RelatumError, explain_os_error
from relatum.scale.batch import Row, extract_texts
from relatum.scale.job import Entry, JobSettings
from relatum.scale.rows import Document
from relatum.scale.shards import Shard
from relatum.scale.storage import Storage
from relatum.scale.writing import file_name, to_bytes

OnDocument = Callable[[int | None], None]


@dataclass(frozen=True)
class WorkerPlan:
    """All that a worker needs to know of its job."""

    settings: JobSettings
    input_format: str
    kept_types: Any
    out: str
    device: str


@dataclass(frozen=True, slots=True)
class Task:
    """A shard to read; one that has ended several processes is read document by document."""

    shard: Shard
    careful: bool = False
    deadly: Collection[int] = field(default=frozenset())
    """The documents that ended a process, by their indices in the shard; they are not read again."""


class ShardReader:
    """A model that reads shards and writes their files."""

    def __init__(self, plan: WorkerPlan) -> None:
        from relatum.extractor.extractor import Extractor

        self._plan = plan
        settings = plan.settings
        models = settings.models
        rules = dict(settings.splitting)
        self._extractor = Extractor.from_pretrained(
            models if len(models) > 1 else models[0],
            plan.device,
            settings.precision,  # type: ignore[arg-type]
            settings.batch_size,
            settings.max_cells,
            words=rules.get("words"),
            sentences=rules.get("sentences"),
        )
        self._storage = Storage(plan.out)

    def read(self, task: Task, on_document: OnDocument) -> Entry:
        """Read a shard, write its file, and return the entry that commits it.

        `on_document` is called with the index of every document before it is read, if the task is a careful one, and
        with None after the last.
        """
        plan = self._plan
        shard = task.shard
        documents = shard.documents(plan.input_format, plan.settings.columns)
        if len(documents) != shard.n_documents:
            raise RelatumError(f"shard {shard.number}: {shard.n_documents} documents in, {len(documents)} read")
        rows = self._read_carefully(documents, task, on_document) if task.careful else self._read(documents)
        data = to_bytes(documents, rows, plan.settings.format, plan.kept_types, plan.settings.with_text)
        self._storage.write(file_name(shard.number, plan.settings.format), data)
        failed = sum(1 for row in rows if row[2] is not None)
        sha256 = hashlib.sha256(data).hexdigest()
        return Entry(shard.number, shard.end, shard.input_bytes, len(rows), failed, len(data), sha256)

    def _read(self, documents: list[Document]) -> list[Row]:
        settings = self._plan.settings
        texts = [document.text for document in documents if document.error is None]
        found = iter(extract_texts(self._extractor, texts, settings.threshold, settings.max_characters))
        return [next(found) if document.error is None else (None, None, document.error) for document in documents]

    def _read_carefully(self, documents: list[Document], task: Task, on_document: OnDocument) -> list[Row]:
        rows: list[Row] = []
        for index, document in enumerate(documents):
            if index in task.deadly:
                rows.append((None, None, "the process that read this document ended without an error (out of memory?)"))
            else:
                on_document(index)
                rows += self._read([document])
        on_document(None)
        return rows


def describe_failure(error: Exception, shard: Shard) -> str:
    """Return the message for an error that no document is to blame for."""
    if isinstance(error, RelatumError):
        return str(error)
    if isinstance(error, OSError):
        return f"{explain_os_error(error)}; then run the same command again to go on"
    return f"shard {shard.number}: {type(error).__name__}: {error}; run the same command again to go on"


def memory_in_use() -> int:
    """Return the bytes of memory that this process holds; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def main() -> None:
    """Read pickled tasks from standard input, answer on standard output, until the input ends.

    Both ends are processes of relatum on this machine: the engine starts this one and holds its pipes.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints goes to the log
    _work(pickle.load(sys.stdin.buffer), answers)
    sys.stderr.flush()
    os._exit(0)  # a thread still waits for tasks: Python would not end in order


def _work(plan: WorkerPlan, answers: IO[bytes]) -> None:
    tasks: SimpleQueue[Task | None] = SimpleQueue()
    stopping = threading.Event()
    try:
        reader = ShardReader(plan)
    except RelatumError as error:
        _answer(answers, "failed", str(error))
        return
    _answer(answers, "ready", memory_in_use())
    threading.Thread(target=_receive, args=(sys.stdin.buffer, tasks, stopping), daemon=True).start()
    while (task := tasks.get()) is not None and not stopping.is_set():
        _answer(answers, "begun", task.shard.number)
        try:
            entry = reader.read(task, lambda index: _answer(answers, "reading", index))
        except Exception as error:
            _answer(answers, "failed", describe_failure(error, task.shard))
            return
        _answer(answers, "done", (entry, memory_in_use()))


def _answer(answers: IO[bytes], kind: str, content: object) -> None:
    pickle.dump((kind, content), answers)
    answers.flush()


def _receive(stream: IO[bytes], tasks: SimpleQueue[Task | None], stopping: threading.Event) -> None:
    """Queue tasks as they come, so that the next one is here when the last is done.

    None means: finish the shard under way, leave the others, and end. When the engine itself has ended, so does this
    process, in the midst of its shard.
    """
    while True:
        try:
            task = pickle.load(stream)
        except (EOFError, OSError, pickle.UnpicklingError):
            os._exit(1)
        if task is None:
            stopping.set()
        tasks.put(task)
