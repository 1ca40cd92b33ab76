"""Suggesting annotations: tasks for people to correct, those first in which a model is least certain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from relatum.data.atomic import check_target
from relatum.data.conversion import write_documents
from relatum.data.formats import get_format, label_studio
from relatum.data.problems import Problems
from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.extractor.finding import DEFAULT_MODEL
from relatum.extractor.result import Extraction, check_threshold
from relatum.types import Document, Span

Unit = Literal["document", "paragraph", "sentence"]
Sort = Literal["uncertain", "as-is"]
Tool = Literal["label-studio", "brat", "doccano", "jsonl"]

_BLANK_LINES = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Tasks that were written for people to correct."""

    n_tasks: int
    """The number of tasks written."""
    n_possible: int
    """The number of tasks that the texts had, without the limit."""
    n_empty: int
    """The number of tasks written in which nothing is suggested."""
    written: tuple[Path, ...]
    """The files, or the folder, that were written."""
    model_version: str
    """The name of the model with the beginning of a hash of its files."""
    problems: Problems
    """Remarks on everything that was changed or left out."""


def suggest(  # noqa: PLR0913 -- an argument for each option of the command
    texts: Iterable[str | Document],
    target: str | Path,
    *,
    model: Extractor | str | Path = DEFAULT_MODEL,
    to_format: Tool = "label-studio",
    unit: Unit = "document",
    sort: Sort = "uncertain",
    limit: int | None = None,
    threshold: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Suggestions:
    """Write texts as tasks for an annotation tool, with what a model finds in them, for people to correct.

    A task is a document, a paragraph (ended by a blank line) or a sentence of a text, and is read by itself. With
    `sort` "uncertain", the tasks with the lowest mean score of all that was found come first, those in which nothing
    was found last; "as-is" keeps the order of the texts. `limit` is the most tasks to write. `threshold` leaves out
    what has a lower score, which still counts for the order.

    The target appears whole or not at all: a file, or a new folder for brat. The labels of the model are written beside
    it, as the tool needs them. Annotations that the texts have are not read.
    """
    if threshold is not None:
        check_threshold(threshold)
    if limit is not None and limit < 1:
        raise RelatumError(f"limit is {limit}; expected at least 1, or None to write all tasks")
    _check_choices(unit, sort, to_format)
    if isinstance(texts, str | Document):
        raise TypeError(f"texts: expected a list of texts, found a single {type(texts).__name__}; put it in a list")
    format = get_format(to_format)
    check_target(Path(target), folder=not format.suffix)
    extractor = model if isinstance(model, Extractor) else Extractor.from_pretrained(model)
    version, schema = extractor.version or "relatum", extractor.schema
    problems = Problems()
    pairs = ((task.text, task) for task in _make_tasks(texts, unit, extractor, problems))
    found = list(extractor.pipe(pairs, on_progress=on_progress, as_tuples=True))
    if not found:
        reasons = "; ".join(problems.remark_lines()) or "no texts were given"
        raise RelatumError(f"there are no texts with words to make tasks of, so {target} was not written: {reasons}")
    if sort == "uncertain":
        found.sort(key=lambda pair: certainty(pair[0]))
    chosen = [_suggested(task, extraction, threshold) for extraction, task in found[:limit]]
    if to_format == "label-studio":
        format = label_studio.predictions_of(schema, version)
    if not format.suffix:
        chosen = _number(chosen)
    done = write_documents(chosen, Path(target), format, extractor.splitter, schema)
    for remark, times in done.problems.remarks.items():
        problems.remark(remark, done.problems.places[remark], times)
    n_empty = sum(not task.annotation.entities for task in chosen)
    return Suggestions(len(chosen), len(found), n_empty, done.written, version, problems)


def _check_choices(unit: Unit, sort: Sort, to_format: Tool) -> None:
    for name, value, choices in (("unit", unit, Unit), ("sort", sort, Sort), ("to_format", to_format, Tool)):
        if value not in get_args(choices):
            raise RelatumError(f"{name} is {value!r}; expected one of: {', '.join(get_args(choices))}")


def _make_tasks(
    texts: Iterable[str | Document], unit: Unit, extractor: Extractor, problems: Problems
) -> Iterator[Document]:
    """Yield a document without annotation for each unit of each text."""
    for number, text in enumerate(texts, 1):
        document = Document(f"text-{number}", text) if isinstance(text, str) else text
        if not isinstance(document, Document):
            raise TypeError(f"text {number}: expected str or Document, found {type(text).__name__}")
        spans = find_units(document.text, unit, extractor)
        if not spans:
            problems.remark("text without words, left out", document.id)
        for part, span in enumerate(spans, 1):
            if len(spans) == 1:
                yield Document(document.id, span.of(document.text), metadata=document.metadata)
                continue
            place = {"source": document.id, "start": span.start}
            yield Document(f"{document.id}#{part}", span.of(document.text), metadata={**document.metadata, **place})


def find_units(text: str, unit: Unit, extractor: Extractor) -> list[Span]:
    """Return the documents (the whole text), paragraphs or sentences of a text; units without words are left out."""
    if unit == "sentence":
        spans = []
        for sentence in extractor.split(text):
            offsets = sentence.offsets or ()
            spans += [Span(offsets[one.start].start, offsets[one.end - 1].end) for one in sentence.ranges]
        return spans
    if unit == "document":
        return [Span(0, len(text))] if text.strip() else []
    borders = [0, *(end for match in _BLANK_LINES.finditer(text) for end in match.span()), len(text)]
    return [
        stripped
        for start, end in zip(borders[::2], borders[1::2], strict=True)
        if (stripped := _strip(text, start, end)) is not None
    ]


def _strip(text: str, start: int, end: int) -> Span | None:
    """Return a range without white space at its ends; None if nothing is left."""
    part = text[start:end]
    first, last = start + len(part) - len(part.lstrip()), start + len(part.rstrip())
    return Span(first, last) if first < last else None


def certainty(extraction: Extraction) -> float:
    """Return the mean score of all that was found; more than any score if nothing was found."""
    score = extraction.document.annotation.mean_score()
    return 2.0 if score is None else score


def _suggested(task: Document, extraction: Extraction, threshold: float | None) -> Document:
    """Return the task with what was found in it."""
    shown = extraction if threshold is None else extraction.above(threshold)
    return replace(task, annotation=shown.document.annotation)


def _number(tasks: list[Document]) -> list[Document]:
    """Begin the ids of tasks with numbers, for tools that order files by name; the ids are safe in URLs."""
    width = len(str(len(tasks)))
    return [
        replace(task, id=f"{number:0{width}}-{re.sub('[/#]', '-', task.id)}") for number, task in enumerate(tasks, 1)
    ]
