"""`relatum tune`: better settings, by search."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relatum.cli.config import ConfigFile, Override
from relatum.cli.options import DataFormat, Seed
from relatum.cli.train import Device

if TYPE_CHECKING:
    from rich.table import Table

    from relatum.lab.search.trials import TrialReport


def tune(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="A folder with train and dev (or valid), or a file, as for relatum train."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the search; name it again to continue.")],
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="Number of trials in all.")] = 20,
    timeout: Annotated[
        float | None, typer.Option(min=0.0, metavar="MIN", help="Begin no trial after so many minutes.")
    ] = None,
    config: ConfigFile = None,
    override: Override = None,
    from_: DataFormat = None,
    seed: Seed = None,
    device: Device = None,
) -> None:
    """Search for better settings by their scores on dev; test is not read.

    Each trial is a run with other values for a few keys, which are printed at the start; keys given by --set keep their
    values. The first trial has the settings that relatum train would have, and poor trials end early. DIR/best.toml has
    the best settings so far, for train --config. After Ctrl-C or a crash, repeat the command: only the current trial is
    lost.
    """
    from relatum.cli.console import printable, results, say
    from relatum.cli.monitor import TerminalMonitor
    from relatum.extractor.device import choose_device
    from relatum.lab.search.trials import Search
    from relatum.training.arguments import TrainArguments
    from relatum.training.loop import TrainingStopped

    overrides = [*(override or []), *([] if seed is None else [f"training.seed={seed}"])]
    arguments = TrainArguments(data, out, config, tuple(overrides), from_, device or "auto")
    loaded, settings = replace(arguments, with_test=False).prepare(None, say)
    record = arguments.make_record(settings, loaded)
    record = replace(record, command=record.command.replace("relatum train", "relatum tune", 1))
    search = Search(out, loaded, record, [text.partition("=")[0].strip() for text in overrides], say)
    say(
        "trials are chosen by their scores on dev; test is not read. The space:\n  "
        + "\n  ".join(map(str, search.space))
    )

    def ended(report: TrialReport) -> None:
        say(
            f"trial {report.number}: {report.state}, {_percent(report.score)} on dev; "
            f"{len(search.reports())} of {trials} trials are made"
        )

    try:
        best = search.run(trials, timeout, choose_device(arguments.device), TerminalMonitor, ended)
    except TrainingStopped as stopped:
        say(str(stopped))
        raise typer.Exit(130) from None
    results().print(_table(search.reports(), best))
    print(printable(f"best: trial {best.number}, {_percent(best.score)} on dev\nsettings: {search.best_settings}"))
    use = shlex.join(["relatum", "train", str(data), "--config", str(search.best_settings)])
    print(printable(f"use them: {use}"))


def _percent(score: float | None) -> str:
    return "–" if score is None else f"{100 * score:.2f}"


def _table(reports: list[TrialReport], best: TrialReport) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title="trials (mean of entity and relation F1 on dev)", box=box.SIMPLE_HEAD, title_justify="left")
    keys = list(best.values)
    for name in (
        "trial",
        "dev",
        "state",
        "step",
        *(key.rpartition(".")[2] if "width" not in key else key for key in keys),
    ):
        table.add_column(name, justify="left" if name == "state" else "right")
    for report in sorted(reports, key=lambda one: (-(one.score or 0.0), one.number)):
        values = [f"{value:.3g}" if isinstance(value := report.values.get(key), float) else str(value) for key in keys]
        step = "–" if report.step is None else f"{report.step:,}"
        table.add_row(str(report.number), _percent(report.score), report.state, step, *values)
    return table
