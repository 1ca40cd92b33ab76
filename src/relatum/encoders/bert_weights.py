"""The weights of a BERT in a Hugging Face folder, under our names; without torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from relatum.encoders.weight_changes import WeightChange
from relatum.encoders.weights import WEIGHTS, load_weights
from relatum.errors import RelatumError
from relatum.kernels.arrays import Array, to_float32

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


_LARGEST = 2**24
"""The largest number of config.json that is believed."""
PROJECTED = ("query", "key", "value")


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
        """Return the shape that a Hugging Face `config.json` describes; None if the model is not one we compute."""
        known = {
            "position_embedding_type": "absolute",
            "hidden_act": "gelu",
            "is_decoder": False,
            "add_cross_attention": False,
        }
        if config.get("model_type") != "bert":
            return None
        if any(config.get(key, value) != value for key, value in known.items()):
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


@dataclass(frozen=True, slots=True)
class BertWeights:
    """The weights of a BERT as they are stored, and the changes that adapters make to them."""

    shape: BertShape
    stored: Mapping[str, Array]
    """The weights by our names; query, key and value apart."""
    changes: Mapping[str, WeightChange]
    """The changes, by our names of weights."""

    @classmethod
    def read(
        cls, folder: Path, shape: BertShape, changes: Mapping[str, WeightChange] = MappingProxyType({})
    ) -> BertWeights:
        """Read the weights in a folder; the changes, by the names of weights in the file, are added when asked for."""
        path = folder / WEIGHTS
        weights = {_our_name(name): value for name, value in load_weights(folder).items()}
        _check_shape(shape, weights, folder)
        for name, change in changes.items():
            change.check(name, weights.get(_our_name(name)), folder)
        parts: dict[str, Array] = {}
        for name, expected in _shapes(shape):
            for part in _parts(name):
                if part not in weights:
                    raise RelatumError(
                        f"{path} lacks the weights that BERT needs for {part}; is it another kind of model?"
                    )
                if weights[part].shape != expected:
                    found = tuple(weights[part].shape)
                    raise RelatumError(f"{path}: {part} has the shape {found}, but config.json says {expected}")
                parts[part] = weights[part]
        return cls(shape, parts, {_our_name(name): change for name, change in changes.items()})

    def find(self, name: str) -> Array:
        """Return a weight by the name that `Bert` has it under, in float32 whatever the precision of the file.

        The vectors of pieces stay as they are stored and are widened when looked up: they are half of a small model,
        and widening all of them would be a good part of the loading time.
        """
        parts = [self._change(part) for part in _parts(name)]
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return joined if name == "pieces.weight" else to_float32(joined)

    def _change(self, part: str) -> Array:
        change = self.changes.get(part)
        return self.stored[part] if change is None else change.add_to(self.stored[part])


def _shapes(shape: BertShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the names of all weights, as `Bert` has them, and their shapes; of a joined weight that of a part."""
    width, inner = shape.width, shape.inner_width
    for name, number in (("pieces", shape.n_pieces), ("positions", shape.n_positions), ("segments", shape.n_segments)):
        yield f"{name}.weight", (number, width)
    yield from _pair("norm", (width,))
    for number in range(shape.n_layers):
        layer = f"layers.{number}"
        yield from _pair(f"{layer}.attention.projection", (width, width))
        yield from _pair(f"{layer}.attention.output", (width, width))
        yield from _pair(f"{layer}.attention_norm", (width,))
        yield from _pair(f"{layer}.inner", (inner, width))
        yield from _pair(f"{layer}.outer", (width, inner))
        yield from _pair(f"{layer}.norm", (width,))


def _pair(name: str, shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the weight and the bias of a linear layer or a norm."""
    yield f"{name}.weight", shape
    yield f"{name}.bias", shape[:1]


def _check_shape(shape: BertShape, weights: Mapping[str, Array], folder: Path) -> None:
    """Refuse numbers of config.json that no BERT has, before anything of these sizes is made."""
    path = folder / "config.json"
    numbers = {name: getattr(shape, name) for name in shape.__slots__ if name != "norm_epsilon"}
    for name, number in numbers.items():
        if isinstance(number, bool) or not 1 <= number <= _LARGEST:
            raise RelatumError(f"{path}: found {number} for {name} of the encoder, expected 1 to {_LARGEST:,}")
    if shape.width % shape.n_attention_heads:
        raise RelatumError(
            f"{path}: found a width of {shape.width} for {shape.n_attention_heads} attention heads, expected a width "
            "that they divide"
        )
    n_layers = len({name.split(".")[1] for name in weights if name.startswith("layers.")})
    if shape.n_layers > n_layers:
        raise RelatumError(f"{path}: found {shape.n_layers} layers, but the weights have {n_layers}")


def _parts(name: str) -> list[str]:
    """Return the names in the file of a weight of ours: query, key and value are one product here, but stored apart."""
    before, marker, kind = name.rpartition("attention.projection.")
    return [f"{before}attention.{part}.{kind}" for part in PROJECTED] if marker else [name]


def _our_name(name: str) -> str:
    name = name.removeprefix("bert.")
    for theirs, ours in _NAMES.items():
        head, marker, rest = name.partition(theirs)
        if marker and (not head or head[-1] == ".") and (not rest or rest[0] == "."):
            name = head + ours + rest
    return name
