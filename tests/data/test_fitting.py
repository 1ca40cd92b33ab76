from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from relatum.data.documents import from_words, to_examples, word_annotation, word_clusters
from relatum.data.fitting import (
    Crossing,
    Overlaps,
    Policy,
    align,
    crossing_relations,
    fit,
    fit_documents,
    flatten,
    keep_entities,
    overlapping,
    split,
    trim,
)
from relatum.data.formats import Format, get_format
from relatum.data.problems import Problems
from relatum.data.records import BadRecord
from relatum.data.splitting import Splitter
from relatum.errors import Problem
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

Documents = Callable[..., SearchStrategy[Document]]
Through = Callable[[str, Iterable[Document]], list[Document]]

SPLITTER = Splitter(
    lambda text: [Span(*match.span()) for match in re.finditer(r"\S+", text)],
    lambda text: [Span(*match.span()) for match in re.finditer(r"[^\n]*\S[^\n]*", text)],
)
JSONL, SPERT, TABLE, SCIERC = map(get_format, ("jsonl", "spert", "table-sequence", "scierc"))
DISCONTINUOUS = "discontinuous entities left out"
OVERLAPPING = "overlapping entities left out"
RELATIONS = "relations left out with an entity of theirs"
CROSSING = "relations between sentences left out"
ATTRIBUTES = "attributes left out with what they belong to"


def _flat(format: Format) -> Format:
    """The same format as if it held no overlapping entities."""
    return replace(format, holds=replace(format.holds, overlaps=False, same_span=False, discontinuous=False))


def _entity(start: int, end: int, label: str = "X", *fragments: tuple[int, int]) -> Entity:
    return Entity(Span(start, end), label, tuple(Span(*fragment) for fragment in fragments))


def _document(text: str, *entities: Entity, relations: tuple[Relation, ...] = ()) -> Document:
    return Document("d", text, Annotation(entities, relations))


def _fit(
    document: Document, format: Format, overlaps: Overlaps | None = None, crossing: Crossing = "fail"
) -> tuple[Document, dict[str, int]]:
    problems = Problems()
    (fitted,) = fit_documents([document], format, SPLITTER, Policy(overlaps, crossing), problems, "here")
    return fitted, dict(problems.remarks)


def _align(document: Document) -> tuple[Document, dict[str, int]]:
    remarks: Counter[str] = Counter()
    trimmed = trim(split(document, SPLITTER), lambda what, times: remarks.update({what: times}))
    return align(trimmed, lambda what, times: remarks.update({what: times})), dict(+remarks)


def _flatten(
    document: Document, format: Format, overlaps: Overlaps | None
) -> tuple[tuple[Entity, ...], dict[str, int]]:
    remarks: Counter[str] = Counter()
    fitted = flatten(document, format, Policy(overlaps), lambda what, times: remarks.update({what: times}))
    return fitted.annotation.entities, dict(+remarks)


def _ignore(what: str, times: int) -> None:
    del what, times


def _words(document: Document) -> list[list[str]]:
    assert document.words is not None
    assert document.sentences is not None
    words = [word.of(document.text) for word in document.words]
    return [words[sentence.start : sentence.end] for sentence in document.sentences]


def test_split_makes_words_and_sentences_where_there_are_none() -> None:
    assert _words(split(_document("a b\n\nc"), SPLITTER)) == [["a", "b"], ["c"]]


def test_split_leaves_given_words_alone() -> None:
    document = Document("d", "ab", words=(Span(0, 1), Span(1, 2)), sentences=(Span(0, 2),))
    assert split(document, SPLITTER) is document


@pytest.mark.parametrize(
    ("entities", "words", "cuts"),
    [
        ([(0, 9)], ["Rome-born", "Ann"], 0),
        ([(0, 4)], ["Rome", "-born", "Ann"], 1),
        ([(5, 9)], ["Rome-", "born", "Ann"], 1),
        ([(4, 5)], ["Rome", "-", "born", "Ann"], 2),
        ([(0, 4), (5, 9)], ["Rome", "-", "born", "Ann"], 2),
        ([(0, 5), (5, 9)], ["Rome-", "born", "Ann"], 1),
        ([(5, 12)], ["Rome-", "born", "An", "n"], 2),
        ([(0, 4), (0, 4)], ["Rome", "-born", "Ann"], 1),
    ],
)
def test_align_cuts_words_where_entities_begin_and_end(
    entities: list[tuple[int, int]], words: list[str], cuts: int
) -> None:
    document = _document("Rome-born Ann", *(_entity(*span) for span in entities))
    aligned, remarks = _align(document)
    assert _words(aligned) == [words]
    assert remarks == ({"words cut in two where an annotation begins or ends inside them": cuts} if cuts else {})
    assert aligned.annotation == document.annotation
    assert aligned.text == document.text


def test_align_keeps_sentences_in_place_when_words_are_cut() -> None:
    aligned, _ = _align(_document("ab cd\nef gh", _entity(1, 2), _entity(9, 10)))
    assert _words(aligned) == [["a", "b", "cd"], ["ef", "g", "h"]]


def test_align_cuts_words_at_fragments_and_clusters() -> None:
    document = _document("abc def", _entity(0, 7, "X", (0, 1), (6, 7)))
    assert _words(_align(document)[0]) == [["a", "bc", "de", "f"]]
    document = replace(_document("abc def"), clusters=((Span(1, 2), Span(4, 7)),))
    assert _words(_align(document)[0]) == [["a", "b", "c", "def"]]


@pytest.mark.parametrize(
    ("entities", "sentences"),
    [
        ([], [["a"], ["b"], ["c"], ["d"]]),
        ([(0, 3)], [["a", "b"], ["c"], ["d"]]),
        ([(2, 5)], [["a"], ["b", "c"], ["d"]]),
        ([(0, 7)], [["a", "b", "c", "d"]]),
        ([(0, 3), (4, 7)], [["a", "b"], ["c", "d"]]),
        ([(0, 3), (2, 5)], [["a", "b", "c"], ["d"]]),
        ([(0, 3), (0, 3)], [["a", "b"], ["c"], ["d"]]),
    ],
)
def test_align_joins_the_sentences_that_an_entity_spans(
    entities: list[tuple[int, int]], sentences: list[list[str]]
) -> None:
    aligned, remarks = _align(_document("a\nb\nc\nd", *(_entity(*span) for span in entities)))
    assert _words(aligned) == sentences
    joined = 4 - len(sentences)
    assert remarks == ({"sentences joined because an entity spans both": joined} if joined else {})


def test_align_does_not_join_sentences_for_clusters() -> None:
    aligned, remarks = _align(replace(_document("a\nb"), clusters=((Span(0, 3),),)))
    assert _words(aligned) == [["a"], ["b"]]
    assert remarks == {}


def test_trim_takes_white_space_off_annotations_and_says_so() -> None:
    entities = (_entity(0, 2), _entity(3, 5), _entity(1, 4))
    aligned, remarks = _align(replace(_document(" a b ", *entities), clusters=((Span(0, 4), Span(1, 2)),)))
    assert remarks == {"annotations with white space at their ends, which words do not have": 3}
    assert aligned.annotation.entities == (_entity(1, 2), _entity(3, 4), _entity(1, 4))
    assert aligned.clusters == ((Span(1, 4), Span(1, 2)),)
    assert [entity.span for entity in word_annotation(aligned).entities] == [Span(0, 1), Span(1, 2), Span(0, 2)]


def test_trim_takes_relations_attributes_scores_and_ids_along() -> None:
    entity = Entity(Span(0, 2), "X", score=0.5, id="T1")
    relation = Relation(entity, entity, "R", 0.25, "R1")
    document = replace(
        _document("a ", entity, relations=(relation,)),
        attributes=(Attribute(entity, "N"), Attribute(relation, "M", "v")),
    )
    trimmed = trim(document, _ignore)
    moved = _entity(0, 1)
    assert trimmed.annotation == Annotation((moved,), (Relation(moved, moved, "R"),))
    assert (trimmed.annotation.entities[0].score, trimmed.annotation.entities[0].id) == (0.5, "T1")
    assert (trimmed.annotation.relations[0].score, trimmed.annotation.relations[0].id) == (0.25, "R1")
    assert trimmed.attributes == (Attribute(moved, "N"), Attribute(Relation(moved, moved, "R"), "M", "v"))


def test_trim_refuses_an_annotation_of_white_space_alone() -> None:
    with pytest.raises(BadRecord) as caught:
        _align(_document("a  b", _entity(1, 3)))
    assert caught.value.found == "'  ' at characters [1, 3)"
    assert caught.value.expected == "an annotation that holds a word"


def test_align_says_so_where_an_annotation_loses_characters_that_are_in_no_word() -> None:
    document = replace(_document("a-b", _entity(0, 2)), words=(Span(0, 1), Span(2, 3)), sentences=(Span(0, 2),))
    try:
        aligned, remarks = _align(document)
    except BadRecord:
        return
    assert remarks or word_annotation(aligned).entities[0].span.of("a-b") == "a-"


@settings(max_examples=80)
@given(data=st.data())
def test_align_makes_every_annotation_begin_and_end_with_a_word(data: st.DataObject, text_documents: Documents) -> None:
    document = data.draw(text_documents(split=False, worded=True))
    try:
        aligned, remarks = _align(document)
    except BadRecord as bad:
        assert bad.expected == "an annotation that holds a word"  # noqa: PT017
        return
    trimmed = trim(document, _ignore)
    assert replace(aligned, words=None, sentences=None) == trimmed
    assert aligned.words is not None
    assert aligned.sentences is not None
    before = split(document, SPLITTER)
    assert before.words is not None
    assert before.sentences is not None
    cuts = remarks.get("words cut in two where an annotation begins or ends inside them", 0)
    assert len(aligned.words) == len(before.words) + cuts
    covered = [{i for word in part for i in range(word.start, word.end)} for part in (aligned.words, before.words)]
    assert covered[0] == covered[1], "cutting loses no character"
    joined = remarks.get("sentences joined because an entity spans both", 0)
    assert len(aligned.sentences) == len(before.sentences) - joined
    borders = [0, *(sentence.end for sentence in aligned.sentences)]
    assert [sentence.start for sentence in aligned.sentences] == borders[:-1]
    assert borders[-1] == len(aligned.words)
    assert [entity.span.of(document.text) for entity in trimmed.annotation.entities] == [
        entity.span.of(document.text).strip() for entity in document.annotation.entities
    ]
    for entity, original in zip(word_annotation(aligned).entities, trimmed.annotation.entities, strict=True):
        assert any(sentence.contains(entity.span) for sentence in aligned.sentences)
        for piece, characters in zip(entity.pieces(), original.pieces(), strict=True):
            found = Span(aligned.words[piece.start].start, aligned.words[piece.end - 1].end).of(document.text)
            assert found == characters.of(document.text)
    word_clusters(aligned)


def test_overlapping_finds_nested_crossing_and_equal_spans() -> None:
    a, b, c, d, e = _entity(0, 10), _entity(2, 3), _entity(9, 12), _entity(12, 13), _entity(12, 13, "Y")
    assert overlapping([a, b]) == {a, b}
    assert overlapping([a, c]) == {a, c}
    assert overlapping([d, e]) == {d, e}
    assert overlapping([b, c, d]) == set()
    assert overlapping([a, b, c, d, e]) == {a, b, c, d, e}


def test_overlapping_takes_equal_entities_for_one() -> None:
    assert overlapping([_entity(0, 1), _entity(0, 1)]) == set()


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(1, 4), st.sampled_from("XY"))))
def test_overlapping_agrees_with_looking_at_all_pairs(items: list[tuple[int, int, str]]) -> None:
    entities = {_entity(start, start + width, label) for start, width, label in items}
    pairs = [(a, b) for a, b in combinations(entities, 2) if a.span.overlaps(b.span)]
    assert overlapping(entities) == {entity for pair in pairs for entity in pair}


def test_overlapping_goes_by_shared_characters_for_discontinuous_entities_too() -> None:
    broken, inside, across = _entity(0, 9, "X", (0, 2), (7, 9)), _entity(3, 5), _entity(1, 4)
    assert overlapping([broken, inside]) == set()
    assert overlapping([broken, across]) == {broken, across}


NESTED = (_entity(0, 10, "Org"), _entity(5, 9, "Loc"), _entity(11, 14, "Peop"))
BROKEN = _entity(0, 14, "Org", (0, 4), (11, 14))
TEXT = "Bank of Rome Ann x"


@pytest.mark.parametrize(
    ("format", "policy", "kept"),
    [
        (JSONL, None, NESTED),
        (SPERT, None, NESTED),
        (JSONL, "keep", NESTED),
        (SPERT, "keep", NESTED),
        (JSONL, "drop", NESTED[2:]),
        (JSONL, "keep-longest", (NESTED[0], NESTED[2])),
        (_flat(SPERT), "drop", NESTED[2:]),
        (_flat(SPERT), "keep-longest", (NESTED[0], NESTED[2])),
    ],
)
def test_flatten_keeps_or_leaves_out_nested_entities_as_told(
    format: Format, policy: Overlaps | None, kept: tuple[Entity, ...]
) -> None:
    entities, remarks = _flatten(_document(TEXT, *NESTED), format, policy)
    assert entities == kept
    assert remarks == ({OVERLAPPING: 3 - len(kept)} if len(kept) < 3 else {})


@pytest.mark.parametrize(
    ("format", "policy"), [(_flat(SPERT), None), (_flat(SPERT), "fail"), (_flat(SPERT), "keep"), (JSONL, "fail")]
)
def test_flatten_refuses_nested_entities_as_told(format: Format, policy: Overlaps | None) -> None:
    with pytest.raises(BadRecord) as caught:
        _flatten(_document(TEXT, *NESTED), format, policy)
    assert caught.value.found == "an overlapping entity, Org 'Bank of Ro' at characters [0, 10)"
    assert "--overlaps drop or keep-longest" in caught.value.expected


@pytest.mark.parametrize(
    ("format", "policy", "kept"),
    [
        (JSONL, None, (BROKEN, NESTED[1])),
        (JSONL, "drop", (NESTED[1],)),
        (JSONL, "keep-longest", (NESTED[1],)),
        (JSONL, "keep", (NESTED[1],)),
        (SPERT, "keep", (NESTED[1],)),
        (_flat(SPERT), "keep", (NESTED[1],)),
        (SPERT, "drop", (NESTED[1],)),
        (SPERT, "keep-longest", (NESTED[1],)),
    ],
)
def test_flatten_keeps_or_leaves_out_discontinuous_entities_as_told(
    format: Format, policy: Overlaps | None, kept: tuple[Entity, ...]
) -> None:
    entities, remarks = _flatten(_document(TEXT, BROKEN, NESTED[1]), format, policy)
    assert entities == kept
    assert remarks == ({DISCONTINUOUS: 1} if len(kept) < 2 else {})


def test_flatten_that_keeps_overlaps_keeps_all_but_discontinuous_entities() -> None:
    """Types that share a span, entities inside one another and across one another, one of them given twice."""
    entities = (*NESTED, _entity(0, 10, "Loc"), _entity(8, 14, "Org"), NESTED[0])
    assert _flatten(_document(TEXT, *entities), JSONL, "keep") == (entities, {})
    ends = (Relation(BROKEN, NESTED[2], "R"), Relation(NESTED[1], NESTED[0], "R"))
    document = _document(TEXT, BROKEN, *NESTED, relations=ends)
    remarks: Counter[str] = Counter()
    kept = flatten(document, JSONL, Policy("keep"), lambda what, times: remarks.update({what: times}))
    assert kept.annotation == Annotation(NESTED, ends[1:])
    assert +remarks == {DISCONTINUOUS: 1, RELATIONS: 1}


def test_flatten_names_the_remedy_that_leaves_out_least() -> None:
    """A format that holds overlaps loses discontinuous entities only; no such policy helps a flat format."""
    with pytest.raises(BadRecord) as caught:
        _flatten(_document(TEXT, *NESTED, BROKEN), SPERT, None)
    assert "--overlaps keep leaves some out" in caught.value.expected
    assert caught.value.remedy is not None
    assert caught.value.remedy.value == "keep"
    for policy in (None, "keep"):
        with pytest.raises(BadRecord) as caught:
            _flatten(_document(TEXT, *NESTED), _flat(SPERT), policy)
        assert "--overlaps drop or keep-longest leaves some out" in caught.value.expected
        assert caught.value.remedy is not None
        assert caught.value.remedy.value == "keep-longest"


@pytest.mark.parametrize(("format", "policy"), [(SPERT, None), (SPERT, "fail"), (JSONL, "fail")])
def test_flatten_refuses_discontinuous_entities_as_told(format: Format, policy: Overlaps | None) -> None:
    with pytest.raises(BadRecord) as caught:
        _flatten(_document(TEXT, NESTED[1], BROKEN), format, policy)
    assert caught.value.found == "the discontinuous entity Org 'Bank of Rome A' at characters [0, 14)"


@pytest.mark.parametrize("format", [TABLE, SCIERC])
def test_flatten_refuses_two_types_on_one_span_where_the_format_cannot_tell_them_apart(format: Format) -> None:
    one, two, other = _entity(0, 4, "Org"), _entity(0, 4, "Loc"), _entity(0, 7, "Peop")
    for policy in (None, "keep"):
        with pytest.raises(BadRecord, match="Org 'Bank'"):
            _flatten(_document(TEXT, one, two, other), format, policy)
    assert _flatten(_document(TEXT, one, other), format, None) == ((one, other), {})
    assert _flatten(_document(TEXT, one, one), format, None) == ((one, one), {})
    assert _flatten(_document(TEXT, one, two, other), SPERT, None)[0] == (one, two, other)
    assert _flatten(_document(TEXT, one, two), format, "keep-longest")[0] == (one,), "the first where none is longer"


def test_flatten_keeps_the_longest_and_what_lies_beside_it() -> None:
    short, long, middle = _entity(0, 4), _entity(3, 12), _entity(11, 17)
    entities, remarks = _flatten(_document(TEXT, short, long, middle), JSONL, "keep-longest")
    assert entities == (long,)
    assert remarks == {OVERLAPPING: 2}


def test_flatten_keeps_the_order_of_the_entities() -> None:
    entities = (_entity(13, 16), _entity(0, 4), _entity(5, 7), _entity(5, 6))
    assert _flatten(_document(TEXT, *entities), JSONL, "keep-longest")[0] == entities[:3]


def test_flatten_without_overlaps_changes_nothing() -> None:
    document = _document(TEXT, _entity(0, 4), _entity(4, 5), _entity(5, 6))
    for policy in (None, "fail", "drop", "keep-longest", "keep"):
        assert flatten(document, _flat(SPERT), Policy(policy), _ignore) is document


@given(data=st.data())
def test_flatten_leaves_no_overlap_and_accounts_for_every_entity(
    data: st.DataObject, text_documents: Documents
) -> None:
    document = data.draw(text_documents(split=False))
    policies: list[Overlaps] = ["drop", "keep-longest"]
    policy = data.draw(st.sampled_from(policies))
    remarks: Counter[str] = Counter()
    flat = flatten(document, JSONL, Policy(policy), lambda what, times: remarks.update({what: times}))
    old, new = document.annotation, flat.annotation
    assert overlapping(new.entities) == set()
    assert not any(entity.fragments for entity in new.entities)
    assert len(old.entities) - len(new.entities) == remarks[DISCONTINUOUS] + remarks[OVERLAPPING]
    assert remarks[DISCONTINUOUS] == sum(bool(entity.fragments) for entity in old.entities)
    assert len(old.relations) - len(new.relations) == remarks[RELATIONS]
    assert len(document.attributes) - len(flat.attributes) == remarks[ATTRIBUTES]
    ends = {end for relation in new.relations for end in (relation.head, relation.tail)}
    assert ends <= set(new.entities)
    if policy == "keep-longest":
        whole = [entity for entity in old.entities if not entity.fragments]
        for entity in whole:
            assert any(
                kept.span.overlaps(entity.span) and kept.span.width >= entity.span.width for kept in new.entities
            )


def test_keep_entities_takes_relations_and_attributes_along() -> None:
    a, b, c = _entity(0, 1), _entity(1, 2), _entity(2, 3)
    ab, bc = Relation(a, b, "R"), Relation(b, c, "R")
    document = replace(
        _document("abc", a, b, c, relations=(ab, bc)),
        attributes=(Attribute(a, "1"), Attribute(c, "2"), Attribute(ab, "3"), Attribute(bc, "4")),
    )
    remarks: Counter[str] = Counter()
    kept = keep_entities(document, {a, b}, lambda what, times: remarks.update({what: times}))
    assert kept.annotation == Annotation((a, b), (ab,))
    assert kept.attributes == (Attribute(a, "1"), Attribute(ab, "3"))
    assert remarks == {RELATIONS: 1, ATTRIBUTES: 2}


def _across() -> Document:
    a, b, c = _entity(0, 1, "A"), _entity(2, 3, "B"), _entity(4, 5, "C")
    return _document("a b\nc", a, b, c, relations=(Relation(a, b, "In"), Relation(c, a, "Out"), Relation(b, c, "Out")))


def test_crossing_relations_are_those_between_sentences() -> None:
    document = split(_across(), SPLITTER)
    assert [relation.label for relation in crossing_relations(document)] == ["Out", "Out"]
    assert crossing_relations(split(replace(_across(), text="a b c"), SPLITTER)) == []


def test_fit_refuses_crossing_relations_where_the_format_holds_sentences() -> None:
    problems = Problems()
    assert list(fit_documents([_across()], SPERT, SPLITTER, Policy(), problems, "in.jsonl")) == []
    (problem,) = problems.kept
    assert problem == Problem(
        "in.jsonl",
        "the relation Out between sentences, from 'c' to 'a' (and 1 more such relation)",
        "relations inside one sentence, as SpERT JSON holds single sentences; --crossing drop leaves them out, "
        "--crossing join joins their sentences",
        field="document 'd'",
    )


def test_fit_drops_crossing_relations_when_told_and_counts_them() -> None:
    document = _across()
    relation = document.annotation.relations[1]
    document = replace(document, attributes=(Attribute(relation, "N"),))
    fitted, remarks = _fit(document, SPERT, crossing="drop")
    assert [relation.label for relation in fitted.annotation.relations] == ["In"]
    assert remarks[CROSSING] == 2
    assert remarks[ATTRIBUTES] == 1
    assert fitted.attributes == ()


def _three_sentences(*relations: tuple[int, int]) -> Document:
    """One entity in each of four lines, with relations between those of these numbers."""
    entities = tuple(_entity(start, start + 1) for start in (0, 4, 8, 12))
    ends = tuple(Relation(entities[head], entities[tail], "R") for head, tail in relations)
    return _document("a b\nc d\ne f\ng h", *entities, relations=ends)


@pytest.mark.parametrize("format", [SPERT, TABLE, SCIERC])
@pytest.mark.parametrize(
    ("relations", "sentences"),
    [
        ([(0, 1)], [(0, 4), (4, 6), (6, 8)]),
        ([(1, 0)], [(0, 4), (4, 6), (6, 8)]),
        ([(2, 0)], [(0, 6), (6, 8)]),
        ([(0, 1), (3, 2)], [(0, 4), (4, 8)]),
        ([(0, 2), (1, 3)], [(0, 8)]),
        ([], [(0, 2), (2, 4), (4, 6), (6, 8)]),
    ],
)
def test_fit_joins_the_sentences_of_crossing_relations_and_counts_them(
    format: Format, relations: list[tuple[int, int]], sentences: list[tuple[int, int]]
) -> None:
    document = _three_sentences(*relations)
    fitted, remarks = _fit(document, format, crossing="join")
    assert list(fitted.sentences or ()) == sentences
    assert fitted.annotation == document.annotation
    assert remarks.get("sentences joined because a relation connects them", 0) == 4 - len(sentences)
    assert CROSSING not in remarks


def test_fit_joins_sentences_for_relations_that_overlapping_entities_lose() -> None:
    document = _three_sentences((0, 1))
    nested = replace(document.annotation, entities=(*document.annotation.entities, _entity(0, 3, "Y")))
    fitted, remarks = _fit(replace(document, annotation=nested), _flat(SPERT), "keep-longest", "join")
    assert fitted.annotation.relations == ()
    assert list(fitted.sentences or ()) == [(0, 4), (4, 6), (6, 8)]
    assert remarks["sentences joined because a relation connects them"] == 1


def test_fit_leaves_sentences_alone_where_the_format_needs_none() -> None:
    document = split(_three_sentences((0, 3)), SPLITTER)
    assert _fit(document, JSONL, crossing="join") == (document, {})


def test_fit_refuses_annotations_inside_words_when_told() -> None:
    document = _document("Oslo-based", _entity(0, 4))
    (cut,) = fit_documents([document], SPERT, SPLITTER, Policy(), Problems(), "here")
    assert cut.words == (Span(0, 4), Span(4, 10))
    problems = Problems()
    assert not list(fit_documents([document], SPERT, SPLITTER, Policy(inside_words="fail"), problems, "here"))
    (problem,) = problems.kept
    assert problem.found == "'Oslo' at characters [0, 4), which begins or ends inside a word"
    assert problem.expected == "annotations of whole words; --set data.inside_words=cut cuts the words there"
    whole = _document("Oslo based", _entity(0, 4))
    assert list(fit_documents([whole], SPERT, SPLITTER, Policy(inside_words="fail"), Problems(), "here"))


def test_fit_keeps_crossing_relations_where_the_format_holds_documents() -> None:
    fitted, remarks = _fit(_across(), SCIERC)
    assert fitted.annotation == _across().annotation
    assert remarks == {}


def test_fit_leaves_a_document_alone_where_the_format_holds_everything() -> None:
    entity = Entity(Span(0, 3), "X", (Span(0, 1), Span(2, 3)), 0.5)
    document = Document(
        "d",
        "a  b",
        Annotation((entity, _entity(1, 3)), ()),
        clusters=((Span(1, 2),),),
        attributes=(Attribute(entity, "N"),),
        metadata={"a": 1},
    )
    assert _fit(document, JSONL) == (document, {})


def test_fit_reports_each_loss_once() -> None:
    entity = Entity(Span(0, 1), "X", score=0.5)
    relation = Relation(entity, entity, "R", score=0.5)
    document = Document(
        "d",
        "a  b.\nc",
        Annotation((entity,), (relation,)),
        clusters=((Span(0, 1),), (Span(3, 4),)),
        attributes=(Attribute(entity, "N"), Attribute(relation, "M")),
        metadata={"a": 1},
    )
    _, remarks = _fit(document, SPERT)
    assert remarks == {
        "texts of which SpERT JSON keeps only the words": 1,
        "documents written sentence by sentence, as SpERT JSON holds no documents": 1,
        "documents whose metadata is left out, as it belongs to no single sentence": 1,
        "clusters left out, which SpERT JSON cannot hold": 2,
        "attributes left out, which SpERT JSON cannot hold": 2,
        "scores left out, which SpERT JSON cannot hold": 2,
    }
    _, remarks = _fit(document, SCIERC)
    assert remarks == {
        "words cut in two where an annotation begins or ends inside them": 1,
        "texts of which SciERC / DyGIE++ JSONL keeps only the words": 1,
        "attributes left out, which SciERC / DyGIE++ JSONL cannot hold": 2,
        "scores left out, which SciERC / DyGIE++ JSONL cannot hold": 2,
    }


def test_fit_has_nothing_to_say_about_words() -> None:
    document = from_words("d", [["a", "b"]], Annotation((Entity(Span(0, 1), "X"),)), metadata={"a": 1})
    for format in (JSONL, SPERT, TABLE, SCIERC):
        assert _fit(document, format) == (document, {})


@pytest.mark.parametrize("word", ["\u00a0", "\u2009", " a", "a ", "New York", "\n"])
def test_fit_leaves_words_with_white_space_alone(word: str, written_and_read: Through) -> None:
    document = from_words("d", [["see", word, "now"]], Annotation((Entity(Span(1, 2), "X"),)))
    for format in (JSONL, SPERT, TABLE, SCIERC):
        assert _fit(document, format) == (document, {})
        assert written_and_read(format.name, [document]) == [document]


@settings(max_examples=50)
@given(data=st.data())
def test_fit_leaves_documents_of_words_alone(data: st.DataObject, word_documents: Documents) -> None:
    document = data.draw(word_documents(same_span=False, clusters=True))
    fitted, remarks = _fit(document, SCIERC)
    assert fitted == document
    assert not [remark for remark in remarks if "left out" not in remark]


def test_fit_documents_reports_every_document_that_does_not_fit_and_goes_on() -> None:
    good = replace(_document("a b", _entity(0, 1)), id="good")
    blank = replace(_document("a b", _entity(1, 2)), id="blank")
    broken = replace(_document("a b c", _entity(0, 5, "X", (0, 1), (4, 5))), id="broken")
    problems = Problems()
    documents = [blank, good, broken, _across(), replace(good, id="last")]
    fitted = list(fit_documents(documents, SPERT, SPLITTER, Policy(), problems, "in.jsonl"))
    assert [document.id for document in fitted] == ["good", "last"]
    assert [problem.field for problem in problems.kept] == ["document 'blank'", "document 'broken'", "document 'd'"]
    assert all(problem.path == "in.jsonl" for problem in problems.kept)


def test_fit_documents_names_the_first_document_of_a_remark() -> None:
    problems = Problems()
    documents = [replace(_document("ab", _entity(0, 1)), id=name) for name in ("one", "two")]
    list(fit_documents(documents, SPERT, SPLITTER, Policy(), problems, "in.jsonl"))
    assert problems.remark_lines() == [
        "2 × words cut in two where an annotation begins or ends inside them (first: in.jsonl, one)",
        "2 × texts of which SpERT JSON keeps only the words (first: in.jsonl, one)",
    ]


def test_fit_keeps_a_complaint_about_a_long_entity_short() -> None:
    text = "x" * 1_000_000
    problems = Problems()
    document = _document(text, _entity(0, len(text)), _entity(0, len(text) - 1))
    assert list(fit_documents([document], JSONL, SPLITTER, Policy("fail"), problems, "in.jsonl")) == []
    assert len(str(problems.kept[0])) < 1000


def test_fit_raises_bad_record_for_one_document() -> None:
    with pytest.raises(BadRecord):
        fit(_across(), SPERT, SPLITTER, Policy(), _ignore)


@pytest.mark.parametrize("format", [SPERT, TABLE, SCIERC])
@pytest.mark.parametrize("text", ["", "  \n"])
def test_fit_does_not_lose_a_document_without_words_in_silence(
    format: Format, text: str, written_and_read: Through
) -> None:
    problems = Problems()
    fitted = list(fit_documents([_document(text)], format, SPLITTER, Policy(), problems, "here"))
    found = written_and_read(format.name, fitted)
    if format is SCIERC:
        assert [document.id for document in found] == ["d"]
    else:
        assert found == []
        assert problems.remarks[f"documents without words left out, which {format.title} cannot hold"] == 1


def test_fit_tells_apart_types_that_fall_on_one_span_only_in_words() -> None:
    place, group, other = _entity(0, 4, "Loc"), _entity(0, 5, "Org"), _entity(5, 8, "Peop")
    document = _document("Rome Ann", place, group, other, relations=(Relation(group, other, "R"),))
    for format in (TABLE, SCIERC):
        problems = Problems()
        fitted = list(fit_documents([document], format, SPLITTER, Policy(), problems, "here"))
        assert fitted == []
        assert "an overlapping entity" in problems.kept[0].found, f"{format.name} could give the relation to another"


@pytest.mark.parametrize("format", [SPERT, TABLE])
def test_fit_gives_sentences_ids_that_can_be_read_back(format: Format, written_and_read: Through) -> None:
    documents = [replace(_document("a\nb"), id="d"), replace(_document("c"), id="d#1")]
    problems = Problems()
    fitted = list(fit_documents(documents, format, SPLITTER, Policy(), problems, "here"))
    assert len(written_and_read(format.name, fitted)) == 2
    assert [problem.found for problem in problems.kept] == ["the sentence id 'd#1' again"]


@settings(max_examples=60)
@given(data=st.data())
@pytest.mark.parametrize("format", [SPERT, TABLE, SCIERC, JSONL], ids=["spert", "table-sequence", "scierc", "jsonl"])
def test_what_is_fitted_is_read_back_as_it_was_fitted(
    format: Format, data: st.DataObject, text_documents: Documents, written_and_read: Through
) -> None:
    document = data.draw(text_documents(split=False, worded=True))
    policy = Policy(
        data.draw(st.sampled_from([None, "fail", "drop", "keep-longest"])), data.draw(st.sampled_from(["fail", "drop"]))
    )
    problems = Problems()
    fitted = list(fit_documents([document], format, SPLITTER, policy, problems, "here"))
    wordless = f"documents without words left out, which {format.title} cannot hold"
    assert len(fitted) + problems.count + problems.remarks[wordless] == 1
    if not fitted:
        return
    (kept,) = fitted
    old, new, remarks = document.annotation, kept.annotation, problems.remarks
    assert len(old.entities) - len(new.entities) == remarks[DISCONTINUOUS] + remarks[OVERLAPPING]
    assert len(old.relations) - len(new.relations) == remarks[RELATIONS] + remarks[CROSSING]
    found = written_and_read(format.name, fitted)
    if format is JSONL:
        assert found == fitted
    elif format is SCIERC:
        assert [_in_words(one) for one in found] == [_in_words(kept)]
    elif kept.sentences:
        assert [to_examples(one)[0].gold for one in found] == [example.gold for example in to_examples(kept)]
        assert [to_examples(one)[0].sentence.words for one in found] == [e.sentence.words for e in to_examples(kept)]


def _in_words(document: Document) -> tuple[object, ...]:
    annotation = word_annotation(document)
    return (_words(document), Counter(annotation.entities), Counter(annotation.relations), word_clusters(document))
