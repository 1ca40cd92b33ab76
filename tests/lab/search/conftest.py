"""The small corpus and network of the tests of training."""

from __future__ import annotations

from ...training.conftest import _one_thread, silent, small_corpus, start, tiny

__all__ = ["_one_thread", "silent", "small_corpus", "start", "tiny"]
