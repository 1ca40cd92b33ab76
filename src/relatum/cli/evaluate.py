"""`relatum evaluate`: the scores of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from relatum.cli.errors import Errors, Report, Train, Worst
from relatum.cli.options import BatchSize, DataFormat, MaxCells, Others, Precision, Splitting, read_splitting
from relatum.cli.train import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relatum.types import Example, Prediction


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
    overlaps: Annotated[
        Literal["fail", "drop", "keep-longest"] | None,
        typer.Option(
            help="Nested, overlapping, discontinuous gold entities: refuse them, or count those that training would "
            "leave out as missed; as in training if not given."
        ),
    ] = None,
    crossing: Annotated[
        Literal["fail", "drop", "join"] | None,
        typer.Option(
            help="Gold relations between sentences: refuse them, count them as missed, or join the sentences; as in "
            "training if not given."
        ),
    ] = None,
) -> None:
    """Let a model read annotated sentences, and score what it finds.

    Sentences and words are those of DATA, or are split as in training. Scores are against all gold annotations: those
    that the model cannot express count as missed, and the ceiling, the best that its tagging allows, stands below the
    scores. The expected calibration error says how far the scores beside what is found are from the share of it that is
    right. --json is described in relatum score --help; here it also has "ceiling": {TASK: {"micro": V, "macro": V}} and
    "confidence": {TASK: {"n", "ece", "reliability", "thresholds"}} of entities and relations_strict.
    """
    import json

    from relatum.cli.console import printable, results, say
    from relatum.cli.errors import ErrorReader, wants_errors, write_report
    from relatum.cli.score_tables import show_confidence, show_scores
    from relatum.evaluation.ceiling import describe_ceiling, is_limited, measure_ceiling
    from relatum.evaluation.metrics import usable_macro
    from relatum.evaluation.report import make_report
    from relatum.extractor.extractor import Extractor
    from relatum.lab.errors.analysis import analyse
    from relatum.lab.errors.sentences import pair_examples
    from relatum.training.corpus import load_part
    from relatum.training.runs.models import runs_models

    rules = read_splitting(splitting)
    with_errors = wants_errors(errors, worst, train)
    names = [*(runs_models(Path(model), say) if ensemble else [model]), *(others or ())]
    extractor = Extractor.from_pretrained(
        names[0] if len(names) == 1 else names, device, precision, batch_size, max_cells, **rules
    )
    config = extractor.model.config
    changed = {key: value for key, value in (("overlaps", overlaps), ("crossing", crossing)) if value is not None}
    settings = config.model_copy(update={"data": config.data.model_copy(update=changed)})
    examples, remarks = load_part(data, part, settings, from_)
    reader = ErrorReader(data, part, train, from_, config.text) if with_errors else None
    for remark in remarks:
        say(remark)
    schema = extractor.model.schema
    gold = [example.full_gold for example in examples]
    unknown = schema.unknown_types(gold)
    if unknown:
        macro = "; macro averages are over all types" if config.evaluation.macro_over == "schema" else ""
        say(f"{model} does not know these types of {data}, and finds none of them: {', '.join(unknown)}{macro}")
    given_spans = gold_entities or config.evaluation.entities == "gold"
    given = [example.gold.entities for example in examples] if given_spans else None
    predictions = extractor.predict([example.sentence for example in examples], given)
    if out is not None:
        _write(out, examples, predictions)
    pairs = [(own, one.found) for own, one in zip(gold, predictions, strict=True)]
    macro_over = usable_macro(config.evaluation.macro_over, schema, gold)
    ceiling = measure_ceiling(examples, extractor.model.sequence_tags, extractor.model.table_tags, macro_over)
    report = make_report(
        [pairs], schema, macro_over, bootstrap, seed, confidence=True, given=given_spans, ceiling=ceiling
    )
    analysis = reader and reader.analyse(pair_examples(examples, predictions), schema)
    title = model if len(names) == 1 else f"{len(names)} models as one ({model}{' and others' if others else ''})"
    if page is not None:
        from relatum.lab.errors.losses import sentence_losses

        # Models that read as one have no loss of their own.
        losses = sentence_losses(extractor, examples, not given_spans) if len(names) == 1 else None
        whole = analysis or analyse(pair_examples(examples, predictions), schema)
        heading = f"Errors of {title} on {data}" + (f", {part}" if data.is_dir() else "")
        facts = [f"The best that the tagging allows: {describe_ceiling(ceiling)}"] if is_limited(ceiling) else []
        write_report(page, whole, report.systems[0].scores, heading, losses, given_spans, facts)
    if as_json:
        added = {"errors": analysis.to_dict(worst or 0)} if analysis else {}
        print(json.dumps({**report.to_dict(), **added}, indent=2))
        return
    print(printable(f"{title}: {len(examples):,} sentences of {data}"))
    show_scores(results(), report.systems[0].scores, report.systems[0].intervals, given_spans, ceiling)
    if report.systems[0].confidence is not None:
        show_confidence(results(), report.systems[0].confidence, by_threshold)
    if reader and analysis:
        reader.show(analysis, worst)


def _write(path: Path, examples: Sequence[Example], predictions: Sequence[Prediction]) -> None:
    from relatum.cli.console import say
    from relatum.data.atomic import replacing_file
    from relatum.data.documents import from_words
    from relatum.data.formats import get_format

    documents = (
        from_words(example.id, [example.sentence.words], prediction.found)
        for example, prediction in zip(examples, predictions, strict=True)
    )
    with replacing_file(path) as draft:
        get_format("jsonl").write(draft, documents)
    say(f"wrote {path}")
