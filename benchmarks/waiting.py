"""How much the waiting of idle OpenMP threads costs, on an idle and on a busy machine.

Each row is a process of its own that trains for some seconds on our own examples, reads texts one at a time, and reads
them in batches. All must find the same entities and relations, or nothing is printed. A busy machine is one on which as
many processes as there are cores do nothing but spin. Policies take turns, and a row is the median over the rounds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # relatum must not be imported before a policy is chosen
    from relatum.extractor.extractor import Extractor

EXAMPLES = Path(__file__).parent.parent / "examples" / "news"
VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS")
POLICIES: dict[str, dict[str, str]] = {
    "torch's default": {"GOMP_SPINCOUNT": "300000"},
    "relatum's default": {},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
"""The environment of each; `GOMP_SPINCOUNT=300000` is what GNU's OpenMP does where nothing is set."""


class _EnoughError(Exception):
    """The time for updates is over."""


def measure_training(seconds: float) -> float:
    """Count updates per second of a run with the settings that relatum chooses."""
    import relatum
    from relatum.monitor import Monitor

    class Counter(Monitor):
        """A monitor that counts updates for some seconds after the first ones."""

        def __init__(self, seconds: float) -> None:
            self._seconds = seconds
            self._begun: tuple[int, float] | None = None
            self.speed = 0.0

        def advance(self, step: int, loss: float) -> None:  # noqa: ARG002
            now = time.monotonic()
            if self._begun is None:
                self._begun = step, now
            elif now - self._begun[1] >= self._seconds:
                first, begun = self._begun
                self.speed = (step - first) / (now - begun)
                raise _EnoughError

    with tempfile.TemporaryDirectory() as folder:
        settings = {"training.evaluate_every": 1_000_000, "training.steps": 1_000_000}
        counter, out = Counter(seconds), Path(folder) / "run"
        try:
            relatum.train(EXAMPLES, out=out, overrides=settings, device="cpu", monitor=counter)
        except _EnoughError:
            return counter.speed
    raise AssertionError("the run ended before its time")


def measure_extraction(extractor: Extractor, texts: Sequence[str], seconds: float, batches: bool) -> float:
    """Count the texts per second that a model reads, one at a time or in batches."""
    n_read, begun = 0, time.monotonic()
    while time.monotonic() - begun < seconds:
        if batches:
            n_read += len(list(extractor.pipe(texts)))
        else:
            extractor(texts[n_read % len(texts)])
            n_read += 1
    return n_read / (time.monotonic() - begun)


def measure(seconds: float) -> tuple[str, dict[str, float]]:
    """Measure everything in this process; with it comes what was found, in short."""
    from relatum.extractor.extractor import Extractor

    extractor = Extractor.from_pretrained("news", device="cpu")
    texts = [json.loads(line)["text"] for line in (EXAMPLES / "train.jsonl").read_text().splitlines()]
    answers = [one.to_json() for one in extractor.pipe(texts)]
    return hashlib.sha256("".join(answers).encode()).hexdigest(), {
        "updates/s": measure_training(seconds),
        "texts/s, one at a time": measure_extraction(extractor, texts, seconds / 2, batches=False),
        "texts/s, in batches": measure_extraction(extractor, texts, seconds / 2, batches=True),
    }


@contextmanager
def spinning(n_processes: int) -> Iterator[None]:
    """Keep as many cores busy within the block."""
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n_processes)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def measure_apart(policy: Mapping[str, str], seconds: float) -> tuple[str, dict[str, float]]:
    """Measure everything in a new process with the environment of a policy."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES} | dict(policy)
    command = [sys.executable, "-m", "benchmarks.waiting", "--here", "--seconds", str(seconds)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    answers, figures = json.loads(done.stdout.splitlines()[-1])
    return answers, figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0, help="of training, and of reading, in each process")
    parser.add_argument("--spinners", type=int, default=os.cpu_count(), help="processes that make the machine busy")
    parser.add_argument("--here", action="store_true", help="measure in this process, with the environment as it is")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.seconds)))
        return 0
    found: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    all_answers = set()
    for _ in range(options.rounds):
        for state, n_spinners in (("idle", 0), ("busy", options.spinners)):
            with spinning(n_spinners):
                for name, policy in POLICIES.items():
                    answers, figures = measure_apart(policy, options.seconds)
                    found[state, name].append(figures)
                    all_answers.add(answers)
    if len(all_answers) > 1:
        print("what is found depends on how threads wait: nothing was measured", file=sys.stderr)
        return 1
    for (state, name), rounds in found.items():
        medians = {what: statistics.median(one[what] for one in rounds) for what in rounds[0]}
        print(f"{state}  {name:<18}  " + "  ".join(f"{what} {value:7.2f}" for what, value in medians.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
