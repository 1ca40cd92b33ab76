"""Words from characters: one word at a time is the definition."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from relatum.layers.characters import CharacterLSTM

WIDTH = 6
WORDS = [[[2, 3, 4, 5], [6], [3, 3]], [[7, 2]]]
"""Two sentences, of three words and of one."""


def make_lstm(dropout: float = 0.0) -> CharacterLSTM:
    torch.manual_seed(0)
    return CharacterLSTM(9, WIDTH, dropout).double()


def pad(n_words: int, n_characters: int, noise: int = 0) -> tuple[Tensor, Tensor]:
    characters = torch.full((2, n_words, n_characters), noise)
    counts = torch.zeros(2, n_words, dtype=torch.long)
    for row, words in enumerate(WORDS):
        for place, word in enumerate(words):
            characters[row, place] = 0
            characters[row, place, : len(word)] = torch.tensor(word)
            counts[row, place] = len(word)
    return characters, counts


def alone(lstm: CharacterLSTM, word: list[int]) -> Tensor:
    """The last state of a forward pass, and that of a pass over the reversed characters."""
    embedded = lstm.embedding.weight[torch.tensor(word)].unsqueeze(0)
    outputs, _ = lstm.lstm(embedded)
    return torch.cat((outputs[0, -1, : WIDTH // 2], outputs[0, 0, WIDTH // 2 :]))


def test_batch_equals_running_each_word_alone() -> None:
    lstm = make_lstm()
    found = lstm(*pad(3, 4))
    assert found.shape == (2, 3, WIDTH)
    for row, words in enumerate(WORDS):
        for place, word in enumerate(words):
            torch.testing.assert_close(found[row, place], alone(lstm, word), rtol=1e-12, atol=1e-14)


def test_padding_words_have_zero_vectors() -> None:
    found = make_lstm()(*pad(3, 4))
    assert found[1, 1:].abs().max() == 0
    assert found[1, 0].abs().min() > 0


def test_more_padding_changes_nothing() -> None:
    lstm = make_lstm()
    torch.testing.assert_close(lstm(*pad(5, 9))[:, :3], lstm(*pad(3, 4)), rtol=1e-12, atol=1e-14)


def test_backward_direction_starts_at_the_last_character_of_the_word() -> None:
    lstm = make_lstm()
    characters, counts = pad(3, 4)
    before = lstm(characters, counts)
    characters[0, 0, 3] = 8
    changed = (lstm(characters, counts) - before)[0, 0].abs()
    assert changed[: WIDTH // 2].min() > 0
    assert changed[WIDTH // 2 :].min() > 0
    assert (lstm(characters, counts) - before)[0, 1:].abs().max() == 0


def test_padding_character_learns_nothing() -> None:
    lstm = make_lstm()
    lstm(*pad(4, 6)).sum().backward()
    grad = lstm.embedding.weight.grad
    assert grad is not None
    assert grad[0].abs().max() == 0
    assert grad[2:8].abs().sum(1).min() > 0
    assert lstm.embedding.weight[0].abs().max() == 0


def test_dropout_is_on_characters_only_while_training() -> None:
    lstm = make_lstm(dropout=0.5)
    assert not torch.equal(lstm(*pad(3, 4)), lstm(*pad(3, 4)))
    lstm.eval()
    torch.testing.assert_close(lstm(*pad(3, 4))[0, 0], alone(lstm, WORDS[0][0]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("width", [2, 30])
def test_two_directions_share_the_width(width: int) -> None:
    lstm = CharacterLSTM(5, width, 0.0)
    assert lstm.lstm.hidden_size == width // 2
    assert lstm.lstm.bidirectional
    assert lstm(torch.tensor([[[2]]]), torch.tensor([[1]])).shape == (1, 1, width)
