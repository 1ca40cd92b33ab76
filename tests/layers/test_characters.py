"""Words from characters: one word at a time is the definition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from relatum.layers.characters import CharacterBatch, CharacterLSTM, PaddedCharacterBatch

WIDTH = 6
WORDS = [[[2, 3, 4, 5], [6], [3, 3]], [[7, 2]]]
"""Two sentences, of three words and of one."""


def make_lstm(dropout: float = 0.0) -> CharacterLSTM:
    torch.manual_seed(0)
    return CharacterLSTM(9, WIDTH, dropout).double()


def spell(n_words: int = 3, sentences: list[list[list[int]]] = WORDS) -> CharacterBatch:
    """Each word by itself, in the order of the sentences."""
    words = [word for sentence in sentences for word in sentence]
    numbers = iter(range(1, len(words) + 1))
    places = [[next(numbers) for _ in sentence] + [0] * (n_words - len(sentence)) for sentence in sentences]
    return CharacterBatch.pack(
        torch.tensor([character for word in words for character in word], dtype=torch.long),
        torch.tensor([len(word) for word in words], dtype=torch.long),
        torch.tensor(places, dtype=torch.long),
    )


def pad(n_words: int, n_characters: int, sentences: list[list[list[int]]] = WORDS) -> PaddedCharacterBatch:
    """The same with padding, for words and for characters."""
    characters = torch.zeros(n_characters, len(sentences), n_words, dtype=torch.long)
    lengths = torch.zeros(len(sentences), n_words, dtype=torch.long)
    for row, words in enumerate(sentences):
        for place, word in enumerate(words):
            characters[: len(word), row, place] = torch.tensor(word, dtype=torch.long)
            lengths[row, place] = len(word)
    return PaddedCharacterBatch(characters, lengths)


def alone(lstm: CharacterLSTM, word: list[int]) -> Tensor:
    """The last state of a forward pass, and that of a pass over the reversed characters."""
    embedded = lstm.embedding.weight[torch.tensor(word)].unsqueeze(0)
    outputs, _ = lstm.lstm(embedded)
    return torch.cat((outputs[0, -1, : WIDTH // 2], outputs[0, 0, WIDTH // 2 :]))


def test_batch_equals_running_each_word_alone() -> None:
    lstm = make_lstm()
    found = lstm(spell())
    assert found.shape == (2, 3, WIDTH)
    for row, words in enumerate(WORDS):
        for place, word in enumerate(words):
            torch.testing.assert_close(found[row, place], alone(lstm, word), rtol=1e-12, atol=1e-14)


def test_spelling_has_the_characters_step_by_step_and_the_longest_word_first() -> None:
    spelling = spell()
    assert spelling.characters.tolist() == [2, 3, 7, 6, 3, 3, 2, 4, 5]
    assert spelling.n_words.tolist() == [4, 2 + 1, 1, 1]
    assert spelling.places.tolist() == [[1, 4, 2], [3, 0, 0]]


def test_word_in_two_places_has_one_vector_that_learns_from_both() -> None:
    lstm = make_lstm()
    twice = CharacterBatch.pack(torch.tensor([3, 4, 5]), torch.tensor([1, 2]), torch.tensor([[2, 1, 2], [0, 2, 0]]))
    found = lstm(twice)
    for row, place in ((0, 0), (0, 2), (1, 1)):
        torch.testing.assert_close(found[row, place], alone(lstm, [4, 5]), rtol=1e-12, atol=1e-14)
    weights = lstm.embedding.weight
    once = CharacterBatch.pack(
        torch.tensor([3, 4, 5, 4, 5, 4, 5]), torch.tensor([1, 2, 2, 2]), torch.tensor([[1, 2, 3, 4]])
    )
    torch.testing.assert_close(
        torch.autograd.grad(found.sum(), weights),
        torch.autograd.grad(lstm(once).sum(), weights),
        rtol=1e-12,
        atol=1e-14,
    )


def test_nothing_to_spell_gives_zeros() -> None:
    found = make_lstm()(spell(2, [[], []]))
    assert found.shape == (2, 2, WIDTH)
    assert found.dtype == torch.float64
    assert found.abs().max() == 0


@given(st.lists(st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=9), max_size=4), min_size=1, max_size=3))
def test_words_of_any_lengths_equal_running_each_alone(sentences: list[list[list[int]]]) -> None:
    lstm = make_lstm()
    found = lstm(spell(4, sentences))
    for row, words in enumerate(sentences):
        for place, word in enumerate(words):
            torch.testing.assert_close(found[row, place], alone(lstm, word), rtol=1e-12, atol=1e-14)
        assert not found[row, len(words) :].any()


@given(
    st.lists(st.lists(st.lists(st.integers(1, 8), max_size=9), max_size=4), min_size=1, max_size=3),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_words_with_padding_are_read_as_those_without(
    sentences: list[list[list[int]]], n_more_words: int, n_more_characters: int
) -> None:
    """Values and every gradient."""
    lstm = make_lstm()
    spelt = [[word for word in words if word] for words in sentences]
    longest = max([1, *(len(word) for words in spelt for word in words)])
    padded = lstm(pad(4 + n_more_words, longest + n_more_characters, spelt))
    wanted = lstm(spell(4 + n_more_words, spelt))
    torch.testing.assert_close(padded, wanted, rtol=1e-12, atol=1e-14)
    if not any(spelt):
        return
    weights = torch.randn(wanted.shape, dtype=torch.float64)
    found = torch.autograd.grad((padded * weights).sum(), list(lstm.parameters()))
    torch.testing.assert_close(
        found, torch.autograd.grad((wanted * weights).sum(), list(lstm.parameters())), rtol=1e-11, atol=1e-13
    )
    assert not found[0][0].any()


def test_word_without_characters_among_padded_ones_is_zero_and_changes_no_other() -> None:
    lstm = make_lstm()
    found = lstm(pad(3, 4, [[[2, 3, 4, 5], [], [3, 3]]]))
    assert not found[0, 1].any()
    torch.testing.assert_close(found[0, 0], alone(lstm, [2, 3, 4, 5]), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(found[0, 2], alone(lstm, [3, 3]), rtol=1e-12, atol=1e-14)


def test_both_directions_read_the_same_characters_of_those_that_are_dropped() -> None:
    """A word of one character has the same dropout in both, so that a direction alone never sees it whole."""
    lstm = make_lstm(dropout=0.5)
    lstm.lstm.weight_ih_l0_reverse.data = lstm.lstm.weight_ih_l0.data
    lstm.lstm.weight_hh_l0_reverse.data = lstm.lstm.weight_hh_l0.data
    lstm.lstm.bias_ih_l0_reverse.data = lstm.lstm.bias_ih_l0.data
    lstm.lstm.bias_hh_l0_reverse.data = lstm.lstm.bias_hh_l0.data
    found = lstm(pad(9, 8, [[[4]] * 9]))
    torch.testing.assert_close(found[..., : WIDTH // 2], found[..., WIDTH // 2 :], rtol=1e-12, atol=1e-14)
    assert len({tuple(row) for row in found[0].tolist()}) > 1


def test_padding_words_have_zero_vectors() -> None:
    found = make_lstm()(spell())
    assert found[1, 1:].abs().max() == 0
    assert found[1, 0].abs().min() > 0


def test_more_padding_changes_nothing() -> None:
    lstm = make_lstm()
    torch.testing.assert_close(lstm(spell(5))[:, :3], lstm(spell()), rtol=1e-12, atol=1e-14)


def test_backward_direction_starts_at_the_last_character_of_the_word() -> None:
    lstm = make_lstm()
    before = lstm(spell())
    after = lstm(spell(sentences=[[[2, 3, 4, 8], [6], [3, 3]], [[7, 2]]]))
    changed = (after - before)[0, 0].abs()
    assert changed[: WIDTH // 2].min() > 0
    assert changed[WIDTH // 2 :].min() > 0
    assert (after - before)[0, 1:].abs().max() == 0


def test_padding_character_learns_nothing() -> None:
    lstm = make_lstm()
    lstm(spell(4)).sum().backward()
    grad = lstm.embedding.weight.grad
    assert grad is not None
    assert grad[0].abs().max() == 0
    assert grad[2:8].abs().sum(1).min() > 0
    assert lstm.embedding.weight[0].abs().max() == 0


def test_dropout_is_on_characters_only_while_training() -> None:
    lstm = make_lstm(dropout=0.5)
    assert not torch.equal(lstm(spell()), lstm(spell()))
    lstm.eval()
    torch.testing.assert_close(lstm(spell())[0, 0], alone(lstm, WORDS[0][0]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("width", [2, 30])
def test_two_directions_share_the_width(width: int) -> None:
    lstm = CharacterLSTM(5, width, 0.0)
    assert lstm.lstm.hidden_size == width // 2
    assert lstm.lstm.bidirectional
    assert lstm(spell(1, [[[2]]])).shape == (1, 1, width)
