"""What each of two processes does in `test_processes`: several runs, one after the other, then a failure.

Numbers are doubles, so that what is compared differs by rounding alone: Adam divides by the size of gradients, and
where a gradient is nothing but rounding, single precision would show that in the weights.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch

from relatum.config import load_config
from relatum.training import loop
from relatum.training.corpus import load_training_data
from relatum.training.folder import RunRecord
from relatum.training.loop import TrainingStopped, train
from relatum.training.micro_batches import MicroBatchStep
from relatum.training.monitor import Monitors

CORPUS, OUT, *OVERRIDES = sys.argv[1:]
NUMBER = int(os.environ["RANK"])


class Failing(MicroBatchStep):
    def update(self, batch: list[int], step: int) -> torch.Tensor:
        if step == 3 and NUMBER == 1:
            raise ValueError("this process fails")
        return super().update(batch, step)


class Signalling(MicroBatchStep):
    def update(self, batch: list[int], step: int) -> torch.Tensor:
        if step == 6 and NUMBER == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().update(batch, step)


def run(name: str, *overrides: str, resume: bool = False, updates: type[MicroBatchStep] = MicroBatchStep) -> None:
    vars(loop)["MicroBatchStep"] = updates
    config = load_config(None, [*OVERRIDES, *overrides])
    data = load_training_data(Path(CORPUS), config)
    record = RunRecord(config, CORPUS, None, None, "cpu", "", data.fingerprint())
    train(data, record, Path(OUT) / name, device=torch.device("cpu"), monitor=Monitors(), resume=resume)


torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
run("sum", "model.dropout=0.0")
run("mean", "model.dropout=0.0", "training.loss=mean", "training.batch_size=3", "training.part_cells=600")
run("one", "model.dropout=0.0", "training.batch_size=1")
run("whole")
try:
    run("broken", updates=Signalling)
except TrainingStopped as stopped:
    (Path(OUT) / f"stopped-{NUMBER}").write_text(str(stopped))
torch.manual_seed(5)
run("broken", resume=True)
run("fails", updates=Failing)
