"""The joint loss of section 5."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from relatum.config import TrainingConfig
from relatum.models.labels import IGNORED, Labels
from relatum.models.outputs import Outputs

_LEAST = 1e-12


@dataclass(frozen=True, slots=True)
class Loss:
    """The weighted sum that is minimised, and its two parts before weighting."""

    total: Tensor
    entity: Tensor
    relation: Tensor


def balance_tags(counts: Tensor, beta: float) -> Tensor:
    """The weights of tags that have so many cells: one over the effective number of these, (1 − betaⁿ) / (1 − beta).

    They are scaled so that over all cells their mean is 1, and the relation loss is as large beside the entity loss as
    without them. A tag without cells has the weight of one with a single cell.
    """
    n_cells = counts.clamp(min=1).double()
    weights = (1 - beta) / (1 - beta**n_cells)
    if counts.any():
        weights = weights * counts.sum() / (weights * counts).sum()
    return weights.float()


def joint_loss(outputs: Outputs, labels: Labels, config: TrainingConfig) -> Loss:
    """Equations 14 and 15: cross entropy over the words and over the cells, summed or averaged as configured.

    The relation loss may be one of the others that `relation_loss` names; the labels say what the balanced one weighs.
    """
    entity = _cross_entropy(outputs.entity_logits, labels.entity_tags, config)
    if outputs.relation_logits is None:
        return Loss(_weigh(config.entity_weight, entity), entity, entity.new_zeros(()))
    if config.relation_loss == "focal":
        relation = _focal(outputs.relation_logits, labels.relation_tags, config)
    else:
        relation = _cross_entropy(outputs.relation_logits, labels.relation_tags, config, labels.tag_weights)
    total = _weigh(config.entity_weight, entity) + _weigh(config.relation_weight, relation)
    return Loss(total, entity, relation)


def _weigh(weight: float, loss: Tensor) -> Tensor:
    return loss if weight == 1 else weight * loss


def _cross_entropy(logits: Tensor, tags: Tensor, config: TrainingConfig, weights: Tensor | None = None) -> Tensor:
    logits = _wide(logits)
    weights = None if weights is None else weights.to(logits.dtype)
    total = cross_entropy(logits.flatten(0, -2), tags.flatten(), weights, ignore_index=IGNORED, reduction="sum")
    return _reduced(total, tags, config)


def _focal(logits: Tensor, tags: Tensor, config: TrainingConfig) -> Tensor:
    logits = _wide(logits)
    losses = cross_entropy(logits.flatten(0, -2), tags.flatten(), ignore_index=IGNORED, reduction="none")
    # 1 − P from −log P, exact near 0; and not quite 0, where a power below 1 has no slope.
    unsure = -torch.expm1(-losses)
    return _reduced((unsure.clamp(min=_LEAST) ** config.focal_gamma * losses).sum(), tags, config)


def _wide(logits: Tensor) -> Tensor:
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _reduced(total: Tensor, tags: Tensor, config: TrainingConfig) -> Tensor:
    if config.loss == "sum":
        return total
    return total / (tags != IGNORED).sum().clamp(min=1)
