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

from relatum.models.collate import IndexedSentence, collate
from relatum.models.inputs import ModelInputs, Vectors
from relatum.models.model import Model
from relatum.runtime.character_cache import CharacterVectorCache
from relatum.runtime.torch import TorchRuntime

from ..small_models import make_inputs, make_small_model

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

    def ask(self, cache: CharacterVectorCache, words: Sequence[str]) -> list[list[float]]:
        self.read = []
        vectors, rows = cache.find(words, (self.weight,), WIDTH, self)
        found: list[list[float]] = vectors[rows].tolist()
        return found


def of(*lengths: float) -> list[list[float]]:
    return [[length] * WIDTH for length in lengths]


def test_words_are_read_once() -> None:
    cache, reader = CharacterVectorCache(), Reader()
    assert reader.ask(cache, ["ab", "a", "ab"]) == of(2, 1, 2)
    assert reader.read == ["ab", "a"]
    assert reader.ask(cache, ["abc", "a"]) == of(3, 1)
    assert reader.read == ["abc"]
    assert reader.ask(cache, ["abc", "ab", "a"]) == of(3, 2, 1)
    assert reader.read == []
    assert len(cache) == 3


def test_no_characters_are_zero_and_never_read() -> None:
    cache, reader = CharacterVectorCache(), Reader()
    assert reader.ask(cache, [""]) == of(0)
    assert reader.ask(cache, ["", "a", ""]) == of(0, 1, 0)
    assert reader.read == ["a"]
    assert reader.ask(cache, []) == []


def test_more_words_than_there_was_room_for_keep_their_vectors() -> None:
    cache, reader = CharacterVectorCache(), Reader()
    words = ["a" * length for length in range(1, 1501)]
    for start in range(0, 1500, 100):
        reader.ask(cache, words[start : start + 100])
    assert reader.ask(cache, words) == of(*range(1, 1501))
    assert reader.read == []


def test_long_words_are_forgotten_before_they_fill_the_memory() -> None:
    cache, reader = CharacterVectorCache(max_bytes=10_000), Reader()
    most = 0
    for number in range(50):
        assert reader.ask(cache, ["a" * (1000 + number), "b" * (500 + number)]) == of(1000 + number, 500 + number)
        most = max(most, sum(map(sys.getsizeof, cache._rows)))
    assert 5_000 < most <= 10_000 + sys.getsizeof("")
    assert reader.ask(cache, ["c" * 20_000]) == of(20_000), "one that has no room at all is read all the same"
    assert len(cache) == 1
    reader.ask(cache, ["a"])
    assert len(cache) == 1
    assert deepcopy(cache)._max_bytes == 10_000


def test_all_others_are_forgotten_where_a_batch_has_no_room() -> None:
    cache, reader = CharacterVectorCache(limit=3), Reader()
    reader.ask(cache, ["a", "ab", "abc"])
    vectors, rows = cache.find(["a", "ab"], (reader.weight,), WIDTH, reader)
    assert reader.ask(cache, ["abcd", "a"]) == of(4, 1)
    assert reader.read == ["abcd", "a"]
    assert len(cache) == 2
    assert vectors[rows].tolist() == of(1, 2)  # handed out before, and still right


def test_batch_over_the_limit_is_read_all_the_same() -> None:
    cache, reader = CharacterVectorCache(limit=2), Reader()
    words = ["a", "ab", "abc", "abcd"]
    assert reader.ask(cache, words) == of(1, 2, 3, 4)
    assert reader.ask(cache, ["abcde"]) == of(5)
    assert len(cache) == 1


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
    cache, reader = CharacterVectorCache(), Reader()
    reader.ask(cache, ["a", "ab"])
    change(reader.weight)
    assert reader.ask(cache, ["ab", "a"]) == of(4, 2)
    assert reader.ask(cache, ["ab", "a"]) == of(4, 2)
    assert reader.read == []


def test_rounding_and_coming_back_is_a_change() -> None:
    """The second time the values may lie where they first lay."""
    cache, reader = CharacterVectorCache(), Reader()
    with torch.no_grad():
        reader.weight.fill_(1 + 2**-12)
    for _ in range(20):
        reader.ask(cache, ["a"])
        reader.weight.data = reader.weight.data.to(torch.bfloat16)
        reader.weight.data = reader.weight.data.to(torch.float32)
        assert reader.ask(cache, ["a"]) == of(1)
        assert reader.read == ["a"]
        with torch.no_grad():
            reader.weight.fill_(1 + 2**-12)


def test_other_weights_are_not_taken_for_the_first() -> None:
    cache, reader, other = CharacterVectorCache(), Reader(), Reader()
    reader.ask(cache, ["a"])
    assert other.ask(cache, ["a"]) == of(1)
    assert other.read == ["a"]


def test_nothing_is_kept_of_weights_whose_changes_cannot_be_seen() -> None:
    cache, reader = CharacterVectorCache(), Reader()
    with torch.inference_mode():
        reader.weight = nn.Parameter(torch.ones(WIDTH), requires_grad=False)
        reader.ask(cache, ["a"])
        reader.weight.mul_(2)
        assert reader.ask(cache, ["a"]) == of(2)


def test_copy_knows_nothing() -> None:
    cache, reader = CharacterVectorCache(limit=2), Reader()
    reader.ask(cache, ["a"])
    copied = deepcopy(cache)
    assert len(copied) == 0
    reader.ask(copied, ["a", "ab"])
    reader.ask(copied, ["abc"])
    assert len(copied) == 1


def test_threads_at_once_get_the_vectors_of_their_words() -> None:
    cache, reader = CharacterVectorCache(limit=40), Reader()

    def ask(number: int) -> bool:
        words = ["a" * (1 + (number * 7 + place) % 60) for place in range(20)]
        vectors, rows = cache.find(words, (reader.weight,), WIDTH, reader)
        found: list[list[float]] = vectors[rows].tolist()
        return found == of(*map(len, words))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(200)))


SENTENCES = [["Mara", "works", "", "Mara"], ["Tarn"]]


def look_up(model: Model, cache: CharacterVectorCache) -> Vectors:
    vectors = cache.vectors(SENTENCES, model, TorchRuntime(model)._read_words)
    assert vectors is not None
    return vectors


def make_cached_inputs(model: Model, cache: CharacterVectorCache) -> ModelInputs:
    sentences = [IndexedSentence.of(words, model, with_characters=False) for words in SENTENCES]
    return collate(model, sentences, None, look_up(model, cache))[0]


def test_network_reads_cached_vectors_as_it_reads_characters() -> None:
    model, cache = make_small_model(), CharacterVectorCache()
    with torch.inference_mode():
        wanted = model.network(make_inputs(model, SENTENCES))
        for _ in range(2):
            inputs = make_cached_inputs(model, cache)
            assert inputs.characters is None
            assert inputs.character_vectors is not None
            assert not inputs.character_vectors.look_up()[0, 2].any()
            assert not inputs.character_vectors.look_up()[1, 1:].any()
            found = model.network(inputs)
            torch.testing.assert_close(found.entity_logits, wanted.entity_logits)
            torch.testing.assert_close(found.relation_logits, wanted.relation_logits)
    assert len(cache) == 3


def test_vectors_are_computed_anew_when_any_weight_changes() -> None:
    model, cache = make_small_model(), CharacterVectorCache()
    reader = model.network.embedder.characters
    assert reader is not None
    assert {id(weight) for weight in reader.weights} == {id(weight) for weight in reader.parameters()}
    for parameter in reader.parameters():
        with torch.inference_mode():
            before = look_up(model, cache).look_up()
        with torch.no_grad():
            parameter.add_(0.5)
        with torch.inference_mode():
            after = look_up(model, cache).look_up()
            assert not torch.equal(before, after)
            torch.testing.assert_close(after, reader(make_inputs(model, SENTENCES).characters))


def test_cleared_cache_reads_every_word_again() -> None:
    cache, reader = CharacterVectorCache(), Reader()
    reader.ask(cache, ["a", "bc"])
    cache.clear()
    assert reader.ask(cache, ["bc"]) == of(2)
    assert reader.read == ["bc"]


def test_model_without_characters_has_no_vectors_of_them() -> None:
    model = make_small_model("characters.kind=none", "encoder.kind=huggingface")
    assert CharacterVectorCache().vectors(SENTENCES, model, TorchRuntime(model)._read_words) is None


@torch.inference_mode()
def test_vectors_move_with_the_network() -> None:
    model, cache = make_small_model(), CharacterVectorCache()
    look_up(model, cache)
    model.network.double()
    assert look_up(model, cache).look_up().dtype == torch.float64
    moved = make_cached_inputs(model, cache).to("meta")
    assert moved.character_vectors is not None
    assert moved.character_vectors.look_up().device.type == "meta"
