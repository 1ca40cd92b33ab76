"""Reading with several models at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from relatum.encoders.base import EncoderInput, EncoderOutput
from relatum.errors import RelatumError
from relatum.models.model import Model
from relatum.models.outputs import Outputs
from relatum.runtime.base import select
from relatum.runtime.native.encoder import with_native_encoder


class EnsembleRuntime:
    """The mean of the probabilities of several models; an encoder that models share reads once for all of them."""

    def __init__(self, models: Sequence[Model]) -> None:
        counts = Counter(model.encoder for model in models if model.encoder is not None)
        self._members = [(select(model), model.encoder) for model in models]
        self._has_tag_sets = models[0].tagging.has_tag_sets
        self._shared = {
            model.encoder: with_native_encoder(model).encoder
            for model in models
            if model.encoder is not None and counts[model.encoder] > 1
        }

    @torch.inference_mode()
    def read(self, batch: EncoderInput, keep_layers: bool = False, features: EncoderOutput | None = None) -> Outputs:
        """Return scores whose softmax is the mean of the models' probabilities.

        If each tag of a cell has a probability of its own, it is the sigmoid of the cells' scores that is their mean.
        """
        if keep_layers or features is not None:
            raise RelatumError("an ensemble has no layers and no encoder of its own; look at one of its members")
        shared = {key: encoder.encode(batch) for key, encoder in self._shared.items() if encoder is not None}
        of_words: Tensor | None = None
        of_cells: Tensor | None = None
        for runtime, encoder in self._members:
            outputs = runtime.read(batch, features=None if encoder is None else shared.get(encoder))
            of_words = _add(of_words, outputs.entity_logits)
            if outputs.relation_logits is not None:
                of_tags = outputs.relation_logits
                of_cells = _add(of_cells, _pair_with_absence(of_tags) if self._has_tag_sets else of_tags)
        assert of_words is not None
        if of_cells is not None and self._has_tag_sets:
            of_cells = of_cells[..., 0] - of_cells[..., 1]
        return Outputs(of_words, of_cells)


def _pair_with_absence(logits: Tensor) -> Tensor:
    """Return the logits of each tag and of its absence, on a new last axis; their softmax is the sigmoid of the tag."""
    return torch.stack((logits, torch.zeros_like(logits)), -1)


def _add(total: Tensor | None, logits: Tensor) -> Tensor:
    """Add probabilities to a total; all are logarithms: their softmax is the mean of the probabilities."""
    certainty = logits.float().log_softmax(-1)
    return certainty if total is None else torch.logaddexp(total, certainty)
