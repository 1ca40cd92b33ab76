"""The multi-dimensional GRU of the paper's appendix A: `md_gru` computes it, `reference` defines it."""

from relatum.kernels.md_gru.op import md_gru
from relatum.kernels.md_gru.spec import CellSpec, Direction, Predecessor, Reset, Weights

__all__ = ["CellSpec", "Direction", "Predecessor", "Reset", "Weights", "md_gru"]
