"""Which evaluation is the best, how long ago it was, and what the loss is."""

from __future__ import annotations

import json

import pytest

from relatum.monitor import Evaluation
from relatum.training.history import Progress


@pytest.mark.parametrize(
    ("scores", "best", "since"),
    [
        ([], None, 0),
        ([0.0, 0.0, 0.0], 3, 0),  # nothing was found yet: the latest has learned most, and patience has not begun
        ([0.0, 0.2, 0.2, 0.1], 2, 2),
        ([0.3, 0.0, 0.4], 3, 0),
    ],
)
def test_best_evaluation_is_the_first_of_the_highest_once_anything_is_found(
    scores: list[float], best: int | None, since: int
) -> None:
    progress = Progress(evaluations=[Evaluation(step, 0, 0, one, 0, None) for step, one in enumerate(scores, 1)])
    assert (progress.best.step if progress.best else None) == best
    assert progress.n_since_best == since


def test_loss_is_a_mean_per_word_and_follows_the_latest_updates() -> None:
    """Batches of one loss per word, however many words they have, and later ones of a tenth of it."""
    progress = Progress()
    for number in range(40):
        n_words = 10 + 90 * (number % 2)
        progress.add_loss(2.0 * n_words, n_words)
        assert progress.smoothed_loss == pytest.approx(2.0), "the first updates count in full"
        assert progress.mean_loss == pytest.approx(2.0)
    for _ in range(50):
        progress.add_loss(0.2 * 50, 50)
    assert 0.2 + 1.8 * 0.1 < progress.smoothed_loss < 0.2 + 1.8 * 0.4
    assert Progress.from_dict(json.loads(json.dumps(progress.to_dict()))) == progress
    assert Progress().mean_loss == Progress().smoothed_loss == 0


def test_progress_of_an_earlier_version_forgets_its_sum_of_batches() -> None:
    record = {"step": 3, "loss_sum": 5000.0, "n_losses": 3, "evaluations": []}
    assert Progress.from_dict(record) == Progress(step=3)
