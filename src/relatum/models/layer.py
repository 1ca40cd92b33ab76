"""One table-sequence layer, the paper's Figure 3."""

from __future__ import annotations

from torch import Tensor, nn

from relatum.layers.attention import SequenceLayer
from relatum.layers.md_rnn import MDRNN
from relatum.layers.pairing import Pairing
from relatum.layers.precision import without_autocast
from relatum.layers.table_cnn import TableCNN
from relatum.models.outputs import LayerState


class TableSequenceLayer(nn.Module):
    """The table encoder reads the sequence, then the sequence encoder reads the table.

    A part that is None is left out: without a table encoder there is no T_l, without a sequence encoder S_l = S_{l−1}.
    """

    def __init__(
        self, pairing: Pairing | None, table_encoder: MDRNN | TableCNN | None, sequence_encoder: SequenceLayer | None
    ) -> None:
        super().__init__()
        self.pairing = pairing
        self.table_encoder = table_encoder
        self.sequence_encoder = sequence_encoder

    def forward(
        self, paired: Tensor, sequence: Tensor, table: Tensor | None, attention_maps: Tensor | None, mask: Tensor
    ) -> LayerState:
        """S_{l−1} and T_{l−1} to S_l and T_l; `paired` is the sequence that the table is made of."""
        if self.pairing is not None and self.table_encoder is not None:
            pairs = self.pairing(paired, attention_maps)  # X_l, equations 2 and 11
            table = self.table_encoder(pairs, table, mask)  # T_l, equations 3 to 6
        attention = None
        if self.sequence_encoder is not None:
            with without_autocast(sequence):
                sequence, attention = self.sequence_encoder(sequence, table, mask)  # S_l, equations 9 and 10
        return LayerState(sequence, table, attention)
