"""`relatum probe` and `relatum attention` from the command line, with a model that comes along."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from relatum.cli.app import app
from relatum.cli.probe import _cell, _show
from relatum.errors import DataError, RelatumError
from relatum.extractor.introspection.probe import Probe, ProbedLayer
from relatum.extractor.result import Extraction
from relatum.types import Annotation, Entity, Relation, Span

NEWS = ("--model", "news")
TEXT = "Lee Harvey Oswald killed John F. Kennedy in Dallas on Friday."


def run(*arguments: str | Path, status: int = 0) -> Result:
    """Run the command; errors meant for the user are raised, as `relatum.cli.app` catches them."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--device", "cpu"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return result


def run_json(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return found


def test_text_shows_what_each_layer_says_and_changes() -> None:
    lines = run("probe", TEXT, *NEWS).stdout.splitlines()
    rows = {tuple(re.split(r"\s{2,}", line.strip()))[:2]: line for line in lines}
    assert rows["Lee Harvey Oswald", "Peop"].split()[-2:] == ["+", "0.91"]
    assert rows["Lee Harvey Oswald", "Kill"].split()[-2:] == ["+", "0.87"]
    assert rows["Dallas", "Loc"].split()[-3:] == ["+", "0.50", "0.99"]


def test_cells_mark_what_a_layer_adds_and_leaves_out() -> None:
    assert [_cell([-1, 0.5, 0.75, -1, -1], number) for number in range(5)] == ["", "+ 0.50", "0.75", "−", ""]
    assert [_cell([0.5, None], number) for number in range(2)] == ["0.50", ""]


def test_relations_of_one_pair_are_listed_by_label() -> None:
    text = "Ann of Rome"
    ann, rome = Entity(Span(0, 3), "Peop"), Entity(Span(7, 11), "Loc")
    labels = [f"r{number:02}" for number in range(20)]
    relations = tuple(Relation(ann, rome, label) for label in reversed(labels))
    layer = ProbedLayer(Extraction.of(text, Annotation((ann, rome), relations)), np.zeros((3, 1)), None, None)
    words = tuple(Span(*match.span()) for match in re.finditer(r"\S+", text))
    out = StringIO()
    _show(Console(file=out), Probe(text, words, (Span(0, 3),), (), (), (), True, (layer,)))
    assert re.findall(r"r\d\d", out.getvalue()) == labels


def test_json_of_a_text_is_what_extract_finds_at_last() -> None:
    record = run_json("probe", TEXT)
    extracted = json.loads(run("extract", TEXT, "--format", "json").stdout)
    (text,) = record["texts"]
    (sentence,) = text["sentences"]
    assert text["text"] == TEXT
    assert {key: sentence["layers"][-1][key] for key in ("entities", "relations")} == {
        key: extracted[key] for key in ("entities", "relations")
    }
    assert "attention" not in sentence
    assert len(run_json("probe", TEXT, "--tables")["texts"][0]["sentences"][0]["attention"]) == 3


def test_texts_of_a_file_are_probed_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"id": "a", "text": "Mara left."}\n{"id": "b", "text": " "}\n', encoding="utf-8")
    record = run_json("probe", "--input", path)
    assert [(text["id"], len(text["sentences"])) for text in record["texts"]] == [("a", 1), ("b", 0)]
    shown = run("probe", "--input", path).stdout
    assert "no words" in shown
    path.write_text("not JSON\n", encoding="utf-8")
    with pytest.raises(DataError, match="JSON"):
        run("probe", "--input", path)
    path.write_text("", encoding="utf-8")
    with pytest.raises(RelatumError, match="there are no texts in it"):
        run("probe", "--input", path)


def test_corpus_shows_scores_by_layer_that_end_with_those_of_evaluate(examples_folder: Path) -> None:
    record = run_json("probe", "--data", examples_folder / "news", *NEWS)
    scores = json.loads(run("evaluate", "news", examples_folder / "news", "--part", "dev", "--json").stdout)
    assert [layer["layer"] for layer in record["layers"]] == [1, 2, 3]
    last = record["layers"][-1]
    assert last["scores"] == {task: scores[task] for task in ("entities", "relations", "relations_strict")}
    for task in ("entities", "relations_strict"):
        changes, support = last["changes"][task], last["scores"][task]["micro"]["support"]
        assert changes["right"] + changes["missed"] == support
        right = changes["right"] - changes["lost"] + changes["found"]
        assert right / support == pytest.approx(last["scores"][task]["micro"]["recall"])
        assert changes["corrected"] > changes["broken"]
    shown = run("probe", "--data", examples_folder / "news", *NEWS).stdout
    assert f"news: {record['sentences']} sentences" in shown
    assert f"{100 * last['scores']['relations_strict']['micro']['f1']:.2f}" in shown
    changes = last["changes"]["entities"]
    assert f"{changes['found']} of {changes['missed']}" in shown


def test_corpus_counts_gold_that_the_model_cannot_express(crowded: tuple[Path, Path]) -> None:
    model, data = crowded
    record = run_json("probe", "--model", model, "--data", data)
    scores = json.loads(run("evaluate", model, data, "--json").stdout)
    assert record["layers"][-1]["scores"] == {task: scores[task] for task in record["layers"][-1]["scores"]}
    assert record["ceiling"] == scores["ceiling"]
    best = scores["ceiling"]["entities"]["micro"]
    n_texts = len(data.read_text(encoding="utf-8").splitlines())
    assert best["recall"] * best["support"] == pytest.approx(best["support"] - n_texts)


def test_gold_that_training_refuses_is_left_out_if_told_so(crossing: tuple[Path, Path]) -> None:
    model, data = crossing
    arguments: list[str | Path] = ["--model", model, "--overlaps", "keep-longest"]
    commands: list[list[str | Path]] = [["probe", "--data", data], ["attention", data]]
    for command in commands:
        with pytest.raises(DataError, match="--crossing drop"):
            run(*command, *arguments)
        result = run(*command, *arguments, "--crossing", "drop")
        assert "1 × relations between sentences left out" in result.stderr
    probed = run_json("probe", "--data", data, *arguments, "--crossing", "drop")
    evaluated = run_json("evaluate", model, data, *arguments[2:], "--crossing", "drop")
    assert probed["ceiling"] == evaluated["ceiling"]


def test_types_that_the_model_does_not_know_are_named(examples_folder: Path) -> None:
    result = run("probe", "--data", examples_folder / "drugs", *NEWS, "--json")
    assert "news does not know these types" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("probe", TEXT, "--data", "x"), "leave one out"),
        (("probe", TEXT, "--tables"), "add --json"),
        (("probe", TEXT, "--overlaps", "drop"), "add --data"),
        (("attention", "--text", TEXT, "--crossing", "drop", "--html", "x"), "are for DATA"),
        (("attention",), "give DATA"),
        (("attention", "x", "--text", TEXT), "give DATA"),
        (("attention", "--text", TEXT), "name a file"),
        (("attention", "--text", TEXT, "--out", "x"), "--out is for the figures of DATA"),
    ],
)
def test_calls_that_make_no_sense_are_refused(arguments: tuple[str, ...], message: str) -> None:
    assert message in run(*arguments, status=2).stderr.replace("\n", " ")


def test_attention_of_a_corpus_is_printed_and_written(examples_folder: Path, tmp_path: Path) -> None:
    out, html, bertviz = tmp_path / "heads.json", tmp_path / "maps.html", tmp_path / "attention.json"
    data = examples_folder / "news"
    files: list[str | Path] = ["--out", out, "--html", html, "--bertviz", bertviz]
    result = run("attention", data, *NEWS, *files, "--show", "2", "--best", "2")
    record = json.loads(out.read_text(encoding="utf-8"))
    assert (record["model"], record["part"], len(record["heads"])) == ("news", "dev", 96)
    of_network = [head for head in record["heads"] if head["of"] == "network"]
    best = max(of_network, key=lambda head: head["average_precision"]["head to tail"])
    assert f"layer {best['layer']}, head {best['head']}" in result.stdout
    assert f"{100 * best['average_precision']['head to tail']:.2f}" in result.stdout
    assert f"chance {100 * record['patterns']['entity']['chance']:.2f}" in result.stdout
    sentences = json.loads(bertviz.read_text(encoding="utf-8"))["sentences"]
    assert len(sentences) == 2
    assert len(sentences[0]["tokens"]) == len(sentences[0]["attention"][0][0][0])
    assert html.read_text(encoding="utf-8").count("ground truth") == 2 * 2 * 3


def test_attention_of_a_text_is_exported(tmp_path: Path) -> None:
    html, bertviz = tmp_path / "maps.html", tmp_path / "attention.json"
    run("attention", "--text", TEXT, "--html", html, "--bertviz", bertviz)
    (sentence,) = json.loads(bertviz.read_text(encoding="utf-8"))["sentences"]
    assert sentence["tokens"][:3] == ["Lee", "Harvey", "Oswald"]
    assert "what the model finds" in html.read_text(encoding="utf-8")
    with pytest.raises(RelatumError, match="there are no words in it"):
        run("attention", "--text", " ", "--html", html)
