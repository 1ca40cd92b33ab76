"""Training: updates, evaluations, checkpoints, and the choice of the best model."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from relatum.config import Config
from relatum.errors import NO_SPACE, NoSpaceError, RelatumError, explain_os_error
from relatum.evaluation.ceiling import Ceiling, Limits, measure_ceiling
from relatum.evaluation.confidence import Calibrated, calibrate, measure_confidence
from relatum.evaluation.metrics import Scores, evaluate, usable_macro
from relatum.extractor.device import is_out_of_memory
from relatum.extractor.extractor import Extractor
from relatum.models.checkpoint import load_model, save_model, write_calibration
from relatum.models.model import Model
from relatum.monitor import Evaluation, Monitor
from relatum.runtime.cuda_graphs import make_recorder
from relatum.training.advice import advise, shorten
from relatum.training.bad_batch import UpdateRecord, describe, save_batch
from relatum.training.batches import Batches, cut_long, remark_on_windows
from relatum.training.checkpoints import list_checkpoints, load_checkpoint, save_checkpoint
from relatum.training.corpus import TrainingData
from relatum.training.distillation import check_teachers, read_targets, teacher_versions
from relatum.training.features import read_ahead, with_memory
from relatum.training.folder import RunFolder, RunRecord, resume_command
from relatum.training.graphed_step import GraphedStep
from relatum.training.history import Progress, selected_f1, selection_score
from relatum.training.micro_batches import MicroBatchStep
from relatum.training.monitor import Log, Monitors
from relatum.training.optimisation import Optimiser, learning_rate
from relatum.training.processes import Processes, join_processes
from relatum.training.reports.card import make_card
from relatum.training.reports.curves import draw_curves
from relatum.training.reports.page import write_reports
from relatum.training.reports.predictions import write_predictions
from relatum.training.reports.result import make_result
from relatum.training.reports.trackers import make_trackers
from relatum.training.run import Run
from relatum.training.sampler import Sampler
from relatum.training.setup import learned_parts, make_model, set_up_device, with_absolute_paths
from relatum.training.state import capture, fixed_hash, restore
from relatum.training.stopping import Stopping
from relatum.training.thresholds import fit_thresholds
from relatum.types import Example, Prediction

_UNREAD = 50
"""The most updates whose losses wait on the device: reading one makes the program wait for the device."""
_PATIENCE = 0.5
"""Seconds after which waiting losses are read all the same, so that slow runs show that they move."""


class TrainingStopped(RelatumError):
    """The run was asked to stop and can go on."""


def train(
    data: TrainingData,
    record: RunRecord,
    run: Path,
    *,
    device: torch.device,
    monitor: Monitor,
    resume: bool = False,
    on_made: Callable[[], None] = lambda: None,
) -> Run:
    """Train a model in the folder `run`, or go on with a run that was stopped there.

    `TrainingStopped` says that the user asked to stop; the state is saved. A new run writes down its settings with
    absolute paths, so that it can go on from another directory. `on_made` is called when the run's folder has been
    made; if data or settings are refused, no folder is made. If a launcher started several processes, all of them call
    this function, and the first writes and speaks. `NoSpaceError` says that a file could not be written; the run can be
    resumed then, and also after it ran out of memory.
    """
    folder = RunFolder(run)
    with Stopping() as stopping:
        processes = join_processes(device, stopping)
        monitor = monitor if processes.main else Monitor()
        try:
            return _train(data, record, folder, processes, monitor, resume, on_made)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            where = "" if error.filename else f"{run}: "
            raise NoSpaceError(f"{where}{explain_os_error(error)}", _how_to_go_on(folder)) from error
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise RelatumError(
                f"out of memory ({reason}); close other programs, then {_how_to_go_on(folder)}; or start a run that "
                "needs less: lower training.max_cells, model.width, table.width or model.n_layers"
            ) from error


def _how_to_go_on(folder: RunFolder) -> str:
    return f"go on with {resume_command(folder.path)}" if folder.is_started else "start the run again"


def _train(
    data: TrainingData,
    record: RunRecord,
    folder: RunFolder,
    processes: Processes,
    monitor: Monitor,
    resume: bool,
    on_made: Callable[[], None],
) -> Run:
    run = folder.path
    if not resume:
        if processes.main:
            folder.check_new()
        record = replace(record, config=with_absolute_paths(record.config))
    if processes.n > 1:  # settings may depend on the machine, and a run has one record
        functions = record.config.text.functions().values()
        record = RunRecord.from_dict(json.loads(processes.tell(json.dumps(record.to_dict()))), functions)
    _refuse_complete(folder)
    if data.fingerprint() != record.fingerprint:
        since = " or was scored without the annotations that are left out" if data.leaves_out else ""
        raise RelatumError(f"{record.data}: the data has changed{since} since {run} was started; start a new run")
    trackers = make_trackers(record, run) if processes.main else []
    prepared = _Run(data, record, folder, processes, Monitors(monitor, *trackers), resume)
    with folder.locked(monitor.say) if processes.main else nullcontext():  # settings that cannot be used make no folder
        if not resume and processes.main:
            folder.create(record)
            on_made()
        _refuse_complete(folder)  # another process may have ended it while this one was getting ready
        prepared.take_up()
        return prepared.complete()


def _refuse_complete(folder: RunFolder) -> None:
    if folder.result.exists():
        raise RelatumError(f"{folder.path}: this run is complete; its model is {folder.model}")


class _Run:
    """One process's share of a run."""

    def __init__(
        self,
        data: TrainingData,
        record: RunRecord,
        folder: RunFolder,
        processes: Processes,
        monitor: Monitors,
        resume: bool,
    ) -> None:
        self._data, self._record, self._folder = data, record, folder
        self._config: Config = record.config
        self._processes, self._monitor = processes, monitor
        self._device = device = processes.device
        set_up_device(device)
        has_weights = resume and bool(list_checkpoints(folder.checkpoints))
        if not resume:
            check_teachers(self._config, data.schema)
        self._stored, remarks = make_model(data, self._config, device, has_weights)
        training = self._config.training
        examples, cut = cut_long(data.train, self._stored.encoder, self._config)
        unlabelled, _ = cut_long(data.unlabelled, self._stored.encoder, self._config)
        self._n_labelled = len(examples)
        examples = [*examples, *unlabelled]
        for part in ("dev", "test"):
            cut += remark_on_windows(part, data.parts[part], self._stored.encoder, self._config)
        for remark in (*data.remarks, *shorten(advise(data.parts, self._config)), *remarks, *cut):
            monitor.say(remark)
        if processes.n > 1:
            monitor.say(f"{processes.n} processes share every batch")
        # The stored model and the one that is trained share their network; only the latter's encoder has a memory.
        self._model = with_memory(self._stored, examples, [*data.dev, *data.test])
        self._network = self._model.network
        self._network.table_dtype = torch.bfloat16 if training.precision == "bf16" else None
        self._examples = examples
        self._batches = Batches(self._model, examples)
        self._learned, groups = learned_parts(self._model)
        self._optimiser = Optimiser(self._network.parameters(), training, groups)
        self._lengths = lengths = [len(example.sentence) for example in examples]
        trained = None if self._model.encoder is None else self._model.encoder.trained
        can_record = processes.n == 1 and (trained is None or trained.can_be_recorded)
        recorder = make_recorder(self._model.device) if can_record else None
        self._updates = MicroBatchStep(
            self._model,
            self._optimiser,
            training,
            self._batches,
            lengths,
            GraphedStep(self._model, self._optimiser, training, monitor.say, recorder),
            processes,
            monitor.say,
        )
        self._fixed = fixed_hash(self._learned, self._stored.encoder)
        self._progress = Progress()
        self._unread: list[tuple[int, list[int], Tensor]] = []
        self._last_read = time.monotonic()
        self._sampler = Sampler(lengths, training)
        processes.seed(training.seed)

    def take_up(self) -> None:
        """Go on from the last checkpoint, if there is one."""
        folder, say, processes = self._folder, self._monitor.say, self._processes
        if not processes.main:
            processes.wait()  # until the first has cleared away what cannot be used
        if list_checkpoints(folder.checkpoints):
            checkpoint = load_checkpoint(folder.checkpoints, say)
            self._progress, place = restore(
                checkpoint, self._learned, self._optimiser, say, processes, self._stored.encoder
            )
            self._sampler.go_to(**place)
            if self._progress.part_cells is not None:
                self._updates.part_cells = self._progress.part_cells
            say(f"going on after step {checkpoint.step:,}")
        self._monitor.begin_with(self._progress.messages)
        self._begun = time.monotonic() - self._progress.seconds
        if processes.main:
            folder.remove_after(self._progress.step)
            self._log = Log(folder.log, self._progress.evaluations)
            processes.wait()

    def complete(self) -> Run:
        """Make the updates that are left, then score the best model."""
        progress, config = self._progress, self._config.training
        if self._unfinished and not self._read_ahead():
            raise TrainingStopped(self._stop_message())
        try:
            self._monitor.start(progress.step, config.steps)
            self._network.train()
            while self._unfinished:
                self._update()
                is_due = progress.step % config.evaluate_every == 0 or progress.step == config.steps
                if is_due:
                    self._evaluate()
                asked = self._processes.asked_to_stop  # once: it may come at any instant
                every = config.checkpoint_every
                if not is_due and (asked or (every is not None and progress.step % every == 0)):
                    self._save()
                if asked and self._unfinished:
                    raise TrainingStopped(self._stop_message())
        finally:
            self._monitor.close()
        if self._stopped_early:
            self._monitor.say(
                f"none of the last {config.patience} evaluations was better than the best (training.patience): the run "
                f"ends after step {progress.step:,} of {config.steps:,}"
            )
        return self._finish()

    def _read_ahead(self) -> bool:
        """Let the teachers, if there are any, and the encoder read all examples; return False if asked to stop."""
        say = self._monitor.say

        def is_asked() -> bool:
            return self._processes.asked_to_stop

        if self._config.training.teachers:
            self._check_versions()
            targets = read_targets(self._model, self._examples, self._n_labelled, is_asked, say)
            if targets is None:
                return False
            self._batches.follow(targets)
            if torch.cuda.is_initialized():
                torch.cuda.empty_cache()  # the teachers are gone
        return read_ahead(self._model, self._examples, is_asked, say)

    def _check_versions(self) -> None:
        """Refuse teachers that have other weights or settings than before the run was stopped."""
        before, now = self._progress.teachers, teacher_versions(self._config)
        for name, version, expected in zip(self._config.training.teachers, now, before or now, strict=True):
            if version != expected:
                raise RelatumError(
                    f"training.teachers: {name} has changed since {self._folder.path} was stopped: found {version}, "
                    f"expected {expected}; put the former model there, or start a new run"
                )
        self._progress.teachers = now

    @property
    def _unfinished(self) -> bool:
        return self._progress.step < self._config.training.steps and not self._stopped_early

    @property
    def _stopped_early(self) -> bool:
        """True if the last evaluations (`training.patience`) were no better, before all updates were made."""
        progress, config = self._progress, self._config.training
        patience = config.patience
        return patience is not None and progress.n_since_best >= patience and progress.step < config.steps

    def _update(self) -> None:
        progress = self._progress
        batch = self._sampler.next()
        result = self._updates.update(batch, progress.step + 1)
        progress.step += 1
        self._unread.append((progress.step, batch, result))
        # Processes that have just waited for each other lose nothing by it, and must fail at the same update.
        together = self._processes.n > 1
        if together or len(self._unread) >= _UNREAD or time.monotonic() - self._last_read > _PATIENCE:
            self._read_losses()

    def _read_losses(self) -> None:
        """Take the losses from the device; raise an error if a loss is not a number or has exploded."""
        progress, training = self._progress, self._config.training
        values = torch.stack([pair for _, _, pair in self._unread]).tolist() if self._unread else []
        for (step, batch, _), (loss, norm) in zip(self._unread, values, strict=True):
            problem = progress.watch.check(loss, norm, training.divergence_factor)
            if problem is not None:
                examples = [self._examples[index] for index in batch]
                update = UpdateRecord(step, loss, norm, learning_rate(step, training))
                if self._processes.main:
                    save_batch(self._folder.bad_batch, examples, update, problem)
                raise RelatumError(describe(self._folder.bad_batch, examples, update, problem, training))
            n_words = sum(self._lengths[index] for index in batch)
            progress.add_loss(loss if training.loss == "sum" else loss * n_words, n_words)
        if values:
            self._monitor.advance(progress.step, progress.smoothed_loss)
        self._unread.clear()
        self._last_read = time.monotonic()

    def _evaluate(self) -> None:
        """Score dev, keep the model if it is the best so far or nothing is scored, and save the state."""
        self._read_losses()
        progress, folder, main = self._progress, self._folder, self._processes.main
        found = self._score_dev() if main else None
        told = self._processes.tell("" if found is None else json.dumps(found[0].to_dict()))
        evaluation = Evaluation.from_dict(json.loads(told))
        progress.evaluations.append(evaluation)
        progress.loss_sum, progress.n_words = 0.0, 0
        best = progress.best is evaluation
        if found is not None:
            if best:
                card = self._card(progress.step, {} if found[1] is None else {"dev": found[1]})
                stored = replace(self._stored, config=found[2].config)  # with the thresholds that it was scored with
                with self._optimiser.averaged():
                    save_model(stored, folder.best(progress.step), card, folder.newest_best())
            self._log.add(evaluation)
        self._save()
        if main:
            folder.remove_old(self._config.training.keep_checkpoints)
        self._monitor.evaluate(evaluation, best)

    def _score_dev(self) -> tuple[Evaluation, Scores | None, Model]:
        """Return the evaluation, the scores on dev if there is one, and the model with fitted thresholds."""
        progress, training, model = self._progress, self._config.training, self._model
        scores = None
        if self._data.dev:
            with self._optimiser.averaged():
                model, found = self._fit_thresholds(model)
                scores = score(model, self._data.dev, found)
            self._network.train()
        evaluation = Evaluation(
            progress.step,
            progress.mean_loss,
            learning_rate(progress.step, training),
            0.0 if scores is None else selection_score(scores, training),
            round(time.monotonic() - self._begun, 2),
            scores,
        )
        return evaluation, scores, model

    def _save(self) -> None:
        """Write a checkpoint; all processes must come here together."""
        self._read_losses()
        progress, processes = self._progress, self._processes
        progress.seconds = time.monotonic() - self._begun
        # All go on with what is written, so that a run that is taken up again is divided in the same way.
        self._updates.part_cells = progress.part_cells = processes.least(self._updates.part_cells)
        state = capture(self._learned, self._optimiser, self._sampler, progress, self._fixed, processes)
        if processes.main:
            save_checkpoint(self._folder.checkpoints, state, self._config.training.keep_checkpoints)
        processes.wait()

    def _finish(self) -> Run:
        """Score the model as it is on disk, on test for the first and only time."""
        best = self._progress.best
        assert best is not None
        folder, data = self._folder, self._data
        place = folder.model if folder.model.exists() else folder.best(best.step)
        loaded = load_model(place, self._device, self._config.text.functions())
        # The thresholds are fitted again, to the weights as they are stored.
        config = loaded.config.model_copy(update={"decoding": self._config.decoding})
        whole = replace(_with_encoder_of(self._model, loaded), config=config, calibration=None)
        parts = {part: examples for part, examples in data.parts.items() if part != "train" and examples}
        found = {}
        if data.dev:
            whole, found["dev"] = self._fit_thresholds(whole)
            self._say_thresholds(whole)
        found.update({part: predict(whole, examples) for part, examples in parts.items() if part not in found})
        scores = {part: score(whole, examples, found[part]) for part, examples in parts.items()}
        limits = Limits.of(whole.config, Extractor(whole).find_windows)
        ceilings = {
            part: measure_ceiling(examples, whole.tagging, self._config.evaluation.macro_over, limits)
            for part, examples in parts.items()
        }
        confidence = self._calibrate(parts, found)
        self._processes.wait()  # until all have read the model, which is about to be moved
        if self._processes.main:
            card = self._card(best.step, scores, confidence, ceilings)
            write_calibration(place, confidence.calibration, card, whole.config)
            folder.finish(best.step)
            draw_curves(folder.curves, self._progress.evaluations, self._monitor.say)
        result = make_result(
            self._record, data, self._network, self._progress, scores, ceilings, confidence, self._device
        )
        if self._processes.main:
            write_reports(folder, result)
            folder.write_result(result)
        self._processes.wait()
        return Run(folder.path, result)

    def _fit_thresholds(self, model: Model) -> tuple[Model, list[Prediction]]:
        """Return the model with the thresholds that are best on dev, if it has any, and its predictions on dev."""
        dev, training = self._data.dev, self._config.training
        return fit_thresholds(
            model,
            lambda one: predict(one, dev),
            lambda kept: selected_f1(score(model, dev, kept).entities, training),
            lambda kept: selection_score(score(model, dev, kept), training),
        )

    def _say_thresholds(self, model: Model) -> None:
        before, after = self._config.decoding, model.config.decoding
        for key, what in (("entity_threshold", "entities"), ("relation_threshold", "relations")):
            if getattr(before, key) != getattr(after, key):
                found_above = f"{what} are found above a score of {getattr(after, key)}"
                self._monitor.say(f"{found_above}, the best on dev (decoding.{key})")

    def _calibrate(self, parts: dict[str, list[Example]], found: dict[str, list[Prediction]]) -> Calibrated:
        """Calibrate scores on dev, if there is one; write the predictions, with scores as the model will have them."""
        given = self._config.evaluation.entities == "gold"
        pairs = {
            part: [(example.full_gold, one.found) for example, one in zip(examples, found[part], strict=True)]
            for part, examples in parts.items()
        }
        if self._data.dev:
            calibrated = calibrate(pairs, self._data.schema, given)
        else:
            measured = {part: measure_confidence(of_part, self._data.schema, given) for part, of_part in pairs.items()}
            calibrated = Calibrated(None, measured, measured)
        maps = calibrated.calibration
        for part, examples in parts.items() if self._processes.main else ():
            scored = found[part]
            if maps is not None:
                scored = [replace(one, found=maps.apply(one.found, given=given)) for one in scored]
            write_predictions(self._folder.predictions, part, examples, scored)
        return calibrated

    def _card(
        self,
        step: int,
        scores: dict[str, Scores],
        confidence: Calibrated | None = None,
        ceilings: dict[str, Ceiling] | None = None,
    ) -> str:
        record = self._record
        return make_card(self._data, record.data, self._config, record.command, step, scores, confidence, ceilings)

    def _stop_message(self) -> str:
        if not self._progress.step:
            return (
                "stopped before the first update: nothing was learned yet. "
                f"To begin again: {resume_command(self._folder.path, self._config)}"
            )
        best = self._progress.best
        kept = "best model" if self._data.dev else "model"
        model = f" The {kept} so far is {self._folder.best(best.step)}." if best else ""
        return (
            f"stopped after step {self._progress.step:,}; the state is saved.{model} "
            f"To go on: {resume_command(self._folder.path, self._config)}"
        )


def predict(model: Model, examples: Sequence[Example]) -> list[Prediction]:
    """Return a model's predictions for examples, as for any text; the settings may say to give it the gold entities."""
    gold = model.config.evaluation.entities == "gold"
    given = [example.gold.entities for example in examples] if gold else None
    return Extractor(model).predict([example.sentence for example in examples], given)


def score(model: Model, examples: Sequence[Example], found: Sequence[Prediction] | None = None) -> Scores:
    """Score a model against all annotations of examples; its predictions may be given as `found`."""
    config = model.config.evaluation
    predictions = predict(model, examples) if found is None else found
    gold = [example.full_gold for example in examples]
    pairs = [(own, one.found) for own, one in zip(gold, predictions, strict=True)]
    macro_over = usable_macro(config.macro_over, model.schema, gold)
    return evaluate(pairs, model.schema, macro_over, gold_entities=config.entities == "gold")


def _with_encoder_of(trained: Model, loaded: Model) -> Model:
    """Return the loaded model; if both encoders are the same, with the one that has already read the sentences."""
    if trained.encoder is None or loaded.encoder is None or trained.encoder.fingerprint != loaded.encoder.fingerprint:
        return loaded
    return replace(loaded, encoder=trained.encoder)
