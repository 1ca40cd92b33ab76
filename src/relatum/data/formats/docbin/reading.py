"""Making documents from the contents of a DocBin file."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from relatum.data.duplicates import SeenIds
from relatum.data.formats.docbin.unpacking import PackedDocs, Parts
from relatum.data.json_files import parse_json
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, Field, check_plain, show
from relatum.errors import Problem
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

THRESHOLD = 0.5
"""The score from which a label in the tutorial's `doc._.rel` counts as a relation."""

Remark = Callable[[str, int], None]


def read_file(path: Path, problems: Problems) -> Iterator[Document]:
    try:
        packed = PackedDocs(path.read_bytes())
    except BadRecord as bad:
        problems.add(Problem(str(path), bad.found, bad.expected))
        return
    stem = os.fsencode(path.stem).decode(errors="replace")
    seen = SeenIds()
    try:
        for number in range(1, len(packed) + 1):

            def remark(what: str, times: int, number: int = number) -> None:
                problems.remark(what, f"{path} (record {number})", times)

            try:
                document = _parse(packed.parts(number - 1), f"{stem}-{number}", remark)
                first = seen.add(document.id, number)
                if first is not None:
                    raise BadRecord(f"the id {show(document.id)} again (first in record {first})", "ids that differ")
                yield document
            except BadRecord as bad:
                problems.add(Problem(str(path), bad.found, bad.expected, record=number, field=bad.field))
    finally:
        seen.close()


@dataclass(frozen=True, slots=True)
class _Tokens:
    """The places of a Doc's tokens in the text, and the indices of the tokens that are words."""

    offsets: list[tuple[int, int]]
    words: list[int]

    def under(self, start: int, end: int) -> Span | None:
        """Return the words among the tokens from `start` to `end`, as a range of words; None if there are none."""
        first, last = bisect_left(self.words, start), bisect_left(self.words, end)
        return Span(first, last) if first < last else None

    def characters(self, field: Field, start: object, end: object) -> Span:
        """Return the characters from the first to the last word among the tokens, without white space around them."""
        span = field.span(start, end, len(self.offsets), "tokens")
        words = self.under(span.start, span.end)
        if words is None:
            raise field.bad("a span that holds a word", f"no word in the tokens [{span.start}, {span.end})")
        start, _ = self.offsets[self.words[words.start]]
        _, end = self.offsets[self.words[words.end - 1]]
        return Span(start, end)

    def pair(self, field: Field) -> Span:
        start, end = field.items(2)
        return self.characters(field, start.value, end.value)


def _parse(parts: Parts, default_id: str, remark: Remark) -> Document:
    extras = Field(parts.extras, None, "doc._")
    tokens = _tokens(parts, extras.get("word_tokens"))
    details = _details(parts, extras.lists("entity_details"), remark)
    entities = [_entity(item, tokens, remark) for item in details]
    stated = extras.lists("relations")
    known: dict[Entity, list[Entity]] = {}
    for entity in entities:
        known.setdefault(entity, []).append(entity)
    relations = [_relation(item, tokens, known) for item in stated]
    targets: list[Entity | Relation] = [*entities, *relations]
    attributes = [
        Attribute(target, name, value)
        for target, item in zip(targets, (*details, *stated), strict=True)
        for name, value in _attributes(item)
    ]
    relations += _tutorial_relations(extras.lists("rel"), details, entities, remark)
    for what in parts.rest:
        remark(f"documents whose {what} was passed over, as it has no place here", 1)
    return Document(
        extras.optional_name("id") or default_id,
        "".join(token + space for token, space in zip(parts.tokens, parts.after, strict=True)),
        Annotation(tuple(entities), tuple(relations)),
        tuple(Span(*tokens.offsets[number]) for number in tokens.words),
        _sentences(parts, tokens, remark),
        tuple(tuple(map(tokens.pair, cluster.items())) for cluster in extras.lists("clusters")),
        tuple(attributes),
        _metadata(extras.get("metadata_json")),
    )


def _tokens(parts: Parts, given: Field | None) -> _Tokens:
    offsets = []
    at = 0
    for token, space in zip(parts.tokens, parts.after, strict=True):
        offsets.append((at, at + len(token)))
        at += len(token) + len(space)
    if given is None:
        return _Tokens(offsets, [number for number, token in enumerate(parts.tokens) if not token.isspace()])
    words = [item.integer(0, len(offsets) - 1) for item in given.items()]
    if any(a >= b for a, b in pairwise(words)):
        raise given.bad("the numbers of tokens, in order")
    return _Tokens(offsets, words)


def _metadata(given: Field | None) -> dict[str, Any]:
    if given is None:
        return {}
    stored = Field(parse_json(given.text()), None, given.path)
    check_plain(stored)
    return stored.mapping()


def _sentences(parts: Parts, tokens: _Tokens, remark: Remark) -> tuple[Span, ...]:
    if parts.starts is None:
        remark("documents without sentence starts, read as one sentence", 1)
    borders = [*(parts.starts or [0]), len(parts.tokens)]
    spans = (tokens.under(start, end) for start, end in pairwise(borders))
    return tuple(sentence for sentence in spans if sentence)


def _details(parts: Parts, given: list[Field], remark: Remark) -> list[Field]:
    """Return the entities as spaCy has them, or with our details if these still describe the same entities."""

    def essentials(item: Field) -> str:
        return repr([item.need(key).value for key in ("start", "end", "label")])

    native = Field(parts.entities, None, "entities").items()
    if given and Counter(map(essentials, given)) == Counter(map(essentials, native)):
        return given
    remark("documents whose doc._.entity_details was passed over, as the entities have changed since", bool(given))
    return native


def _entity(item: Field, tokens: _Tokens, remark: Remark | None = None) -> Entity:
    item.only("start", "end", "label", "characters", "fragments", "id", "score", "attributes")
    start, end = item.need("start").integer(0), item.need("end").integer(1)
    span = tokens.characters(item, start, end)
    characters = [tokens.offsets[start][0], tokens.offsets[end - 1][1]]
    stated = item.get("characters")
    if stated is not None and stated.value != characters:
        raise item.bad(f"the characters {characters} of its tokens, which have been merged or cut since")
    pieces = tuple(map(tokens.pair, item.lists("fragments")))
    if pieces and (
        len(pieces) < 2
        or (pieces[0].start, pieces[-1].end) != span
        or any(a.end >= b.start for a, b in pairwise(pieces))
    ):
        raise item.bad("two or more fragments in order, from 'start' to 'end', with a gap between each two")
    if remark and tuple(characters) != span:
        remark("entities with white space at their ends, which was left out", 1)
    return Entity(span, item.label("label"), pieces, item.optional_number("score"), item.optional_name("id"))


def _attributes(item: Field) -> Iterator[tuple[str, str | None]]:
    for pair in item.lists("attributes"):
        name, value = pair.items(2)
        yield name.text(empty=True), None if value.value is None else value.text(empty=True)


def _relation(item: Field, tokens: _Tokens, known: dict[Entity, list[Entity]]) -> Relation:
    item.only("label", "head", "tail", "score", "id", "attributes")
    ends = []
    for key in ("head", "tail"):
        end = _entity(item.need(key), tokens)
        if end not in known:
            raise item.need(key).bad("the span and label of an entity of this document")
        equal = known[end]
        ends.append(next((entity for entity in equal if entity.id == end.id), equal[0]))
    return Relation(ends[0], ends[1], item.label("label"), item.optional_number("score"), item.optional_name("id"))


def _tutorial_relations(
    rows: list[Field], details: list[Field], entities: Sequence[Entity], remark: Remark
) -> Iterator[Relation]:
    """Yield relations as spaCy's tutorial has them: {(first token of head, first token of tail): {label: score}}."""
    at: dict[object, list[Entity]] = {}
    for item, entity in zip(details, entities, strict=True):
        at.setdefault(item.need("start").value, []).append(entity)
    for row in rows:
        pair, labels = row.items(2)
        for label, value in labels.mapping().items():
            score = Field(value, labels, label).number()
            if score < THRESHOLD:
                # The tutorial fills in 0 for every label that does not hold: nothing is lost with those.
                remark(f"labels in doc._.rel scored above 0 but below {THRESHOLD}, passed over", score > 0)
                continue
            for end in pair.items(2):
                if end.integer() not in at:
                    raise end.bad("the first token of an entity")
            heads, tails = (at[end.value] for end in pair.items(2))
            remark(
                "relations in doc._.rel given to the first of several entities at one token",
                len(heads) > 1 or len(tails) > 1,
            )
            yield Relation(heads[0], tails[0], Field(label, labels, label).text(), score)
