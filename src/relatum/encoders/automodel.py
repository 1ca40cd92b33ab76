"""Every transformer that the `transformers` library knows, loaded through it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from transformers.utils import logging

from relatum.encoders.backbone import Backbone, LayerOutput
from relatum.encoders.pieces import CODE_CURE
from relatum.encoders.weight_changes import WeightChange
from relatum.encoders.weights import load_weights, read_settings
from relatum.errors import RelatumError
from relatum.kernels.tensors import as_array, as_array_or_none, as_tensor

_REFUSED = ("quantization_config", "compression_config")
_LEFT_OUT = (
    *("attn_implementation", "experts_implementation"),  # may name code on the model hub; attention is always "eager"
    *("auto_map", "distributed_config", "fusion_config", "transformers_weights"),
    *("num_labels", "id2label", "label2id"),  # the library makes a name for each of them
)
"""Keys by which config.json could have the library fetch or run something, or work for ever; none of them changes what
is computed."""
_LIMITS = {
    "num_hidden_layers": 1000,
    "num_attention_heads": 1000,
    "hidden_size": 2**17,
    "intermediate_size": 2**20,
    "max_position_embeddings": 2**24,
    "vocab_size": 2**24,
    "attention_window": 2**13,
    "block_size": 2**13,
}
"""The largest settings of an encoder that are believed; larger ones take for ever before the weights turn out short."""

_WINDOWS = ("attention_window", "block_size", "local_attention", "sliding_window")
"""Settings of layers that attend to near pieces only. The library adds that to masks it makes, and not to ours."""

_SPARE = 2**20
"""Numbers that a network may have beside those in its weights: parts that nobody reads, such as a pooler."""


class AutoBackbone(Backbone):
    """A model of `transformers`; the attention of all its layers is computed at once."""

    adds_masks: bool
    """True if masks are made here and added to scores. From other masks the library makes its own, and on a GPU it
    waits to see if all pieces are real, so that nothing can be recorded as a CUDA graph."""

    def __init__(self, model: Any, where: Path, want_attention: bool) -> None:
        super().__init__()
        self.model = model
        self._where = where
        self.n_positions = _n_positions(model)
        self.padding = getattr(model.config, "pad_token_id", None) or 0
        # What the configuration calls layers and heads differs between models; a short run shows what there is.
        # Pieces differ, or the answers would not show which of them a piece attends to.
        probe = torch.tensor([[2, 3, 2], [2, 3, 2]])
        mask = torch.tensor([[True, True, True], [True, True, False]])
        self.adds_masks = False
        layers = list(self.outputs(probe, mask, want_attention))
        self.adds_masks = self._can_add_masks(probe, mask, layers[-1].hidden)
        last = layers[-1].attention
        self.width = layers[0].hidden.shape[-1]
        self.n_layers = len(layers) - 1
        self.n_attention_heads = 0 if last is None else last.shape[1]

    def _can_add_masks(self, pieces: Tensor, mask: Tensor, wanted: Tensor) -> bool:
        """Return True if the model reads the same with a mask that is added to the scores of attention.

        The few pieces of the probe do not show whether layers attend to near pieces only, so the settings must.
        """
        if any(getattr(self.model.config, key, None) for key in _WINDOWS):
            return False
        self.adds_masks = True
        try:
            found = list(self.outputs(pieces, mask, want_attention=False))[-1].hidden
        except Exception:  # each model that does not know such masks fails in its own way
            return False
        return torch.equal(found[mask], wanted[mask])

    def outputs(self, pieces: Tensor, mask: Tensor, want_attention: bool) -> Iterator[LayerOutput]:
        output = self.model(
            input_ids=pieces,
            attention_mask=_added(mask) if self.adds_masks else mask.long(),
            output_hidden_states=True,
            output_attentions=want_attention,
            return_dict=True,
        )
        hidden: tuple[Tensor, ...] = output.hidden_states
        attention: tuple[Tensor, ...] = output.attentions or () if want_attention else ()
        n_batch, n_pieces = pieces.shape
        expected: set[tuple[int, ...]] = {(n_batch, n_pieces)}
        shapes: set[tuple[int, ...]] = {tuple(layer.shape[:2]) for layer in hidden}
        if want_attention:
            expected.add((n_batch, n_pieces, n_pieces))
            shapes |= {(layer.shape[0], *layer.shape[2:]) for layer in attention}
        lacks_attention = want_attention and len(attention) != len(hidden) - 1
        if shapes != expected or lacks_attention:
            cure = "take another encoder" + (", or set table.attention_maps = false" if want_attention else "")
            raise RelatumError(f"{self._where}: the layers of this model do not see every piece by itself; {cure}")
        yield LayerOutput(hidden[0], None)
        for i, layer in enumerate(hidden[1:]):
            yield LayerOutput(layer, attention[i] if want_attention else None)


def _added(mask: Tensor) -> Tensor:
    """Turn a mask (batch, pieces) into (batch, 1, pieces, pieces): 0 for pieces to attend to, else the least number."""
    added = torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, torch.finfo(torch.float32).min)
    return added[:, None, None, :].expand(-1, 1, mask.shape[1], -1)


def load_automodel(
    folder: Path, want_attention: bool, changes: Mapping[str, WeightChange] = MappingProxyType({})
) -> AutoBackbone:
    """Load the model of a Hugging Face folder, in float32; only safetensors are read, and no code of the folder is run.

    The changes, by the names of weights, are added to the weights. The library is given settings and weights, and never
    sees the folder: it would also read adapters, pickles and other files there, whose hashes nobody has checked.
    """
    config = _read_config(folder)
    weights = {name: as_tensor(values) for name, values in load_weights(folder).items()}
    kind: Any = transformers.MODEL_MAPPING[type(config)]
    if isinstance(kind, tuple):
        named = config.architectures if isinstance(config.architectures, list) else []
        kind = next((candidate for candidate in kind if candidate.__name__ in named), kind[0])
    try:
        with _quietly(), _no_larger_than(weights):
            model, info = kind.from_pretrained(
                None,
                config=config,
                state_dict=weights,
                local_files_only=True,
                attn_implementation="eager",
                dtype=torch.float32,
                output_loading_info=True,
            )
    except Exception as error:  # the library checks little, so that settings that do not fit fail anyhow
        raise RelatumError(f"{folder}: the encoder cannot be loaded ({error})") from error
    missing = sorted(name for name in info["missing_keys"] if "pooler" not in name)
    if missing:
        raise RelatumError(f"{folder}: the weights lack {len(missing)} tensors of the model, such as {missing[0]}")
    if getattr(model.config, "is_encoder_decoder", False):
        raise RelatumError(f"{folder} holds an encoder with a decoder; take a model that is only an encoder")
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, change in changes.items():
            change.check(name, as_array_or_none(parameters.get(name)), folder)
            parameters[name].copy_(as_tensor(change.add_to(as_array(parameters[name]))))
    try:
        return AutoBackbone(model.requires_grad_(False).eval(), folder, want_attention)
    except (RuntimeError, ValueError, IndexError) as error:
        raise RelatumError(f"{folder}: the encoder cannot read a sentence ({error})") from error


def _read_config(folder: Path) -> Any:
    """Read the settings of an encoder for the library, without settings that could make it load something else."""
    path = folder / "config.json"
    stored = read_settings(folder)
    kind = _find_kind(stored, folder)
    settings = {
        key: value
        for key, value in stored.items()
        if not key.startswith("_") and key not in _LEFT_OUT and not callable(getattr(kind, key, None))
    }
    try:
        config = kind.from_dict(settings)
        _check_limits(config, path)
    except RelatumError:
        raise
    except Exception as error:  # each kind checks its settings in its own way, or not at all
        raise RelatumError(f"{path}: the settings of the encoder cannot be used ({error})") from error
    return config


def _find_kind(stored: Mapping[str, object], folder: Path) -> Any:
    """Return the library's class for the settings of an encoder; refuse what is not a plain encoder of text."""
    path = folder / "config.json"
    name = stored.get("model_type")
    if not isinstance(name, str) or name not in transformers.CONFIG_MAPPING:
        if "auto_map" in stored:
            raise RelatumError(f"{folder}: {CODE_CURE}")
        raise RelatumError(f"{path}: found the model_type {name!r:.50}, which the transformers library does not have")
    for key in _REFUSED:
        if stored.get(key):
            raise RelatumError(f"{path}: found {key}; expected an encoder with plain weights, not compressed ones")
    kind: Any = transformers.CONFIG_MAPPING[name]
    if kind not in transformers.MODEL_MAPPING or kind.sub_configs:
        raise RelatumError(f"{path}: found a model of the kind {name}; expected one that is only an encoder of text")
    return kind


def _check_limits(config: Any, path: Path) -> None:
    """Refuse sizes that no encoder has."""
    for key, most in _LIMITS.items():
        value = getattr(config, key, None)
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and not 0 < number <= most:
                raise RelatumError(f"{path}: found {number} for {key}, expected a number from 1 to {most:,}")


def _n_positions(model: nn.Module) -> int | None:
    """Return the number of pieces that can have a position; None if there is no limit.

    RoBERTa, MPNet and their kin count positions from the padding index on, so the positions up to it are never used.
    """
    limit = getattr(model.config, "max_position_embeddings", None)
    n_positions = limit if isinstance(limit, int) and limit > 0 else None
    for name, part in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(part, nn.Embedding):
            unused = 0 if part.padding_idx is None else part.padding_idx + 1
            n_positions = part.num_embeddings - unused
    return n_positions


@contextmanager
def _no_larger_than(weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Within the block, refuse a network that the weights cannot fill, as soon as it has grown too large.

    The library makes all of it, however large the settings say it is, before it looks at the weights.
    """
    room = 4 * sum(map(Tensor.numel, weights.values())) + _SPARE

    def count(_module: nn.Module, _name: str, parameter: nn.Parameter | None) -> None:
        nonlocal room
        if parameter is not None and parameter.device.type == "meta":  # the library fills it with weights later
            room -= parameter.numel()
            if room < 0:
                raise ValueError("config.json describes a network that is much larger than the weights")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _quietly() -> Iterator[None]:
    """Within the block, silence the library's progress bar and reports: what matters in them is an error of ours."""
    level = logging.get_verbosity()
    bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
