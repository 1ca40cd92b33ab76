"""`relatum score`: predictions against gold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from relatum.cli.config import ConfigFile, Override
from relatum.cli.errors import Errors, Report, Train, Worst

if TYPE_CHECKING:
    from relatum.data.problems import Problems
    from relatum.evaluation.pairing import Pairs
    from relatum.types import Document


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

    from relatum.cli.console import printable, say
    from relatum.cli.errors import ErrorReader, find_training, wants_errors, write_report
    from relatum.config import load_config
    from relatum.data.splitting import make_splitter
    from relatum.evaluation.report import make_report
    from relatum.lab.errors.analysis import analyse
    from relatum.schema import Schema

    with_errors = wants_errors(errors, worst, train)
    if page is not None and other is not None:
        raise typer.BadParameter("--report is of one system; give PREDICTED alone")
    whole_config = load_config(config, override or [])
    settings = whole_config.evaluation
    given_spans = gold_entities or settings.entities == "gold"
    labels = Schema.load(schema) if schema else None
    paths = [predicted] if other is None else [predicted, other]
    reader = ErrorReader(find_training(gold, None, train, from_), whole_config.text) if with_errors else None
    systems = _read_pairs(gold, paths, from_, predicted_from or from_, with_errors or page is not None)
    if given_spans:
        _demand_gold_spans(dict(zip(paths, systems, strict=True)))
    annotations = [[(own.annotation, its.annotation) for own, its in pairs.documents] for pairs in systems]
    report = make_report(annotations, labels, macro_over or settings.macro_over, bootstrap, seed)
    for path, system in zip(paths, report.systems, strict=True):
        unknown = [label for label in system.scores.relations.types if labels and label not in labels.relation_names]
        if unknown:
            say(f"{schema} lacks relation types of {gold} and {path}, taken as directed: {', '.join(unknown)}")
    analyses = [reader.analyse(pairs.documents, labels) for pairs in systems] if reader else []
    if page is not None:
        splitter = make_splitter(whole_config.text.words, whole_config.text.sentences)
        whole = analyses[0] if analyses else analyse(systems[0].documents, labels, None, splitter)
        title = f"Errors of {predicted} against {gold}"
        write_report(page, whole, report.systems[0].scores, title, given_spans=given_spans)
    if as_json:
        record = report.to_dict()
        for own, analysis in zip([record] if other is None else [record["a"], record["b"]], analyses, strict=False):
            own["errors"] = analysis.to_dict(worst or 0)
        print(json.dumps(record, indent=2))
        return

    from relatum.cli.console import results
    from relatum.cli.score_tables import show_comparison, show_scores

    console = results()

    for number, (path, pairs, system) in enumerate(zip(paths, systems, report.systems, strict=True)):
        print(printable(f"{path}: {len(pairs.documents):,} documents, matched with those of {gold} by {pairs.by}"))
        show_scores(console, system.scores, system.intervals, given_spans)
        if reader:
            reader.show(analyses[number], worst)
    if report.comparison:
        show_comparison(console, report.comparison, printable(str(predicted)), printable(str(other)), given_spans)


def _read_pairs(
    gold: Path, paths: list[Path], gold_format: str | None, format: str | None, keep_words: bool
) -> list[Pairs]:
    from relatum.cli.console import warn_about
    from relatum.data.problems import Problems
    from relatum.evaluation.pairing import pair_documents

    problems = Problems()
    gold_documents = _read(gold, gold_format, problems, keep_words)
    predicted = [_read(path, format, problems) for path in paths]
    problems.raise_if_any("Mend these records first: leaving them out would change the scores.")
    warn_about(problems)
    return [
        pair_documents(gold_documents, documents, str(gold), str(path))
        for path, documents in zip(paths, predicted, strict=True)
    ]


def _read(path: Path, format_name: str | None, problems: Problems, keep_words: bool = False) -> list[Document]:
    from relatum.cli.console import say, watch
    from relatum.data.corpus import open_corpus
    from relatum.errors import RelatumError
    from relatum.types import Document

    corpus = open_corpus(path, format_name)
    for name, reason in corpus.skipped:
        say(f"skipped {name}: {reason}")
    # Scores need no words, and words take most of the memory.
    documents = [
        document if keep_words else Document(document.id, document.text, document.annotation)
        for part in corpus.parts
        for document in watch(part.read(problems), part.name)
    ]
    if not documents and not problems.count:
        raise RelatumError(f"{path}: there are no documents in it; give a file that has some")
    return documents


def _demand_gold_spans(systems: dict[Path, Pairs]) -> None:
    from relatum.data.problems import Problems
    from relatum.evaluation.matching import GOLD_SPANS_CURE, check_gold_spans

    problems = Problems()
    for path, pairs in systems.items():
        for own, its in pairs.documents:
            check_gold_spans(own.annotation, its.annotation, problems, str(path), document=its.id)
    problems.raise_if_any(GOLD_SPANS_CURE)
