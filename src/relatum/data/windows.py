"""A sentence or a passage that is too long, read or learned in windows that overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import inf

from relatum.data.context import window_context
from relatum.data.documents import map_spans
from relatum.errors import RelatumError, printable
from relatum.types import Annotation, Context, Entity, Example, Relation, Sentence, Span

_SHOWN = 50
"""The most characters of a word that an error shows."""


def make_windows(
    pieces: Sequence[int],
    max_pieces: int | None,
    max_words: int,
    overlap: int,
    words: Sequence[str] | None = None,
) -> list[Span]:
    """Return ranges of words that cover a sentence, each as long as the limits allow; a single one if all of it fits.

    `pieces` has the number of pieces of each word. Neighbours share `overlap` words, or fewer where the second would
    otherwise not reach beyond the first, so that an overlap close to `max_words` makes many windows. A sentence without
    words has no windows. A word that no window can hold is an error, which shows it if `words` are given.
    """
    fits = _limits(pieces, max_pieces, max_words, overlap, words)
    windows: list[Span] = []
    start = end = 0
    while end < len(pieces):
        # The word after the last window is in this one, whatever becomes of the overlap.
        start = max(start, end - overlap)
        while not fits(start, end + 1):
            start += 1
        while end < len(pieces) and fits(start, end + 1):
            end += 1
        windows.append(Span(start, end))
    return windows


def make_passage_windows(
    pieces: Sequence[int],
    starts: Sequence[int],
    max_pieces: int | None,
    max_words: int,
    overlap: int,
    words: Sequence[str] | None = None,
) -> list[Span]:
    """Return ranges of words that cover a passage in whole sentences; `starts` are the sentences' first words.

    Each window has as many sentences as the limits allow. Neighbours share the fewest sentences that have `overlap`
    words, or as many as the second can hold beside the sentence after the first. A sentence that no window can hold is
    cut between its words, as `make_windows` does, and the windows before and after it may have some of its words.
    """
    fits = _limits(pieces, max_pieces, max_words, overlap, words)
    borders = _find_borders(starts, len(pieces), fits)
    windows: list[Span] = []
    end = 0  # the border up to which all words are in a window
    while end < len(borders) - 1:
        start = end
        while start > 0 and borders[end] - borders[start] < overlap and fits(borders[start - 1], borders[end + 1]):
            start -= 1
        while end < len(borders) - 1 and fits(borders[start], borders[end + 1]):
            end += 1
        windows.append(Span(borders[start], borders[end]))
    return windows


def _find_borders(starts: Sequence[int], n_words: int, fits: Callable[[int, int], bool]) -> list[int]:
    """Return the places where a passage may be cut, its ends included: between sentences, and in those too long."""
    sentences = pairwise([0, *(start for start in starts if 0 < start < n_words), n_words])
    borders = [0]
    for start, end in sentences:
        borders += [end] if fits(start, end) else range(start + 1, end + 1)
    return borders if n_words else []


def _limits(
    pieces: Sequence[int], max_pieces: int | None, max_words: int, overlap: int, words: Sequence[str] | None
) -> Callable[[int, int], bool]:
    """Return a function that is true for ranges of words that a window can hold; refuse what no window can hold."""
    if max_words < 1 or overlap < 0:
        raise ValueError(f"max_words must be at least 1 and overlap at least 0, got {max_words} and {overlap}")
    if max_pieces is not None:
        for word, count in enumerate(pieces):
            if count > max_pieces:
                raise _too_long(word, count, max_pieces, words)
    before = [0, *accumulate(pieces)]

    def fits(start: int, end: int) -> bool:
        return end - start <= max_words and (max_pieces is None or before[end] - before[start] <= max_pieces)

    return fits


def _too_long(index: int, count: int, max_pieces: int, words: Sequence[str] | None) -> RelatumError:
    shown = ""
    if words is not None:
        word = printable(words[index])
        shown = f", {word[:_SHOWN]!r}{'…' if len(word) > _SHOWN else ''},"
    return RelatumError(
        f"word {index + 1} of the sentence{shown} is cut into {count} pieces, but the encoder reads at most "
        f"{max_pieces} at once; split or shorten the word, or use a model whose encoder reads more"
    )


@dataclass(slots=True)
class _Candidate:
    """An entity, the windows that found it, and its greatest distance from the edges of one of them."""

    entity: Entity
    margin: float = -1
    windows: set[int] = field(default_factory=set)


def merge_windows(
    annotations: Sequence[tuple[Span, Annotation]], n_words: int, several_relations: bool = False
) -> Annotation:
    """Merge the annotations found in the windows of a sentence, each in the words of its window, into one.

    Equal entities become one with the highest score. Of entities that share words, but that no window has found
    together, the one that lies farther from an edge of its window stays, since more of its context was seen; an edge
    that is the sentence's own does not count. Then the higher score decides, then the earlier. Relations between
    entities that stay are kept; if several have the same head and tail, only the one with the highest score, or with
    `several_relations` the one of each label. All is ordered by place. Results share words only as entities of one
    window do.
    """
    moved = [(window, _shift(annotation, window.start)) for window, annotation in annotations]
    candidates: dict[Entity, _Candidate] = {}
    for number, (window, annotation) in enumerate(moved):
        for entity in annotation.entities:
            candidate = candidates.setdefault(entity, _Candidate(entity))
            candidate.entity = max(candidate.entity, entity, key=_score)
            candidate.margin = max(candidate.margin, _margin(entity.span, window, n_words))
            candidate.windows.add(number)
    kept = _without_conflicts(candidates.values())
    relations = _best((annotation for _, annotation in moved), kept, several_relations)
    return Annotation(tuple(sorted(kept.values(), key=_place)), relations)


def merge_relations(
    annotations: Sequence[tuple[Span, Annotation]], entities: Sequence[Entity], several_relations: bool = False
) -> tuple[Relation, ...]:
    """Merge the relations found between known entities in the windows of a sentence, as `merge_windows` does.

    All entities stay, whichever words they share.
    """
    known = {entity: entity for entity in reversed(entities)}  # of equal ones the first
    return _best((_shift(annotation, window.start) for window, annotation in annotations), known, several_relations)


def _best(
    annotations: Iterable[Annotation], kept: Mapping[Entity, Entity], several_relations: bool
) -> tuple[Relation, ...]:
    """Return the relations between `kept` entities; if several have the same ends, the one with the highest score.

    With `several_relations`, only relations of the same label exclude one another.
    """
    best: dict[tuple[Entity, Entity, str], Relation] = {}
    for annotation in annotations:
        for relation in annotation.relations:
            head = kept.get(relation.head)
            tail = kept.get(relation.tail)
            if head is None or tail is None:
                continue
            mapped = Relation(head, tail, relation.label, relation.score, relation.id)
            key = head, tail, relation.label if several_relations else ""
            best[key] = max(best.get(key, mapped), mapped, key=_score)
    return tuple(sorted(best.values(), key=lambda one: (_place(one.head), _place(one.tail))))


def _without_conflicts(candidates: Iterable[_Candidate]) -> dict[Entity, Entity]:
    """Return the entities that stay when conflicts are resolved, each under itself as the key."""
    kept: dict[Entity, Entity] = {}
    owners: dict[int, list[_Candidate]] = {}
    for candidate in sorted(candidates, key=lambda c: (-c.margin, -_score(c.entity), _place(c.entity))):
        words = [word for piece in candidate.entity.pieces() for word in range(piece.start, piece.end)]
        if any(candidate.windows.isdisjoint(owner.windows) for word in words for owner in owners.get(word, ())):
            continue
        kept[candidate.entity] = candidate.entity
        for word in words:
            owners.setdefault(word, []).append(candidate)
    return kept


def _shift(annotation: Annotation, by: int) -> Annotation:
    return map_spans(annotation, lambda span: span.shift(by))


def _margin(span: Span, window: Span, n_words: int) -> float:
    """Return the number of words between an entity and the nearest edge of its window at which the sentence goes on."""
    left = span.start - window.start if window.start > 0 else inf
    right = window.end - span.end if window.end < n_words else inf
    return min(left, right)


def _score(item: Entity | Relation) -> float:
    return -inf if item.score is None else item.score


def _place(entity: Entity) -> tuple[Span, tuple[Span, ...], str]:
    return entity.span, entity.fragments, entity.label


def window_examples(example: Example, windows: Sequence[Span], context: int = 0) -> tuple[list[Example], int, int]:
    """Cut an example into its windows; also return how many of its entities and relations are in none of them.

    A window has the entities that lie wholly inside it and the relations between them; an entity in the overlap of
    two windows is in both. Each window gets at most `context` words of context on either side.
    """
    gold = example.gold
    examples = [_cut(example, window, context) for window in windows]
    lost_entities = sum(not within_any(windows, entity) for entity in gold.entities)
    lost_relations = sum(not within_any(windows, relation.head, relation.tail) for relation in gold.relations)
    return examples, lost_entities, lost_relations


def _cut(example: Example, window: Span, context: int) -> Example:
    sentence = example.sentence
    gold = example.gold
    if window == (0, len(sentence)):
        return example
    text = sentence.text
    offsets = sentence.offsets
    if offsets is not None:
        inner = offsets[window.start : window.end]
        first = inner[0].start
        text = None if text is None else text[first : inner[-1].end]
        offsets = tuple(span.shift(-first) for span in inner)
    else:
        text = None  # without offsets nobody knows which part of the text the words are
    inside = Annotation(
        tuple(entity for entity in gold.entities if _within(window, entity)),
        tuple(relation for relation in gold.relations if _within(window, relation.head, relation.tail)),
    )
    beside = window_context(sentence, window, context) if context else Context()
    starts = tuple(start - window.start for start in sentence.starts if window.start <= start < window.end)
    return Example(
        Sentence(sentence.words[window.start : window.end], offsets, text, beside, starts),
        _shift(inside, -window.start),
        f"{example.id}[{window.start}:{window.end}]",
    )


def within_any(windows: Sequence[Span], *entities: Entity) -> bool:
    """True if one of the windows holds all the entities."""
    return any(_within(window, *entities) for window in windows)


def _within(window: Span, *entities: Entity) -> bool:
    return all(window.contains(entity.span) for entity in entities)
