"""The joint loss of section 5."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid, pad, softplus

from relatum.config import TrainingConfig
from relatum.models.labels import IGNORED, Labels
from relatum.models.outputs import Outputs


@dataclass(frozen=True, slots=True)
class Loss:
    """The weighted sum that is minimised, and its two parts before weighting."""

    total: Tensor
    entity: Tensor
    relation: Tensor


_NOTHING = -1e30
"""A score that adds nothing to a sum of exponentials, and is finite, so that nothing is subtracted from infinity."""


def joint_loss(outputs: Outputs, labels: Labels, config: TrainingConfig) -> Loss:
    """Equations 14 and 15: cross entropy over the words and over the cells, summed or averaged as configured.

    Targets, if there are any, are learned instead of the tags.
    """
    entity = _cross_entropy(outputs.entity_logits, labels.entity_tags, config, labels.entity_targets)
    if outputs.relation_logits is None:
        return Loss(_weigh(config.entity_weight, entity), entity, entity.new_zeros(()))
    relation = _cell_loss(outputs.relation_logits, labels, config)
    total = _weigh(config.entity_weight, entity) + _weigh(config.relation_weight, relation)
    return Loss(total, entity, relation)


def _weigh(weight: float, loss: Tensor) -> Tensor:
    return loss if weight == 1 else weight * loss


def _cross_entropy(logits: Tensor, tags: Tensor, config: TrainingConfig, targets: Tensor | None = None) -> Tensor:
    logits = _wide(logits)
    if targets is not None:
        losses = cross_entropy(logits.flatten(0, -2), targets.flatten(0, -2).to(logits.dtype), reduction="none")
        return _reduced(losses.view_as(tags).masked_fill(tags == IGNORED, 0).sum(), tags, config)
    total = cross_entropy(logits.flatten(0, -2), tags.flatten(), ignore_index=IGNORED, reduction="sum")
    return _reduced(total, tags, config)


def _cell_loss(logits: Tensor, labels: Labels, config: TrainingConfig) -> Tensor:
    tags = labels.relation_tags
    targets = labels.relation_targets
    if labels.tag_sets is None:
        return _cross_entropy(logits, tags, config, targets)
    logits = _wide(logits)
    if targets is not None:
        losses = soft_ranking_loss(logits, targets.to(logits.dtype))
        return _reduced(losses.masked_fill(tags == IGNORED, 0).sum(), tags, config)
    if logits.is_cuda:  # shapes that depend on the tags could not be recorded as a CUDA graph
        losses = ranking_loss(logits, labels.tag_sets[tags.clamp(min=0)])
        return _reduced(losses.masked_fill(tags == IGNORED, 0).sum(), tags, config)
    # Most cells have no tag: their loss is a cross entropy, which takes a fraction of the time.
    has_some = tags > 0
    with_none = pad(logits, (1, 0)).flatten(0, -2)
    total = cross_entropy(
        with_none, tags.masked_fill(has_some, IGNORED).flatten(), ignore_index=IGNORED, reduction="sum"
    )
    total = total + ranking_loss(logits[has_some], labels.tag_sets[tags[has_some]]).sum()
    return _reduced(total, tags, config)


def ranking_loss(logits: Tensor, has_tag: Tensor) -> Tensor:
    """Return a loss for each cell: the tags that it has should score above 0, and the others below.

    log(1 + Σ exp(score of a tag it lacks)) + log(1 + Σ exp(−score of a tag it has)), known as ZLPR. For a cell with no
    tag it is a cross entropy between its tags and a score of 0 for none of them.
    """
    above = softplus(logits.masked_fill(has_tag, _NOTHING).logsumexp(-1))
    below = softplus((-logits).masked_fill(~has_tag, _NOTHING).logsumexp(-1))
    return above + below


def soft_ranking_loss(logits: Tensor, log_odds: Tensor) -> Tensor:
    """Return the ranking loss for tags that a cell has with a probability t, given by its log-odds.

    log(1 + Σ (1 − t) exp(score)) + log(1 + Σ t exp(−score)): for probabilities of 0 and 1 it is `ranking_loss`. It is
    lowest where each score is half of the log-odds.
    """
    above = softplus((logits + logsigmoid(-log_odds)).logsumexp(-1))
    below = softplus((logsigmoid(log_odds) - logits).logsumexp(-1))
    return above + below


def _wide(logits: Tensor) -> Tensor:
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _reduced(total: Tensor, tags: Tensor, config: TrainingConfig) -> Tensor:
    if config.loss == "sum":
        return total
    return total / (tags != IGNORED).sum().clamp(min=1)
