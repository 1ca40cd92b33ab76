"""From sentences of words to what the network reads."""

from __future__ import annotations

from typing import Any

import torch

from relatum.encoders.base import EncoderInput, EncoderOutput
from relatum.layers.characters import CharacterBatch
from relatum.models.inputs import ModelInputs
from relatum.models.model import Model

from ..small_models import make_inputs

SENTENCES = [["Mara", "works"], ["Tarn"]]


def test_mask_is_true_where_there_is_a_word(make_model: Any) -> None:
    model: Model = make_model()
    assert make_inputs(model, SENTENCES).mask.tolist() == [[True, True], [True, False]]


def test_words_are_looked_up_in_lower_case_and_characters_as_they_are(make_model: Any) -> None:
    model: Model = make_model()
    assert model.words is not None
    assert model.characters is not None
    inputs = make_inputs(model, [["Mara", "Oldhaven"], ["TARN"]])
    assert inputs.words is not None
    assert inputs.words.tolist() == [[2, 1], [4, 0]]
    inputs = make_inputs(model, [["Mara", "é"], ["am"]])
    assert inputs.words is not None
    assert inputs.characters is not None
    capital, a, r, m = (model.characters.index(c) for c in "Marm")
    assert capital != m
    assert min(capital, a, r, m) >= 2
    assert spelt(inputs) == [[(capital, a, r, a), (1,)], [(a, m), ()]]
    assert inputs.characters.characters.dtype == inputs.words.dtype == torch.long


def spelt(inputs: ModelInputs) -> list[list[tuple[int, ...]]]:
    """The characters of each word, read from the steps."""
    spelling = inputs.characters
    assert isinstance(spelling, CharacterBatch)
    steps = spelling.characters.split(spelling.n_words.tolist())
    n_words = max(spelling.n_words.tolist(), default=0)
    words: list[tuple[int, ...]] = [
        (),
        *(tuple(int(step[n]) for step in steps if n < len(step)) for n in range(n_words)),
    ]
    return [[words[number] for number in row] for row in spelling.places.tolist()]


def test_each_word_is_read_by_itself(make_model: Any) -> None:
    """Dropout is drawn for each of them."""
    inputs = make_inputs(make_model(), [["Mara", "saw", "Mara"], ["saw", "saw"]])
    assert isinstance(inputs.characters, CharacterBatch)
    assert inputs.characters.places.tolist() == [[1, 3, 2], [4, 5, 0]]


def test_words_without_characters_have_nothing_spelt(make_model: Any) -> None:
    model: Model = make_model()
    inputs = make_inputs(model, [["", "Mara"], [""]])
    assert [[len(word) for word in row] for row in spelt(inputs)] == [[0, 4], [0, 0]]
    nothing = make_inputs(model, [["", ""]])
    assert spelt(nothing) == [[(), ()]]
    assert torch.isfinite(model.network(nothing).entity_logits).all()


def test_long_word_takes_no_room_beside_short_ones(make_model: Any) -> None:
    """Padded to its length, 2,000 words would be 200 million characters."""
    model: Model = make_model(encoder=False)
    characters = make_inputs(model, [["Mara"] * 1999 + ["a" * 100_000]]).characters
    assert isinstance(characters, CharacterBatch)
    assert characters.characters.numel() == 100_000 + 1999 * 4
    assert characters.places.shape == (1, 2000)


def test_words_keep_their_case_where_asked(make_model: Any) -> None:
    model: Model = make_model("words.lower=false")
    inputs = make_inputs(model, [["Mara", "mara"]])
    assert inputs.words is not None
    assert inputs.words.tolist() == [[1, 2]]


def test_features_are_computed_where_not_given(make_model: Any) -> None:
    model: Model = make_model()
    encoder: Any = model.encoder
    inputs = make_inputs(model, SENTENCES)
    assert encoder.n_calls == 1
    assert inputs.vectors is not None
    assert inputs.attention_maps is not None
    first, second = encoder.features(SENTENCES[0]), encoder.features(SENTENCES[1])
    assert inputs.vectors.shape == (2, 2, 6)
    assert inputs.attention_maps.shape == (2, 2, 2, 3)
    assert torch.equal(inputs.vectors[0], first.vectors)
    assert torch.equal(inputs.vectors[1, :1], second.vectors)
    assert torch.equal(inputs.attention_maps[0], first.attention_maps)
    assert inputs.vectors[1, 1:].abs().max() == 0
    assert inputs.attention_maps[1, 1:].abs().max() == 0
    assert inputs.attention_maps[1, :, 1:].abs().max() == 0


def test_features_that_are_given_are_not_computed_again(make_model: Any) -> None:
    model: Model = make_model()
    encoder: Any = model.encoder
    given = EncoderOutput(torch.ones(2, 2, 6), torch.ones(2, 2, 2, 3))
    inputs = make_inputs(model, SENTENCES, given)
    assert encoder.n_calls == 0
    assert inputs.vectors is not None
    assert inputs.attention_maps is not None
    assert torch.equal(inputs.vectors, given.vectors)
    assert torch.equal(inputs.attention_maps, torch.ones(2, 2, 2, 3))


def test_what_a_model_does_not_use_is_left_out(make_model: Any) -> None:
    model: Model = make_model("characters.kind=none", encoder=False)
    inputs = make_inputs(model, SENTENCES)
    assert inputs.characters is None
    assert inputs.vectors is inputs.attention_maps is None
    assert make_inputs(make_model(words=False), SENTENCES).words is None
    for override in ("table.attention_maps=false", "table.kind=none"):
        inputs = make_inputs(make_model(override), SENTENCES)
        assert inputs.attention_maps is None
        assert inputs.vectors is not None


def test_features_in_half_precision_are_read(make_model: Any) -> None:
    """A cache may hold them so."""
    model: Model = make_model()
    assert model.encoder is not None
    features = model.encoder.encode(EncoderInput(SENTENCES))
    assert features.attention_maps is not None
    half = EncoderOutput(features.vectors.half(), features.attention_maps.half())
    whole = EncoderOutput(
        half.vectors.float(), half.attention_maps.float() if half.attention_maps is not None else None
    )
    found, expected = (
        model.network(make_inputs(model, SENTENCES, half)),
        model.network(make_inputs(model, SENTENCES, whole)),
    )
    assert torch.equal(found.entity_logits, expected.entity_logits)
    assert torch.equal(found.relation_logits, expected.relation_logits)


def test_moving_keeps_the_numbers_of_words_where_they_are(make_model: Any) -> None:
    model: Model = make_model()
    moved = make_inputs(model, SENTENCES).to("meta")
    assert moved.mask.device.type == "meta"
    assert isinstance(moved.characters, CharacterBatch)
    assert moved.characters.characters.device.type == "meta"
    assert moved.characters.places.device.type == "meta"
    assert moved.characters.n_words.device.type == "cpu"
