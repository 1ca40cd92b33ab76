"""A run that several commands are tried on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from relatum.config import load_config
from relatum.training.corpus import load_training_data
from relatum.training.folder import RunRecord
from relatum.training.loop import train
from relatum.training.monitor import Quiet


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, examples_folder: Path) -> Path:
    """A run that has learned a little of the news examples; tests leave it as it is."""
    torch.set_num_threads(1)
    settings = (
        "encoder.kind=none",
        "model.width=16",
        "model.n_layers=1",
        "model.dropout=0",
        "sequence.n_attention_heads=2",
        "sequence.feedforward_width=16",
        "training.learning_rate=1e-2",
        "training.warmup_steps=5",
        "training.batch_size=8",
        "training.relation_weight=0.1",
        "training.steps=80",
        "training.evaluate_every=80",
    )
    path, config, news = (
        tmp_path_factory.mktemp("trained") / "run",
        load_config(None, settings),
        examples_folder / "news",
    )
    data = load_training_data(news, config)
    record = RunRecord(config, str(news), None, None, "cpu", "", data.fingerprint())
    train(data, record, path, device=torch.device("cpu"), monitor=Quiet())
    return path
