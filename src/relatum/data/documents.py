"""Conversion between documents, whose spans count characters, and sentences, whose spans count words."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, count, pairwise
from operator import add, itemgetter, methodcaller

from relatum.data.context import find_context
from relatum.types import Annotation, Context, Document, Entity, Example, Relation, Sentence, Span

_span = partial(tuple.__new__, Span)
"""Make a span from a pair that is known to be valid, at no more than the cost of a tuple."""
_NOTHING = Annotation()


def from_words(
    id: str,
    sentences: Sequence[Sequence[str]],
    annotation: Annotation,
    clusters: Iterable[Sequence[Span]] = (),
    metadata: Mapping[str, object] | None = None,
) -> Document:
    """Make a document from sentences of words; annotation and clusters count words from the document's start."""
    text, words, ranges = join_words(sentences)

    def characters(span: Span) -> Span:
        return Span(words[span.start].start, words[span.end - 1].end)

    return Document(
        id,
        text,
        map_spans(annotation, characters),
        words,
        ranges,
        tuple(tuple(map(characters, cluster)) for cluster in clusters),
        metadata=metadata or {},
    )


def join_words(sentences: Sequence[Sequence[str]]) -> tuple[str, tuple[Span, ...], tuple[Span, ...]]:
    """Return the text that words make when joined, each word's span in it, and each sentence's range of words.

    A sentence without words leaves no trace.
    """
    full = [sentence for sentence in sentences if sentence]
    words = list(chain.from_iterable(full))
    if not all(words):
        raise ValueError("a word is an empty string")
    # The end of each word: all characters up to it, and one for the space or newline before each word but the first.
    ends = list(map(add, accumulate(map(len, words)), count()))
    starts = [0, *(end + 1 for end in ends[:-1])]
    borders = [0, *accumulate(map(len, full))]
    return (
        "\n".join(map(" ".join, full)),
        tuple(map(_span, zip(starts, ends, strict=False))),
        tuple(map(_span, pairwise(borders))),
    )


def split_parts(document: Document) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the words and the sentences of a document that has been split."""
    if document.words is None or document.sentences is None:
        raise ValueError(f"document {document.id!r} has not been split into words and sentences")
    return document.words, document.sentences


def sentence_spans(document: Document) -> tuple[Span, ...]:
    """Return the characters of each sentence of a document; none if it has not been split."""
    if document.words is None or document.sentences is None:
        return ()
    words = document.words
    return tuple(Span(words[first].start, words[end - 1].end) for first, end in document.sentences)


def find_evidence(sentences: Sequence[Span], relation: Relation) -> Span | None:
    """Return the characters from the first to the last sentence of a relation's entities; None if not known."""
    start = min(relation.head.span.start, relation.tail.span.start)
    end = max(relation.head.span.end, relation.tail.span.end)
    first = bisect_right(sentences, start, key=itemgetter(1))
    last = bisect_left(sentences, end, key=itemgetter(0))
    return Span(sentences[first].start, sentences[last - 1].end) if first < last else None


def is_joined(document: Document) -> bool:
    """True if the text is just the words joined, so that the words alone say everything."""
    if document.words is None or document.sentences is None:
        return False
    words = [document.text[start:end] for start, end in document.words]
    joined = join_words([words[start:end] for start, end in document.sentences])
    return joined == (document.text, document.words, document.sentences)


def map_spans(annotation: Annotation, move: Callable[[Span], Span]) -> Annotation:
    """Return the annotation with every span moved."""
    done: dict[int, Entity] = {}

    def moved(entity: Entity) -> Entity:
        # The ends of a relation are mostly the very objects that are among the entities.
        copy = done.get(id(entity))
        if copy is None:
            fragments = tuple(map(move, entity.fragments)) if entity.fragments else ()
            copy = done[id(entity)] = Entity(move(entity.span), entity.label, fragments, entity.score, entity.id)
        return copy

    return Annotation(
        tuple(map(moved, annotation.entities)),
        tuple(Relation(moved(r.head), moved(r.tail), r.label, r.score, r.id) for r in annotation.relations),
    )


class Names:
    """Unique ids for the entities of an annotation: an entity's own id, or a new one."""

    def __init__(self, entities: Sequence[Entity], prefix: str = "T") -> None:
        self.all: list[str] = []
        self._by_value: dict[Entity, str] = {}
        taken = {entity.id for entity in entities}
        used: set[str] = set()
        number = 0
        for entity in entities:
            name = entity.id
            while name is None or name in used:
                number += 1
                candidate = f"{prefix}{number}"
                name = None if candidate in taken else candidate
            used.add(name)
            self.all.append(name)
            self._by_value.setdefault(entity, name)
        self._by_id = dict(zip(self.all, entities, strict=True))

    def of(self, entity: Entity) -> str:
        """Return the id of the entity itself if it is among them, else the id of the first entity equal to it."""
        if entity.id is not None and self._by_id.get(entity.id) == entity:
            return entity.id
        return self._by_value[entity]


class WordIndex:
    """A search for the words under a span of characters. It takes no memory, so long documents can have several."""

    def __init__(self, words: Sequence[Span]) -> None:
        self._words = words

    def is_exact(self, span: Span) -> bool:
        """True if the span begins and ends with a word."""
        return self._find(span) is not None

    def exact(self, span: Span) -> Span:
        """Return the words under a span that begins and ends with a word."""
        words = self._find(span)
        if words is None:
            raise ValueError(f"characters [{span.start}, {span.end}) do not begin and end with a word")
        return words

    def _find(self, span: Span) -> Span | None:
        words = self._words
        first = bisect_left(words, (span[0],))  # a word compares as the pair of its ends
        after = bisect_left(words, (span[1],))
        if first < after and words[first][0] == span[0] and words[after - 1][1] == span[1]:
            return _span((first, after))
        return None

    def touching(self, span: Span) -> Span | None:
        """Return the words that share a character with the span; None if the span lies between words."""
        first = bisect_right(self._words, span.start, key=itemgetter(1))
        last = bisect_left(self._words, span.end, key=itemgetter(0))
        return Span(first, last) if first < last else None


def word_annotation(document: Document) -> Annotation:
    """Return the annotation in words counted from the document's start; the document must be split and aligned."""
    return map_spans(document.annotation, WordIndex(split_parts(document)[0]).exact)


def word_clusters(document: Document) -> list[list[Span]]:
    """Return the clusters in words counted from the document's start."""
    index = WordIndex(split_parts(document)[0])
    return [list(map(index.exact, cluster)) for cluster in document.clusters]


def sentence_ids_of(document: Document) -> list[str]:
    """Return an id for each sentence: the document's id, with a number added if there are several sentences."""
    _, sentences = split_parts(document)
    if len(sentences) == 1:
        return [document.id]
    return [f"{document.id}#{number}" for number in range(1, len(sentences) + 1)]


def to_examples(document: Document, context: int = 0, full: Annotation | None = None) -> list[Example]:
    """Return the document's sentences as a list; see `iter_examples`."""
    return list(iter_examples(document, context, full))


def iter_examples(document: Document, context: int = 0, full: Annotation | None = None) -> Iterator[Example]:
    """Yield the document's sentences, each annotated in its own words, with at most `context` words on each side.

    The document must be split and aligned, and no entity or relation may reach beyond its sentence
    (`relatum.data.fitting` sees to both). `full` is all that was annotated, if the document has less; each entity and
    relation that the document lacks is left out of the sentence in which it begins.
    """
    words, sentences = split_parts(document)
    text = document.text
    index = WordIndex(words)
    starts = [words[sentence.start].start for sentence in sentences]
    present = _by_sentence(document.annotation, starts)
    absent = {} if full is None else _by_sentence(_difference(full, document.annotation), starts)
    contexts = [Context()] * len(sentences)
    if context:
        contexts = find_context([text[start:stop] for start, stop in words], sentences, context)
    for number, (name, (first, last)) in enumerate(zip(sentence_ids_of(document), sentences, strict=True)):
        inside = words[first:last]
        begin, end = inside[0].start, inside[-1].end

        def local(span: Span, by: int = -first) -> Span:
            return index.exact(span).shift(by)

        sentence = Sentence(
            tuple([text[start:stop] for start, stop in inside]),
            tuple([_span((start - begin, stop - begin)) for start, stop in inside]),
            text[begin:end],
            contexts[number],
        )
        gold = map_spans(present.pop(number, _NOTHING), local)
        left_out = map_spans(absent.pop(number, _NOTHING), local)
        yield Example(sentence, gold, name, left_out)


def _by_sentence(annotation: Annotation, starts: Sequence[int]) -> dict[int, Annotation]:
    """Return the entities and relations that begin in each sentence; `starts` are the sentences' first characters."""
    entities: defaultdict[int, list[Entity]] = defaultdict(list)
    relations: defaultdict[int, list[Relation]] = defaultdict(list)
    for entity in annotation.entities:
        number = bisect_right(starts, entity.span.start) - 1
        entities[number].append(entity)
    for relation in annotation.relations:
        start = min(relation.head.span.start, relation.tail.span.start)
        number = bisect_right(starts, start) - 1
        relations[number].append(relation)
    numbers = entities.keys() | relations.keys()
    return {number: Annotation(tuple(entities[number]), tuple(relations[number])) for number in numbers}


def _difference(full: Annotation, kept: Annotation) -> Annotation:
    """Return the entities and relations of `full` that are not in `kept`."""
    entities, relations = set(kept.entities), set(kept.relations)
    return Annotation(
        tuple(dict.fromkeys(entity for entity in full.entities if entity not in entities)),
        tuple(dict.fromkeys(relation for relation in full.relations if relation not in relations)),
    )


def words_by_sentence(sentence: Sentence) -> list[tuple[str, ...]]:
    """Return the words of each sentence of a passage; a list of one for a single sentence."""
    if not sentence.starts:
        return [sentence.words]
    return [sentence.words[start:end] for start, end in sentence.ranges]


def join_examples(examples: Sequence[Example], annotations: Sequence[Annotation]) -> list[tuple[Document, Document]]:
    """Make pairs of documents: all that was annotated in the examples, and other annotations of the same sentences.

    Each sentence is a document of its own, unless gold reaches from one sentence of a text into another: then the
    sentences of the text are one document. So are the sentences of a passage.
    """
    pairs = []
    for first, last in _joined_ranges(examples):
        inside = examples[first:last]
        words = [example.sentence.words for example in inside]
        sentences = [part for example in inside for part in words_by_sentence(example.sentence)]
        name = inside[0].id if len(inside) == 1 else inside[0].id.rpartition("#")[0]
        gold = _join([example.full_gold for example in inside], words)
        other = _join(annotations[first:last], words)
        pairs.append((from_words(name, sentences, gold), from_words(name, sentences, other)))
    return pairs


def _joined_ranges(examples: Sequence[Example]) -> Iterator[tuple[int, int]]:
    """Yield ranges of examples: a whole text if its gold reaches beyond a sentence, else single examples."""
    for first, last in _texts(examples):
        if any(_end(example.full_gold) > len(example.sentence) for example in examples[first:last]):
            yield first, last
        else:
            yield from ((number, number + 1) for number in range(first, last))


def _texts(examples: Sequence[Example]) -> Iterator[tuple[int, int]]:
    """Yield for each text the range of examples that are its sentences, judged by their ids (`sentence_ids_of`)."""
    first = 0
    for number, example in enumerate(examples):
        name, mark, suffix = example.id.rpartition("#")
        goes_on = mark and suffix == str(number - first + 1) and examples[first].id == f"{name}#1"
        if number > first and not goes_on:
            yield first, number
            first = number
    if examples:
        yield first, len(examples)


def _end(annotation: Annotation) -> int:
    """Return the greatest end of all spans."""
    mentions = chain(annotation.entities, *((relation.head, relation.tail) for relation in annotation.relations))
    return max((mention.span.end for mention in mentions), default=0)


def _join(annotations: Sequence[Annotation], sentences: Sequence[Sequence[str]]) -> Annotation:
    """Join the annotations of consecutive sentences into one, which counts words from the first sentence's start."""
    entities: list[Entity] = []
    relations: list[Relation] = []
    start = 0
    for annotation, words in zip(annotations, sentences, strict=True):
        moved = map_spans(annotation, methodcaller("shift", start))
        entities += moved.entities
        relations += moved.relations
        start += len(words)
    return Annotation(tuple(entities), tuple(relations))
