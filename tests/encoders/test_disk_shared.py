"""Several runs that fill one cache on disk at the same time."""

from __future__ import annotations

from pathlib import Path

import torch

from relatum.encoders.base import Features
from relatum.encoders.disk import DiskStore


def test_stores_that_write_into_one_folder_leave_everything_readable(tmp_path: Path) -> None:
    stores = [DiskStore(tmp_path, 2**20, shard_bytes=256) for _ in range(3)]  # none sees what the others write
    for number in range(20):
        features = Features(torch.full((4, 8), float(number)), torch.full((2, 4, 4), float(number)))
        for which, store in enumerate(stores):
            if number % 3 != which:  # most sentences are written by two of them
                assert store.put(f"{number:064x}", features)
    for store in stores:
        store.flush()
    later = DiskStore(tmp_path, 2**20)
    for number in range(20):
        found = later.get(f"{number:064x}")
        assert found is not None
        assert found.attention_maps is not None
        assert torch.equal(found.vectors, torch.full((4, 8), float(number)))
        assert torch.equal(found.attention_maps, torch.full((2, 4, 4), float(number)))
    assert not list(tmp_path.glob("*.partial"))
