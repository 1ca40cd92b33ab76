"""A forward pass of BERT of our own.

Why, when transformers has one: importing it takes seconds, which is most of what `relatum extract` may take from a
cold start; and it gives the attention of all layers at once, where one layer at a time is enough for us. The results
are the same, and a test says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from relatum.encoders.backbone import Backbone, LayerOutput
from relatum.encoders.bert_weights import PROJECTED, BertShape, BertWeights
from relatum.encoders.weight_changes import WeightChange
from relatum.kernels.tensors import as_tensor


class Bert(Backbone):
    """A BERT's embeddings and layers, without the pooler; without dropout, as the model is only ever used frozen."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.width = shape.width
        self.n_layers = shape.n_layers
        self.n_attention_heads = shape.n_attention_heads
        self.n_positions = shape.n_positions
        self.pieces = _embedding(shape.n_pieces, shape.width)
        self.positions = _embedding(shape.n_positions, shape.width)
        self.segments = _embedding(shape.n_segments, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.norm_epsilon)
        self.layers = nn.ModuleList(BertLayer(shape) for _ in range(shape.n_layers))

    def outputs(self, pieces: Tensor, mask: Tensor, want_attention: bool) -> Iterator[LayerOutput]:
        rows = _Rows.of(mask)
        found = self.pieces(rows.gather(pieces)).to(self.positions.weight.dtype)
        positions = torch.arange(pieces.shape[1], device=pieces.device).expand_as(pieces)
        hidden = self.norm(found + self.segments.weight[0] + self.positions(rows.gather(positions)))
        yield LayerOutput(rows.spread(hidden), None)
        bias = rows.bias(hidden.dtype)
        if bias is not None and want_attention:  # scores are added to it, and it is the same for every layer
            bias = bias.expand(-1, self.n_attention_heads, pieces.shape[1], -1).contiguous()
        for layer in self.layers:
            hidden, attention = layer(hidden, rows, bias, want_attention)
            yield LayerOutput(rows.spread(hidden), attention)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The pieces of a batch, one after the other; only attention sees them as sentences, padded to the longest.

    On a CPU the padding is left out of all other steps, which saves a fifth of the work on a mixed batch. A GPU would
    have to wait for the number of real pieces, and has the padding among the rows.
    """

    mask: Tensor
    """(batch, pieces)"""
    real: Tensor | None
    """The places of the rows in the padded batch; None if every place of the batch is a row."""

    @classmethod
    def of(cls, mask: Tensor) -> _Rows:
        is_full = mask.device.type != "cpu" or bool(mask.all())
        return cls(mask, None if is_full else mask.flatten().nonzero().squeeze(1))

    def gather(self, padded: Tensor) -> Tensor:
        """Turn (batch, pieces, …) into (rows, …)."""
        flat = padded.flatten(0, 1)
        return flat if self.real is None else flat.index_select(0, self.real)

    def spread(self, rows: Tensor) -> Tensor:
        """Turn (rows, …) into (batch, pieces, …), zero where there is no piece."""
        if self.real is not None:
            rows = rows.new_zeros(self.mask.numel(), *rows.shape[1:]).index_copy_(0, self.real, rows)
        padded: Tensor = rows.unflatten(0, self.mask.shape)
        return padded

    def bias(self, dtype: torch.dtype) -> Tensor | None:
        """Return (batch, 1, 1, pieces), to be added to the scores of attention; None if nothing is padding."""
        if self.real is None and self.mask.device.type == "cpu":
            return None
        zeros = torch.zeros(self.mask.shape, dtype=dtype, device=self.mask.device)
        return zeros.masked_fill_(~self.mask, torch.finfo(dtype).min)[:, None, None, :]


def _embedding(n_vectors: int, width: int) -> nn.Embedding:
    """Make an embedding without drawing random values: on the meta device, that imports half of torch, for seconds."""
    return nn.Embedding(n_vectors, width, _weight=torch.empty(n_vectors, width))


class BertLayer(nn.Module):
    """A layer of a BERT: attention and a feed-forward network, added and normalised."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.attention = BertAttention(shape.width, shape.n_attention_heads)
        self.attention_norm = nn.LayerNorm(shape.width, eps=shape.norm_epsilon)
        self.inner = nn.Linear(shape.width, shape.inner_width)
        self.outer = nn.Linear(shape.inner_width, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.norm_epsilon)

    def forward(
        self, hidden: Tensor, rows: _Rows, bias: Tensor | None, want_attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        read, attention = self.attention(hidden, rows, bias, want_attention)
        hidden = self.attention_norm(hidden + read)
        return self.norm(hidden + self.outer(gelu(self.inner(hidden)))), attention


class BertAttention(nn.Module):
    """Attention between the pieces of a sentence; one product makes queries, keys and values."""

    def __init__(self, width: int, n_attention_heads: int) -> None:
        super().__init__()
        self.n_attention_heads = n_attention_heads
        self.projection = nn.Linear(width, len(PROJECTED) * width)
        self.output = nn.Linear(width, width)

    def forward(
        self, hidden: Tensor, rows: _Rows, bias: Tensor | None, want_attention: bool
    ) -> tuple[Tensor, Tensor | None]:
        parts = (len(PROJECTED), self.n_attention_heads, -1)
        projected = rows.spread(self.projection(hidden)).unflatten(-1, parts).permute(2, 0, 3, 1, 4)
        if len(rows.mask) > 1:
            # One copy puts the pieces of a head side by side: (query, key or value; batch; heads; pieces; width).
            projected = projected.contiguous()  # of one sentence, products read them as they lie
        attention: Tensor | None = None
        if want_attention:
            query, key, value = projected.to(hidden.dtype).unbind(0)
            attention = _scores(query, key, bias).softmax(-1)
            read = attention @ value
        else:  # in whatever precision products have: within this one, sums and softmax are float32 anyway
            query, key, value = projected.unbind(0)
            bias = None if bias is None else bias.to(query.dtype)
            read = scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return self.output(rows.gather(read.transpose(1, 2).flatten(2))), attention


def _scores(query: Tensor, key: Tensor, bias: Tensor | None) -> Tensor:
    """Return (batch, heads, pieces, pieces): scaled products with the bias added, in one step."""
    n_batch, n_heads, n_pieces, width = query.shape
    if bias is None:
        added = query.new_empty(1, 1, 1)
        beta = 0
    else:
        added = bias.expand(-1, n_heads, n_pieces, -1).flatten(0, 1)
        beta = 1
    scores = torch.baddbmm(added, query.flatten(0, 1), key.flatten(0, 1).mT, beta=beta, alpha=width**-0.5)
    return scores.view(n_batch, n_heads, n_pieces, n_pieces)


def load_bert(folder: Path, shape: BertShape, changes: Mapping[str, WeightChange] = MappingProxyType({})) -> Bert:
    """Load the BERT in a Hugging Face folder, see `BertWeights`."""
    return make_bert(BertWeights.read(folder, shape, changes))


def make_bert(weights: BertWeights) -> Bert:
    """Make a BERT of its weights."""
    with torch.device("meta"):  # nothing is drawn at random only to be overwritten
        model = Bert(weights.shape)
    model.load_state_dict({name: as_tensor(weights.find(name)) for name in model.state_dict()}, assign=True)
    return model.requires_grad_(False).eval()
