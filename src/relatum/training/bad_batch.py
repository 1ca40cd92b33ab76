"""The batch at which a run went wrong, kept for whoever wants to know why."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from relatum.config import TrainingConfig
from relatum.data.atomic import replacing_file
from relatum.data.documents import from_words
from relatum.data.formats import jsonl
from relatum.types import Example


@dataclass(frozen=True, slots=True)
class UpdateRecord:
    """The facts of one update: step, loss, norm of the gradients and learning rate."""

    step: int
    loss: float
    gradient_norm: float
    learning_rate: float


def save_batch(folder: Path, batch: Sequence[Example], update: UpdateRecord, problem: str) -> None:
    """Write `sentences.jsonl`, which can be read as any data can, and `update.json`."""
    documents = (from_words(example.id, [example.sentence.words], example.gold) for example in batch)
    with replacing_file(folder / "sentences.jsonl") as draft:
        jsonl.write(draft, documents)
    # JSON has no infinity, and no word for what is not a number.
    values = {name: value if math.isfinite(value) else str(value) for name, value in asdict(update).items()}
    with replacing_file(folder / "update.json") as draft:
        draft.write_text(json.dumps({**values, "problem": problem}, indent=2) + "\n", encoding="utf-8")


def describe(folder: Path, batch: Sequence[Example], update: UpdateRecord, problem: str, config: TrainingConfig) -> str:
    """Return a message for the user: what is wrong, what may help, and where the batch is."""
    ids = ", ".join(example.id for example in batch)
    return (
        f"step {update.step}: {problem}, so that nothing can be learned any more; {_cures(update, config)}. The batch, "
        f"with its step, loss and learning rate, is in {folder}. The batch had the sentences {ids}"
    )


def _cures(update: UpdateRecord, config: TrainingConfig) -> str:
    cures = [f"lower training.learning_rate (it was {update.learning_rate:.3g} at this step)"]
    if update.step <= 2 * config.warmup_steps or not config.warmup_steps:
        cures.append(f"let it rise more slowly (training.warmup_steps is {config.warmup_steps:,})")
    cures.append(f"clip gradients more (training.clip_norm is {config.clip_norm:g})")
    if config.precision != "fp32":
        cures.append('compute with more digits (training.precision = "fp32")')
    return ", ".join(cures[:-1]) + f", or {cures[-1]}"
