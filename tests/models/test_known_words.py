"""Words that come again: read once, and again as soon as the weights are others."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from relatum.models.known_words import KnownWords
from relatum.models.model import Model

WIDTH = 3


class Reader:
    """A word's vector is its length in every place, times a weight; what was read is noted."""

    def __init__(self) -> None:
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.read: list[str] = []

    def __call__(self, words: Sequence[str], table: Tensor, first: int) -> None:
        assert len(set(words)) == len(words)
        self.read += words
        lengths = torch.tensor([[float(len(word))] for word in words]).view(-1, 1)
        with torch.inference_mode():
            table[first : first + len(words)] = lengths * self.weight.float()

    def ask(self, known: KnownWords, words: Sequence[str]) -> list[list[float]]:
        self.read = []
        vectors, rows = known.find(words, (self.weight,), WIDTH, self)
        found: list[list[float]] = vectors[rows].tolist()
        return found


def of(*lengths: float) -> list[list[float]]:
    return [[length] * WIDTH for length in lengths]


def test_words_are_read_once() -> None:
    known, reader = KnownWords(), Reader()
    assert reader.ask(known, ["ab", "a", "ab"]) == of(2, 1, 2)
    assert reader.read == ["ab", "a"]
    assert reader.ask(known, ["abc", "a"]) == of(3, 1)
    assert reader.read == ["abc"]
    assert reader.ask(known, ["abc", "ab", "a"]) == of(3, 2, 1)
    assert reader.read == []
    assert len(known) == 3


def test_no_characters_are_zero_and_never_read() -> None:
    known, reader = KnownWords(), Reader()
    assert reader.ask(known, [""]) == of(0)
    assert reader.ask(known, ["", "a", ""]) == of(0, 1, 0)
    assert reader.read == ["a"]
    assert reader.ask(known, []) == []


def test_more_words_than_there_was_room_for_keep_their_vectors() -> None:
    known, reader = KnownWords(), Reader()
    words = ["a" * length for length in range(1, 1501)]
    for start in range(0, 1500, 100):
        reader.ask(known, words[start : start + 100])
    assert reader.ask(known, words) == of(*range(1, 1501))
    assert reader.read == []


def test_long_words_are_forgotten_before_they_fill_the_memory() -> None:
    known, reader = KnownWords(max_bytes=10_000), Reader()
    most = 0
    for number in range(50):
        assert reader.ask(known, ["a" * (1000 + number), "b" * (500 + number)]) == of(1000 + number, 500 + number)
        most = max(most, sum(map(sys.getsizeof, known._rows)))
    assert 5_000 < most <= 10_000 + sys.getsizeof("")
    assert reader.ask(known, ["c" * 20_000]) == of(20_000), "one that has no room at all is read all the same"
    assert len(known) == 1
    reader.ask(known, ["a"])
    assert len(known) == 1
    assert deepcopy(known)._max_bytes == 10_000


def test_all_others_are_forgotten_where_a_batch_has_no_room() -> None:
    known, reader = KnownWords(limit=3), Reader()
    reader.ask(known, ["a", "ab", "abc"])
    vectors, rows = known.find(["a", "ab"], (reader.weight,), WIDTH, reader)
    assert reader.ask(known, ["abcd", "a"]) == of(4, 1)
    assert reader.read == ["abcd", "a"]
    assert len(known) == 2
    assert vectors[rows].tolist() == of(1, 2)  # handed out before, and still right


def test_batch_over_the_limit_is_read_all_the_same() -> None:
    known, reader = KnownWords(limit=2), Reader()
    words = ["a", "ab", "abc", "abcd"]
    assert reader.ask(known, words) == of(1, 2, 3, 4)
    assert reader.ask(known, ["abcde"]) == of(5)
    assert len(known) == 1


@torch.no_grad()
def write(weight: nn.Parameter) -> None:
    weight.mul_(2)


def replace_data(weight: nn.Parameter) -> None:
    weight.data = 2 * weight.data


@torch.inference_mode()
def write_in_inference(weight: nn.Parameter) -> None:
    weight.mul_(2)


def step(weight: nn.Parameter) -> None:
    optimiser = torch.optim.SGD([weight], lr=1.0)
    weight.grad = -torch.ones_like(weight)
    optimiser.step()


@pytest.mark.parametrize("change", [write, replace_data, write_in_inference, step])
def test_words_are_read_again_when_weights_have_changed(change: Any) -> None:
    known, reader = KnownWords(), Reader()
    reader.ask(known, ["a", "ab"])
    change(reader.weight)
    assert reader.ask(known, ["ab", "a"]) == of(4, 2)
    assert reader.ask(known, ["ab", "a"]) == of(4, 2)
    assert reader.read == []


def test_rounding_and_coming_back_is_a_change() -> None:
    """The second time the values may lie where they first lay."""
    known, reader = KnownWords(), Reader()
    with torch.no_grad():
        reader.weight.fill_(1 + 2**-12)
    for _ in range(20):
        reader.ask(known, ["a"])
        reader.weight.data = reader.weight.data.to(torch.bfloat16)
        reader.weight.data = reader.weight.data.to(torch.float32)
        assert reader.ask(known, ["a"]) == of(1)
        assert reader.read == ["a"]
        with torch.no_grad():
            reader.weight.fill_(1 + 2**-12)


def test_other_weights_are_not_taken_for_the_first() -> None:
    known, reader, other = KnownWords(), Reader(), Reader()
    reader.ask(known, ["a"])
    assert other.ask(known, ["a"]) == of(1)
    assert other.read == ["a"]


def test_nothing_is_kept_of_weights_whose_changes_cannot_be_seen() -> None:
    known, reader = KnownWords(), Reader()
    with torch.inference_mode():
        reader.weight = nn.Parameter(torch.ones(WIDTH), requires_grad=False)
        reader.ask(known, ["a"])
        reader.weight.mul_(2)
        assert reader.ask(known, ["a"]) == of(2)


def test_copy_knows_nothing() -> None:
    known, reader = KnownWords(limit=2), Reader()
    reader.ask(known, ["a"])
    copied = deepcopy(known)
    assert len(copied) == 0
    reader.ask(copied, ["a", "ab"])
    reader.ask(copied, ["abc"])
    assert len(copied) == 1


def test_threads_at_once_get_the_vectors_of_their_words() -> None:
    known, reader = KnownWords(limit=40), Reader()

    def ask(number: int) -> bool:
        words = ["a" * (1 + (number * 7 + place) % 60) for place in range(20)]
        vectors, rows = known.find(words, (reader.weight,), WIDTH, reader)
        found: list[list[float]] = vectors[rows].tolist()
        return found == of(*map(len, words))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(200)))


SENTENCES = [["Mara", "works", "", "Mara"], ["Tarn"]]


def test_network_reads_known_words_as_it_reads_their_characters(make_model: Any) -> None:
    model: Model = make_model()
    model.network.eval()
    known = KnownWords()
    with torch.inference_mode():
        wanted = model.network(model.inputs(SENTENCES))
        for _ in range(2):
            inputs = model.inputs(SENTENCES, known=known)
            assert inputs.spelling is None
            assert inputs.spelt is not None
            assert not inputs.spelt.look_up()[0, 2].any()
            assert not inputs.spelt.look_up()[1, 1:].any()
            found = model.network(inputs)
            torch.testing.assert_close(found.entity_logits, wanted.entity_logits)
            torch.testing.assert_close(found.relation_logits, wanted.relation_logits)
    assert len(known) == 3


def test_characters_change_a_known_word_s_vector_when_any_weight_does(make_model: Any) -> None:
    model: Model = make_model()
    model.network.eval()
    reader = model.network.embedder.characters
    assert reader is not None
    known = KnownWords()
    assert {id(weight) for weight in reader.weights} == {id(weight) for weight in reader.parameters()}
    for parameter in reader.parameters():
        before = model.inputs(SENTENCES, known=known).spelt
        assert before is not None
        before_it = before.look_up()
        with torch.no_grad():
            parameter.add_(0.5)
        after = model.inputs(SENTENCES, known=known).spelt
        assert after is not None
        assert not torch.equal(before_it, after.look_up())
        torch.testing.assert_close(after.look_up(), reader(model.inputs(SENTENCES).spelling).detach())


def test_training_network_reads_characters_whatever_is_known(make_model: Any) -> None:
    model: Model = make_model()
    model.network.train()
    known = KnownWords()
    inputs = model.inputs(SENTENCES, known=known)
    assert inputs.spelt is None
    assert inputs.spelling is not None
    assert len(known) == 0


def test_known_words_move_with_the_network(make_model: Any) -> None:
    model: Model = make_model()
    model.network.eval()
    known = KnownWords()
    model.inputs(SENTENCES, known=known)
    model.network.double()
    spelt = model.inputs(SENTENCES, known=known).spelt
    assert spelt is not None
    assert spelt.look_up().dtype == torch.float64
    moved = model.inputs(SENTENCES, known=known).to("meta")
    assert moved.spelt is not None
    assert moved.spelt.look_up().device.type == "meta"
