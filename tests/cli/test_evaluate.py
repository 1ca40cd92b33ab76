"""`relatum evaluate` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from relatum import load_documents
from relatum.cli.evaluate import evaluate
from relatum.data.corpus import read_documents
from relatum.data.problems import Problems
from relatum.errors import DataError, RelatumError
from relatum.evaluation.metrics import evaluate as score

from .conftest import copy_with

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(evaluate)


def run(*arguments: str | Path) -> Result:
    """Run the command; errors meant for the user are raised, as `relatum.cli.app` catches them."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--device", "cpu"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run_json(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return found


def test_scores_are_those_of_the_training(trained: Path, examples_folder: Path) -> None:
    record = json.loads((trained / "result.json").read_text())
    news = examples_folder / "news"
    assert record["test"]["entities"]["micro"]["f1"] > 0
    confidence = {part: measured["after"] for part, measured in record["confidence"]["parts"].items()}
    for part, arguments in (("test", [news]), ("dev", [news, "--part", "dev"]), ("dev", [news / "dev.jsonl"])):
        expected = {**record[part], "confidence": confidence[part], "ceiling": record["ceiling"][part]}
        assert run_json(trained / "model", *arguments) == expected


def test_table_names_model_and_data(trained: Path, examples_folder: Path) -> None:
    result = run(trained / "model", examples_folder / "news")
    assert f"{trained / 'model'}: 23 sentences of {examples_folder / 'news'}" in result.stdout
    assert "Relations, strict (RE+)" in result.stdout


def test_passages_are_counted_as_passages(trained: Path, examples_folder: Path, tmp_path: Path) -> None:
    data = examples_folder / "news" / "test.jsonl"
    model = copy_with(trained / "model", tmp_path / "model", "text", unit="passage")
    n_texts = len(data.read_text(encoding="utf-8").splitlines())
    n_sentences = int(run(trained / "model", data).stdout.split(": ")[1].split()[0])
    assert n_sentences > n_texts
    assert f"{n_texts} passages with {n_sentences} sentences of" in run(model, data).stdout


def test_predictions_are_written_and_have_the_same_scores(trained: Path, examples_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "found.jsonl"
    found = run_json(trained / "model", examples_folder / "news", "--out", out)
    predicted = load_documents(out)
    assert len(predicted) == 23
    assert sum(len(document.annotation.entities) for document in predicted) > 0
    assert all(entity.score is not None for document in predicted for entity in document.annotation.entities)
    # The gold sentences in the same form: relatum JSONL of words, by way of the model's own reading.
    from relatum.data.documents import from_words
    from relatum.training.corpus import load_part
    from relatum.training.folder import RunFolder

    examples, _ = load_part(examples_folder / "news", "test", RunFolder(trained).read().config)
    gold = [from_words(example.id, [example.sentence.words], example.gold) for example in examples]
    assert [document.id for document in predicted] == [document.id for document in gold]
    pairs = [(own.annotation, its.annotation) for own, its in zip(gold, predicted, strict=True)]
    assert score(pairs).to_dict() == {task: found[task] for task in ("entities", "relations", "relations_strict")}


def test_calibration_error_is_shown_and_thresholds_where_asked_for(trained: Path, examples_folder: Path) -> None:
    found = run_json(trained / "model", examples_folder / "news")["confidence"]
    plain, rows = (run(trained / "model", examples_folder / "news", *more).stdout for more in ((), ("--by-threshold",)))
    line = (
        f"Expected calibration error, %: Entities {100 * found['entities']['ece']:.2f} ({found['entities']['n']} found)"
    )
    assert line in plain
    assert line in rows
    assert "by threshold" not in plain
    shown = rows.partition("Entities by threshold")[2].partition("Relations")[0]
    for row in found["entities"]["thresholds"]:
        numbers = [f"{100 * row[key]:.2f}" for key in ("recall", "f1")]
        assert any(
            words[1:2] == [str(row["n"])] and words[3:] == numbers for words in map(str.split, shown.splitlines())
        )


def test_confidence_of_given_entities_is_not_measured(trained: Path, examples_folder: Path) -> None:
    found = run_json(trained / "model", examples_folder / "news", "--gold-entities")["confidence"]
    assert (found["entities"]["n"], found["entities"]["ece"]) == (0, None)


def test_gold_entities_are_given_to_the_model(trained: Path, examples_folder: Path) -> None:
    found = run_json(trained / "model", examples_folder / "news", "--gold-entities")
    assert found["entities"]["micro"]["f1"] == 1.0
    assert "gold entities given" in run(trained / "model", examples_folder / "news", "--gold-entities").stdout


def test_bootstrap_adds_intervals(trained: Path, examples_folder: Path) -> None:
    found = run_json(trained / "model", examples_folder / "news", "--bootstrap", "20", "--seed", "4")
    assert (found["intervals"]["resamples"], found["intervals"]["seed"]) == (20, 4)


def test_types_that_the_model_does_not_know_are_named_and_count(trained: Path, examples_folder: Path) -> None:
    result = run(trained / "model", examples_folder / "drugs", "--json")
    assert "does not know these types" in result.stderr
    assert "Drug" in result.stderr
    found = json.loads(result.stdout)
    assert found["relations"]["micro"]["f1"] == 0
    gold = list(read_documents(examples_folder / "drugs" / "test.jsonl", None, Problems()))
    assert found["entities"]["micro"]["support"] == sum(len(document.annotation.entities) for document in gold)


def test_overlapping_gold_is_an_error_until_told_otherwise(trained: Path, tmp_path: Path) -> None:
    entities = [{"start": 0, "end": 2, "label": "Peop"}, {"start": 0, "end": 1, "label": "Loc"}]
    path = tmp_path / "nested.jsonl"
    path.write_text(json.dumps({"id": "x", "words": ["Anna", "Berg"], "entities": entities}) + "\n")
    with pytest.raises(DataError, match="--overlaps drop"):
        run(trained / "model", path)
    result = run(trained / "model", path, "--overlaps", "keep-longest", "--json")
    found = json.loads(result.stdout)
    assert found["entities"]["micro"]["support"] == 2, "what the tags cannot express counts as missed"
    assert found["ceiling"]["entities"]["micro"]["recall"] == 0.5
    assert "1 × overlapping entities left out" in result.stderr
    assert "annotations that are left out count as missed in all scores" in result.stderr


def test_relations_between_sentences_count_as_missed(trained: Path, tmp_path: Path) -> None:
    entities = [
        {"id": "a", "start": 0, "end": 4, "label": "Peop"},
        {"id": "b", "start": 13, "end": 17, "label": "Loc"},
        {"id": "c", "start": 23, "end": 27, "label": "Loc"},
    ]
    relations = [{"head": "b", "tail": "a", "label": "Live_In"}, {"head": "b", "tail": "c", "label": "Located_In"}]
    record = {"id": "x", "text": "Anna slept.\n\nOslo near Bonn.", "entities": entities, "relations": relations}
    path = tmp_path / "two.jsonl"
    path.write_text(json.dumps(record) + "\n")
    arguments: list[str | Path] = [trained / "model", path, "--crossing", "drop"]
    found = run_json(*arguments)
    for task in ("relations", "relations_strict"):
        assert found[task]["types"]["Live_In"]["support"] == 1
        assert found["ceiling"][task]["micro"] == {"precision": 1.0, "recall": 0.5, "f1": 2 / 3, "support": 2}
    shown = run(*arguments, "--errors", "--report", tmp_path / "page.html", "--out", tmp_path / "out.jsonl").stdout
    assert "ceiling, micro" in shown
    assert "counts as missed" in shown
    assert "  left out by data.overlaps or data.crossing: 1 relation\n" in shown
    assert "F1 66.67" in (tmp_path / "page.html").read_text()
    errors = run_json(*arguments, "--errors")["errors"]
    assert sum(one["support"] for one in errors["relations_strict"]["types"].values()) == 2


def test_missing_gpu_is_an_error(trained: Path, examples_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    arguments = [str(trained / "model"), str(examples_folder / "news"), "--device", "cuda"]
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, RelatumError)
    assert str(error) == "device 'cuda': torch finds no GPU here; use 'cpu', or see relatum doctor"


def test_unknown_model_and_part_are_errors(trained: Path, examples_folder: Path) -> None:
    with pytest.raises(RelatumError, match="no such model"):
        run("nowhere", examples_folder / "news")
    with pytest.raises(RelatumError, match="found the parts train, dev, test; name one of them with --part"):
        run(trained / "model", examples_folder / "news", "--part", "tset")
