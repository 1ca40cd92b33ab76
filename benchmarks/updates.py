"""CPU time of a training update on a CPU, by what is trained and in which precision.

Each sample is a process of its own with one thread, which trains on our own examples with the settings that relatum
chooses. Contestants take turns, because other programs may be at work on the machine: rows are medians over the rounds,
and ratios are within one run. `--before` names the folder of another checkout, such as an earlier commit; what it
cannot train is left out. Nothing is printed unless the loss of the first updates, without dropout, is the same in both
precisions and in both checkouts, but for rounding.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

HERE = Path(__file__).parent.parent
EXAMPLES = HERE / "examples" / "news"
KINDS = {
    "network": {"tagging.kind": "words"},
    "network beside frozen adapters": {"training.start": "news", "encoder.tuning": "frozen"},
    "network and adapters": {"training.start": "news", "encoder.tuning": "lora"},
}
PRECISIONS = ("fp32", "bf16")
N_CHECKED, TOLERANCE = 5, 0.02
"""The number of updates whose loss is compared, and the share by which bfloat16 and other sums may change it."""


@dataclass(frozen=True)
class Contestant:
    """What is trained, in which precision, and by the code of which checkout."""

    kind: str
    precision: str
    tree: str

    def run(self, seconds: float) -> tuple[float, float] | None:
        """Return the loss and the CPU seconds of an update; None if the checkout cannot train this."""
        command = [sys.executable, "-m", "benchmarks.updates", "--here", self.kind, self.precision]
        environment = {**os.environ, "PYTHONPATH": f"{Path(self.tree) / 'src'}", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*command, "--seconds", str(seconds)],
            cwd=HERE,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and self.tree == str(HERE):
            raise SystemExit(f"{self} failed:\n{done.stderr}")
        if done.returncode:
            print(f"left out: {self}, which failed:\n{done.stderr}", file=sys.stderr)
            return None
        loss, cpu_s = json.loads(done.stdout.splitlines()[-1])
        return loss, cpu_s


@dataclass(frozen=True)
class Row:
    kind: str
    precision: str
    tree: str
    cpu_ms: float
    ratio: float
    """CPU time over that of the first row of the same kind."""


class _EnoughError(Exception):
    """All updates that are wanted were made."""


def measure(kind: str, precision: str, seconds: float) -> tuple[float, float]:
    """Return the mean loss of the first updates without dropout; then the CPU seconds of an update with dropout."""
    return _train(kind, precision, seconds=None)[0], _train(kind, precision, seconds)[1]


def _train(kind: str, precision: str, seconds: float | None) -> tuple[float, float]:
    """Train for some seconds, or, without dropout, for a few updates; return their loss and CPU time."""
    import relatum
    from relatum.monitor import Monitor

    class Counter(Monitor):
        loss = cpu_s = 0.0
        begun: tuple[int, float, float] | None = None

        def advance(self, step: int, loss: float) -> None:
            now = time.process_time()
            self.loss = loss
            if seconds is None:
                if step >= N_CHECKED:
                    raise _EnoughError
            elif self.begun is None:
                self.begun = step, now, time.monotonic()
            elif time.monotonic() - self.begun[2] >= seconds:
                self.cpu_s = (now - self.begun[1]) / (step - self.begun[0])
                raise _EnoughError

    settings: dict[str, object] = {
        "training.evaluate_every": 1_000_000,
        "training.steps": N_CHECKED if seconds is None else 1_000_000,
        "training.warmup_steps": 1,
        "training.precision": precision,
        "training.learning_rate": 1e-4,
        **KINDS[kind],
    }
    dropout: AbstractContextManager[object] = nullcontext()
    if seconds is None:
        settings["training.evaluate_every"] = N_CHECKED
        dropout = patch("torch.nn.functional.dropout", lambda values, *_, **__: values)  # also that of the encoder
        settings["model.dropout"] = 0.0
    counter = Counter()
    with tempfile.TemporaryDirectory() as folder, dropout:
        try:
            relatum.train(EXAMPLES, out=Path(folder) / "run", overrides=settings, device="cpu", monitor=counter)
        except _EnoughError:
            return counter.loss, counter.cpu_s
    raise AssertionError("the run ended before its time")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8.0, help="of training in each process")
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--here", nargs=2, metavar=("KIND", "PRECISION"), help="measure in this process")
    options = parser.parse_args()
    if options.here:
        kind, precision = options.here
        print(json.dumps(measure(kind, precision, options.seconds)))
        return 0
    trees = [str(HERE), *([] if options.before is None else [str(options.before.absolute())])]
    contestants = [Contestant(kind, one, tree) for kind in KINDS for tree in reversed(trees) for one in PRECISIONS]
    losses: dict[str, dict[Contestant, float]] = defaultdict(dict)
    times: dict[Contestant, list[float]] = defaultdict(list)
    for _ in range(options.rounds):
        for contestant in contestants:
            found = contestant.run(options.seconds)
            if found is not None:
                losses[contestant.kind][contestant] = found[0]
                times[contestant].append(found[1])
    for kind, of_kind in losses.items():
        if max(of_kind.values()) > (1 + TOLERANCE) * min(of_kind.values()):
            print(f"{kind}: the losses differ: {list(of_kind.values())}; nothing is printed", file=sys.stderr)
            return 1
    rows = []
    for contestant, values in times.items():
        first = next(one for one in times if one.kind == contestant.kind)
        ratio = statistics.median(values) / statistics.median(times[first])
        tree = "this" if contestant.tree == str(HERE) else "before"
        rows.append(Row(contestant.kind, contestant.precision, tree, 1000 * statistics.median(values), ratio))
        print(f"{rows[-1].kind:<32}{rows[-1].precision:<6}{tree:<8}{rows[-1].cpu_ms:8.1f} ms{ratio:6.2f}")
    if options.out is not None:
        record = {
            "what": "CPU time of a training update on one core",
            "command": "python -m benchmarks.updates " + " ".join(sys.argv[1:]),
            "commits": {
                "this" if tree == str(HERE) else "before": subprocess.run(
                    ["git", "describe", "--always", "--abbrev=40", "--dirty=+changes"],
                    cwd=tree,
                    capture_output=True,
                    text=True,
                    check=False,
                ).stdout.strip()
                for tree in trees
            },
            "machine": platform.processor() or platform.machine(),
            "rounds": options.rounds,
            "rows": [asdict(row) for row in rows],
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
