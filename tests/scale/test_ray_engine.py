"""The Ray engine on a real cluster: the same results as the local engine, whatever is killed."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relatum.errors import RelatumError
from relatum.scale import JobSettings, extract_job
from relatum.scale.ray import _Attempts
from relatum.scale.ray_cluster import WORKERS_PER_GPU, Room

from ..prepared import Prepared
from .driving import descendants
from .jobs_here import make_texts, result_files, result_rows, write_jsonl

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the tests look for processes in /proc")
pytest.importorskip("ray")

PATIENCE = 150
"""Seconds after which something that does not come is an error; the machine may be busy."""
N_DOCUMENTS = 80
N_SHARDS = 20
DEADLY = 13
WORDS = '''
import os
import time
from relatum.data.splitting import split_words


def split(text):
    """Split into words; a text with "deadly" ends the process."""
    if "deadly" in text:
        os._exit(13)
    time.sleep(0.05)
    return split_words(text)
'''
SPLITTING = (("words", "slow_words:split"),)
CLUSTER = """
import ray, sys
context = ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
print("address", context.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with functions that split text into words."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "slow_words.py").write_text(WORDS)
    (folder / "ending_words.py").write_text("import os\nos._exit(14)\n")
    return folder


@pytest.fixture(scope="module")
def token() -> dict[str, str]:
    """Variables with which a cluster lets in those who have them too, and nobody else."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}


class Cluster:
    """A Ray cluster with 2 CPUs in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.pid = process.pid
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("address "):
                self.address = line.split()[1]
                return
        raise AssertionError("Ray has not started")


@pytest.fixture(scope="module")
def cluster(modules: Path, token: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    path = os.pathsep.join([str(modules), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        cwd=tmp_path_factory.mktemp("elsewhere"),
        env={**os.environ, **token, "PYTHONPATH": path, "RAY_worker_niceness": "0"},
    )
    try:
        yield Cluster(process)
    finally:
        process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def python(modules: Path, token: dict[str, str]) -> Iterator[Prepared]:
    """A Python in which drivers are there at once, and also the workers of the local engine."""
    preparation = f"""
import sys; sys.path[:0] = [{str(modules)!r}, {str(Path(__file__).parent)!r}]
from driving import *
fork_workers()
"""
    with Prepared(preparation, token) as prepared:
        yield prepared


class Caller:
    """Calls of drivers of jobs with the small model, which work in the folder of the documents."""

    def __init__(self, python: Prepared, model: str, folder: Path) -> None:
        self._python, self._model, self._folder = python, model, folder

    def __call__(self, call: str, input: str, out: str, **options: Any) -> list[Any]:
        """The answers of the drivers, and nothing else that was written to the terminal."""
        options = {"model": self._model, "splitting": SPLITTING, **options}
        preparation = f"signal.alarm({PATIENCE})\nos.chdir({str(self._folder)!r})"
        said = self._python.run(f"{preparation}\nDriver({input!r}, {out!r}, **{options!r}).{call}")
        return [json.loads(line) for line in said.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents, two files of them, and with the results of the local engine."""
    folder = tmp_path_factory.mktemp("documents")
    texts = make_texts(N_DOCUMENTS)
    write_jsonl(folder / "in.jsonl", [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)])
    texts[DEADLY] = "a deadly text"
    write_jsonl(folder / "deadly.jsonl", [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)])
    return folder


@pytest.fixture(scope="module")
def driver(python: Prepared, model: str, folder: Path) -> Caller:
    return Caller(python, model, folder)


@pytest.fixture(scope="module")
def undisturbed(driver: Caller, folder: Path) -> Path:
    """The results of the local engine."""
    (report,) = driver("run()", "in.jsonl", "undisturbed", workers=2)
    assert (report["finished"], report["documents"], report["failed"]) == (True, N_DOCUMENTS, 0)
    return folder / "undisturbed"


def assert_same(out: Path, expected: Path) -> None:
    assert [row["id"] for row in result_rows(out)] == [f"d{number}" for number in range(N_DOCUMENTS)]
    assert result_files(out) == result_files(expected)
    assert {path.name for path in out.iterdir()} == {*result_files(expected), "_job"}  # no drafts are left


def test_killed_actors_and_a_document_that_ends_them_cost_one_row(
    driver: Caller, cluster: Cluster, folder: Path
) -> None:
    (expected,) = driver("run()", "deadly.jsonl", "deadly-local", workers=2)
    call = f"run_while_actors_are_killed({cluster.pid}, 1, 2)"
    (report,) = driver(call, "deadly.jsonl", "deadly-ray", workers=2, ray=cluster.address)
    assert (report["finished"], report["documents"], report["failed"]) == (True, N_DOCUMENTS, 1)
    assert {**report, "started": 0} == {**expected, "started": 0}
    rows = result_rows(folder / "deadly-ray")
    assert [number for number, row in enumerate(rows) if row["error"] is not None] == [DEADLY]
    assert rows[DEADLY]["error"].startswith("the process that read this document ended without an error")
    assert_same(folder / "deadly-ray", folder / "deadly-local")


def test_job_that_is_killed_or_stopped_goes_on_at_the_next_call(
    driver: Caller, cluster: Cluster, folder: Path, undisturbed: Path
) -> None:
    options: dict[str, Any] = {"workers": 2, "ray": cluster.address}
    ((n_done,),) = driver("be_killed(2, 1)", "in.jsonl", "stopped", **options)
    assert 0 < n_done < N_SHARDS
    for number in (signal.SIGTERM, signal.SIGINT):
        (report,) = driver(f"be_signalled({number}, {n_done + 1})", "in.jsonl", "stopped", **options)
        assert not report["finished"]
        assert n_done < report["shards"] < N_SHARDS
        n_done = report["shards"]
        assert report["documents"] == 4 * n_done
    (report,) = driver("run()", "in.jsonl", "stopped", **options)
    assert (report["finished"], report["documents"], report["failed"]) == (True, N_DOCUMENTS, 0)
    assert_same(folder / "stopped", undisturbed)


def test_actor_that_ends_again_and_again_before_it_is_ready_is_not_started_for_ever() -> None:
    attempts = _Attempts()
    assert [attempts.begin_worker("a") for _ in range(4)] == [True, True, True, False]
    attempts.begin_worker("b")
    attempts.finish_worker("b")
    assert [attempts.begin_worker("b") for _ in range(4)] == [True, True, True, False]


def test_error_of_a_worker_is_told_without_the_frames_of_ray(driver: Caller, cluster: Cluster) -> None:
    (answer,) = driver("run()", "in.jsonl", "wrong", ray=cluster.address, splitting=(("words", "no_module:split"),))
    (expected,) = driver("run()", "in.jsonl", "wrong-local", splitting=(("words", "no_module:split"),))
    assert answer["refused"] == expected["refused"]


def test_more_workers_than_the_cluster_has_room_for_are_an_error(driver: Caller, cluster: Cluster) -> None:
    (answer,) = driver("run()", "in.jsonl", "crowded", ray=cluster.address, workers=3)
    assert answer["refused"].startswith(
        "the Ray cluster has room for 2 workers of 1 threads (2 CPUs and 0 GPUs on 1 nodes), and 3 are asked for; ask"
    )


def make_room(*nodes: tuple[int, int], threads: int = 1, on_gpu: bool = False) -> Room:
    return Room([{"CPU": cpus, "GPU": gpus} for cpus, gpus in nodes], threads, on_gpu)


def test_workers_fill_the_cores_of_every_node() -> None:
    assert make_room((4, 0), (3, 0)).plan_workers(None) == (7, {"num_cpus": 1})
    assert make_room((4, 0), (3, 0), threads=2).plan_workers(None) == (3, {"num_cpus": 2})  # none has half a node
    assert make_room((4, 0)).plan_workers(3) == (3, {"num_cpus": 1})


@pytest.mark.parametrize(
    ("room", "wanted"),
    [
        (make_room((4, 0)), 5),
        (make_room((3, 0), (3, 0), threads=2), 3),
        (make_room((1, 0), threads=2), None),
        (make_room((8, 0), on_gpu=True), None),
        (make_room((64, 1), on_gpu=True), WORKERS_PER_GPU + 1),
        (make_room((8, 0), (1, 1), on_gpu=True), 2),  # the cores are on another node than the GPU
        (make_room(), None),
    ],
)
def test_more_workers_than_fit_on_the_nodes_are_an_error(room: Room, wanted: int | None) -> None:
    with pytest.raises(RelatumError, match=r"the Ray cluster has room for .* ask for fewer"):
        room.plan_workers(wanted)


@pytest.mark.parametrize(("n_gpus", "wanted"), [(4, 4), (4, 8), (2, 3), (1, 3), (3, 1), (4, None)])
def test_workers_are_spread_over_the_gpus_and_all_of_them_fit(n_gpus: int, wanted: int | None) -> None:
    n_workers, needed = make_room((64, n_gpus), on_gpu=True).plan_workers(wanted)
    assert n_workers == (wanted or n_gpus * WORKERS_PER_GPU)
    per_gpu = int(1 // needed["num_gpus"])
    assert per_gpu == -(-n_workers // n_gpus)
    steps = round(needed["num_gpus"] * 10_000)
    assert steps == needed["num_gpus"] * 10_000  # Ray rounds to such steps, and a third of a GPU must fit three times
    assert steps * per_gpu <= 10_000


def find_closed_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:{}", r"no Ray cluster answers there \(.*refused"),
        ("no-such-host.invalid:{}", r"no Ray cluster answers there \("),
        ("127.0.0.1", "expected HOST:PORT, such as"),
        ("127.0.0.1:", "expected HOST:PORT"),
        ("127.0.0.1:99999999", "no Ray cluster answers there"),
        ("ray://127.0.0.1:{}", "jobs do not run over Ray Client; start relatum on a machine of the cluster"),
    ],
)
def test_address_where_no_cluster_answers_is_an_error_within_seconds(
    folder: Path, model: str, tmp_path: Path, address: str, message: str
) -> None:
    address = address.format(find_closed_port())
    began = time.monotonic()
    with pytest.raises(RelatumError, match=f"^--address {re.escape(address)}: {message}"):
        extract_job(
            str(folder / "in.jsonl"), str(tmp_path / "out"), JobSettings((model,)), engine="ray", address=address
        )
    assert time.monotonic() - began < 15


def test_command_starts_ray_and_ends_it_and_shows_nothing_of_it(
    folder: Path, model: str, modules: Path, undisturbed: Path
) -> None:
    command = [sys.executable, "-c", "from relatum.cli.app import run; run()", "extract", "--input", "in.jsonl"]
    command += ["--out", "alone", "--model", os.path.relpath(model, folder), "--engine", "ray", "--workers", "2"]
    command += ["--shard-documents", "4", "--set", "text.words=slow_words:split", "--device", "cpu"]
    path = os.pathsep.join([str(modules), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": path},
    )
    children: dict[int, str] = {}
    end = time.monotonic() + PATIENCE
    while process.poll() is None:
        assert time.monotonic() < end
        children |= descendants(process.pid)
        time.sleep(0.1)
    said, remarks = process.communicate()
    assert (process.returncode, said) == (0, "")
    *progress, last = remarks.splitlines()
    assert last == f"relatum: {N_DOCUMENTS} documents in, {N_DOCUMENTS} documents out, in {N_SHARDS} shards: alone"
    assert all(re.match(r"relatum: \d+ documents · ", line) for line in progress), (
        remarks
    )  # after 30 s on a busy machine
    assert_same(folder / "alone", undisturbed)
    assert sum(name.startswith("ray::MapWorker") for name in children.values()) == 2
    while left := [pid for pid in children if is_running(pid)]:
        assert time.monotonic() < end, f"{[children[pid] for pid in left]} are left"
        time.sleep(0.1)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
