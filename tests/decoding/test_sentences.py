import numpy as np
import pytest

from relatum.decoding.probabilities import Logits, Probabilities
from relatum.decoding.sentences import DecodingOptions, decode_sentences
from relatum.errors import RelatumError
from relatum.schema import RelationType, Schema
from relatum.tagging.sequence import SequenceTags
from relatum.tagging.table import TableTags
from relatum.tagging.tagging import Tagging
from relatum.types import Annotation, Entity, Relation, Span

SCHEMA = Schema(("X",), (RelationType("r"),))
SEQUENCE, TABLE = SequenceTags(SCHEMA), TableTags(SCHEMA)  # O B-X I-X; ⊥ →r ←r
TAGGING = Tagging(SCHEMA, SEQUENCE, TABLE)
GOLD = Annotation(
    (Entity(Span(0, 2), "X"), Entity(Span(3, 4), "X")),
    (Relation(Entity(Span(3, 4), "X"), Entity(Span(0, 2), "X"), "r"),),
)


def probabilities(gold: Annotation) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], ...]:
    table = np.zeros((4, 4), dtype=int)
    for (row, column), tag in TABLE.encode(gold, 4).cells.items():
        table[row, column] = tag
    return np.eye(3)[list(SEQUENCE.encode(gold.entities, 4).tags)], np.eye(3)[table]


def decode_one(
    words: Probabilities | Logits, table: Probabilities | Logits | None, given: tuple[Entity, ...] | None = None
) -> Annotation:
    def batch(one: Probabilities | Logits) -> Probabilities | Logits:
        return Logits(one.values[None]) if isinstance(one, Logits) else one[None]

    tables = None if table is None else batch(table)
    entities = None if given is None else [given]
    (found,) = decode_sentences(batch(words), tables, [4], TAGGING, DecodingOptions(), entities)
    return found


def test_sentence_gives_back_its_gold_annotation() -> None:
    words, table = probabilities(GOLD)
    found = decode_one(words, table)
    assert found == GOLD
    assert [entity.score for entity in found.entities] == [1.0, 1.0]
    assert [relation.score for relation in found.relations] == [1.0]


def test_sentence_without_relation_probabilities_has_no_relations() -> None:
    words, _ = probabilities(GOLD)
    assert decode_one(words, None) == Annotation(GOLD.entities)


def test_sentence_takes_given_entities_as_they_are() -> None:
    words, table = probabilities(GOLD)
    split = Entity(Span(0, 3), "X", (Span(0, 1), Span(2, 3)))
    given = (Entity(Span(0, 2), "X", id="T1"), Entity(Span(3, 4), "X"), split, Entity(Span(1, 4), "X"))
    found = decode_one(words, table, given)
    assert found.entities == given
    assert found.entities[0].id == "T1"
    assert found.relations == GOLD.relations  # half of the cells of `split` say r: a tie


def test_sentence_with_no_entities_given_has_no_relations() -> None:
    words, table = probabilities(GOLD)
    assert decode_one(words, table, ()) == Annotation()


def test_sentence_is_read_from_logits_as_from_their_probabilities() -> None:
    words, table = probabilities(GOLD)
    found = decode_one(Logits(20 * words), Logits(20 * table))
    assert found == GOLD
    certain = np.exp(20) / (np.exp(20) + 2)
    assert [one.score for one in found.entities] == pytest.approx([certain] * 2, abs=1e-12)
    assert [one.score for one in found.relations] == pytest.approx([certain], abs=1e-12)


def test_sentences_of_a_batch_are_decoded_as_each_by_itself_whatever_the_padding_is() -> None:
    rng = np.random.default_rng(0)
    lengths = [9, 4, 0, 7, 1]
    words = rng.normal(0, 3, (5, 9, 3)).astype(np.float32)
    table = rng.normal(0, 3, (5, 9, 9, 3)).astype(np.float32)
    table[:, :, ::2, 1] += 9
    table[:, ::2, :, 2] += 9
    for row, length in enumerate(lengths):
        words[row, length:] = np.inf
        table[row, length:] = table[row, :, length:] = np.inf
    found = decode_sentences(Logits(words), Logits(table), lengths, TAGGING, DecodingOptions())
    assert sum(len(one.relations) for one in found) > 3
    for row, length in enumerate(lengths):
        alone = Logits(words[row : row + 1, :length]), Logits(table[row : row + 1, :length, :length])
        (expected,) = decode_sentences(*alone, [length], TAGGING, DecodingOptions())
        assert found[row] == expected
        for one, two in zip(found[row].entities, expected.entities, strict=True):
            assert one.score == pytest.approx(two.score, abs=1e-12)
        for first, second in zip(found[row].relations, expected.relations, strict=True):
            assert first.score == pytest.approx(second.score, abs=1e-12)


def test_sentences_with_a_value_that_is_not_finite_are_refused() -> None:
    words, table = np.zeros((2, 3, 3)), np.zeros((2, 3, 3, 3))
    words[1, 1, 0] = np.nan
    with pytest.raises(RelatumError, match="entity probabilities contain values that are not finite"):
        decode_sentences(Logits(words), Logits(table), [3, 2], TAGGING, DecodingOptions())
    words[1, 1, 0], table[0, 2, 0, 1] = 0, np.inf
    with pytest.raises(RelatumError, match="relation probabilities contain values that are not finite"):
        decode_sentences(Logits(words), Logits(table), [3, 2], TAGGING, DecodingOptions())
    decode_sentences(Logits(words), Logits(table), [2, 2], TAGGING, DecodingOptions())


def test_sentences_longer_than_their_probabilities_are_refused() -> None:
    with pytest.raises(ValueError, match="a sentence has 5 words, but the entity probabilities are of 4"):
        decode_sentences(np.zeros((1, 4, 3)), None, [5], TAGGING, DecodingOptions())
    with pytest.raises(ValueError, match=r"shape \(1, 4, 3\), expected \(2, 4, 3\)"):
        decode_sentences(np.zeros((1, 4, 3)), None, [4, 4], TAGGING, DecodingOptions())
