"""Jobs whose processes are killed at random moments lose nothing: workers, drivers, Ray actors.

An undisturbed job comes first. Then, for each kind of process, the same job runs in a new folder while processes of
that kind are killed by SIGKILL; a killed driver is started again by the same command. Every id must be there once, and
every file must have the bytes of the undisturbed job. The status is 1 if that is not so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow.parquet as pq

NAMES = ("Mara Ilves", "Tom Reed", "Ann Vale", "Ingrid Solheim", "Juan Ortiz")
FIRMS = ("Tarn Shipping", "the Bergen Shipping Company", "Vale & Sons", "Northern Rail", "Oldhaven Steel")
PLACES = ("Oldhaven", "Bergen, Norway", "Lisbon", "Port Amsel", "Texas")


def make_text(number: int) -> str:
    name, firm, place = (names[number // 5**power % 5] for power, names in enumerate((NAMES, FIRMS, PLACES)))
    return f"{name} works for {firm} in {place} since {number}."


class Command:
    """The command of a job: input, folder and engine."""

    def __init__(self, input: Path, out: Path, engine: str, options: argparse.Namespace) -> None:
        self.out = out
        self._command = [
            *(sys.executable, "-P", "-m", "relatum", "extract", "--input", str(input), "--out", str(out)),
            *("--engine", engine, "--workers", str(options.workers), "--threads", "1", "--model", options.model),
            *("--shard-documents", str(options.shard)),
        ]

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)

    @property
    def n_done(self) -> int:
        return len(list((self.out / "_job" / "shards").glob("[0-9]*.json")))


def find_processes(driver: int, is_wanted: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Return the descendants of a driver that are wanted."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(driver).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if is_wanted(process):
                    found.append(process)
    return found


def is_worker(process: psutil.Process) -> bool:
    return any("relatum.scale.worker" in part for part in process.cmdline())


def is_actor(process: psutil.Process) -> bool:
    return "".join(process.cmdline()[:1]).startswith("ray::MapWorker")


def say(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {message}", flush=True)


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for a driver; return its last line."""
    _, said = process.communicate(timeout=3600)
    if process.returncode:
        sys.exit(f"status {process.returncode}: {said[-2000:]}")
    return said.strip().splitlines()[-1]


def kill_children(
    command: Command, is_wanted: Callable[[psutil.Process], bool], moments: Sequence[float], n_shards: int
) -> str:
    """Run a job; when a share of its shards is done, kill one of its processes, for every share."""
    rng = random.Random(0)
    driver = command.start()
    for moment in moments:
        while command.n_done < moment * n_shards and driver.poll() is None:
            time.sleep(rng.uniform(0.005, 0.05))
        while not (processes := find_processes(driver.pid, is_wanted)) and driver.poll() is None:
            time.sleep(0.05)
        time.sleep(rng.uniform(0, 0.5))
        victim = rng.choice(processes)
        with suppress(psutil.NoSuchProcess):
            victim.kill()
        say(f"  killed process {victim.pid} after {command.n_done} shards")
    return finish(driver)


def kill_drivers(command: Command, moments: Sequence[float], n_shards: int) -> str:
    """Kill the driver when a share of the shards is done, and start it again, for every share."""
    rng = random.Random(1)
    for moment in moments:
        driver = command.start()
        while command.n_done < moment * n_shards and driver.poll() is None:
            time.sleep(rng.uniform(0.005, 0.05))
        time.sleep(rng.uniform(0, 0.5))
        os.kill(driver.pid, signal.SIGKILL)
        driver.communicate()
        say(f"  killed driver {driver.pid} after {command.n_done} shards")
    return finish(command.start())


def result_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}


def complain(folder: Path, n_documents: int, expected: dict[str, bytes]) -> str | None:
    """Return what is wrong with the results of a job; None if nothing is."""
    ids: list[str] = []
    for path in sorted(folder.glob("part-*")):
        ids += pq.read_table(path, columns=["id"], partitioning=None)["id"].to_pylist()
    if sorted(ids) != sorted(f"d{number}" for number in range(n_documents)):
        return f"{len(ids)} ids, {len(set(ids))} of them different; expected {n_documents}"
    found = result_files(folder)
    differing = [name for name in expected if found.get(name) != expected[name]]
    if differing or len(found) != len(expected):
        return f"{len(differing)} of {len(expected)} files differ: {differing[:5]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--kills", type=int, default=2, help="of each kind")
    parser.add_argument(
        "--kinds", nargs="+", choices=("worker", "driver", "actor"), default=["worker", "driver", "actor"]
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--model", default="news")
    parser.add_argument("--shard", type=int, default=100, help="documents per shard")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    n_shards = -(-options.documents // options.shard)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        input = folder / "in.jsonl"
        with input.open("w", encoding="utf-8") as stream:
            for number in range(options.documents):
                stream.write(json.dumps({"id": f"d{number}", "text": make_text(number)}) + "\n")
        plain = Command(input, folder / "undisturbed", "local", options)
        begun = time.monotonic()
        say(f"undisturbed: {finish(plain.start())}")
        say(f"  {time.monotonic() - begun:.0f} s")
        expected = result_files(plain.out)
        wrong = complain(plain.out, options.documents, expected)
        for kind in options.kinds if wrong is None else ():
            command = Command(input, folder / kind, "ray" if kind == "actor" else "local", options)
            moments = sorted(rng.uniform(0, 0.95) for _ in range(options.kills))
            begun = time.monotonic()
            if kind == "driver":
                end = kill_drivers(command, moments, n_shards)
            else:
                end = kill_children(command, is_worker if kind == "worker" else is_actor, moments, n_shards)
            wrong = complain(command.out, options.documents, expected)
            say(f"{kind}: {options.kills} killed, {time.monotonic() - begun:.0f} s: {end}")
            if wrong is not None:
                break
            say("  every id once, all files have the bytes of the undisturbed job")
    if wrong is not None:
        say(f"WRONG: {wrong}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
