"""A small model in a folder, and documents for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from relatum.models.checkpoint import save_model

from ..small_models import make_small_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a small model."""
    folder = tmp_path_factory.mktemp("models") / "small"
    save_model(make_small_model(), folder)
    return str(folder)


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with other weights."""
    folder = tmp_path_factory.mktemp("models") / "other"
    save_model(make_small_model(seed=7), folder)
    return folder
