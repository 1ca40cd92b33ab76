"""Scores of files: predicted documents against gold documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relatum.data.corpus import open_corpus
from relatum.data.problems import Problems
from relatum.errors import RelatumError
from relatum.evaluation.matching import GOLD_SPANS_CURE, check_gold_spans
from relatum.evaluation.metrics import MacroOver, Scores
from relatum.evaluation.pairing import Pairs, pair_documents
from relatum.evaluation.report import Report, check_resampling, make_report
from relatum.monitor import Monitor, Remarks
from relatum.schema import Schema
from relatum.types import Annotation, Document


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScores(Report):
    """The scores of the predictions of one system; or of two systems, with their comparison."""

    pairs: tuple[Pairs, ...] = field(repr=False)
    """The gold and predicted documents of every system."""
    schema: Schema | None
    gold_entities: bool
    """True if all predicted spans are gold spans, as was demanded."""
    remarks: tuple[str, ...]
    """The messages that the monitor heard."""

    @property
    def scores(self) -> Scores:
        """The scores of the first system."""
        return self.systems[0].scores


def score(  # noqa: PLR0913 -- an argument for each option of the command
    gold: str | Path,
    predicted: str | Path,
    other: str | Path | None = None,
    *,
    format: str | None = None,
    predicted_format: str | None = None,
    schema: Schema | str | Path | None = None,
    macro_over: MacroOver = "gold",
    gold_entities: bool = False,
    bootstrap: int | None = None,
    seed: int = 0,
    keep_words: bool = False,
    monitor: Monitor | Callable[[str], object] | None = None,
) -> FileScores:
    """Score the entities and relations of one file or folder against the gold documents of another.

    Documents are matched by id, or by position where the ids differ; their texts must agree. With `other`, the
    predictions of a second system, the two systems are compared. Formats are guessed if none is named;
    `predicted_format` is for predictions whose format is not that of gold.

    The schema, or the file of one, says which relation types are symmetric. `macro_over` names the types of the macro
    average: those in "gold", of the "schema", or "all" in gold or predicted. With `gold_entities` all predicted spans
    must be gold spans. With `bootstrap`, a number of resamples drawn by `seed`, scores get 95% intervals.

    With `keep_words` the gold documents in the result keep their words and sentences, which error analysis reads and
    which take most of the memory. `monitor` hears messages: a function such as `print`, or a
    `relatum.monitor.Monitor`, whose `watch` can also count the documents.
    """
    check_resampling(bootstrap, seed)
    remarks = Remarks(monitor)
    labels = schema if schema is None or isinstance(schema, Schema) else Schema.load(Path(schema))
    paths = [Path(path) for path in (predicted, other) if path is not None]
    pairs = _read_pairs(Path(gold), paths, format, predicted_format or format, keep_words, remarks)
    if gold_entities:
        _demand_gold_spans(paths, pairs)
    annotations = [_annotations(system) for system in pairs]
    report = make_report(annotations, labels, macro_over, bootstrap, seed)
    if labels is not None:
        name = "the schema" if isinstance(schema, Schema) else str(schema)
        for path, system in zip(paths, report.systems, strict=True):
            _remark_on_types(system.scores, labels, f"{name} lacks relation types of {Path(gold)} and {path}", remarks)
    return FileScores(
        report.systems,
        report.comparison,
        pairs=tuple(pairs),
        schema=labels,
        gold_entities=gold_entities,
        remarks=tuple(remarks.said),
    )


def _annotations(pairs: Pairs) -> list[tuple[Annotation, Annotation]]:
    return [(gold.annotation, predicted.annotation) for gold, predicted in pairs.documents]


def _read_pairs(
    gold: Path,
    paths: Sequence[Path],
    gold_format: str | None,
    format: str | None,
    keep_words: bool,
    monitor: Monitor,
) -> list[Pairs]:
    """Read all files, and match the documents of each system with those of gold."""
    problems = Problems()
    gold_documents = _read(gold, gold_format, problems, monitor, keep_words)
    predicted = [_read(path, format, problems, monitor) for path in paths]
    problems.raise_if_any("Fix these records first: leaving them out would change the scores.")
    for line in problems.lines():
        monitor.say(line)
    return [
        pair_documents(gold_documents, documents, str(gold), str(path))
        for path, documents in zip(paths, predicted, strict=True)
    ]


def _read(
    path: Path, format: str | None, problems: Problems, monitor: Monitor, keep_words: bool = False
) -> list[Document]:
    """Read all documents of a file or folder; without their words, unless these are to be kept."""
    corpus = open_corpus(path, format)
    for line in corpus.skipped_lines():
        monitor.say(line)
    documents = [
        document if keep_words else Document(document.id, document.text, document.annotation)
        for part in corpus.parts
        for document in monitor.watch(part.read(problems), part.name)
    ]
    if not documents and not problems.count:
        raise RelatumError(f"{path}: there are no documents in it; give a file that has some")
    return documents


def _demand_gold_spans(paths: Sequence[Path], systems: Sequence[Pairs]) -> None:
    problems = Problems()
    for path, pairs in zip(paths, systems, strict=True):
        for gold, predicted in pairs.documents:
            check_gold_spans(gold.annotation, predicted.annotation, problems, str(path), document=predicted.id)
    problems.raise_if_any(GOLD_SPANS_CURE)


def _remark_on_types(scores: Scores, schema: Schema, problem: str, monitor: Monitor) -> None:
    """Say which relation types the schema lacks; it cannot tell if they are symmetric."""
    unknown = [label for label in scores.relations.types if label not in schema.relation_names]
    if unknown:
        monitor.say(f"{problem}, taken as directed: {', '.join(unknown)}")
