from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import Parameter

from relatum.config import TrainingConfig
from relatum.training.averaging import MovingAverage, old_share
from relatum.training.checkpoints import read_checkpoint, save_checkpoint
from relatum.training.history import Progress
from relatum.training.optimisation import Optimiser
from relatum.training.sampler import Sampler
from relatum.training.state import capture, fixed_hash, restore


def update(optimiser: Optimiser, weight: Parameter, step: int) -> None:
    optimiser.update((weight - torch.tensor([1.0, -2.0, 3.0], dtype=weight.dtype)).square().sum(), step)


def test_average_equals_one_computed_by_hand() -> None:
    weight = Parameter(torch.tensor([0.5, 0.25, -1.0], dtype=torch.float64))
    optimiser = Optimiser([weight], TrainingConfig(ema_decay=0.8, warmup_steps=0, learning_rate=0.1))
    assert optimiser.average is not None
    expected = weight.tolist()
    for step in range(1, 60):
        update(optimiser, weight, step)
        share = min(0.8, step / (step + 9))
        expected = [share * old + (1 - share) * new for old, new in zip(expected, weight.tolist(), strict=True)]
    assert optimiser.average.tensors[0].tolist() == pytest.approx(expected, rel=1e-6)
    assert (optimiser.average.tensors[0] - weight).abs().min() > 1e-3


def test_share_of_the_old_rises_to_the_decay() -> None:
    assert old_share(1, 0.99) == 0.1
    assert old_share(9, 0.99) == 0.5
    assert old_share(890, 0.99) < 0.99
    assert old_share(892, 0.99) == 0.99


def test_weights_are_the_average_within_the_block_and_themselves_after_it() -> None:
    weight = Parameter(torch.zeros(3))
    optimiser = Optimiser([weight], TrainingConfig(ema_decay=0.9, warmup_steps=0))
    for step in range(1, 5):
        update(optimiser, weight, step)
    assert optimiser.average is not None
    now, mean = weight.detach().clone(), optimiser.average.tensors[0].clone()
    place, kept = weight.data_ptr(), optimiser.average.tensors[0].data_ptr()
    with suppress(KeyError), optimiser.averaged():
        assert torch.equal(weight, mean)
        raise KeyError  # whatever happens there
    assert torch.equal(weight, now)
    assert torch.equal(optimiser.average.tensors[0], mean)
    assert (place, kept) == (weight.data_ptr(), optimiser.average.tensors[0].data_ptr())  # as a recording wants it


def test_without_a_decay_there_is_no_average() -> None:
    weight = Parameter(torch.zeros(3))
    optimiser = Optimiser([weight], TrainingConfig())
    assert optimiser.average is None
    with optimiser.averaged():
        assert torch.equal(weight, torch.zeros(3))


def test_average_is_part_of_a_checkpoint(tmp_path: Path) -> None:
    config = TrainingConfig(ema_decay=0.9, warmup_steps=0)
    nets = [nn.ParameterDict({"b": torch.zeros(3), "a": torch.ones(3)}) for _ in range(2)]
    optimisers = [Optimiser(net.parameters(), config) for net in nets]
    for step in range(1, 8):
        update(optimisers[0], nets[0]["b"], step)
    state = capture(nets[0], optimisers[0], Sampler([1, 2], config), Progress(step=7), fixed_hash(nets[0]))
    assert {"average/a", "average/b"} <= state.tensors.keys()
    places = [tensor.data_ptr() for tensor in _average(optimisers[1]).tensors]
    restore(read_checkpoint(save_checkpoint(tmp_path, state)), nets[1], optimisers[1], print)
    assert places == [tensor.data_ptr() for tensor in _average(optimisers[1]).tensors]
    for net, optimiser in zip(nets, optimisers, strict=True):
        for step in range(8, 12):
            update(optimiser, net["b"], step)
    for one, other in zip(_average(optimisers[0]).tensors, _average(optimisers[1]).tensors, strict=True):
        assert torch.equal(one, other)


def _average(optimiser: Optimiser) -> MovingAverage:
    assert optimiser.average is not None
    return optimiser.average
