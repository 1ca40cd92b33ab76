"""The losses and labels of cells that have any number of tags, against plain loops over cells and tags."""

from __future__ import annotations

from math import exp, inf, log, nan

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

from relatum.config import TrainingConfig, load_config
from relatum.errors import ConfigError
from relatum.models.labels import IGNORED, Labels, TagSets, label_example, make_labels, make_tag_sets
from relatum.models.losses import joint_loss, ranking_loss
from relatum.models.outputs import Outputs
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span

from .conftest import MakeModel

SETS = torch.tensor([[0, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1]]).bool()
N_SETS, N_TAGS = SETS.shape


def configure(loss: str = "sum") -> TrainingConfig:
    return TrainingConfig.model_validate({"loss": loss, "relation_weight": 0.5})


def loss_of_cell(logits: list[float], has_tag: list[bool]) -> float:
    """Return the loss of one cell, one tag at a time."""
    lacking = [score for score, has in zip(logits, has_tag, strict=True) if not has]
    having = [score for score, has in zip(logits, has_tag, strict=True) if has]
    return log(1 + sum(exp(score) for score in lacking)) + log(1 + sum(exp(-score) for score in having))


def random_batch(seed: int, n_words: int = 3) -> tuple[Tensor, Labels]:
    """Return logits and labels of two sentences; some cells are ignored, at least one is not."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(2, n_words, n_words, N_TAGS, generator=generator, dtype=torch.float64)
    tags = torch.randint(0, N_SETS, (2, n_words, n_words), generator=generator)
    tags[torch.rand(tags.shape, generator=generator) < 0.3] = IGNORED
    tags[0, 0, 0] = 2
    return logits, Labels(torch.zeros(2, n_words, dtype=torch.long), tags, SETS)


def compute(logits: Tensor, labels: Labels, config: TrainingConfig) -> Tensor:
    """Return the loss of the cells."""
    words = torch.zeros(*labels.entity_tags.shape, 2, dtype=logits.dtype)
    loss = joint_loss(Outputs(words, logits, ()), labels, config)
    torch.testing.assert_close(loss.total, loss.entity + 0.5 * loss.relation)
    return loss.relation


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@given(seed=st.integers(0, 2**32 - 1))
def test_loss_is_that_of_each_cell_that_counts(reduction: str, seed: int) -> None:
    logits, labels = random_batch(seed)
    expected = []
    for cell in (labels.relation_tags != IGNORED).nonzero().tolist():
        has_tag = SETS[labels.relation_tags[tuple(cell)]].tolist()
        expected.append(loss_of_cell(logits[tuple(cell)].tolist(), has_tag))
    found = compute(logits, labels, configure(reduction))
    assert found.item() == pytest.approx(sum(expected) / (1 if reduction == "sum" else len(expected)), rel=1e-12)
    assert found.item() > 0


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradient_is_that_of_finite_differences(reduction: str) -> None:
    logits, labels = random_batch(5, n_words=2)
    logits.requires_grad_()
    config = configure(reduction)
    assert torch.autograd.gradcheck(lambda values: compute(values, labels, config), logits)


def test_all_tags_of_counted_cells_learn_and_ignored_cells_do_not() -> None:
    """Tags that a cell has are pushed up, the others down."""
    logits, labels = random_batch(6)
    assert (labels.relation_tags == IGNORED).any()
    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(compute(logits, labels, configure()), logits)
    counted = (labels.relation_tags != IGNORED)[..., None]
    expected = torch.where(SETS[labels.relation_tags.clamp(min=0)], -1.0, 1.0).double() * counted
    assert torch.equal(gradient.sign(), expected)


@pytest.mark.parametrize("value", [inf, -inf, nan, 1e30])
def test_loss_does_not_depend_on_the_scores_of_ignored_cells(value: float) -> None:
    logits, labels = random_batch(7)
    expected = compute(logits, labels, configure())
    ignored = labels.relation_tags == IGNORED
    assert ignored.any()
    logits[ignored] = value
    assert torch.equal(compute(logits, labels, configure()), expected)


@pytest.mark.parametrize("value", [inf, -inf, nan])
def test_gradient_of_counted_cells_does_not_depend_on_ignored_cells(value: float) -> None:
    """The gradient of the ignored cells themselves may be NaN if their scores are not finite."""
    logits, labels = random_batch(7)
    ignored = labels.relation_tags == IGNORED
    gradients: list[Tensor] = []
    for filling in (0.0, value):
        logits[ignored] = filling
        scores = logits.clone().requires_grad_()
        gradients += torch.autograd.grad(compute(scores, labels, configure()), scores)
    finite, other = gradients
    assert torch.equal(finite[~ignored], other[~ignored])
    assert not finite[ignored].any()


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_without_cells_that_count_the_loss_is_zero(reduction: str) -> None:
    labels = Labels(torch.zeros(1, 2, dtype=torch.long), torch.full((1, 2, 2), IGNORED), SETS)
    assert compute(torch.ones(1, 2, 2, N_TAGS), labels, configure(reduction)).item() == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_loss_is_computed_in_single_precision_or_in_the_double_of_its_scores(dtype: torch.dtype) -> None:
    logits, labels = random_batch(8)
    logits = logits.to(dtype)
    found = compute(logits, labels, configure())
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    exact = compute(logits.double(), labels, configure())
    assert found.item() == pytest.approx(exact.item(), rel=1e-14 if dtype == torch.float64 else 1e-6)


def test_large_scores_have_a_finite_loss_and_gradient() -> None:
    """The loss of a score on the wrong side of 0 is its distance from 0; on the right side it is nothing."""
    logits = torch.tensor([[[[-200.0, 300.0, -300.0]]]], requires_grad=True)
    labels = Labels(torch.tensor([[0]]), torch.tensor([[[1]]]), SETS)
    loss = compute(logits, labels, configure())
    assert loss.item() == pytest.approx(500)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient.flatten().tolist() == pytest.approx([-1, 1, 0])


def cross_entropy_with_none(logits: Tensor, tag: int) -> Tensor:
    """Return −log of a softmax over the tags and over "none", whose score is 0; the tag 0 is "none"."""
    return cross_entropy(torch.cat((logits.new_zeros(1), logits)), torch.tensor(tag))


@given(st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_ranking_loss_of_one_tag_at_most_and_cross_entropy(seed: int, tag: int) -> None:
    """They are equal for a cell without tags.

    With the tag t, exp(ranking loss) is larger than exp(cross entropy) by Σ exp(score of another tag): the others are
    held below "none" even if t is far above them.
    """
    logits = 2 * torch.randn(3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    sets = torch.cat((torch.zeros(1, 3), torch.eye(3))).bool()
    labels = Labels(torch.tensor([[0]]), torch.tensor([[[tag]]]), sets)
    ranking = compute(logits.view(1, 1, 1, 3), labels, configure())
    others = logits[torch.arange(3) != tag - 1].exp().sum() if tag else torch.zeros(())
    expected = cross_entropy_with_none(logits, tag).exp() + others
    assert ranking.exp().item() == pytest.approx(expected.item(), rel=1e-12)


def rank_all(logits: Tensor, labels: Labels, config: TrainingConfig) -> Tensor:
    """Return the ranking loss of all cells at once, as on a GPU, of those that count."""
    counted = labels.relation_tags != IGNORED
    losses = ranking_loss(logits, SETS[labels.relation_tags.clamp(min=0)])
    total = torch.where(counted, losses, 0).sum()
    return total / counted.sum() if config.loss == "mean" else total


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("number", [None, 0, 3])
@given(seed=st.integers(0, 2**32 - 1))
def test_loss_on_a_cpu_and_its_gradient_are_those_of_the_plain_form(
    reduction: str, number: int | None, seed: int
) -> None:
    """Cells without tags are computed apart there; also if all counted cells, or none of them, are such."""
    logits, labels = random_batch(seed)
    if number is not None:
        labels.relation_tags[labels.relation_tags != IGNORED] = number
    results = []
    for compute_loss in (compute, rank_all):
        scores = logits.clone().requires_grad_()
        loss = compute_loss(scores, labels, configure(reduction))
        results.append((loss.detach(), *torch.autograd.grad(loss, scores)))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


def gradient_of_cell(logits: list[float], has_tag: list[bool]) -> list[float]:
    """Return the derivative of the loss of a cell by each of its scores, worked out by hand."""
    lacking = 1 + sum(exp(score) for score, has in zip(logits, has_tag, strict=True) if not has)
    having = 1 + sum(exp(-score) for score, has in zip(logits, has_tag, strict=True) if has)
    pairs = zip(logits, has_tag, strict=True)
    return [-exp(-score) / having if has else exp(score) / lacking for score, has in pairs]


@given(seed=st.integers(0, 2**32 - 1))
def test_gradient_is_that_of_each_cell_worked_out_by_hand(seed: int) -> None:
    logits, labels = random_batch(seed)
    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(compute(logits, labels, configure()), logits)
    for cell in torch.ones_like(labels.relation_tags).nonzero().tolist():
        number = int(labels.relation_tags[tuple(cell)])
        expected = [0.0] * N_TAGS
        if number != IGNORED:
            expected = gradient_of_cell(logits[tuple(cell)].tolist(), SETS[number].tolist())
        assert gradient[tuple(cell)].tolist() == pytest.approx(expected, rel=1e-10)


def test_ranking_loss_of_each_cell_is_that_of_plain_loops() -> None:
    logits, labels = random_batch(4)
    has_tag = SETS[labels.relation_tags.clamp(min=0)]
    found = ranking_loss(logits, has_tag)
    assert found.shape == logits.shape[:-1]
    rows = zip(logits.flatten(0, 2).tolist(), has_tag.flatten(0, 2).tolist(), strict=True)
    assert found.flatten().tolist() == pytest.approx([loss_of_cell(*row) for row in rows], rel=1e-12)


@pytest.mark.parametrize("tags", [[False] * 3, [True] * 3, [True, False, False]])
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0, 1e4])
def test_ranking_loss_and_its_gradient_are_finite(tags: list[bool], scale: float) -> None:
    """In half of the cases all scores are on the wrong side."""
    for sign in (1, -1):
        logits = (sign * scale * torch.tensor([1.0, 2.0, 3.0])).requires_grad_()
        loss = ranking_loss(logits, torch.tensor(tags))
        (gradient,) = torch.autograd.grad(loss, logits)
        assert loss.isfinite()
        assert gradient.isfinite().all()


@pytest.mark.parametrize("key", ["training.cell_loss=zlpr", "tagging.span_cells=ends"])
def test_settings_of_an_earlier_form_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=key.partition("=")[0].replace(".", r"\.")):
        load_config(None, ["tagging.kind=spans", key])


def test_numbers_of_tag_sets_are_stable_and_the_table_has_exactly_their_tags() -> None:
    sets = TagSets(4)
    assert sets.to_table("cpu").tolist() == [[False] * 4]
    assert [sets.number(tags) for tags in [(1, 3), (), (0,), (1, 3), (0, 1, 2, 3), (0,)]] == [1, 0, 2, 1, 3, 2]
    before = sets.to_table("cpu")
    expected = torch.tensor([[0, 0, 0, 0], [0, 1, 0, 1], [1, 0, 0, 0], [1, 1, 1, 1]]).bool()
    assert torch.equal(before, expected)
    assert sets.number((2,)) == 4
    after = sets.to_table("cpu")
    assert torch.equal(after[:4], expected)
    assert after[4].tolist() == [False, False, True, False]
    assert torch.equal(before, expected), "a table that was handed out does not change"
    assert after.dtype == torch.bool


FIRM, CITY, MARA = Entity(Span(0, 3), "Org"), Entity(Span(0, 1), "Peop"), Entity(Span(4, 5), "Peop")
NESTED = Example(
    Sentence(("Tarn", "Steel", "Works", "hired", "Mara")),
    Annotation((FIRM, CITY, MARA), (Relation(MARA, FIRM, "Work_For"), Relation(MARA, CITY, "Kin"))),
)
BROKEN = Entity(Span(0, 3), "Org", (Span(0, 1), Span(2, 3)))
FLAT = Example(
    Sentence(("Mara", "and", "Tom")),
    Annotation((BROKEN, Entity(Span(0, 1), "Peop")), (Relation(Entity(Span(0, 1), "Peop"), BROKEN, "Work_For"),)),
)


def read_cells(labels: Labels, row: int, names: tuple[str, ...]) -> dict[tuple[int, int], set[str]]:
    """Return the names of the tags of each cell that has any."""
    cells: dict[tuple[int, int], set[str]] = {}
    assert labels.tag_sets is not None
    for i, j in (labels.relation_tags[row] > 0).nonzero().tolist():
        numbers = labels.tag_sets[labels.relation_tags[row, i, j]].nonzero().flatten().tolist()
        cells[i, j] = {names[number] for number in numbers}
    return cells


def test_labels_of_nested_entities_have_all_their_tags(make_model: MakeModel) -> None:
    model = make_model("tagging.kind=spans")
    labels = make_labels([FLAT, NESTED], model)
    names = model.tagging.cells.names
    assert labels.entity_tags.shape == (2, 5)
    assert read_cells(labels, 0, names) == {(0, 0): {"Peop"}}
    assert read_cells(labels, 1, names) == {
        (0, 2): {"Org"},
        (2, 0): {"Org"},
        (0, 0): {"Peop"},
        (4, 4): {"Peop"},
        (4, 0): {"→Work_For", "↔Kin", "first", "last"},
        (0, 4): {"←Work_For", "↔Kin", "first", "last"},
        (4, 1): {"→Work_For"},
        (1, 4): {"←Work_For"},
        (4, 2): {"→Work_For", "last"},
        (2, 4): {"←Work_For", "last"},
    }
    inside = torch.zeros(2, 5, 5, dtype=torch.bool)
    inside[0, :3, :3] = inside[1] = True
    assert torch.equal(labels.relation_tags != IGNORED, inside)
    assert labels.entity_tags[1].tolist() == [1, 2, 2, 0, 3], "words have the tags of the first entity that fits"


def test_numbers_of_lost_entities_and_relations_are_those_of_the_cells(make_model: MakeModel) -> None:
    model = make_model("tagging.kind=spans")
    sets = make_tag_sets(model)
    nested, flat = (label_example(example, model, sets) for example in (NESTED, FLAT))
    assert (nested.n_lost_entities, nested.n_lost_relations) == (0, 0)
    assert (flat.n_lost_entities, flat.n_lost_relations) == (1, 1)


def test_examples_share_their_tag_sets(make_model: MakeModel) -> None:
    model = make_model("tagging.kind=spans")
    sets = make_tag_sets(model)
    assert sets is not None
    one = label_example(NESTED, model, sets)
    n_sets = len(sets.to_table("cpu"))
    assert n_sets == 1 + 8, "Org, Peop, and six of relations"
    again, other = label_example(NESTED, model, sets), label_example(FLAT, model, sets)
    assert torch.equal(one.relation_tags, again.relation_tags)
    assert other.relation_tags[0, 0] == one.relation_tags[0, 0]
    assert len(sets.to_table("cpu")) == n_sets
    assert make_tag_sets(make_model()) is None


def test_labels_move_with_their_tag_sets() -> None:
    _, labels = random_batch(0)
    moved = labels.to("meta")
    assert moved.tag_sets is not None
    assert {part.device.type for part in (moved.entity_tags, moved.relation_tags, moved.tag_sets)} == {"meta"}


def test_entities_of_one_word_are_learned_on_the_diagonal(make_model: MakeModel) -> None:
    """So a model that ignores the diagonal in its loss cannot have span tagging."""
    labels = make_labels([NESTED], make_model("tagging.kind=spans"))
    assert labels.relation_tags[0, 4, 4] > 0
    with pytest.raises(ConfigError, match=r"a training\.diagonal_loss that is true"):
        make_model("tagging.kind=spans", "training.diagonal_loss=false")
