"""A Python in which Triton interprets its kernels, on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..prepared import Prepared


@pytest.fixture(scope="session")
def interpreter() -> Iterator[Prepared]:
    """Whether kernels are interpreted is decided when they are defined, so it cannot be done in this process."""
    environment = {"TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(__file__).parent)}
    preparation = (
        "import torch; import torch._dynamo; import test_md_gru; import relatum.kernels.md_gru.triton_launch\n"
        "torch.set_num_threads(1)"
    )
    with Prepared(preparation, environment) as python:
        yield python
