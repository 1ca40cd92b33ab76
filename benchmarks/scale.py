"""How many documents a second a job extracts with one worker and with several; checked before a speed is printed.

All jobs must write the very same files, and on the first documents the entities and relations of an extractor in this
process. The speed of a job counts from the time when as many shards are done as there are workers, so that their start
is left out; `seconds` has it. Memory is what a worker holds: after a tenth of the documents, and at the end. On a GPU
the busy share is sampled by nvidia-smi. The texts are the lines of `--texts` (a .txt or .txt.gz file), or else the
sentences of conll04 in $RELATUM_DATA, or our own examples, over and over. Rows go to a JSON file with `--out`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.extract import EXAMPLES, FLAGS
from relatum.extractor.device import choose_device
from relatum.extractor.extractor import Extractor
from relatum.extractor.result import Extraction
from relatum.kernels.compile import cpu_flags
from relatum.scale import JobSettings, extract_job
from relatum.scale.local import count_cores
from relatum.scale.progress import JobProgress
from relatum.scale.shards import ShardSize
from relatum.training.corpus import load_part
from relatum.training.provenance import commit, device_name

CHECKED = 1000
"""The number of documents that are compared with an extractor in this process."""
SCORE_BOUND = 2e-4
"""The most that a score may differ; scores in results have four decimals."""


@dataclass(frozen=True)
class Row:
    """One job. Rates are per second; memory is in MiB, the most that a worker held."""

    device: str
    cpu_flags: list[str]
    cores: int
    model: str
    texts: str
    engine: str
    workers: int
    precision: str
    batch_size: int | None
    max_cells: int | None
    documents: int
    sentences: int
    """Counted in the first documents, and scaled."""
    seconds: float
    documents_per_s: float
    sentences_per_s: float
    ratio_to_first: float
    memory_after_a_tenth: int
    memory_at_the_end: int
    gpu_busy: float | None
    gpu_memory: int | None
    commit: str | None


@dataclass
class Watch:
    """The times at which documents were done, and the memory of the workers."""

    times: list[tuple[float, int]] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    def __call__(self, progress: JobProgress) -> None:
        if progress.documents and (not self.times or progress.documents > self.times[-1][1]):
            self.times.append((time.perf_counter(), progress.documents))
            self.memory.append(max(progress.memory.values(), default=0) >> 20)

    def documents_per_s(self, workers: int) -> float:
        """Return the rate from the time when every worker has done a shard, about, to the end."""
        (start, first), (end, last) = self.times[workers - 1], self.times[-1]
        return (last - first) / (end - start)

    def memory_at(self, share: float) -> int:
        """Return the memory when a share of the documents was done."""
        wanted = share * self.times[-1][1]
        return next(memory for (_, done), memory in zip(self.times, self.memory, strict=True) if done >= wanted)


@dataclass
class Gpu:
    """Samples of nvidia-smi: the busy share and the memory in use."""

    busy: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    @contextmanager
    def watching(self, is_there: bool) -> Iterator[None]:
        if not is_there:
            yield
            return
        query = [
            "nvidia-smi",
            "--query-gpu=utilization.gpu,memory.used",
            "--format=csv,noheader,nounits",
            "-lms",
            "200",
        ]
        with subprocess.Popen(query, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield
            finally:
                process.terminate()
                lines = process.communicate()[0].splitlines()
        samples = [line.split(",") for line in lines if line.count(",") == 1]
        self.busy = [float(share) for share, _ in samples]
        self.memory = [int(used) for _, used in samples]

    def busy_share(self) -> float | None:
        """Return the mean of the samples while the workers were at work: from the first busy one to the last."""
        busy = [number for number, share in enumerate(self.busy) if share > 0]
        return round(statistics.mean(self.busy[busy[0] : busy[-1] + 1]), 1) if busy else None


def load_texts(path: Path | None) -> tuple[str, list[str]]:
    """Return the name of the texts, and the texts."""
    if path is not None:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return path.name, [line.strip() for line in data.decode().split("\n") if line.strip()]
    folder = os.environ.get("RELATUM_DATA")
    corpus = Path(folder) / "conll04" if folder else EXAMPLES
    config = Extractor.from_pretrained("news", "cpu").model.config
    texts: list[str] = []
    for part in ("train", "dev"):
        texts += [" ".join(example.sentence.words) for example in load_part(corpus, part, config)[0]]
    return corpus.name, texts


def write_input(path: Path, texts: Sequence[str], n: int) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for number, text in enumerate(islice(cycle(texts), n)):
            stream.write(json.dumps({"id": f"d{number}", "text": text}) + "\n")


def result_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}


def find_difference(folder: Path, expected: Sequence[Extraction]) -> str | None:
    """Compare the first results of a job with extractions in this process; return the first difference."""
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.glob("part-*")):
        rows += pq.ParquetFile(path).read().to_pylist()
        if len(rows) >= len(expected):
            break
    for number, extraction in enumerate(expected):
        for kind, wanted in extraction.to_dict().items():
            if kind != "text" and not are_close(rows[number][kind], wanted):
                return f"document {number}: found {rows[number][kind]}, expected {wanted}"
    return None


def are_close(found: Sequence[dict[str, Any]], wanted: Sequence[dict[str, Any]]) -> bool:
    """True if entities or relations are the same, and their scores nearly so."""
    if len(found) != len(wanted):
        return False
    for one, other in zip(found, wanted, strict=True):
        if abs(one["score"] - other["score"]) > SCORE_BOUND or {**one, "score": 0} != {**other, "score": 0}:
            return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, help="a file with one text a line")
    parser.add_argument("--documents", type=int, default=6000)
    parser.add_argument("--model", default="news")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--engines", nargs="+", choices=("local", "ray"), default=["local", "ray"])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--max-cells", type=int)
    parser.add_argument("--shard", type=int, default=250, help="documents per shard")
    parser.add_argument("--out", type=Path, help="a JSON file for the rows")
    options = parser.parse_args()
    device = choose_device(options.device)
    name, texts = load_texts(options.texts)
    settings = JobSettings(
        (options.model,),
        device.type,
        options.precision,
        options.batch_size,
        options.max_cells,
        shard=ShardSize(options.shard),
    )
    extractor = Extractor.from_pretrained(
        options.model, device, options.precision, options.batch_size, options.max_cells
    )
    checked = texts[: min(CHECKED, options.documents)]
    sentences = round(options.documents * statistics.mean(len(extractor.split(text)) for text in checked))
    answers = list(extractor.pipe(checked))
    rows: list[Row] = []
    expected: dict[str, bytes] = {}
    print(f"{device_name(device)}; {options.model} on {options.documents} texts of {name}, {sentences} sentences")
    print(f"{'engine':8}{'workers':>8}{'documents/s':>13}{'sentences/s':>13}{'ratio':>8}{'MiB':>15}{'GPU busy':>10}")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.jsonl"
        write_input(source, texts, options.documents)
        for engine in options.engines:
            first_rate = None
            for workers in options.workers:
                out = Path(folder) / "out"
                watch, gpu = Watch(), Gpu()
                begun = time.perf_counter()
                with gpu.watching(device.type == "cuda"):
                    extract_job(
                        str(source), str(out), settings, engine=engine, workers=workers, threads=1, on_progress=watch
                    )
                seconds = time.perf_counter() - begun
                found = result_files(out)
                wrong = find_difference(out, answers)
                if wrong is None and device.type == "cpu" and found != (expected := expected or found):
                    wrong = "the files are not those of the first job"
                if wrong is not None:
                    print(f"{engine}, {workers} workers: WRONG, {wrong}; its speed means nothing", file=sys.stderr)
                    return 1
                shutil.rmtree(out)
                rate = watch.documents_per_s(workers)
                first_rate = first_rate or rate
                per_document = sentences / options.documents
                row = Row(
                    device_name(device),
                    [flag for flag in FLAGS if flag in cpu_flags()],
                    count_cores(),
                    options.model,
                    name,
                    engine,
                    workers,
                    options.precision,
                    options.batch_size,
                    options.max_cells,
                    options.documents,
                    sentences,
                    round(seconds, 1),
                    round(rate, 1),
                    round(rate * per_document, 1),
                    round(rate / first_rate, 2),
                    watch.memory_at(0.1),
                    watch.memory[-1],
                    gpu.busy_share(),
                    max(gpu.memory, default=None),
                    commit(),
                )
                rows.append(row)
                memory = f"{row.memory_after_a_tenth} to {row.memory_at_the_end}"
                busy = "" if row.gpu_busy is None else f"{row.gpu_busy:.0f} %"
                print(
                    f"{engine:8}{workers:8}{rate:13.1f}{row.sentences_per_s:13.1f}{row.ratio_to_first:8.2f}"
                    f"{memory:>15}{busy:>10}",
                    flush=True,
                )
                if options.out:
                    record = {"what": __doc__.splitlines()[0], "rows": [asdict(row) for row in rows]}
                    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
