"""Memory that runs out on a GPU.

Run with `PYTHONPATH=src python -m pytest --noconftest -v tests/training/test_micro_batches_gpu.py`. It takes
a minute or two, most of it for compiling.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from relatum.config import load_config
from relatum.training.corpus import load_training_data
from relatum.training.folder import RunRecord
from relatum.training.loop import train
from relatum.training.monitor import Monitors
from relatum.training.run import Run

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
SETTINGS = (
    "encoder.kind=none",
    "model.width=96",
    "model.n_layers=2",
    "model.dropout=0.0",
    "training.batch_size=64",
    "training.max_cells=1000000",
    "training.steps=24",
    "training.evaluate_every=8",
    "training.warmup_steps=20",
    "training.learning_rate=1e-4",
)


def run(path: Path) -> tuple[Run, list[str]]:
    data_path = Path(__file__).parents[2] / "examples" / "news"
    config = load_config(None, SETTINGS)
    data = load_training_data(data_path, config)
    record = RunRecord(config, str(data_path), None, None, "cuda", "", data.fingerprint())
    monitor = Monitors()
    result = train(data, record, path, device=torch.device("cuda"), monitor=monitor)
    return result, list(result.result.messages)


@pytest.mark.parametrize("share", [0.8, 0.35])
def test_run_completes_with_less_memory_than_its_batches_take(tmp_path: Path, share: float) -> None:
    run(tmp_path / "compiles")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    whole, messages = run(tmp_path / "whole")
    assert not [said for said in messages if "memory" in said]
    peak = torch.cuda.max_memory_reserved()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(share * peak / torch.cuda.get_device_properties(0).total_memory)
    try:
        short, messages = run(tmp_path / "short")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    told = [said for said in messages if "memory" in said]
    print(*told, sep="\n")
    assert told
    losses = [[one.loss for one in result.result.history] for result in (whole, short)]
    print(losses)
    assert losses[1] == pytest.approx(losses[0], rel=2e-3)  # TF32 has ten bits
