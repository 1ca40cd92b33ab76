"""The optimisation of the weights: Adam, its learning rate, and the clipping of gradients (paper, appendix C)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from math import cos, pi

import torch
from torch import Tensor
from torch.nn import Parameter

from relatum.config import TrainingConfig
from relatum.errors import RelatumError
from relatum.training.averaging import MovingAverage

ENCODER_RATES = {"lora": 5e-4, "full": 5e-5}
"""Adam's learning rate for a tuned encoder, by the kind of tuning, if the settings give none."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The learning rate of some parameters: the full rate after the warm-up, and the updates that the warm-up takes."""

    full: float
    warmup_steps: int


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that have a rate of their own."""

    parameters: Sequence[Parameter]
    rate: Rate


def encoder_groups(by_depth: Sequence[Sequence[Parameter]], tuning: str, config: TrainingConfig) -> list[Group]:
    """Group the parameters of a tuned encoder by depth, each group with its rate.

    `by_depth` goes from the embeddings to the parameters above all layers. The last layer, and the parameters above it,
    have the full rate; each layer below has `encoder_layer_decay` times the rate of the layer above it, and the
    embeddings have the lowest rate.
    """
    full = config.encoder_learning_rate or ENCODER_RATES[tuning]
    warmup = config.warmup_steps if config.encoder_warmup_steps is None else config.encoder_warmup_steps
    last = len(by_depth) - 2
    rates = [Rate(full * config.encoder_layer_decay ** max(last - depth, 0), warmup) for depth in range(len(by_depth))]
    return [Group(parameters, rate) for parameters, rate in zip(by_depth, rates, strict=True) if parameters]


def learning_rate(step: int, config: TrainingConfig, rate: Rate | None = None) -> float:
    """Return the learning rate of an update, counted from 1: a linear rise, then a decay.

    It is the network's rate unless another `rate` is given.

    The last update of the warm-up has the full rate. Inverse-time decay counts from the first update, not from the end
    of the warm-up, so that the rate falls at once where the warm-up took longer than `decay_steps`. With a staircase it
    falls after every `decay_steps` updates: update 2,000 has the rate of update 1,999. The other schedules count from
    the end of the warm-up, and would reach 0 one update after the last.
    """
    full, warmup = (config.learning_rate, config.warmup_steps) if rate is None else (rate.full, rate.warmup_steps)
    if step <= warmup:
        return full * step / warmup
    if config.schedule != "inverse":
        passed = (step - warmup) / (config.steps + 1 - warmup)
        return full * ((1 - passed) if config.schedule == "linear" else (1 + cos(pi * passed)) / 2)
    times = (step - 1) // config.decay_steps if config.decay_staircase else step / config.decay_steps
    return full / (1 + config.decay_rate * times)


class Optimiser:
    """Adam over all learned parameters: the network's, and groups with rates of their own.

    With `ema_decay`, it also keeps the moving average of all these parameters.
    """

    def __init__(self, parameters: Iterable[Parameter], config: TrainingConfig, groups: Sequence[Group] = ()) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        if not self.parameters:
            raise RelatumError("the network has nothing to learn; choose a config with a table or a sequence encoder")
        self._config = config
        # One kernel for all parameters: on a GPU the default takes as long as a small network's forward pass. There the
        # rate is a tensor, too: a recorded update reads it anew each time it is replayed.
        first = self.parameters[0]
        self._rates = [Rate(config.learning_rate, config.warmup_steps), *(group.rate for group in groups)]
        members = [self.parameters, *(group.parameters for group in groups)]
        rates = [torch.tensor(one.full, device=first.device) if first.is_cuda else one.full for one in self._rates]
        self.adam = torch.optim.Adam(
            [{"params": some, "lr": rate} for some, rate in zip(members, rates, strict=True)], fused=first.is_cuda
        )
        self.parameters = [parameter for some in members for parameter in some]
        self.average = MovingAverage(self.parameters, config.ema_decay) if config.ema_decay else None

    def update(self, loss: Tensor, step: int) -> Tensor:
        """Change the weights once; return the norm that the gradients had before clipping, still on their device."""
        self.set_rate(step)
        self.differentiate(loss)
        return self.apply()

    def set_rate(self, step: int) -> None:
        """Set the learning rates for an update, counted from 1."""
        if self.average is not None:
            self.average.set_share(step)
        for group, own in zip(self.adam.param_groups, self._rates, strict=True):
            rate = learning_rate(step, self._config, own)
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def differentiate(self, loss: Tensor) -> None:
        """Make the first half of an update: compute the gradients of this loss alone."""
        self.adam.zero_grad(set_to_none=True)
        loss.backward()

    def apply(self) -> Tensor:
        """Make the second half: clip the gradients, change the weights by the rate that was set, return the norm."""
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self._config.clip_norm, foreach=True)
        self.adam.step()
        if self.average is not None:
            self.average.add()
        return norm

    def averaged(self) -> AbstractContextManager[None]:
        """Replace the weights by their moving average within the block, if an average is kept."""
        return nullcontext() if self.average is None else self.average.in_place()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Tell Adam that within the block an update is recorded and not made."""
        for group in self.adam.param_groups:
            group["capturable"] = True
        try:
            yield
        finally:
            for group in self.adam.param_groups:
                group["capturable"] = False
