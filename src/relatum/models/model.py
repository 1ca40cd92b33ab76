"""A network with all that it takes to read sentences with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from relatum.config import Config
from relatum.encoders.base import TextEncoder
from relatum.models.vocabulary import Vocabulary
from relatum.schema import Schema
from relatum.tagging.tagging import Tagging
from relatum.types import Calibration

if TYPE_CHECKING:
    import torch

    from relatum.models.inputs import ModelInputs
    from relatum.models.network import TableSequenceNetwork
    from relatum.models.outputs import Outputs


@dataclass(frozen=True)
class Model:
    """A model: settings, schema, network, encoder and vocabularies.

    `models.build` makes a model and `models.checkpoint` stores it.
    """

    config: Config
    schema: Schema
    network: TableSequenceNetwork
    encoder: TextEncoder | None
    words: Vocabulary | None
    characters: Vocabulary | None
    calibration: Calibration | None = None
    """The map that an extractor applies to scores; None if it shows the network's own scores."""

    @cached_property
    def tagging(self) -> Tagging:
        return Tagging.of(self.schema, self.config.tagging)

    @property
    def reads_attention_maps(self) -> bool:
        return self.config.table.attention_maps and self.config.table.kind != "none"

    @property
    def device(self) -> torch.device:
        return self.network.device

    def score(self, inputs: ModelInputs) -> Outputs:
        """Return the network's scores of a batch, which an encoder that is trained reads first."""
        if inputs.pieces is not None:
            assert self.encoder is not None
            assert self.encoder.trained is not None
            found = self.encoder.trained.read(inputs.pieces, inputs.mask.shape[1])
            maps = found.attention_maps if self.reads_attention_maps else None
            inputs = replace(inputs, vectors=found.vectors, attention_maps=maps, pieces=None)
        outputs: Outputs = self.network(inputs)
        return outputs

    def to(self, device: torch.device | str) -> Model:
        """Move the network and the encoder; returns itself."""
        self.network.to(device)
        if self.encoder is not None:
            self.encoder.to(device)
        return self
