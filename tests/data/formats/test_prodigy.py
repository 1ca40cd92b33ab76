from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relatum.data.corpus import open_corpus
from relatum.data.formats.prodigy import FORMAT
from relatum.data.problems import Problems
from relatum.types import Annotation, Document, Entity, Relation, Span

ReadAs = Callable[[str, str | bytes], tuple[list[Document], Problems]]

TEXT = "Mara Ilves runs Tarn 🙂."
MARA = {"start": 0, "end": 10, "token_start": 0, "token_end": 1, "label": "PERSON"}
TARN = {"start": 16, "end": 20, "token_start": 3, "token_end": 3, "label": "ORG"}
# As rel.manual writes it.
TASK: dict[str, Any] = {
    "text": TEXT,
    "meta": {"source": "news"},
    "_input_hash": -131214,
    "_task_hash": 99,
    "tokens": [
        {"text": "Mara", "start": 0, "end": 4, "id": 0, "ws": True, "disabled": False},
        {"text": "Ilves", "start": 5, "end": 10, "id": 1, "ws": True, "disabled": False},
        {"text": "runs", "start": 11, "end": 15, "id": 2, "ws": True, "disabled": False},
        {"text": "Tarn", "start": 16, "end": 20, "id": 3, "ws": True, "disabled": False},
        {"text": "🙂", "start": 21, "end": 22, "id": 4, "ws": False, "disabled": False},
        {"text": ".", "start": 22, "end": 23, "id": 5, "ws": False, "disabled": False},
    ],
    "_view_id": "relations",
    "spans": [MARA, TARN],
    "relations": [
        {"head": 1, "child": 3, "head_span": MARA, "child_span": TARN, "color": "#c5bdf4", "label": "WORKS_FOR"}
    ],
    "answer": "accept",
    "_timestamp": 1700000000,
}
PERSON, ORG = Entity(Span(0, 10), "PERSON"), Entity(Span(16, 20), "ORG")
METADATA = {
    "meta": {"source": "news"},
    "_input_hash": -131214,
    "_task_hash": 99,
    "_view_id": "relations",
    "_timestamp": 1700000000,
}
DOCUMENT = Document("data-1", TEXT, Annotation((PERSON, ORG), (Relation(PERSON, ORG, "WORKS_FOR"),)), metadata=METADATA)


def lines(*tasks: object) -> str:
    return "".join(json.dumps(task) + "\n" for task in tasks)


def test_prodigy_reads_spans_and_relations_and_keeps_hashes_as_metadata(read_as: ReadAs) -> None:
    documents, problems = read_as("prodigy", lines(TASK))
    assert documents == [DOCUMENT]
    assert [line.partition(" (first")[0] for line in problems.remark_lines()] == [
        "1 × tokens that are not read as words, as the task does not say what its sentences are"
    ]


def test_prodigy_leaves_out_and_counts_tasks_that_were_not_accepted(read_as: ReadAs) -> None:
    tasks = TASK, {**TASK, "answer": "reject"}, {**TASK, "answer": "ignore"}, {**TASK, "answer": "reject"}
    documents, problems = read_as("prodigy", lines(*tasks))
    assert documents == [DOCUMENT]
    assert problems.remarks["task left out, as its answer is reject"] == 2
    assert problems.remarks["task left out, as its answer is ignore"] == 1


def test_prodigy_finds_ends_of_relations_by_their_tokens(read_as: ReadAs) -> None:
    relations = [{"head": 0, "child": 3, "label": "R"}, {"head": 2, "child": 3, "label": "R"}]
    (document,), problems = read_as("prodigy", lines({**TASK, "relations": relations}))
    assert document.annotation.relations == (Relation(PERSON, ORG, "R"),)
    assert problems.remarks["relation left out, as it begins or ends at a token without a labelled span"] == 1


def test_prodigy_tells_spans_at_one_place_apart_by_their_labels(read_as: ReadAs) -> None:
    other = {**TARN, "label": "SHIP"}
    relations = [{"head": 1, "child": 3, "head_span": MARA, "child_span": other, "label": "R"}]
    (document,), _ = read_as("prodigy", lines({**TASK, "spans": [MARA, TARN, other], "relations": relations}))
    assert document.annotation.relations[0].tail == Entity(Span(16, 20), "SHIP")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": 5}, "text: found 5; expected a string"),
        ({"answer": "yes"}, 'answer: found "yes"; expected accept, reject, ignore'),
        ({"spans": [{"start": 0, "end": 99, "label": "X"}]}, "expected 0 <= start < end <= 23, in characters"),
        ({"spans": [{"start": 0, "end": 3}]}, "expected the key 'label'"),
        ({"relations": [{"head": 9, "child": 0, "label": "R"}]}, "relations[0].head: found 9"),
        ({"relations": [{"label": "R"}]}, "expected the key 'head'"),
        ({"sentences": [[0, 5]]}, "sentences: found sentences of 5; expected sentences of all 6 tokens"),
        ({"sentences": [[1, 6]]}, "expected a sentence that begins with token 0"),
        ({"sentences": [[0, 6]], "tokens": TASK["tokens"][::-1]}, "expected tokens in the order of the text"),
    ],
)
def test_prodigy_reports_what_is_wrong_with_a_task(read_as: ReadAs, changes: dict[str, Any], message: str) -> None:
    documents, problems = read_as("prodigy", lines(TASK, {**TASK, **changes}))
    assert len(documents) == 1
    (problem,) = problems.kept
    assert (problem.line, problem.record) == (2, 2)
    assert message in str(problem)


def test_prodigy_writes_tokens_and_their_numbers(tmp_path: Path) -> None:
    FORMAT.write(tmp_path / "a.jsonl", [DOCUMENT])
    (record,) = map(json.loads, (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines())
    tokens = [{key: value for key, value in token.items() if key != "disabled"} for token in TASK["tokens"]]
    relations = [{key: value for key, value in TASK["relations"][0].items() if key != "color"}]
    assert record == {**TASK, "id": "data-1", "tokens": tokens, "relations": relations}


def test_prodigy_keeps_words_and_sentences(tmp_path: Path) -> None:
    words = tuple(Span(token["start"], token["end"]) for token in TASK["tokens"])
    document = Document("a", TEXT, DOCUMENT.annotation, words, (Span(0, 4), Span(4, 6)))
    FORMAT.write(tmp_path / "a.jsonl", [document])
    problems = Problems()
    assert list(FORMAT.read(tmp_path / "a.jsonl", problems)) == [document]
    assert not problems.remarks


@pytest.mark.parametrize(
    ("record", "is_prodigy"),
    [
        (TASK, True),
        ({"text": "a", "spans": [{"start": 0, "end": 1, "label": "X"}]}, True),
        ({"text": "a", "answer": "reject"}, True),
        ({"text": "a", "spans": []}, False),
        ({"text": "a", "answer": "42"}, False),
        ({"text": "a", "_input_hash": 1}, True),
        ({"text": "a", "entities": []}, False),
        ({"text": "a", "label": [[0, 1, "X"]]}, False),
        ({"words": ["a"]}, False),
        ([], False),
    ],
)
def test_prodigy_is_recognised_by_its_keys(tmp_path: Path, record: object, is_prodigy: bool) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines(record), encoding="utf-8")
    assert FORMAT.recognise(path) == is_prodigy
    if is_prodigy:
        assert open_corpus(path).format_names == "prodigy"
