"""The form of a network that settings describe, as far as it can be told without torch."""

from __future__ import annotations

from relatum.config import Config
from relatum.kernels.md_gru.spec import CellSpec, Predecessor


def cell_specs(config: Config) -> list[CellSpec]:
    """Return the cell of the MD-RNN of each layer that has weights of its own."""
    return [_cell_spec(config, first) for first in first_layers(config)]


def first_layers(config: Config) -> list[bool]:
    """Tell of each layer with weights of its own if it has no layer below it."""
    # A shared layer has the slot of the layer below from the start, and first reads a table of zeros there.
    return [False] if config.model.share_layers else [number == 0 for number in range(config.model.n_layers)]


def count_rounds(config: Config) -> int:
    """Return how often the layers are gone through."""
    return config.model.n_layers if config.model.share_layers else 1


def _cell_spec(config: Config, first: bool) -> CellSpec:
    table = config.table
    candidates: tuple[Predecessor, ...] = ("up", "left") if first else ("below", "up", "left")
    read = tuple(slot for slot in candidates if slot in table.predecessors)
    return CellSpec(candidates if table.removed == "zeroed" else read, read, table.reset)
