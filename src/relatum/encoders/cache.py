"""A cache of the features of a frozen encoder, so that each sentence is computed once."""

from __future__ import annotations

import hashlib
import json
import logging
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch

from relatum.config import EncoderConfig
from relatum.encoders.base import EncoderInput, EncoderOutput, Features, FrozenEncoder, TextEncoder, stack_features
from relatum.encoders.disk import DiskStore
from relatum.folders import cache_folder, expand_user
from relatum.types import Context

if TYPE_CHECKING:
    from relatum.encoders.huggingface import HuggingFaceEncoder

_MIB = 2**20
_NOTHING = Context()
_log = logging.getLogger(__name__)


class FeatureStore(Protocol):
    """A store for features."""

    def get(self, key: str) -> Features | None:
        """Return the features that were kept under a key; None if there are none."""

    def put(self, key: str, features: Features) -> bool:
        """Keep features; return False if there is no room for them."""

    def flush(self) -> None:
        """Make kept features last until the next run, if the store outlives the process."""


class MemoryStore:
    """Features in memory, up to a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: dict[str, Features] = {}
        self.n_bytes = 0

    def get(self, key: str) -> Features | None:
        return self._kept.get(key)

    def put(self, key: str, features: Features) -> bool:
        if self.n_bytes + features.n_bytes > self._limit:
            return False
        self._kept[key] = features
        self.n_bytes += features.n_bytes
        return True

    def flush(self) -> None:
        pass


class CachedEncoder(FrozenEncoder):
    """An encoder that computes only what it has not computed before, with the cache that its configuration asks for.

    Features are kept as the encoder gave them, on the CPU unless `keep_on` says otherwise.
    """

    is_cached = True

    def __init__(
        self,
        inner: TextEncoder,
        config: EncoderConfig,
        keep_on: torch.device | str = "cpu",
        store: FeatureStore | None = None,
    ) -> None:
        self.inner = inner
        self.device = inner.device
        self._store = store or _make_store(config)
        self._keep_on = keep_on
        self._context = config.context
        self._keys: dict[tuple[tuple[str, ...], Context], str] = {}
        self.n_not_kept = 0
        """The number of sentences that were read and found no room in the cache."""
        if self._store is not None:
            weakref.finalize(self, self._store.flush)  # at the latest when Python ends

    @property
    def width(self) -> int:
        return self.inner.width

    @property
    def n_mixed(self) -> int:
        return self.inner.n_mixed

    @property
    def n_attention_maps(self) -> int:
        return self.inner.n_attention_maps

    @property
    def heads_per_layer(self) -> Sequence[int]:
        return self.inner.heads_per_layer

    @property
    def members(self) -> Sequence[TextEncoder]:
        return self.inner.members

    @property
    def max_pieces(self) -> int | None:
        return self.inner.max_pieces

    @property
    def fingerprint(self) -> str:
        return self.inner.fingerprint

    @property
    def folder(self) -> Path:
        return self.inner.folder

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        return self.inner.count_pieces(words)

    def save_learned(self, folder: Path, dtype: torch.dtype) -> None:
        self.inner.save_learned(folder, dtype)

    def replace_transformers(self, replace: Callable[[HuggingFaceEncoder], TextEncoder]) -> TextEncoder:
        """Let the encoder inside compute with other transformers; kept features stay."""
        self.inner = self.inner.replace_transformers(replace)
        return self

    def to(self, device: torch.device | str) -> CachedEncoder:
        self.inner.to(device)
        self.device = self.inner.device
        return self

    def flush(self) -> None:
        if self._store is not None:
            self._store.flush()

    def encode(self, batch: EncoderInput) -> EncoderOutput:
        if self._store is None or not batch.words:
            return self.inner.encode(batch)
        stacked = stack_features(self.encode_each(batch))
        maps = stacked.attention_maps
        return EncoderOutput(stacked.vectors.to(self.device), None if maps is None else maps.to(self.device))

    def encode_each(self, batch: EncoderInput) -> list[Features]:
        """Return the features of each sentence by itself, on the device where they are kept."""
        store = self._store
        sentences = batch.words
        if store is None:
            return self.inner.encode_each(batch)
        contexts = [_NOTHING] * len(sentences)
        if batch.context is not None and self._context:
            contexts = [context.nearest(self._context) for context in batch.context]
        keys = [self._key(words, context) for words, context in zip(sentences, contexts, strict=True)]
        features: dict[str, Features] = {}
        missing: dict[str, tuple[Sequence[str], Context]] = {}
        for key, words, context in zip(keys, sentences, contexts, strict=True):
            kept = store.get(key)
            if kept is not None and self._fits(kept, len(words)):
                features[key] = kept
            else:
                missing[key] = words, context
        if missing:
            features.update(self._compute(missing, store))
        return [features[key] for key in keys]

    def _key(self, words: Sequence[str], context: Context) -> str:
        """Return a hash of the sentence and of all that its features depend on; cached, as `inner` never changes."""
        sentence = tuple(words), context
        key = self._keys.get(sentence)
        if key is None:
            more = [context] if any(context) else []  # a list, as no word is one
            key = hashlib.sha256(json.dumps([self.fingerprint, *words, *more]).encode()).hexdigest()
            self._keys[sentence] = key
        return key

    def _compute(self, missing: dict[str, tuple[Sequence[str], Context]], store: FeatureStore) -> dict[str, Features]:
        sentences, contexts = zip(*missing.values(), strict=True)
        output = self.inner.encode(EncoderInput(sentences, contexts if self._context else None))
        computed = {}
        for key, features in zip(missing, output.split([len(words) for words in sentences]), strict=True):
            computed[key] = self._packed(features)
            if not store.put(key, computed[key]):
                if not self.n_not_kept:
                    _log.warning(
                        "the cache of encoder features is full: what does not fit is computed again each time; "
                        "a higher encoder.cache_limit_mib would make this faster"
                    )
                self.n_not_kept += 1
        return computed

    def _packed(self, features: Features) -> Features:
        """Return a copy of the features: a view into a batch would keep the whole batch in memory."""
        vectors, maps = features.vectors, features.attention_maps
        return Features(
            vectors.to(self._keep_on, copy=True).contiguous(),
            None if maps is None else maps.to(self._keep_on, copy=True).contiguous(),
        )

    def _fits(self, features: Features, n_words: int) -> bool:
        if features.vectors.shape != (n_words, self.width):
            return False
        maps = features.attention_maps
        if maps is None or not self.n_attention_maps:
            return maps is None and not self.n_attention_maps
        return maps.shape == (n_words, n_words, self.n_attention_maps)


def _make_store(config: EncoderConfig) -> FeatureStore | None:
    limit = config.cache_limit_mib * _MIB
    if config.cache == "none":
        return None
    if config.cache == "memory":
        return MemoryStore(limit)
    return DiskStore(expand_user(config.cache_path) if config.cache_path else cache_folder() / "features", limit)
