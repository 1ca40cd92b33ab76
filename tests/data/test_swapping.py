from __future__ import annotations

from relatum.data.swapping import swap_entities
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span


def make(text: str, *marked: tuple[int, int, str], related: tuple[tuple[int, int], ...] = ()) -> Example:
    entities = tuple(Entity(Span(start, end), label) for start, end, label in marked)
    relations = tuple(Relation(entities[head], entities[tail], "In") for head, tail in related)
    return Example(Sentence(tuple(text.split())), Annotation(entities, relations), "one")


BORN = make("Ada Lovelace was born in London .", (0, 2, "Peop"), (5, 6, "Loc"), related=((0, 1),))
RIVER = make("In New York City , Bo swam .", (1, 4, "Loc"), (5, 6, "Peop"), related=((1, 0),))
PLAIN = make("Nothing happened .")


def said(example: Example, entity: Entity) -> str:
    return " ".join(example.sentence.words[slice(*entity.span)])


def test_all_entities_have_words_of_their_label_and_what_is_around_them_stays() -> None:
    copies = swap_entities([BORN, RIVER], 20, 1.0, 0)
    assert len(copies) == 40
    people, places = {"Ada Lovelace", "Bo"}, {"London", "New York City"}
    seen = set()
    for copy in copies[::2]:
        person, place = copy.gold.entities
        assert (person.label, place.label) == ("Peop", "Loc")
        assert said(copy, person) in people
        assert said(copy, place) in places
        assert " ".join(copy.sentence.words) == f"{said(copy, person)} was born in {said(copy, place)} ."
        assert copy.gold.relations == (Relation(person, place, "In"),)
        assert copy.id == "one"
        seen.add((said(copy, person), said(copy, place)))
    assert len(seen) == 4
    reversed_relation = copies[1].gold.relations[0]
    assert (reversed_relation.head.label, reversed_relation.tail.label) == ("Peop", "Loc")
    assert reversed_relation.head.span.start > reversed_relation.tail.span.end


def test_the_share_of_entities_that_change_is_as_asked() -> None:
    names = [make(f"name{number} slept", (0, 1, "Peop")) for number in range(1000)]
    copies = swap_entities(names, 1, 0.3, 0)
    changed = sum(copy.sentence != name.sentence for copy, name in zip(copies, names, strict=True))
    assert 250 < changed < 350


def test_the_same_seed_makes_the_same_copies_and_another_makes_others() -> None:
    names = [make(f"name{number} slept", (0, 1, "Peop")) for number in range(20)]
    assert swap_entities(names, 2, 0.5, 7) == swap_entities(names, 2, 0.5, 7)
    assert swap_entities(names, 2, 0.5, 7) != swap_entities(names, 2, 0.5, 8)


def test_sentences_without_entities_or_with_overlapping_ones_are_not_copied() -> None:
    nested = make("the city of New York", (0, 5, "Loc"), (3, 5, "Loc"))
    gaps = Example(
        Sentence(("left", "and", "right", "arm")),
        Annotation((Entity(Span(0, 4), "Part", (Span(0, 1), Span(3, 4))),)),
    )
    assert swap_entities([PLAIN, nested, gaps], 3, 1.0, 0) == []


def test_entities_that_touch_each_other_stay_apart() -> None:
    touching = make("Ada London Bo", (0, 1, "Peop"), (1, 2, "Loc"), (2, 3, "Peop"))
    for copy in swap_entities([touching, BORN], 10, 1.0, 0)[::2]:
        spans = [entity.span for entity in copy.gold.entities]
        assert [span.start for span in spans] == [0, spans[0].end, spans[1].end]
        assert spans[-1].end == len(copy.sentence)


def test_no_copies_are_made_where_none_are_asked_for() -> None:
    assert swap_entities([BORN, RIVER], 0, 0.5, 0) == []
