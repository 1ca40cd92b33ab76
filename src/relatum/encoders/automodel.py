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
from transformers.utils import logging

from relatum.encoders.adapters import check_change
from relatum.encoders.backbone import Backbone, LayerOutput
from relatum.encoders.pieces import CODE_CURE, wants_code
from relatum.errors import RelatumError


class AutoBackbone(Backbone):
    """A model of `transformers`; the attention of all its layers is computed at once."""

    def __init__(self, model: Any, where: Path, want_attention: bool) -> None:
        super().__init__()
        self.model = model
        self._where = where
        self.n_positions = _n_positions(model)
        self.padding = getattr(model.config, "pad_token_id", None) or 0
        # What the configuration calls layers and heads differs between models; a short run shows what there is.
        probe = torch.full((1, 3), 2)
        layers = list(self.outputs(probe, torch.ones_like(probe, dtype=torch.bool), want_attention))
        last = layers[-1].attention
        self.width = layers[0].hidden.shape[-1]
        self.n_layers = len(layers) - 1
        self.n_attention_heads = 0 if last is None else last.shape[1]

    def outputs(self, pieces: Tensor, mask: Tensor, want_attention: bool) -> Iterator[LayerOutput]:
        output = self.model(
            input_ids=pieces,
            attention_mask=mask.long(),
            output_hidden_states=True,
            output_attentions=want_attention,
            return_dict=True,
        )
        hidden: tuple[Tensor, ...] = output.hidden_states
        attention: tuple[Tensor, ...] = output.attentions or () if want_attention else ()
        size = tuple(pieces.shape)
        shapes = {tuple(one.shape[:2]) for one in hidden} | {(one.shape[0], *one.shape[2:]) for one in attention}
        if shapes != ({size, (*size, size[1])} if want_attention else {size}) or (
            want_attention and len(attention) != len(hidden) - 1
        ):
            cure = "take another encoder" + (", or set table.attention_maps = false" if want_attention else "")
            raise RelatumError(f"{self._where}: the layers of this model do not see every piece by itself; {cure}")
        yield LayerOutput(hidden[0], None)
        for i, one in enumerate(hidden[1:]):
            yield LayerOutput(one, attention[i] if want_attention else None)


def load_automodel(
    folder: Path, want_attention: bool, changes: Mapping[str, Tensor] = MappingProxyType({})
) -> AutoBackbone:
    """The model of a Hugging Face folder, in float32; only safetensors are read, and no code of the folder is run.

    The changes, by the names of weights, are added to these.
    """
    try:
        with _quietly():
            model, info = transformers.AutoModel.from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                attn_implementation="eager",
                dtype=torch.float32,
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        if wants_code(error):
            raise RelatumError(f"{folder}: {CODE_CURE}") from error
        raise RelatumError(f"{folder}: the encoder cannot be loaded ({error})") from error
    missing = sorted(name for name in info["missing_keys"] if "pooler" not in name)
    if missing:
        raise RelatumError(f"{folder}: the weights lack {len(missing)} tensors of the model, such as {missing[0]}")
    if getattr(model.config, "is_encoder_decoder", False):
        raise RelatumError(f"{folder} holds an encoder with a decoder; take a model that is only an encoder")
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for name, change in changes.items():
            check_change(name, change, weights.get(name), folder)
            weights[name].add_(change)
    return AutoBackbone(model.requires_grad_(False).eval(), folder, want_attention)


def _n_positions(model: nn.Module) -> int | None:
    """How many pieces have a position.

    RoBERTa, MPNet and their kin count positions from the padding index on, so that many of them are never used.
    """
    limit = getattr(model.config, "max_position_embeddings", None)
    n_positions = limit if isinstance(limit, int) and limit > 0 else None
    for name, part in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(part, nn.Embedding):
            unused = 0 if part.padding_idx is None else part.padding_idx + 1
            n_positions = part.num_embeddings - unused
    return n_positions


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the library's own progress bar and reports: what matters in them is an error of ours."""
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
