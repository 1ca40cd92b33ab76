"""`--errors` of `relatum score` and `relatum evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from relatum.cli.evaluate import evaluate
from relatum.cli.score import score
from relatum.errors import DataError, RelatumError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command("score")(score)
app.command("evaluate")(evaluate)

WORDS = ["Anna", "works", "in", "Rome", "for", "Acme", "."]
ANNA, ROME, ACME = ({"start": a, "end": a + 1, "label": b} for a, b in ((0, "Peop"), (3, "Loc"), (5, "Org")))
LIVES = {"head": 0, "tail": 1, "label": "Live_In"}
GOLD = {"id": "one", "words": WORDS, "entities": [ANNA, ROME, ACME], "relations": [LIVES]}
FOUND = {"id": "one", "words": WORDS, "entities": [ANNA, {**ROME, "label": "Org"}], "relations": []}


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return write(tmp_path / "test.jsonl", GOLD)


@pytest.fixture
def found(tmp_path: Path) -> Path:
    return write(tmp_path / "found.jsonl", FOUND)


def run(*arguments: str | Path) -> Result:
    """Run a command; errors meant for the user are raised, as `relatum.cli.app` catches them."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run_json(*arguments: str | Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return loaded


def test_score_shows_errors_after_the_scores(gold: Path, found: Path) -> None:
    result = run("score", gold, found, "--errors")
    assert result.stdout.startswith(run("score", gold, found).stdout)
    assert "Entities: kinds of error" in result.stdout
    assert "1. one" not in result.stdout
    assert "need --train" in result.stderr
    assert "1. one: 3 errors" in run("score", gold, found, "--worst", "2").stdout


def test_confusions_of_many_types_are_a_list(tmp_path: Path) -> None:
    """A matrix of 20 types has 310 columns, which no terminal shows."""

    def side(name: str, shift: int) -> Path:
        labels = [f"Quite_A_Long_Type_{(number + shift * (number > 4)) % 30}" for number in range(30)]
        entities = [{"start": number, "end": number + 1, "label": label} for number, label in enumerate(labels)]
        return write(tmp_path / name, {"id": "one", "words": ["x"] * 30, "entities": entities})

    shown = run("score", side("gold.jsonl", 0), side("found.jsonl", 1), "--errors").stdout
    start = shown.index("Entities: types that were taken for others")
    part = shown[start : shown.index(" more pairs of types", start)]
    assert max(map(len, part.splitlines())) <= 120
    assert ["Quite_A_Long_Type_10", "Quite_A_Long_Type_11", "1"] in [line.split() for line in part.splitlines()]
    assert "And 5 more pairs of types, 5 times in all" in shown


def test_score_adds_errors_to_json(gold: Path, found: Path) -> None:
    plain, with_errors = run_json("score", gold, found), run_json("score", gold, found, "--errors")
    errors = with_errors.pop("errors")
    assert with_errors == plain
    assert errors["entities"]["kinds"]["type"] == {"gold": 1, "found": 1, "f1_if_mended": 4 / 5}
    assert errors["entities"]["kinds"]["missed"]["gold"] == 1
    assert errors["relations_strict"]["kinds"]["argument_type"]["gold"] == 1
    assert {"gold": "Loc", "found": "Org", "count": 1} in errors["entities"]["confusion"]
    assert "worst" not in errors
    assert "seen" not in errors["breakdowns"]
    (worst,) = run_json("score", gold, found, "--worst", "5")["errors"]["worst"]
    assert worst["entities"][2] == {
        "kind": "missed",
        "gold": {"label": "Org", "start": 23, "end": 27, "text": "Acme"},
        "found": None,
    }


def test_score_analyses_both_systems(gold: Path, found: Path) -> None:
    loaded = run_json("score", gold, found, gold, "--errors")
    assert [loaded[name]["errors"]["entities"]["f1"] for name in "ab"] == [2 / 5, 1]


def test_training_data_are_found_beside_the_file(gold: Path, found: Path, tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", GOLD)
    result = run("score", gold, found, "--errors")
    assert f"Seen in training: {train}, 1 sentences" in result.stdout
    assert "need --train" not in result.stderr
    seen = run_json("score", gold, found, "--errors")["errors"]["breakdowns"]["seen"]
    assert seen["entities"]["as this type"]["support"] == 3


def test_training_data_are_named(gold: Path, found: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.jsonl", {"id": "x", "text": "Rome", "entities": [], "relations": []})
    seen = run_json("score", gold, found, "--errors", "--train", other)["errors"]["breakdowns"]["seen"]["entities"]
    assert {name: group["support"] for name, group in seen.items()} == {"all its words": 1, "none of its words": 2}


def test_training_data_that_cannot_be_used_are_errors(gold: Path, found: Path, tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match="--train nowhere: no such file or folder"):
        run("score", gold, found, "--errors", "--train", "nowhere")
    (tmp_path / "bad.jsonl").write_text('{"words": ["a"], "entities": [{"start": 0, "end": 9, "label": "A"}]}\n')
    with pytest.raises(DataError, match="name other training data with --train"):
        run("score", gold, found, "--errors", "--train", tmp_path / "bad.jsonl")
    with pytest.raises(RelatumError, match=r"found the parts .*; name the file of one of them"):
        run("score", gold, found, "--errors", "--train", tmp_path, "--from", "jsonl")
    result = run("score", gold, found, "--train", gold)
    assert result.exit_code == 2
    assert "add --errors" in result.stderr


def test_texts_that_were_not_split_are_split(tmp_path: Path) -> None:
    text = "Anna works in Rome. Acme is far."
    entities = [{"start": 0, "end": 4, "label": "Peop"}, {"start": 20, "end": 24, "label": "Org"}]
    gold = write(tmp_path / "gold.jsonl", {"id": "x", "text": text, "entities": entities, "relations": []})
    errors = run_json("score", gold, gold, "--errors")["errors"]
    assert errors["sentences"] == 2
    assert set(errors["breakdowns"]["n_entities"]["entities"]) == {"1"}


def test_evaluate_shows_errors_and_finds_the_training_part(examples_folder: Path) -> None:
    news = examples_folder / "news"
    arguments = ("evaluate", "news", news, "--part", "dev", "--device", "cpu")
    loaded = run_json(*arguments, "--worst", "2")
    assert loaded["errors"]["entities"]["f1"] == loaded["entities"]["micro"]["f1"]
    assert loaded["errors"]["relations_strict"]["f1"] == loaded["relations_strict"]["micro"]["f1"]
    assert len(loaded["errors"]["worst"]) == 2
    assert "seen" in loaded["errors"]["breakdowns"]
    result = run(*arguments, "--errors", "--train", "test")
    assert f"Seen in training: {news / 'test.jsonl'}, 23 sentences" in result.stdout
    with pytest.raises(RelatumError, match="has the parts train, dev, test"):
        run(*arguments, "--errors", "--train", "tset")
