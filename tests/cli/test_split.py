"""`relatum split` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relatum import load_documents
from relatum.cli.app import main


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps({"id": f"d{i}", "words": ["number", str(i)]}) + "\n" for i in range(40)))
    return path


def ids(path: Path) -> list[str]:
    return [document.id for document in load_documents(path)]


def test_split_writes_folds_where_the_folder_is_not_named(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["split", str(data), "--folds", "4", "--dev", "0.15", "--seed", "7"]) == 0
    out = tmp_path / "mine-split"
    assert "wrote mine-split" in capsys.readouterr().err
    folds = json.loads((out / "folds.json").read_text())
    assert len(folds) == 4
    assert sorted(number for fold in folds for number in fold["test"]) == list(range(40))
    for number, fold in enumerate(folds, 1):
        assert [len(fold[name]) for name in ("train", "dev", "test")] == [26, 4, 10]
        for name in ("train", "dev", "test"):
            assert ids(out / f"fold-{number}" / f"{name}.jsonl") == [f"d{i}" for i in fold[name]]


def test_split_gives_the_same_parts_for_the_same_seed(data: Path, tmp_path: Path) -> None:
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert main(["split", str(data), "--out", str(tmp_path / name), "--seed", seed]) == 0
    first, same, other = (ids(tmp_path / name / "train.jsonl") for name in "abc")
    assert first == same != other
    assert [len(ids(tmp_path / "a" / f"{name}.jsonl")) for name in ("train", "dev", "test")] == [26, 6, 8]


def test_split_follows_given_lists_of_ids(data: Path, tmp_path: Path) -> None:
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "train.txt").write_text("d3\nd1\n\n")
    (lists / "test.txt").write_text("d2\n")
    assert main(["split", str(data), "--out", str(tmp_path / "out"), "--lists", str(lists)]) == 0
    assert ids(tmp_path / "out" / "train.jsonl") == ["d3", "d1"]
    assert ids(tmp_path / "out" / "test.jsonl") == ["d2"]


def test_split_names_an_unknown_id(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists = tmp_path / "folds.json"
    lists.write_text(json.dumps({"train": [0, 1], "test": ["d2", "d99"]}))
    assert main(["split", str(data), "--out", str(tmp_path / "out"), "--lists", str(lists)]) == 1
    assert "folds.json, test[1]: found 'd99'; expected the id of a document" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_split_follows_the_published_folds_of_ade(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = shared_data / "ade" / "folds.json"
    out = tmp_path / "out"
    assert main(["split", str(shared_data / "ade"), "--out", str(out), "--lists", str(lists)]) == 0
    assert "documents listed more than once in a part, renamed" in capsys.readouterr().err
    given = json.loads(lists.read_text())
    assert json.loads((out / "folds.json").read_text()) == given
    lines = (shared_data / "ade" / "all.jsonl").read_text(encoding="utf-8").splitlines()
    words = [json.loads(line)["tokens"] for line in lines]
    found = [document.text for document in load_documents(out / "fold-10" / "test.jsonl")]
    assert found == [" ".join(words[number]) for number in given[9]["test"]]


@pytest.mark.parametrize(
    ("arguments", "cure"),
    [
        (["--folds", "3", "--test", "0.1"], "leave --test out"),
        (["--folds", "3", "--lists", "x"], "leave --folds and --test out"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_split_refuses_options_that_would_be_ignored(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], cure: str
) -> None:
    assert main(["split", str(data), "--out", str(tmp_path / "out"), *arguments]) == 2
    assert cure in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_split_says_what_given_lists_do_not_do_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps({"id": f"d{i}", "words": [word]}) + "\n" for i, word in enumerate("aabc")))
    lists = tmp_path / "lists.json"
    lists.write_text(json.dumps({"train": [0, 2], "dev": [2], "test": [1]}))
    assert main(["split", str(path), "--out", str(tmp_path / "out"), "--lists", str(lists)]) == 0
    error = capsys.readouterr().err
    assert "1 × documents in several parts of a fold" in error
    assert "1 × documents in no part of a fold" in error
    assert "1 × documents held out whose text is also in train" in error
