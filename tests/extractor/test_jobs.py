"""Batches through the network: one at a time on a CPU, one ahead on a GPU, always in their order."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from relatum.extractor import jobs
from relatum.extractor.jobs import Job, Window, do_jobs
from relatum.types import Annotation, Span


def run(monkeypatch: pytest.MonkeyPatch, device: str, n_jobs: int, fail_at: int | None = None) -> tuple[Any, list[str]]:
    """The answers, and what was done in which order."""
    done: list[str] = []

    def score(_: Any, words: Any) -> Any:
        done.append(f"score {words[0][0]}")
        if words[0][0] == str(fail_at):
            raise RuntimeError("out of memory")
        return words

    def finish(_: Any, job: Job, scores: Any) -> tuple[Job, list[Annotation]]:
        assert scores is job.words
        done.append(f"decode {job.words[0][0]}")
        return job, [Annotation()]

    def given() -> Iterator[Job]:
        for number in range(n_jobs):
            yield Job([Window(number, Span(0, 1))], [(str(number),)], None)

    monkeypatch.setattr(jobs, "_score", score)
    monkeypatch.setattr(jobs, "_finish", finish)
    model: Any = SimpleNamespace(device=SimpleNamespace(type=device))
    answers = []
    try:
        for job, _ in do_jobs(model, given()):
            answers.append(job.windows[0].sentence)
    except RuntimeError as error:
        done.append(str(error))
    return answers, done


def test_cpu_finishes_each_job_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, done = run(monkeypatch, "cpu", 2)
    assert answers == [0, 1]
    assert done == ["score 0", "decode 0", "score 1", "decode 1"]


def test_gpu_has_the_next_job_while_one_is_decoded_and_never_more(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, done = run(monkeypatch, "cuda", 3)
    assert answers == [0, 1, 2]
    assert done == ["score 0", "score 1", "decode 0", "score 2", "decode 1", "decode 2"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_no_jobs_have_no_answers(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    assert run(monkeypatch, device, 0) == ([], [])


def test_failure_of_a_job_is_raised_and_nothing_is_done_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, done = run(monkeypatch, "cuda", 4, fail_at=2)
    assert answers == [0]
    assert done == ["score 0", "score 1", "decode 0", "score 2", "out of memory"]
