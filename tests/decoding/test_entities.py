import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.decoding.entities import decode_entities
from relatum.errors import RelatumError
from relatum.schema import Schema
from relatum.tagging.sequence import SequenceTags
from relatum.types import Entity, Span

TAGS = SequenceTags(Schema(("X", "Y")))  # O B-X I-X B-Y I-Y


def test_entities_follow_the_likeliest_tags_and_score_their_mean() -> None:
    probabilities = np.array(
        [
            [0.1, 0.6, 0.1, 0.1, 0.1],
            [0.2, 0.2, 0.0, 0.2, 0.4],  # I-Y goes on with the X
            [0.8, 0.1, 0.1, 0.0, 0.0],
            [0.0, 0.0, 0.1, 0.9, 0.0],
        ]
    )
    found = decode_entities(probabilities, TAGS)
    assert found == (Entity(Span(0, 2), "X"), Entity(Span(3, 4), "Y"))
    assert [entity.score for entity in found] == pytest.approx([0.5, 0.9])
    assert all(type(entity.score) is float for entity in found)


def test_entities_give_a_tie_to_the_first_tag() -> None:
    assert decode_entities(np.array([[0.4, 0.4, 0.2, 0, 0], [0, 0.4, 0, 0.4, 0.2]]), TAGS) == (Entity(Span(1, 2), "X"),)


@given(st.sampled_from(["bio", "bioes"]), st.integers(0, 8), st.integers(0, 2**32 - 1))
def test_entities_are_those_of_the_tags_with_scores_in_range(scheme: str, n_words: int, seed: int) -> None:
    tags = SequenceTags(Schema(("X", "Y")), scheme)  # type: ignore[arg-type]
    probabilities = np.random.default_rng(seed).dirichlet(np.ones(len(tags.names)), n_words).astype(np.float32)
    found = decode_entities(probabilities, tags)
    assert found == tags.decode([int(row.argmax()) for row in probabilities])
    for entity in found:
        expected = np.mean([max(row) for row in probabilities[entity.span.start : entity.span.end]])
        assert entity.score == pytest.approx(expected, rel=1e-6)


def test_entities_refuse_what_is_no_probability() -> None:
    with pytest.raises(ValueError, match=r"entity probabilities have the shape \(2, 4\), expected \(2, 5\)"):
        decode_entities(np.zeros((2, 4)), TAGS)
    with pytest.raises(RelatumError, match=r"entity probabilities contain values that are not finite.*learning rate"):
        decode_entities(np.full((2, 5), np.nan), TAGS)
