"""What holds of every analysis, and the counts of one that can be done by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.data.documents import from_words
from relatum.data.splitting import make_splitter
from relatum.evaluation.metrics import TaskScores, evaluate
from relatum.lab.errors.analysis import ErrorAnalysis, TaskErrors, analyse
from relatum.lab.errors.seen import Seen
from relatum.lab.errors.sentences import pair_examples
from relatum.schema import RelationType, Schema
from relatum.types import Annotation, Document, Entity, Example, Prediction, Relation, Sentence, Span

SCHEMA = Schema(("A", "B"), (RelationType("r"), RelationType("s", symmetric=True), RelationType("t")))
SENTENCES = (("a", "b", "c"), ("d", "e"), ("f", "g", "h", "i"))
N_WORDS = sum(map(len, SENTENCES))

# Few places and labels, so that matches, near misses and duplicates are all common.
spans = st.builds(lambda start, width: Span(start, min(start + width, N_WORDS)), st.integers(0, 6), st.integers(1, 3))
fragments = st.sampled_from([(), (), (), (Span(0, 1), Span(2, 3)), (Span(0, 1), Span(3, 4))])
entities = st.builds(Entity, spans, st.sampled_from("AB"), fragments)
relations = st.builds(Relation, entities, entities, st.sampled_from("rst"))
annotated = st.builds(Annotation, st.lists(entities, max_size=6).map(tuple), st.lists(relations, max_size=6).map(tuple))
documents = annotated.map(lambda annotation: from_words("x", SENTENCES, annotation))
corpora = st.lists(st.tuples(documents, documents), max_size=4)
TRAIN = [from_words("t", [("A", "d", "x")], Annotation((Entity(Span(0, 1), "A"), Entity(Span(1, 2), "B"))))]


def tasks(analysis: ErrorAnalysis) -> list[TaskErrors]:
    return [analysis.entities, analysis.relations]


@given(corpora)
def test_right_and_the_kinds_are_all_of_gold_and_of_the_found(corpus: list[tuple[Document, Document]]) -> None:
    analysis = analyse(corpus, SCHEMA)
    scores = evaluate([(gold.annotation, found.annotation) for gold, found in corpus], SCHEMA)
    pairs: list[tuple[TaskErrors, TaskScores]] = [
        (analysis.entities, scores.entities),
        (analysis.relations, scores.relations_strict),
    ]
    for task, scored in pairs:
        assert task.total.gold.keys() | task.total.found.keys() <= {"right", *task.kinds}
        assert task.total.gold["right"] == task.total.found["right"]
        # The very scores of the plain evaluation: the same items are right, and all are counted.
        assert task.total.score() == scored.micro
        assert {label: tally.score() for label, tally in task.types.items()} == dict(scored.types)


@given(corpora)
def test_mending_never_hurts_and_mending_all_is_perfect(corpus: list[tuple[Document, Document]]) -> None:
    for task in tasks(analyse(corpus, SCHEMA)):
        total = task.total
        f1 = total.score().f1
        for kind in task.kinds:
            assert f1 <= total.f1_without([kind]) <= 1
            assert (total.f1_without([kind]) > f1) == (
                total.gold[kind] + total.found[kind] > 0 and bool(f1 or total.gold[kind])
            )
        for kinds in task.families.values():
            assert total.f1_without(kinds) >= max(total.f1_without([kind]) for kind in kinds)
        for tally in task.types.values():
            assert f1 <= total.f1_without_errors_of(tally) <= 1
        assert total.f1_without(task.kinds) == total.f1_without_errors_of(total) == (1.0 if total.gold.total() else 0.0)


@given(corpora)
def test_groups_of_every_breakdown_add_up(corpus: list[tuple[Document, Document]]) -> None:
    analysis = analyse(corpus, SCHEMA, Seen(TRAIN))
    for breakdown in analysis.breakdowns:
        for task, groups in zip(tasks(analysis), (breakdown.entities, breakdown.relations), strict=True):
            for side in ("gold", "found"):
                counts = [getattr(tally, side) for tally in groups.values()]
                for kind in ("right", *task.kinds):
                    assert not groups or sum(count[kind] for count in counts) == getattr(task.total, side)[kind]
            for tally in groups.values():
                assert tally.gold["right"] == tally.found["right"]
                assert tally.score().precision <= 1


@given(corpora)
def test_an_analysis_is_the_same_each_time_and_fits_json(corpus: list[tuple[Document, Document]]) -> None:
    record = analyse(corpus, SCHEMA, Seen(TRAIN)).to_dict(n_worst=3)
    assert json.loads(json.dumps(record)) == record
    turned = [(_turned(gold), _turned(found)) for gold, found in corpus]
    assert analyse(turned, SCHEMA, Seen(TRAIN)).to_dict(n_worst=3) == record


def _turned(document: Document) -> Document:
    annotation = document.annotation
    return replace(document, annotation=Annotation(annotation.entities[::-1], annotation.relations[::-1]))


WORDS = ("Anna", "Berg", "of", "Rome", "works", "for", "Acme", ".")
ANNA, ROME, ACME = Entity(Span(0, 2), "Peop"), Entity(Span(3, 4), "Loc"), Entity(Span(6, 7), "Org")
SHORT_ANNA = Entity(Span(0, 1), "Peop")
GOLD = Annotation((ANNA, ROME, ACME), (Relation(ANNA, ROME, "Live_In"), Relation(ANNA, ACME, "Work_For")))
FOUND = Annotation(
    (SHORT_ANNA, ROME, Entity(Span(6, 7), "Loc")),
    (Relation(SHORT_ANNA, ROME, "Live_In"), Relation(ROME, Entity(Span(6, 7), "Loc"), "Near")),
)


@pytest.fixture
def analysis() -> ErrorAnalysis:
    sentence = Sentence(WORDS)
    right = Example(Sentence(("Rome", ".")), Annotation((Entity(Span(0, 1), "Loc"),)), "easy")
    examples = [right, Example(sentence, GOLD, "hard")]
    found = [Prediction(right.sentence, right.gold), Prediction(sentence, FOUND)]
    train = from_words("t", [("ROME", "and", "acme", "for", "anna")], Annotation((Entity(Span(0, 1), "Loc"),)))
    return analyse(pair_examples(examples, found), seen=Seen([train]))


def test_kinds_and_costs_of_a_case_by_hand(analysis: ErrorAnalysis) -> None:
    total = analysis.entities.total
    assert total.gold == {"right": 2, "boundary": 1, "type": 1} == total.found
    assert total.score().f1 == 2 / 4
    assert total.f1_without(["type"]) == 3 / 4
    assert total.f1_without(["missed"]) == 2 / 4
    relations = analysis.relations.total
    # Live_In has a shifted head on both sides; Work_For is not found, its head shifted; Near has an end of wrong type.
    assert relations.gold == {"argument_boundary": 2}
    assert relations.found == {"argument_boundary": 1, "argument_type": 1}
    # 2 right of 2 gold and 3 found: the spurious one stays.
    assert relations.f1_without(["argument_boundary"]) == 2 * 2 / (2 + 3)
    assert relations.f1_without(["argument_type"]) == 0


def test_spurious_and_missed_change_what_is_found() -> None:
    one, two, three = (Entity(Span(number, number + 1), "A") for number in range(3))
    words = [("a", "b", "c")]
    pair = from_words("x", words, Annotation((one, two))), from_words("x", words, Annotation((one, three)))
    total = analyse([pair]).entities.total
    assert total.score().f1 == 2 / 4
    assert total.f1_without(["missed"]) == 2 * 2 / (2 + 3)
    assert total.f1_without(["spurious"]) == 2 * 1 / (2 + 1)
    assert total.f1_without(["missed", "spurious"]) == 1


def test_confusions_count_matched_types_and_none(analysis: ErrorAnalysis) -> None:
    assert analysis.entities.confusion == {("Loc", "Loc"): 2, ("Org", "Loc"): 1, ("Peop", "Peop"): 1}
    assert analysis.relations.confusion == {
        ("Live_In", "Live_In"): 1,
        ("Work_For", None): 1,
        (None, "Near"): 1,
    }


def test_breakdowns_of_a_case_by_hand(analysis: ErrorAnalysis) -> None:
    found = {breakdown.name: breakdown for breakdown in analysis.breakdowns}
    supports = {
        name: (
            {group: tally.score().support for group, tally in breakdown.entities.items()},
            {group: tally.score().support for group, tally in breakdown.relations.items()},
        )
        for name, breakdown in found.items()
    }
    assert supports == {
        "length": ({"2": 1, "3–8": 3}, {"3–8": 2}),
        "n_entities": ({"1": 1, "3": 3}, {"3": 2}),
        "n_relations": ({"0": 1, "2": 3}, {"2": 2}),
        "width": ({"1": 3, "2": 1}, {}),
        # Between Anna Berg and Rome is one word, between her and Acme are four.
        "distance": ({}, {"1": 1, "2–4": 1}),
        # Acme was seen as a word only, and of Anna Berg one word; Acme found as Loc is no other.
        "seen": ({"as this type": 2, "all its words": 1, "some of its words": 1}, {}),
        "arguments_seen": ({}, {"one argument": 1, "no argument": 1}),
    }
    assert found["width"].entities["1"].found == {"right": 2, "boundary": 1, "type": 1}


def test_seen_in_training_tells_entities_from_words() -> None:
    document = from_words(
        "t", [("New", "York", "and", "Paris")], Annotation((Entity(Span(0, 2), "Loc"), Entity(Span(3, 4), "Peop")))
    )
    seen = Seen([document])
    assert seen.n_sentences == 1
    assert seen.entity_group(("new", "york"), "Loc") == "as this type"
    assert seen.entity_group(("paris",), "Loc") == "as another type only"
    assert seen.entity_group(("york",), "Loc") == "all its words"
    assert seen.entity_group(("york", "city"), "Loc") == "some of its words"
    assert seen.entity_group(("rome",), "Loc") == "none of its words"
    assert seen.relation_group(("new", "york"), ("paris",)) == "both arguments"
    assert seen.relation_group(("york",), ("paris",)) == "one argument"
    assert seen.relation_group(("york",), ("rome",)) == "no argument"


def test_the_worst_sentences_have_most_errors_and_none_has_none(analysis: ErrorAnalysis) -> None:
    (worst,) = analysis.worst(5)
    assert (worst.id, worst.n_errors, worst.text) == ("hard", 2 + 3, " ".join(WORDS))
    assert analysis.worst(0) == []


def test_matches_belong_to_the_sentence_where_they_begin() -> None:
    words = [("a", "b"), ("c", "d", "e")]
    early, late, across = Entity(Span(0, 1), "A"), Entity(Span(3, 4), "A"), Entity(Span(1, 3), "A")
    gold = from_words("x", words, Annotation((early, late, across), (Relation(late, early, "r"),)))
    first, second = analyse([(gold, from_words("x", words, Annotation()))]).sentences
    assert (first.id, first.text, first.n_gold_entities, first.n_gold_relations) == ("x#1", "a b", 2, 0)
    assert (second.id, second.text, second.n_gold_entities, second.n_gold_relations) == ("x#2", "c d e", 1, 1)
    assert second.relations[0].gold is not None
    assert second.distance(second.relations[0].gold) == 2


def test_documents_that_were_not_split_are_split() -> None:
    document = Document("x", "Anna sleeps. Acme Ltd works.", Annotation((Entity(Span(13, 21), "Org"),)))
    analysis = analyse([(document, document)], seen=Seen([document]))
    assert [sentence.n_gold_entities for sentence in analysis.sentences] == [0, 1]
    assert list({one.name: one.entities for one in analysis.breakdowns}["width"]) == ["2"]
    whole = analyse([(document, document)], splitter=make_splitter("rules", "none"))
    assert len(whole.sentences) == 1


def test_annotations_of_a_document_without_words_count_all_the_same() -> None:
    gold = Document("x", "  ", Annotation((Entity(Span(0, 1), "A"),)), (), ())
    analysis = analyse([(gold, gold)])
    assert analysis.entities.total.gold == {"right": 1}
    assert analysis.sentences[0].text == ""
