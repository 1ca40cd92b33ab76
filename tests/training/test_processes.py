from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from relatum.config import load_config
from relatum.errors import RelatumError
from relatum.training.checkpoints import list_checkpoints, read_checkpoint
from relatum.training.corpus import load_training_data
from relatum.training.folder import RunRecord
from relatum.training.loop import train
from relatum.training.processes import Processes, join_processes
from relatum.training.stopping import Stopping

from .conftest import TINY, Silent

CPU = torch.device("cpu")
PLAIN = ("sum", "mean", "one")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def environment(number: int, port: int) -> dict[str, str]:
    """What `torchrun` tells each process."""
    names = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
    return {
        **os.environ,
        **{name: str(value) for name, value in names.items()},
        "MASTER_ADDR": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
    }


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, small_corpus: Path) -> tuple[Path, list[tuple[int, str]]]:
    """The folder of the runs of two processes, and how each of the two ended."""
    out, port = tmp_path_factory.mktemp("two"), free_port()
    command = [sys.executable, str(Path(__file__).parent / "two_processes.py"), str(small_corpus), str(out), *TINY]
    processes = [
        subprocess.Popen(command, env=environment(number, port), stderr=subprocess.PIPE, text=True)
        for number in range(2)
    ]
    try:
        said = [process.communicate(timeout=200)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return out, [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, small_corpus: Path) -> Path:
    """The same runs by one process."""
    out = tmp_path_factory.mktemp("one")
    torch.set_default_dtype(torch.float64)
    try:
        for name, overrides in (
            ("sum", ()),
            ("mean", ("training.loss=mean", "training.batch_size=3")),
            ("one", ("training.batch_size=1",)),
        ):
            config = load_config(None, [*TINY, "model.dropout=0.0", *overrides])
            data = load_training_data(small_corpus, config)
            record = RunRecord(config, str(small_corpus), None, None, "cpu", "", data.fingerprint())
            train(data, record, out / name, device=CPU, monitor=Silent())
    finally:
        torch.set_default_dtype(torch.float32)
    return out


def states(run: Path) -> dict[str, torch.Tensor]:
    return dict(read_checkpoint(list_checkpoints(run / "checkpoints")[0]).tensors)


def losses(run: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (run / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", PLAIN)
def test_two_processes_learn_what_one_does(ended: tuple[Path, object], alone: Path, name: str) -> None:
    """Shares are ragged (mean: batches of three), or one is empty (one: batches of one sentence).

    Doubles have 16 digits. Losses and weights were seen to differ by 3e-16, what Adam keeps by 7e-13 of itself. An
    error in how losses or gradients are weighed would show in the first digits.
    """
    two, one = ended[0] / name, alone / name
    assert losses(two) == pytest.approx(losses(one), rel=1e-14)
    first, second = states(one), states(two)
    for key in first:
        if not key.startswith("random/"):
            torch.testing.assert_close(second[key], first[key], rtol=1e-10, atol=1e-14, msg=key)


def test_stop_in_one_process_stops_both_after_the_same_update(ended: tuple[Path, object]) -> None:
    texts = [(ended[0] / f"stopped-{number}").read_text() for number in range(2)]
    assert all(text.startswith("stopped after step 6; the state is saved.") for text in texts)


def test_two_processes_go_on_to_the_same_weights(ended: tuple[Path, object]) -> None:
    """With dropout, so that the random numbers of both must be those they would have been."""
    whole, broken = states(ended[0] / "whole"), states(ended[0] / "broken")
    assert whole.keys() == broken.keys()
    assert not torch.equal(whole["random/cpu"], whole["random/cpu/1"])
    for name, tensor in whole.items():
        assert torch.equal(broken[name], tensor), name
    assert losses(ended[0] / "broken") == losses(ended[0] / "whole")


def test_failure_of_one_process_ends_the_other(ended: tuple[Path, list[tuple[int, str]]]) -> None:
    (code, said), (other_code, other_said) = ended[1]
    assert other_code == 1
    assert other_said.rstrip().endswith("ValueError: this process fails")
    assert code == 1
    assert "another process of this run has ended or cannot be reached" in said.splitlines()[-1]


def test_only_the_first_process_writes(ended: tuple[Path, object]) -> None:
    """A file that was written twice would have left a draft, or an evaluation that is there twice."""
    run = ended[0] / "sum"
    assert not list(run.rglob("*.partial"))
    assert len(losses(run)) == 3
    assert json.loads((run / "result.json").read_text())["steps"] == 12


def test_run_of_two_processes_goes_on_with_one_and_says_so(
    ended: tuple[Path, object], small_corpus: Path, tmp_path: Path
) -> None:
    import shutil

    shutil.copytree(ended[0] / "whole", tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    config = load_config(None, [*TINY, "training.steps=14"])
    data = load_training_data(small_corpus, config)
    record = RunRecord(config, str(small_corpus), None, None, "cpu", "", data.fingerprint())
    monitor = Silent()
    torch.set_default_dtype(torch.float64)
    try:
        train(data, record, tmp_path / "run", device=CPU, monitor=monitor, resume=True)
    finally:
        torch.set_default_dtype(torch.float32)
    assert "the run had 2 processes and goes on with 1, with other random numbers" in monitor.said


def test_torchrun_starts_the_command(small_corpus: Path, tmp_path: Path) -> None:
    overrides = [word for override in (*TINY, "training.steps=2") for word in ("--set", override)]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launcher += ["--master-port", str(free_port()), "-m", "relatum"]
    done = subprocess.run(
        [*launcher, "train", str(small_corpus), "--out", str(tmp_path / "run"), "--device", "cpu", *overrides],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("best after step 2 of 2") == 1
    assert done.stderr.count("step 2 of 2") == 1


def test_nothing_is_imported_without_a_launcher() -> None:
    code = (
        "import sys, torch; from relatum.training.processes import *; from relatum.training.stopping import Stopping\n"
        "found = join_processes(torch.device('cpu'), Stopping())\n"
        "assert (found.n, found.main, is_main_process()) == (1, True, True)\n"
        "assert 'accelerate' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_missing_accelerate_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(RelatumError, match=r"pip install 'relatum\[train\]'"):
        join_processes(CPU, Stopping())


def test_process_that_is_alone_has_all_to_itself() -> None:
    stopping = Stopping()
    processes = Processes(CPU, stopping)
    assert processes.share([3, 1, 2]) == [3, 1, 2]
    assert processes.least(None) is None
    assert processes.least(70) == 70
    assert processes.tell("x") == "x"
    assert not processes.asked_to_stop
    stopping.asked = True
    assert processes.asked_to_stop
