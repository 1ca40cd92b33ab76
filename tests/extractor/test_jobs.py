"""Batches through the network: one at a time on a CPU, one ahead on a GPU, always in their order."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from relatum.config import load_config
from relatum.config.sections import DecodingConfig
from relatum.encoders.base import EncoderInput
from relatum.errors import RelatumError
from relatum.extractor import jobs
from relatum.extractor.jobs import Job, Window, do_jobs
from relatum.models.build import build_model
from relatum.runtime.base import select
from relatum.schema import RelationType, Schema
from relatum.tagging.sequence import SequenceTags
from relatum.tagging.table import TableTags
from relatum.tagging.tagging import Tagging
from relatum.types import Annotation, Context, Entity, Relation, Span

NO_RUNTIME: Any = None
"""Nothing is read: the tests put something else in the place of scoring."""


def run(monkeypatch: pytest.MonkeyPatch, device: str, n_jobs: int, fail_at: int | None = None) -> tuple[Any, list[str]]:
    """The answers, and what was done in which order."""
    done: list[str] = []

    def score(_: Any, job: Job) -> Any:
        words = job.words
        assert job.batch.context is None
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
            yield Job([Window(number, Span(0, 1))], EncoderInput([(str(number),)]), None)

    monkeypatch.setattr(jobs, "_score", score)
    monkeypatch.setattr(jobs, "_finish", finish)
    model: Any = SimpleNamespace(device=device)
    answers = []
    try:
        for job, _ in do_jobs(model, NO_RUNTIME, given()):
            answers.append(job.windows[0].sentence)
    except RuntimeError as error:
        done.append(str(error))
    return answers, done


def read_with_room_for(
    monkeypatch: pytest.MonkeyPatch, n_sentences: int, sizes: list[int], device: str = "cuda"
) -> tuple[list[int], list[int]]:
    """The sentences in the order of their answers, and how many were tried at once; a job under way takes room, too."""
    tried: list[int] = []
    on_device: list[int] = []

    def score(_: Any, job: Job) -> Any:
        words, context = job.words, job.batch.context
        assert context is not None
        assert [words[-1] for words in words] == [one.before[0] for one in context]
        tried.append(len(words))
        if sum(on_device) + len(words) > n_sentences:
            raise torch.OutOfMemoryError("CUDA out of memory")
        on_device.append(len(words))
        return words

    def finish(_: Any, job: Job, scores: Any) -> tuple[Job, list[Annotation]]:
        assert scores is job.words
        assert job.given is not None
        assert len(job.given) == len(job.windows) == len(job.words) == on_device.pop(0)
        return job, [Annotation(one) for one in job.given]

    entity = Entity(Span(0, 1), "A")
    numbers = iter(range(sum(sizes)))
    given = []
    for size in sizes:
        windows = [Window(next(numbers), Span(0, 3)) for _ in range(size)]
        context = [Context((str(one.sentence),)) for one in windows]
        batch = EncoderInput([("a", "b", str(one.sentence)) for one in windows], context)
        given.append(Job(windows, batch, [(entity,)] * size))
    monkeypatch.setattr(jobs, "_score", score)
    monkeypatch.setattr(jobs, "_finish", finish)
    model: Any = SimpleNamespace(device=device)
    answers = []
    for job, found in do_jobs(model, NO_RUNTIME, given):
        assert len(found) == len(job.windows)
        assert [words[-1] for words in job.words] == [str(window.sentence) for window in job.windows]
        answers += [window.sentence for window in job.windows]
    return answers, tried


@pytest.mark.parametrize("n_fit", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_jobs_that_do_not_fit_are_divided_and_answered_in_order(
    monkeypatch: pytest.MonkeyPatch, n_fit: int, device: str
) -> None:
    assert read_with_room_for(monkeypatch, n_fit, [5, 1, 8, 2], device)[0] == list(range(16))


def test_jobs_as_large_as_one_that_did_not_fit_are_not_tried_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_with_room_for(monkeypatch, 4, [8, 8, 3], "cpu")[1] == [8, 4, 4, 4, 4, 3]


def test_sentence_that_does_not_fit_by_itself_is_told_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RelatumError, match=r"a sentence of 3 words does not fit .*lower max_cells .*in windows"):
        read_with_room_for(monkeypatch, 0, [2])


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


def test_scores_of_a_batch_are_decoded_for_the_words_of_each_window() -> None:
    schema = Schema(("X",), (RelationType("r"),))
    model: Any = SimpleNamespace(
        tagging=Tagging(schema, SequenceTags(schema), TableTags(schema)),
        config=SimpleNamespace(decoding=DecodingConfig()),
    )
    of_words, of_cells = torch.zeros(2, 3, 3), torch.zeros(2, 3, 3, 3)
    of_words[:, :, 1] = 9.0  # B-X everywhere, in padding too
    of_cells[..., 0] = 5.0
    of_cells[1, 0, 1, 1] = of_cells[1, 1, 0, 2] = of_cells[1, 0, 2, 1] = of_cells[1, 2, 0, 2] = 9.0
    job = Job([Window(0, Span(0, 3)), Window(1, Span(0, 2))], EncoderInput([("a", "b", "c"), ("d", "e")]), None)
    _, (first, second) = jobs._finish(model, job, jobs._Scores.fetch(of_words.bfloat16(), of_cells.bfloat16()))
    x = [Entity(Span(word, word + 1), "X") for word in range(3)]
    assert first == Annotation(tuple(x))
    assert second == Annotation((x[0], x[1]), (Relation(x[0], x[1], "r"),))


def test_scores_are_decoded_as_the_model_is_set() -> None:
    schema = Schema(("X", "Y"), (RelationType("r", head_labels=("X",), tail_labels=("Y",)),))
    of_words, of_cells = torch.zeros(1, 2, 5), torch.zeros(1, 2, 2, 3)
    of_words[0, 0, 2] = of_words[0, 1, 1] = 9.0  # I-X B-X
    of_words[0, 0, 1] = 8.0
    of_cells[..., 1] = of_cells[..., 2] = 9.0
    of_cells[0, 0, 1, 1] = of_cells[0, 1, 0, 2] = 10.0
    job = Job([Window(0, Span(0, 2))], EncoderInput([("a", "b")]), None)

    def found(**settings: Any) -> Annotation:
        decoding = DecodingConfig(**settings)
        tagging = Tagging(schema, SequenceTags(schema), TableTags(schema))
        model: Any = SimpleNamespace(tagging=tagging, config=SimpleNamespace(decoding=decoding))
        return jobs._finish(model, job, jobs._Scores.fetch(of_words, of_cells))[1][0]

    assert len(found().entities) == 1
    both = found(entities="viterbi")
    assert [len(both.entities), len(both.relations)] == [2, 1]
    assert found(entities="viterbi", constraints="schema") == Annotation(both.entities)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_gpu_is_not_waited_for_before_its_scores_are_needed() -> None:
    settings = ("encoder.kind=none", "model.width=8", "model.n_layers=1", "sequence.n_attention_heads=2")
    schema = Schema(("X",), (RelationType("r"),))
    model = build_model(load_config(None, settings), schema, None, None, "abc").to("cuda")
    runtime = select(model)
    job = Job([Window(0, Span(0, 2)), Window(1, Span(0, 1))], EncoderInput([("cab", "a"), ("b",)]), None)
    jobs._score(runtime, job).wait()  # whatever is compiled or reserved once
    torch.cuda.set_sync_debug_mode("error")
    try:
        scores = jobs._score(runtime, job)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.from_numpy(scores.wait()[0]).isfinite().all()
