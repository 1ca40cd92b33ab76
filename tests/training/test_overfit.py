"""The one test that says whether a model learns: all of a small corpus, by heart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from relatum.config import Config
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunRecord
from relatum.training.loop import train

from .conftest import Silent


@pytest.mark.slow
def test_training_learns_a_small_corpus_by_heart(
    start: Callable[[Config], tuple[TrainingData, RunRecord]], tiny: Callable[..., Config], tmp_path: Path
) -> None:
    config = tiny(
        "model.dropout=0",
        "model.width=32",
        "characters.width=16",
        "training.learning_rate=8e-3",
        "training.steps=250",
        "training.evaluate_every=50",
    )
    small, record = start(config)
    examples = small.train[:14]
    data = TrainingData(examples, examples, [], small.schema)
    assert sum(len(example.gold.relations) for example in examples) > 10
    record = RunRecord(config, record.data, None, None, "cpu", "", data.fingerprint())
    result = train(data, record, tmp_path / "run", device=torch.device("cpu"), monitor=Silent())
    assert result.dev is not None
    assert result.dev.entities.micro.f1 == 1.0
    assert result.dev.relations_strict.micro.f1 == 1.0
