"""`relatum evaluate`: the scores of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from relatum.cli.options import BatchSize, DataFormat, MaxCells, Precision
from relatum.cli.train import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relatum.types import Example, Prediction


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The folder of a model, or the name of one.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Annotated data: a folder of parts, or a file.")],
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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON alone, as relatum score does.")] = False,
    device: Device = None,
    precision: Precision = "fp32",
    batch_size: BatchSize = None,
    max_cells: MaxCells = None,
    overlaps: Annotated[
        Literal["fail", "drop", "keep-longest"] | None,
        typer.Option(help="Nested, overlapping, discontinuous gold entities; as in training if not given."),
    ] = None,
    crossing: Annotated[
        Literal["fail", "drop"] | None,
        typer.Option(help="Gold relations between sentences; as in training if not given."),
    ] = None,
) -> None:
    """Let a model read annotated sentences, and score what it finds.

    Sentences and words are those of DATA, or are split as in training. Annotations that no sentence-wise model can
    find are treated as in training; what is left out is counted and said. --json is described in relatum score --help.
    """
    import json

    from relatum.cli.console import printable, results, say
    from relatum.evaluation.report import make_report
    from relatum.evaluation.tables import show_scores
    from relatum.extractor.extractor import Extractor
    from relatum.training.corpus import load_part

    extractor = Extractor.from_pretrained(model, device, precision, batch_size, max_cells)
    config = extractor.model.config
    changed = {key: value for key, value in (("overlaps", overlaps), ("crossing", crossing)) if value is not None}
    settings = config.model_copy(update={"data": config.data.model_copy(update=changed)})
    examples, remarks = load_part(data, part, settings, from_)
    for remark in remarks:
        say(remark)
    schema = extractor.model.schema
    labels = {entity.label for example in examples for entity in example.gold.entities}
    labels |= {relation.label for example in examples for relation in example.gold.relations}
    unknown = sorted(labels.difference(schema.entity_types, schema.relation_names))
    if unknown:
        macro = "; macro averages are over all types" if config.evaluation.macro_over == "schema" else ""
        say(f"{model} does not know these types of {data}, and finds none of them: {', '.join(unknown)}{macro}")
    given_spans = gold_entities or config.evaluation.entities == "gold"
    given = [example.gold.entities for example in examples] if given_spans else None
    predictions = extractor.predict([example.sentence for example in examples], given)
    if out is not None:
        _write(out, examples, predictions)
    pairs = [(example.gold, found.found) for example, found in zip(examples, predictions, strict=True)]
    macro_over = "all" if unknown and config.evaluation.macro_over == "schema" else config.evaluation.macro_over
    report = make_report([pairs], schema, macro_over, bootstrap, seed)
    if as_json:
        print(json.dumps(report.to_dict(), indent=2))
        return
    print(printable(f"{model}: {len(examples):,} sentences of {data}"))
    show_scores(results(), report.systems[0].scores, report.systems[0].intervals, given_spans)


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
