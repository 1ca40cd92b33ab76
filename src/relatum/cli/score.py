"""`relatum score`: predictions against gold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from relatum.cli.config import ConfigFile, Override
from relatum.cli.errors import Errors, Report, Train, Worst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relatum.config import TextConfig
    from relatum.evaluation.scoring import FileScores
    from relatum.lab.errors.analysis import ErrorAnalysis


def score(
    gold: Annotated[Path, typer.Argument(metavar="GOLD", help="Gold documents: a file or folder in any format.")],
    predicted: Annotated[
        Path, typer.Argument(metavar="PREDICTED", help="The same documents with what a system found.")
    ],
    other: Annotated[
        Path | None, typer.Argument(metavar="OTHER", help="The same of a second system, to compare with the first.")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help="Format of all files; guessed if not given.")
    ] = None,
    predicted_from: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="Format of the predictions, where it is not that of GOLD.")
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A schema.json, or SpERT's types.json: says which relations are symmetric."),
    ] = None,
    macro_over: Annotated[
        Literal["gold", "schema", "all"] | None,
        typer.Option(help="Types in the macro average: those in gold, of the schema, or in gold or predicted."),
    ] = None,
    gold_entities: Annotated[
        bool, typer.Option("--gold-entities", help="Demand that all predicted spans are gold spans, as for RE (gold).")
    ] = False,
    bootstrap: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Give 95% intervals, from N resamples of the documents."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the resamples and swaps.")] = 0,
    errors: Errors = False,
    worst: Worst = None,
    train: Train = None,
    page: Report = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON alone, as described above.")] = False,
    config: ConfigFile = None,
    override: Override = None,
) -> None:
    """Score predicted entities and relations, by boundaries (RE) and strictly with entity types (RE+).

    The settings evaluation.macro_over and evaluation.entities stand behind --macro-over and --gold-entities.

    Documents are matched by id, or by position where the ids differ; their texts must agree. Duplicates count once. A
    precision, recall or F1 of nothing out of nothing is 0.

    --json prints {"entities": S, "relations": S, "relations_strict": S}, where S is {"micro": V, "macro": V, "types":
    {label: V}} and V is {"precision", "recall", "f1", "support"}, in fractions between 0 and 1.

    With --bootstrap it has one more key: "intervals": {"confidence", "resamples", "seed", and for each task "micro" and
    "macro", each with [low, high] for "precision", "recall" and "f1"}.

    With OTHER it prints {"a": the above, "b": the same for OTHER, "comparison": C}. C has "confidence", "resamples",
    "seed", and for each task "micro" and "macro", each with the F1 of "a" and "b", their "difference" (b minus a), its
    "interval" (paired bootstrap) and "p" (two-sided, approximate randomisation over documents), from N or else 1000
    resamples and as many swaps.

    With --errors each system has one more key, "errors": "entities" and "relations_strict", each with the "kinds" of
    error and the micro F1 if each alone were mended ("f1_if_mended"), "types" and "confusion"; "breakdowns" by length
    and more; and with --worst, "worst": the sentences with most errors.
    """
    import json

    from relatum.cli.console import CommandMonitor
    from relatum.cli.errors import ErrorReader, find_training, wants_errors, write_report
    from relatum.config import load_config
    from relatum.evaluation import scoring

    with_errors = wants_errors(errors, worst, train)
    if page is not None and other is not None:
        raise typer.BadParameter("--report is of one system; give PREDICTED alone")
    settings = load_config(config, override or [])
    reader = ErrorReader(find_training(gold, None, train, from_), settings.text) if with_errors else None
    scored = scoring.score(
        gold,
        predicted,
        other,
        format=from_,
        predicted_format=predicted_from,
        schema=schema,
        macro_over=macro_over or settings.evaluation.macro_over,
        gold_entities=gold_entities or settings.evaluation.entities == "gold",
        bootstrap=bootstrap,
        seed=seed,
        keep_words=with_errors or page is not None,
        monitor=CommandMonitor(),
    )
    analyses = [reader.analyse(pairs.documents, scored.schema) for pairs in scored.pairs] if reader else []
    if page is not None:
        whole = analyses[0] if analyses else _analyse(scored, settings.text)
        title = f"Errors of {predicted} against {gold}"
        write_report(page, whole, scored.scores, title, given_spans=scored.gold_entities)
    if as_json:
        print(json.dumps(_to_dict(scored, analyses, worst or 0), indent=2))
        return
    paths = [predicted] if other is None else [predicted, other]
    for number, path in enumerate(paths):
        _show_system(scored, number, path, gold)
        if reader:
            reader.show(analyses[number], worst)
    _show_comparison(scored, paths)


def _analyse(scored: FileScores, text: TextConfig) -> ErrorAnalysis:
    """Analyse the errors of the first system without regard to training data."""
    from relatum.data.splitting import make_splitter
    from relatum.lab.errors.analysis import analyse

    return analyse(scored.pairs[0].documents, scored.schema, None, make_splitter(text.words, text.sentences))


def _to_dict(scored: FileScores, analyses: Sequence[ErrorAnalysis], n_worst: int) -> dict[str, Any]:
    """Return the scores as JSON, each system with its errors if they were analysed."""
    record = scored.to_dict()
    systems = [record] if scored.comparison is None else [record["a"], record["b"]]
    for system, analysis in zip(systems, analyses, strict=False):
        system["errors"] = analysis.to_dict(n_worst)
    return record


def _show_system(scored: FileScores, number: int, path: Path, gold: Path) -> None:
    from relatum.cli.console import results, show
    from relatum.cli.score_tables import show_scores

    pairs, system = scored.pairs[number], scored.systems[number]
    show(f"{path}: {len(pairs.documents):,} documents, matched with those of {gold} by {pairs.by}")
    show_scores(results(), system.scores, system.intervals, scored.gold_entities)


def _show_comparison(scored: FileScores, paths: Sequence[Path]) -> None:
    from relatum.cli.console import printable, results
    from relatum.cli.score_tables import show_comparison

    if scored.comparison is not None:
        names = [printable(str(path)) for path in paths]
        show_comparison(results(), scored.comparison, names[0], names[1], scored.gold_entities)
