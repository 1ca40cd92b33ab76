"""A forward pass of BERT of our own.

Why, when transformers has one: importing it takes seconds, which is most of what `relatum extract` may take from a
cold start; and it gives the attention of all layers at once, where one layer at a time is enough for us. The results
are the same, and a test says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from relatum.encoders.backbone import Backbone, LayerOutput
from relatum.errors import RelatumError

WEIGHTS = "model.safetensors"

_NAMES = {
    "embeddings.word_embeddings": "pieces",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "segments",
    "embeddings.LayerNorm": "norm",
    "encoder.layer": "layers",
    "attention.self": "attention",
    "attention.output.dense": "attention.output",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "inner",
    "output.dense": "outer",
    "output.LayerNorm": "norm",
    "gamma": "weight",  # checkpoints that once were TensorFlow's
    "beta": "bias",
}


@dataclass(frozen=True, slots=True)
class BertShape:
    """The numbers of a BERT that its weights depend on."""

    norm_epsilon: float
    n_pieces: int
    n_positions: int
    n_segments: int
    width: int
    inner_width: int
    n_layers: int
    n_attention_heads: int

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> BertShape | None:
        """The shape that a Hugging Face `config.json` describes; None where the model is not one we compute."""
        known = {
            "model_type": "bert",
            "position_embedding_type": "absolute",
            "hidden_act": "gelu",
            "is_decoder": False,
            "add_cross_attention": False,
        }
        if config.get("model_type") != "bert" or any(config.get(key, value) != value for key, value in known.items()):
            return None
        defaults = {
            "vocab_size": 30522,
            "max_position_embeddings": 512,
            "type_vocab_size": 2,
            "hidden_size": 768,
            "intermediate_size": 3072,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
        }
        numbers = [config.get(key, default) for key, default in defaults.items()]
        epsilon = config.get("layer_norm_eps", 1e-12)
        counts = [number for number in numbers if isinstance(number, int)]
        if len(counts) != len(numbers) or not isinstance(epsilon, float):
            return None
        return cls(epsilon, *counts)


class Bert(Backbone):
    """Embeddings and layers, without the pooler; dropout is left out, since it is only ever used frozen."""

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
        self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.n_layers))

    def outputs(self, pieces: Tensor, mask: Tensor, want_attention: bool) -> Iterator[LayerOutput]:
        length = pieces.shape[1]
        found = self.pieces(pieces).to(self.positions.weight.dtype)
        hidden = self.norm(found + self.segments.weight[0] + self.positions.weight[:length])
        yield LayerOutput(hidden, None)
        for layer in self.layers:
            hidden, attention = layer(hidden, mask[:, None, None, :], want_attention)
            yield LayerOutput(hidden, attention)


def _embedding(n_vectors: int, width: int) -> nn.Embedding:
    """An embedding whose values are not drawn at random: on the meta device that imports half of torch, for seconds."""
    return nn.Embedding(n_vectors, width, _weight=torch.empty(n_vectors, width))


class _Layer(nn.Module):
    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.attention = _Attention(shape.width, shape.n_attention_heads)
        self.attention_norm = nn.LayerNorm(shape.width, eps=shape.norm_epsilon)
        self.inner = nn.Linear(shape.width, shape.inner_width)
        self.outer = nn.Linear(shape.inner_width, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.norm_epsilon)

    def forward(self, hidden: Tensor, mask: Tensor, want_attention: bool) -> tuple[Tensor, Tensor | None]:
        read, attention = self.attention(hidden, mask, want_attention)
        hidden = self.attention_norm(read + hidden)
        return self.norm(self.outer(gelu(self.inner(hidden))) + hidden), attention


class _Attention(nn.Module):
    def __init__(self, width: int, n_attention_heads: int) -> None:
        super().__init__()
        self.n_attention_heads = n_attention_heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, hidden: Tensor, mask: Tensor, want_attention: bool) -> tuple[Tensor, Tensor | None]:
        query, key, value = (
            part(hidden).unflatten(-1, (self.n_attention_heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        attention: Tensor | None = None
        if want_attention:
            scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
            attention = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
            read = attention @ value
        else:
            read = scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.output(read.transpose(1, 2).flatten(2)), attention


def load_bert(folder: Path, shape: BertShape) -> Bert:
    """The BERT in a Hugging Face folder, computing in float32 whatever the precision of the file.

    The vectors of pieces stay as they are stored and are widened when looked up: they are half of a small model, and
    widening all of them is a good part of what loading takes.
    """
    path = folder / WEIGHTS
    try:
        stored = load_file(path)
    except (OSError, SafetensorError) as error:
        raise RelatumError(f"{path}: the weights of the encoder cannot be read ({error})") from error
    weights = {_our_name(name): value for name, value in stored.items()}
    with torch.device("meta"):  # nothing is drawn at random only to be overwritten
        model = Bert(shape)
    wanted = model.state_dict()
    for name, value in wanted.items():
        if name not in weights:
            raise RelatumError(f"{path} lacks the weights that BERT needs for {name}; is it another kind of model?")
        if weights[name].shape != value.shape:
            found, expected = tuple(weights[name].shape), tuple(value.shape)
            raise RelatumError(f"{path}: {name} has the shape {found}, but config.json says {expected}")
    widened = {name: weights[name] if name == "pieces.weight" else weights[name].float() for name in wanted}
    model.load_state_dict(widened, assign=True)
    return model.requires_grad_(False).eval()


def _our_name(name: str) -> str:
    name = name.removeprefix("bert.")
    for theirs, ours in _NAMES.items():
        head, found, rest = name.partition(theirs)
        if found and (not head or head[-1] == ".") and (not rest or rest[0] == "."):
            name = head + ours + rest
    return name
