"""The moving average of weights, which wavers less than the weights themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Parameter

_EARLY = 9
"""After that many updates the average is half old: at first the weights are random, and worth forgetting."""


def old_share(step: int, decay: float) -> float:
    """How much of the average stays at an update, counted from 1."""
    return min(decay, step / (step + _EARLY))


class MovingAverage:
    """An exponential moving average of parameters.

    An update of it is a few operations on tensors that stay where they are, so that it can be recorded with the update
    of the weights.
    """

    def __init__(self, parameters: Sequence[Parameter], decay: float) -> None:
        self._parameters: list[Tensor] = list(parameters)
        self._decay = decay
        self.tensors = [parameter.detach().clone() for parameter in parameters]
        self._new_share = torch.zeros((), device=parameters[0].device)

    def set_share(self, step: int) -> None:
        """Say which update comes, counted from 1."""
        self._new_share.fill_(1 - old_share(step, self._decay))

    @torch.no_grad()
    def add(self) -> None:
        """Take the weights into the average."""
        differences = torch._foreach_add(self._parameters, self.tensors, alpha=-1)
        torch._foreach_mul_(differences, self._new_share)
        torch._foreach_add_(self.tensors, differences)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within the block the parameters have the values of the average."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, average in zip(self._parameters, self.tensors, strict=True):
            kept = parameter.clone()
            parameter.copy_(average)
            average.copy_(kept)
