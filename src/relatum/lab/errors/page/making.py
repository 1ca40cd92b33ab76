"""The whole page."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from relatum.data.atomic import replacing_file
from relatum.errors import RelatumError
from relatum.evaluation.metrics import Scores
from relatum.lab.errors.analysis import ErrorAnalysis
from relatum.lab.errors.kinds import ENTITY_KINDS, RELATION_KINDS
from relatum.lab.errors.page.loss import BY_ERRORS, BY_MODEL, sentence_loss
from relatum.lab.errors.page.overview import confusion_matrices, kind_tables, score_tables
from relatum.lab.errors.page.sentences import list_errors, mark_entities, occurrence, words_of
from relatum.look.rendering import render

_NAMES = ("NER", "RE", "RE+")
_TASKS = (("entity", "entities", ENTITY_KINDS), ("relation", "relations", RELATION_KINDS))
MOST_SENTENCES = 1000
"""The most sentences that are shown; they are the sentences with the greatest loss."""


def write_page(
    path: Path,
    analysis: ErrorAnalysis,
    scores: Scores,
    title: str,
    losses: Sequence[float] | None = None,
    remarks: Sequence[str] = (),
) -> None:
    """Write the page of `make_page` to a file, whole or not at all."""
    with replacing_file(path) as draft:
        draft.write_text(make_page(analysis, scores, title, losses, remarks), encoding="utf-8")


def make_page(
    analysis: ErrorAnalysis,
    scores: Scores,
    title: str,
    losses: Sequence[float] | None = None,
    remarks: Sequence[str] = (),
) -> str:
    """Make the page: scores, kinds of error and confusions, then the sentences with errors, the greatest loss first.

    `losses` are the losses of a model, one for each sentence of the analysis; without them errors are weighed by the
    scores of the found items. `remarks` are further sentences for the top of the page.
    """
    if losses is not None and len(losses) != len(analysis.sentences):
        raise RelatumError(f"found {len(losses)} losses of {len(analysis.sentences)} sentences; expected one of each")
    measured = list(losses) if losses is not None else [sentence_loss(sentence) for sentence in analysis.sentences]
    wrong = [pair for pair in zip(measured, analysis.sentences, strict=True) if pair[1].n_errors]
    wrong.sort(key=lambda pair: -pair[0])
    labels = dict.fromkeys([*analysis.entities.types, *analysis.relations.types])
    script = (Path(__file__).parent / "filter.js").read_text(encoding="utf-8")
    return render(
        "lab/errors/page/errors.html",
        title=title,
        facts=[*_facts(analysis, scores, len(wrong)), *remarks],
        scores=score_tables(scores),
        kinds=kind_tables(analysis),
        confusions=confusion_matrices(analysis),
        n_wrong=len(wrong),
        sentences=wrong[:MOST_SENTENCES],
        measure=BY_ERRORS if losses is None else BY_MODEL,
        tasks=_TASKS,
        types={label: number for number, label in enumerate(labels)},
        mark_entities=mark_entities,
        list_errors=list_errors,
        words_of=words_of,
        occurrence=occurrence,
        script=script,
        script_hash=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _facts(analysis: ErrorAnalysis, scores: Scores, n_wrong: int) -> list[str]:
    n = len(analysis.sentences)
    f1 = [f"{name} {100 * task.micro.f1:.2f}" for name, (_, task) in zip(_NAMES, scores.tasks(), strict=True)]
    return [f"{n:,} {'sentence' if n == 1 else 'sentences'}, {n_wrong:,} with errors", f"Micro F1: {', '.join(f1)}"]
