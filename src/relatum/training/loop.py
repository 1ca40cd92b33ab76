"""Training: updates, evaluations, checkpoints, and the choice of the best model."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relatum.config import Config
from relatum.data.atomic import replacing_file
from relatum.errors import RelatumError
from relatum.evaluation.metrics import Scores, evaluate
from relatum.extractor.extractor import Extractor
from relatum.models.build import count_parameters
from relatum.models.checkpoint import load_model, save_model
from relatum.models.model import Model
from relatum.training import provenance
from relatum.training.batches import Batches, cut_long
from relatum.training.card import make_card
from relatum.training.checkpoints import list_checkpoints, load_checkpoint, save_checkpoint
from relatum.training.corpus import TrainingData
from relatum.training.features import read_ahead, with_memory
from relatum.training.folder import RunFolder, RunRecord
from relatum.training.history import Evaluation, Progress, selection_score
from relatum.training.monitor import Log, Monitor
from relatum.training.optimisation import Optimiser, learning_rate
from relatum.training.recorded import Updates, make_recorder
from relatum.training.sampler import Sampler
from relatum.training.setup import make_model, set_up_device, with_absolute_paths
from relatum.training.state import capture, fixed_hash, restore
from relatum.training.stopping import Stopping
from relatum.types import Example

_UNREAD = 50
"""The most updates whose losses wait on the device: reading one makes the program wait for the device."""
_PATIENCE = 0.5
"""Seconds after which they are read all the same, so that slow runs show that they move."""


class TrainingStopped(RelatumError):
    """The run was asked to stop and can go on."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """Where the model is, and its scores."""

    model: Path
    dev: Scores
    test: Scores | None
    record: dict[str, Any]
    """What is in `result.json`."""


def train(
    data: TrainingData, record: RunRecord, run: Path, *, device: torch.device, monitor: Monitor, resume: bool = False
) -> RunResult:
    """Train a model in the folder `run`, or go on with a run that was stopped there.

    `TrainingStopped` says that the user asked to stop; the state is saved. A new run writes down its settings with
    absolute paths, so that it can go on from another directory.
    """
    folder = RunFolder(run)
    if not resume:
        folder.check_new()
        record = replace(record, config=with_absolute_paths(record.config))
    if folder.result.exists():
        raise RelatumError(f"{run}: this run is complete; its model is {folder.model}")
    if data.fingerprint() != record.fingerprint:
        raise RelatumError(f"{record.data}: the data has changed since {run} was started; start a new run")
    with Stopping() as stopping:
        prepared = _Run(data, record, folder, device, monitor, stopping)
        if not resume:
            folder.create(record)  # not before: settings that cannot be used leave nothing behind
        with folder.locked(monitor.say):
            prepared.take_up()
            return prepared.complete()


class _Run:
    """One process's share of a run."""

    def __init__(
        self,
        data: TrainingData,
        record: RunRecord,
        folder: RunFolder,
        device: torch.device,
        monitor: Monitor,
        stopping: Stopping,
    ) -> None:
        self._data, self._record, self._folder = data, record, folder
        self._config: Config = record.config
        self._device, self._monitor, self._stopping = device, monitor, stopping
        set_up_device(device)
        self._stored, remarks = make_model(data, self._config, device)
        examples, cut = cut_long(data.train, self._stored.encoder, self._config)
        for remark in (*data.remarks, *remarks, *cut):
            monitor.say(remark)
        # The stored model and the one that is trained share their network; only the latter's encoder has a memory.
        self._model = with_memory(self._stored, [*examples, *data.dev, *data.test])
        self._network = self._model.network
        self._network.table_dtype = torch.bfloat16 if self._config.training.precision == "bf16" else None
        self._examples = examples
        self._batches = Batches(self._model, examples)
        self._optimiser = Optimiser(self._network.parameters(), self._config.training)
        self._updates = Updates(
            self._network, self._optimiser, self._config.training, monitor.say, make_recorder(self._model.device)
        )
        self._fixed = fixed_hash(self._network)
        self._progress = Progress()
        self._unread: list[tuple[int, list[int], Tensor]] = []
        self._last_read = time.monotonic()
        self._sampler = Sampler([len(example.sentence) for example in examples], self._config.training)

    def take_up(self) -> None:
        """Go on from the last checkpoint, where there is one."""
        folder, say = self._folder, self._monitor.say
        if list_checkpoints(folder.checkpoints):
            checkpoint = load_checkpoint(folder.checkpoints, say)
            self._progress, place = restore(checkpoint, self._network, self._optimiser, say)
            self._sampler.go_to(**place)
            say(f"going on after step {checkpoint.step:,}")
        folder.remove_after(self._progress.step)
        self._log = Log(folder.log, self._progress.evaluations)
        self._begun = time.monotonic() - self._progress.seconds

    def complete(self) -> RunResult:
        """Make the updates that are left, then score the best model."""
        progress, config = self._progress, self._config.training
        if progress.step < config.steps and not read_ahead(
            self._model, self._examples, lambda: self._stopping.asked, self._monitor.say
        ):
            raise TrainingStopped(self._farewell())
        self._monitor.start(progress.step, config.steps)
        try:
            self._network.train()
            while progress.step < config.steps:
                self._update()
                if progress.step % config.evaluate_every == 0 or progress.step == config.steps:
                    self._evaluate()
                elif self._stopping.asked:
                    self._save()
                if self._stopping.asked and progress.step < config.steps:
                    raise TrainingStopped(self._farewell())
        finally:
            self._monitor.close()
        return self._finish()

    def _update(self) -> None:
        progress = self._progress
        batch = self._sampler.next()
        inputs, labels = self._batches.make(batch)
        result = self._updates.update(inputs, labels, progress.step + 1)
        progress.step += 1
        self._unread.append((progress.step, batch, result))
        if len(self._unread) >= _UNREAD or time.monotonic() - self._last_read > _PATIENCE:
            self._read_losses()

    def _read_losses(self) -> None:
        """Take the losses from the device, and stop where one is not a number."""
        progress = self._progress
        values = torch.stack([pair for _, _, pair in self._unread]).tolist() if self._unread else []
        for (step, batch, _), (loss, norm) in zip(self._unread, values, strict=True):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                ids = ", ".join(self._examples[index].id for index in batch)
                raise RelatumError(
                    f"step {step}: the loss is {loss} and the norm of its gradients {norm}, so that nothing can be "
                    f"learned any more; lower training.learning_rate. The batch had the sentences {ids}"
                )
            progress.loss_sum += loss
            progress.n_losses += 1
        if values:
            self._monitor.advance(progress.step, values[-1][0])
        self._unread.clear()
        self._last_read = time.monotonic()

    def _evaluate(self) -> None:
        """Score dev, keep the model where it is the best so far, and save the state."""
        self._read_losses()
        progress, training = self._progress, self._config.training
        scores = score(self._model, self._data.dev)
        self._network.train()
        evaluation = Evaluation(
            progress.step,
            progress.loss_sum / max(progress.n_losses, 1),
            learning_rate(progress.step, training),
            selection_score(scores, training),
            round(time.monotonic() - self._begun, 2),
            scores.to_dict(),
        )
        progress.evaluations.append(evaluation)
        progress.loss_sum, progress.n_losses = 0.0, 0
        best = progress.best is evaluation
        if best:
            card = self._card(progress.step, {"dev": scores})
            save_model(self._stored, self._folder.best(progress.step), card, self._folder.newest_best())
        self._log.add(evaluation)
        self._save()
        self._folder.remove_old()
        self._monitor.evaluate(evaluation, best)

    def _save(self) -> None:
        self._read_losses()
        self._progress.seconds = time.monotonic() - self._begun
        state = capture(self._network, self._optimiser, self._sampler, self._progress, self._fixed)
        save_checkpoint(self._folder.checkpoints, state)

    def _finish(self) -> RunResult:
        """Score the model as it is on disk, on test for the first and only time."""
        best = self._progress.best
        assert best is not None
        folder, data = self._folder, self._data
        place = folder.model if folder.model.exists() else folder.best(best.step)
        loaded = load_model(place, self._device)
        scores = {"dev": score(_with_encoder_of(self._model, loaded), data.dev)}
        if data.test:
            scores["test"] = score(_with_encoder_of(self._model, loaded), data.test)
        with replacing_file(place / "README.md") as card:
            card.write_text(self._card(best.step, scores), encoding="utf-8")
        folder.finish(best.step)
        record = self._result(best, scores)
        folder.write_result(record)
        return RunResult(folder.model, scores["dev"], scores.get("test"), record)

    def _result(self, best: Evaluation, scores: dict[str, Scores]) -> dict[str, Any]:
        record, training = self._record, self._config.training
        return {
            "command": record.command,
            "commit": provenance.commit(),
            "versions": provenance.versions(),
            "device": provenance.device_name(self._device),
            "seconds": round(self._progress.seconds, 1),
            "seed": training.seed,
            "data": {
                "path": record.data,
                "fold": record.fold,
                "sha256": record.fingerprint,
                "parts": {name: _counts(part) for name, part in self._data.parts.items()},
                "remarks": list(self._data.remarks),
            },
            "n_parameters": count_parameters(self._network),
            "best": {"step": best.step, "score": best.score},
            "dev": scores["dev"].to_dict(),
            "test": scores["test"].to_dict() if "test" in scores else None,
            "config": self._config.to_dict(),
            "history": self._progress.to_dict()["evaluations"],
        }

    def _card(self, step: int, scores: dict[str, Scores]) -> str:
        record = self._record
        return make_card(self._data, record.data, self._config, record.command, step, scores)

    def _farewell(self) -> str:
        if not self._progress.step:
            return (
                "stopped before the first update: nothing was learned yet. "
                f"To begin again: relatum train --resume {self._folder.path}"
            )
        best = self._progress.best
        model = f" The best model so far is {self._folder.best(best.step)}." if best else ""
        return (
            f"stopped after step {self._progress.step:,}; the state is saved.{model} "
            f"To go on: relatum train --resume {self._folder.path}"
        )


def score(model: Model, examples: Sequence[Example]) -> Scores:
    """The scores of a model on examples, found as it finds them in any text."""
    config = model.config.evaluation
    given = [example.gold.entities for example in examples] if config.entities == "gold" else None
    predictions = Extractor(model).predict([example.sentence for example in examples], given)
    pairs = [(example.gold, one.found) for example, one in zip(examples, predictions, strict=True)]
    return evaluate(pairs, model.schema, config.macro_over, gold_entities=given is not None)


def _with_encoder_of(trained: Model, loaded: Model) -> Model:
    """The loaded model with the encoder that has already read the sentences, where the two are the same."""
    if trained.encoder is None or loaded.encoder is None or trained.encoder.fingerprint != loaded.encoder.fingerprint:
        return loaded
    return replace(loaded, encoder=trained.encoder)


def _counts(examples: Sequence[Example]) -> dict[str, Any]:
    entities = Counter(entity.label for example in examples for entity in example.gold.entities)
    relations = Counter(relation.label for example in examples for relation in example.gold.relations)
    return {
        "sentences": len(examples),
        "entities": dict(sorted(entities.items())),
        "relations": dict(sorted(relations.items())),
    }
