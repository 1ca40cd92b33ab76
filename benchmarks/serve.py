"""How many sentences a second `relatum serve` answers, and how soon; nothing is printed of one that answers wrongly.

Servers are started on this machine, and reached through its loopback alone: one that reads sentences one at a time
(`--batch-size 1 --readers 1`); one as it is, that reads those of concurrent requests together; and on a CPU one that
reads several at a time, but each alone (`--batch-size 1`). Each must first answer every text as `Extractor` does. Then
they take turns under the same load: `--clients` that each send a text, wait for the answer and send the next, for
`--seconds` in all `--rounds` together. Any answer but 200, 429 and 503 ends the benchmark. The ratio is the median of
those of the rounds. Memory is what the server's process holds when the load begins, in the middle and at the end. The
clients run here, on the same cores. The data are `--data`, or conll04 in $RELATUM_DATA, or our own examples. Rows go to
a JSON file with `--out`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from benchmarks.http_client import Connection
from relatum.extractor.extractor import Extractor
from relatum.kernels.compile import cpu_flags
from relatum.training.corpus import load_part
from relatum.training.provenance import commit, device_name

SCORE_BOUND = 2e-4
"""The most that a score may differ from the extractor's: both are rounded to four digits."""
ALLOWED = (200, 429, 503)
FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
EXAMPLES = Path(__file__).parent.parent / "examples" / "news"
WANTED = 2.0
"""How many times as many sentences a second batches should give."""


@dataclass(frozen=True)
class Row:
    """One server under load; latencies and CPU time for a sentence in milliseconds, memory in MiB."""

    device: str
    cpu_flags: list[str]
    cores: int
    model: str
    data: str
    server: str
    clients: int
    seconds: float
    answered: int
    refused: int
    sentences_per_s: float
    ratio_to_one_at_a_time: float
    p50: float
    p95: float
    p99: float
    cpu_ms: float
    memory: list[float]
    commit: str | None


class WrongError(Exception):
    """A server does not answer as it should, so that its speed means nothing."""


@dataclass
class Load:
    """What came of a server's load."""

    latencies: list[float] = field(default_factory=list)
    refused: int = 0
    n_sentences: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    speeds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


class Server:
    """A server in a process of its own."""

    def __init__(self, name: str, model: str, device: str, options: Sequence[str]) -> None:
        self.name = name
        command = [sys.executable, "-m", "relatum", "serve", "--model", f"bench={model}", "--port", "0"]
        # A pipe that nobody empties would stop the server.
        self._log = TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [*command, "--device", device, *options], stderr=self._log, stdout=subprocess.DEVNULL
        )
        self.port = self._find_port()

    def _find_port(self) -> int:
        for _ in range(1200):
            found = re.search(r"serving .* at http://127\.0\.0\.1:(\d+)/", self._read_log())
            if found:
                return int(found[1])
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        self._process.kill()
        raise WrongError(f"{self.name}: the server does not start:\n{self._read_log()}")

    def _read_log(self) -> str:
        return os.pread(self._log.fileno(), 100_000, 0).decode()

    def memory(self) -> float:
        """What the process holds, in MiB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    def cpu_seconds(self) -> float:
        """What all threads of the process have computed so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise WrongError(f"{self.name}: the server does not stop") from None
        if status:
            raise WrongError(f"{self.name}: the server stopped with status {status}:\n{self._read_log()[-2000:]}")


def refuse_if_other(found: Any, wanted: dict[str, Any]) -> None:
    """Refuse an answer that is not the extractor's."""
    for kind in ("entities", "relations"):
        ours = [{**one, "score": 0} for one in found[kind]]
        theirs = [{**one, "score": 0} for one in wanted[kind]]
        if ours != theirs:
            raise WrongError(f"other {kind} than the extractor's in {wanted['text']!r}")
        pairs = zip(found[kind], wanted[kind], strict=True)
        if any(abs(one["score"] - two["score"]) > SCORE_BOUND for one, two in pairs):
            raise WrongError(f"other scores than the extractor's in {wanted['text']!r}")


async def check(server: Server, texts: Sequence[str], wanted: Sequence[dict[str, Any]], clients: int) -> None:
    """All texts, asked for by many clients at once, are answered as the extractor answers them."""
    numbers = iter(range(len(texts)))

    async def client() -> None:
        async with Connection("127.0.0.1", server.port) as connection:
            for number in numbers:
                status, body = await connection.post("/extract", {"text": texts[number]})
                if status != 200:
                    raise WrongError(f"status {status}: {body[:200].decode()}")
                refuse_if_other(json.loads(body)["results"][0], wanted[number])

    await asyncio.gather(*(client() for _ in range(clients)))


async def put_under_load(
    server: Server, texts: Sequence[str], n_sentences: Sequence[int], clients: int, seconds: float, load: Load
) -> None:
    """Clients that ask, wait for the answer, and ask again; what comes of it is added to the load."""
    end, numbers = time.perf_counter() + seconds, count()
    load.memory.append(server.memory())

    async def client() -> None:
        async with Connection("127.0.0.1", server.port) as connection:
            while (start := time.perf_counter()) < end:
                number = next(numbers) % len(texts)
                status, body = await connection.post("/extract", {"text": texts[number]})
                if status not in ALLOWED:
                    raise WrongError(f"{server.name}: status {status}: {body[:200].decode()}")
                if status == 200:
                    load.latencies.append(1000 * (time.perf_counter() - start))
                    load.n_sentences += n_sentences[number]
                else:
                    load.refused += 1
                    await asyncio.sleep(0.05)

    start, before, cpu = time.perf_counter(), load.n_sentences, server.cpu_seconds()
    await asyncio.gather(*(client() for _ in range(clients)))
    seconds = time.perf_counter() - start
    load.seconds += seconds
    load.cpu_seconds += server.cpu_seconds() - cpu
    load.speeds.append((load.n_sentences - before) / seconds)
    load.memory.append(server.memory())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="an annotated corpus")
    parser.add_argument("--part", default="test")
    parser.add_argument("--model", default="news")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30.0, help="of load for each server, at most 600")
    parser.add_argument("--rounds", type=int, default=4, help="turns that the servers take in that time")
    parser.add_argument("--batch-size", type=int, help="of the server that batches; as the model has it if not given")
    parser.add_argument("--out", type=Path, help="a JSON file for the rows")
    options = parser.parse_args()
    if not 0 < options.seconds <= 600 or not 0 < options.clients <= 1000:
        parser.error("--seconds is at most 600, --clients at most 1000")
    folder = os.environ.get("RELATUM_DATA")
    data = options.data or (Path(folder) / "conll04" if folder else EXAMPLES)
    extractor = Extractor.from_pretrained(options.model, options.device)
    examples = load_part(data, options.part, extractor.model.config)[0]
    texts = [" ".join(example.sentence.words) for example in examples]
    n_sentences = [len(extractor.split(text)) for text in texts]
    wanted = [one.to_dict() for one in extractor.pipe(texts)]
    place = extractor.model.device
    del extractor  # it would take memory, and threads, from the servers
    print(f"{device_name(place)}; {options.model} on {len(texts)} texts of {data}, {options.clients} clients")

    size = [] if options.batch_size is None else ["--batch-size", str(options.batch_size)]
    kinds = {"one at a time": ["--batch-size", "1", "--readers", "1"], "batches": size}
    if place.type == "cpu":
        kinds["each alone"] = ["--batch-size", "1"]
    servers = [Server(name, options.model, options.device, extra) for name, extra in kinds.items()]
    loads = {server.name: Load() for server in servers}
    wrong: list[str] = []
    try:
        for server in servers:
            asyncio.run(check(server, texts, wanted, options.clients))
            print(f"{server.name}: all answers are the extractor's")
        for _ in range(options.rounds):
            for server in servers:
                share = options.seconds / options.rounds
                asyncio.run(put_under_load(server, texts, n_sentences, options.clients, share, loads[server.name]))
        for server in servers:
            asyncio.run(check(server, texts, wanted, options.clients))
    except WrongError as error:
        wrong.append(str(error))
    finally:
        for server in servers:
            try:
                server.stop()
            except WrongError as error:
                wrong.append(str(error))
    if wrong:
        print("\n".join(wrong), "speeds mean nothing, and are not printed", sep="\n")
        return 1

    rows, base = [], loads["one at a time"]
    print(
        f"\n{'server':15}{'sentences/s':>13}{'ratio':>7}{'p50':>8}{'p95':>8}{'p99':>8} ms"
        f"{'CPU':>7} ms{'refused':>9}  memory, MiB"
    )
    for name, load in loads.items():
        speed = load.n_sentences / load.seconds
        ratio = statistics.median(one / two for one, two in zip(load.speeds, base.speeds, strict=True))
        p50, p95, p99 = (round(float(value), 1) for value in np.percentile(load.latencies, (50, 95, 99)))
        cpu = 1000 * load.cpu_seconds / load.n_sentences
        memory = [round(load.memory[at], 1) for at in (0, len(load.memory) // 2, -1)]
        rows.append(
            Row(
                device=device_name(place),
                cpu_flags=[flag for flag in FLAGS if flag in cpu_flags()],
                cores=len(os.sched_getaffinity(0)),
                model=options.model,
                data=data.name,
                server=name,
                clients=options.clients,
                seconds=round(load.seconds, 1),
                answered=len(load.latencies),
                refused=load.refused,
                sentences_per_s=round(speed, 1),
                ratio_to_one_at_a_time=round(ratio, 2),
                p50=p50,
                p95=p95,
                p99=p99,
                cpu_ms=round(cpu, 2),
                memory=memory,
                commit=commit(),
            )
        )
        shown = " → ".join(f"{value:.0f}" for value in memory)
        print(
            f"{name:15}{speed:13.1f}{ratio:7.2f}{p50:8.0f}{p95:8.0f}{p99:8.0f}{cpu:10.1f}   {load.refused:9}  {shown}"
        )
    if rows[1].ratio_to_one_at_a_time < WANTED:
        print(f"batches give less than {WANTED:g} times as many sentences a second")
    if options.out:
        record = {"what": __doc__.splitlines()[0], "rows": [asdict(row) for row in rows]}
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
