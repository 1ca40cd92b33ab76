"""`relatum train`: a model from annotated data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from relatum.cli.config import ConfigFile, Override

if TYPE_CHECKING:
    from relatum.training.corpus import TrainingData
    from relatum.training.folder import RunRecord
    from relatum.training.loop import RunResult

Device = Annotated[
    Literal["auto", "cpu", "cuda"] | None,
    typer.Option(help="Where to compute; auto, the default, takes a GPU where there is one."),
]


def train(
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA", help="A folder with train, dev (or valid) and test, or a file, of which some is held out."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="The folder of the run; new or empty.")] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped; takes --device alone.")
    ] = None,
    config: ConfigFile = None,
    override: Override = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help="Format of DATA; guessed if not given.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, metavar="N", help="As --set training.seed=N.")] = None,
    device: Device = None,
    fold: Annotated[
        str | None,
        typer.Option(metavar="FILE:K", help="Take the parts from the K-th fold of a JSON file of lists, from 1."),
    ] = None,
    overlaps: Annotated[
        Literal["fail", "drop", "keep-longest"] | None,
        typer.Option(help="Nested, overlapping, discontinuous entities, which no model can learn; fail if not given."),
    ] = None,
    crossing: Annotated[
        Literal["fail", "drop"] | None, typer.Option(help="Relations between sentences; fail if not given.")
    ] = None,
) -> None:
    """Train a model, choose the best by its dev scores, and score it on test.

    RUN gets the model in RUN/model, the scores, the settings and the learning curve in RUN/result.json, and a line for
    every evaluation in RUN/log.jsonl. Ctrl-C stops after the update that is under way and saves the state, and so does
    SIGTERM; a run that was killed goes on from its last evaluation. The exit status is 130 for a run that was stopped.
    """
    from relatum.cli.console import printable, results, say
    from relatum.evaluation.tables import show_scores
    from relatum.training.loop import TrainingStopped

    if resume is not None:
        given = (data, out, config, override, from_, seed, fold, overlaps, crossing)
        if any(value is not None and value != [] for value in given):
            raise typer.BadParameter(
                "a run goes on as it was started: --resume RUN takes nothing but --device beside it"
            )
    elif data is None or out is None:
        raise typer.BadParameter("give DATA and --out RUN, or --resume RUN")
    try:
        if resume is not None:
            run, result = resume, _resume(resume, device)
        else:
            assert data is not None
            assert out is not None
            named = {"training.seed": seed, "data.overlaps": overlaps, "data.crossing": crossing}
            options = [f"{key}={value}" for key, value in named.items() if value is not None]
            overrides = [*(override or []), *options]
            run, result = out, _start(data, out, config, overrides, from_, device or "auto", fold)
    except TrainingStopped as stopped:
        say(str(stopped))
        raise typer.Exit(130) from None
    given_spans = result.record["config"]["evaluation"]["entities"] == "gold"
    console = results()
    for part, scores in (("dev", result.dev), ("test", result.test)):
        if scores is not None:
            print(f"{part}, {result.record['data']['parts'][part]['sentences']:,} sentences")
            show_scores(console, scores, None, given_spans)
    print(
        printable(
            f"best after step {result.record['best']['step']:,} of {result.record['config']['training']['steps']:,}"
        )
    )
    print(printable(f"model: {result.model}\nscores, settings and learning curve: {run / 'result.json'}"))
    print(printable(f'use it: relatum extract --model {result.model} "…"'))


def _start(
    data: Path, out: Path, config: Path | None, overrides: list[str], format: str | None, device: str, fold: str | None
) -> RunResult:
    import shlex

    from relatum.config import load_config
    from relatum.training.corpus import FoldChoice, load_training_data
    from relatum.training.folder import RunFolder, RunRecord

    settings = load_config(config, overrides)
    choice = None if fold is None else FoldChoice.parse(fold)
    RunFolder(out).check_new()
    loaded = load_training_data(data, settings, format, choice)
    given: dict[str, Path | str | None] = {"--out": out, "--config": config, "--from": format, "--fold": fold}
    words = ["relatum", "train", str(data)]
    words += [word for option, value in given.items() if value is not None for word in (option, str(value))]
    words += [word for override in overrides for word in ("--set", override)]
    words += [] if device == "auto" else ["--device", device]
    record = RunRecord(
        config=settings,
        data=str(data.absolute()),
        format=format,
        fold=None if choice is None else f"{choice.path.absolute()}:{choice.number}",
        device=device,
        command=shlex.join(words),
        fingerprint=loaded.fingerprint(),
    )
    return _run(loaded, record, out, device, resume=False)


def _resume(run: Path, device: str | None) -> RunResult:
    from relatum.training.corpus import FoldChoice, load_training_data
    from relatum.training.folder import RunFolder

    record = RunFolder(run).read()
    fold = None if record.fold is None else FoldChoice.parse(record.fold)
    loaded = load_training_data(Path(record.data), record.config, record.format, fold)
    return _run(loaded, record, run, device or record.device, resume=True)


def _run(data: TrainingData, record: RunRecord, run: Path, device: str, resume: bool) -> RunResult:
    from relatum.extractor.device import choose_device
    from relatum.training.loop import train as start
    from relatum.training.monitor import TerminalMonitor

    return start(data, record, run, device=choose_device(device), monitor=TerminalMonitor(), resume=resume)
