"""The moving average of weights, which wavers less than the weights themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Parameter

_EARLY = 9
"""The update at which half of the average is kept, and before it less: random first weights are worth forgetting."""


def old_share(step: int, decay: float) -> float:
    """Return the share of the average that is kept at an update, counted from 1."""
    return min(decay, step / (step + _EARLY))


class MovingAverage:
    """An exponential moving average of parameters.

    An update of the average is a few operations on tensors that stay where they are, so that it can be recorded with
    the update of the weights.
    """

    def __init__(self, parameters: Sequence[Parameter], decay: float) -> None:
        self._parameters: list[Tensor] = list(parameters)
        self._decay = decay
        self.tensors = [parameter.detach().clone() for parameter in parameters]
        self._new_share = torch.zeros((), device=parameters[0].device)

    def set_share(self, step: int) -> None:
        """Set the share of the new weights for an update, counted from 1."""
        self._new_share.fill_(1 - old_share(step, self._decay))

    @torch.no_grad()
    def add(self) -> None:
        """Take the weights into the average."""
        differences = torch._foreach_add(self._parameters, self.tensors, alpha=-1)
        torch._foreach_mul_(differences, self._new_share)
        torch._foreach_add_(self.tensors, differences)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Give the parameters the values of the average within the block."""
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
