"""How long layers of the MD-GRU take with each backend; no time is printed of one that computes something else.

States and all gradients are compared with the definition in double precision, on small odd shapes, and with the plain
wavefront in double precision, on the shapes that are timed, as far as these are not too large: an error may be twice
that of the plain wavefront in the same type of numbers. Then all backends take turns on full tables, and a row is the
median. Rows go to a JSON file with `--out`, a drawing to an SVG file with `--plot`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.cases import BASE, DIRECTIONS
from benchmarks.cost import Ceilings
from benchmarks.measuring import CHECKED_CELLS, DTYPES, ODD, Row, Run, Setting, products, refusal
from benchmarks.plot import Line, Panel, draw
from relatum.kernels.backend import explain
from relatum.training.provenance import commit, device_name


def show(console: Console, rows: Sequence[Row]) -> None:
    """One table; all rows are of one batch, width and type."""
    first = rows[0]
    table = Table(title=f"batch {first.batch}, width {first.width}, {first.dtype}, layers: {first.layers}")
    table.add_column("backend")
    for name in [
        "n",
        "forward ms",
        "× plain",
        "with backward ms",
        "× plain",
        "started one by one",
        "GFLOP",
        "of FLOP/s",
        "of bytes/s",
        "peak MiB",
    ]:
        table.add_column(name, justify="right")
    for row in rows:
        cells = [f"{row.n}", f"{row.forward_ms:.3f}", _ratio(row.forward_ratio), f"{row.forward_backward_ms:.3f}"]
        started = row.started_forward_ms, row.started_forward_backward_ms
        cells += [_ratio(row.ratio), " ".join(f"{one:.3f}" for one in started if one is not None)]
        cells += [f"{row.gflop:.2f}", f"{row.fraction:.1%}", f"{row.bytes_fraction:.1%}"]
        table.add_row(row.backend, *cells, "" if row.peak_mib is None else f"{row.peak_mib}")
    console.print(table)


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def make_plot(rows: Sequence[Row]) -> str:
    """Milliseconds against words, a panel for each batch, width and type."""
    panels: dict[str, list[Line]] = {}
    for row in rows:
        title = f"batch {row.batch}, width {row.width}, {row.dtype}"
        same = [other for other in rows if _panel(other) == _panel(row) and other.backend == row.backend]
        if row is same[0]:
            same.sort(key=lambda one: one.n)
            panels.setdefault(title, []).extend(
                (
                    Line(row.backend, tuple((one.n, one.forward_backward_ms) for one in same)),
                    Line(row.backend, tuple((one.n, one.forward_ms) for one in same), dashed=True),
                )
            )
    note = f"{rows[0].device}; forward and backward, and forward alone (dashed)"
    return draw([Panel(title, tuple(lines)) for title, lines in panels.items()], "words", "ms", note)


def _panel(row: Row) -> tuple[int, int, str]:
    return row.batch, row.width, row.dtype


def parse() -> argparse.Namespace:
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if cuda else "cpu")
    parser.add_argument("--lengths", type=int, nargs="+", help="words; 16 to 256 on a GPU, 8 to 32 else")
    parser.add_argument("--batches", type=int, nargs="+", help="sentences; 24, 1 and 256 on a GPU, 1 and 4 else")
    parser.add_argument("--widths", type=int, nargs="+", default=[100], help="of one direction's states (default 100)")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, help="bfloat16 and tf32 on a GPU, float32 else")
    parser.add_argument(
        "--backends",
        nargs="+",
        choices=[one.name for one in explain()],
        help="all that can run, but for reference, if not given",
    )
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7, help="samples, of which a row has the median (default 7)")
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="what is not done by then is left out (default 600)"
    )
    parser.add_argument("--out", type=Path, help="a JSON file for the rows")
    parser.add_argument("--plot", type=Path, help="an SVG file for a drawing of them")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    options.lengths = options.lengths or ([16, 32, 64, 128, 256] if on_gpu else [8, 16, 32])
    options.batches = options.batches or ([24, 1, 256] if on_gpu else [1, 4])
    options.dtypes = options.dtypes or (["bfloat16", "tf32"] if on_gpu else ["float32"])
    if on_gpu and not cuda:
        parser.error("there is no CUDA device; use --device cpu")
    if min(*options.lengths, *options.batches, *options.widths, options.layers, options.repeats) < 1:
        parser.error("all counts are at least 1")
    return options


def main() -> int:
    started, options = time.monotonic(), parse()
    device = torch.device("cuda", torch.cuda.current_device()) if options.device == "cuda" else torch.device("cpu")
    settings = [
        Setting(batch, width, dtype, n, options.layers, device)
        for batch, width, dtype, n in product(options.batches, options.widths, options.dtypes, sorted(options.lengths))
    ]
    usable = [one.name for one in explain(device.type) if one.available and one.name != "reference"]
    wanted = options.backends or [name for name in usable if refusal(name, settings[0]) is None]
    # The plain wavefront is always measured, and first.
    run = Run(list(dict.fromkeys([BASE, *wanted])), options.repeats, started + options.seconds, commit())
    console = Console(width=None if sys.stdout.isatty() else 130, highlight=False)
    console.print(f"{device_name(device)}; torch {torch.__version__}; {len(DIRECTIONS)} directions, full tables")
    if device.type == "cpu":
        console.print("Times on a CPU depend on what else it does: compare them within this run only.")
    for width, dtype in product(options.widths, options.dtypes):
        odd = Setting(len(ODD), width, dtype, max(ODD), options.layers, device)
        for backend in run.backends:
            why = refusal(backend, odd)
            if why is not None:
                run.left_out.append(f"{backend} in {dtype}: {why}")
        for line in run.check(odd, ODD, "reference"):
            console.print(line)
    for dtype in options.dtypes:
        with products(Setting(1, 1, dtype, 1, 1, device)):
            run.ceilings[dtype] = ceilings = Ceilings.measure(device, DTYPES[dtype])
        console.print(
            f"{dtype}: {ceilings.flop / 1e12:.3g} TFLOP/s in a product, {ceilings.bytes / 1e9:.0f} GB/s in a copy"
        )
    checked: set[tuple[object, ...]] = set()
    group: list[Row] = []
    for setting in settings:
        if group and _panel(group[0]) != (setting.batch, setting.width, setting.dtype):
            show(console, group)
            group = []
        few = min(setting.batch, max(1, CHECKED_CELLS[device.type] // setting.n**2))
        lengths = [max(1, setting.n - setting.n // 3) if number % 3 == 2 else setting.n for number in range(few)]
        shape = setting.width, setting.dtype, setting.n, few
        if time.monotonic() < run.deadline and shape not in checked:
            checked.add(shape)
            for line in run.check(setting, lengths, BASE):
                console.print(line)
        group += run.measure(setting)
        write(options, run)
    if group:
        show(console, group)
    for line in dict.fromkeys(run.left_out):
        console.print(f"left out: {line}")
    for (backend, dtype, width), why in run.wrong.items():
        console.print(f"wrong: {backend} in {dtype}, width {width}: {why}")
    return 1 if run.wrong else 0


def write(options: argparse.Namespace, run: Run) -> None:
    """Both files as far as the run has come: a long one may be ended from outside."""
    if options.out:
        record = {
            "what": (__doc__ or "").splitlines()[0],
            "command": " ".join(["python -m benchmarks.md_gru", *sys.argv[1:]]),
            "torch": torch.__version__,
            "ceilings": {dtype: asdict(one) for dtype, one in run.ceilings.items()},
            "left_out": list(dict.fromkeys(run.left_out)),
            "wrong": [
                f"{backend} in {dtype}, width {width}: {why}" for (backend, dtype, width), why in run.wrong.items()
            ],
            "rows": [asdict(row) for row in run.rows],
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if options.plot and run.rows:
        options.plot.write_text(make_plot(run.rows), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
