"""The whole network: embedder, stacked layers, scorers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from relatum.layers.dropout import Dropout
from relatum.layers.pairing import Pairing
from relatum.layers.precision import product_dtype, scoring_dtype, without_autocast
from relatum.models.embedder import TextEmbedder
from relatum.models.inputs import ModelInputs
from relatum.models.layer import TableSequenceLayer
from relatum.models.outputs import LayerState, Outputs


class TableSequenceNetwork(nn.Module):
    """From a batch of sentences to the scores of their entity and relation tags (sections 4 and 5).

    The layers are gone through `n_rounds` times: layers that are shared are one layer and several rounds. Where
    `table_reads_sequence` is false, every layer's table is made of S_0 instead of S_{l−1}. Without a relation scorer no
    relations are scored. With `entities_on_diagonal`, entities are read from T_L's diagonal instead of S_L.
    """

    def __init__(
        self,
        embedder: TextEmbedder,
        layers: Sequence[TableSequenceLayer],
        entity_scorer: nn.Linear,
        relation_scorer: nn.Linear | None,
        dropout: float,
        n_rounds: int = 1,
        table_reads_sequence: bool = True,
        entities_on_diagonal: bool = False,
    ) -> None:
        super().__init__()
        self.embedder = embedder
        self.layers = nn.ModuleList(layers)
        self.entity_scorer = entity_scorer
        self.relation_scorer = relation_scorer
        self.dropout = Dropout(dropout)
        self.n_rounds = n_rounds
        self.table_reads_sequence = table_reads_sequence
        self.entities_on_diagonal = entities_on_diagonal
        self.table_dtype: torch.dtype | None = None
        """The precision of products over tables; None for the precision of the parameters or of an outer autocast."""

    @property
    def device(self) -> torch.device:
        return self.entity_scorer.weight.device

    def forward(self, inputs: ModelInputs) -> Outputs:
        """Return the scores of tags, and the outputs of all layers."""
        with self._precision():
            return self._read(inputs)

    def _precision(self) -> AbstractContextManager[object]:
        return nullcontext() if self.table_dtype is None else torch.autocast(self.device.type, self.table_dtype)

    def _table_precision(self) -> torch.dtype:
        """Return the precision of the first table's products, which all other tables share."""
        for layer in self.layers:
            if isinstance(layer.pairing, Pairing):
                return product_dtype(layer.pairing.first.weight)
        return self.entity_scorer.weight.dtype

    def _read(self, inputs: ModelInputs) -> Outputs:
        mask = inputs.mask
        maps = inputs.attention_maps
        if maps is not None:
            maps = maps.to(self._table_precision())
        with without_autocast(mask):
            initial = sequence = self.embedder(inputs)  # S_0
        table: Tensor | None = None
        states: list[LayerState] = []
        for layer in [*self.layers] * self.n_rounds:
            paired = sequence if self.table_reads_sequence else initial
            state: LayerState = layer(paired, sequence, table, maps, mask)
            sequence, table = state.sequence, state.table
            states.append(state)
        return replace(self.score(sequence, table), layers=tuple(states), attention_maps=inputs.attention_maps)

    def score(self, sequence: Tensor, table: Tensor | None) -> Outputs:
        """Score the tags (equations 12 and 13) from S_L and T_L, or from S_l and T_l of any other layer.

        The scores have the precision of the parameters, whatever the precision of the table.
        """
        table = None if table is None else self.dropout(table)
        scorer = self.entity_scorer
        with without_autocast(scorer.weight):
            if self.entities_on_diagonal:
                assert table is not None
                entity_logits = scorer(table.diagonal(dim1=1, dim2=2).mT.to(scorer.weight.dtype))
            else:
                entity_logits = scorer(self.dropout(sequence))
        relation_logits = None
        if self.relation_scorer is not None and table is not None:
            weight = self.relation_scorer.weight
            bias = self.relation_scorer.bias
            dtype = scoring_dtype(table, weight)
            with without_autocast(weight):
                scores = linear(table.to(dtype), weight.to(dtype), bias.to(dtype))
            relation_logits = scores.to(weight.dtype)
        return Outputs(entity_logits, relation_logits)
