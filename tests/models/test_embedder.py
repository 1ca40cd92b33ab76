"""The text embedder: equation 1, with word vectors that stay as they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from relatum.models.embedder import WordTable
from relatum.models.model import Model

from ..small_models import make_inputs

VECTORS = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0], [3.0, 4.0]])
"""Padding, unknown and two words."""


def test_words_have_their_vectors_and_padding_has_zeros() -> None:
    table = WordTable(VECTORS, learn_unknown=True)
    assert table.unknown is not None
    table.unknown.data = torch.tensor([7.0, 8.0])
    found = table(torch.tensor([[2, 3, 1], [3, 0, 0]]))
    assert found.tolist() == [[[1, 2], [3, 4], [7, 8]], [[3, 4], [0, 0], [0, 0]]]


def test_only_the_unknown_vector_learns() -> None:
    table = WordTable(VECTORS, learn_unknown=True)
    assert [name for name, _ in table.named_parameters()] == ["unknown"]
    found = table(torch.tensor([[2, 1, 1, 0]]))
    (found * torch.tensor([1.0, 10.0])).sum().backward()
    assert table.unknown is not None
    assert table.unknown.grad is not None
    assert table.unknown.grad.tolist() == [2, 20]
    optimiser = torch.optim.SGD(table.parameters(), lr=1.0)
    optimiser.step()
    assert torch.equal(table(torch.tensor([2, 3])), VECTORS[2:])
    assert table(torch.tensor([1, 0])).tolist() == [[-2, -20], [0, 0]]


def test_unknown_words_can_have_zeros_instead() -> None:
    table = WordTable(VECTORS, learn_unknown=False)
    assert list(table.parameters()) == []
    assert table(torch.tensor([1, 2])).tolist() == [[0, 0], [1, 2]]


def test_vectors_are_stored_with_the_model() -> None:
    assert set(WordTable(VECTORS, learn_unknown=True).state_dict()) == {"vectors", "unknown"}


def test_embedding_is_a_projection_of_all_that_is_read(make_model: Any, sentences: list[list[str]]) -> None:
    """S_0 = Linear([x^c; x^w; x^ℓ])."""
    model: Model = make_model()
    embedder, inputs = model.network.embedder, make_inputs(model, sentences)
    assert embedder.characters is not None
    assert embedder.words is not None
    assert inputs.vectors is not None
    joined = torch.cat((embedder.characters(inputs.characters), embedder.words(inputs.words), inputs.vectors), -1)
    expected = joined @ embedder.projection.weight.T + embedder.projection.bias
    torch.testing.assert_close(embedder(inputs), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("overrides", "encoder", "words", "width"),
    [
        ((), True, True, 4 + 5 + 6),
        (("characters.kind=none",), True, True, 5 + 6),
        ((), True, False, 4 + 6),
        ((), False, True, 4 + 5),
        (("characters.kind=none",), True, False, 6),
        ((), False, False, 4),
    ],
)
def test_projection_is_as_wide_as_what_is_read(
    make_model: Any, sentences: list[list[str]], overrides: tuple[str, ...], encoder: bool, words: bool, width: int
) -> None:
    model: Model = make_model(*overrides, encoder=encoder, words=words)
    assert model.network.embedder.projection.in_features == width
    assert model.network.embedder(make_inputs(model, sentences)).shape == (3, 5, 8)


def test_unknown_setting_of_a_config_is_followed(make_model: Any) -> None:
    learned, zero = make_model(), make_model("words.unknown=zero")
    assert learned.network.embedder.words.unknown is not None
    assert zero.network.embedder.words.unknown is None
