"""Making a document fit what a format can hold, and saying what that cost."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from relatum.data.documents import WordIndex, is_joined, map_spans, sentence_ids_of
from relatum.data.duplicates import SeenIds
from relatum.data.formats.base import Format
from relatum.data.problems import Problems, Remedy
from relatum.data.records import BadRecord, shorten
from relatum.data.splitting import Splitter
from relatum.errors import Problem
from relatum.types import Annotation, Document, Entity, Relation, Span

MODEL = "model"
"""The name of the format that stands for a model, which holds annotations as a file does."""

Overlaps = Literal["fail", "drop", "keep-longest", "keep"]
Crossing = Literal["fail", "drop", "join"]
InsideWords = Literal["cut", "fail"]

_KEEP_LONGEST = Remedy("overlaps", "keep-longest", "discontinuous entities and the shorter of those that overlap")
_KEEP = Remedy("overlaps", "keep", "discontinuous entities")
_DROP_CROSSING = Remedy("crossing", "drop", "the relations between sentences")
_LEARN_SPANS = replace(_KEEP_LONGEST, instead="--set tagging.kind=spans to learn all but discontinuous ones")
_READ_PASSAGES = replace(_DROP_CROSSING, instead="--set text.unit=passage to read their sentences together")


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy for annotations that cannot be kept as they are.

    `overlaps`: None keeps nested, overlapping and discontinuous entities where the format can hold them and refuses
    the document otherwise; "fail" always refuses it; "drop" leaves out every entity involved; "keep-longest" keeps the
    longest of overlapping entities and leaves out discontinuous ones; "keep" leaves out discontinuous ones only, and
    refuses the document if the format cannot hold the others. `crossing` is for relations between sentences, in
    formats that hold single sentences: "fail" or "drop"; "join" joins the sentences instead, in any format that needs
    sentences, as the published preparation of ACE does; "keep" keeps relations and entities across sentences, and the
    sentences as they are, for a model that reads passages. `inside_words` is for annotations that begin or end inside
    a word: "cut" cuts the word there, "fail" refuses the document.
    """

    overlaps: Overlaps | None = None
    crossing: Crossing | Literal["keep"] = "fail"
    inside_words: InsideWords = "cut"


def fit_documents(
    documents: Iterable[Document], format: Format, splitter: Splitter, policy: Policy, problems: Problems, where: str
) -> Iterator[Document]:
    """Yield documents as `format` can hold them; a document that cannot be made to fit becomes a problem at `where`."""
    return (fitted for _, fitted in fit_pairs(documents, format, splitter, policy, problems, where))


def fit_pairs(
    documents: Iterable[Document], format: Format, splitter: Splitter, policy: Policy, problems: Problems, where: str
) -> Iterator[tuple[Document, Document]]:
    """Pair each document with the document that `fit_documents` makes of it."""
    sentence_ids = SeenIds()
    try:
        for number, document in enumerate(documents, 1):

            def remark(what: str, times: int, document: Document = document) -> None:
                problems.remark(what, f"{where}, {document.id}", times)

            try:
                fitted = fit(document, format, splitter, policy, remark)
                if not format.holds.documents:
                    _check_ids(fitted, sentence_ids, number)
            except BadRecord as bad:
                field = f"document {shorten(document.id)}" + (f", {bad.field}" if bad.field else "")
                problems.add(Problem(where, bad.found, bad.expected, field=field), remedy=bad.remedy)
                continue
            if not format.holds.documents and not fitted.sentences:
                remark(f"documents without words left out, which {format.title} cannot hold", 1)
                continue
            yield document, fitted
    finally:
        sentence_ids.close()


def _check_ids(document: Document, seen: SeenIds, number: int) -> None:
    """Refuse a document whose sentences would get ids that other sentences have."""
    for name in sentence_ids_of(document):
        if seen.add(name, number) is not None:
            raise BadRecord(f"the sentence id {shorten(name)} again", "document ids that give every sentence its own")


def fit(
    document: Document, format: Format, splitter: Splitter, policy: Policy, remark: Callable[[str, int], None]
) -> Document:
    """Make one document fit; call `remark` for every change, and raise `BadRecord` if it cannot be done."""
    holds = format.holds
    if not holds.clusters and document.clusters:
        remark(f"clusters left out, which {format.title} cannot hold", len(document.clusters))
        document = replace(document, clusters=())
    if holds.line_breaks is not None:
        document = _limit_breaks(document, holds.line_breaks, format, remark)
    if holds.words:
        document = trim(split(document, splitter), remark)
        if policy.inside_words == "fail":
            _check_borders(document)
        # Words are cut for all annotations, so that those left out below can still be counted in words.
        document = cut_words(document, remark)
        if policy.crossing == "join":  # before any entity is left out, so that every gold relation counts
            document = join_related(join_sentences(document, remark), remark)
    document = flatten(document, format, policy, remark)
    if holds.words:
        document = _fit_sentences(document, format, policy, remark)
    _report_losses(document, format, remark)
    if format.check:
        format.check(document)
    return document


def _limit_breaks(document: Document, most: int, format: Format, remark: Callable[[str, int], None]) -> Document:
    """Return the document with spaces for line breaks that the format cannot hold."""
    *kept, rest = document.text.replace("\r", " ").split("\n", most)
    text = "\n".join([*kept, rest.replace("\n", " ")])
    if text.endswith("\n"):
        text = text[:-1] + " "
    if text == document.text:
        return document
    remark(f"texts with line breaks written as spaces, which {format.title} cannot hold", 1)
    return replace(document, text=text)


def _fit_sentences(document: Document, format: Format, policy: Policy, remark: Callable[[str, int], None]) -> Document:
    """Make a document of words fit a format that holds sentences."""
    holds = format.holds
    keeps = policy.crossing == "keep"
    if not keeps:
        document = join_sentences(document, remark)
    if not holds.text and not is_joined(document):
        remark(f"texts of which {format.title} keeps only the words", 1)
    if not holds.crossing and not keeps:
        document = _cut_crossing(document, format, policy, remark)
    if not holds.documents and len(document.sentences or ()) > 1:
        remark(f"documents written sentence by sentence, as {format.title} holds no documents", 1)
        if holds.metadata and document.metadata:
            remark("documents whose metadata is left out, as it belongs to no single sentence", 1)
    return document


def split(document: Document, splitter: Splitter) -> Document:
    """Return the document with words and sentences, made by the splitter if it has none."""
    if document.words is not None and document.sentences is not None:
        return document
    words, sentences = splitter.split(document.text)
    return replace(document, words=words, sentences=sentences)


def trim(document: Document, remark: Callable[[str, int], None]) -> Document:
    """Return the document, which must have words, with annotations that no longer begin or end with white space."""
    text = document.text
    index = WordIndex(document.words or ())
    if all(map(index.is_exact, _spans(document))):
        return document
    trimmed = 0

    def move(span: Span) -> Span:
        nonlocal trimmed
        if index.is_exact(span):
            return span
        inner = span.of(text)
        start = span.start + len(inner) - len(inner.lstrip())
        end = span.end - len(inner) + len(inner.rstrip())
        if start >= end:
            raise BadRecord(
                f"{shorten(inner)} at characters [{span.start}, {span.end})", "an annotation that holds a word"
            )
        trimmed += (start, end) != span
        return Span(start, end)

    annotation = map_spans(document.annotation, move)
    clusters = tuple(tuple(map(move, cluster)) for cluster in document.clusters)
    if not trimmed:
        return document
    remark("annotations with white space at their ends, which words do not have", trimmed)
    moved: dict[Entity | Relation, Entity | Relation] = {
        **dict(zip(document.annotation.entities, annotation.entities, strict=True)),
        **dict(zip(document.annotation.relations, annotation.relations, strict=True)),
    }
    attributes = tuple(replace(a, target=moved[a.target]) for a in document.attributes)
    return replace(document, annotation=annotation, clusters=clusters, attributes=attributes)


def _spans(document: Document) -> set[Span]:
    """Return all spans that are annotated, each once."""
    spans = {piece for entity in document.annotation.entities for piece in entity.pieces()}
    spans.update(span for cluster in document.clusters for span in cluster)
    return spans


def align(document: Document, remark: Callable[[str, int], None]) -> Document:
    """Cut words where annotations begin or end inside them, and join sentences where an entity spans two."""
    return join_sentences(cut_words(document, remark), remark)


def cut_words(document: Document, remark: Callable[[str, int], None]) -> Document:
    """Cut words in two where an annotation begins or ends inside them."""
    words, sentences = document.words or (), document.sentences or ()
    index = WordIndex(words)
    cuts: dict[int, set[int]] = {}
    for span in _spans(document):
        if index.is_exact(span):
            continue
        under = index.touching(span)
        if under is None or span.start < words[under.start].start or words[under.end - 1].end < span.end:
            raise BadRecord(
                f"{shorten(span.of(document.text))} at characters [{span.start}, {span.end})",
                "an annotation that begins and ends with a word",
            )
        if words[under.start].start < span.start:
            cuts.setdefault(under.start, set()).add(span.start)
        if words[under.end - 1].end > span.end:
            cuts.setdefault(under.end - 1, set()).add(span.end)
    if not cuts:
        return document
    remark("words cut in two where an annotation begins or ends inside them", sum(map(len, cuts.values())))
    words, sentences = _cut(words, sentences, cuts)
    return replace(document, words=words, sentences=sentences)


def join_sentences(document: Document, remark: Callable[[str, int], None]) -> Document:
    """Join sentences where an entity spans both; annotations must begin and end with words."""
    sentences = document.sentences or ()
    if len(sentences) < 2:
        return document
    index = WordIndex(document.words or ())
    joined = _merge(sentences, [index.exact(entity.span) for entity in document.annotation.entities])
    remark("sentences joined because an entity spans both", len(sentences) - len(joined))
    return document if joined == sentences else replace(document, sentences=joined)


def _check_borders(document: Document) -> None:
    """Refuse a document in which an annotation begins or ends inside a word."""
    index = WordIndex(document.words or ())
    for span in sorted(_spans(document)):
        if not index.is_exact(span):
            raise BadRecord(
                f"{shorten(span.of(document.text))} at characters [{span.start}, {span.end}), which begins or ends "
                "inside a word",
                "annotations of whole words; --set data.inside_words=cut cuts the words there",
            )


def join_related(document: Document, remark: Callable[[str, int], None]) -> Document:
    """Join all sentences from the first entity of a relation to its second; the document must be split and aligned."""
    sentences = document.sentences or ()
    index = WordIndex(document.words or ())
    covered = []
    for relation in document.annotation.relations:
        head, tail = relation.head.span, relation.tail.span
        cover = Span(min(head.start, tail.start), max(head.end, tail.end))
        covered.append(index.exact(cover))
    joined = _merge(sentences, covered)
    remark("sentences joined because a relation connects them", len(sentences) - len(joined))
    return document if joined == sentences else replace(document, sentences=joined)


def _cut(
    words: tuple[Span, ...], sentences: tuple[Span, ...], cuts: dict[int, set[int]]
) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    pieces: list[Span] = []
    first_piece: list[int] = []
    for number, word in enumerate(words):
        first_piece.append(len(pieces))
        borders = [word.start, *sorted(cuts.get(number, ())), word.end]
        pieces.extend(Span(a, b) for a, b in pairwise(borders))
    first_piece.append(len(pieces))
    return tuple(pieces), tuple(Span(first_piece[s.start], first_piece[s.end]) for s in sentences)


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
    """Return the document without the overlapping and discontinuous entities that the format or policy refuses."""
    entities = document.annotation.entities
    holds = format.holds
    choice = policy.overlaps
    if not holds.overlaps and len(set(entities)) < len(entities):
        remark("entities annotated twice, written once", len(entities) - len(set(entities)))
        entities = tuple(dict.fromkeys(entities))
        document = replace(document, annotation=replace(document.annotation, entities=entities))
    broken: list[Entity] = []
    whole = list(entities)
    if choice or not holds.discontinuous:
        broken = [entity for entity in entities if entity.fragments]
        whole = [entity for entity in entities if not entity.fragments]
    keeps = choice in (None, "keep")
    may_clash = keeps and holds.overlaps and holds.same_span
    clashing = set() if may_clash else overlapping(whole)
    if keeps and holds.overlaps:  # only several types on one span are too much for the format
        spans = Counter(entity.span for entity in set(whole))
        clashing = {entity for entity in clashing if spans[entity.span] > 1}
    if not broken and not clashing:
        return document
    if choice in (None, "fail") or (choice == "keep" and clashing):
        entity = broken[0] if broken else next(entity for entity in whole if entity in clashing)
        kind = "the discontinuous entity" if broken else "an overlapping entity,"
        place = f"characters [{entity.span.start}, {entity.span.end})"
        raise _refusal(f"{kind} {entity.label} {shorten(entity.span.of(document.text))} at {place}", format, choice)
    kept = _longest(whole) if choice == "keep-longest" else {entity for entity in whole if entity not in clashing}
    remark("discontinuous entities left out", len(broken))
    remark("overlapping entities left out", sum(entity not in kept for entity in whole))
    return keep_entities(document, kept, remark)


def _refusal(found: str, format: Format, choice: Overlaps | None) -> BadRecord:
    """Return the problem of a document whose entities overlap or are discontinuous, with its cure."""
    holds = format.holds
    remedy, options = _KEEP_LONGEST, "--overlaps drop or keep-longest leaves some out"
    if holds.overlaps and holds.same_span and choice in (None, "keep"):
        remedy, options = _KEEP, "--overlaps keep leaves some out"
    elif format.name == MODEL and not holds.overlaps and choice is None:
        remedy, options = _LEARN_SPANS, f"{options}, and --set tagging.kind=spans learns them"
    holder = "the chosen policy" if choice else format.title
    return BadRecord(found, f"entities that {holder} can hold; {options}", remedy=remedy)


def overlapping(entities: Iterable[Entity]) -> set[Entity]:
    """Return the entities that share a character with another entity; equal entities count as one."""
    pieces = [(piece, entity) for entity in set(entities) for piece in entity.pieces()]
    pieces.sort(key=lambda item: item[0])
    clashing: set[Entity] = set()
    reach = 0  # how far the pieces before this one go; those of one entity do not overlap
    for number, (piece, entity) in enumerate(pieces, 1):
        if reach > piece.start or (number < len(pieces) and pieces[number][0].start < piece.end):
            clashing.add(entity)
        reach = max(reach, piece.end)
    return clashing


def _longest(entities: Iterable[Entity]) -> set[Entity]:
    """Keep entities from the longest to the shortest, the first of equal length, unless they overlap a kept one."""
    kept: set[Entity] = set()
    taken: list[Span] = []  # in the order of the text, so that only two neighbours can be in the way
    for entity in sorted(dict.fromkeys(entities), key=lambda e: (-e.span.width, e.span.start)):
        index = bisect_right(taken, entity.span)
        if not any(entity.span.overlaps(other) for other in taken[max(index - 1, 0) : index + 1]):
            taken.insert(index, entity.span)
            kept.add(entity)
    return kept


def keep_entities(document: Document, kept: set[Entity], remark: Callable[[str, int], None]) -> Document:
    """Return the document with only the `kept` entities, the relations between them, and the attributes of both."""
    old = document.annotation
    entities = tuple(entity for entity in old.entities if entity in kept)
    relations = tuple(r for r in old.relations if r.head in kept and r.tail in kept)
    remark("relations left out with an entity of theirs", len(old.relations) - len(relations))
    return _with(document, Annotation(entities, relations), remark)


def _with(document: Document, annotation: Annotation, remark: Callable[[str, int], None]) -> Document:
    targets: set[Entity | Relation] = {*annotation.entities, *annotation.relations}
    attributes = tuple(attribute for attribute in document.attributes if attribute.target in targets)
    remark("attributes left out with what they belong to", len(document.attributes) - len(attributes))
    return replace(document, annotation=annotation, attributes=attributes)


def crossing_relations(document: Document) -> list[Relation]:
    """Return the relations whose two entities are in different sentences; the document must be split."""
    if not document.annotation.relations or len(document.sentences or ()) < 2:
        return []
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
        relation = crossing[0]
        more = ""
        if n_more := len(crossing) - 1:
            more = f" (and {n_more} more such relation{'' if n_more == 1 else 's'})"
        for_model = format.name == MODEL
        read_together = "; a model trained with --set text.unit=passage reads them together" if for_model else ""
        raise BadRecord(
            f"the relation {relation.label} between sentences, from {shorten(relation.head.span.of(document.text))} "
            f"to {shorten(relation.tail.span.of(document.text))}{more}",
            f"relations inside one sentence, as {format.title} holds single sentences; --crossing drop leaves them "
            f"out, --crossing join joins their sentences{read_together}",
            remedy=_READ_PASSAGES if for_model else _DROP_CROSSING,
        )
    remark("relations between sentences left out", len(crossing))
    gone = set(crossing)
    kept = tuple(relation for relation in document.annotation.relations if relation not in gone)
    return _with(document, replace(document.annotation, relations=kept), remark)


def _words_show(document: Document) -> bool:
    """True if splitting the text at white space and line ends gives back its words and sentences."""
    if not is_joined(document):
        return False
    return not any(char.isspace() for word in document.words or () for char in word.of(document.text))


def _report_losses(document: Document, format: Format, remark: Callable[[str, int], None]) -> None:
    holds = format.holds
    annotation = document.annotation
    if not holds.words and not holds.word_offsets and document.words is not None and not _words_show(document):
        remark(f"documents whose words and sentences are left out, which {format.title} cannot hold", 1)
    if not holds.ids:
        named = [*(e.id for e in annotation.entities), *(r.id for r in annotation.relations)]
        remark(
            f"ids of entities and relations left out, which {format.title} cannot hold", len(named) - named.count(None)
        )
    if not holds.attributes:
        left_out = [attribute for attribute in document.attributes if attribute.name not in holds.attribute_names]
        remark(f"attributes left out, which {format.title} cannot hold", len(left_out))
    remark(
        f"metadata left out, under keys that {format.title} has for itself",
        sum(key in format.keys for key in document.metadata),
    )
    if not holds.metadata and document.metadata.keys() - set(holds.metadata_keys):
        remark(f"documents whose metadata is left out, which {format.title} cannot hold", 1)
    if not holds.scores:
        scores = [*(e.score for e in annotation.entities), *(r.score for r in annotation.relations)]
        scored = sum(score is not None for score in scores)
        remark(f"scores left out, which {format.title} cannot hold", scored)
