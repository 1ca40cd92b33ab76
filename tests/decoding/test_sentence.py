import numpy as np
import pytest

from relatum.decoding.probabilities import Logits
from relatum.decoding.sentence import decode_sentence
from relatum.schema import RelationType, Schema
from relatum.tagging.sequence import SequenceTags
from relatum.tagging.table import TableTags
from relatum.types import Annotation, Entity, Relation, Span

SCHEMA = Schema(("X",), (RelationType("r"),))
SEQUENCE, TABLE = SequenceTags(SCHEMA), TableTags(SCHEMA)  # O B-X I-X; ⊥ →r ←r
GOLD = Annotation(
    (Entity(Span(0, 2), "X"), Entity(Span(3, 4), "X")),
    (Relation(Entity(Span(3, 4), "X"), Entity(Span(0, 2), "X"), "r"),),
)


def probabilities(gold: Annotation) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], ...]:
    table = np.zeros((4, 4), dtype=int)
    for (row, column), tag in TABLE.encode(gold, 4).cells.items():
        table[row, column] = tag
    return np.eye(3)[list(SEQUENCE.encode(gold.entities, 4).tags)], np.eye(3)[table]


def test_sentence_gives_back_its_gold_annotation() -> None:
    words, table = probabilities(GOLD)
    found = decode_sentence(words, table, SEQUENCE, TABLE, "no-relation")
    assert found == GOLD
    assert [entity.score for entity in found.entities] == [1.0, 1.0]
    assert [relation.score for relation in found.relations] == [1.0]


def test_sentence_without_relation_probabilities_has_no_relations() -> None:
    words, _ = probabilities(GOLD)
    assert decode_sentence(words, None, SEQUENCE, TABLE, "no-relation") == Annotation(GOLD.entities)


def test_sentence_takes_given_entities_as_they_are() -> None:
    words, table = probabilities(GOLD)
    split = Entity(Span(0, 3), "X", (Span(0, 1), Span(2, 3)))
    given = (Entity(Span(0, 2), "X", id="T1"), Entity(Span(3, 4), "X"), split, Entity(Span(1, 4), "X"))
    found = decode_sentence(words, table, SEQUENCE, TABLE, "no-relation", given)
    assert found.entities == given
    assert found.entities[0].id == "T1"
    assert found.relations == GOLD.relations  # half of the cells of `split` say r: a tie


def test_sentence_with_no_entities_given_has_no_relations() -> None:
    words, table = probabilities(GOLD)
    assert decode_sentence(words, table, SEQUENCE, TABLE, "no-relation", ()) == Annotation()


def test_sentence_is_read_from_logits_as_from_their_probabilities() -> None:
    words, table = probabilities(GOLD)
    found = decode_sentence(Logits(20 * words), Logits(20 * table), SEQUENCE, TABLE, "no-relation")
    assert found == GOLD
    certain = np.exp(20) / (np.exp(20) + 2)
    assert [one.score for one in found.entities] == pytest.approx([certain] * 2, abs=1e-12)
    assert [one.score for one in found.relations] == pytest.approx([certain], abs=1e-12)
