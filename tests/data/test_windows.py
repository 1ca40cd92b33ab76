from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.data.documents import map_spans
from relatum.data.windows import make_windows, merge_relations, merge_windows, window_examples
from relatum.errors import RelatumError
from relatum.types import Annotation, Context, Entity, Example, Relation, Sentence, Span


def entity(start: int, end: int, label: str = "X", score: float | None = None) -> Entity:
    return Entity(Span(start, end), label, score=score)


def test_windows_are_one_for_a_sentence_that_fits() -> None:
    assert make_windows([2, 2, 2], 6, 3, 1) == [Span(0, 3)]
    assert make_windows([2, 2, 2], None, 3, 1) == [Span(0, 3)]
    assert make_windows([], 6, 3, 1) == []


def test_windows_share_words_with_their_neighbours() -> None:
    assert make_windows([1] * 10, None, 4, 1) == [Span(0, 4), Span(3, 7), Span(6, 10)]
    assert make_windows([1] * 9, None, 4, 0) == [Span(0, 4), Span(4, 8), Span(8, 9)]
    assert make_windows([1, 1, 1, 3, 1, 1], 4, 9, 1) == [Span(0, 3), Span(2, 4), Span(3, 5), Span(4, 6)]


def test_windows_share_fewer_words_where_they_would_not_advance() -> None:
    assert make_windows([1] * 5, None, 3, 7) == [Span(0, 3), Span(1, 4), Span(2, 5)]
    assert make_windows([3, 3, 3], 3, 9, 2) == [Span(0, 1), Span(1, 2), Span(2, 3)]


def test_windows_name_a_word_that_no_window_holds() -> None:
    with pytest.raises(RelatumError, match=r"word 2 of the sentence is cut into 9 pieces.*at most 8 at once; split"):
        make_windows([1, 9, 1], 8, 5, 1)
    with pytest.raises(RelatumError, match=r"word 2 of the sentence, '(xy){25}'…, is cut into 9 pieces"):
        make_windows([1, 9, 1], 8, 5, 1, ["a", "xy" * 30, "b"])


def test_windows_refuse_limits_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="got 0 and 1"):
        make_windows([1], None, 0, 1)
    with pytest.raises(ValueError, match="got 1 and -1"):
        make_windows([1], None, 1, -1)


@given(st.lists(st.integers(1, 5), max_size=40), st.none() | st.integers(5, 12), st.integers(1, 12), st.integers(0, 14))
def test_windows_cover_the_sentence_within_the_limits(
    pieces: list[int], max_pieces: int | None, max_words: int, overlap: int
) -> None:
    windows = make_windows(pieces, max_pieces, max_words, overlap)

    def fits(start: int, end: int) -> bool:
        return end - start <= max_words and (max_pieces is None or sum(pieces[start:end]) <= max_pieces)

    assert {word for window in windows for word in range(*window)} == set(range(len(pieces)))
    assert all(fits(*window) for window in windows)
    assert len(windows) <= 1 or not fits(0, len(pieces))
    for one, following in pairwise(windows):
        assert one.start < following.start
        assert one.end < following.end
        assert not fits(one.start, one.end + 1)  # as long as the limits allow
        shared = one.end - following.start
        assert 0 <= shared <= overlap
        # Sharing one word more, the second window would begin like the first or not reach beyond it.
        assert shared == overlap or not fits(following.start - 1, one.end + 1)


def test_merge_moves_spans_and_joins_equal_entities() -> None:
    first = Annotation((entity(0, 1, score=0.9), entity(3, 4, score=0.6)))
    second = Annotation((entity(1, 2, score=0.8), entity(3, 4, score=0.5)))
    merged = merge_windows([(Span(0, 4), first), (Span(2, 6), second)], 6)
    assert merged.entities == (entity(0, 1), entity(3, 4), entity(5, 6))
    assert [one.score for one in merged.entities] == [0.9, 0.8, 0.5]


def test_merge_prefers_the_entity_far_from_an_edge() -> None:
    cut = entity(4, 6, score=0.99)  # touches the end of the first window
    whole = entity(1, 5, score=0.4)  # the words 4 to 8, one word from the edge of the second
    for pair in ([(Span(0, 6), cut), (Span(3, 12), whole)], [(Span(3, 12), whole), (Span(0, 6), cut)]):
        merged = merge_windows([(window, Annotation((one,))) for window, one in pair], 12)
        assert merged.entities == (entity(4, 8),)


@pytest.mark.parametrize("best", [0, 1, 2], ids=["first", "middle", "last"])
def test_merge_takes_the_window_in_which_an_entity_is_farthest_from_the_edges(best: int) -> None:
    """X is found in three windows, in one of them far from the edges; Y, in a fourth, lies between."""
    n_words, place = 40, 20

    def window(margin: int, label: str) -> tuple[Span, Annotation]:
        return Span(place - margin, place + 1 + margin), Annotation((entity(margin, margin + 1, label),))

    windows = [window(5 if number == best else 1, "X") for number in range(3)]
    for at in range(4):
        merged = merge_windows([*windows[:at], window(3, "Y"), *windows[at:]], n_words)
        assert merged.entities == (entity(place, place + 1, "X"),)
    nearer = [window(2, "X") for _ in windows]
    assert merge_windows([*nearer, window(3, "Y")], n_words).entities == (entity(place, place + 1, "Y"),)


def test_merge_counts_no_edge_where_the_sentence_ends() -> None:
    """The first and the last words of a sentence touch an edge of their window, but one that cuts nothing off."""
    windows = Span(0, 6), Span(1, 8)

    def labels(first: Entity, second: Entity) -> list[str]:
        annotations = [(w, Annotation((one,))) for w, one in zip(windows, (first, second), strict=True)]
        return [one.label for one in merge_windows(annotations, 8).entities]

    # X, the words 0 to 2, is three words from the cut at 6; Y, the word 2, is one word from the cut at 1.
    assert labels(entity(0, 3, "X"), entity(1, 2, "Y")) == ["X"]
    # X, the word 5, touches the cut at 6; Y, the words 5 to 7, is four words from the cut at 1.
    assert labels(entity(5, 6, "X"), entity(4, 7, "Y")) == ["Y"]


def test_merge_breaks_ties_by_score_then_by_place() -> None:
    windows = Span(0, 6), Span(2, 8)

    def merged(first: Entity, second: Entity) -> list[str]:
        annotations = [(w, Annotation((one,))) for w, one in zip(windows, (first, second), strict=True)]
        return [one.label for one in merge_windows(annotations, 8).entities]

    # The words 3 and 4 in the first window and 3 and 4 in the second: one word from an edge each.
    assert merged(entity(3, 5, "X", 0.4), entity(1, 3, "Y", 0.6)) == ["Y"]
    assert merged(entity(3, 5, "X", 0.6), entity(1, 3, "Y", 0.4)) == ["X"]
    # The words 3 to 4 and 3: the shorter span comes earlier.
    assert merged(entity(3, 5, "X", 0.5), entity(1, 2, "Y", 0.5)) == ["Y"]


def test_merge_keeps_relations_between_what_stays() -> None:
    a, b, cut = entity(0, 1, score=0.7), entity(4, 5, score=0.2), entity(5, 6)
    first = Annotation((a, b, cut), (Relation(a, b, "r", 0.6), Relation(a, cut, "r", 0.9)))
    b_again, whole = entity(2, 3, score=0.9), entity(3, 5)
    second = Annotation((b_again, whole), (Relation(b_again, whole, "q", 0.5),))
    merged = merge_windows([(Span(0, 6), first), (Span(2, 9), second)], 9)
    assert merged.entities == (a, b, entity(5, 7))
    assert merged.relations == (Relation(a, b, "r"), Relation(b, entity(5, 7), "q"))
    assert [relation.score for relation in merged.relations] == [0.6, 0.5]
    assert [relation.tail.score for relation in merged.relations] == [0.9, None]
    assert merged.relations[0].tail is merged.entities[1]


def test_merge_keeps_the_best_relation_of_a_pair() -> None:
    a, b = entity(2, 3), entity(3, 4)

    def window(label: str, score: float, by: int) -> tuple[Span, Annotation]:
        head, tail = entity(2 - by, 3 - by), entity(3 - by, 4 - by)
        return Span(by, by + 5), Annotation((head, tail), (Relation(head, tail, label, score),))

    for windows in ([window("r", 0.5, 0), window("q", 0.6, 1)], [window("q", 0.6, 0), window("r", 0.5, 1)]):
        merged = merge_windows(windows, 6)
        assert merged.relations == (Relation(a, b, "q"),)
        assert merged.relations[0].score == 0.6


def test_merge_keeps_relations_of_different_labels_where_a_pair_may_have_several() -> None:
    a, b = entity(2, 3), entity(3, 4)

    def window(by: int, **scores: float) -> tuple[Span, Annotation]:
        head, tail = entity(2 - by, 3 - by), entity(3 - by, 4 - by)
        relations = tuple(Relation(head, tail, label, score) for label, score in scores.items())
        return Span(by, by + 5), Annotation((head, tail), relations)

    windows = [window(0, r=0.5, q=0.9), window(1, r=0.7)]
    for ordered in (windows, windows[::-1]):
        merged = merge_windows(ordered, 6, several_relations=True).relations
        assert merged == (Relation(a, b, "r"), Relation(a, b, "q"))
        assert [one.score for one in merged] == [0.7, 0.9]
        assert merge_relations(ordered, [a, b], several_relations=True) == merged
        assert [one.label for one in merge_windows(ordered, 6).relations] == ["q"]


def test_merge_keeps_an_inner_entity_of_two_windows_and_an_outer_one_of_one_window() -> None:
    first = Annotation((entity(3, 7), entity(4, 5), entity(4, 5, "Y")))
    second = Annotation((entity(0, 1), entity(0, 1, "Y")))  # it begins inside the outer entity
    for windows in ([(Span(0, 8), first), (Span(4, 12), second)], [(Span(4, 12), second), (Span(0, 8), first)]):
        merged = merge_windows(windows, 12)
        assert merged.entities == (entity(3, 7), entity(4, 5), entity(4, 5, "Y"))


def test_merge_leaves_given_entities_that_overlap_in_one_window() -> None:
    outer, inner = entity(1, 4), entity(2, 3)
    split = Entity(Span(0, 5), "X", (Span(0, 1), Span(4, 5)))
    given = Annotation((outer, inner, split), (Relation(inner, split, "r"),))
    merged = merge_windows([(Span(0, 6), given), (Span(2, 8), Annotation((entity(0, 1),)))], 8)
    assert merged == Annotation((split, outer, inner), given.relations)


def test_merge_of_relations_keeps_entities_that_share_words_across_windows() -> None:
    """[0, 4) is only in the first window and [3, 6) only in the second, where `merge_windows` would choose."""
    first, second, both = entity(0, 4), entity(3, 6), Entity(Span(2, 3), "X", id="T1")

    def window(start: int, end: int, *pairs: tuple[Entity, Entity, str, float]) -> tuple[Span, Annotation]:
        relations = tuple(Relation(head, tail, label, score) for head, tail, label, score in pairs)
        ends = tuple(dict.fromkeys(one for relation in relations for one in (relation.head, relation.tail)))
        return Span(start, end), map_spans(Annotation(ends, relations), lambda span: span.shift(-start))

    windows = [
        window(0, 5, (first, both, "r", 0.5), (entity(2, 3, "X"), entity(3, 4), "q", 0.6)),
        window(2, 7, (second, both, "r", 0.4), (entity(2, 3, "X"), entity(3, 4), "r", 0.7)),
    ]
    given = [both, second, first, entity(3, 4)]
    merged = merge_relations(windows, given)
    expected = [(first, both, "r", 0.5), (both, entity(3, 4), "r", 0.7), (second, both, "r", 0.4)]
    assert [(one.head, one.tail, one.label, one.score) for one in merged] == expected
    assert merged[1].head is both
    assert merge_relations([], given) == ()


def test_merge_of_nothing_is_nothing() -> None:
    assert merge_windows([], 0) == Annotation()


@st.composite
def found_in_windows(draw: st.DrawFn) -> tuple[list[tuple[Span, Annotation]], int]:
    n_words = draw(st.integers(1, 20))
    windows = make_windows([1] * n_words, None, draw(st.integers(1, 8)), draw(st.integers(0, 5)))
    scores = st.none() | st.floats(0, 1)
    annotations = []
    for window in windows:
        entities, at = [], 0
        while at < window.width:
            width = draw(st.integers(1, min(3, window.width - at)))
            if draw(st.booleans()):
                entities.append(entity(at, at + width, draw(st.sampled_from("XY")), draw(scores)))
            at += width
        some = st.sampled_from(entities) if entities else st.nothing()
        relations = draw(st.lists(st.builds(Relation, some, some, st.sampled_from("rq"), scores), max_size=4))
        annotations.append((window, Annotation(tuple(entities), tuple(relations))))
    return annotations, n_words


@given(found_in_windows())
def test_merge_gives_a_sound_annotation(found: tuple[list[tuple[Span, Annotation]], int]) -> None:
    annotations, n_words = found
    merged = merge_windows(annotations, n_words)
    entities, relations = merged.entities, merged.relations
    assert not any(one.span.overlaps(other.span) for one, other in combinations(entities, 2))
    assert list(entities) == sorted(entities, key=lambda one: one.span)
    pairs = [(one.head.span, one.tail.span) for one in relations]
    assert pairs == sorted(set(pairs))
    by_identity = {id(one) for one in entities}
    assert all({id(one.head), id(one.tail)} <= by_identity for one in relations)

    def at(one: Entity, window: Span) -> Entity:
        return Entity(one.span.shift(window.start), one.label)

    everything = [(at(one, window), one.score) for window, given in annotations for one in given.entities]
    for one in entities:
        scores = [score for other, score in everything if other == one]
        assert one.score == max((score for score in scores if score is not None), default=None)
    # Nothing is dropped without something else in its place.
    assert all(any(kept.span.overlaps(one.span) for kept in entities) for one, _ in everything)
    kept_pairs = {(one.head, one.tail) for one in relations}
    assert kept_pairs == {
        (at(one.head, window), at(one.tail, window))
        for window, given in annotations
        for one in given.relations
        if {at(one.head, window), at(one.tail, window)} <= set(entities)
    }


@given(found_in_windows())
def test_merge_does_not_depend_on_the_order_of_the_windows_for_entities(
    found: tuple[list[tuple[Span, Annotation]], int],
) -> None:
    annotations, n_words = found
    assert merge_windows(annotations, n_words).entities == merge_windows(annotations[::-1], n_words).entities


TEXT = "Ann  met Bob in Rome ."
SENTENCE = Sentence(
    tuple(TEXT.split()),
    (Span(0, 3), Span(5, 8), Span(9, 12), Span(13, 15), Span(16, 20), Span(21, 22)),
    TEXT,
)
ANN, BOB, ROME, LONG = entity(0, 1), entity(2, 3), entity(4, 5), entity(1, 6)
EXAMPLE = Example(
    SENTENCE,
    Annotation((ANN, BOB, ROME, LONG), (Relation(ANN, BOB, "r"), Relation(BOB, ROME, "r"), Relation(ANN, ROME, "q"))),
    "one",
)


def test_examples_hold_what_lies_wholly_inside_a_window() -> None:
    (first, second), lost_entities, lost_relations = window_examples(EXAMPLE, [Span(0, 3), Span(2, 6)])
    assert first.sentence == Sentence(("Ann", "met", "Bob"), (Span(0, 3), Span(5, 8), Span(9, 12)), "Ann  met Bob")
    assert first.gold == Annotation((ANN, BOB), (Relation(ANN, BOB, "r"),))
    assert second.sentence.text == "Bob in Rome ."
    assert second.sentence.offsets is not None
    assert [span.of("Bob in Rome .") for span in second.sentence.offsets] == ["Bob", "in", "Rome", "."]
    bob, rome = entity(0, 1), entity(2, 3)
    assert second.gold == Annotation((bob, rome), (Relation(bob, rome, "r"),))
    assert (first.id, second.id) == ("one[0:3]", "one[2:6]")
    assert (lost_entities, lost_relations) == (1, 1)


def test_examples_of_one_window_are_the_example() -> None:
    assert window_examples(EXAMPLE, [Span(0, 6)]) == ([EXAMPLE], 0, 0)
    assert window_examples(EXAMPLE, [Span(0, 6)])[0][0].id == "one"


def test_examples_may_lack_offsets_and_text() -> None:
    words = Example(Sentence(SENTENCE.words), EXAMPLE.gold)
    (first, _), _, _ = window_examples(words, [Span(0, 3), Span(3, 6)])
    assert first.sentence == Sentence(("Ann", "met", "Bob"))


def test_examples_have_words_of_their_sentence_and_of_its_text_around_them() -> None:
    example = Example(Sentence(SENTENCE.words, context=Context(("So", "."), ("He",))), EXAMPLE.gold)
    (first, second), _, _ = window_examples(example, [Span(0, 3), Span(2, 6)], 3)
    assert first.sentence.context == Context(("So", "."), ("in", "Rome", "."))
    assert second.sentence.context == Context((".", "Ann", "met"), ("He",))
    assert window_examples(example, [Span(0, 6)], 3)[0][0] is example
    for one in window_examples(example, [Span(0, 3), Span(2, 6)])[0]:
        assert one.sentence.context == Context()


@given(found_in_windows(), st.integers(1, 8), st.integers(0, 5))
def test_examples_hold_all_but_what_is_counted_as_lost(
    found: tuple[list[tuple[Span, Annotation]], int], max_words: int, overlap: int
) -> None:
    gold = merge_windows(*found)
    n_words = found[1]
    windows = make_windows([1] * n_words, None, max_words, overlap)
    example = Example(Sentence(tuple(map(str, range(n_words)))), gold)
    examples, lost_entities, lost_relations = window_examples(example, windows)
    assert len(examples) == len(windows)
    entities: set[Entity] = set()
    relations: set[Relation] = set()
    for window, one in zip(windows, examples, strict=True):
        assert one.sentence.words == tuple(map(str, range(*window)))
        assert all(entity.span.end <= len(one.sentence) for entity in one.gold.entities)
        assert all({relation.head, relation.tail} <= set(one.gold.entities) for relation in one.gold.relations)
        alone = merge_windows([(window, one.gold)], n_words)
        entities |= set(alone.entities)
        relations |= set(alone.relations)
    assert entities <= set(gold.entities)
    assert relations <= set(gold.relations)
    assert len(gold.entities) - len(entities) == lost_entities
    assert len(gold.relations) - len(relations) == lost_relations
