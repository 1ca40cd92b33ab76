"""Several models read with as one, with small random models that read only characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from relatum.decoding.sentences import DecodingOptions, decode_sentences
from relatum.encoders.base import EncoderInput
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.errors import RelatumError
from relatum.extractor.ensemble import Ensemble
from relatum.extractor.extractor import Extractor
from relatum.models.checkpoint import save_model
from relatum.models.model import Model
from relatum.models.vocabulary import Vocabulary
from relatum.runtime.base import select
from relatum.schema import RelationType, Schema
from relatum.types import Entity, Prediction, Sentence, Span

from ..small_models import SCHEMA, make_inputs, make_small_model, make_small_span_model

SENTENCES = [
    Sentence(tuple(text.split()))
    for text in (
        "Mara Ilves works for Tarn Shipping in Oldhaven .",
        "The ferry left Port Amsel on Tuesday , she said .",
        "Tom",
        "Mara met Tom in Oldhaven and in Port Amsel , where he lives with her sister Ada",
    )
]


def make_model(seed: int = 0, *overrides: str, schema: Schema = SCHEMA) -> Model:
    return make_small_model("model.n_layers=1", *overrides, seed=160 + seed, spread=1.2, schema=schema)


def probabilities(model: Model, sentence: Sentence) -> list[Any]:
    with torch.inference_mode():
        outputs = model.network(make_inputs(model, [sentence.words]))
    assert outputs.relation_logits is not None
    return [one.double().softmax(-1).numpy() for one in (outputs.entity_logits, outputs.relation_logits)]


def scores(prediction: Prediction) -> list[float | None]:
    found = prediction.found
    return [entity.score for entity in found.entities] + [relation.score for relation in found.relations]


def assert_same(found: Sequence[Prediction], expected: Sequence[Prediction]) -> None:
    assert found == expected
    for one, other in zip(found, expected, strict=True):
        assert scores(one) == pytest.approx(scores(other), abs=1e-5)


@pytest.mark.parametrize("given", [False, True])
def test_ensemble_decodes_the_mean_of_probabilities(given: bool) -> None:
    members = [make_model(4), make_model(3, "model.width=16", "model.n_layers=2"), make_model(12)]
    entities = [tuple(Entity(Span(at, at + 1), "Loc") for at in range(0, len(one), 2)) for one in SENTENCES]
    expected = []
    for number, sentence in enumerate(SENTENCES):
        of_words, of_cells = (
            np.mean(one, axis=0) for one in zip(*(probabilities(member, sentence) for member in members), strict=True)
        )
        first = members[0]
        tagging = first.tagging
        own = [entities[number]] if given else None
        found = decode_sentences(of_words, of_cells, [len(sentence)], tagging, DecodingOptions(), own)
        expected.append(Prediction(sentence, found[0]))
    predictions = Ensemble(members).predict(SENTENCES, entities if given else None)
    assert_same(predictions, expected)
    # The mean is none of them, or the test would say nothing.
    alone = [Extractor(member).predict(SENTENCES, entities if given else None) for member in members]
    assert predictions not in alone
    assert sum(len(one.found.relations) for one in predictions) > 0


def test_ensemble_in_span_tagging_decodes_the_mean_of_independent_probabilities() -> None:
    members = [make_small_span_model("model.n_layers=1", seed=seed, shift=-1.0) for seed in (2, 3, 8)]
    entities = [tuple(Entity(Span(at, at + 1), "Loc") for at in range(0, len(one), 2)) for one in SENTENCES]
    ensemble = Ensemble(members)
    expected = []
    for sentence, own in zip(SENTENCES, entities, strict=True):
        of_members = []
        for member in members:
            with torch.inference_mode():
                outputs = member.network(make_inputs(member, [sentence.words]))
            assert outputs.relation_logits is not None
            of_members.append(outputs.relation_logits.double().sigmoid().numpy())
        mean = np.mean(of_members, axis=0)
        joined = ensemble.runtime.read(EncoderInput([sentence.words])).relation_logits
        assert isinstance(joined, torch.Tensor)
        assert np.allclose(joined.double().sigmoid().numpy(), mean, atol=1e-5)
        of_words = np.zeros((1, len(sentence), 1))  # nothing is decoded from it
        (found,) = decode_sentences(of_words, mean, [len(sentence)], members[0].tagging, DecodingOptions(), [own])
        expected.append(Prediction(sentence, found))
    predictions = ensemble.predict(SENTENCES, entities)
    assert_same(predictions, expected)
    assert predictions not in [Extractor(member).predict(SENTENCES, entities) for member in members]
    assert sum(len(one.found.relations) for one in predictions) > 0


@pytest.mark.parametrize("setting", ["tagging.kind=spans", "decoding.overlap=nested", "decoding.relations_of_pair=one"])
def test_models_that_find_other_kinds_of_things_cannot_join(setting: str) -> None:
    first = make_model() if "tagging" in setting else make_model(0, "tagging.kind=spans")
    second = make_model(0, *{"tagging.kind=spans", setting})
    with pytest.raises(RelatumError, match=f"model 2 cannot join model 1: {setting.split('=')[0]} is"):
        Ensemble([first, second])


def test_ensemble_of_twins_finds_what_one_of_them_does() -> None:
    for settings in ((), ("table.kind=none", "model.interaction=none")):
        twins = make_model(0, *settings), make_model(0, *settings)
        assert_same(Ensemble(twins).predict(SENTENCES), Extractor(twins[0]).predict(SENTENCES))


def test_ensemble_reads_raw_text_in_any_batches_and_windows() -> None:
    members = make_model(0), make_model(1, "extraction.max_words=5", "extraction.overlap=3")
    text = "Mara Ilves works for Tarn Shipping in Oldhaven. The ferry left Port Amsel on Tuesday."
    whole = Ensemble(members)(text)
    assert whole.entities
    assert whole == Ensemble(members, batch_size=1)(text)
    assert whole != Ensemble([members[0], replace(members[1], config=members[0].config)])(text)


def test_windows_suit_the_encoder_that_reads_least() -> None:
    class Encoder(SimpleNamespace):
        def count_pieces(self, words: Sequence[str]) -> list[int]:
            return [len(word) if self.by_letter else 2 for word in words]

    encoders: list[Any] = [
        Encoder(max_pieces=100, by_letter=True),
        Encoder(max_pieces=8, by_letter=False),
        Encoder(max_pieces=None, by_letter=False),
        None,
    ]
    members = [replace(make_model(), encoder=encoder) for encoder in encoders]
    words = ["a", "abc", "a", "abc", "a"]
    # In pieces the words are 2, 3, 2, 3 and 2 for the one that makes most of them; the least that is read is 8.
    assert [tuple(window) for window in Ensemble(members)._windows(words)] == [(0, 3), (1, 4), (2, 5)]
    assert [tuple(window) for window in Ensemble(members[2:])._windows(words)] == [(0, 5)]


@pytest.mark.parametrize(
    ("schema", "settings", "message"),
    [
        (Schema(("Loc", "Org"), SCHEMA.relation_types), (), "the list of entity types is Loc, Org there and Loc, Peop"),
        (Schema(("Peop", "Loc"), SCHEMA.relation_types), (), "the list of entity types is Peop, Loc there"),
        (Schema(SCHEMA.entity_types), (), "the list of relation types is empty there and Live_In, Kin here"),
        (
            Schema(SCHEMA.entity_types, (RelationType("Live_In"), RelationType("Kin"))),
            (),
            "the list of symmetric types is empty there and Kin here",
        ),
        (SCHEMA, ("tagging.scheme=bioes",), "tagging.scheme is 'bioes' there and 'bio' here"),
        (SCHEMA, ("tagging.directed=false",), "tagging.directed is False there and True here"),
        (SCHEMA, ("text.words=whitespace",), "text.words is 'whitespace' there and 'rules' here"),
        (SCHEMA, ("decoding.constraints=schema",), "decoding.constraints is 'schema' there and 'none' here"),
        (SCHEMA, ("table.kind=none", "model.interaction=none"), "the table of relations is missing there and filled"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_models_that_say_something_else_are_refused(schema: Schema, settings: tuple[str, ...], message: str) -> None:
    with pytest.raises(RelatumError, match=f"second cannot join first: {message}") as caught:
        Ensemble([make_model(), make_model(0, *settings, schema=schema)], ["first", "second"])
    assert "same labels" in str(caught.value)


def test_relations_connect_what_they_connect_for_any_member() -> None:
    def member(*pairs: tuple[str, str]) -> Model:
        kinds = (RelationType("Live_In").connecting(pairs), RelationType("Kin", symmetric=True))
        return make_model(0, "decoding.constraints=schema", schema=Schema(SCHEMA.entity_types, kinds))

    one, two = member(("Peop", "Loc")), member(("Peop", "Loc"), ("Loc", "Peop"))
    live, kin = Ensemble([one, two]).model.schema.relation_types
    pairs = [(head, tail) for head in SCHEMA.entity_types for tail in SCHEMA.entity_types]
    assert [pair for pair in pairs if live.allows(*pair)] == [("Loc", "Peop"), ("Peop", "Loc")]
    assert all(kin.allows(*pair) for pair in pairs)
    assert Ensemble([one, one]).model.schema == one.schema


def test_ensemble_has_no_calibration_and_is_not_saved(tmp_path: Path) -> None:
    calibrated: Any = SimpleNamespace(apply=lambda *_, **__: pytest.fail("the scores are no member's own"))
    ensemble = Ensemble([replace(make_model(seed), calibration=calibrated) for seed in range(2)])
    assert ensemble.predict(SENTENCES)
    with pytest.raises(RelatumError, match="an ensemble is not a model"):
        ensemble.save(tmp_path / "model")


def test_emoji_that_one_member_has_seen_are_read_by_the_ensemble() -> None:
    first, second = make_model(0), make_model(1)
    with_emoji = replace(second, characters=Vocabulary((*first.characters.entries, ",", "😀")))  # type: ignore[union-attr]
    words = ["Mara", "😀", "✈"]
    for members, read in (([first, second], words), ([first, with_emoji], ["Mara", "😀", ","])):
        unseen = Ensemble(members)._unseen
        assert unseen is not None
        assert unseen.replace_emoji(words) == read
    assert Ensemble([first, replace(second, characters=None)])._unseen is None


def test_ensemble_is_loaded_by_the_names_of_its_members(tmp_path: Path) -> None:
    for seed in range(2):
        save_model(make_model(seed), tmp_path / str(seed))
    names: list[str | Path] = [str(tmp_path / "0"), tmp_path / "1"]
    ensemble = Extractor.from_pretrained(names, device="cpu", batch_size=3, max_cells=500)
    assert isinstance(ensemble, Ensemble)
    assert (ensemble.batch_size, ensemble.max_cells) == (3, 500)
    assert repr(ensemble).startswith(f"<Ensemble '{names[0]} + {names[1]}' on cpu: ")
    assert_same(ensemble.predict(SENTENCES), Ensemble([make_model(0), make_model(1)]).predict(SENTENCES))
    with pytest.raises(RelatumError, match="named twice"):
        Extractor.from_pretrained([*names, tmp_path / "." / "1"])
    with pytest.raises(RelatumError, match="needs at least one model"):
        Extractor.from_pretrained([])


def test_encoder_that_members_share_is_loaded_once_and_reads_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("encoder.kind=huggingface", "encoder.store=name")
    models = [make_model(0, *settings), make_model(1, *settings), make_model(2, *settings, "encoder.pooling=first")]
    for seed, model in enumerate(models):
        save_model(model, tmp_path / str(seed))
    ensemble = Extractor.from_pretrained([tmp_path / str(seed) for seed in range(3)], device="cpu")
    assert isinstance(ensemble, Ensemble)
    first, second, third = (member.encoder for member in ensemble.members)
    assert first is second
    assert third is not first
    expected = Ensemble(models).predict(SENTENCES)
    readers = []
    cut = HuggingFaceEncoder.cut

    def noted(encoder: HuggingFaceEncoder, batch: EncoderInput) -> object:
        readers.append(encoder.backbone)
        return cut(encoder, batch)

    monkeypatch.setattr(HuggingFaceEncoder, "cut", noted)
    assert_same(ensemble.predict(SENTENCES), expected)
    assert isinstance(first, HuggingFaceEncoder)
    assert isinstance(third, HuggingFaceEncoder)
    assert readers == [first.backbone, third.backbone]


def test_members_read_as_much_around_a_sentence_as_each_is_used_to(tmp_path: Path) -> None:
    text = "Mara Ilves works for Tarn Shipping. The ferry left Port Amsel, she said. Tom lives in Oldhaven."
    models = [
        make_model(1, "encoder.kind=huggingface", "encoder.store=name", f"encoder.context={n}") for n in (0, 2, 5, 5)
    ]
    for number, model in enumerate(models):
        save_model(model, tmp_path / str(number))
    ensemble = Extractor.from_pretrained([tmp_path / str(number) for number in range(4)], device="cpu")
    assert isinstance(ensemble, Ensemble)
    assert len({id(member.encoder) for member in ensemble.members}) == 3, "the last two share theirs"
    sentences = ensemble.split(text)
    assert [len(side) for side in sentences[1].context] == [5, 5]
    found = [one.found.entities for one in ensemble.predict(sentences)]
    expected = []
    for sentence in sentences:
        of_words, of_cells = [], []
        for model in models:
            near = sentence.context.nearest(model.config.encoder.context)
            outputs = select(model).read(EncoderInput([sentence.words], [near]))
            of_words.append(outputs.entity_logits.double().softmax(-1).numpy())
            assert outputs.relation_logits is not None
            of_cells.append(outputs.relation_logits.double().softmax(-1).numpy())
        tagging = models[0].tagging
        (one,) = decode_sentences(
            np.mean(of_words, 0), np.mean(of_cells, 0), [len(sentence)], tagging, DecodingOptions()
        )
        expected.append(one.entities)
    assert found == expected
    assert any(found)
    for some, others in zip(found, expected, strict=True):
        assert [one.score for one in some] == pytest.approx([one.score for one in others], abs=1e-5)


def test_model_twice_finds_the_same_as_once_in_span_tagging() -> None:
    model = make_small_span_model("model.n_layers=3")
    alone = Extractor(model).predict(SENTENCES)
    assert sum(len(prediction.found.relations) for prediction in alone) > 3
    assert_same(Ensemble([model, model]).predict(SENTENCES), alone)


def test_ensemble_has_the_mean_of_the_thresholds_of_its_members() -> None:
    pairs = [("0.2", "unset"), ("0.4", "0.6"), ("unset", "0.9")]
    members = [
        make_small_span_model(f"decoding.relation_threshold={relation}", f"decoding.entity_threshold={entity}")
        for relation, entity in pairs
    ]
    decoding = Ensemble(members).model.config.decoding
    assert decoding.relation_threshold == pytest.approx((0.2 + 0.4 + 0.5) / 3)
    assert decoding.entity_threshold == pytest.approx((0.5 + 0.6 + 0.9) / 3)
