"""A full disk or memory: a run ends with one message that names the cure, and goes on to the same weights."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from relatum.config import Config
from relatum.data import atomic
from relatum.errors import NoSpaceError, RelatumError, naming_file
from relatum.training import loop, monitor
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunFolder, RunRecord
from relatum.training.loop import train
from relatum.training.state import capture

from .conftest import Silent
from .test_loop import assert_same_run, whole  # noqa: F401

CPU = torch.device("cpu")
Start = Callable[[Config], tuple[TrainingData, RunRecord]]
Tiny = Callable[..., Config]


@pytest.fixture
def full_for(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Lets no file grow beyond some bytes while the file or folder of that name is written, but the first few times."""
    left: dict[str, int] = {}

    @contextmanager
    def limited(path: Path) -> Iterator[None]:
        old, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        if path.name in left:
            left[path.name] -= 1
        with naming_file(path):
            try:
                if left.get(path.name, 0) < 0:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (old, hard))

    for module in (atomic, monitor):
        monkeypatch.setattr(module, "naming_file", limited)
    return left.__setitem__


@pytest.mark.parametrize(
    ("name", "n_before"),
    [
        ("step-00000008.safetensors", 0),
        ("step-4", 0),
        ("log.jsonl", 2),
        ("test-gold.jsonl", 0),
        ("README.md", 0),
        ("curves.png", 0),
        ("report.html", 0),
        ("result.json", 0),
    ],
)
def test_run_whose_disk_is_full_names_the_file_and_goes_on_to_the_same_weights(
    start: Start,
    tiny: Tiny,
    tmp_path: Path,
    whole: Path,  # noqa: F811
    full_for: Callable[[str, int], None],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    n_before: int,
) -> None:
    data, record = start(tiny())
    folder = RunFolder(tmp_path / "run")
    full_for(name, n_before)
    with pytest.raises(NoSpaceError) as error:
        train(data, record, folder.path, device=CPU, monitor=Silent())
    message = str(error.value)
    assert f"/{name}: File too large; raise the limit on the size of files (ulimit -f), then go on with " in message
    assert message.endswith(f"relatum train --resume {folder.path}")
    assert not [path for path in folder.path.rglob("*") if atomic.is_draft(path)]
    monkeypatch.undo()
    train(data, record, folder.path, device=CPU, monitor=Silent(), resume=True)
    assert_same_run(whole, folder.path)


def test_run_that_had_no_space_for_its_record_can_be_started_again(
    start: Start, tiny: Tiny, tmp_path: Path, full_for: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, record = start(tiny("training.steps=1", "training.evaluate_every=1"))
    full_for("run.json", 0)
    with pytest.raises(NoSpaceError, match=r"run\.json: File too large; .*, then start the run again$"):
        train(data, record, tmp_path / "run", device=CPU, monitor=Silent())
    monkeypatch.undo()
    train(data, record, tmp_path / "run", device=CPU, monitor=Silent())


def test_run_that_is_out_of_memory_says_so_and_goes_on_to_the_same_weights(
    start: Start,
    tiny: Tiny,
    tmp_path: Path,
    whole: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, record = start(tiny())
    steps: list[int] = []

    def too_large(*given: Any) -> Any:
        steps.append(given[3].step)
        return capture(*given) if len(steps) == 1 else torch.empty(2**60, dtype=torch.uint8)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "capture", too_large)
        with pytest.raises(RelatumError) as error:
            train(data, record, tmp_path / "run", device=CPU, monitor=Silent())
    assert str(error.value).startswith("out of memory (")
    assert f"close other programs, then go on with relatum train --resume {tmp_path / 'run'}; or" in str(error.value)
    assert "model.width" in str(error.value)
    train(data, record, tmp_path / "run", device=CPU, monitor=Silent(), resume=True)
    assert_same_run(whole, tmp_path / "run")


def test_network_that_no_memory_holds_leaves_nothing_behind(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, record = start(tiny())
    monkeypatch.setattr(loop, "make_model", lambda *_: torch.empty(2**60, dtype=torch.uint8))
    with pytest.raises(RelatumError, match=r"^out of memory \(.*; close other programs, then start the run again; or"):
        train(data, record, tmp_path / "run", device=CPU, monitor=Silent())
    assert not (tmp_path / "run").exists()
