"""Which evaluation is the best, and how long ago it was."""

from __future__ import annotations

import pytest

from relatum.training.history import Evaluation, Progress


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
    progress = Progress(evaluations=[Evaluation(step, 0, 0, one, 0, {}) for step, one in enumerate(scores, 1)])
    assert (progress.best.step if progress.best else None) == best
    assert progress.n_since_best == since
