"""The likeliest sequence of tags in which every entity is well formed."""

from __future__ import annotations

from itertools import pairwise, product
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.decoding.entities import decode_entities, decode_words
from relatum.decoding.probabilities import Logits
from relatum.schema import Schema
from relatum.tagging.sequence import Scheme, SequenceTags
from relatum.types import Entity, Span

TAGS = SequenceTags(Schema(("X", "Y")))  # O B-X I-X B-Y I-Y
schemes = st.sampled_from([SequenceTags(Schema(("X", "Y")), scheme) for scheme in get_args(Scheme)])
seeds = st.integers(0, 2**32 - 1)


def is_well_formed(path: tuple[int, ...], tags: SequenceTags) -> bool:
    """Whether the tags are those of the entities that they are read as."""
    return tags.encode(tags.decode(path), len(path)).tags == path


@given(schemes, st.lists(st.integers(0, 8), max_size=6))
def test_tags_may_follow_each_other_where_they_are_those_of_entities(tags: SequenceTags, path: list[int]) -> None:
    numbers = tuple(number % len(tags.names) for number in path)
    allowed = all(tags.may_follow(before, after) for before, after in pairwise((0, *numbers, 0)))
    assert allowed == is_well_formed(numbers, tags)


@given(schemes, st.integers(0, 4), seeds)
def test_best_path_is_the_likeliest_of_all_that_are_well_formed(tags: SequenceTags, n_words: int, seed: int) -> None:
    found = np.random.default_rng(seed).dirichlet(np.full(len(tags.names), 0.3), n_words)
    paths = [path for path in product(range(len(tags.names)), repeat=n_words) if is_well_formed(path, tags)]
    best = max(paths, key=lambda path: sum(np.log(found[word, tag]) for word, tag in enumerate(path)))
    entities = decode_entities(found, tags, "viterbi")
    assert entities == tags.decode(best)
    for one in entities:
        expected = np.mean([found[word, best[word]] for word in range(*one.span)])
        assert one.score == pytest.approx(expected)


@given(schemes, st.lists(st.integers(0, 6), min_size=1, max_size=4), seeds)
def test_best_paths_of_a_batch_are_those_of_each_sentence(tags: SequenceTags, lengths: list[int], seed: int) -> None:
    logits = np.random.default_rng(seed).normal(0, 3, (len(lengths), 6, len(tags.names)))
    for row, length in zip(logits, lengths, strict=True):
        row[length:] = np.nan  # padding may be anything
    found = decode_words(Logits(logits), lengths, tags, "viterbi")
    alone = [decode_entities(Logits(row[:n]), tags, "viterbi") for row, n in zip(logits, lengths, strict=True)]
    assert found == alone
    assert [[one.score for one in some] for some in found] == [[one.score for one in some] for some in alone]


def test_tags_of_two_types_become_those_of_one_and_a_lost_beginning_is_found() -> None:
    mixed = np.array([[0.1, 0.6, 0.0, 0.3, 0.0], [0.1, 0.0, 0.1, 0.0, 0.8]])
    assert decode_entities(mixed, TAGS) == (Entity(Span(0, 2), "X"),)
    (found,) = decode_entities(mixed, TAGS, "viterbi")
    assert found == Entity(Span(0, 2), "Y")
    assert found.score == pytest.approx(0.55)
    headless = np.array([[0.5, 0.4, 0.1, 0.0, 0.0], [0.1, 0.0, 0.9, 0.0, 0.0]])
    assert decode_entities(headless, TAGS) == ()
    assert decode_entities(headless, TAGS, "viterbi") == (Entity(Span(0, 2), "X"),)


def test_tags_of_no_probability_do_not_stop_the_search() -> None:
    certain = np.eye(5)[[2, 4, 0]]  # I-X I-Y O
    assert len(decode_entities(certain, TAGS, "viterbi")) <= 2
    logits = np.full((2, 5), -2e4)
    logits[:, 2] = 2e4
    assert decode_entities(Logits(logits), TAGS, "viterbi") in {(), (Entity(Span(0, 2), "X"),)}
