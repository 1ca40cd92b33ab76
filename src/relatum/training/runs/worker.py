"""The process of one of several runs: it goes on with a folder and tells the process that started it what happens.

    python -m relatum.training.runs.worker RUN DEVICE [FUNCTION…]

Events go to standard output, one JSON object per line, and the messages of `relatum train` to standard error. The run
stops in order, as after SIGTERM, when standard input ends, since the process that started it is gone then. The settings
of the run may name only those of the user's own functions that are named here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import torch

from relatum.errors import RelatumError
from relatum.extractor.device import choose_device
from relatum.monitor import Evaluation, LineMonitor
from relatum.training.corpus import FoldChoice, load_training_data
from relatum.training.folder import RunFolder
from relatum.training.loop import TrainingStopped, train
from relatum.training.runs.budgets import free_memory

_PATIENCE = 60.0
"""Seconds to wait for another process that still uses the folder: a process whose parent was killed ends by itself."""


class EventMonitor(LineMonitor):
    """A monitor that says everything twice: in words, and as events for a program."""

    def __init__(self, events: IO[str], device: torch.device) -> None:
        super().__init__(lambda line: print(line, file=sys.stderr, flush=True))
        self._events, self._device = events, device

    def start(self, step: int, steps: int) -> None:
        super().start(step, steps)
        self.tell("start", step=step, steps=steps, **self._memory())

    def advance(self, step: int, loss: float) -> None:
        super().advance(step, loss)
        self.tell("advance", step=step, loss=loss)

    def evaluate(self, evaluation: Evaluation, best: bool) -> None:
        super().evaluate(evaluation, best)
        self.tell("evaluate", evaluation=evaluation.to_dict(), best=best, **self._memory())

    def say(self, message: str) -> None:
        super().say(message)
        self.tell("say", message=message)

    def tell(self, event: str, **values: Any) -> None:
        with suppress(OSError):  # nobody listens any more; the end of standard input says what to do
            print(json.dumps({"event": event, **values}), file=self._events, flush=True)

    def _memory(self) -> dict[str, int | None]:
        """Return the most bytes of memory that this run has taken, and the bytes that are free."""
        if self._device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self._device)
            return {"peak": torch.cuda.max_memory_reserved(self._device), "free": free}
        return {"peak": _peak_memory(), "free": free_memory()}


def main(arguments: list[str]) -> int:
    """Go on with the run; return the exit status: 0, 130 for a run that was stopped, 1 for a run that failed."""
    run, device = Path(arguments[0]), choose_device(arguments[1])
    # Whatever else is printed must not come between the events.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    monitor = EventMonitor(events, device)
    try:
        folder = RunFolder(run)
        _wait_until_free(folder)
        if folder.result.exists():
            return 0
        record = folder.read(arguments[2:])
        fold = None if record.fold is None else FoldChoice.parse(record.fold)
        data = load_training_data(Path(record.data), record.config, record.format, fold, with_test=record.with_test)
        train(data, record, run, device=device, monitor=monitor, resume=True)
    except TrainingStopped as stopped:
        print(stopped, file=sys.stderr)
        return 130
    except Exception as error:  # the process that started this one is told, whatever it is
        traceback.print_exc()
        text = str(error) or type(error).__name__
        monitor.tell("failed", message=text if isinstance(error, RelatumError) else f"{type(error).__name__}: {text}")
        return 1
    return 0


def _stop_with_parent() -> None:
    while os.read(0, 1024):  # not sys.stdin, whose lock would be held when Python ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _wait_until_free(folder: RunFolder) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            with folder.locked(lambda _: None):
                return
        except RelatumError:
            if time.monotonic() > until:
                raise
        time.sleep(0.1)


def _peak_memory() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
