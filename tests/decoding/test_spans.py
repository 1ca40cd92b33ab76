"""Span decoding against plain loops over the cells of each entity and each pair."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from math import exp
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from relatum.decoding import spans
from relatum.decoding.probabilities import Logits
from relatum.decoding.relations import Constraints
from relatum.decoding.spans import MOST_RELATIONS, MOST_WORDS, SpanChoices, decode_spans
from relatum.errors import RelatumError
from relatum.schema import RelationType, Schema
from relatum.tagging.spans import Overlap, SpanTags
from relatum.types import Annotation, Entity, Relation, Span

SCHEMA = Schema(
    ("X", "Y"),
    (
        RelationType("r", head_labels=("X",), tail_labels=("Y",)),
        RelationType("s", symmetric=True, head_labels=("Y",), tail_labels=("X",)),
        RelationType("q"),
    ),
)
WITHOUT_RELATIONS, WITHOUT_ENTITIES = Schema(("X", "Y")), Schema((), SCHEMA.relation_types[2:])
TAGS = SpanTags(SCHEMA)
TAGGINGS = [TAGS, TAGS, SpanTags(WITHOUT_RELATIONS)]
PADDING = (0.0, 1e30, -1e30, np.inf, -np.inf, np.nan)
N_TAGS = len(TAGS.names)
ANY = SpanChoices()

Table = NDArray[np.floating]
Pair = tuple[Entity, Entity]
seeds = st.integers(0, 2**32 - 1)
all_choices = st.builds(
    SpanChoices,
    st.sampled_from(get_args(Overlap)),
    st.booleans(),
    st.sampled_from(get_args(Constraints)),
    st.sampled_from([0.5, 0.5, 0.2, 0.85]),
    st.sampled_from([0.5, 0.5, 0.2, 0.85]),
)


def entity(start: int, end: int, label: str = "X", *fragments: tuple[int, int]) -> Entity:
    return Entity(Span(start, end), label, tuple(Span(*fragment) for fragment in fragments))


def random_logits(tags: SpanTags, n_words: int, seed: int) -> Table:
    """Return logits of one sentence with some entities and many relations, in single or double precision."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0.5, 3, (n_words, n_words, len(tags.names)))
    logits[..., : len(tags.schema.entity_types)] -= 3
    return logits.astype(np.float32) if seed % 2 else logits


def pad(tables: list[Table], n_extra: int, seed: int) -> Table:
    """Stack the tables of sentences; the padding holds anything."""
    rng = np.random.default_rng(seed)
    n_words = max(len(table) for table in tables) + n_extra
    batch = rng.choice(PADDING, (len(tables), n_words, n_words, tables[0].shape[-1])).astype(tables[0].dtype)
    for row, table in enumerate(tables):
        batch[row, : len(table), : len(table)] = table
    return batch


def squash(logits: Table) -> Table:
    """Return the probability of each logit."""
    return np.array([1 / (1 + exp(-value)) for value in logits.ravel().tolist()]).reshape(logits.shape)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def expect_entities(table: Table, tags: SpanTags, choices: SpanChoices) -> list[Entity]:
    """Score every span of words for every type; of those in conflict take the best."""
    likely = []
    for start, last in product(range(len(table)), repeat=2):
        for label in tags.schema.entity_types:
            tag = tags.names.index(label)
            score = mean([table[start, last, tag], table[last, start, tag]])
            if start <= last and score > choices.entity_threshold:
                likely.append(Entity(Span(start, last + 1), label, score=score))
    kept: list[Entity] = []
    for one in sorted(likely, key=lambda one: one.score or 0, reverse=True):
        words = set(range(*one.span))
        fits = True
        for other in kept:
            others = set(range(*other.span))
            inside = words <= others or others <= words
            fits &= not words & others or choices.overlap == "any" or (choices.overlap == "nested" and inside)
        if fits:
            kept.append(one)
    return sorted(kept, key=lambda one: (one.span, tags.schema.entity_types.index(one.label)))


def words(entity: Entity) -> list[int]:
    """Return the words of the pieces of an entity."""
    return [word for piece in entity.pieces() for word in range(*piece)]


def shares_words(entity: Entity, entities: Iterable[Entity]) -> bool:
    """True if the span of the entity has a word of the span of another."""
    others = [other for other in entities if other != entity]
    return any(set(range(*entity.span)) & set(range(*other.span)) for other in others)


def score_relation(table: Table, pair: Pair, kind: RelationType, entities: list[Entity], tags: SpanTags) -> float:
    """Return the mean over the cells and mirrored cells of a pair; corners limit it where entities share words."""
    head, tail = pair
    arrows = ("↔", "↔") if kind.symmetric else ("→", "←")
    there, back = (tags.names.index(arrow + kind.name) for arrow in arrows)
    cells = list(product(words(head), words(tail)))
    score = mean([(table[i, j, there] + table[j, i, back]) / 2 for i, j in cells])
    if not (shares_words(head, entities) or shares_words(tail, entities)):
        return score
    ends = {"first": (head.span.start, tail.span.start), "last": (head.span.end - 1, tail.span.end - 1)}
    for name, (i, j) in ends.items():
        tag = tags.names.index(name)
        score = min(score, mean([table[i, j, tag], table[j, i, tag]]), mean([table[i, j, there], table[j, i, back]]))
    return score


def is_possible(
    head: Entity, tail: Entity, kind: RelationType, choices: SpanChoices, entities: Iterable[Entity]
) -> bool:
    later = (head.span, head.label, head.fragments) > (tail.span, tail.label, tail.fragments)
    if head == tail or (kind.symmetric and later):
        return False
    if kind.allows(head.label, tail.label):
        return True
    heads, tails = ([other for other in entities if words(other) == words(one)] for one in (head, tail))
    others = [kind.allows(one.label, other.label) for one, other in product(heads, tails) if one != other]
    return choices.constraints == "none" and not any(others)


def expect_relations(table: Table, entities: list[Entity], tags: SpanTags, choices: SpanChoices) -> list[Relation]:
    """Score every type for every ordered pair of different entities."""
    relations = []
    for head, tail in product(dict.fromkeys(entities), repeat=2):
        kinds = [kind for kind in tags.schema.relation_types if is_possible(head, tail, kind, choices, entities)]
        scores = [score_relation(table, (head, tail), kind, entities, tags) for kind in kinds]
        of_pair = [Relation(head, tail, kind.name, score) for kind, score in zip(kinds, scores, strict=True)]
        if of_pair and not choices.several_relations:
            of_pair = [max(of_pair, key=lambda one: one.score or 0)]
        relations += [one for one in of_pair if (one.score or 0) > choices.relation_threshold]
    return relations


def scores_of(found: Annotation) -> list[float | None]:
    return [one.score for one in found.entities] + [one.score for one in found.relations]


def assert_same(found: Annotation, entities: list[Entity], relations: list[Relation]) -> None:
    """Compare the order and the scores too."""
    expected = Annotation(tuple(entities), tuple(relations))
    assert found == expected
    assert scores_of(found) == pytest.approx(scores_of(expected), rel=1e-9)


@st.composite
def given_entities(draw: st.DrawFn, n_words: int) -> tuple[Entity, ...]:
    """In any order, overlapping, some discontinuous, some twice."""
    entities: list[Entity] = []
    for start in draw(st.lists(st.integers(0, n_words - 1), max_size=5)):
        end = draw(st.integers(start + 1, n_words))
        label = draw(st.sampled_from(SCHEMA.entity_types))
        broken = end - start > 2 and draw(st.booleans())
        fragments = ((start, start + 1), (end - 1, end)) if broken else ()
        entities.append(entity(start, end, label, *fragments))
    return tuple(entities)


lengths_of_batches = st.lists(st.integers(1, 5), min_size=1, max_size=3)


@given(st.sampled_from(TAGGINGS), all_choices, lengths_of_batches, st.integers(0, 2), st.booleans(), seeds)
def test_entities_and_relations_are_those_of_plain_loops(
    tags: SpanTags, choices: SpanChoices, lengths: list[int], n_extra: int, as_logits: bool, seed: int
) -> None:
    logits = [random_logits(tags, n_words, seed + 2 * row) for row, n_words in enumerate(lengths)]
    tables = list(map(squash, logits))
    given_values = Logits(pad(logits, n_extra, seed)) if as_logits else pad(tables, n_extra, seed)
    for table, found in zip(tables, decode_spans(given_values, lengths, tags, choices), strict=True):
        entities = expect_entities(table, tags, choices)
        assert_same(found, entities, expect_relations(table, entities, tags, choices))
        least = min(choices.entity_threshold, choices.relation_threshold)
        assert all(type(score) is float and least < score <= 1 for score in scores_of(found))


@given(all_choices, lengths_of_batches, seeds, st.data())
def test_relations_of_given_entities_are_those_of_plain_loops(
    choices: SpanChoices, lengths: list[int], seed: int, data: st.DataObject
) -> None:
    logits = [random_logits(TAGS, n_words, seed + 2 * row) for row, n_words in enumerate(lengths)]
    entities = [data.draw(given_entities(n_words)) for n_words in lengths]
    decoded = decode_spans(Logits(pad(logits, 1, seed)), lengths, TAGS, choices, entities)
    for table, of_sentence, found in zip(map(squash, logits), entities, decoded, strict=True):
        assert found.entities == of_sentence, "given entities stay as they are, those that are given twice too"
        relations = expect_relations(table, list(of_sentence), TAGS, choices)
        assert_same(replace(found, entities=()), [], relations)


@given(all_choices, lengths_of_batches, st.booleans(), seeds)
def test_results_do_not_depend_on_the_batch(
    choices: SpanChoices, lengths: list[int], as_logits: bool, seed: int
) -> None:
    logits = [random_logits(TAGS, n_words, seed + 2 * row) for row, n_words in enumerate(lengths)]
    tables = logits if as_logits else list(map(squash, logits))
    batch = pad(tables, 2, seed)
    together = decode_spans(Logits(batch) if as_logits else batch, lengths, TAGS, choices)
    for table, found in zip(tables, together, strict=True):
        (alone,) = decode_spans(Logits(table[None]) if as_logits else table[None], [len(table)], TAGS, choices)
        assert found == alone
        assert scores_of(found) == scores_of(alone)


@pytest.mark.parametrize("most", [1, 2, 7])
@pytest.mark.parametrize("several", [True, False])
def test_number_of_cells_decided_together_makes_no_difference(
    monkeypatch: pytest.MonkeyPatch, most: int, several: bool
) -> None:
    lengths, choices = [5, 1, 4], SpanChoices(several_relations=several)
    logits = Logits(pad([random_logits(TAGS, n_words, 2 * n_words) + 2 for n_words in lengths], 0, 0))
    expected = decode_spans(logits, lengths, TAGS, choices)
    assert sum(len(found.entities) ** 2 for found in expected) > 20
    assert sum(len(found.relations) for found in expected) > 7
    largest = []

    def noted(values: Logits, pairs: list[spans._Pair], *others: object) -> object:
        largest.append(sum(pair.head.span.width * pair.tail.span.width for pair in pairs[:-1]))
        return find_relations(values, pairs, *others)  # type: ignore[arg-type]

    find_relations = spans._find_relations
    monkeypatch.setattr(spans, "_find_relations", noted)
    monkeypatch.setattr(spans, "_MOST_CELLS", most)
    found = decode_spans(logits, lengths, TAGS, choices)
    assert found == expected
    assert list(map(scores_of, found)) == list(map(scores_of, expected))
    assert max(largest) == most - 1


def test_entities_beyond_the_limit_are_those_of_the_lowest_scores(caplog: pytest.LogCaptureFixture) -> None:
    """A model that was hardly trained may find every span to be an entity: 300 of each type in 24 words."""
    logits = pad([random_logits(TAGS, n_words, n_words) for n_words in (24, 4)], 1, 0)
    logits[..., : len(SCHEMA.entity_types)] += 5
    (crowded, few) = decode_spans(Logits(logits), [24, 4], TAGS, ANY)
    (alone,) = decode_spans(Logits(logits[1:, :4, :4]), [4], TAGS, ANY)
    assert few == alone
    everything = expect_entities(squash(logits[0, :24, :24]), TAGS, ANY)
    assert sum(one.span.width for one in everything) > 2 * MOST_WORDS
    by_score = sorted(everything, key=lambda one: -(one.score or 0))
    n_words = np.cumsum([one.span.width for one in by_score])
    assert set(crowded.entities) == set(by_score[: int((n_words <= MOST_WORDS).sum())])
    assert "too many entities exceed their threshold in 1 sentences, which keep those with the highest" in caplog.text


def test_long_passage_in_which_every_span_is_an_entity_is_decoded_in_limited_time() -> None:
    tags = SpanTags(Schema(("X", "Y"), tuple(RelationType(f"r{number}") for number in range(20))))
    rng = np.random.default_rng(0)
    logits = rng.normal(3, 1, (1, 300, 300, len(tags.names))).astype(np.float32)
    begun = time.monotonic()
    (found,) = decode_spans(Logits(logits), [300], tags, ANY)
    assert time.monotonic() - begun < 20, "about 1 s; 90,300 entities have 8 billion pairs"
    assert 0 < sum(one.span.width for one in found.entities) <= 600
    assert 0 < len(found.relations) <= MOST_RELATIONS


def test_relations_beyond_the_limit_are_those_of_the_lowest_scores(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lengths = [6, 1, 3]
    logits = Logits(pad([random_logits(TAGS, n_words, 2 * n_words) + 2 for n_words in lengths], 0, 0))
    everything = decode_spans(logits, lengths, TAGS, ANY)
    assert not caplog.text
    monkeypatch.setattr(spans, "MOST_RELATIONS", 5)
    for most in (1, 30, 10_000):
        monkeypatch.setattr(spans, "_MOST_CELLS", most)
        for one, limited in zip(everything, decode_spans(logits, lengths, TAGS, ANY), strict=True):
            best = sorted(one.relations, key=lambda relation: -(relation.score or 0))[:5]
            assert limited.entities == one.entities
            assert limited.relations == tuple(relation for relation in one.relations if relation in best)
    assert "too many relations exceed their threshold" in caplog.text
    assert max(len(one.relations) for one in everything) > 20


def test_relation_of_two_entities_of_the_same_words_is_that_of_the_type_that_the_schema_allows() -> None:
    one, same, other = entity(0, 2), entity(0, 2, "Y"), entity(3, 4, "Y")
    table = np.zeros((1, 4, 4, N_TAGS))
    for row, column in product(range(2), [3]):
        write_tags(table, row, column, **{"→r": (0.9, 0.9), "→q": (0.9, 0.9), "first": (1, 1), "last": (1, 1)})
    for entities in ((one, same, other), (same, other, one)):
        (found,) = decode_spans(table, [4], TAGS, ANY, [entities])
        assert set(found.relations) == {
            Relation(one, other, "r"),  # r connects an X with a Y
            Relation(one, other, "q"),  # q connects anything
            Relation(same, other, "q"),
        }
    (found,) = decode_spans(table, [4], TAGS, ANY, [(same, other)])
    assert Relation(same, other, "r") in found.relations, "without constraints, nothing is left out for its types alone"


def test_score_of_an_entity_is_the_mean_of_its_two_cells() -> None:
    table = np.zeros((1, 3, 3, N_TAGS))
    table[0, 0, 2, 0], table[0, 2, 0, 0] = 0.9, 0.2
    table[0, 1, 2, 1], table[0, 2, 1, 1] = 1.0, 0.0  # 0.5 does not exceed the threshold
    table[0, 1, 1, 1] = 0.6
    (found,) = decode_spans(table, [3], TAGS, ANY)
    assert found == Annotation((entity(0, 3), entity(1, 2, "Y")))
    assert scores_of(found) == pytest.approx([0.55, 0.6])


def write_tags(table: Table, row: int, column: int, **scores: tuple[float, float]) -> None:
    """Write the probabilities of tags in a cell of the first sentence, and in its mirrored cell."""
    for name, (there, back) in scores.items():
        mirrored = f"←{name[1:]}" if name[0] == "→" else name
        table[0, row, column, TAGS.names.index(name)] = there
        table[0, column, row, TAGS.names.index(mirrored)] = back


def test_score_of_a_relation_is_the_mean_of_its_cells() -> None:
    head, tail = entity(0, 2), entity(2, 3, "Y")
    table = np.zeros((1, 3, 3, N_TAGS))
    write_tags(table, 0, 2, **{"→r": (1.0, 0.6)})
    write_tags(table, 1, 2, **{"→r": (0.8, 0.0)})
    (found,) = decode_spans(table, [3], TAGS, ANY, [(head, tail)])
    assert found.relations == (Relation(head, tail, "r"),), "it needs no corners"
    assert [one.score for one in found.relations] == pytest.approx([0.6])
    write_tags(table, 1, 2, **{"→r": (0.4, 0.0)})
    assert decode_spans(table, [3], TAGS, ANY, [(head, tail)])[0].relations == (), "0.5 does not exceed the threshold"


@pytest.mark.parametrize(
    ("first", "last", "score"),
    [
        ((1.0, 1.0), (1.0, 1.0), 0.8),
        ((0.9, 0.5), (1.0, 1.0), 0.7),
        ((1.0, 1.0), (0.5, 0.7), 0.6),
        ((0.6, 0.6), (0.7, 0.7), 0.6),
        ((0.6, 0.4), (1.0, 1.0), None),
        ((1.0, 1.0), (0.0, 1.0), None),
    ],
)
@pytest.mark.parametrize("shared", ["head", "tail", "none"])
def test_corners_limit_the_score_only_where_entities_share_words(
    first: tuple[float, float], last: tuple[float, float], score: float | None, shared: str
) -> None:
    head, tail = entity(0, 2), entity(2, 4, "Y")
    other = {"head": entity(1, 2), "tail": entity(3, 4), "none": entity(4, 5)}[shared]
    table = np.zeros((1, 5, 5, N_TAGS))
    for row, column in product(range(2), range(2, 4)):
        write_tags(table, row, column, **{"→r": (0.8, 0.8)})
    write_tags(table, 0, 2, first=first)
    write_tags(table, 1, 3, last=last)
    (found,) = decode_spans(table, [5], TAGS, ANY, [(head, other, tail)])
    expected = 0.8 if shared == "none" else score
    assert found.relations == (() if expected is None else (Relation(head, tail, "r"),))
    assert [one.score for one in found.relations] == pytest.approx([] if expected is None else [expected])


def test_corners_decide_between_entities_of_the_same_cells() -> None:
    """All cells have the tag; "New York" to "Paris" has both corners, "New" and "York" have one each."""
    new, york, both, paris = entity(0, 1), entity(1, 2), entity(0, 2), entity(2, 3)
    table = np.zeros((1, 3, 3, N_TAGS))
    write_tags(table, 0, 2, **{"→q": (0.9, 0.9), "first": (1.0, 1.0)})
    write_tags(table, 1, 2, **{"→q": (0.9, 0.9), "last": (1.0, 1.0)})
    (found,) = decode_spans(table, [3], TAGS, ANY, [(new, york, both, paris)])
    assert found.relations == (Relation(both, paris, "q"),)
    assert [one.score for one in found.relations] == pytest.approx([0.9])
    (found,) = decode_spans(table, [3], TAGS, ANY, [(new, york, paris)])
    assert found.relations == (Relation(new, paris, "q"), Relation(york, paris, "q")), "without overlap, cells decide"


def test_relation_of_a_discontinuous_entity_is_read_from_the_words_of_its_fragments() -> None:
    head, tail = entity(0, 3, "X", (0, 1), (2, 3)), entity(3, 4)
    table = np.zeros((1, 4, 4, N_TAGS))
    write_tags(table, 0, 3, **{"→q": (0.9, 0.9)})
    write_tags(table, 2, 3, **{"→q": (0.7, 0.7)})
    (found,) = decode_spans(table, [4], TAGS, ANY, [(head, tail)])
    assert found.relations == (Relation(head, tail, "q"),)
    assert [one.score for one in found.relations] == pytest.approx([0.8])


def test_entities_that_are_left_out_need_no_corners() -> None:
    """Once the overlap is settled, the entity that is kept shares no words."""
    table = np.zeros((1, 3, 3, N_TAGS))
    for first, last, score in ((0, 1, 0.9), (1, 1, 0.6), (2, 2, 0.9)):
        write_tags(table, first, last, X=(score, score))
    for row in (0, 1):
        write_tags(table, row, 2, **{"→q": (0.9, 0.9)})
    (found,) = decode_spans(table, [3], TAGS, SpanChoices("none"))
    assert found == Annotation((entity(0, 2), entity(2, 3)), (Relation(entity(0, 2), entity(2, 3), "q"),))
    (found,) = decode_spans(table, [3], TAGS, SpanChoices("nested"))
    assert found == Annotation((entity(0, 2), entity(1, 2), entity(2, 3)))


@pytest.mark.parametrize(
    ("overlap", "kept"),
    [
        ("any", [(0, 2, "X"), (0, 2, "Y"), (1, 3, "X"), (2, 3, "X")]),
        ("nested", [(0, 2, "X"), (0, 2, "Y"), (2, 3, "X")]),
        ("none", [(0, 2, "Y"), (2, 3, "X")]),
    ],
)
def test_entities_in_conflict_give_way_to_the_highest_score(overlap: Overlap, kept: list[tuple[int, int, str]]) -> None:
    table = np.zeros((1, 3, 3, N_TAGS))
    for start, last, kind, score in [(0, 1, 0, 0.8), (0, 1, 1, 0.9), (1, 2, 0, 0.7), (2, 2, 0, 0.6)]:
        table[0, start, last, kind] = table[0, last, start, kind] = score
    (found,) = decode_spans(table, [3], TAGS, SpanChoices(overlap))
    assert found.entities == tuple(entity(*one) for one in kept)


def test_one_relation_of_a_pair_is_the_best_that_the_schema_allows() -> None:
    table = np.zeros((1, 2, 2, N_TAGS))
    for name, score in [("→r", 0.9), ("→q", 0.7), ("←q", 0.8), ("↔s", 0.6)]:
        table[0, 0, 1, TAGS.names.index(name)] = score
        table[0, 1, 0, TAGS.names.index(name.translate(str.maketrans("→←", "←→")))] = score
    head, tail = entity(0, 1, "Y"), entity(1, 2)
    labels = {}
    for several, constraints in product((True, False), get_args(Constraints)):
        choices = SpanChoices(several_relations=several, constraints=constraints)
        (found,) = decode_spans(table, [2], TAGS, choices, [(head, tail)])
        labels[several, constraints] = {(one.head.span.start, one.label) for one in found.relations}
    assert labels == {
        (True, "none"): {(0, "r"), (0, "s"), (0, "q"), (1, "q")},
        (True, "schema"): {(0, "s"), (0, "q"), (1, "q")},  # r needs an X as its head
        (False, "none"): {(0, "r"), (1, "q")},
        (False, "schema"): {(0, "q"), (1, "q")},
    }


@pytest.mark.parametrize("n_relations", [0, 3])
def test_sentence_of_one_word_may_have_entities_of_several_types(n_relations: int) -> None:
    tags = SpanTags(Schema(("X", "Y"), SCHEMA.relation_types[:n_relations]))
    (found,) = decode_spans(Logits(np.full((1, 1, 1, len(tags.names)), 9.0)), [1], tags, ANY)
    one, other = entity(0, 1), entity(0, 1, "Y")
    assert found.entities == (one, other)
    assert len(found.relations) == (4 if n_relations else 0), "q both ways, r as the schema has it, s is symmetric"


def test_without_entities_there_are_no_relations() -> None:
    sure = np.ones((2, 3, 3, len(SpanTags(WITHOUT_ENTITIES).names)))
    assert decode_spans(sure, [3, 2], SpanTags(WITHOUT_ENTITIES), ANY) == [Annotation(), Annotation()]
    none = Logits(np.full((2, 3, 3, N_TAGS), -9.0))
    assert decode_spans(none, [3, 2], TAGS, ANY) == [Annotation(), Annotation()]
    assert decode_spans(np.ones((1, 3, 3, N_TAGS)), [3], TAGS, ANY, [()]) == [Annotation()]
    assert decode_spans(np.ones((0, 3, 3, N_TAGS)), [], TAGS, ANY) == []
    assert decode_spans(np.ones((1, 3, 3, N_TAGS)), [0], TAGS, ANY) == [Annotation()]


def test_extreme_logits_are_certain() -> None:
    logits = np.full((1, 2, 2, N_TAGS), -3e38, dtype=np.float32)
    logits[0, :, :, 0] = 3e38
    (found,) = decode_spans(Logits(logits), [2], TAGS, ANY)
    assert found == Annotation((entity(0, 1), entity(0, 2), entity(1, 2)))
    assert scores_of(found) == [1.0] * 3


@pytest.mark.parametrize("given_ones", [None, [(), ()]])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 1, 2, 0), (1, 1, 0, 10), (0, 2, 2, 5)])
def test_values_of_real_words_must_be_finite(
    value: float, place: tuple[int, ...], given_ones: list[tuple[Entity, ...]] | None
) -> None:
    schema = Schema(("X", "Y", "Z", "U"), SCHEMA.relation_types)
    table = np.zeros((2, 3, 3, 11))
    table[place] = value
    for values in (table, Logits(table)):
        with pytest.raises(RelatumError, match="relation probabilities contain values that are not finite"):
            decode_spans(values, [3, 2], SpanTags(schema), ANY, given_ones)
    table[place] = 0
    table[1, 2, 0] = table[1, 0, 2] = value  # the second sentence has two words
    assert decode_spans(table, [3, 2], SpanTags(schema), ANY) == [Annotation(), Annotation()]


@pytest.mark.parametrize("given_ones", [None, [(entity(0, 1), entity(1, 2))]])
@pytest.mark.parametrize(
    "shape", [(1, 3, 3, N_TAGS - 1), (1, 3, 3, N_TAGS + 1), (1, 3, 4, N_TAGS), (1, 4, 3, N_TAGS), (2, 3, 3, N_TAGS)]
)
def test_wrong_shapes_are_errors(shape: tuple[int, ...], given_ones: list[tuple[Entity, ...]] | None) -> None:
    with pytest.raises(ValueError, match="the relation probabilities have the shape"):
        decode_spans(np.zeros(shape), [3], TAGS, ANY, given_ones)


@pytest.mark.parametrize("shape", [(1, 3, N_TAGS), (1, 3, 3, 3, N_TAGS)])
def test_wrong_number_of_axes_is_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="the relation probabilities have the shape"):
        decode_spans(np.zeros(shape), [3], TAGS, ANY)


def test_sentence_longer_than_the_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="a sentence has 4 words, but the relation probabilities are of 3"):
        decode_spans(np.zeros((1, 3, 3, N_TAGS)), [4], TAGS, ANY)


@pytest.mark.parametrize("schema", [SCHEMA, WITHOUT_RELATIONS])
def test_given_entity_beyond_its_sentence_is_an_error(schema: Schema) -> None:
    tags = SpanTags(schema)
    table = np.zeros((2, 3, 3, len(tags.names)))
    decode_spans(table, [3, 2], tags, ANY, [(entity(2, 3),), (entity(1, 2),)])
    with pytest.raises(ValueError, match=r"X \[2, 3\) does not fit into a sentence of 2 words"):
        decode_spans(table, [3, 2], tags, ANY, [(), (entity(2, 3),)])


def test_entities_are_given_for_every_sentence() -> None:
    with pytest.raises(ValueError, match="zip"):
        decode_spans(np.zeros((2, 3, 3, N_TAGS)), [3, 2], TAGS, ANY, [()])


def test_symmetric_relation_of_a_discontinuous_entity_is_found_once() -> None:
    whole, broken = entity(0, 3), entity(0, 3, "X", (0, 1), (2, 3))
    for entities in ((whole, broken), (broken, whole)):
        (found,) = decode_spans(np.ones((1, 3, 3, N_TAGS)), [3], TAGS, ANY, [entities])
        symmetric = [one for one in found.relations if one.label == "s"]
        assert symmetric == [Relation(whole, broken, "s")]
