"""`relatum probe`: what every layer of a model says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relatum.cli.annotated import ModelName, load_annotated
from relatum.cli.options import BatchSize, Crossing, DataFormat, MaxCells, Overlaps, Splitting, read_splitting
from relatum.cli.sources import TextSource, find_source
from relatum.cli.train import Device
from relatum.extractor.finding import DEFAULT_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import Console

    from relatum.extractor.extractor import Extractor
    from relatum.extractor.introspection.probe import Probe
    from relatum.lab.probing import LayerFigures, Passage
    from relatum.types import Document, Entity, Example, Relation


def probe(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text to read. Default: --input, or else standard input.")
    ] = None,
    model: ModelName = DEFAULT_MODEL,
    input: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A file with one text, a .jsonl file of texts, or a folder of .txt files."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA", help="Annotated data instead of a text: show the scores and changes of each layer."
        ),
    ] = None,
    part: Annotated[str, typer.Option(metavar="NAME", help="The part of a folder, with --data.")] = "dev",
    from_: DataFormat = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON alone, as described above.")] = False,
    tables: Annotated[
        bool, typer.Option("--tables", help="Add tables to the JSON of a text: cells and attention.")
    ] = False,
    device: Device = None,
    batch_size: BatchSize = None,
    max_cells: MaxCells = None,
    splitting: Splitting = None,
    overlaps: Overlaps = None,
    crossing: Crossing = None,
) -> None:
    """Show the predictions of every layer for a text, or the scores of every layer on annotated data.

    The trained scorers read the sequence and the table of each layer; the last layer predicts the same as relatum
    extract. In the tables, + marks predictions that are new in a layer, and − predictions of the layer before that are
    gone.

    --json of texts is {"model", "texts": [{"id", "text", "sentences": [S]}]}; S has "words", "windows", "layers" with
    "entities", "relations", "words", "gained" and "lost", and with --tables "cells", "no_relation" and "attention".
    --json of --data is {"model", "data", "part", "sentences", "ceiling": as relatum evaluate --json, "layers":
    [{"layer", "scores": as relatum score --json, "changes": {TASK: {"right", "missed", "wrong": of the layer before,
    "found", "dropped", "lost", "added": by this one, "corrected", "broken"}}}]}.
    """
    rules = read_splitting(splitting)
    if data is not None and (text is not None or input is not None):
        raise typer.BadParameter("--data is given, and TEXT or --input too; leave one out")
    if tables and not (as_json and data is None):
        raise typer.BadParameter("--tables is for the JSON of a text; add --json, or leave --tables out")
    if data is not None:
        extractor = _load(model, device, batch_size, max_cells, rules)
        loaded = load_annotated(data, part, from_, extractor.model, model, overlaps, crossing)
        _probe_corpus(extractor, loaded, model, data, part, as_json)
        return
    if overlaps is not None or crossing is not None:
        raise typer.BadParameter("--overlaps and --crossing are for annotated data; add --data, or leave them out")

    source = find_source(text, input)
    _probe_texts(source, lambda: _load(model, device, batch_size, max_cells, rules), model, as_json, tables)


def _probe_texts(source: TextSource, load: Callable[[], Extractor], model: str, as_json: bool, tables: bool) -> None:
    from relatum.cli.console import results, show_json
    from relatum.data.problems import Problems

    problems = Problems()
    documents = list(source.read(problems))
    problems.raise_if_any("Fix these, or leave them out.")
    if not documents:
        from relatum.errors import RelatumError

        raise RelatumError(f"{source.where}: there are no texts in it; expected {source.expected}")
    extractor = load()
    if as_json:
        texts = [_record(document, extractor.probe(document.text), tables) for document in documents]
        show_json({"model": model, "texts": texts}, indent=None)
        return
    console = results()
    for document in documents:
        if source.many:
            console.print(document.id, style="bold")
        probes = extractor.probe(document.text)
        for one in probes:
            _show(console, one)
        if not probes:
            console.print("no words")


def _load(
    model: str, device: str | None, batch_size: int | None, max_cells: int | None, rules: Mapping[str, str]
) -> Extractor:
    from relatum.extractor.extractor import Extractor

    return Extractor.from_pretrained(
        model, device, "fp32", batch_size, max_cells, words=rules.get("words"), sentences=rules.get("sentences")
    )


def _record(document: Document, probes: Sequence[Probe], tables: bool) -> dict[str, Any]:
    return {"id": document.id, "text": document.text, "sentences": [one.to_dict(tables) for one in probes]}


def _show(console: Console, probe: Probe) -> None:
    """Print the sentence and two tables: a row for every item that any layer finds, a column for each layer."""
    from relatum.extractor.result import mention

    text = probe.text
    console.print()
    console.print(" ".join(span.of(text) for span in probe.words), style="bold", soft_wrap=True)
    if len(probe.windows) > 1:
        console.print(f"read in {len(probe.windows)} windows of at most {max(w.width for w in probe.windows)} words")

    def entity(one: Entity) -> list[str]:
        return [mention(one, text), one.label]

    def relation(one: Relation) -> list[str]:
        return [mention(one.head, text), one.label, mention(one.tail, text)]

    said = [layer.found for layer in probe.layers]
    entities = sorted({one for found in said for one in found.entities}, key=_place)
    relations = sorted(
        {one for found in said for one in found.relations},
        key=lambda one: (_place(one.head), _place(one.tail), one.label),
    )
    in_entities = [{one: one.score for one in found.entities} for found in said]
    in_relations = [{one: one.score for one in found.relations} for found in said]
    _show_rows(
        console, ["entity", "type"], ((entity(one), [by.get(one, -1) for by in in_entities]) for one in entities)
    )
    _show_rows(
        console,
        ["head", "relation", "tail"],
        ((relation(one), [by.get(one, -1) for by in in_relations]) for one in relations),
    )


def _place(entity: Entity) -> tuple[int, int, str]:
    return entity.span.start, -entity.span.end, entity.label


def _show_rows(
    console: Console, headings: Sequence[str], rows: Iterable[tuple[list[str], Sequence[float | None]]]
) -> None:
    """Print a table of rows, each with its score in every layer; −1 if the layer does not find it."""
    from relatum.cli.score_tables import new_table

    title = "relations" if "relation" in headings else "entities"
    table = new_table(title)
    for heading in headings:
        table.add_column(heading)
    for names, scores in rows:
        if not table.row_count:
            for number in range(1, len(scores) + 1):
                table.add_column(f"layer {number}", justify="right")
        table.add_row(*names, *(_cell(scores, number) for number in range(len(scores))))
    console.print(table if table.row_count else f"no {title} in any layer")


def _cell(scores: Sequence[float | None], number: int) -> str:
    score, before = scores[number], scores[number - 1] if number else scores[number]
    if score == -1:
        return "" if before == -1 else "−"
    shown = "" if score is None else f"{score:.2f}"
    return f"+ {shown}" if before == -1 else shown


def _probe_corpus(
    extractor: Extractor, loaded: tuple[list[Example], bool], model: str, data: Path, part: str, as_json: bool
) -> None:
    from relatum.cli.console import results, show, show_json
    from relatum.cli.progress import show_progress
    from relatum.cli.score_tables import print_ceiling
    from relatum.data.passages import count_sentences, describe_number
    from relatum.evaluation.ceiling import Limits, ceiling_record, measure_ceiling
    from relatum.lab.probing import measure_layers, predict_layers

    examples, all_known = loaded
    settings = extractor.config.evaluation
    gold = [example.full_gold for example in examples]
    given = [example.gold.entities for example in examples] if settings.entities == "gold" else None
    limits = Limits.of(extractor.config, extractor.find_windows)
    ceiling = measure_ceiling(examples, extractor.tagging, settings.macro_over, limits)
    with show_progress(str(data)) as on_progress:
        found = predict_layers(extractor, [example.sentence for example in examples], given, on_progress)
    macro_over = settings.macro_over if all_known or settings.macro_over != "schema" else "all"
    layers = measure_layers(gold, found, extractor.schema, macro_over)
    if as_json:
        record = {
            "model": model,
            "data": str(data),
            "part": part,
            "sentences": count_sentences(examples),
            "ceiling": ceiling_record(ceiling),
            "layers": [{"layer": number, **layer.to_dict()} for number, layer in enumerate(layers, 1)],
        }
        show_json(record)
        return
    show(f"{model}: {describe_number(examples, extractor.config.text.unit)} of {data}")
    show_layers(results(), layers)
    print_ceiling(ceiling)


def show_layers(console: Console, layers: Sequence[LayerFigures]) -> None:
    """Print the scores of each layer, then what it corrects and breaks of what the one before it said."""
    from relatum.cli.score_tables import new_table
    from relatum.evaluation.metrics import per_cent

    table = new_table("Micro F1 by layer, %")
    for heading in ("layer", "entities", "RE", "RE+"):
        table.add_column(heading, justify="right")
    for number, layer in enumerate(layers, 1):
        table.add_row(str(number), *(per_cent(scores.micro.f1) for _, scores in layer.scores.tasks()))
    console.print(table)
    for title, passages in (
        ("Entities", [layer.entities for layer in layers]),
        ("Relations, strict (RE+)", [layer.relations for layer in layers]),
    ):
        _show_passages(console, title, passages)


def _show_passages(console: Console, title: str, passages: Sequence[Passage | None]) -> None:
    from relatum.cli.score_tables import new_table
    from relatum.evaluation.metrics import per_cent

    table = new_table(f"{title}: what each layer makes of what the one before said")
    headings = ("layer", "missed → found", "wrong → dropped", "corrected", "% of errors")
    for heading in (*headings, "right → lost", "new and wrong", "broken", "% of right lost"):
        table.add_column(heading, justify="right")
    for number, one in enumerate(passages, 1):
        if one is not None:
            table.add_row(
                str(number),
                f"{one.found:,} of {one.missed:,}",
                f"{one.dropped:,} of {one.wrong:,}",
                f"{one.corrected:,}",
                per_cent(one.corrected_share),
                f"{one.lost:,} of {one.right:,}",
                f"{one.added:,}",
                f"{one.broken:,}",
                per_cent(one.lost_share),
            )
    if table.row_count:
        console.print(table)
