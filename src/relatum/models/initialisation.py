"""The initial values of a network's weights, if they differ from torch's defaults."""

from __future__ import annotations

from math import log, sqrt

from torch import nn

from relatum.models.network import TableSequenceNetwork

_FIRST_PROBABILITY = 0.01


def initialise_as_authors(network: TableSequenceNetwork) -> None:
    """Give the embedder and the scorers the first values of the authors' released code.

    Characters and the unknown word are uniform between ±√(3 / width). The projection to S_0 and both scorers are
    uniform between ±√(6 / (inputs + outputs)), without bias. The gates of the character LSTM are so, too, each by
    itself. The biases of its forget gate are 1 and 1, all others 0. All other weights keep torch's values.
    """
    embedder = network.embedder
    if embedder.characters is not None:
        _fill_vectors(embedder.characters.embedding)
        _fill_lstm(embedder.characters.lstm)
    if embedder.words is not None and embedder.words.unknown is not None:
        bound = sqrt(3 / len(embedder.words.unknown))
        nn.init.uniform_(embedder.words.unknown, -bound, bound)
    for linear in (embedder.projection, network.entity_scorer, network.relation_scorer):
        if linear is not None:
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)


def initialise_independent_tags(scorer: nn.Linear) -> None:
    """Let every tag of a cell be unlikely at first, as nearly all are; else an untrained model finds all there is."""
    nn.init.constant_(scorer.bias, log(_FIRST_PROBABILITY / (1 - _FIRST_PROBABILITY)))


def _fill_vectors(embedding: nn.Embedding) -> None:
    bound = sqrt(3 / embedding.embedding_dim)
    nn.init.uniform_(embedding.weight, -bound, bound)
    if embedding.padding_idx is not None:
        nn.init.zeros_(embedding.weight[embedding.padding_idx])


def _fill_lstm(lstm: nn.LSTM) -> None:
    width = lstm.hidden_size
    for name, values in lstm.named_parameters():
        if name.startswith("weight"):
            bound = sqrt(6 / (width + values.shape[1]))
            nn.init.uniform_(values, -bound, bound)
        else:
            nn.init.zeros_(values)
            nn.init.ones_(values[width : 2 * width])  # torch's order: input, forget, cell, output
