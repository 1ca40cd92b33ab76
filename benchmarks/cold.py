"""What `relatum extract "…"` takes from a cold start: wall and CPU seconds, and the most memory.

Each sample is a process of its own. Contestants take turns, because other programs may be at work on the machine: rows
are medians and minima over the rounds, and ratios are within one run. `--before` names the folder of another checkout,
such as an earlier commit, whose commands are measured beside those of this one; both must print the same. The rows
`torch` read by plain PyTorch, and `import` only imports the extractor. Binaries and files are in the system's cache:
every command runs once before it is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from relatum.kernels.threads import count_threads

TEXT = "Erik Dahl was born in Hammerfest, Norway."
HERE = Path(__file__).parent.parent
PLAIN = f"from relatum import Extractor; Extractor.from_pretrained('news', 'cpu', runtime='torch')({TEXT!r})"
IMPORT = "import relatum.extractor.extractor"


@dataclass(frozen=True)
class Row:
    """One command; seconds are medians, with the least seen in brackets of the table."""

    command: str
    tree: str
    wall_s: float
    least_wall_s: float
    cpu_s: float
    least_cpu_s: float
    peak_mib: float
    cpu_ratio: float
    """CPU seconds of `relatum extract` of this tree over those of this row, by the least of each."""


@dataclass(frozen=True)
class Command:
    name: str
    tree: Path
    arguments: Sequence[str]

    def run(self) -> tuple[tuple[float, float, float], bytes]:
        """Run the command; return wall seconds, CPU seconds, the most MiB, and what it printed."""
        environment = {**os.environ, "PYTHONPATH": str(self.tree / "src")}
        begun = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, *self.arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        took = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{self.name} in {self.tree} ends with the status {process.returncode}")
        return (took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024), printed


def make_commands(before: Path | None) -> list[Command]:
    trees = [HERE, *([] if before is None else [before])]
    commands = [Command("extract", tree, ["-m", "relatum", "extract", TEXT]) for tree in trees]
    commands += [Command("import", tree, ["-c", IMPORT]) for tree in trees]
    return [*commands, Command("torch", HERE, ["-c", PLAIN]), Command("python", HERE, ["-c", ""])]


def make_row(command: Command, samples: Sequence[tuple[float, float, float]], least_cpu: float) -> Row:
    walls, cpus, peaks = zip(*samples, strict=True)
    return Row(
        command.name,
        "this" if command.tree == HERE else "before",
        round(statistics.median(walls), 3),
        round(min(walls), 3),
        round(statistics.median(cpus), 3),
        round(min(cpus), 3),
        round(statistics.median(peaks), 1),
        round(least_cpu / min(cpus), 3),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--before", type=Path, help="another checkout to measure beside this one")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    commands = make_commands(options.before)
    printed = {command.run()[1] for command in commands if command.name == "extract"}
    if len(printed) != 1:
        sys.exit("the two trees print different things; no time is printed")
    samples: Mapping[int, list[tuple[float, float, float]]] = {number: [] for number in range(len(commands))}
    for number in range(options.rounds + 1):
        for place, command in enumerate(commands):
            sample, _ = command.run()
            if number:
                samples[place].append(sample)
    least_cpu = min(sample[1] for sample in samples[0])
    rows = [make_row(command, samples[place], least_cpu) for place, command in enumerate(commands)]
    print(f"{'command':10}{'tree':8}{'wall s':>16}{'CPU s':>16}{'peak MiB':>10}{'ratio':>7}")
    for row in rows:
        walls, cpus = f"{row.wall_s:.2f} ({row.least_wall_s:.2f})", f"{row.cpu_s:.2f} ({row.least_cpu_s:.2f})"
        print(f"{row.command:10}{row.tree:8}{walls:>16}{cpus:>16}{row.peak_mib:10.0f}{row.cpu_ratio:7.2f}")
    if options.out:
        from relatum.training.provenance import commit  # with torch, whose memory a child would count as its own

        record = {
            "what": __doc__.splitlines()[0],
            "machine": f"{platform.machine()}, {count_threads()} threads, busy with other programs",
            "rounds": options.rounds,
            "commit": commit(),
            "rows": [asdict(row) for row in rows],
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
