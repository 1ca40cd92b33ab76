"""How the time and the memory of reading a sentence grow with its number of words.

Every sample is a process of its own, which loads a model, reads a short text, and then sentences of `--lengths` words,
one at a time: milliseconds are the median of some sentences, and memory is what was needed beyond the most until then.
The fast code and plain torch take turns and must find the same entities and relations, with scores within 1e-4; else
nothing is written. Memory of short sentences is 0, since reading the first text took as much. Rows go to a JSON file
with `--out`, a drawing with the line of N² to an SVG file with `--plot`.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks.extract import BASE, WrongError, refuse_if_other
from benchmarks.plot import Line, Panel, draw
from relatum.extractor.device import choose_device
from relatum.extractor.extractor import Extractor
from relatum.kernels.backend import use_backend
from relatum.training.provenance import commit, device_name
from relatum.types import Annotation, Sentence

LENGTHS = (16, 32, 64, 128, 256, 480)
WORDS = "Anna works for the bank of Norway in Oslo and lives with her brother Peter near the river .".split()
"""All of them are one word piece to MiniLM-L6, which reads at most 510 of them."""
FAST, SAMPLES = "fast", 3


@dataclass(frozen=True)
class Row:
    """What a sentence takes."""

    system: str
    words: int
    ms: float
    mib: float
    ratio: float
    """How many times as long plain torch takes."""


def make_sentence(n: int, shift: int) -> Sentence:
    """Make a sentence of n words. Its beginning changes with `shift`, since an extractor remembers what it has read."""
    return Sentence(tuple(islice(cycle(WORDS), shift, shift + n)))


def sample(system: str, device: torch.device, n: int) -> tuple[float, float, list[Annotation]]:
    """Read sentences of n words; return milliseconds a sentence, MiB, and what was found."""
    runtime = "torch" if system == BASE else "auto"
    extractor = Extractor.from_pretrained("news", device, max_cells=n * n, runtime=runtime)
    extractor.max_words = n
    with use_backend(BASE) if system == BASE else nullcontext():
        extractor.predict([make_sentence(8, 0)])
        before, times, found = peak_mib(device), [], []
        for shift in range(SAMPLES + 1):
            begun = time.perf_counter()
            found += [one.found for one in extractor.predict([make_sentence(n, shift)])]
            times.append(1000 * (time.perf_counter() - begun))
        return statistics.median(times[1:]), peak_mib(device) - before, found


def peak_mib(device: torch.device) -> float:
    """The most memory that this process has used."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_process(system: str, device: torch.device, n: int) -> tuple[float, float, list[Annotation]]:
    """Take a sample in a process of its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(sample, (system, device, n))


def measure(device: torch.device, lengths: Sequence[int], rounds: int) -> list[Row]:
    """Measure both systems in turns; raise `WrongError` if they find different things."""
    rows = []
    for n in lengths:
        samples: dict[str, list[tuple[float, float]]] = {FAST: [], BASE: []}
        for _ in range(rounds):
            found = {}
            for system, taken in samples.items():
                ms, mib, found[system] = in_process(system, device, n)
                taken.append((ms, mib))
            refuse_if_other(f"{n} words", found[FAST], found[BASE])
        ms_of = {system: statistics.median(ms for ms, _ in taken) for system, taken in samples.items()}
        for system, taken in samples.items():
            mib = statistics.median(mib for _, mib in taken)
            rows.append(Row(system, n, round(ms_of[system], 2), round(mib, 1), round(ms_of[BASE] / ms_of[system], 2)))
            print(f"{system:12}{n:6} words{rows[-1].ms:12.2f} ms{rows[-1].mib:10.1f} MiB", flush=True)
    return rows


def make_plot(rows: Sequence[Row], note: str) -> str:
    """Draw time and memory against words."""
    panels = []
    for title, value in (("milliseconds for a sentence", "ms"), ("MiB for a sentence", "mib")):
        lines = [
            Line(name, tuple((row.words, getattr(row, value)) for row in rows if row.system == system))
            for system, name in ((FAST, "relatum"), (BASE, "plain torch"))
        ]
        lines = [replace(line, points=tuple(point for point in line.points if point[1] > 0)) for line in lines]
        last, most = lines[0].points[-1]
        square = tuple((n, most * (n / last) ** 2) for n, _ in lines[0].points if n >= last / 8)
        panels.append(Panel(title, (*lines, Line("N²", square, dashed=True))))
    return draw(panels, "words", "ms, MiB", note)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a JSON file for the rows")
    parser.add_argument("--plot", type=Path, help="an SVG file for the drawing")
    options = parser.parse_args()
    device = choose_device(options.device)
    try:
        rows = measure(device, options.lengths, options.rounds)
    except WrongError as error:
        print(error, file=sys.stderr)
        return 1
    if options.out:
        about = {"what": __doc__.splitlines()[0], "commit": commit(), "device": device_name(device)}
        record = about | {"rows": [asdict(row) for row in rows]}
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        options.plot.write_text(make_plot(rows, device_name(device)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
