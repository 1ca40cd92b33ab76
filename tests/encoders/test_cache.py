from __future__ import annotations

import hashlib
import logging
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from relatum.config import EncoderConfig
from relatum.encoders.base import EncoderInput, EncoderOutput, Features, FrozenEncoder, TextEncoder, stack_features
from relatum.encoders.cache import CachedEncoder, FeatureStore, MemoryStore
from relatum.encoders.disk import DiskStore
from relatum.encoders.hashing import hash_tensors
from relatum.errors import RelatumError
from relatum.types import Context

A, B, C = ["a", "b", "c"], ["d"], ["e", "f"]
FEATURES = {3: 3 * 4 * 4 + 9 * 2 * 4, 1: 4 * 4 + 2 * 4, 2: 2 * 4 * 4 + 4 * 2 * 4}
"""Bytes of the features of a sentence of so many words."""


class Counting(FrozenEncoder):
    """An encoder that says when it is asked, and never gives the same features twice."""

    width = 4
    n_mixed = 1
    max_pieces = 7
    folder = Path("somewhere")

    def __init__(self, fingerprint: str = "one", n_attention_maps: int = 2) -> None:
        self.fingerprint = fingerprint
        self.n_attention_maps = n_attention_maps
        self.asked: list[list[list[str]]] = []
        self.around: list[Sequence[Context] | None] = []

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        return [len(word) for word in words]

    def to(self, device: torch.device | str) -> Counting:
        self.device = torch.device(device)
        return self

    def encode(self, batch: EncoderInput) -> EncoderOutput:
        sentences = batch.words
        self.around.append(batch.context)
        self.asked.append([list(words) for words in sentences])
        maps = self.n_attention_maps
        return stack_features(
            [
                Features(torch.randn(len(words), 4), torch.randn(len(words), len(words), maps) if maps else None)
                for words in sentences
            ]
        )


def _cached(inner: Counting, store: FeatureStore) -> CachedEncoder:
    return CachedEncoder(inner, EncoderConfig(), store=store)


def _same(one: EncoderOutput, other: EncoderOutput) -> bool:
    assert one.attention_maps is not None
    assert other.attention_maps is not None
    return torch.equal(one.vectors, other.vectors) and torch.equal(one.attention_maps, other.attention_maps)


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FeatureStore:
    return MemoryStore(10**6) if request.param == "memory" else DiskStore(tmp_path, 10**6, shard_bytes=150)


def test_cache_computes_only_what_is_missing_in_one_call(store: FeatureStore) -> None:
    inner = Counting()
    encoder = _cached(inner, store)
    first = encoder.encode(EncoderInput([A, B]))
    second = encoder.encode(EncoderInput([C, B, A, C]))
    assert inner.asked == [[A, B], [C]]
    assert _same(EncoderOutput(second.vectors[2:3], second.attention_maps[2:3]), encoder.encode(EncoderInput([A])))  # type: ignore[index]
    assert torch.equal(second.vectors[2], first.vectors[0])
    assert torch.equal(second.vectors[1], first.vectors[1]), "padding is zero, as in the original"
    assert torch.equal(second.vectors[0], second.vectors[3])
    assert _same(encoder.encode(EncoderInput([A, B])), first), "the very same features"


def test_cache_is_an_encoder_like_the_one_inside(store: FeatureStore) -> None:
    inner = Counting()
    encoder: TextEncoder = _cached(inner, store)
    assert (encoder.width, encoder.n_attention_maps, encoder.max_pieces, encoder.fingerprint) == (4, 2, 7, "one")
    assert encoder.count_pieces(["abc"]) == [3]
    assert encoder.to("cpu") is encoder
    assert inner.device == torch.device("cpu")


def test_cache_of_an_encoder_without_maps_has_none(store: FeatureStore) -> None:
    inner = Counting(n_attention_maps=0)
    encoder = _cached(inner, store)
    first = encoder.encode(EncoderInput([A, B]))
    assert first.attention_maps is None
    assert encoder.encode(EncoderInput([A, B])).attention_maps is None
    assert torch.equal(encoder.encode(EncoderInput([A, B])).vectors, first.vectors)
    assert inner.asked == [[A, B]]


def test_cache_tells_contexts_apart(store: FeatureStore) -> None:
    inner = Counting()
    encoder = CachedEncoder(inner, EncoderConfig(context=2), store=store)
    contexts = [Context(), Context(("x",)), Context((), ("x",)), Context(("x", "y")), Context(("x y",))]
    encoder.encode(EncoderInput([A] * 5, contexts))
    assert inner.asked == [[A] * 5]
    assert inner.around == [tuple(contexts)]
    encoder.encode(EncoderInput([A, A], [Context(("far", "x", "y")), Context()]))
    encoder.encode(EncoderInput([A]))
    assert len(inner.asked) == 1, "words that are too far to be read make no difference, and no context is an empty one"
    encoder.encode(EncoderInput([[*A, "x"]]))
    assert len(inner.asked) == 2


def test_cache_without_context_has_the_keys_it_always_had() -> None:
    class Keys(MemoryStore):
        def get(self, key: str) -> Features | None:
            keys.append(key)
            return super().get(key)

    keys: list[str] = []
    inner = Counting()
    encoder = CachedEncoder(inner, EncoderConfig(), store=Keys(10**6))
    encoder.encode(EncoderInput([["a", "b"]], [Context(("x",), ("y",))]))
    assert inner.around == [None]
    CachedEncoder(inner, EncoderConfig(context=3), store=Keys(10**6)).encode(EncoderInput([["a", "b"]], [Context()]))
    assert keys == [hashlib.sha256(b'["one", "a", "b"]').hexdigest()] * 2


def test_cache_tells_encoders_and_words_apart(store: FeatureStore) -> None:
    one, other = Counting("one"), Counting("two")
    _cached(one, store).encode(EncoderInput([["a b"], ["a", "b"], ["a,b"], ['a", "b']]))
    assert len(one.asked[0]) == 4
    _cached(other, store).encode(EncoderInput([["a b"]]))
    assert other.asked == [[["a b"]]]


def test_cache_beyond_its_limit_computes_again_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    inner = Counting()
    encoder = _cached(inner, MemoryStore(FEATURES[3] + FEATURES[1]))
    for _ in range(3):
        encoder.encode(EncoderInput([A, C, B]))
    assert inner.asked == [[A, C, B], [C], [C]], "what fits after one that does not is still kept"
    assert encoder.n_not_kept == 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "encoder.cache_limit_mib" in caplog.text


def test_cache_keeps_a_sentence_and_not_the_batch_it_came_in() -> None:
    store = MemoryStore(10**6)
    _cached(Counting(), store).encode(EncoderInput([A, B]))
    assert store.n_bytes == FEATURES[3] + FEATURES[1]
    kept = [features.vectors for features in store._kept.values()]
    assert [vectors.untyped_storage().nbytes() for vectors in kept] == [3 * 4 * 4, 4 * 4]


def test_cache_on_disk_is_there_in_the_next_run(tmp_path: Path) -> None:
    first = _cached(Counting(), DiskStore(tmp_path, 10**6))
    expected = first.encode(EncoderInput([A, B]))
    first.flush()
    first.flush()
    assert len(list(tmp_path.iterdir())) == 1, "one shard and no drafts"
    inner = Counting()
    assert _same(_cached(inner, DiskStore(tmp_path, 10**6)).encode(EncoderInput([A, B])), expected)
    assert inner.asked == []


def test_cache_on_disk_keeps_within_its_limit(tmp_path: Path) -> None:
    encoder = _cached(Counting(), DiskStore(tmp_path, 700, shard_bytes=1))
    encoder.encode(EncoderInput([[f"w{i}", "x", "y"] for i in range(10)]))
    assert encoder.n_not_kept > 0
    assert 0 < sum(path.stat().st_size for path in tmp_path.iterdir()) < 700 + 400, "headers come on top of the last"
    again = _cached(Counting(), DiskStore(tmp_path, 700))
    again.encode(EncoderInput([["new", "x", "y"] * 2]))
    assert again.n_not_kept == 1, "what is there from earlier runs counts"


def test_cache_on_disk_ignores_broken_and_foreign_shards(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = _cached(Counting(), DiskStore(tmp_path, 10**6, shard_bytes=1))
    first.encode(EncoderInput([A, B]))
    broken, good = sorted(tmp_path.iterdir(), key=lambda path: -path.stat().st_size)
    broken.write_bytes(broken.read_bytes()[:-3])
    save_file(load_file(good), tmp_path / "foreign.safetensors")
    (tmp_path / "empty.safetensors").write_bytes(b"")
    inner = Counting()
    again = _cached(inner, DiskStore(tmp_path, 10**6))
    again.encode(EncoderInput([A, B]))
    assert inner.asked == [[A]]
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 3
    assert all(any(str(path) in line for line in said) for path in (broken, tmp_path / "foreign.safetensors"))
    assert broken.exists(), "nothing is removed that may be of use to somebody"


def test_cache_on_disk_computes_again_what_does_not_fit_the_sentence(tmp_path: Path) -> None:
    first = _cached(Counting(), DiskStore(tmp_path, 10**6))
    first.encode(EncoderInput([A]))
    first.flush()
    (path,) = tmp_path.iterdir()
    tensors = {name: tensor[:2].clone() for name, tensor in load_file(path).items()}
    key = next(iter(tensors)).rpartition(".")[0]
    save_file(tensors, path, {"relatum": "encoder features", "version": "2", key: hash_tensors(tensors)})
    inner = Counting()
    assert _cached(inner, DiskStore(tmp_path, 10**6)).encode(EncoderInput([A])).vectors.shape == (1, 3, 4)
    assert inner.asked == [[A]]


@pytest.mark.parametrize("place", [-1, -80, -120])
def test_cache_on_disk_computes_again_what_was_damaged(
    tmp_path: Path, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    first = _cached(Counting(), DiskStore(tmp_path, 10**6))
    expected = first.encode(EncoderInput([A, B]))
    first.flush()
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    inner = Counting()
    again = _cached(inner, DiskStore(tmp_path, 10**6))
    again.encode(EncoderInput([A, B]))
    (damaged,) = inner.asked[0]
    assert f"{path} is damaged: features whose hash is wrong are computed again" in caplog.text
    again.flush()
    whole = Counting()
    last = _cached(whole, DiskStore(tmp_path, 10**6)).encode(EncoderInput([A, B]))
    assert whole.asked == [], "what was computed again is found beside what was damaged"
    other = 1 if damaged == A else 0
    assert torch.equal(last.vectors[other], expected.vectors[other])
    assert not torch.equal(last.vectors[1 - other], expected.vectors[1 - other])


def test_cache_on_disk_goes_on_when_it_cannot_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "cache"
    inner = Counting()
    encoder = _cached(inner, DiskStore(folder, 10**6, shard_bytes=1))
    folder.rmdir()
    for _ in range(2):
        assert encoder.encode(EncoderInput([A, B])).vectors.shape == (2, 3, 4)
    assert inner.asked == [[A, B], [A, B]]
    assert caplog.text.count("cannot be kept") == 1


def test_cache_on_disk_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RelatumError, match="cannot be in"):
        DiskStore(tmp_path / "file", 10**6)


_KILLED = """
import os, sys
from pathlib import Path
from relatum.encoders.disk import DiskStore
from relatum.encoders.base import Features
import torch

store = DiskStore(Path(sys.argv[1]), 10**9)
store.put("kept", Features(torch.ones(2, 2), None))
store.flush()
store.put("lost", Features(torch.ones(2, 2), None))
os.fsync = lambda _: os._exit(9)
store.flush()
"""


def test_cache_on_disk_killed_while_writing_leaves_whole_shards(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False).returncode == 9
    store = DiskStore(tmp_path, 10**9)
    assert store.get("kept") is not None
    assert store.get("lost") is None


def test_cache_on_disk_writes_what_waits_when_it_is_gone(tmp_path: Path) -> None:
    encoder = _cached(Counting(), DiskStore(tmp_path, 10**6))
    encoder.encode(EncoderInput([A]))
    assert list(tmp_path.iterdir()) == []
    del encoder
    assert len(list(tmp_path.iterdir())) == 1


def test_cache_follows_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Counting()
    none = CachedEncoder(inner, EncoderConfig(cache="none"))
    none.encode(EncoderInput([A]))
    none.encode(EncoderInput([A]))
    none.flush()
    assert len(inner.asked) == 2
    small = CachedEncoder(inner, EncoderConfig(cache="memory", cache_limit_mib=1))
    small.encode(EncoderInput([["w"] * 500]))
    assert small.n_not_kept == 1, "500 × 500 × 2 numbers are more than a mebibyte"
    monkeypatch.setenv("RELATUM_CACHE", str(tmp_path / "user"))
    for config, folder in (
        (EncoderConfig(cache="disk"), tmp_path / "user" / "features"),
        (EncoderConfig(cache="disk", cache_path=str(tmp_path / "mine")), tmp_path / "mine"),
    ):
        encoder = CachedEncoder(inner, config)
        encoder.encode(EncoderInput([A]))
        encoder.flush()
        assert len(list(folder.iterdir())) == 1


def test_cache_path_of_an_unknown_user_is_an_error() -> None:
    with pytest.raises(RelatumError, match=r"~no-such-user-here/x: the home folder .* write the path out"):
        CachedEncoder(Counting(), EncoderConfig(cache="disk", cache_path="~no-such-user-here/x"))
