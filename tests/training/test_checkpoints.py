from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from relatum.errors import RelatumError
from relatum.training.checkpoints import (
    Checkpoint,
    list_checkpoints,
    load_checkpoint,
    read_checkpoint,
    save_checkpoint,
)


def make(step: int) -> Checkpoint:
    generator = torch.Generator().manual_seed(step)
    tensors = {
        "weights": torch.randn(5, 3, generator=generator),
        "turned": torch.randn(3, 5, generator=generator).T,
        "bytes": torch.tensor([0, 255, step % 256], dtype=torch.uint8),
        "scalar": torch.tensor(float(step)),
        "half": torch.randn(4, generator=generator).bfloat16(),
        "nothing": torch.empty(0, 4),
    }
    return Checkpoint(step, {"best": {"score": 0.1 + 0.2}, "history": [{"step": step}], "name": "Zoë"}, tensors)


def assert_equal(found: Checkpoint, wanted: Checkpoint) -> None:
    assert (found.step, found.record) == (wanted.step, wanted.record)
    assert found.tensors.keys() == wanted.tensors.keys()
    for name, tensor in wanted.tensors.items():
        assert found.tensors[name].dtype == tensor.dtype
        assert torch.equal(found.tensors[name], tensor)


def test_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, make(7))
    assert_equal(read_checkpoint(path), make(7))


def test_last_two_are_kept_and_the_newest_is_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in (9, 500, 99_999_999, 100_000_000):
        save_checkpoint(tmp_path, make(step))
    assert [path.name for path in list_checkpoints(tmp_path)] == [
        "step-100000000.safetensors",
        "step-99999999.safetensors",
    ]
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in list_checkpoints(tmp_path)}
    assert load_checkpoint(tmp_path, print).step == 100_000_000
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_truncated_checkpoint_gives_way_to_the_one_before(tmp_path: Path, share: float) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, make(step))
    newest = list_checkpoints(tmp_path)[0]
    content = newest.read_bytes()
    newest.write_bytes(content[: int(share * len(content))])
    said: list[str] = []
    assert_equal(load_checkpoint(tmp_path, said.append), make(1))
    assert len(said) == 1
    assert str(newest) in said[0]
    assert "going on from the checkpoint before it" in said[0]


def test_one_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, make(3))
    content = bytearray(path.read_bytes())
    for place in (len(content) - 1, content.index(b"history")):
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(RelatumError, match=r"step-00000003\.safetensors: the checkpoint is damaged"):
            read_checkpoint(path)


def test_checkpoint_that_cannot_be_opened_is_not_removed_as_a_damaged_one(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, make(3))
    link = tmp_path / "step-00000007.safetensors"
    link.symlink_to(tmp_path / "disk that is not there" / link.name)
    with pytest.raises(FileNotFoundError, match=link.name):
        load_checkpoint(tmp_path, print)
    assert link.is_symlink()


def test_no_whole_checkpoint_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match="it has no checkpoints"):
        load_checkpoint(tmp_path / "nowhere", print)
    save_checkpoint(tmp_path, make(1)).write_bytes(b"")
    with pytest.raises(RelatumError, match="none of its checkpoints is whole"):
        load_checkpoint(tmp_path, lambda _: None)


SAVES = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from relatum.training.checkpoints import Checkpoint, save_checkpoint
step = int(sys.argv[2])
while True:
    step += 1
    save_checkpoint(Path(sys.argv[1]), Checkpoint(step, {"twice": 2 * step}, {"x": torch.full((2000,), float(step))}))
    print(step, flush=True)
"""


def test_process_killed_while_saving_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    step = 0
    for number in range(2):
        with subprocess.Popen([sys.executable, "-c", SAVES, str(tmp_path), str(step)], stdout=subprocess.PIPE) as run:
            assert run.stdout is not None
            assert run.stdout.readline()
            time.sleep(0.05 + 0.0137 * number)
            os.kill(run.pid, signal.SIGKILL)
            said = [int(line) for line in run.stdout.read().split()]
        complaints: list[str] = []
        found = load_checkpoint(tmp_path, complaints.append)
        assert not complaints
        assert len(list(tmp_path.iterdir())) <= 3
        assert found.step >= max([step + 1, *said])
        assert found.record == {"twice": 2 * found.step}
        assert torch.equal(found.tensors["x"], torch.full((2000,), float(found.step)))
        step = found.step


def test_folder_that_cannot_be_opened_is_not_brought_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    opened = os.open

    def refuse(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    path = save_checkpoint(tmp_path, Checkpoint(3, {}, {"a": torch.ones(2)}))
    monkeypatch.undo()
    assert read_checkpoint(path).step == 3
