from __future__ import annotations

import pytest

from relatum.config import TrainingConfig
from relatum.errors import RelatumError
from relatum.training.sampler import Sampler

LENGTHS = [5, 9, 3, 12, 7, 7, 2, 20, 4, 6]
CONFIG = TrainingConfig(batch_size=3, seed=7)


def take(sampler: Sampler, n: int) -> list[list[int]]:
    return [sampler.next() for _ in range(n)]


def epochs(sampler: Sampler, n: int) -> list[list[int]]:
    """The indices of each of the first epochs, in the order in which they come."""
    found: list[list[int]] = [[] for _ in range(n + 1)]
    while sampler.epoch < n:
        batch = sampler.next()
        found[sampler.epoch] += batch
    return found[:n]


@pytest.mark.parametrize("bucketing", [True, False])
def test_every_epoch_has_every_sentence_once(bucketing: bool) -> None:
    orders = epochs(Sampler(LENGTHS, CONFIG.model_copy(update={"bucketing": bucketing})), 5)
    assert all(sorted(order) == list(range(10)) for order in orders)
    assert len({tuple(order) for order in orders}) == 5


def test_same_seed_gives_the_same_batches_and_another_gives_others() -> None:
    first, same = take(Sampler(LENGTHS, CONFIG), 40), take(Sampler(LENGTHS, CONFIG), 40)
    other = take(Sampler(LENGTHS, TrainingConfig(batch_size=3, seed=8)), 40)
    assert first == same
    assert first != other


@pytest.mark.parametrize("done", [0, 1, 3, 4, 5, 8, 17])
def test_sampler_goes_on_from_epoch_and_position(done: int) -> None:
    whole = take(Sampler(LENGTHS, CONFIG), 30)
    broken = Sampler(LENGTHS, CONFIG)
    take(broken, done)
    resumed = Sampler(LENGTHS, CONFIG)
    resumed.go_to(broken.epoch, broken.position)
    assert take(resumed, 30 - done) == whole[done:]


def test_cell_budget_is_kept() -> None:
    batches = take(Sampler(LENGTHS, TrainingConfig(batch_size=8, max_cells=450)), 50)
    assert all(len(b) * max(LENGTHS[i] for i in b) ** 2 <= 450 for b in batches)


def test_position_beyond_the_epoch_is_refused() -> None:
    with pytest.raises(RelatumError, match="batch 99 of epoch 2"):
        Sampler(LENGTHS, CONFIG).go_to(2, 99)


def test_no_sentences_are_refused() -> None:
    with pytest.raises(RelatumError, match="no sentences"):
        Sampler([], CONFIG)
