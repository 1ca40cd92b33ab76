"""Options and functions for error analysis, shared by `relatum evaluate` and `relatum score`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from relatum.config import TextConfig
    from relatum.data.corpus import Part
    from relatum.evaluation.metrics import Scores
    from relatum.lab.errors.analysis import ErrorAnalysis
    from relatum.lab.errors.seen import Seen
    from relatum.schema import Schema
    from relatum.types import Document

Errors = Annotated[
    bool, typer.Option("--errors", help="Show the kinds of error, the cost of each, and where errors occur.")
]
Worst = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Like --errors, and list the N sentences with most errors.")
]
Train = Annotated[
    str | None,
    typer.Option(
        metavar="PART_OR_FILE",
        help="With --errors: training data, to mark items seen in training. Default: the part train beside the data.",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Write all errors as an HTML page, gold and found side by side, the worst first.",
    ),
]


class ErrorReader:
    """An analyser of the errors of systems on the same data, which keeps what was seen in training."""

    def __init__(self, source: Part | None, text: TextConfig) -> None:
        """Read the training documents, as `find_training` has found them, if there are some."""
        from relatum.cli.console import say
        from relatum.data.splitting import make_splitter

        self._splitter = make_splitter(text.words, text.sentences)
        self._seen: Seen | None = None
        self.trained_on: str | None = None
        if source is None:
            say("no training data beside what is scored: tables of what was seen in training need --train")
        else:
            self._read(source)

    def _read(self, source: Part) -> None:
        from relatum.data.problems import Problems
        from relatum.lab.errors.seen import Seen

        problems = Problems()
        self._seen = Seen(source.read(problems), self._splitter)
        problems.raise_if_any("Fix these records, or name other training data with --train.")
        self.trained_on = f"{source.path}, {self._seen.n_sentences:,} sentences"

    def analyse(self, pairs: Sequence[tuple[Document, Document]], schema: Schema | None) -> ErrorAnalysis:
        from relatum.lab.errors.analysis import analyse

        return analyse(pairs, schema, self._seen, self._splitter)

    def show(self, analysis: ErrorAnalysis, n_worst: int | None) -> None:
        from relatum.cli.console import results
        from relatum.cli.error_tables import show_errors, show_worst

        show_errors(results(), analysis, self.trained_on)
        if n_worst:
            show_worst(results(), analysis, n_worst)


def write_report(
    path: Path,
    analysis: ErrorAnalysis,
    scores: Scores,
    title: str,
    losses: Sequence[float] | None = None,
    given_spans: bool = False,
    remarks: Sequence[str] = (),
) -> None:
    """Write the page of errors, and say so."""
    from relatum.cli.console import say
    from relatum.lab.errors.page.making import write_page

    given = ["The gold entities were given"] if given_spans else []
    write_page(path, analysis, scores, title, losses, [*given, *remarks])
    say(f"wrote {path}")


def wants_errors(errors: bool, worst: int | None, train: str | None) -> bool:
    """True if errors are to be shown; --train without --errors or --worst is refused."""
    if train is not None and not errors and worst is None:
        raise typer.BadParameter("--train is for what was seen in training, which --errors shows; add --errors")
    return errors or worst is not None


def find_training(data: Path, part: str | None, train: str | None, format: str | None) -> Part | None:
    """Return the part that --train names, a part of the data or a path; else the part train, unless that is scored.

    `part` is the part that is scored, if known.
    """
    from relatum.data.corpus import open_corpus
    from relatum.errors import RelatumError

    beside = {one.name: one for one in open_corpus(data, format).parts} if data.is_dir() else {}
    if train is None:
        if data.is_dir():
            return beside.get("train") if part is not None and part != "train" and len(beside) > 1 else None
        sibling = data.with_stem("train")
        return open_corpus(sibling, format).parts[0] if sibling.is_file() and sibling != data else None
    if train in beside:
        return beside[train]
    path = Path(train)
    if not path.exists():
        parts = f"; {data} has the parts {', '.join(beside)}" if beside else ""
        raise RelatumError(f"--train {train}: no such file or folder{parts}")
    named = {one.name: one for one in open_corpus(path, format).parts}
    if len(named) > 1 and "train" not in named:
        raise RelatumError(f"--train {train}: found the parts {', '.join(named)}; name the file of one of them")
    return named["train"] if "train" in named else next(iter(named.values()))
