from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from relatum.data.documents import (
    Names,
    WordIndex,
    from_words,
    is_joined,
    join_examples,
    join_words,
    map_spans,
    split_parts,
    to_examples,
    word_annotation,
    word_clusters,
)
from relatum.types import Annotation, Context, Document, Entity, Example, Relation, Sentence, Span

Documents = Callable[..., SearchStrategy[Document]]

ROME, ITALY = Entity(Span(0, 1), "Loc", score=0.5, id="T1"), Entity(Span(3, 5), "Loc")
TWO = from_words(
    "two",
    [["Rome", "is"], ["in", "Italy", "proper"]],
    Annotation((ROME, ITALY), (Relation(ROME, ITALY, "In", 0.25, "R1"),)),
    [[Span(0, 1), Span(2, 5)]],
    {"source": "x"},
)


def test_from_words_joins_words_by_spaces_and_sentences_by_newlines() -> None:
    assert TWO.id == "two"
    assert TWO.text == "Rome is\nin Italy proper"
    assert TWO.words == (Span(0, 4), Span(5, 7), Span(8, 10), Span(11, 16), Span(17, 23))
    assert TWO.sentences == (Span(0, 2), Span(2, 5))
    assert TWO.metadata == {"source": "x"}


def test_from_words_moves_annotation_and_clusters_to_characters_and_keeps_scores_and_ids() -> None:
    first, second = TWO.annotation.entities
    assert (first.span, first.score, first.id) == (Span(0, 4), 0.5, "T1")
    assert second.span.of(TWO.text) == "Italy proper"
    (relation,) = TWO.annotation.relations
    assert (relation.head, relation.tail, relation.score, relation.id) == (first, second, 0.25, "R1")
    assert (relation.head.score, relation.head.id) == (0.5, "T1")
    assert TWO.clusters == ((Span(0, 4), Span(8, 23)),)


def test_from_words_moves_fragments() -> None:
    entity = Entity(Span(0, 3), "X", (Span(0, 1), Span(2, 3)))
    document = from_words("d", [["ab", "cd", "ef"]], Annotation((entity,)))
    assert document.annotation.entities == (Entity(Span(0, 8), "X", (Span(0, 2), Span(6, 8))),)


def test_join_words_leaves_no_trace_of_a_sentence_without_words() -> None:
    assert join_words([[], ["a"], [], ["b", "c"], []]) == (
        "a\nb c",
        (Span(0, 1), Span(2, 3), Span(4, 5)),
        (Span(0, 1), Span(1, 3)),
    )
    assert join_words([]) == join_words([[]]) == ("", (), ())


def test_join_words_makes_no_empty_span_of_an_empty_word() -> None:
    with pytest.raises(ValueError, match="empty"):
        join_words([["a", ""]])


@given(st.lists(st.lists(st.text(min_size=1), min_size=1)))
def test_join_words_gives_offsets_under_which_the_words_stand(sentences: list[list[str]]) -> None:
    text, words, ranges = join_words(sentences)
    assert [[words[i].of(text) for i in range(s.start, s.end)] for s in ranges] == sentences


@given(data=st.data())
def test_from_words_is_undone_by_to_examples(data: st.DataObject, word_documents: Documents) -> None:
    document = data.draw(word_documents(crossing=False))
    examples = to_examples(document)
    words, sentences = split_parts(document)
    assert len(examples) == len(sentences)
    for number, (example, sentence) in enumerate(zip(examples, sentences, strict=True), 1):
        assert example.sentence.words == tuple(words[i].of(document.text) for i in range(sentence.start, sentence.end))
        assert example.id == (document.id if len(sentences) == 1 else f"{document.id}#{number}")
        rebuilt = from_words("", [example.sentence.words], example.gold)
        assert to_examples(rebuilt) == [example]
    joined = from_words(
        document.id,
        [example.sentence.words for example in examples],
        Annotation(
            tuple(
                Entity(entity.span.shift(sentence.start), entity.label)
                for example, sentence in zip(examples, sentences, strict=True)
                for entity in example.gold.entities
            )
        ),
    )
    assert (joined.text, joined.words, joined.sentences) == (document.text, document.words, document.sentences)
    assert Counter(joined.annotation.entities) == Counter(document.annotation.entities)
    assert sum(len(example.gold.relations) for example in examples) == len(document.annotation.relations)


@given(data=st.data())
def test_examples_show_the_same_surfaces_as_the_document(data: st.DataObject, word_documents: Documents) -> None:
    document = data.draw(word_documents(crossing=False))
    found: Counter[tuple[str, str]] = Counter()
    for example in to_examples(document):
        assert example.sentence.text is not None
        assert example.sentence.offsets is not None
        offsets = example.sentence.offsets
        assert tuple(span.of(example.sentence.text) for span in offsets) == example.sentence.words
        for entity in example.gold.entities:
            characters = Span(offsets[entity.span.start].start, offsets[entity.span.end - 1].end)
            found[characters.of(example.sentence.text), entity.label] += 1
    assert found == Counter((entity.span.of(document.text), entity.label) for entity in document.annotation.entities)


def test_to_examples_counts_words_and_characters_from_each_sentence() -> None:
    document = from_words(
        "d",
        [["a"], ["see", "Rome", "now"]],
        Annotation((Entity(Span(2, 3), "Loc", score=0.5, id="T9"),)),
    )
    first, second = to_examples(document)
    assert (first.id, second.id) == ("d#1", "d#2")
    assert second.sentence == Sentence(("see", "Rome", "now"), (Span(0, 3), Span(4, 8), Span(9, 12)), "see Rome now")
    assert second.gold == Annotation((Entity(Span(1, 2), "Loc"),))
    assert (second.gold.entities[0].score, second.gold.entities[0].id) == (0.5, "T9")


def test_to_examples_keeps_the_text_between_words_as_it_was() -> None:
    document = Document("d", "  a\u00a0 b  c.", words=(Span(2, 3), Span(5, 6), Span(8, 9)), sentences=(Span(0, 3),))
    (example,) = to_examples(document)
    assert example.sentence == Sentence(("a", "b", "c"), (Span(0, 1), Span(3, 4), Span(6, 7)), "a\u00a0 b  c")


def test_to_examples_of_a_document_without_words_is_empty() -> None:
    assert to_examples(from_words("d", [], Annotation())) == []


def test_split_parts_refuses_a_document_that_has_not_been_split() -> None:
    for document in (Document("d", "a"), Document("d", "a", words=(Span(0, 1),))):
        with pytest.raises(ValueError, match="'d' has not been split"):
            split_parts(document)


@given(data=st.data())
def test_is_joined_of_documents_from_words(data: st.DataObject, word_documents: Documents) -> None:
    assert is_joined(data.draw(word_documents(min_sentences=0)))


@pytest.mark.parametrize("text", ["a  b", " a b", "a b ", "a\nb", "a\tb", "ab", "a\u00a0b"])
def test_is_joined_is_false_where_the_text_has_more_than_its_words(text: str) -> None:
    at = text.index("b")
    words = (Span(text.index("a"), text.index("a") + 1), Span(at, at + 1))
    assert not is_joined(Document("d", text, words=words, sentences=(Span(0, 2),)))


def test_is_joined_is_false_where_words_are_missing() -> None:
    assert not is_joined(Document("d", "a b"))
    assert not is_joined(Document("d", "a b", words=(), sentences=()))
    assert not is_joined(Document("d", "a b c", words=(Span(0, 1), Span(2, 3)), sentences=(Span(0, 2),)))
    assert not is_joined(Document("d", "a b", words=(Span(0, 1), Span(2, 3)), sentences=(Span(0, 1), Span(1, 2))))


def test_is_joined_is_false_where_the_words_stand_elsewhere_than_joining_puts_them() -> None:
    words = (Span(0, 1), Span(1, 3), Span(5, 6))
    assert not is_joined(Document("d", "a    c", words=words, sentences=(Span(0, 3),)))


def test_map_spans_moves_every_span_and_nothing_else() -> None:
    entity = Entity(Span(0, 5), "X", (Span(0, 1), Span(3, 5)), 0.5, "T1")
    moved = map_spans(Annotation((entity,), (Relation(entity, entity, "R", 0.25, "R1"),)), lambda span: span.shift(2))
    expected = Entity(Span(2, 7), "X", (Span(2, 3), Span(5, 7)), 0.5, "T1")
    assert moved == Annotation((expected,), (Relation(expected, expected, "R"),))
    assert (moved.entities[0].score, moved.entities[0].id) == (0.5, "T1")
    assert (moved.relations[0].score, moved.relations[0].id) == (0.25, "R1")
    assert (moved.relations[0].head.score, moved.relations[0].tail.id) == (0.5, "T1")


def _entity(start: int, name: str | None = None, label: str = "X") -> Entity:
    return Entity(Span(start, start + 1), label, id=name)


def test_names_keep_the_ids_there_are_and_make_new_ones_that_are_free() -> None:
    names = Names([_entity(0), _entity(1, "T1"), _entity(2), _entity(3, "T3"), _entity(4)])
    assert names.all == ["T2", "T1", "T4", "T3", "T5"]


def test_names_rename_an_id_that_stands_twice() -> None:
    entities = [_entity(0, "T1"), _entity(1, "T1"), _entity(2, "T2")]
    names = Names(entities)
    assert names.all == ["T1", "T3", "T2"]
    assert [names.of(entity) for entity in entities] == ["T1", "T3", "T2"]


def test_names_tell_equal_entities_apart_by_id() -> None:
    one, two = _entity(0, "a"), _entity(0, "b")
    names = Names([one, two])
    assert names.of(one) == "a"
    assert names.of(two) == "b"
    assert names.of(_entity(0)) == "a", "the first where the id does not tell"
    assert names.of(_entity(0, "c")) == "a"


def test_names_use_their_prefix() -> None:
    assert Names([_entity(0), _entity(1)], "E").all == ["E1", "E2"]


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.sampled_from(["T1", "T2", "a", ""]))))
def test_names_differ_and_lead_back_to_an_equal_entity(items: list[tuple[int, str | None]]) -> None:
    entities = [_entity(start, name) for start, name in items]
    names = Names(entities)
    assert len(set(names.all)) == len(names.all) == len(entities)
    by_name = dict(zip(names.all, entities, strict=True))
    assert all(by_name[names.of(entity)] == entity for entity in entities)
    for entity in entities:
        if entity.id is not None:
            assert entity.id in names.all


@given(data=st.data())
def test_word_index_finds_the_words_that_share_a_character(data: st.DataObject) -> None:
    borders = sorted(data.draw(st.sets(st.integers(0, 20), min_size=2)))
    words = [Span(a, b) for a, b in pairwise(borders) if data.draw(st.booleans())]
    start = data.draw(st.integers(0, 20))
    span = Span(start, data.draw(st.integers(start + 1, 21)))
    touched = [i for i, word in enumerate(words) if word.overlaps(span)]
    index = WordIndex(words)
    assert index.touching(span) == (Span(touched[0], touched[-1] + 1) if touched else None)
    if touched and (words[touched[0]].start, words[touched[-1]].end) == (span.start, span.end):
        assert index.exact(span) == index.touching(span)
    else:
        with pytest.raises(ValueError, match="do not begin and end with a word"):
            index.exact(span)


def test_word_index_of_no_words_finds_none() -> None:
    assert WordIndex([]).touching(Span(0, 5)) is None


@given(data=st.data())
def test_word_annotation_and_clusters_are_what_the_document_was_made_from(
    data: st.DataObject, word_documents: Documents
) -> None:
    document = data.draw(word_documents(clusters=True))
    words, sentences = split_parts(document)
    surfaces = [[words[i].of(document.text) for i in range(s.start, s.end)] for s in sentences]
    again = from_words(
        document.id, surfaces, word_annotation(document), word_clusters(document), dict(document.metadata)
    )
    assert again == document
    assert [e.id for e in again.annotation.entities] == [e.id for e in document.annotation.entities]


def test_word_annotation_of_an_entity_inside_a_word_is_refused() -> None:
    document = Document("d", "Rome", Annotation((Entity(Span(0, 2), "X"),)), (Span(0, 4),), (Span(0, 1),))
    with pytest.raises(ValueError, match=r"characters \[0, 2\) do not begin and end with a word"):
        word_annotation(document)


def test_examples_have_words_of_their_document_around_them() -> None:
    document = from_words("three", [["Rome", "is"], ["in"], ["Italy", "proper"]], Annotation())
    plain, found = to_examples(document), to_examples(document, context=2)
    assert found == plain
    assert [one.sentence.context for one in plain] == [Context()] * 3
    assert [one.sentence.context for one in found] == [
        Context((), ("in", "Italy")),
        Context(("Rome", "is"), ("Italy", "proper")),
        Context(("is", "in"), ()),
    ]


CAPITAL, CITY = Entity(Span(0, 1), "Loc"), Entity(Span(0, 2), "Org")
COUNTRY, RIVER = Entity(Span(4, 5), "Loc"), Entity(Span(6, 7), "Loc")
FULL = Annotation(
    (CAPITAL, CITY, COUNTRY, RIVER),
    (Relation(CAPITAL, CITY, "Of"), Relation(COUNTRY, CAPITAL, "Has"), Relation(COUNTRY, RIVER, "With")),
)
KEPT = Annotation((CITY, COUNTRY, RIVER), (Relation(COUNTRY, RIVER, "With"),))
SENTENCES = [["Rome", "city", "grows"], ["the", "Italy", "of", "Tiber"]]


def reduced() -> list[Example]:
    whole = from_words("d", SENTENCES, FULL)
    return to_examples(from_words("d", SENTENCES, KEPT), full=whole.annotation)


def test_examples_keep_what_their_document_leaves_out_beside_gold() -> None:
    first, second = reduced()
    assert first.gold == Annotation((CITY,))
    later = Entity(Span(4, 5), "Loc")  # in the next sentence, counted from the start of this one
    assert first.left_out == Annotation((CAPITAL,), (Relation(CAPITAL, CITY, "Of"), Relation(later, CAPITAL, "Has")))
    assert second.left_out == Annotation()
    assert second.full_gold is second.gold
    full = [first.full_gold, second.full_gold]
    assert sum(len(one.entities) for one in full) == len(FULL.entities)
    assert sum(len(one.relations) for one in full) == len(FULL.relations)


def test_joined_examples_are_one_document_where_gold_reaches_beyond_a_sentence() -> None:
    found = Annotation((Entity(Span(1, 2), "Loc"),))
    ((gold, other),) = join_examples(reduced(), [Annotation(), found])
    assert gold.id == other.id == "d"
    for side, expected in ((gold, FULL), (other, Annotation((COUNTRY,)))):
        moved = word_annotation(side)
        assert set(moved.entities) == set(expected.entities)
        assert set(moved.relations) == set(expected.relations)


def test_joined_examples_are_single_sentences_otherwise() -> None:
    within = [replace(example, left_out=Annotation()) for example in reduced()]
    pairs = join_examples(within, [Annotation(), Annotation()])
    assert [gold.id for gold, _ in pairs] == ["d#1", "d#2"]
    assert [word_annotation(gold) for gold, _ in pairs] == [example.gold for example in within]


def test_joined_examples_do_not_mix_texts() -> None:
    """Texts whose ids look like those of sentences stay apart from texts that are joined."""
    alone = Example(Sentence(("Oslo",)), Annotation(), "d#3")
    pairs = join_examples([*reduced(), replace(alone, id="e#1"), replace(alone, id="e#2")], [Annotation()] * 4)
    assert [gold.id for gold, _ in pairs] == ["d", "e#1", "e#2"]
