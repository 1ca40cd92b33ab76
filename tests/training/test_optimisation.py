from __future__ import annotations

import math
from contextlib import suppress

import pytest
import torch
from torch.nn import Parameter

from relatum.config import TrainingConfig
from relatum.errors import RelatumError
from relatum.training.optimisation import Optimiser, Rate, encoder_groups, learning_rate

PAPER = TrainingConfig()


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (1, 1e-6),
        (500, 5e-4),
        (1000, 1e-3),
        (1001, 1e-3 / 1.05),
        (1999, 1e-3 / 1.05),
        (2000, 1e-3 / 1.05),
        (2001, 1e-3 / 1.10),
        (3000, 1e-3 / 1.10),
        (20_000, 1e-3 / 1.95),
    ],
)
def test_rate_of_the_paper_rises_then_falls_in_stairs(step: int, rate: float) -> None:
    assert learning_rate(step, PAPER) == pytest.approx(rate, rel=1e-12)


def test_rate_without_stairs_falls_at_every_step() -> None:
    config = TrainingConfig(decay_staircase=False, warmup_steps=10)
    assert learning_rate(11, config) == pytest.approx(1e-3 / (1 + 0.05 * 0.011), rel=1e-12)
    assert learning_rate(1500, config) == pytest.approx(1e-3 / 1.075, rel=1e-12)


@pytest.mark.parametrize(
    ("schedule", "shares"),
    [("linear", (0.75, 0.5, 0.25)), ("cosine", ((1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2))],
)
def test_rate_that_falls_to_zero_is_full_after_the_warm_up(schedule: str, shares: tuple[float, ...]) -> None:
    config = TrainingConfig.model_validate({"schedule": schedule, "warmup_steps": 4, "steps": 7, "learning_rate": 0.5})
    assert [learning_rate(step, config) for step in (2, 4)] == [0.25, 0.5]
    assert [learning_rate(step, config) for step in (5, 6, 7)] == pytest.approx([0.5 * one for one in shares])


def test_rate_that_falls_to_zero_counts_from_the_end_of_an_encoders_own_warm_up() -> None:
    config = TrainingConfig(schedule="linear", warmup_steps=4, steps=9)
    assert learning_rate(8, config, Rate(1.0, 6)) == pytest.approx(0.5)
    assert learning_rate(9, config, Rate(1.0, 9)) == 1.0


def test_rate_without_warm_up_and_decay_is_constant() -> None:
    config = TrainingConfig(warmup_steps=0, decay_rate=0.0, learning_rate=0.25)
    assert {learning_rate(step, config) for step in (1, 2, 999, 10_000)} == {0.25}


def test_update_clips_the_gradients_to_the_norm() -> None:
    weight = Parameter(torch.zeros(2))
    optimiser = Optimiser([weight], TrainingConfig(clip_norm=5.0))
    norm = optimiser.update((weight * torch.tensor([30.0, 40.0])).sum(), 1)
    assert norm.item() == 50.0
    assert weight.grad is not None
    assert weight.grad.tolist() == pytest.approx([3.0, 4.0], rel=1e-6)


def test_update_leaves_small_gradients_alone() -> None:
    weight = Parameter(torch.zeros(2))
    Optimiser([weight], TrainingConfig(clip_norm=5.0)).update((weight * torch.tensor([0.3, 0.4])).sum(), 1)
    assert weight.grad is not None
    assert weight.grad.tolist() == pytest.approx([0.3, 0.4], rel=1e-6)


def test_update_uses_the_rate_of_its_step() -> None:
    # Adam's first update moves every weight by the rate itself, whatever its gradient.
    weight = Parameter(torch.zeros(3, dtype=torch.float64))
    Optimiser([weight], PAPER).update((weight * torch.tensor([1.0, -2.0, 0.5])).sum(), 500)
    assert weight.tolist() == pytest.approx([-5e-4, 5e-4, -5e-4], rel=1e-6)


def test_update_forgets_the_gradients_of_the_last_step() -> None:
    weight = Parameter(torch.zeros(1))
    optimiser = Optimiser([weight], TrainingConfig(clip_norm=100.0))
    for step in (1, 2):
        assert math.isclose(optimiser.update(3 * weight.sum(), step).item(), 3.0)


def test_frozen_parameters_are_left_out() -> None:
    frozen, learned = Parameter(torch.zeros(1), requires_grad=False), Parameter(torch.zeros(1))
    assert Optimiser([frozen, learned], PAPER).parameters == [learned]
    with pytest.raises(RelatumError, match="nothing to learn"):
        Optimiser([frozen], PAPER)


@pytest.mark.parametrize("fused", [False, True])
def test_rate_in_a_tensor_equals_the_rate_as_a_number(fused: bool) -> None:
    """As on a GPU, where a recorded update reads it from there."""
    weights = []
    for in_tensor in (False, True):
        weight = Parameter(torch.ones(3, dtype=torch.float64))
        optimiser = Optimiser([weight], TrainingConfig(warmup_steps=3))
        optimiser.adam = torch.optim.Adam([weight], fused=fused)
        if in_tensor:
            optimiser.adam.param_groups[0]["lr"] = torch.tensor(0.0, dtype=torch.float64)
        for step in range(1, 6):
            optimiser.update((weight * torch.tensor([1.0, -2.0, 0.5])).square().sum(), step)
        weights.append(weight.detach())
    assert torch.equal(weights[0], weights[1])
    assert (weights[0] - 1).abs().min() > 1e-4


def test_rate_in_a_tensor_is_set_after_a_state_was_loaded() -> None:
    weight = Parameter(torch.zeros(1))
    optimiser = Optimiser([weight], TrainingConfig(warmup_steps=0))
    optimiser.adam.param_groups[0]["lr"] = torch.tensor(0.5)
    optimiser.adam.load_state_dict(optimiser.adam.state_dict())
    optimiser.update(weight.sum(), 1)
    assert weight.item() == pytest.approx(-1e-3, rel=1e-5)


def test_adam_is_told_of_a_recording_and_of_its_end() -> None:
    optimiser = Optimiser([Parameter(torch.zeros(1))], PAPER)
    (group,) = optimiser.adam.param_groups
    with suppress(KeyError), optimiser.recording():
        assert group["capturable"]
        raise KeyError  # as a recording that fails
    assert not group["capturable"]


def test_layers_of_a_tuned_encoder_have_the_stated_rates() -> None:
    parts = [[Parameter(torch.zeros(1, dtype=torch.float64))] for _ in range(5)]
    config = TrainingConfig(
        encoder_learning_rate=0.1, encoder_layer_decay=0.5, encoder_warmup_steps=4, warmup_steps=2, learning_rate=1.0
    )
    groups = encoder_groups(parts, "full", config)
    # Embeddings, three layers, and what is above them.
    assert [group.rate.full for group in groups] == pytest.approx([0.1 / 8, 0.1 / 4, 0.1 / 2, 0.1, 0.1])
    network = Parameter(torch.zeros(1, dtype=torch.float64))
    optimiser = Optimiser([network], config, groups)
    assert optimiser.parameters == [network, *(part[0] for part in parts)]
    # Adam's first update moves every weight by the rate itself.
    optimiser.update(sum((one.sum() for one in optimiser.parameters), torch.zeros(())), 1)
    expected = [-1 / 2, *(-rate / 4 for rate in (0.1 / 8, 0.1 / 4, 0.1 / 2, 0.1, 0.1))]
    assert [one.item() for one in optimiser.parameters] == pytest.approx(expected, rel=1e-6)
    rates = [group["lr"] for group in optimiser.adam.param_groups]
    assert rates == pytest.approx([-one for one in expected])
    optimiser.set_rate(2001)
    falling = [1 / 1.1, *(rate / 1.1 for rate in (0.1 / 8, 0.1 / 4, 0.1 / 2, 0.1, 0.1))]
    assert [group["lr"] for group in optimiser.adam.param_groups] == pytest.approx(falling)


def test_tuned_encoder_without_settings_has_the_rate_of_its_kind_and_the_warm_up_of_the_network() -> None:
    parts = [[], [Parameter(torch.zeros(1))], []]
    for tuning, full in (("lora", 5e-4), ("full", 5e-5)):
        (group,) = encoder_groups(parts, tuning, TrainingConfig(warmup_steps=70))
        assert (group.rate.full, group.rate.warmup_steps) == (full, 70)


def test_clipping_sees_the_network_and_the_encoder_together() -> None:
    network, encoder = Parameter(torch.zeros(1)), Parameter(torch.zeros(1))
    config = TrainingConfig(clip_norm=5.0)
    optimiser = Optimiser([network], config, encoder_groups([[], [encoder], []], "full", config))
    assert optimiser.update(30 * network.sum() + 40 * encoder.sum(), 1).item() == 50.0
    assert network.grad is not None
    assert encoder.grad is not None
    assert [network.grad.item(), encoder.grad.item()] == pytest.approx([3.0, 4.0], rel=1e-6)
