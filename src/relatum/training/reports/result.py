"""The content of `result.json`: what a run was, how it went and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from relatum.evaluation.ceiling import ceiling_record
from relatum.evaluation.confidence import Calibrated
from relatum.evaluation.metrics import Scores
from relatum.models.build import count_parameters
from relatum.models.network import TableSequenceNetwork
from relatum.training import provenance
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunRecord
from relatum.training.history import Progress
from relatum.types import Example


def make_result(
    record: RunRecord,
    data: TrainingData,
    network: TableSequenceNetwork,
    progress: Progress,
    scores: Mapping[str, Scores],
    ceilings: Mapping[str, Scores],
    confidence: Calibrated,
    device: torch.device,
) -> dict[str, Any]:
    """Make the record of a complete run; `scores` are the scores of the model that is kept, by part.

    `ceilings` are the best scores that the tagging allows, by part.
    """
    best, training = progress.best, record.config.training
    assert best is not None
    return {
        "command": record.command,
        "commit": provenance.commit(),
        "versions": provenance.versions(),
        "device": provenance.device_name(device),
        "seconds": round(progress.seconds, 1),
        "seed": training.seed,
        "data": {
            "path": record.data,
            "fold": record.fold,
            "sha256": record.fingerprint,
            "parts": {name: _counts(part) for name, part in data.parts.items()},
            "remarks": list(data.remarks),
        },
        "n_parameters": count_parameters(network),
        "steps": progress.step,
        "stopped_early": progress.step < training.steps,
        "best": {"step": best.step, "score": best.score},
        "dev": scores["dev"].to_dict() if "dev" in scores else None,
        "test": scores["test"].to_dict() if "test" in scores else None,
        "ceiling": {part: ceiling_record(ceiling) for part, ceiling in ceilings.items()},
        "confidence": confidence.to_dict(),
        "part_cells": progress.part_cells,
        "messages": list(progress.messages),
        "config": record.config.to_dict(),
        "history": progress.to_dict()["evaluations"],
    }


def _counts(examples: Sequence[Example]) -> dict[str, Any]:
    entities = Counter(entity.label for example in examples for entity in example.full_gold.entities)
    relations = Counter(relation.label for example in examples for relation in example.full_gold.relations)
    return {
        "sentences": len(examples),
        "entities": dict(sorted(entities.items())),
        "relations": dict(sorted(relations.items())),
        "left_out": {
            "entities": sum(len(example.left_out.entities) for example in examples),
            "relations": sum(len(example.left_out.relations) for example in examples),
        },
    }
