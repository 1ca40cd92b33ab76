"""Making the result of a run, when it is complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import torch

from relatum.data.passages import count_sentences
from relatum.evaluation.ceiling import Ceiling
from relatum.evaluation.confidence import Calibrated
from relatum.models.build import count_parameters
from relatum.models.network import TableSequenceNetwork
from relatum.scores import Scores
from relatum.training import provenance
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunRecord
from relatum.training.history import Progress
from relatum.training.result import BestModel, DataSummary, LabelCounts, LeftOut, RunResult
from relatum.types import Example


def make_result(
    record: RunRecord,
    data: TrainingData,
    network: TableSequenceNetwork,
    progress: Progress,
    scores: Mapping[str, Scores],
    ceilings: Mapping[str, Ceiling],
    confidence: Calibrated,
    device: torch.device,
) -> RunResult:
    """Make the result of a complete run; `scores` are the scores of the model that is kept, by part.

    `ceilings` are the best scores that the model allows, by part.
    """
    best, training = progress.best, record.config.training
    assert best is not None
    return RunResult(
        command=record.command,
        commit=provenance.commit(),
        versions=provenance.versions(),
        device=provenance.device_name(device),
        seconds=round(progress.seconds, 1),
        seed=training.seed,
        data=_summarise(record, data),
        n_parameters=count_parameters(network),
        steps=progress.step,
        stopped_early=progress.step < training.steps,
        best=BestModel(best.step, best.score),
        dev=scores.get("dev"),
        test=scores.get("test"),
        ceilings=ceilings,
        confidence=confidence,
        part_cells=progress.part_cells,
        messages=tuple(progress.messages),
        config=record.config,
        history=tuple(progress.evaluations),
    )


def _summarise(record: RunRecord, data: TrainingData) -> DataSummary:
    parts = {name: _count(examples) for name, examples in data.parts.items()}
    return DataSummary(record.data, record.fold, record.fingerprint, parts, data.remarks)


def _count(examples: Sequence[Example]) -> LabelCounts:
    entities = Counter(entity.label for example in examples for entity in example.full_gold.entities)
    relations = Counter(relation.label for example in examples for relation in example.full_gold.relations)
    left_out = LeftOut(
        sum(len(example.left_out.entities) for example in examples),
        sum(len(example.left_out.relations) for example in examples),
    )
    n_sentences = count_sentences(examples)
    return LabelCounts(n_sentences, dict(sorted(entities.items())), dict(sorted(relations.items())), left_out)
