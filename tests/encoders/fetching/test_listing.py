from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import pytest

from relatum.encoders.fetching import listing
from relatum.encoders.fetching.catalogue import CATALOGUE, DISTILBERT, HUB_NAMES, MINILM, Fetchable
from relatum.encoders.fetching.fetch import encoder_folder, fetch
from relatum.encoders.fetching.listing import list_encoders
from relatum.encoders.resolve import SHIPPED


def quiet(step: str, n_bytes: int | None, total: int) -> None:
    del step, n_bytes, total


def test_catalogue_is_consistent() -> None:
    assert list(CATALOGUE) == ["mpnet-base", "gte-small", "minilm-l6", "distilbert-base-cased", "bert-base-cased-ner"]
    assert CATALOGUE.keys() >= HUB_NAMES
    for name, encoder in CATALOGUE.items():
        assert encoder.name == name
        assert encoder.citations
        assert encoder.remark
        for package in encoder.packages:
            assert len(bytes.fromhex(package.sha256)) == 32
    assert "grammatical errors" in DISTILBERT.remark
    readme = (SHIPPED / "all-minilm-l6-v2" / "README.md").read_text(encoding="utf-8")
    assert f"sha256 of the original** `model.safetensors`: `{MINILM.sha256}`" in readme


def test_list_encoders_tells_shipped_from_fetchable() -> None:
    listed = {encoder.name: encoder for encoder in list_encoders()}
    assert list(listed) == ["all-minilm-l6-v2", *CATALOGUE]
    shipped = listed["all-minilm-l6-v2"]
    assert (shipped.state, shipped.n_layers, shipped.width, shipped.n_attention_heads) == ("shipped", 6, 384, 12)
    assert (shipped.cased, shipped.licence, shipped.to_download) == (False, "Apache-2.0", None)
    cased = listed["distilbert-base-cased"]
    assert (cased.state, cased.folder, cased.cased, cased.width) == ("fetchable", None, True, 768)
    assert cased.to_download == DISTILBERT.packages[0].n_bytes


def test_list_encoders_shows_what_is_in_the_cache(
    sliced: tuple[Fetchable, Path],
    own_cache: Path,
    make_model: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder, folder = sliced
    monkeypatch.setattr(listing, "CATALOGUE", MappingProxyType({"tiny": encoder}))
    fetch(encoder, quiet, folder)
    shutil.copytree(make_model("distilbert"), own_cache / "encoders" / "someone" / "other")
    (own_cache / "encoders" / "empty").mkdir()
    (own_cache / "encoders" / ".tiny.x.partial").mkdir()
    (own_cache / "encoders" / ".tiny.x.partial" / "model.safetensors").write_bytes(b"x")
    _, tiny, other = list_encoders()
    assert (tiny.name, tiny.state, tiny.folder) == ("tiny", "fetched", str(encoder_folder(encoder)))
    assert (tiny.to_download, tiny.n_bytes, tiny.licence) == (None, encoder.n_bytes, "MIT")
    assert (other.name, other.state, other.licence) == ("someone/other", "cached", None)
    assert (other.n_layers, other.width, other.n_attention_heads, other.cased) == (3, 16, 2, False)

    (encoder_folder(encoder) / "model.safetensors").write_bytes(b"another")
    tiny = list_encoders()[1]
    assert (tiny.name, tiny.state, tiny.n_bytes) == ("tiny", "cached", 7)
