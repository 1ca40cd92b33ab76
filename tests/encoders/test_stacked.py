"""Encoders side by side say what each of them says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from relatum.config import EncoderConfig, load_config
from relatum.encoders.base import EncoderInput, EncoderOutput
from relatum.encoders.cache import CachedEncoder
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.encoders.resolve import load_encoder
from relatum.encoders.stacked import StackedEncoder
from relatum.errors import ConfigError, RelatumError
from relatum.types import Context

MakeModel = Callable[..., Path]
SENTENCES = [["ab", "a", "abca", "q", "bc"], ["a"], ["cab", "b"]]


def load(config: EncoderConfig, want_maps: bool = True) -> StackedEncoder:
    encoder = load_encoder(config, want_maps)
    assert isinstance(encoder, StackedEncoder)
    return encoder


def settings(first: Path, *others: Path, n_layers: int = 2, context: int = 0) -> EncoderConfig:
    return EncoderConfig(name=str(first), beside=tuple(map(str, others)), n_layers=n_layers, context=context)


def assert_equal(found: EncoderOutput, parts: list[EncoderOutput]) -> None:
    torch.testing.assert_close(found.vectors, torch.cat([one.vectors for one in parts], -1), rtol=0, atol=0)
    maps = [one.attention_maps for one in parts if one.attention_maps is not None]
    assert (found.attention_maps is None) == (not maps)
    if found.attention_maps is not None:
        torch.testing.assert_close(found.attention_maps, torch.cat(maps, -1), rtol=0, atol=0)


@pytest.mark.parametrize("want_maps", [True, False])
def test_features_are_those_of_all_in_their_order(make_model: MakeModel, want_maps: bool) -> None:
    folders = [make_model(kind) for kind in ("mpnet", "bert", "distilbert")]
    stacked = load(settings(*folders), want_maps)
    assert (stacked.width, stacked.n_attention_maps, stacked.n_mixed) == (48, 18 if want_maps else 0, 1)
    config = EncoderConfig(n_layers=2)
    alone = [HuggingFaceEncoder.load(folder, config, want_maps) for folder in folders]
    assert_equal(stacked.encode(EncoderInput(SENTENCES)), [one.encode(EncoderInput(SENTENCES)) for one in alone])
    assert stacked.folder == folders[0]


def test_all_read_what_is_around_a_sentence(make_model: MakeModel) -> None:
    folders = [make_model(kind) for kind in ("mpnet", "bert")]
    around = [Context(("a", "b"), ("c",))] * len(SENTENCES)
    found = load(settings(*folders, context=2)).encode(EncoderInput(SENTENCES, around))
    config = EncoderConfig(n_layers=2, context=2)
    assert_equal(
        found, [HuggingFaceEncoder.load(folder, config).encode(EncoderInput(SENTENCES, around)) for folder in folders]
    )


def test_one_with_fewer_layers_gives_all_of_them_but_the_first_must_have_them(make_model: MakeModel) -> None:
    few, many = make_model("bert"), make_model("mpnet", num_hidden_layers=5)
    found = load(settings(many, few, n_layers=5)).encode(EncoderInput(SENTENCES))
    parts = [
        HuggingFaceEncoder.load(many, EncoderConfig(n_layers=5)).encode(EncoderInput(SENTENCES)),
        HuggingFaceEncoder.load(few, EncoderConfig(n_layers=3)).encode(EncoderInput(SENTENCES)),
    ]
    assert_equal(found, parts)
    with pytest.raises(RelatumError, match="has only 3"):
        load(settings(few, many, n_layers=5))


def test_pieces_are_counted_so_that_all_can_read_them(make_model: MakeModel) -> None:
    short, long = make_model("bert", max_position_embeddings=10), make_model("roberta")
    stacked = load(settings(long, short))
    words = ["abcabc", "a", "q"]
    assert [one.count_pieces(words) for one in stacked.members] == [[6, 1, 2], [4, 1, 1]]
    assert stacked.count_pieces(words) == [6, 1, 2] == load(settings(short, long)).count_pieces(words)
    assert stacked.max_pieces == 8 == stacked.members[1].max_pieces


def test_fingerprint_knows_each_and_their_order(make_model: MakeModel) -> None:
    one, other = make_model("bert"), make_model("mpnet")
    prints = {load(settings(one, other)).fingerprint, load(settings(other, one)).fingerprint}
    prints |= {HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=2)).fingerprint for folder in (one, other)}
    assert len(prints) == 4
    assert load(settings(one, other)).fingerprint in prints


def test_features_are_kept_like_those_of_one(make_model: MakeModel) -> None:
    config = settings(make_model("bert"), make_model("mpnet"))
    cached = CachedEncoder(load(config), config)
    first = cached.encode(EncoderInput(SENTENCES))
    assert_equal(first, [load(config).encode(EncoderInput(SENTENCES))])
    assert_equal(cached.encode(EncoderInput(SENTENCES)), [first])


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        (("encoder.kind=none",), 'encoder.kind "huggingface"'),
        (("encoder.tuning=lora",), 'encoder.tuning "frozen"'),
        (("encoder.mixing=learned",), 'encoder.mixing "mean"'),
        (("encoder.name=b",), "not the first one, b, once more"),
        (('encoder.beside=["b", "b"]',), "each of them at most once"),
    ],
)
def test_encoders_side_by_side_are_of_one_kind_frozen_and_differ(overrides: tuple[str, ...], wanted: str) -> None:
    with pytest.raises(ConfigError, match=wanted):
        load_config(None, ('encoder.beside=["b"]', *overrides))


def test_one_encoder_under_two_names_is_refused(make_model: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_model("bert")
    monkeypatch.chdir(folder.parent)
    config = EncoderConfig(name=str(folder), beside=(f"./{folder.name}",), n_layers=1)
    with pytest.raises(
        RelatumError, match=r"encoder\.beside: '\./bert.*' is encoder 1 once more .*; name each of them once"
    ):
        load_encoder(config, True)


def test_a_name_that_there_is_not_is_told_with_both_keys() -> None:
    with pytest.raises(RelatumError, match=r"no encoder 'no such'.* encoder\.name and encoder\.beside take"):
        load_encoder(EncoderConfig(beside=("no such",)), True)
