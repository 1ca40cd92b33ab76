from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.data.batching import POOL, make_batches, padding_share

lengths_of_corpora = st.lists(st.integers(0, 30), max_size=60)


@given(lengths_of_corpora, st.integers(1, 6), st.integers(1, 1500), st.booleans(), st.none() | st.integers(0, 9))
def test_batches_hold_each_sentence_once_within_the_limits(
    lengths: list[int], batch_size: int, max_cells: int, bucketing: bool, seed: int | None
) -> None:
    rng = None if seed is None else Random(seed)
    batches = make_batches(lengths, batch_size, max_cells, bucketing=bucketing, rng=rng)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) ** 2 <= max_cells
    assert 0 <= padding_share(lengths, batches) < 1


@given(lengths_of_corpora, st.integers(1, 6), st.integers(1, 1500), st.booleans(), st.integers(0, 9))
def test_batches_are_as_full_as_the_order_allows(
    lengths: list[int], batch_size: int, max_cells: int, bucketing: bool, seed: int
) -> None:
    """A batch ends only where the next sentence would not fit; shuffled batches hide what came next."""
    for rng in [None] if bucketing else [None, Random(seed)]:
        batches = make_batches(lengths, batch_size, max_cells, bucketing=bucketing, rng=rng)
        for batch, following in pairwise(batches):
            joined = [*batch, following[0]]
            cells = len(joined) * max(lengths[index] for index in joined) ** 2
            assert len(batch) == batch_size or cells > max_cells


def test_batches_without_chance_begin_with_the_longest() -> None:
    lengths = [2, 5, 3, 5, 1]
    assert make_batches(lengths, 2, 1000, bucketing=False, rng=None) == [[1, 3], [2, 0], [4]]
    assert make_batches(lengths, 2, 1000, bucketing=True, rng=None) == [[1, 3], [2, 0], [4]]


def test_batches_cut_at_the_cell_budget_and_isolate_what_exceeds_it() -> None:
    assert make_batches([10, 4, 4, 4, 3], 8, 48, bucketing=False, rng=None) == [[0], [1, 2, 3], [4]]


def test_batches_are_the_same_for_the_same_seed_only() -> None:
    lengths = [number % 17 for number in range(100)]
    for bucketing in (False, True):
        one, again, other = (make_batches(lengths, 4, 9999, bucketing=bucketing, rng=Random(s)) for s in (1, 1, 2))
        assert one == again
        assert one != other


def test_bucketing_leaves_less_padding_and_no_order_of_length() -> None:
    lengths = [Random(number).randint(1, 60) for number in range(2000)]
    plain = make_batches(lengths, 8, 10**6, bucketing=False, rng=Random(0))
    bucketed = make_batches(lengths, 8, 10**6, bucketing=True, rng=Random(0))
    assert padding_share(lengths, plain) > 0.4
    assert padding_share(lengths, bucketed) < 0.1
    longest = [max(lengths[index] for index in batch) for batch in bucketed]
    # Batches stand in no order, also not within the batches that one pool gave.
    assert all(part not in (sorted(part), sorted(part)[::-1]) for part in (longest[:POOL], longest[POOL : 2 * POOL]))


def test_bucketing_lets_chance_decide_which_sentences_meet() -> None:
    lengths = [5] * 40
    companies = {
        frozenset(map(frozenset, make_batches(lengths, 4, 9999, bucketing=True, rng=Random(seed)))) for seed in range(5)
    }
    assert len(companies) == 5


def test_batches_refuse_limits_below_one() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0 and 5"):
        make_batches([1], 0, 5, bucketing=False, rng=None)
    with pytest.raises(ValueError, match="at least 1, got 5 and 0"):
        make_batches([1], 5, 0, bucketing=False, rng=None)


def test_padding_share_counts_cells() -> None:
    assert padding_share([2, 4, 3], [[0, 1], [2]]) == 1 - (4 + 16 + 9) / (2 * 16 + 9)
    assert padding_share([], []) == 0
    assert padding_share([0], [[0]]) == 0
