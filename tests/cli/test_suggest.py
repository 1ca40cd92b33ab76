"""`relatum suggest` from the command line, and the whole way from raw text to a model in Label Studio."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from relatum import Document, Extractor, KnowledgeGraph, load_documents
from relatum.cli.app import main
from relatum.data.formats import get_format
from relatum.web.app import make_app
from relatum.web.label_studio import LabelStudioBackend
from relatum.web.limits import Limits
from relatum.web.served import ServedModel

TINY = [
    "encoder.kind=none",
    "model.width=8",
    "model.n_layers=1",
    "sequence.n_attention_heads=2",
    "sequence.feedforward_width=8",
    "characters.width=4",
    "training.batch_size=4",
    "training.steps=4",
    "training.evaluate_every=2",
]
NEWS = ["--model", "news"]
SETTINGS = [word for setting in TINY for word in ("--set", setting)]


@pytest.fixture(scope="module")
def gold(examples_folder: Path) -> dict[str, Document]:
    """What a person would say of each text."""
    return {one.text: one for one in load_documents(examples_folder / "news" / "train.jsonl")}


@pytest.fixture
def texts(gold: dict[str, Document], tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number, text in enumerate(list(gold)[:24]):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


def correct(tasks: Path, gold: dict[str, Document], export: Path) -> list[dict[str, Any]]:
    """Export the tasks as Label Studio does after a person has corrected all of them but two."""
    get_format("label-studio").write(
        export, [gold[task["data"]["text"]] for task in json.loads(tasks.read_text("utf-8"))]
    )
    corrected = json.loads(export.read_text(encoding="utf-8"))
    exported = []
    for number, (task, person) in enumerate(zip(json.loads(tasks.read_text("utf-8")), corrected, strict=True), 1):
        by_person = person["annotations"][0]["result"]
        regions = [{**item, "origin": "prediction-changed"} for item in by_person if item["type"] != "relation"]
        relations = [item for item in by_person if item["type"] == "relation"]
        annotation = {"id": number, "completed_by": 1, "result": [*regions, *relations], "was_cancelled": False}
        exported.append({**task, "id": number, "annotations": [annotation], "project": 1})
    exported[-1]["annotations"] = []
    exported[-2]["annotations"][0]["was_cancelled"] = True
    export.write_text(json.dumps(exported), encoding="utf-8")
    return exported


def test_from_raw_text_to_a_model_in_label_studio_and_a_graph(
    texts: Path, gold: dict[str, Document], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.set_num_threads(1)
    tasks, export, run = tmp_path / "tasks.json", tmp_path / "export.json", tmp_path / "run"
    assert main(["suggest", str(texts), *NEWS, "--out", str(tasks)]) == 0
    assert "wrote 24 of 24 tasks, the most uncertain first, with the predictions of news-" in capsys.readouterr().err
    assert main(["train", str(tasks), "--out", str(run), *SETTINGS]) == 1
    said = capsys.readouterr().err
    assert "there is no annotated document to train on" in said
    assert "24 × task that nobody has annotated, left out" in said
    exported = correct(tasks, gold, export)

    assert main(["train", str(export), "--out", str(run), *SETTINGS, "--seed", "1"]) == 0
    said = capsys.readouterr().err
    assert "24 × predictions left out" in said
    assert "1 × task that nobody has annotated, left out" in said
    assert "1 × task whose annotations were all cancelled, left out" in said
    learned = {document.text for document in load_documents(export)}
    assert learned == {task["data"]["text"] for task in exported[:-2]}

    extractor = Extractor.from_pretrained(run / "model")
    model = ServedModel("mine", extractor, Limits())
    config = (tmp_path / "tasks.labeling_config.xml").read_text(encoding="utf-8")
    with TestClient(make_app([model], label_studio=LabelStudioBackend(model))) as client:
        version = client.post("/setup", json={"schema": config}).json()["model_version"]
        asked = {"tasks": [{"id": 1, "data": exported[-1]["data"]}], "label_config": config}
        (prediction,) = client.post("/predict", json=asked).json()["results"]
    assert version == extractor.version == prediction["model_version"]
    assert version.startswith("model-")
    assert version != exported[0]["predictions"][0]["model_version"]
    assert main(["graph", str(texts), "--model", str(run / "model"), "--out", str(tmp_path / "graph.json")]) == 0
    assert KnowledgeGraph.of(extractor.pipe(list(gold)[:3])) is not None


def test_brat_folders_that_were_corrected_are_learned_from(
    texts: Path, gold: dict[str, Document], tmp_path: Path
) -> None:
    torch.set_num_threads(1)
    folder = tmp_path / "brat"
    assert main(["suggest", str(texts), *NEWS, "--to", "brat", "--out", str(folder), "--limit", "20"]) == 0
    brat = get_format("brat")
    corrected = {}
    for text in sorted(folder.glob("*.txt")):
        document = gold[text.read_text(encoding="utf-8")]
        brat.write(tmp_path, [Document("one", document.text, document.annotation)])
        (tmp_path / "one.ann").replace(text.with_suffix(".ann"))
        corrected[text.stem] = document.annotation
    assert {one.id: one.annotation for one in load_documents(folder)} == corrected
    assert len(corrected) == 20
    assert main(["train", str(folder), "--out", str(tmp_path / "run"), *SETTINGS, "--seed", "1"]) == 0


def test_suggest_reads_what_extract_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped = io.TextIOWrapper(io.BytesIO(b"Erik Dahl lives in Oslo. He left.\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", piped)
    out = tmp_path / "tasks.jsonl"
    assert main(["suggest", *NEWS, "--to", "doccano", "--out", str(out), "--unit", "sentence", "--sort", "as-is"]) == 0
    records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [record["text"] for record in records] == ["Erik Dahl lives in Oslo.", "He left."]
    assert [entity["label"] for entity in records[0]["entities"]] == ["Peop", "Loc"]
    assert "wrote 2 of 2 tasks, in the order of the texts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "there is no --out"),
        (["nowhere", "--out", "x.json"], 1, "nowhere: no such file or folder"),
        (["bad.jsonl", "--out", "x.json"], 1, "--on-error skip"),
        (["empty.txt", "--out", "x.json"], 1, "1 × text without words, left out (first: empty)"),
        (["empty.jsonl", "--out", "x.json"], 1, "empty.jsonl: there are no texts in it; expected"),
        (["empty.txt", "--out", "x.json", "--to", "excel"], 2, "--to"),
        (["good.txt", "--out", "x.json", "--model", "newz"], 1, "did you mean 'news'"),
        (["good.txt", "--out", ".", "--to", "brat"], 1, "is a folder that is not empty"),
    ],
)
def test_suggest_says_what_is_wrong_and_writes_nothing(
    arguments: list[str],
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in (
        ("bad.jsonl", '{"text": 3}\n'),
        ("empty.txt", " \n"),
        ("empty.jsonl", ""),
        ("good.txt", "Oslo."),
    ):
        Path(name).write_text(content, encoding="utf-8")
    assert main(["suggest", *arguments]) == status
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "empty.jsonl", "empty.txt", "good.txt"]


def test_suggest_leaves_out_bad_texts_if_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts, out = tmp_path / "texts.jsonl", tmp_path / "tasks.json"
    texts.write_text('{"text": 3}\n{"text": "Erik Dahl lives in Oslo."}\n', encoding="utf-8")
    assert main(["suggest", str(texts), "--out", str(out), "--on-error", "skip"]) == 0
    assert len(json.loads(out.read_text(encoding="utf-8"))) == 1
    assert "skipped 1 bad record" in capsys.readouterr().err
