"""`--report` of `relatum evaluate` and `relatum score`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from typer.testing import CliRunner, Result

from relatum.cli.app import app
from relatum.extractor.finding import find_model


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_score_writes_a_page_beside_its_tables(examples_folder: Path, tmp_path: Path) -> None:
    files = (examples_folder / "news" / "test.jsonl", examples_folder / "second-reader.jsonl")
    page = tmp_path / "errors.html"
    result = run("score", *files, "--report", page)
    assert result.stdout == run("score", *files).stdout
    assert f"wrote {page}" in result.stderr
    text = page.read_text(encoding="utf-8")
    assert "Micro F1: NER 93.83, RE 91.89, RE+ 86.49." in text
    assert len(re.findall("<article", text)) == 5
    assert "−log₂(1 − s)" in text
    assert run("score", *files, "--report", page, "--errors", "--json").stdout.startswith("{")


def test_score_of_two_systems_has_no_page(examples_folder: Path, tmp_path: Path) -> None:
    files = (examples_folder / "news" / "test.jsonl", *[examples_folder / "second-reader.jsonl"] * 2)
    result = run("score", *files, "--report", tmp_path / "errors.html")
    assert result.exit_code == 2
    assert "--report is of one system" in result.stderr


def test_evaluate_sorts_by_the_loss_of_the_model(examples_folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "errors.html"
    options = ("--part", "dev", "--device", "cpu")
    result = run("evaluate", "news", examples_folder / "news", *options, "--report", page)
    assert result.exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert f"Errors of news on {examples_folder / 'news'}, dev" in text
    assert "−log P of the gold tag" in text
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+) ·", text)]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) > 3


def test_evaluate_says_that_gold_entities_were_given(examples_folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "errors.html"
    run("evaluate", "news", examples_folder / "news" / "dev.jsonl", "--gold-entities", "--report", page)
    assert "The gold entities were given." in page.read_text(encoding="utf-8")


def test_models_as_one_have_no_loss_of_their_own(examples_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(find_model("news"), tmp_path / "other")
    page = tmp_path / "errors.html"
    data = examples_folder / "news" / "dev.jsonl"
    run("evaluate", "news", data, "--with", tmp_path / "other", "--report", page)
    text = page.read_text(encoding="utf-8")
    assert "Errors of 2 models as one (news and others)" in text
    assert "−log₂(1 − s)" in text
