"""How the weights are changed: Adam, its learning rate, and the clipping of gradients (paper, appendix C)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Parameter

from relatum.config import TrainingConfig
from relatum.errors import RelatumError


def learning_rate(step: int, config: TrainingConfig) -> float:
    """The rate of an update, counted from 1: a linear rise, then inverse-time decay.

    The last update of the warm-up has the full rate. The decay counts from the first update, not from the end of the
    warm-up, so that the rate falls at once where the warm-up took longer than `decay_steps`.
    """
    if step <= config.warmup_steps:
        return config.learning_rate * step / config.warmup_steps
    times = step // config.decay_steps if config.decay_staircase else step / config.decay_steps
    return config.learning_rate / (1 + config.decay_rate * times)


class Optimiser:
    """Adam over the parameters that are learned."""

    def __init__(self, parameters: Iterable[Parameter], config: TrainingConfig) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        if not self.parameters:
            raise RelatumError("the network has nothing to learn; choose a config with a table or a sequence encoder")
        self._config = config
        # One kernel for all parameters: on a GPU the default takes as long as a small network's forward pass. There the
        # rate is a tensor, too: a recorded update reads it anew each time it is replayed.
        first = self.parameters[0]
        rate = torch.tensor(config.learning_rate, device=first.device) if first.is_cuda else config.learning_rate
        self.adam = torch.optim.Adam(self.parameters, lr=rate, fused=first.is_cuda)

    def update(self, loss: Tensor, step: int) -> Tensor:
        """Change the weights once; the answer is the norm that the gradients had, still on their device."""
        self.set_rate(step)
        self.differentiate(loss)
        return self.apply()

    def set_rate(self, step: int) -> None:
        """The learning rate of an update, counted from 1."""
        rate = learning_rate(step, self._config)
        for group in self.adam.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def differentiate(self, loss: Tensor) -> None:
        """The first half of an update: the gradients of a loss, and of no other."""
        self.adam.zero_grad(set_to_none=True)
        loss.backward()

    def apply(self) -> Tensor:
        """The second half: clip the gradients and change the weights, by the rate that was set."""
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self._config.clip_norm, foreach=True)
        self.adam.step()
        return norm

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Within the block an update is recorded and not made, which Adam wants to know."""
        for group in self.adam.param_groups:
            group["capturable"] = True
        try:
            yield
        finally:
            for group in self.adam.param_groups:
                group["capturable"] = False
