"""Checkpoints on disk: one file each, whole or noticed as torn, the last few kept.

A checkpoint is a safetensors file whose metadata holds a JSON record and a hash of record and tensors. It is written
beside its place, brought to disk and renamed, so that a process killed at any instant leaves the one before; the hash
finds what a power cut or a full disk spoilt all the same.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from relatum.data.atomic import remove_drafts, replacing_file
from relatum.encoders.hashing import hash_tensors
from relatum.errors import RelatumError

_NAME = re.compile(r"step-(\d{8,})\.safetensors")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The record, as JSON can hold it, and the tensors of one moment of a run."""

    step: int
    record: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


def save_checkpoint(folder: Path, checkpoint: Checkpoint, n_kept: int = 2) -> Path:
    """Write a checkpoint, then remove all but the newest `n_kept`."""
    path = folder / f"step-{checkpoint.step:08d}.safetensors"
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    record = json.dumps({"step": checkpoint.step, **checkpoint.record}, sort_keys=True)
    with replacing_file(path) as draft:
        save_file(tensors, draft, {"record": record, "sha256": hash_tensors(tensors, record)})
    _sync_folder(folder)
    for old in list_checkpoints(folder)[n_kept:]:
        old.unlink()
    return path


def load_checkpoint(folder: Path, say: Callable[[str], None]) -> Checkpoint:
    """Load the newest checkpoint that is whole; `say` is told of damaged checkpoints.

    No other process may write there: half-written checkpoints are removed, and so are damaged ones once a whole one was
    found to go on from, since they would count as the newest of the checkpoints that are kept.
    """
    remove_drafts(folder)
    paths = list_checkpoints(folder)
    for number, path in enumerate(paths):
        try:
            found = read_checkpoint(path)
        except RelatumError as error:
            say(f"{error}; going on from the checkpoint before it" if path is not paths[-1] else str(error))
        else:
            for damaged in paths[:number]:
                damaged.unlink()
            return found
    what = "none of its checkpoints is whole" if paths else "it has no checkpoints"
    raise RelatumError(f"{folder}: {what}, so there is nothing to go on from; start the run anew in another folder")


def read_checkpoint(path: Path) -> Checkpoint:
    """Read one checkpoint; raise an error if it is damaged."""
    with path.open("rb"):  # one that may not be read is not damaged, and not to be removed as if it were
        pass
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise RelatumError(f"{path}: the checkpoint cannot be read ({error})") from None
    record = metadata.get("record", "")
    if not record or metadata.get("sha256") != hash_tensors(tensors, record):
        raise RelatumError(f"{path}: the checkpoint is damaged (its hash does not agree with its content)")
    try:
        values = json.loads(record)
        return Checkpoint(int(values.pop("step")), values, tensors)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RelatumError(f"{path}: the checkpoint has no usable record ({error!r:.200})") from None


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, newest first."""
    files = folder.iterdir() if folder.is_dir() else ()
    found = [(int(match[1]), file) for file in files if (match := _NAME.fullmatch(file.name))]
    return [file for _, file in sorted(found, reverse=True)]


def _sync_folder(folder: Path) -> None:
    """Bring a renaming to disk."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders, and brings renamings to disk by itself
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
