"""The joint loss against plain loops over words and cells."""

from __future__ import annotations

from math import exp, log
from typing import Any

import pytest
import torch

from relatum.config import TrainingConfig
from relatum.models.labels import IGNORED, Labels, make_labels
from relatum.models.losses import Loss, joint_loss
from relatum.models.model import Model
from relatum.models.outputs import Outputs
from relatum.types import Example


def make_outputs(labels: Labels, n_entity_tags: int, n_relation_tags: int) -> Outputs:
    torch.manual_seed(0)
    entity = torch.randn(*labels.entity_tags.shape, n_entity_tags, requires_grad=True)
    relation = torch.randn(*labels.relation_tags.shape, n_relation_tags, requires_grad=True)
    return Outputs(entity, relation, ())


def loss_of(logits: list[float], tag: int) -> float:
    """−log P(tag), equations 11 to 14."""
    return log(sum(exp(value) for value in logits)) - logits[tag]


def expected_losses(outputs: Outputs, labels: Labels) -> tuple[list[float], list[float]]:
    assert outputs.relation_logits is not None
    entity, relation = [], []
    n_batch, n_words = labels.entity_tags.shape
    for b in range(n_batch):
        for i in range(n_words):
            if labels.entity_tags[b, i] != IGNORED:
                entity.append(loss_of(outputs.entity_logits[b, i].tolist(), int(labels.entity_tags[b, i])))
            for j in range(n_words):
                tag = int(labels.relation_tags[b, i, j])
                if tag != IGNORED:
                    relation.append(loss_of(outputs.relation_logits[b, i, j].tolist(), tag))
    return entity, relation


def compute(model: Model, examples: list[Example]) -> tuple[Loss, list[float], list[float]]:
    labels = make_labels(examples, model)
    outputs = make_outputs(labels, len(model.tagging.words.names), len(model.tagging.cells.names))
    return joint_loss(outputs, labels, model.config.training), *expected_losses(outputs, labels)


@pytest.mark.parametrize("fill", ["entire", "lower", "upper"])
@pytest.mark.parametrize("diagonal", ["true", "false"])
def test_loss_is_summed_over_words_cells_and_batch(
    make_model: Any, examples: list[Example], fill: str, diagonal: str
) -> None:
    model = make_model(f"tagging.fill={fill}", f"training.diagonal_loss={diagonal}")
    loss, entity, relation = compute(model, examples)
    assert len(entity) == 6 + 4
    cells = {"entire": 36 + 16 - (0 if diagonal == "true" else 10), "lower": 15 + 6, "upper": 15 + 6}[fill]
    assert len(relation) == cells
    assert loss.entity.item() == pytest.approx(sum(entity), rel=1e-5)
    assert loss.relation.item() == pytest.approx(sum(relation), rel=1e-5)
    assert loss.total.item() == pytest.approx(sum(entity) + sum(relation), rel=1e-5)


def test_loss_of_two_sentences_is_the_sum_of_their_losses(make_model: Any, examples: list[Example]) -> None:
    model: Model = make_model()
    labels = make_labels(examples, model)
    outputs = make_outputs(labels, 5, 4)
    assert outputs.relation_logits is not None
    config = model.config.training
    apart = [
        joint_loss(
            Outputs(outputs.entity_logits[b : b + 1, :n], outputs.relation_logits[b : b + 1, :n, :n], ()),
            make_labels(examples[b : b + 1], model),
            config,
        ).total.item()
        for b, n in enumerate((6, 4))
    ]
    assert joint_loss(outputs, labels, config).total.item() == pytest.approx(sum(apart), rel=1e-5)


def test_mean_is_over_the_words_and_cells_that_count(make_model: Any, examples: list[Example]) -> None:
    loss, entity, relation = compute(make_model("training.loss=mean", "training.diagonal_loss=false"), examples)
    assert loss.entity.item() == pytest.approx(sum(entity) / len(entity), rel=1e-5)
    assert loss.relation.item() == pytest.approx(sum(relation) / len(relation), rel=1e-5)


def test_weights_apply_to_the_total_only(make_model: Any, examples: list[Example]) -> None:
    model = make_model("training.entity_weight=0.25", "training.relation_weight=3.0")
    loss, entity, relation = compute(model, examples)
    assert loss.entity.item() == pytest.approx(sum(entity), rel=1e-5)
    assert loss.relation.item() == pytest.approx(sum(relation), rel=1e-5)
    assert loss.total.item() == pytest.approx(0.25 * sum(entity) + 3 * sum(relation), rel=1e-5)


def test_ignored_words_and_cells_learn_nothing(make_model: Any, examples: list[Example]) -> None:
    model: Model = make_model("tagging.fill=lower")
    labels = make_labels(examples, model)
    outputs = make_outputs(labels, 5, 4)
    total = joint_loss(outputs, labels, model.config.training).total
    assert outputs.relation_logits is not None
    of_words, of_cells = torch.autograd.grad(total, [outputs.entity_logits, outputs.relation_logits])
    assert torch.equal(of_words.abs().sum(-1) > 0, labels.entity_tags != IGNORED)
    assert torch.equal(of_cells.abs().sum(-1) > 0, labels.relation_tags != IGNORED)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_loss_is_computed_in_single_precision_or_in_the_double_of_its_scores(dtype: torch.dtype) -> None:
    labels = Labels(torch.tensor([[0, 1]]), torch.zeros(1, 2, 2, dtype=torch.long))
    logits = torch.tensor([[[0.1, 0.7], [1.3, -0.2]]], dtype=torch.float64).to(dtype)
    loss = joint_loss(Outputs(logits, torch.ones(1, 2, 2, 3, dtype=dtype), ()), labels, TrainingConfig())
    assert loss.total.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    rows: list[list[float]] = logits[0].tolist()
    tolerance = 1e-14 if dtype == torch.float64 else 1e-6
    assert loss.entity.item() == pytest.approx(loss_of(rows[0], 0) + loss_of(rows[1], 1), rel=tolerance)
    assert loss.relation.item() == pytest.approx(4 * log(3), rel=tolerance)


def test_without_relation_scores_the_relation_loss_is_zero() -> None:
    labels = Labels(torch.tensor([[0, 1]]), torch.zeros(1, 2, 2, dtype=torch.long))
    loss = joint_loss(Outputs(torch.zeros(1, 2, 2), None, ()), labels, TrainingConfig())
    assert loss.relation.item() == 0
    assert loss.total.item() == pytest.approx(2 * log(2))


@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_sentence_of_one_word_has_no_cells_in_a_triangle_and_a_finite_loss(kind: str) -> None:
    """Nothing is divided by the number of cells, which is 0."""
    config = TrainingConfig.model_validate({"loss": kind})
    labels = Labels(torch.tensor([[0]]), torch.full((1, 1, 1), IGNORED))
    loss = joint_loss(Outputs(torch.zeros(1, 1, 2), torch.zeros(1, 1, 1, 3), ()), labels, config)
    assert loss.relation.item() == 0
    assert loss.total.item() == pytest.approx(log(2))
