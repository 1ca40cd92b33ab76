"""One object for the tags of words and of cells."""

from __future__ import annotations

from relatum.config import TaggingConfig
from relatum.schema import RelationType, Schema
from relatum.tagging.tagging import Tagging
from relatum.types import Annotation, Entity, Relation, Span

SCHEMA = Schema(("Loc",), (RelationType("In"), RelationType("Near", symmetric=True)))
ROME, ITALY, SEA = (Entity(Span(n, n + 1), "Loc") for n in range(3))


def test_settings_choose_the_tags_of_words_and_of_cells() -> None:
    tagging = Tagging.of(SCHEMA, TaggingConfig(scheme="bioes", fill="lower", cells="last", directed=False))
    assert tagging.words.names == ("O", "B-Loc", "I-Loc", "E-Loc", "S-Loc")
    assert tagging.cells.names == ("⊥", "In", "↔Near")
    assert tagging.fill_mask(2).tolist() == [[False, False], [True, False]]


def test_sentence_has_tags_and_what_they_do_not_express() -> None:
    tagging = Tagging.of(SCHEMA, TaggingConfig(conflicts="first"))
    nested = Entity(Span(0, 2), "Loc")
    gold = Annotation((ROME, ITALY, SEA, nested), (Relation(ITALY, SEA, "In"), Relation(ITALY, SEA, "Near")))
    tagged = tagging.encode(gold, 3)
    assert len(tagged.word_tags) == 3
    assert set(tagged.cell_tags) == {(1, 2), (2, 1)}
    assert [lost.entity for lost in tagged.lost_entities]
    assert [lost.relation.label for lost in tagged.lost_relations] == ["Near"]
    expressible = tagging.find_expressible(gold, 3)
    assert expressible.relations == (Relation(ITALY, SEA, "In"),)
    assert set(expressible.entities) < set(gold.entities)


def test_types_that_the_schema_does_not_know_cannot_be_expressed() -> None:
    tagging = Tagging.of(SCHEMA, TaggingConfig())
    other = Entity(Span(2, 3), "Time")
    gold = Annotation((ROME, other), (Relation(ROME, other, "At"),))
    assert tagging.find_expressible(gold, 3) == Annotation((ROME,))
