"""Documents as the examples that a model learns from and is scored on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from relatum.config import Config
from relatum.data.documents import iter_examples
from relatum.data.fitting import MODEL, Policy, fit_pairs, trim
from relatum.data.formats import FORMATS
from relatum.data.formats.base import Format, Holds
from relatum.data.passages import iter_passages
from relatum.data.problems import Problems
from relatum.data.splitting import make_splitter
from relatum.types import Annotation, Document, Example

# What a model can hold is said as it is for a file format: whole sentences of words with flat entities, and relations
# inside a sentence. All else that a document has does not concern it, and need not be reported as left out.
_MODEL: Format = replace(
    FORMATS["jsonl"],
    name=MODEL,
    title="a model",
    holds=Holds(
        words=True,
        text=True,
        overlaps=False,
        same_span=False,
        ids=True,
        crossing=False,
        clusters=True,
        attributes=True,
        scores=True,
        metadata=True,
    ),
    companion=None,
    check=None,
    keys=(),
)
_SPAN_MODEL = replace(_MODEL, holds=replace(_MODEL.holds, overlaps=True, same_span=True))


def make_examples(documents: Sequence[Document], config: Config, problems: Problems, where: str) -> list[Example]:
    """Return the sentences or passages of documents; leave out what a model cannot hold, as far as the policy allows.

    A passage holds relations and entities across its sentences, so `data.crossing` does not concern it.
    """
    splitter = make_splitter(config.text.words, config.text.sentences)
    crossing = "keep" if config.text.unit == "passage" else config.data.crossing
    policy = Policy(config.data.overlaps, crossing, config.data.inside_words)
    examples: list[Example] = []
    target = _SPAN_MODEL if config.tagging.kind == "spans" else _MODEL
    for document, fitted in fit_pairs(documents, target, splitter, policy, problems, where):
        if not fitted.sentences:
            problems.remark("documents without words left out", f"{where}, {fitted.id}")
        whole = trim(replace(document, words=fitted.words, sentences=fitted.sentences), _ignore)
        examples += _read_units(fitted, config, whole.annotation)
    return examples


def _read_units(document: Document, config: Config, full: Annotation) -> Iterable[Example]:
    """Yield the texts of a document that a model reads at once, before windows are made of long ones."""
    if config.text.unit == "passage":
        return iter_passages(document, full)
    return iter_examples(document, config.encoder.context, full)


def _ignore(what: str, times: int) -> None:
    """Ignore a remark that was made once already."""
