"""`relatum calibrate` from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from relatum import Extractor
from relatum.cli.app import app as main_app
from relatum.cli.calibrate import calibrate
from relatum.errors import DataError, RelatumError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(calibrate)


@pytest.fixture
def model(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "model", tmp_path / "model"))


def run(*arguments: str | Path) -> Result:
    """Run the command; errors meant for the user are raised, as `relatum.cli.app` catches them."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--device", "cpu"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_calibration_on_dev_is_that_of_the_training(model: Path, examples_folder: Path) -> None:
    before = files(model)
    assert "calibration" in json.loads(before["config.json"])
    result = run(model, examples_folder / "news")
    after = files(model)
    assert json.loads(after["config.json"])["calibration"] == json.loads(before["config.json"])["calibration"]
    assert {name for name in after if after[name] != before[name]} <= {
        "README.md",
        "manifest.json",
    }  # it had the scores of test as well
    assert "before: Expected calibration error" in result.stdout
    assert "after: Expected calibration error" in result.stdout
    assert "Relations, strict (RE+) by threshold" in result.stdout
    assert f"wrote {model}" in result.stderr


def test_calibration_on_another_part_changes_scores_and_card_alone(model: Path, examples_folder: Path) -> None:
    text = (examples_folder / "paragraphs" / "news-2.txt").read_text(encoding="utf-8")
    before, found = files(model), Extractor.from_pretrained(model, "cpu")(text)
    run(model, examples_folder / "news", "--part", "train")
    after, again = files(model), Extractor.from_pretrained(model, "cpu")(text)
    assert {name for name in after if after[name] != before[name]} == {"README.md", "config.json", "manifest.json"}
    assert "calibrated on train" in after["README.md"].decode()
    assert after["README.md"].decode().count("## Confidence") == 1
    assert "## How it was made" in after["README.md"].decode()
    assert found == again
    assert found.entities
    assert [entity.score for entity in found.entities] != [entity.score for entity in again.entities]


def test_copy_leaves_the_model_as_it_is(model: Path, examples_folder: Path, tmp_path: Path) -> None:
    before = files(model)
    run(model, examples_folder / "news", "--part", "train", "--out", tmp_path / "copy")
    assert files(model) == before
    assert files(tmp_path / "copy").keys() == before.keys()
    assert files(tmp_path / "copy")["config.json"] != before["config.json"]
    with pytest.raises(RelatumError, match="not empty"):
        run(model, examples_folder / "news", "--out", tmp_path / "copy")


def test_model_that_comes_with_relatum_is_not_changed(examples_folder: Path, tmp_path: Path) -> None:
    from relatum.extractor.finding import find_model

    folder = find_model("news")
    before = files(folder)
    for name in ("news", str(folder)):
        with pytest.raises(RelatumError, match="--out"):
            run(name, examples_folder / "news")
    run("news", examples_folder / "news", "--out", tmp_path / "own")
    assert files(folder) == before
    assert Extractor.from_pretrained(tmp_path / "own", "cpu").model.calibration is not None


def test_calibration_counts_gold_that_the_model_cannot_express(crowded: tuple[Path, Path]) -> None:
    model, data = crowded
    shown = run(model, data).stdout
    result = CliRunner().invoke(main_app, ["evaluate", str(model), str(data), "--json", "--device", "cpu"])
    score = json.loads(result.stdout)["entities"]["micro"]
    numbers = [f"{100 * score[name]:.2f}" for name in ("precision", "recall", "f1")]
    row = next(line.split() for line in shown.splitlines() if line.split()[:1] == ["none"])
    assert row[2:] == numbers
    assert "Gold that the model cannot find counts as missed; the best it allows: NER recall" in shown


def test_gold_that_training_refuses_is_left_out_if_told_so(crossing: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = crossing
    for options in ([], ["--crossing", "drop"], ["--overlaps", "keep-longest"]):
        with pytest.raises(DataError, match=r"--(overlaps|crossing) drop"):
            run(model, data, "--out", tmp_path / "copy", *options)
    result = run(model, data, "--out", tmp_path / "copy", "--crossing", "drop", "--overlaps", "keep-longest")
    assert "1 × relations between sentences left out" in result.stderr
    assert "the best it allows: NER recall" in result.stdout, "they count as missed"
