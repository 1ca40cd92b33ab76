"""`relatum attention`: which heads attend to entities and relations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relatum.cli.annotated import ModelName
from relatum.cli.options import BatchSize, Crossing, DataFormat, MaxCells, Overlaps, Splitting, read_splitting
from relatum.cli.train import Device
from relatum.extractor.finding import DEFAULT_MODEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from relatum.extractor.extractor import Extractor
    from relatum.lab.attention.heads import HeadScores
    from relatum.lab.attention.heat_maps import Picture
    from relatum.lab.attention.weights import Attention
    from relatum.types import Example


def attention(
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="Annotated data: a folder of parts, or a file.")
    ] = None,
    part: Annotated[str, typer.Option(metavar="NAME", help="The part of a folder to measure on.")] = "dev",
    from_: DataFormat = None,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A text instead of DATA, to export its attention.")
    ] = None,
    model: ModelName = DEFAULT_MODEL,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the scores of all heads as JSON, as described above.")
    ] = None,
    bertviz: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the attention as JSON for bertviz."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write heat maps as a self-contained HTML page.")
    ] = None,
    show: Annotated[
        int, typer.Option(min=1, metavar="N", help="The number of sentences of DATA in --bertviz and --html.")
    ] = 3,
    best: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="The number of best heads to print, for the network and for the encoder."
        ),
    ] = 5,
    device: Device = None,
    batch_size: BatchSize = None,
    max_cells: MaxCells = None,
    splitting: Splitting = None,
    overlaps: Overlaps = None,
    crossing: Crossing = None,
) -> None:
    """Measure how well attention heads agree with entities and relations, and export attention weights.

    Three patterns of word pairs are measured: both words in the same entity; from the head of a relation to its tail;
    and from its tail to its head. All pairs of a corpus are ranked by the weight of a head, which gives the head's
    average precision. Compare it with chance, the share of pairs that the pattern connects, and with "nearest words",
    the average precision of a head that only knows the distance of words. The encoder's heads are those that the table
    reads. With DATA, --html and --bertviz show the sentences with most relations.

    --out has {"model", "data", "part", "sentences", "pairs", "patterns": {NAME: {"connected", "chance", "nearness"}},
    "heads": [{"of": "network" or "encoder", "layer", "head", "average_precision": {NAME: …}}]}.
    """
    if (data is None) == (text is None):
        raise typer.BadParameter("give DATA, to measure on it, or --text, to export its attention")
    if text is not None and out is not None:
        raise typer.BadParameter("--out is for the figures of DATA; a text is written with --bertviz or --html")
    if text is not None and bertviz is None and html is None:
        raise typer.BadParameter("name a file for the attention of the text, with --bertviz or --html")

    if text is not None and (overlaps is not None or crossing is not None):
        raise typer.BadParameter("--overlaps and --crossing are for DATA; leave them out with --text")

    rules = read_splitting(splitting)
    from relatum.extractor.extractor import Extractor

    extractor = Extractor.from_pretrained(
        model, device, "fp32", batch_size, max_cells, words=rules.get("words"), sentences=rules.get("sentences")
    )
    if data is None:
        _export_text(extractor, text or "", bertviz, html)
        return

    from relatum.cli.annotated import load_annotated
    from relatum.cli.console import say
    from relatum.cli.progress import show_progress
    from relatum.data.atomic import replacing_file
    from relatum.data.passages import describe_number
    from relatum.lab.attention.heads import measure_heads

    examples, _ = load_annotated(data, part, from_, extractor.model, model, overlaps, crossing)
    with show_progress(str(data)) as on_progress:
        scores = measure_heads(extractor, examples, on_progress)
    if out is not None:
        import json

        record = {"model": model, "data": str(data), "part": part, **scores.to_dict()}
        with replacing_file(out) as draft:
            draft.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        say(f"wrote {out}")
    if bertviz is not None or html is not None:
        _export_examples(extractor, examples, show, scores, bertviz, html)
    _show(extractor, scores, f"{model}: {describe_number(examples, extractor.config.text.unit)} of {data}", best)


def _export_text(extractor: Extractor, text: str, bertviz: Path | None, html: Path | None) -> None:
    from relatum.errors import RelatumError
    from relatum.lab.attention.heat_maps import Picture
    from relatum.lab.attention.weights import attend_to_text

    found = attend_to_text(extractor, text)
    if not found:
        raise RelatumError("--text: there are no words in it; give a text that has some")
    _write([(f"sentence {one.sentence + 1}", one) for one in found], bertviz, html, (Picture.of(one) for one in found))


def _export_examples(
    extractor: Extractor,
    examples: Sequence[Example],
    n_shown: int,
    scores: HeadScores,
    bertviz: Path | None,
    html: Path | None,
) -> None:
    from relatum.lab.attention.heat_maps import Picture
    from relatum.lab.attention.weights import attend

    ranked = sorted(examples, key=lambda one: (-len(one.gold.relations), -len(one.gold.entities)))[:n_shown]
    found = sorted(
        attend(extractor, [example.sentence for example in ranked]), key=lambda one: (one.sentence, one.window)
    )
    named = [(ranked[one.sentence].id, one) for one in found]
    _write(named, bertviz, html, (Picture.of(one, ranked[one.sentence].gold, scores) for one in found))


def _write(
    named: Sequence[tuple[str, Attention]], bertviz: Path | None, html: Path | None, pictures: Iterable[Picture]
) -> None:
    import json

    from relatum.cli.console import say
    from relatum.data.atomic import replacing_file
    from relatum.lab.attention.heat_maps import page

    if bertviz is not None:
        record = {"sentences": [{"id": name, **one.to_bertviz()} for name, one in named]}
        with replacing_file(bertviz) as draft:
            draft.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
        say(f"wrote {bertviz}")
    if html is not None:
        with replacing_file(html) as draft:
            draft.write_text(page(zip((name for name, _ in named), pictures, strict=True)), encoding="utf-8")
        say(f"wrote {html}")


def _show(extractor: Extractor, scores: HeadScores, title: str, n_best: int) -> None:
    from relatum.cli.console import printable, results
    from relatum.cli.score_tables import new_table
    from relatum.evaluation.metrics import per_cent
    from relatum.lab.attention.weights import is_table_guided

    own = "table-guided" if is_table_guided(extractor.model) else "dot products"
    console = results()
    print(printable(title))
    for pattern, found in scores.alignments.items():
        if not found.n_connected:
            console.print(f"{pattern}: the data have no such pairs")
            continue
        table = new_table(f"{pattern}: average precision, %")
        for heading in (f"{own}: best heads", "encoder: best heads"):
            table.add_column(heading)
            table.add_column("AP", justify="right")
        columns = [scores.best(pattern, of_encoder)[:n_best] for of_encoder in (False, True)]
        for row in range(max(map(len, columns))):
            cells: list[str] = []
            for column in columns:
                cells += [str(column[row][0]), per_cent(column[row][1])] if row < len(column) else ["", ""]
            table.add_row(*cells)
        console.print(table)
        near = per_cent(scores.nearness[pattern])
        console.print(
            f"{found.n_connected:,} of {scores.n_pairs:,} pairs: chance {per_cent(found.chance)}, nearest words {near}"
        )
