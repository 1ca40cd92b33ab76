"""Gold and predicted documents brought together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from relatum.data.records import show
from relatum.errors import DataError, Problem, RelatumError
from relatum.types import Document

_CURE = (
    "Score what was predicted for these very documents. Where the same documents are in another format, "
    "which may join words to another text, bring both files into one format with: relatum convert"
)
_SHOWN_IDS = 5
_SHOWN_TEXT = 30


@dataclass(frozen=True, slots=True)
class Pairs:
    """Gold and predicted documents in the order of gold, and the way they were matched: by id or by position."""

    documents: tuple[tuple[Document, Document], ...]
    by: Literal["id", "position"]


def pair_documents(
    gold: Sequence[Document], predicted: Sequence[Document], gold_name: str = "gold", name: str = "predictions"
) -> Pairs:
    """Match documents by id where both sides have the same ids, else by position; texts must agree either way.

    The names stand for the two sides in errors.
    """
    by_id = {document.id: document for document in predicted}
    gold_ids = {document.id for document in gold}
    if gold_ids == by_id.keys() and len(gold_ids) == len(gold) == len(predicted):
        pairs = tuple((document, by_id[document.id]) for document in gold)
        problems = [
            Problem(name, _difference(a, b), f"the text it has in {gold_name}", field=f"document {show(a.id)}")
            for a, b in pairs
            if a.text != b.text
        ]
        if problems:
            raise DataError(problems, _CURE)
        return Pairs(pairs, "id")
    pairs = tuple(zip(gold, predicted, strict=False))
    differing = [number for number, (a, b) in enumerate(pairs) if a.text != b.text]
    if len(gold) == len(predicted) and not differing:
        return Pairs(pairs, "position")
    lines = [
        f"the documents of {gold_name} and {name} do not match, neither by id nor by position",
        *_ids(f"missing in {name}", (document.id for document in gold if document.id not in by_id)),
        *_ids(f"missing in {gold_name}", (document.id for document in predicted if document.id not in gold_ids)),
        *_ids(f"more than once in {gold_name}", _repeated(gold)),
        *_ids(f"more than once in {name}", _repeated(predicted)),
    ]
    if len(gold) != len(predicted):
        lines.append(f"number of documents: {len(gold)} in {gold_name}, {len(predicted)} in {name}")
    if differing:
        first = differing[0]
        what = f"{len(differing)} texts differ, first that of document {first + 1}"
        lines.append(f"by position: {what}: {_difference(*pairs[first])}")
    raise RelatumError("\n".join([*lines, _CURE]))


def _difference(gold: Document, predicted: Document) -> str:
    shorter = min(len(gold.text), len(predicted.text))
    pairs = enumerate(zip(gold.text, predicted.text, strict=False))
    at = next((number for number, (a, b) in pairs if a != b), shorter)
    here = show(predicted.text[at : at + _SHOWN_TEXT])
    there = show(gold.text[at : at + _SHOWN_TEXT])
    return f"{here} where gold has {there}, from character {at}"


def _ids(what: str, ids: Iterable[str]) -> list[str]:
    """Return a line that names the first ids and counts the rest; nothing if there are no ids."""
    listed = list(ids)
    if not listed:
        return []
    more = f" and {len(listed) - _SHOWN_IDS} more" if len(listed) > _SHOWN_IDS else ""
    return [f"{what}: {', '.join(map(show, listed[:_SHOWN_IDS]))}{more}"]


def _repeated(documents: Iterable[Document]) -> list[str]:
    times = Counter(document.id for document in documents)
    return [id for id, n in times.items() if n > 1]
