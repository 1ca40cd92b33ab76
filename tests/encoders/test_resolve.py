from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest
import torch

from relatum.config import EncoderConfig
from relatum.encoders.base import EncoderInput
from relatum.encoders.hashing import encoder_files, weights_hash
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.encoders.resolve import find_encoder, load_encoder, named_folder
from relatum.errors import RelatumError

MakeModel = Callable[[str], Path]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELATUM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the model hub, which always answers with the same folder."""
    folder = tmp_path / "snapshot"
    folder.mkdir()

    def download(name: str, allow_patterns: list[str], ignore_patterns: list[str]) -> str:
        assert name == "someone/small-bert"
        assert sorted(allow_patterns) == ["*.json", "*.safetensors", "*.txt"], "neither pickles nor code"
        assert ignore_patterns == ["*/*"]
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return folder


def test_find_encoder_takes_a_path_for_a_folder_and_a_word_for_a_name_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    shipped = find_encoder("all-minilm-l6-v2")
    (own_cache / "encoders" / "kept").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("all-minilm-l6-v2", "kept", "own", "deep/own"):
        (tmp_path / name).mkdir(parents=True)
    for name, folder in {
        "all-minilm-l6-v2": shipped,
        "all-MiniLM-L6-v2": shipped,
        "kept": own_cache / "encoders" / "kept",
        "own": Path("own"),
        "deep/own": Path("deep/own"),
        "./all-minilm-l6-v2": Path("all-minilm-l6-v2"),
        "~/kept": tmp_path / "kept",
        str(tmp_path / "kept"): tmp_path / "kept",
    }.items():
        assert find_encoder(name) == folder
        assert named_folder(name) == (None if folder in (shipped, own_cache / "encoders" / "kept") else folder)


def test_find_encoder_of_an_unknown_user_is_an_error() -> None:
    with pytest.raises(RelatumError, match=r"~no-such-user-here/x: the home folder .* write the path out"):
        find_encoder("~no-such-user-here/x")


def test_find_encoder_knows_the_one_that_comes_with_the_package() -> None:
    folder = find_encoder("all-minilm-l6-v2")
    assert find_encoder("all-MiniLM-L6-v2") == folder
    files = {path.name for path in encoder_files(folder)}
    assert files == {"model.safetensors", "config.json", "tokenizer.json"}
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert f"sha256 of this** `model.safetensors`: `{weights_hash(folder)}`" in readme
    assert "Apache-2.0" in readme


def test_find_encoder_looks_into_the_cache(own_cache: Path) -> None:
    (own_cache / "encoders" / "someone" / "small-bert").mkdir(parents=True)
    assert find_encoder("someone/small-bert") == own_cache / "encoders" / "someone" / "small-bert"


def test_find_encoder_asks_the_hub_last(hub: Path) -> None:
    (hub / "model.safetensors").write_bytes(b"x")
    assert find_encoder("someone/small-bert") == hub


@pytest.mark.usefixtures("hub")
def test_find_encoder_refuses_weights_that_are_not_safetensors() -> None:
    with pytest.raises(RelatumError, match=r"has no safetensors weights\. .* all-minilm-l6-v2"):
        find_encoder("someone/small-bert")


def test_find_encoder_says_what_to_do_without_network(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    def fail(*_: object, **__: object) -> str:
        raise ConnectionError("no route to host\nmore of it")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(RelatumError) as caught:
        find_encoder("someone/small-bert")
    message = str(caught.value)
    assert "'someone/small-bert' is not here: someone/small-bert cannot be downloaded" in message
    assert "(no route to host)" in message
    assert f"put its files into {own_cache / 'encoders' / 'someone' / 'small-bert'}" in message


def test_find_encoder_says_how_to_fetch_an_encoder_that_the_hub_does_not_know(
    monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    asked: list[str] = []

    def fail(name: str, **_: object) -> str:
        asked.append(name)
        raise ConnectionError("no route to host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    for name in ("mpnet-base", "gte-small", "minilm-l6"):
        with pytest.raises(RelatumError, match=f"{name!r} is not here yet; get it with 'relatum encoder fetch {name}'"):
            find_encoder(name)
    assert asked == []
    with pytest.raises(RelatumError, match=r"'relatum encoder fetch' gets mpnet-base, .* or bert-base-cased-ner"):
        find_encoder("distilbert-base-cased")
    assert asked == ["distilbert-base-cased"], "the hub has one of this name"
    (own_cache / "encoders" / "mpnet-base").mkdir(parents=True)
    assert find_encoder("mpnet-base") == own_cache / "encoders" / "mpnet-base"


@pytest.mark.parametrize("name", ["", "/no/such/folder", "../up", "~/nowhere-at-all", "a/b/c", "a/.."])
def test_find_encoder_takes_no_path_for_a_name(monkeypatch: pytest.MonkeyPatch, name: str, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> str:
        pytest.fail("asked the hub")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RelatumError, match="there is no encoder"):
        find_encoder(name)


def test_load_encoder_gives_what_the_configuration_says(make_model: MakeModel) -> None:
    assert load_encoder(EncoderConfig(kind="none"), want_maps=True) is None
    encoder = load_encoder(EncoderConfig(name=str(make_model("bert")), n_layers=1), want_maps=False)
    assert isinstance(encoder, HuggingFaceEncoder)
    assert encoder.n_attention_maps == 0


def test_weights_hash_is_that_of_the_weights_alone(make_model: MakeModel, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(make_model("bert"), folder)
    before = weights_hash(folder)
    (folder / "config.json").write_text("{}")
    assert weights_hash(folder) == before
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    assert weights_hash(folder) == before
    (folder / "model-00002-of-00002.safetensors").write_bytes(b"more")
    assert weights_hash(folder) != before
    with pytest.raises(RelatumError, match="holds no weights"):
        weights_hash(tmp_path)


def test_shipped_encoder_knows_what_words_mean() -> None:
    encoder = load_encoder(EncoderConfig(), want_maps=True)
    assert encoder is not None
    assert (encoder.width, encoder.n_attention_maps, encoder.max_pieces) == (384, 72, 510)
    assert encoder.count_pieces(["Unbelievable", "McVeigh", "ran"]) == [1, 3, 1]
    output = encoder.encode(EncoderInput([["He", "ate", word] for word in ("bread", "cake", "parliament")]))
    bread, cake, parliament = output.vectors[:, 2]
    assert torch.cosine_similarity(bread, cake, 0) > torch.cosine_similarity(bread, parliament, 0) + 0.1
    assert output.attention_maps is not None
    assert bool((output.attention_maps.sum(2) < 1).all()), "some attention goes to the special pieces"
