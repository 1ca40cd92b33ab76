"""Jobs in this process, without the seconds that a worker needs to start."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from relatum.scale.inputs import find_source
from relatum.scale.job import Job, JobReport, JobSettings
from relatum.scale.storage import Storage
from relatum.scale.worker import ShardReader, Task, WorkerPlan

SENTENCE = "Mara Ilves works for Tarn Shipping in Oldhaven. The ferry left Port Amsel, she said."


def make_texts(n: int) -> list[str]:
    return [f"{SENTENCE} Tom met Ann {number} times." for number in range(n)]


def write_jsonl(path: Path, records: Iterable[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def run_here(
    input: Path | str, out: Path | str, settings: JobSettings, limit: int | None = None
) -> tuple[JobReport, list[int]]:
    """The report of a job and the shards that were read; with a limit, the job is stopped after so many of them."""
    job = Job.open(Storage(str(out)), find_source(str(input)), settings)
    reader = ShardReader(WorkerPlan(settings, job.source.format, job.kept_types, str(out), "cpu"))
    read = []
    for shard in islice(job.pending_shards(), limit):
        read.append(shard.number)
        job.commit(reader.read(Task(shard), lambda _: None))
    return (job.finish() if limit is None else job.report_stopped()), read


def result_files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.glob("part-*"))}


def result_rows(out: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in sorted(out.glob("part-*")):
        if path.suffix == ".parquet":
            rows += pq.ParquetFile(path).read().to_pylist()
        else:
            rows += [json.loads(line) for line in path.read_text().splitlines()]
    return rows
