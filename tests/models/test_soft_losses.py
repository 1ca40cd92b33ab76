"""The losses of probabilities that are learned instead of tags."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from relatum.config import TrainingConfig
from relatum.models.labels import IGNORED, Labels, Targets, label_example, make_labels, make_tag_sets
from relatum.models.losses import Loss, joint_loss, soft_ranking_loss
from relatum.models.model import Model
from relatum.models.outputs import Outputs
from relatum.types import Example

from .conftest import MakeModel

TAGGINGS = (("tagging.fill=lower",), ("tagging.kind=spans",))


def random_outputs(model: Model, n_words: int, seed: int = 0) -> Outputs:
    """Random scores of one sentence, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [len(names) for names in (model.tagging.words.names, model.tagging.cells.names)]
    words = torch.randn(1, n_words, sizes[0], generator=generator, dtype=torch.float64)
    cells = 3 * torch.randn(1, n_words, n_words, sizes[1], generator=generator, dtype=torch.float64)
    return Outputs(words.requires_grad_(), cells.requires_grad_())


def mix(model: Model, example: Example, teacher: Outputs, share: float) -> Targets:
    sets = make_tag_sets(model)
    labels = label_example(example, model, sets)
    assert teacher.relation_logits is not None
    logits = teacher.entity_logits[0].detach(), teacher.relation_logits[0].detach()
    return Targets.mix(labels, *logits, share, None if sets is None else sets.to_table("cpu"))


def with_targets(labels: Labels, targets: Targets) -> Labels:
    assert targets.relation is not None
    return Labels(
        labels.entity_tags, labels.relation_tags, labels.tag_sets, targets.entity[None], targets.relation[None]
    )


def differentiate(outputs: Outputs, labels: Labels, config: TrainingConfig) -> tuple[Loss, tuple[Tensor, ...]]:
    loss = joint_loss(outputs, labels, config)
    assert outputs.relation_logits is not None
    return loss, torch.autograd.grad(loss.total, [outputs.entity_logits, outputs.relation_logits])


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("overrides", TAGGINGS)
def test_targets_of_gold_alone_are_learned_like_tags(
    make_model: MakeModel, examples: list[Example], overrides: tuple[str, ...], reduction: str
) -> None:
    model = make_model(*overrides, f"training.loss={reduction}", "training.relation_weight=0.5")
    for example in examples:
        outputs = random_outputs(model, len(example.sentence))
        labels = make_labels([example], model)
        soft = with_targets(labels, mix(model, example, random_outputs(model, len(example.sentence), 1), 0.0))
        hard_loss, hard_gradients = differentiate(outputs, labels, model.config.training)
        soft_loss, soft_gradients = differentiate(outputs, soft, model.config.training)
        for part in ("total", "entity", "relation"):
            torch.testing.assert_close(getattr(soft_loss, part), getattr(hard_loss, part), rtol=1e-12, atol=1e-12)
        for one, other in zip(soft_gradients, hard_gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("overrides", TAGGINGS)
def test_lowest_loss_is_where_the_student_has_the_probabilities_of_its_teacher(
    make_model: MakeModel, examples: list[Example], overrides: tuple[str, ...]
) -> None:
    model, example = make_model(*overrides), examples[1]
    teacher = random_outputs(model, len(example.sentence), 2)
    labels = with_targets(make_labels([example], model), mix(model, example, teacher, 1.0))
    student = random_outputs(model, len(example.sentence), 3)
    assert student.relation_logits is not None
    assert teacher.relation_logits is not None
    parameters = [student.entity_logits, student.relation_logits]
    optimiser = torch.optim.LBFGS(parameters, max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def compute() -> Tensor:
        optimiser.zero_grad()
        loss = joint_loss(student, labels, model.config.training).total
        loss.backward()
        return loss

    optimiser.step(compute)
    normalise = torch.sigmoid if model.tagging.has_tag_sets else lambda logits: logits.softmax(-1)
    counts = labels.relation_tags != IGNORED
    # The targets have the 11 bits of half precision.
    torch.testing.assert_close(student.entity_logits.softmax(-1), teacher.entity_logits.softmax(-1), rtol=0, atol=1e-3)
    torch.testing.assert_close(
        normalise(student.relation_logits)[counts], normalise(teacher.relation_logits)[counts], rtol=0, atol=1e-3
    )


@pytest.mark.parametrize("log_odds", [-12.0, -3.0, 0.0, 0.5, 9.0, 16.0])
def test_loss_of_a_single_tag_is_lowest_at_half_of_its_log_odds(log_odds: float) -> None:
    scores = torch.linspace(-10, 10, 200_001, dtype=torch.float64)
    losses = soft_ranking_loss(scores[:, None], torch.full((len(scores), 1), log_odds, dtype=torch.float64))
    assert scores[losses.argmin()].item() == pytest.approx(log_odds / 2, abs=2e-3)


@pytest.mark.parametrize("sure", [-12.0, -7.0, 7.0, 12.0])
def test_sure_teacher_keeps_its_digits(make_model: MakeModel, examples: list[Example], sure: float) -> None:
    """A probability of 0.999 would be one of two numbers in half precision; log-odds are exact to a thousandth."""
    model, example = make_model("tagging.kind=spans"), examples[0]
    n = len(example.sentence)
    words = torch.zeros(1, n, len(model.tagging.words.names))
    cells = torch.full((1, n, n, len(model.tagging.cells.names)), sure)
    targets = mix(model, example, Outputs(words, cells), 1.0)
    assert targets.relation is not None
    torch.testing.assert_close(targets.relation.float(), torch.full_like(targets.relation, 2 * sure).float())


@pytest.mark.parametrize("overrides", TAGGINGS)
def test_share_divides_targets_between_teacher_and_gold(
    make_model: MakeModel, examples: list[Example], overrides: tuple[str, ...]
) -> None:
    model, example = make_model(*overrides), examples[0]
    teacher = random_outputs(model, len(example.sentence), 4)
    parts = [mix(model, example, teacher, share) for share in (0.0, 0.25, 1.0)]
    words = [one.entity.float() for one in parts]
    torch.testing.assert_close(words[1], 0.75 * words[0] + 0.25 * words[2], rtol=0, atol=1e-3)
    cells = []
    for one in parts:
        assert one.relation is not None
        cells.append(one.relation.float().sigmoid() if model.tagging.has_tag_sets else one.relation.float())
    torch.testing.assert_close(cells[1], 0.75 * cells[0] + 0.25 * cells[2], rtol=0, atol=1e-3)


@pytest.mark.parametrize("overrides", TAGGINGS)
def test_ignored_words_and_cells_learn_nothing_from_targets(
    make_model: MakeModel, examples: list[Example], overrides: tuple[str, ...]
) -> None:
    model, example = make_model(*overrides), examples[0]
    labels = make_labels([example], model)
    labels.relation_tags[0, 3, 2] = IGNORED
    labels.entity_tags[0, 1] = IGNORED
    outputs = random_outputs(model, len(example.sentence))
    soft = with_targets(labels, mix(model, example, random_outputs(model, len(example.sentence), 5), 0.5))
    _, (of_words, of_cells) = differentiate(outputs, soft, model.config.training)
    assert torch.equal(of_words.abs().sum(-1) > 0, labels.entity_tags != IGNORED)
    assert torch.equal(of_cells.abs().sum(-1) > 0, labels.relation_tags != IGNORED)


def test_labels_go_to_a_device_with_their_targets(make_model: MakeModel, examples: list[Example]) -> None:
    model, example = make_model(), examples[0]
    teacher = random_outputs(model, len(example.sentence))
    moved = with_targets(make_labels([example], model), mix(model, example, teacher, 1.0)).to("meta")
    assert moved.entity_targets is not None
    assert moved.relation_targets is not None
    assert moved.entity_targets.is_meta
    assert moved.relation_targets.is_meta
