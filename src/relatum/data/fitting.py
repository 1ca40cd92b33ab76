"""Making a document fit what a format can hold, and saying what that cost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from relatum.data.documents import WordIndex, is_joined
from relatum.data.formats.base import Format
from relatum.data.problems import Problems
from relatum.data.records import BadRecord
from relatum.data.splitting import Splitter
from relatum.errors import Problem
from relatum.types import Annotation, Document, Entity, Relation, Span


@dataclass(frozen=True, slots=True)
class Policy:
    """What to do with annotations that cannot be kept as they are.

    `overlaps`: None keeps nested, overlapping and discontinuous entities where the format can hold them and refuses
    the document otherwise; "fail" always refuses it; "drop" leaves out every entity involved; "keep-longest" keeps the
    longest of those that overlap and leaves out discontinuous ones. `crossing` is for relations between sentences, in
    formats that hold single sentences: "fail" or "drop".
    """

    overlaps: str | None = None
    crossing: str = "fail"


def fit_documents(
    documents: Iterable[Document], format: Format, splitter: Splitter, policy: Policy, problems: Problems, where: str
) -> Iterator[Document]:
    """Documents as `format` can hold them; one that cannot be made to fit becomes a problem at `where`."""
    for document in documents:

        def remark(what: str, times: int, document: Document = document) -> None:
            problems.remark(what, f"{where}, {document.id}", times)

        try:
            yield fit(document, format, splitter, policy, remark)
        except BadRecord as bad:
            field = f"document {document.id!r}" + (f", {bad.field}" if bad.field else "")
            problems.add(Problem(where, bad.found, bad.expected, field=field))


def fit(
    document: Document, format: Format, splitter: Splitter, policy: Policy, remark: Callable[[str, int], None]
) -> Document:
    """One document made to fit; `remark` hears of everything that changed, `BadRecord` says why it cannot be done."""
    holds = format.holds
    document = flatten(document, format, policy, remark)
    if holds.words:
        document = align(split(document, splitter), remark)
        if not holds.text and not is_joined(document):
            remark(f"texts of which {format.title} keeps only the words", 1)
        if not holds.crossing:
            document = _cut_crossing(document, format, policy, remark)
        if not holds.documents and len(document.sentences or ()) > 1:
            remark(f"documents written sentence by sentence, as {format.title} holds no documents", 1)
            if holds.metadata and document.metadata:
                remark("documents whose metadata is left out, as it belongs to no single sentence", 1)
    _report_losses(document, format, remark)
    return document


def split(document: Document, splitter: Splitter) -> Document:
    """The document with words and sentences, made by the splitter where it has none."""
    if document.words is not None and document.sentences is not None:
        return document
    words, sentences = splitter.split(document.text)
    return replace(document, words=words, sentences=sentences)


def align(document: Document, remark: Callable[[str, int], None]) -> Document:
    """The document with words cut where annotations begin or end, and sentences merged where an entity spans two."""
    words, sentences = document.words or (), document.sentences or ()
    text = document.text
    spans = {piece for entity in document.annotation.entities for piece in entity.pieces()}
    spans.update(span for cluster in document.clusters for span in cluster)
    index = WordIndex(words)
    cuts: dict[int, set[int]] = {}
    for span in spans:
        under = index.touching(span)
        if under is None:
            raise BadRecord(
                f"{span.of(text)!r} at characters [{span.start}, {span.end})", "an annotation that holds a word"
            )
        if words[under.start].start < span.start:
            cuts.setdefault(under.start, set()).add(span.start)
        if words[under.end - 1].end > span.end:
            cuts.setdefault(under.end - 1, set()).add(span.end)
    if cuts:
        remark("words cut in two where an annotation begins or ends inside them", sum(map(len, cuts.values())))
        words, sentences = _cut(words, sentences, cuts)
        index = WordIndex(words)
    remark(
        "annotations with white space at their ends, which words do not have",
        sum(text[span.start].isspace() or text[span.end - 1].isspace() for span in spans),
    )
    covering = [index.exact(entity.span) for entity in document.annotation.entities]
    joined = _merge(sentences, covering)
    remark("sentences joined because an entity spans both", len(sentences) - len(joined))
    return replace(document, words=words, sentences=joined)


def _cut(
    words: tuple[Span, ...], sentences: tuple[Span, ...], cuts: dict[int, set[int]]
) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    pieces: list[Span] = []
    place: list[int] = []
    for number, word in enumerate(words):
        place.append(len(pieces))
        borders = [word.start, *sorted(cuts.get(number, ())), word.end]
        pieces.extend(Span(a, b) for a, b in pairwise(borders))
    place.append(len(pieces))
    return tuple(pieces), tuple(Span(place[s.start], place[s.end]) for s in sentences)


def _merge(sentences: tuple[Span, ...], spans: list[Span]) -> tuple[Span, ...]:
    starts = [sentence.start for sentence in sentences]
    inner: set[int] = set()
    for span in spans:
        inner.update(range(bisect_right(starts, span.start), bisect_right(starts, span.end - 1)))
    merged: list[Span] = []
    for number, sentence in enumerate(sentences):
        if number in inner:
            merged[-1] = Span(merged[-1].start, sentence.end)
        else:
            merged.append(sentence)
    return tuple(merged)


def flatten(document: Document, format: Format, policy: Policy, remark: Callable[[str, int], None]) -> Document:
    """The document without the overlapping and discontinuous entities that the format or the policy refuses."""
    entities = document.annotation.entities
    holds, choice = format.holds, policy.overlaps
    broken = [e for e in entities if e.fragments] if choice or not holds.discontinuous else []
    whole = [entity for entity in entities if not (broken and entity.fragments)]
    clashing = overlapping(whole) if choice or not (holds.overlaps and holds.same_span) else set()
    if not choice and holds.overlaps:  # only several types on one span are too much for the format
        clashing = {entity for entity in clashing if sum(e.span == entity.span for e in set(whole)) > 1}
    if not broken and not clashing:
        return document
    if choice not in ("drop", "keep-longest"):
        one = broken[0] if broken else next(entity for entity in whole if entity in clashing)
        kind = "the discontinuous entity" if broken else "an overlapping entity,"
        raise BadRecord(
            f"{kind} {one.label} {one.span.of(document.text)!r} at characters [{one.span.start}, {one.span.end})",
            f"entities that {format.title if not choice else 'the chosen policy'} can hold; "
            "--overlaps drop or keep-longest leaves some out",
        )
    kept = _longest(whole) if choice == "keep-longest" else {entity for entity in whole if entity not in clashing}
    remark("discontinuous entities left out", len(broken))
    remark("overlapping entities left out", sum(entity not in kept for entity in whole))
    return keep_entities(document, kept, remark)


def overlapping(entities: Iterable[Entity]) -> set[Entity]:
    """Entities that share a character with another one; equal entities count as one."""
    found: set[Entity] = set()
    active: list[Entity] = []
    for entity in sorted(set(entities), key=lambda e: (e.span.start, -e.span.end, e.label)):
        active = [other for other in active if other.span.end > entity.span.start]
        if active:
            found.add(entity)
            found.update(active)
        active.append(entity)
    return found


def _longest(entities: Iterable[Entity]) -> set[Entity]:
    kept: list[Entity] = []
    for entity in sorted(dict.fromkeys(entities), key=lambda e: (-len(e.span), e.span.start)):
        if not any(entity.span.overlaps(other.span) for other in kept):
            kept.append(entity)
    return set(kept)


def keep_entities(document: Document, kept: set[Entity], remark: Callable[[str, int], None]) -> Document:
    """The document with these entities only, and with the relations and attributes that still have their ends."""
    old = document.annotation
    relations = tuple(r for r in old.relations if r.head in kept and r.tail in kept)
    remark("relations left out with an entity of theirs", len(old.relations) - len(relations))
    return _with(document, Annotation(tuple(e for e in old.entities if e in kept), relations), remark)


def _with(document: Document, annotation: Annotation, remark: Callable[[str, int], None]) -> Document:
    targets: set[Entity | Relation] = {*annotation.entities, *annotation.relations}
    attributes = tuple(attribute for attribute in document.attributes if attribute.target in targets)
    remark("attributes left out with what they belong to", len(document.attributes) - len(attributes))
    return replace(document, annotation=annotation, attributes=attributes)


def crossing_relations(document: Document) -> list[Relation]:
    """Relations whose two entities stand in different sentences; the document must be split."""
    index = WordIndex(document.words or ())
    starts = [sentence.start for sentence in document.sentences or ()]

    def sentence_of(entity: Entity) -> int:
        under = index.touching(entity.span)
        return -1 if under is None else bisect_right(starts, under.start)

    return [r for r in document.annotation.relations if sentence_of(r.head) != sentence_of(r.tail)]


def _cut_crossing(document: Document, format: Format, policy: Policy, remark: Callable[[str, int], None]) -> Document:
    crossing = crossing_relations(document)
    if not crossing:
        return document
    if policy.crossing == "fail":
        one = crossing[0]
        raise BadRecord(
            f"the relation {one.label} between sentences, from {one.head.span.of(document.text)!r} "
            f"to {one.tail.span.of(document.text)!r}",
            f"relations inside one sentence, as {format.title} holds single sentences; --crossing drop leaves them out",
        )
    remark("relations between sentences left out", len(crossing))
    gone = set(crossing)
    kept = tuple(relation for relation in document.annotation.relations if relation not in gone)
    return _with(document, replace(document.annotation, relations=kept), remark)


def _report_losses(document: Document, format: Format, remark: Callable[[str, int], None]) -> None:
    holds, annotation = format.holds, document.annotation
    if not holds.clusters:
        remark(f"clusters left out, which {format.title} cannot hold", len(document.clusters))
    if not holds.attributes:
        remark(f"attributes left out, which {format.title} cannot hold", len(document.attributes))
    if not holds.metadata and document.metadata:
        remark(f"documents whose metadata is left out, which {format.title} cannot hold", 1)
    if not holds.scores:
        scored = sum(item.score is not None for item in (*annotation.entities, *annotation.relations))
        remark(f"scores left out, which {format.title} cannot hold", scored)
