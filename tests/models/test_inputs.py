"""From sentences of words to what the network reads."""

from __future__ import annotations

from typing import Any

import torch

from relatum.encoders.base import EncoderOutput
from relatum.models.model import Model

SENTENCES = [["Mara", "works"], ["Tarn"]]


def test_mask_is_true_where_there_is_a_word(make_model: Any) -> None:
    model: Model = make_model()
    assert model.inputs(SENTENCES).mask.tolist() == [[True, True], [True, False]]


def test_words_are_looked_up_in_lower_case_and_characters_as_they_are(make_model: Any) -> None:
    model: Model = make_model()
    assert model.words is not None
    assert model.characters is not None
    inputs = model.inputs([["Mara", "Oldhaven"], ["TARN"]])
    assert inputs.words is not None
    assert inputs.words.tolist() == [[2, 1], [4, 0]]
    inputs = model.inputs([["Mara", "é"], ["am"]])
    assert inputs.characters is not None
    assert inputs.character_counts is not None
    capital, a, r, m = (model.characters.index(c) for c in "Marm")
    assert capital != m
    assert min(capital, a, r, m) >= 2
    assert inputs.characters.tolist() == [[[capital, a, r, a], [1, 0, 0, 0]], [[a, m, 0, 0], [0, 0, 0, 0]]]
    assert inputs.character_counts.tolist() == [[4, 1], [2, 0]]
    assert inputs.characters.dtype == inputs.words.dtype == torch.long if inputs.words is not None else False


def test_words_keep_their_case_where_asked(make_model: Any) -> None:
    model: Model = make_model("words.lower=false")
    inputs = model.inputs([["Mara", "mara"]])
    assert inputs.words is not None
    assert inputs.words.tolist() == [[1, 2]]


def test_features_are_computed_where_not_given(make_model: Any) -> None:
    model: Model = make_model()
    encoder: Any = model.encoder
    inputs = model.inputs(SENTENCES)
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
    inputs = model.inputs(SENTENCES, given)
    assert encoder.n_calls == 0
    assert inputs.vectors is not None
    assert inputs.attention_maps is not None
    assert torch.equal(inputs.vectors, given.vectors)
    assert torch.equal(inputs.attention_maps, torch.ones(2, 2, 2, 3))


def test_what_a_model_does_not_use_is_left_out(make_model: Any) -> None:
    model: Model = make_model("characters.kind=none", encoder=False)
    inputs = model.inputs(SENTENCES)
    assert inputs.characters is inputs.character_counts is inputs.vectors is inputs.attention_maps is None
    assert make_model(words=False).inputs(SENTENCES).words is None
    for override in ("table.attention_maps=false", "table.kind=none"):
        inputs = make_model(override).inputs(SENTENCES)
        assert inputs.attention_maps is None
        assert inputs.vectors is not None


def test_features_in_half_precision_are_read(make_model: Any) -> None:
    """A cache may hold them so."""
    model: Model = make_model()
    assert model.encoder is not None
    features = model.encoder.encode(SENTENCES)
    assert features.attention_maps is not None
    half = EncoderOutput(features.vectors.half(), features.attention_maps.half())
    whole = EncoderOutput(
        half.vectors.float(), half.attention_maps.float() if half.attention_maps is not None else None
    )
    found, expected = model.network(model.inputs(SENTENCES, half)), model.network(model.inputs(SENTENCES, whole))
    assert torch.equal(found.entity_logits, expected.entity_logits)
    assert torch.equal(found.relation_logits, expected.relation_logits)


def test_moving_keeps_the_character_counts_where_they_are(make_model: Any) -> None:
    model: Model = make_model()
    moved = model.inputs(SENTENCES).to("meta")
    assert moved.mask.device.type == "meta"
    assert moved.characters is not None
    assert moved.characters.device.type == "meta"
    assert moved.character_counts is not None
    assert moved.character_counts.device.type == "cpu"
