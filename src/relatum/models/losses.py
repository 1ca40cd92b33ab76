"""The joint loss of section 5."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

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
    relation = _cell_loss(outputs.relation_logits, labels, config)
    total = _weigh(config.entity_weight, entity) + _weigh(config.relation_weight, relation)
    return Loss(total, entity, relation)


def _weigh(weight: float, loss: Tensor) -> Tensor:
    return loss if weight == 1 else weight * loss


def _cross_entropy(logits: Tensor, tags: Tensor, config: TrainingConfig) -> Tensor:
    logits = _wide(logits)
    total = cross_entropy(logits.flatten(0, -2), tags.flatten(), ignore_index=IGNORED, reduction="sum")
    return _reduced(total, tags, config)


def _cell_loss(logits: Tensor, labels: Labels, config: TrainingConfig) -> Tensor:
    tags = labels.relation_tags
    if labels.tag_sets is None:
        return _cross_entropy(logits, tags, config)
    logits = _wide(logits)
    has_tag = labels.tag_sets[tags.clamp(min=0)]
    if config.cell_loss == "zlpr":
        losses = _ranking_loss(logits, has_tag)
    else:
        losses = (softplus(logits) - logits * has_tag).sum(-1)
    total = losses.masked_fill(tags == IGNORED, 0).sum()
    return _reduced(total, tags, config)


def _ranking_loss(logits: Tensor, has_tag: Tensor) -> Tensor:
    """Return a loss for each cell: the tags that it has should score above 0, and the others below.

    log(1 + Σ exp(score of a tag it lacks)) + log(1 + Σ exp(−score of a tag it has)), which is a cross entropy where
    each cell has one tag at most.
    """
    zero = logits.new_zeros(()).expand(*logits.shape[:-1], 1)
    nothing = -torch.inf
    above = torch.cat((zero, logits.masked_fill(has_tag, nothing)), -1).logsumexp(-1)
    below = torch.cat((zero, (-logits).masked_fill(~has_tag, nothing)), -1).logsumexp(-1)
    return above + below


def _wide(logits: Tensor) -> Tensor:
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _reduced(total: Tensor, tags: Tensor, config: TrainingConfig) -> Tensor:
    if config.loss == "sum":
        return total
    return total / (tags != IGNORED).sum().clamp(min=1)
