"""Prodigy's JSONL, as `db-out` writes it: a task a line, with its text, tokens, spans and the relations between them.

Offsets count characters; the tokens of a span are named with an inclusive end. Tasks that were rejected or ignored are
left out and counted. A relation names its ends by `head_span` and `child_span`, or else by a token inside a span.
Tokens become words if the task has the key `sentences`, ranges of tokens, which is ours; without it a text is split
when words are needed. Other keys of a task, such as `_input_hash` and `meta`, are metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from relatum.data.documents import WordIndex
from relatum.data.formats.base import Format, Holds, with_metadata
from relatum.data.json_files import first_records, json_lines
from relatum.data.problems import Problems
from relatum.data.records import Field, Record, read_records, show
from relatum.types import Annotation, Document, Entity, Relation, Span

_OWN = ("id", "text", "tokens", "spans", "relations", "sentences", "answer")
_MARKS = {"_input_hash", "_task_hash", "_view_id", "_annotator_id", "_session_id"}
_SPAN = {"start", "end", "token_start", "token_end", "label", "text"}
_RELATION = {"head", "child", "head_span", "child_span", "label", "color"}
_ANSWERS = ("accept", "reject", "ignore")


def recognise(path: Path) -> bool:
    """True if the first record has Prodigy's hashes or answers, or spans with offsets."""
    for record in first_records(path) if path.is_file() else ():
        if not isinstance(record, dict) or not isinstance(record.get("text"), str):
            return False
        spans = record.get("spans")
        if isinstance(spans, list) and spans:
            return all(isinstance(span, dict) and "start" in span for span in spans)
        return not _MARKS.isdisjoint(record) or record.get("answer") in _ANSWERS
    return False


def read(path: Path, problems: Problems) -> Iterator[Document]:
    return read_records(path, _accepted(path, problems), _parse, problems)


def _accepted(path: Path, problems: Problems) -> Iterator[Record]:
    """Yield the tasks that were accepted or have no answer; count the others."""
    for record in json_lines(path, problems):
        answer = record.value.get("answer") if isinstance(record.value, dict) else None
        if answer in _ANSWERS[1:]:
            problems.remark(f"task left out, as its answer is {answer}", f"{path}:{record.line}")
        else:
            yield record


def _parse(record: Field, default_id: str) -> Document:
    answer = record.get("answer")
    if answer and answer.value != "accept":
        raise answer.bad(", ".join(_ANSWERS))
    text = record.need("text").text(empty=True)
    tokens = [_span(item, len(text)) for item in record.lists("tokens")]
    entities = []
    for item in record.lists("spans"):
        entities.append(Entity(_span(item, len(text)), item.label("label")))
        if item.mapping().keys() - _SPAN:
            item.remark(f"span with keys that are not read, beyond {', '.join(sorted(_SPAN))}")
    relations = []
    for item in record.lists("relations"):
        ends = [_end(item, role, entities, tokens, len(text)) for role in ("head", "child")]
        if item.mapping().keys() - _RELATION:
            item.remark(f"relation with keys that are not read, beyond {', '.join(sorted(_RELATION))}")
        if ends[0] and ends[1]:
            relations.append(Relation(ends[0], ends[1], item.label("label")))
        else:
            item.remark("relation left out, as it begins or ends at a token without a labelled span")
    words, sentences = _words(record, tokens)
    annotation = Annotation(tuple(entities), tuple(relations))
    rest = {key: value for key, value in record.mapping().items() if key not in _OWN}
    name = record.optional_name("id") or default_id
    return Document(name, text, annotation, words, sentences, metadata=rest)


def _span(item: Field, size: int) -> Span:
    return item.span(item.need("start").value, item.need("end").value, size, "characters")


def _end(item: Field, role: str, entities: Sequence[Entity], tokens: Sequence[Span], size: int) -> Entity | None:
    """Return the entity at an end of a relation; None if there is no labelled span."""
    given = item.get(f"{role}_span")
    if given:
        span, label = _span(given, size), given.mapping().get("label")
        return next((e for e in entities if e.span == span and label in (None, e.label)), None)
    number = item.need(role).integer(0, len(tokens) - 1)
    around = [entity for entity in entities if entity.span.contains(tokens[number])]
    return min(around, key=lambda entity: entity.span.width, default=None)


def _words(record: Field, words: Sequence[Span]) -> tuple[tuple[Span, ...] | None, tuple[Span, ...] | None]:
    """Return the words and sentences of a task that has sentences, else nothing."""
    if record.get("sentences") is None:
        if words:
            record.remark("tokens that are not read as words, as the task does not say what its sentences are")
        return None, None
    for one, other in pairwise(words):
        if one.end > other.start:
            raise record.need("tokens").bad("tokens in the order of the text", f"a token at {show(list(other))}")
    sentences = []
    at = 0
    for item in record.lists("sentences"):
        start, end = item.items(2)
        sentence = item.span(start.value, end.value, len(words), "tokens")
        if sentence.start != at:
            raise item.bad(f"a sentence that begins with token {at}")
        at = sentence.end
        sentences.append(sentence)
    if at != len(words):
        raise record.need("sentences").bad(f"sentences of all {len(words)} tokens", f"sentences of {at}")
    return tuple(words), tuple(sentences)


def write(path: Path, documents: Iterable[Document]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for document in documents:
            out.write(json.dumps(_record(document), ensure_ascii=False) + "\n")


def _record(document: Document) -> dict[str, Any]:
    text = document.text
    words = document.words
    if words is None:
        from relatum.data.splitting import make_splitter

        words, _ = make_splitter().split(text)
    index = WordIndex(words)

    def span(entity: Entity) -> dict[str, Any]:
        under = index.touching(entity.span)
        tokens = {} if under is None else {"token_start": under.start, "token_end": under.end - 1}
        return {"start": entity.span.start, "end": entity.span.end, **tokens, "label": entity.label}

    def relation(one: Relation) -> dict[str, Any]:
        head, child = span(one.head), span(one.tail)
        return {
            "head": head.get("token_end"),
            "child": child.get("token_end"),
            "head_span": head,
            "child_span": child,
            "label": one.label,
        }

    record: dict[str, Any] = {
        "id": document.id,
        "text": text,
        "tokens": [
            {"text": word.of(text), "start": word.start, "end": word.end, "id": number, "ws": _has_space(text, word)}
            for number, word in enumerate(words)
        ],
        "spans": list(map(span, document.annotation.entities)),
        "relations": list(map(relation, document.annotation.relations)),
        "answer": "accept",
    }
    if document.words is not None and document.sentences is not None:
        record["sentences"] = document.sentences
    return with_metadata(record, document.metadata)


def _has_space(text: str, word: Span) -> bool:
    return text[word.end : word.end + 1] == " "


FORMAT = Format(
    name="prodigy",
    title="Prodigy JSONL",
    suffix=".jsonl",
    holds=Holds(words=False, text=True, word_offsets=True, metadata=True),
    recognise=recognise,
    read=read,
    write=write,
    keys=_OWN,
    record_keys=_OWN,
)
