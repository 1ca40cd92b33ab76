"""The multi-dimensional GRU of the paper's appendix A: `md_gru` computes it, `reference` defines it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relatum.kernels.md_gru.spec import CellSpec, Direction, Form, Predecessor, Reset, Weights

if TYPE_CHECKING:
    from relatum.kernels.md_gru.op import md_gru

__all__ = ["CellSpec", "Direction", "Form", "Predecessor", "Reset", "Weights", "md_gru"]


def __getattr__(name: str) -> object:
    if name != "md_gru":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from relatum.kernels.md_gru.op import md_gru  # it takes torch with it, which the forms of a cell do not need

    return md_gru
