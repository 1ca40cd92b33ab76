"""`relatum evaluate`: the scores of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relatum.cli.errors import Errors, Report, Train, Worst
from relatum.cli.options import (
    BatchSize,
    Crossing,
    DataFormat,
    MaxCells,
    Others,
    Overlaps,
    Precision,
    Splitting,
    read_splitting,
)
from relatum.cli.train import Device

if TYPE_CHECKING:
    from relatum.lab.errors.analysis import ErrorAnalysis
    from relatum.training.evaluation import ModelEvaluation
    from relatum.types import Document


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The folder of a model, or the name of one.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Annotated data: a folder of parts, or a file.")],
    others: Others = None,
    ensemble: Annotated[
        bool,
        typer.Option("--ensemble", help="MODEL is a folder of relatum train --runs: read with all its models as one."),
    ] = False,
    part: Annotated[str, typer.Option(metavar="NAME", help="The part of a folder to score on.")] = "test",
    from_: DataFormat = None,
    gold_entities: Annotated[
        bool, typer.Option("--gold-entities", help="Give the model the gold entities: RE (gold).")
    ] = False,
    bootstrap: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Give 95% intervals, from N resamples of the sentences.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the resamples.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what was found, sentence by sentence, as relatum JSONL.")
    ] = None,
    errors: Errors = False,
    worst: Worst = None,
    train: Train = None,
    page: Report = None,
    by_threshold: Annotated[
        bool, typer.Option("--by-threshold", help="Show precision, recall and F1 where low scores are left out.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON alone, as relatum score does.")] = False,
    device: Device = None,
    precision: Precision = "fp32",
    batch_size: BatchSize = None,
    max_cells: MaxCells = None,
    splitting: Splitting = None,
    overlaps: Overlaps = None,
    crossing: Crossing = None,
) -> None:
    """Let a model read annotated sentences, and score what it finds.

    Sentences and words are those of DATA, or are split as in training. Scores are against all gold annotations: those
    that the model cannot find count as missed. Below the scores stands the ceiling, the best that the model allows,
    with its reasons. The expected calibration error says how far the scores beside what is found are from the share of
    it that is right. --json is described in relatum score --help; here it also has "ceiling": {TASK: {"micro": V,
    "macro": V}, "losses": [{"reason", "n_entities", "n_relations"}]} and "confidence": {TASK: {"n", "ece",
    "reliability", "thresholds"}} of entities and relations_strict.
    """
    import json

    from relatum.cli.console import CommandMonitor, say
    from relatum.cli.errors import ErrorReader, find_training, wants_errors
    from relatum.cli.progress import show_progress
    from relatum.data.passages import describe_number
    from relatum.training.evaluation import evaluate_model

    rules = read_splitting(splitting)
    with_errors = wants_errors(errors, worst, train)
    training = find_training(data, part, train, from_) if with_errors else None  # a wrong --train is told at once
    with show_progress(str(data)) as on_progress:
        evaluated = evaluate_model(
            [model, *(others or ())],
            data,
            part,
            format=from_,
            ensemble=ensemble,
            gold_entities=gold_entities,
            overlaps=overlaps,
            crossing=crossing,
            bootstrap=bootstrap,
            seed=seed,
            monitor=CommandMonitor(),
            on_progress=on_progress,
            device=device,
            precision=precision,
            batch_size=batch_size,
            max_cells=max_cells,
            words=rules.get("words"),
            sentences=rules.get("sentences"),
        )
    if out is not None:
        evaluated.write_predictions(out)
        say(f"wrote {out}")
    own = evaluated.extractor
    reader = ErrorReader(training, own.config.text) if with_errors else None
    analysis = reader.analyse(_pairs(evaluated), own.schema) if reader else None
    title = _make_title(model, evaluated.n_models, bool(others))
    if page is not None:
        _write_page(page, evaluated, analysis, f"Errors of {title} on {data}" + (f", {part}" if data.is_dir() else ""))
    if as_json:
        added = {"errors": analysis.to_dict(worst or 0)} if analysis else {}
        print(json.dumps({**evaluated.to_dict(), **added}, indent=2))
        return
    counted = describe_number(evaluated.examples, own.config.text.unit)
    _show(evaluated, f"{title}: {counted} of {data}", by_threshold)
    if reader and analysis:
        reader.show(analysis, worst)


def _make_title(model: str, n_models: int, with_others: bool) -> str:
    if n_models == 1:
        return model
    named = f"{model} and others" if with_others else model
    return f"{n_models} models as one ({named})"


def _write_page(path: Path, evaluated: ModelEvaluation, analysis: ErrorAnalysis | None, title: str) -> None:
    """Write the page of errors; an ensemble has no loss of its own to rank sentences by."""
    from relatum.cli.errors import write_report
    from relatum.evaluation.ceiling import describe_ceiling, is_limited
    from relatum.lab.errors.analysis import analyse
    from relatum.lab.errors.losses import sentence_losses

    extractor, given, ceiling = evaluated.extractor, evaluated.gold_entities, evaluated.ceiling
    losses = sentence_losses(extractor, evaluated.examples, not given) if evaluated.n_models == 1 else None
    whole = analysis or analyse(_pairs(evaluated), extractor.schema)
    facts = []
    if ceiling is not None and is_limited(ceiling):
        facts.append(f"The best that the model allows: {describe_ceiling(ceiling)}")
        facts += map(str, ceiling.losses)
    write_report(path, whole, evaluated.scores, title, losses, given, facts)


def _pairs(evaluated: ModelEvaluation) -> list[tuple[Document, Document]]:
    """Pair the gold document of each sentence with the document that the model made of it."""
    from relatum.lab.errors.sentences import pair_examples

    return pair_examples(evaluated.examples, evaluated.predictions)


def _show(evaluated: ModelEvaluation, title: str, by_threshold: bool) -> None:
    from relatum.cli.console import results, show
    from relatum.cli.score_tables import show_confidence, show_scores

    show(title)
    show_scores(results(), evaluated.scores, evaluated.intervals, evaluated.gold_entities, evaluated.ceiling)
    if evaluated.confidence is not None:
        show_confidence(results(), evaluated.confidence, by_threshold)
