"""Tables of documents in a pipeline of your own."""

from __future__ import annotations

from math import nan
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.scale import extract_batch
from relatum.scale.batch import load_once, result_types

from .jobs_here import make_texts

TEXTS = make_texts(4)
MIXED: list[Any] = [TEXTS[0], None, TEXTS[1], "a\ud800b", 7, "x" * 101, TEXTS[2]]


@pytest.fixture(scope="module")
def extractor(model: str) -> Extractor:
    return Extractor.from_pretrained(model, "cpu")


@pytest.fixture(scope="module")
def expected(extractor: Extractor) -> list[dict[str, Any]]:
    return [extractor(text).to_dict() for text in TEXTS]


def columns_of(batch: Any) -> dict[str, list[Any]]:
    if isinstance(batch, pd.DataFrame):
        return {str(name): list(batch[name]) for name in batch.columns}
    return dict(batch) if isinstance(batch, dict) else batch.to_pydict()


BATCHES = {
    "DataFrame": lambda columns: pd.DataFrame(columns),
    "odd index": lambda columns: pd.DataFrame(columns, index=[3, 3, 0, -1][: len(columns["text"])]),
    "Arrow table": lambda columns: pa.table(columns),
    "chunked Arrow table": lambda columns: pa.concat_tables(
        [pa.table(columns).slice(0, 1), pa.table(columns).slice(1)]
    ),
    "record batch": lambda columns: pa.RecordBatch.from_pydict(columns),
    "dict": lambda columns: columns,
}


@pytest.mark.parametrize("kind", BATCHES)
def test_batch_of_any_kind_has_the_findings_of_each_text_in_new_columns(
    extractor: Extractor, expected: list[dict[str, Any]], kind: str
) -> None:
    batch = BATCHES[kind]({"key": [1, 2, 3, 4], "text": TEXTS})
    answer = extract_batch(batch, extractor)
    assert type(answer) is type(batch)
    columns = columns_of(answer)
    assert list(columns) == ["key", "text", "entities", "relations", "error"]
    assert columns["key"] == [1, 2, 3, 4]
    assert columns["text"] == TEXTS
    assert columns["entities"] == [record["entities"] for record in expected]
    assert columns["relations"] == [record["relations"] for record in expected]
    assert columns["error"] == [None] * 4
    assert list(columns_of(batch)) == ["key", "text"]  # as it was given


def test_frame_keeps_its_index(extractor: Extractor, expected: list[dict[str, Any]]) -> None:
    frame = pd.DataFrame({"text": TEXTS}, index=pd.Index(["b", "a", "b", "c"], name="key"))
    answer = extract_batch(frame, extractor)
    assert answer.index.equals(frame.index)
    assert answer.index.name == "key"
    assert list(answer["entities"]) == [record["entities"] for record in expected]
    part = extract_batch(frame[frame.index == "c"], extractor)
    assert list(part["entities"]) == [expected[3]["entities"]]


def test_columns_of_arrow_have_the_types_of_results(extractor: Extractor) -> None:
    answer = extract_batch(pa.table({"text": TEXTS}), extractor)
    for name, type in result_types().items():
        assert answer.schema.field(name).type == type


def test_texts_that_cannot_be_read_have_the_reason_in_the_error_column(
    extractor: Extractor, expected: list[dict[str, Any]]
) -> None:
    answer = extract_batch({"text": MIXED}, extractor, max_characters=max(map(len, TEXTS)))
    assert [error is None for error in answer["error"]] == [True, False, True, False, False, True, True]
    answer = extract_batch({"text": MIXED}, extractor, max_characters=100)
    assert answer["error"][5] == "the text has 101 characters; at most 100 are read (max_characters)"
    answer = extract_batch({"text": MIXED}, extractor)
    assert [answer["entities"][number] for number in (0, 2, 6)] == [expected[n]["entities"] for n in (0, 1, 2)]
    assert answer["entities"][1] is answer["relations"][1] is None
    assert answer["error"][1] == "the text is missing"
    assert answer["error"][3] == "character 1 is the lone surrogate U+D800, which no file can hold as text"
    assert answer["error"][4] == "the text is of type int; expected a string"


@pytest.mark.parametrize(
    "texts",
    [
        pd.Series(["Tom met Ann.", None]),
        pd.Series(["Tom met Ann.", nan], dtype=object),
        pd.Series(["Tom met Ann.", None], dtype="string"),
        pd.Series(["Tom met Ann.", pd.NA], dtype=object),
    ],
    ids=["str", "object", "string", "NA"],
)
def test_missing_texts_of_pandas_are_errors_of_their_rows(extractor: Extractor, texts: Any) -> None:
    answer = extract_batch(pd.DataFrame({"text": texts}), extractor)
    assert list(answer["error"]) == [None, "the text is missing"]
    assert answer["entities"][1] is None


def test_text_that_the_model_fails_on_costs_no_other_text(
    extractor: Extractor, expected: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    split = type(extractor).split

    def fail(self: Extractor, text: str) -> Any:
        if text == "bad":
            raise RuntimeError("no such word")
        return split(self, text)

    monkeypatch.setattr(type(extractor), "split", fail)
    answer: dict[str, Any] = extract_batch({"text": [TEXTS[0], "bad", TEXTS[1]]}, extractor)
    assert [answer["entities"][number] for number in (0, 2)] == [expected[n]["entities"] for n in (0, 1)]
    assert answer["error"][0] is answer["error"][2] is None
    assert "no such word" in answer["error"][1]


def test_failed_gpu_is_raised(extractor: Extractor, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(type(extractor), "pipe", fail)
    with pytest.raises(RuntimeError, match="CUDA error"):
        extract_batch({"text": TEXTS}, extractor)


@pytest.mark.parametrize("kind", [kind for kind in BATCHES if "chunked" not in kind])
def test_empty_batch_has_the_new_columns(extractor: Extractor, kind: str) -> None:
    batch = BATCHES[kind]({"text": []})
    answer = extract_batch(batch, extractor)
    assert type(answer) is type(batch)
    assert columns_of(answer) == {"text": [], "entities": [], "relations": [], "error": []}


@pytest.mark.parametrize("kind", BATCHES)
def test_missing_column_is_told_with_those_that_are_there(extractor: Extractor, kind: str) -> None:
    batch = BATCHES[kind]({"key": [1, 2], "text": TEXTS[:2]})
    with pytest.raises(RelatumError, match="the batch has no column 'body'; its columns are key, text"):
        extract_batch(batch, extractor, text_column="body")


def test_text_column_can_have_another_name(extractor: Extractor, expected: list[dict[str, Any]]) -> None:
    answer = extract_batch({"body": TEXTS}, extractor, text_column="body")
    assert answer["entities"] == [record["entities"] for record in expected]


def test_batch_that_is_no_table_is_refused(extractor: Extractor) -> None:
    with pytest.raises(TypeError, match=r"expected a pandas DataFrame, .* or a dict of lists, found builtins\.list"):
        extract_batch(TEXTS, extractor)


def test_threshold_leaves_out_lower_scores(extractor: Extractor) -> None:
    answer = extract_batch({"text": TEXTS}, extractor, threshold=0.9)
    for text, entities in zip(TEXTS, answer["entities"], strict=True):
        assert entities == extractor(text, threshold=0.9).to_dict()["entities"]


def test_threshold_that_is_no_score_is_refused(extractor: Extractor) -> None:
    with pytest.raises(ValueError, match="threshold is 7"):
        extract_batch({"text": TEXTS}, extractor, threshold=7)


def test_model_given_by_name_is_loaded_once(extractor: Extractor, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[object] = []

    def load(_: object, name: object) -> Extractor:
        loaded.append(name)
        return extractor

    monkeypatch.setattr(Extractor, "from_pretrained", classmethod(load))
    load_once.cache_clear()
    for _ in range(3):
        extract_batch({"text": TEXTS[:1]}, model)
        extract_batch({"text": TEXTS[:1]}, [model, model])
    assert loaded == [model, (model, model)]
    load_once.cache_clear()


@pytest.mark.parametrize("kind", ["DataFrame", "Arrow table", "dict"])
@pytest.mark.parametrize("name", ["entities", "relations", "error"])
def test_columns_of_the_results_that_are_there_already_are_refused(extractor: Extractor, kind: str, name: str) -> None:
    batch = BATCHES[kind]({"text": TEXTS[:1], name: ["mine"]})
    with pytest.raises(RelatumError, match=f"the batch has a column '{name}' already; rename it"):
        extract_batch(batch, extractor)


def test_frame_with_two_columns_of_texts_is_refused(extractor: Extractor) -> None:
    frame = pd.DataFrame([["a", "b"], ["c", "d"]], columns=["text", "text"])
    with pytest.raises(RelatumError, match="the batch has a column 'text' already"):
        extract_batch(frame, extractor)


def test_single_string_is_refused(extractor: Extractor) -> None:
    with pytest.raises(RelatumError, match="the column 'text' is a single string"):
        extract_batch({"text": "Tom met Ann."}, extractor)
