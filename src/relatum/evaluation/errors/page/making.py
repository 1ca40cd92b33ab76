"""The whole page."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path

from relatum.data.atomic import replacing_file
from relatum.errors import RelatumError
from relatum.evaluation.errors.analysis import ErrorAnalysis
from relatum.evaluation.errors.kinds import ENTITY_KINDS, RELATION_KINDS
from relatum.evaluation.errors.page.look import SCRIPT, STYLE
from relatum.evaluation.errors.page.loss import BY_ERRORS, BY_MODEL, sentence_loss
from relatum.evaluation.errors.page.overview import confusion_tables, kind_tables, score_tables
from relatum.evaluation.errors.page.sentences import show_sentence
from relatum.evaluation.errors.page.text import safe, words_of
from relatum.evaluation.errors.sentences import MatchedSentence
from relatum.evaluation.metrics import Scores

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
    measured = list(losses) if losses is not None else [sentence_loss(one) for one in analysis.sentences]
    wrong = [pair for pair in zip(measured, analysis.sentences, strict=True) if pair[1].n_errors]
    wrong.sort(key=lambda pair: -pair[0])
    n = len(analysis.sentences)
    facts = [
        f"{n:,} {'sentence' if n == 1 else 'sentences'}, {len(wrong):,} with errors",
        "Micro F1: "
        + ", ".join(
            f"{name} {100 * task.micro.f1:.2f}"
            for name, (_, task) in zip(("NER", "RE", "RE+"), scores.tasks(), strict=True)
        ),
        *remarks,
    ]
    digest = b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    body = [
        f"<h1>{safe(title)}</h1>",
        *(f"<p>{safe(fact)}.</p>" for fact in facts),
        "<h2>Scores by type, %</h2>",
        score_tables(scores),
        "<h2>Kinds of error</h2>",
        kind_tables(analysis),
        '<p class="faint">F1 if mended: what micro F1 would be, in per cent, if the errors of this kind alone were '
        "gone.</p>",
        "<h2>Confusions</h2>",
        confusion_tables(analysis),
        '<p class="faint">Gold types are in rows, found types in columns: of items that were matched, whatever else is '
        "wrong with them, and of those without a partner.</p>",
        "<h2>Sentences with errors</h2>",
        *_sentences(wrong, analysis, BY_ERRORS if losses is None else BY_MODEL),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{safe(title)}</title><style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + f"\n</main><script>{SCRIPT}</script></body></html>\n"
    )


def _sentences(wrong: Sequence[tuple[float, MatchedSentence]], analysis: ErrorAnalysis, measure: str) -> Iterator[str]:
    shown = wrong[:MOST_SENTENCES]
    if len(shown) < len(wrong):
        yield f"<p>The {len(shown):,} of the greatest loss, of {len(wrong):,}.</p>"
    yield f'<p class="faint">Sorted by {measure}. Marks with a border are wrong.</p>'
    labels = dict.fromkeys([*analysis.entities.types, *analysis.relations.types])
    types = {label: number for number, label in enumerate(labels)}
    yield _filter(types)
    if not shown:
        yield "<p>There are none.</p>"
    for place, (loss, sentence) in enumerate(shown, 1):
        yield show_sentence(sentence, loss, place, types)


def _filter(types: dict[str, int]) -> str:
    """Return the form that filters errors; it is hidden unless scripts run."""
    kinds = "".join(
        f'<optgroup label="{title}"><option value="{task}">any</option>'
        + "".join(f'<option value="{task}:{kind}">{safe(words_of(kind))}</option>' for kind in names)
        + "</optgroup>"
        for task, title, names in (("entity", "entities", ENTITY_KINDS), ("relation", "relations", RELATION_KINDS))
    )
    labels = "".join(f'<option value="{number}">{safe(label)}</option>' for label, number in types.items())
    return (
        '<form hidden aria-label="Filter errors"><label>kind of error<select name="kind"><option value="">any</option>'
        f'{kinds}</select></label><label>type<select name="type"><option value="">any</option>{labels}</select></label>'
        '<button type="reset">show all</button><output aria-live="polite"></output></form>'
    )
