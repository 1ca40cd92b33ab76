"""The scan of torch's tensors on a CPU, in compiled code."""

from __future__ import annotations

from torch import Tensor

from relatum.kernels.compile import Source
from relatum.kernels.md_gru import cpu
from relatum.kernels.md_gru.cpu import ScanWeights, align_columns
from relatum.kernels.md_gru.spec import Form, Weights
from relatum.kernels.tensors import as_array, as_array_or_none


class CpuScanner:
    """The scan on a CPU, see `fused.Scanner`. The number of threads is torch's; results do not depend on it."""

    def __init__(self, source: Source = cpu.SOURCE) -> None:
        self._source = source

    def forward(
        self,
        projected: Tensor,
        below: Tensor | None,
        recurrent: Tensor,
        tables: Tensor,
        n_words: int,  # noqa: ARG002
        form: Form,
        keep: bool,
    ) -> tuple[Tensor, Tensor]:
        width = recurrent.shape[2] // form.spec.n_parts
        states = _made(projected, (*projected.shape[:2], width), tables)
        tensors = {"projected": projected, "below": below, "states": states}
        self._run("forward", recurrent, tensors, tables, form, keep=keep)
        return states, projected if keep else projected.new_empty(0, *projected.shape[1:])

    def backward(
        self,
        grad: Tensor,
        gates: Tensor,
        states: Tensor,
        below: Tensor | None,
        recurrent: Tensor,
        tables: Tensor,
        n_words: int,  # noqa: ARG002
        form: Form,
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        projected = _made(gates, gates.shape, tables)
        grad_below = None if below is None else _made(gates, below.shape, tables)
        neighbours = _made(gates, (*states.shape[:2], recurrent.shape[1]), tables)
        tensors = {"grad": grad, "gates": gates, "states": states, "below": below}
        tensors |= {"projected": projected, "grad_below": grad_below, "neighbours": neighbours}
        self._run("backward", recurrent, tensors, tables, form)
        return projected, grad_below, neighbours

    def layer(self, inputs: Tensor, below: Tensor | None, weights: Weights, tables: Tensor, form: Form) -> Tensor:
        """Return the states, (C, D, H), from the inputs, (C, X), without gradients; never writes projections out."""
        states = _made(inputs, (inputs.shape[0], len(form.directions), form.spec.width(weights)), tables)
        job = cpu.make_layer_job(
            as_array(inputs),
            as_array_or_none(below),
            ScanWeights(*map(as_array, weights)),
            as_array(tables),
            form,
            as_array(states),
        )
        cpu.run_job("layer", job, self._source)
        return states

    def _run(
        self,
        way: str,
        recurrent: Tensor,
        tensors: dict[str, Tensor | None],
        tables: Tensor,
        form: Form,
        **rest: int | None,
    ) -> None:
        arrays = {name: as_array_or_none(one) for name, one in tensors.items()}
        job = cpu.make_job(align_columns(as_array(recurrent)), arrays, as_array(tables), form, **rest)
        cpu.run_job(way, job, self._source)


def _made(like: Tensor, shape: tuple[int, ...], tables: Tensor) -> Tensor:
    """Allocate a tensor for the scan to fill: zero outside the tables, if any cell is outside."""
    n_real = int((tables[:, 2].long() ** 2).sum())
    return like.new_empty(shape) if n_real == shape[0] else like.new_zeros(shape)
