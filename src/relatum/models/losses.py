"""The joint loss of section 5."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from relatum.config import TrainingConfig
from relatum.models.labels import IGNORED, Labels
from relatum.models.outputs import Outputs


@dataclass(frozen=True, slots=True)
class Loss:
    """The weighted sum that is minimised, and its two parts before weighting."""

    total: Tensor
    entity: Tensor
    relation: Tensor


def joint_loss(outputs: Outputs, labels: Labels, config: TrainingConfig) -> Loss:
    """Equations 14 and 15: cross entropy over the words and over the cells, summed or averaged as configured."""
    entity = _cross_entropy(outputs.entity_logits, labels.entity_tags, config)
    if outputs.relation_logits is None:
        return Loss(_weigh(config.entity_weight, entity), entity, entity.new_zeros(()))
    relation = _cross_entropy(outputs.relation_logits, labels.relation_tags, config)
    total = _weigh(config.entity_weight, entity) + _weigh(config.relation_weight, relation)
    return Loss(total, entity, relation)


def _weigh(weight: float, loss: Tensor) -> Tensor:
    return loss if weight == 1 else weight * loss


def _cross_entropy(logits: Tensor, tags: Tensor, config: TrainingConfig) -> Tensor:
    logits = _wide(logits)
    total = cross_entropy(logits.flatten(0, -2), tags.flatten(), ignore_index=IGNORED, reduction="sum")
    return _reduced(total, tags, config)


def _wide(logits: Tensor) -> Tensor:
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _reduced(total: Tensor, tags: Tensor, config: TrainingConfig) -> Tensor:
    if config.loss == "sum":
        return total
    return total / (tags != IGNORED).sum().clamp(min=1)
