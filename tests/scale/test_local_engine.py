"""Worker processes on this machine: killed, stopped, or given documents that end them, they lose nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relatum.errors import RelatumError
from relatum.scale import JobSettings, extract_job, local
from relatum.scale.progress import JobProgress
from relatum.scale.shards import ShardSize

from ..prepared import Prepared
from ..small_models import seal
from .jobs_here import make_texts, result_files, result_rows, write_jsonl

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the tests fork")

N_DOCUMENTS = 40
N_SHARDS = 10
WORDS = '''
import os
import time
from relatum.data.splitting import split_words


def split(text):
    """Split into words; some words end the process, or take their time."""
    if "deadly" in text:
        os._exit(13)
    if "failing" in text:
        raise RuntimeError("this word is not liked")
    if "lengthy" in text:
        time.sleep(1.5)
    time.sleep(0.02)
    return split_words(text)
'''
SPLITTING = (("words", "marked_words:split"),)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with functions that split text into words."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "marked_words.py").write_text(WORDS)
    (folder / "ending_words.py").write_text("import os\nos._exit(14)\n")
    return folder


@pytest.fixture(scope="module")
def python(modules: Path) -> Iterator[Prepared]:
    """A Python in which drivers and their workers are there at once."""
    preparation = f"import sys; sys.path[:0] = [{str(modules)!r}, {str(Path(__file__).parent)!r}]\n"
    with Prepared(f"{preparation}from driving import *\nfork_workers()\n") as prepared:
        yield prepared


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    records = [{"id": f"d{number}", "text": text} for number, text in enumerate(make_texts(N_DOCUMENTS))]
    return write_jsonl(folder / "in.jsonl", records)


class Caller:
    """Calls of drivers of jobs with the small model."""

    def __init__(self, python: Prepared, model: str) -> None:
        self._python, self._model = python, model

    def __call__(self, call: str, input: Path, out: Path, **options: Any) -> list[Any]:
        """What the drivers answered; `call` is a method of a `Driver` with its arguments."""
        options = {"model": self._model, "splitting": SPLITTING, **options}
        said = self._python.run(f"Driver({str(input)!r}, {str(out)!r}, **{options!r}).{call}")
        return [json.loads(line) for line in said.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def driver(python: Prepared, model: str) -> Caller:
    return Caller(python, model)


@pytest.fixture(scope="module")
def undisturbed(driver: Caller, documents: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of one worker that nobody disturbed."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    (report,) = driver("run()", documents, out)
    assert (report["finished"], report["documents"], report["failed"], report["shards"]) == (True, N_DOCUMENTS, 0, 10)
    return out


def assert_same(out: Path, undisturbed: Path) -> None:
    assert [row["id"] for row in result_rows(out)] == [f"d{number}" for number in range(N_DOCUMENTS)]
    assert result_files(out) == result_files(undisturbed)
    assert {path.name for path in out.iterdir()} == {*result_files(undisturbed), "_job"}  # no drafts are left


def test_results_do_not_depend_on_the_number_of_workers(
    driver: Caller, documents: Path, tmp_path: Path, undisturbed: Path
) -> None:
    (report,) = driver("run()", documents, tmp_path / "out", workers=2)
    assert report["started"] == 2
    assert_same(tmp_path / "out", undisturbed)


def test_real_processes_give_the_same_results_and_a_killed_one_is_replaced(
    documents: Path, model: str, modules: Path, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(modules), *os.environ.get("PYTHONPATH", "").split()]))
    workers: list[Any] = []
    ends: list[str] = []

    class Watched(local._Worker):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            workers.append(self)

        def close(self) -> str:
            ends.append(super().close())
            return ends[-1]

    def kill_first(progress: JobProgress) -> None:
        if progress.documents and len(workers) == 1:
            os.kill(workers[0].pid, signal.SIGKILL)

    monkeypatch.setattr(local, "_Worker", Watched)
    settings = JobSettings((model,), splitting=SPLITTING, shard=ShardSize(4))
    out = tmp_path / "out"
    report = extract_job(str(documents), str(out), settings, workers=1, threads=1, on_progress=kill_first)
    assert (report.finished, report.documents, report.failed) == (True, N_DOCUMENTS, 0)
    assert_same(out, undisturbed)
    assert ends == ["exit status -9", "exit status 0"]


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_workers_cost_no_document(
    driver: Caller, documents: Path, tmp_path: Path, undisturbed: Path, seed: int
) -> None:
    out = tmp_path / "out"
    (report,) = driver(f"run_while_workers_are_killed({seed}, 2)", documents, out, workers=2)
    assert (report["finished"], report["documents"], report["failed"]) == (True, N_DOCUMENTS, 0)
    assert report["started"] == 4
    assert_same(out, undisturbed)


def test_worker_that_dies_on_a_shared_gpu_takes_the_others_and_the_service_with_it(
    python: Prepared, driver: Caller, documents: Path, tmp_path: Path, undisturbed: Path
) -> None:
    out = tmp_path / "out"
    said = python.run(f"""
from relatum.scale import run
class Sharing:
    starts = 0
    environment = {{}}
    def start(self):
        Sharing.starts += 1
        self.environment = {{"SHARED": "yes"}}
    def stop(self):
        self.environment = {{}}
local.GpuSharing = Sharing
run._choose_engine = lambda *_: local.LocalEngine(2, 1, 1)
job = Driver({str(documents)!r}, {str(out)!r}, {driver._model!r}, splitting={SPLITTING!r})
job.run_while_workers_are_killed(5, 1)
print(Sharing.starts)
""")
    report, starts = (json.loads(line) for line in said.splitlines() if line.strip())
    assert (report["finished"], report["documents"], report["started"], starts) == (True, N_DOCUMENTS, 4, 2)
    assert_same(out, undisturbed)


@pytest.mark.parametrize("seed", [3, 4])
def test_job_whose_driver_is_killed_goes_on_at_the_next_call(
    driver: Caller, documents: Path, tmp_path: Path, undisturbed: Path, seed: int
) -> None:
    out = tmp_path / "out"
    (done,) = driver(f"be_killed({seed}, 3)", documents, out)
    assert done == sorted(done)
    assert 0 < done[0] < N_SHARDS
    (report,) = driver("run()", documents, out, workers=2)
    assert (report["finished"], report["documents"], report["failed"]) == (True, N_DOCUMENTS, 0)
    assert_same(out, undisturbed)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_job_that_is_asked_to_stop_finishes_the_shard_under_way_and_goes_on_later(
    driver: Caller, documents: Path, tmp_path: Path, undisturbed: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    (report,) = driver(f"be_signalled({number}, 2)", documents, out, workers=2)
    assert not report["finished"]
    assert 2 <= report["shards"] < N_SHARDS
    assert report["documents"] == 4 * report["shards"]
    assert len(result_files(out)) == report["shards"]
    (report,) = driver("run()", documents, out)
    assert (report["finished"], report["documents"]) == (True, N_DOCUMENTS)
    assert_same(out, undisturbed)


def test_job_that_is_stopped_near_its_end_is_not_called_finished(driver: Caller, tmp_path: Path) -> None:
    texts = ["a lengthy text", "Tom met Ann.", "Ann met Tom."]  # the last one waits for the worker of the first
    input = write_jsonl(tmp_path / "in.jsonl", [{"text": text} for text in texts])
    out = tmp_path / "out"
    (report,) = driver(f"be_signalled({signal.SIGTERM}, 1)", input, out, workers=2, shard=1)
    assert report["finished"] == (len(result_rows(out)) == 3)
    (report,) = driver("run()", input, out, shard=1)
    assert (report["finished"], report["documents"]) == (True, 3)
    assert len(result_rows(out)) == 3


def test_document_that_ends_its_process_costs_one_row_and_the_job_is_finished(driver: Caller, tmp_path: Path) -> None:
    texts = make_texts(9)
    texts[5] = "a deadly text"
    input = write_jsonl(tmp_path / "in.jsonl", [{"text": text} for text in texts])
    (report,) = driver("run()", input, tmp_path / "out", workers=2, shard=3)
    assert (report["finished"], report["documents"], report["failed"]) == (True, 9, 1)
    rows = result_rows(tmp_path / "out")
    assert [row["text"] for row in rows] == texts
    assert [row["error"] is None for row in rows] == [*[True] * 5, False, *[True] * 3]
    assert rows[5]["error"].startswith("the process that read this document ended without an error")


def test_several_documents_that_end_their_processes_cost_one_row_each(driver: Caller, tmp_path: Path) -> None:
    texts = ["a deadly text", "Tom met Ann.", "another deadly text", "a deadly text"]
    input = write_jsonl(tmp_path / "in.jsonl", [{"text": text} for text in texts])
    (report,) = driver("run()", input, tmp_path / "out", shard=3)
    assert (report["finished"], report["documents"], report["failed"]) == (True, 4, 3)
    assert [row["error"] is None for row in result_rows(tmp_path / "out")] == [False, True, False, False]


def test_poisoned_documents_cost_one_row_each(driver: Caller, documents: Path, tmp_path: Path) -> None:
    poisons = [
        json.dumps({"text": "x" * 2**20}).encode(),
        b'{"text": "a\\ud800b"}',
        b'{"text": null}',
        b'{"text": "\xff"}',
        b'{"text": "a failing text"}',
        b'{"text": ["Tom met Ann."]}',
        b'{"text": "Tom met',
    ]
    good = documents.read_bytes().splitlines()[:8]
    mixed: list[bytes] = []
    for poison, line in zip([*poisons, None], good, strict=True):
        mixed += [line] if poison is None else [line, poison]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(mixed))
    (report,) = driver("run()", tmp_path / "in.jsonl", tmp_path / "out")
    assert (report["documents"], report["failed"], report["started"]) == (15, 7, 1)
    rows = result_rows(tmp_path / "out")
    assert [row["error"] is None for row in rows] == [True, False] * 7 + [True]
    assert [row["id"] for row in rows if row["error"] is None] == [f"d{number}" for number in range(8)]


def test_longest_text_that_is_read_is_read(driver: Caller, tmp_path: Path) -> None:
    input = write_jsonl(tmp_path / "in.jsonl", [{"text": "x" * 400_000}, {"text": "Tom met Ann."}])
    (report,) = driver("run()", input, tmp_path / "out")
    assert (report["documents"], report["failed"]) == (2, 0)


def test_model_that_does_not_exist_is_an_error(documents: Path, tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match="no-model: no such model"):
        extract_job(str(documents), str(tmp_path / "out"), JobSettings((str(tmp_path / "no-model"),)))


def test_model_that_cannot_be_loaded_is_an_error(driver: Caller, documents: Path, model: str, tmp_path: Path) -> None:
    broken = tmp_path / "model"
    shutil.copytree(model, broken)
    weights = next(broken.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-100])
    seal(broken)
    (answer,) = driver("run()", documents, tmp_path / "out", model=str(broken))
    assert weights.name in answer["refused"]
    assert answer["started"] == 1


def test_splitting_function_that_is_not_there_is_an_error(driver: Caller, documents: Path, tmp_path: Path) -> None:
    (answer,) = driver("run()", documents, tmp_path / "out", splitting=(("words", "no_module:split"),))
    assert "no_module" in answer["refused"]
    assert answer["started"] == 1


def test_worker_that_never_starts_is_an_error_and_not_started_for_ever(
    driver: Caller, documents: Path, tmp_path: Path
) -> None:
    (answer,) = driver("run()", documents, tmp_path / "out", splitting=(("words", "ending_words:split"),))
    assert answer["refused"].startswith("a worker process cannot start: exit status 14")
    assert answer["started"] == 3


@pytest.mark.parametrize(
    ("defect", "message", "started"),
    [
        ("raise ValueError('a defect')", "shard 0: ValueError: a defect; run the same command again to go on", 1),
        ("os._exit(15)", "shard 0 ended 6 processes, and none of its documents is the reason", 7),
    ],
)
def test_shard_that_cannot_be_written_is_an_error_and_not_read_for_ever(
    python: Prepared, driver: Caller, documents: Path, tmp_path: Path, defect: str, message: str, started: int
) -> None:
    said = python.run(f"""
def fail(*_):
    {defect}
worker.to_bytes = fail
Driver({str(documents)!r}, {str(tmp_path / "out")!r}, {driver._model!r}).run()
""")
    answer = json.loads(said)
    assert answer["refused"].startswith(message)
    assert answer["started"] == started


def test_folder_in_which_another_process_works_is_refused(
    driver: Caller, documents: Path, tmp_path: Path, undisturbed: Path
) -> None:
    refused, report = driver("be_joined()", documents, tmp_path / "out")
    assert "another process is working on this job; wait for it, or stop it" in refused["refused"]
    assert (report["finished"], report["documents"]) == (True, N_DOCUMENTS)
    assert_same(tmp_path / "out", undisturbed)


def test_workers_do_not_outlive_their_driver(driver: Caller, python: Prepared, tmp_path: Path) -> None:
    input = write_jsonl(tmp_path / "in.jsonl", [{"text": "a lengthy text"}] * 20)
    said = python.run(f"""
import os, signal, time
driver = Driver({str(input)!r}, {str(tmp_path / "out")!r}, {driver._model!r}, 2, 1, splitting={SPLITTING!r})
pid = driver.begin()
driver.wait_for_shards(1)
children = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat")
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid]
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
end = time.monotonic() + 10
while any(Path(f"/proc/{{child}}").exists() for child in children) and time.monotonic() < end:
    time.sleep(0.05)
print([len(children), sum(Path(f"/proc/{{child}}").exists() for child in children)])
""")
    assert json.loads(said) == [2, 0]


def test_progress_counts_documents_and_errors(documents: Path, tmp_path: Path, driver: Caller) -> None:
    out = tmp_path / "out"
    call = "run(lambda now: print(json.dumps([now.documents, now.share, now.is_final])))"
    *seen, report = driver(call, documents, out)
    assert report["finished"]
    counts = [documents for documents, _, _ in seen]
    assert counts == sorted(counts)
    assert seen[-1] == [N_DOCUMENTS, pytest.approx(1), True]
    assert not any(is_final for _, _, is_final in seen[:-1])
