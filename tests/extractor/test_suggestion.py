"""Tasks for annotation tools, made of texts and what a model finds in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import relatum
from relatum.data.formats import get_format
from relatum.data.formats.label_studio.labeling import LabelingConfig
from relatum.data.problems import Problems
from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.extractor.suggestion import find_units, suggest
from relatum.types import Document, Span

from ..small_models import make_small_model

TEXT = "🙂 Mara Ilves works here. The ferry left.\n\n \nShe lives in Oldhaven.\r\n\r\n  Amsel is a port.\n"
TEXTS = [
    "Mara Ilves works for Tarn Shipping in Oldhaven.",
    "The ferry left Port Amsel on Tuesday, she said.",
    "She said so to the Tarn Shipping people of Oldhaven and Port Amsel.",
    "   ",
]


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    return Extractor(make_small_model())


def read_tasks(path: Path) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return tasks


def test_tasks_have_predictions_with_scores_and_the_labels_of_the_model(extractor: Extractor, tmp_path: Path) -> None:
    done = suggest(TEXTS, tmp_path / "tasks.json", model=extractor, sort="as-is")
    assert done.written == (tmp_path / "tasks.json", tmp_path / "tasks.labeling_config.xml")
    assert (done.n_tasks, done.n_possible, done.model_version) == (3, 3, "relatum")
    assert done.problems.remarks == {"text without words, left out": 1}
    config = LabelingConfig.parse(done.written[1].read_text(encoding="utf-8"))
    assert config == LabelingConfig.of_schema(extractor.model.schema)
    tasks = read_tasks(tmp_path / "tasks.json")
    assert [task["data"] for task in tasks] == [{"text": text} for text in TEXTS[:3]]
    assert [task["meta"] for task in tasks] == [{"document": f"text-{number}"} for number in (1, 2, 3)]
    assert any(item["type"] == "relation" for task in tasks for item in task["predictions"][0]["result"])
    for task, text in zip(tasks, TEXTS, strict=False):
        assert "annotations" not in task
        (prediction,) = task["predictions"]
        found = extractor(text)
        assert prediction["score"] == round(found.document.annotation.mean_score() or 0, 4)
        assert [item["id"] for item in prediction["result"] if item["type"] == "labels"] == [
            entity.id for entity in found.entities
        ]


def test_predictions_are_never_read_as_annotations(extractor: Extractor, tmp_path: Path) -> None:
    suggest(TEXTS, tmp_path / "tasks.json", model=extractor)
    problems = Problems()
    assert list(get_format("label-studio").read(tmp_path / "tasks.json", problems)) == []
    assert problems.remarks == {"task that nobody has annotated, left out": 3, "predictions left out": 3}


def test_uncertain_tasks_come_first_and_tasks_without_findings_last(tmp_path: Path) -> None:
    news = Extractor.from_pretrained("news")
    texts = [
        "Ingrid Solheim lives in Bergen, Norway.",
        "It rained.",
        "Xof said Grumpf 17 May Abc lives near Foo or so.",
    ]
    done = suggest(texts, tmp_path / "tasks.json", model=news)
    scores = [task["predictions"][0]["score"] for task in read_tasks(tmp_path / "tasks.json")]
    assert scores[0] < scores[1]
    assert scores[2] is None
    assert done.n_empty == 1
    assert done.model_version.startswith("news-")
    suggest(texts, tmp_path / "first.json", model=news, limit=1)
    assert read_tasks(tmp_path / "first.json") == read_tasks(tmp_path / "tasks.json")[:1]


def test_texts_are_divided_into_units_with_their_places(extractor: Extractor, tmp_path: Path) -> None:
    parts = {
        "document": [TEXT],
        "paragraph": ["🙂 Mara Ilves works here. The ferry left.", "She lives in Oldhaven.", "Amsel is a port."],
        "sentence": ["🙂 Mara Ilves works here.", "The ferry left.", "She lives in Oldhaven.", "Amsel is a port."],
    }
    for unit in ("document", "paragraph", "sentence"):
        assert [span.of(TEXT) for span in find_units(TEXT, unit, extractor)] == parts[unit]
        assert find_units(" \n\n ", unit, extractor) == []
    document = Document("a/b", TEXT, metadata={"by": "me"})
    suggest([document], tmp_path / "tasks.json", model=extractor, unit="paragraph", sort="as-is")
    tasks = read_tasks(tmp_path / "tasks.json")
    assert [task["data"]["text"] for task in tasks] == parts["paragraph"]
    for number, task in enumerate(tasks, 1):
        start = task["meta"]["start"]
        assert TEXT[start:].startswith(task["data"]["text"])
        assert task["meta"] == {"document": f"a/b#{number}", "by": "me", "source": "a/b", "start": start}


def test_sentences_of_a_model_that_reads_passages_become_tasks_too() -> None:
    passages = Extractor(make_small_model("text.unit=passage"))
    assert [span.of(TEXT) for span in find_units(TEXT, "sentence", passages)][1:3] == [
        "The ferry left.",
        "She lives in Oldhaven.",
    ]


@pytest.mark.parametrize(("tool", "name"), [("doccano", "tasks.jsonl"), ("jsonl", "tasks.jsonl"), ("brat", "tasks")])
def test_other_tools_get_tasks_in_the_same_order(tool: Any, name: str, extractor: Extractor, tmp_path: Path) -> None:
    done = suggest(TEXTS, tmp_path / name, model=extractor, to_format=tool)
    suggest(TEXTS, tmp_path / "tasks.json", model=extractor)
    problems = Problems()
    found = list(get_format(tool).read(tmp_path / name, problems))
    assert [one.text for one in found] == [task["data"]["text"] for task in read_tasks(tmp_path / "tasks.json")]
    for document in found:
        expected = extractor(document.text)
        assert set(document.annotation.entities) == set(expected.entities)
        assert set(document.annotation.relations) == set(expected.relations)
    if tool == "brat":
        assert found[0].id.startswith("1-text-")
        conf = (tmp_path / name / "annotation.conf").read_text(encoding="utf-8")
        assert all(label in conf for label in ("Loc", "Peop", "Live_In", "Kin"))
    assert done.n_tasks == 3


def test_threshold_leaves_out_what_has_a_lower_score_but_keeps_the_order(extractor: Extractor, tmp_path: Path) -> None:
    suggest(TEXTS, tmp_path / "all.json", model=extractor)
    suggest(TEXTS, tmp_path / "some.json", model=extractor, threshold=0.6)
    every, some = read_tasks(tmp_path / "all.json"), read_tasks(tmp_path / "some.json")
    assert [task["data"] for task in every] == [task["data"] for task in some]
    results = [[item for task in tasks for item in task["predictions"][0]["result"]] for tasks in (every, some)]
    assert len(results[0]) > len(results[1]) > 0
    assert all(item["score"] >= 0.6 for item in results[1] if item["type"] == "labels")


def test_suggest_refuses_what_it_cannot_do(extractor: Extractor, tmp_path: Path) -> None:
    out = tmp_path / "tasks.json"
    with pytest.raises(RelatumError, match="no texts with words"):
        suggest([" "], out, model=extractor)
    with pytest.raises(RelatumError, match="limit is 0"):
        suggest(TEXTS, out, model=extractor, limit=0)
    with pytest.raises(ValueError, match="threshold is 2"):
        suggest(TEXTS, out, model=extractor, threshold=2)
    for wrong, said in (
        ({"unit": "line"}, "unit is 'line'; expected one of: document, paragraph, sentence"),
        ({"sort": "best"}, "sort is 'best'; expected one of: uncertain, as-is"),
        ({"to_format": "docbin"}, "to_format is 'docbin'; expected one of: label-studio, brat, doccano, jsonl"),
    ):
        options: Any = wrong
        with pytest.raises(RelatumError, match=said):
            suggest(TEXTS, out, model=extractor, **options)
    with pytest.raises(TypeError, match="found a single str; put it in a list"):
        suggest(TEXTS[0], out, model=extractor)
    nothing: Any = [None]
    with pytest.raises(TypeError, match="text 1: expected str or Document, found NoneType"):
        suggest(nothing, out, model=extractor)
    assert not list(tmp_path.iterdir())
    assert relatum.suggest is suggest


def test_a_target_that_cannot_be_written_is_refused_before_a_text_is_read(extractor: Extractor, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "1.ann").touch()

    texts = map(pytest.fail, ["a text was read"])
    with pytest.raises(RelatumError, match="mine is a folder that is not empty"):
        suggest(texts, tmp_path / "mine", model=extractor, to_format="brat")
    with pytest.raises(RelatumError, match="mine is a folder; name a file to write"):
        suggest(texts, tmp_path / "mine", model=extractor)


def test_spans_of_units_hold_no_white_space_at_their_ends(extractor: Extractor) -> None:
    assert find_units("\n\n a \n\n\n b", "paragraph", extractor) == [Span(3, 4), Span(9, 10)]
