"""Who attends to whom: table-guided attention, and the encoder's own (paper, section 6.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relatum.encoders.base import TextEncoder
from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.extractor.piping import OnProgress
from relatum.models.model import Model
from relatum.types import Annotation, Sentence, Span

DIGITS = 4


@dataclass(frozen=True, slots=True)
class Head:
    """An attention head of the network or of its encoder; layers, and heads within a layer, are numbered from 1."""

    of_encoder: bool
    layer: int
    number: int

    def __str__(self) -> str:
        return f"{'encoder ' if self.of_encoder else ''}layer {self.layer}, head {self.number}"

    def to_dict(self) -> dict[str, Any]:
        return {"of": "encoder" if self.of_encoder else "network", "layer": self.layer, "head": self.number}


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """The weights of all heads in a window: a sentence, or a part of one that is too long to be read at once."""

    sentence: int
    """The number of the sentence, from 0."""
    window: Span
    words: tuple[str, ...]
    heads: tuple[Head, ...]
    weights: NDArray[np.float32]
    """(heads, words, words): from whom (first) to whom (second). Weights of the network sum to 1 for each word; weights
    of the encoder are as the table reads them, without the attention to special pieces."""
    found: Annotation
    """The annotation that the last layer finds, in words of the window."""

    def of(self, head: Head) -> NDArray[np.float32]:
        weights: NDArray[np.float32] = self.weights[self.heads.index(head)]
        return weights

    def to_bertviz(self) -> dict[str, Any]:
        """Return the arguments `attention` and `tokens` of bertviz's views, as lists; and the encoder's attention.

        A layer has the axes (1, heads, words, words), for which bertviz wants a tensor: `map(torch.tensor, …)`.
        """

        def layers(of_encoder: bool) -> list[Any]:
            numbers = sorted({head.layer for head in self.heads if head.of_encoder == of_encoder})
            return [np.round(self._layer(of_encoder, number), DIGITS).tolist() for number in numbers]

        return {"tokens": list(self.words), "attention": layers(False), "encoder": layers(True)}

    def _layer(self, of_encoder: bool, number: int) -> NDArray[np.float64]:
        rows = [row for row, head in enumerate(self.heads) if (head.of_encoder, head.layer) == (of_encoder, number)]
        return self.weights[rows][None].astype(np.float64)


def attend(
    extractor: Extractor, sentences: Sequence[Sentence], on_progress: OnProgress | None = None
) -> Iterator[Attention]:
    """The attention of the windows of all sentences, the longest sentences first."""
    heads = find_heads(extractor.model)
    for number, readings in extractor.read_layers(sentences, on_progress=on_progress):
        words = sentences[number].words
        for reading in readings:
            weights = [layer.attention for layer in reading.layers if layer.attention is not None]
            if reading.maps is not None:
                weights.append(reading.maps)
            start, end = reading.window
            found = reading.layers[-1].found
            yield Attention(number, reading.window, words[start:end], heads, np.concatenate(weights), found)


def attend_to_text(extractor: Extractor, text: str) -> list[Attention]:
    """The attention of the sentences of a text, or of their windows, in their order."""
    attentions = attend(extractor, extractor.split(text))
    return sorted(attentions, key=lambda attention: (attention.sentence, attention.window))


def find_heads(model: Model) -> tuple[Head, ...]:
    """Return all heads of a model in the order of their weights; the encoder's heads only if the table reads them."""
    config = model.config
    heads = []
    if config.sequence.kind != "none":
        n_steps = len(model.network.layers) * model.network.n_rounds
        numbers = range(1, config.sequence.n_attention_heads + 1)
        heads += [Head(False, layer, number) for layer in range(1, n_steps + 1) for number in numbers]
    if model.encoder is not None and model.reads_attention_maps:
        heads += _find_heads_of(model.encoder)
    if not heads:
        raise RelatumError(
            "the model has no attention to look at: it has no sequence encoder, and its table reads none of an encoder"
        )
    return tuple(heads)


def _find_heads_of(encoder: TextEncoder) -> list[Head]:
    """Return the heads of an encoder; layers of encoders side by side are numbered on from one encoder to the next."""
    layers = enumerate(encoder.heads_per_layer, 1)
    return [Head(True, layer, number) for layer, n_heads in layers for number in range(1, n_heads + 1)]


def is_table_guided(model: Model) -> bool:
    """True if the network's own attention reads the table, and not dot products of words."""
    guided = ("both", "table-to-sequence")
    return model.config.table.kind != "none" and model.config.model.interaction in guided
