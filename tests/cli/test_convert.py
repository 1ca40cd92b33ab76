"""`relatum convert` from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relatum.cli.app import main

GOOD = {"words": ["Mara", "left", "Oldhaven"], "entities": [{"start": 0, "end": 1, "label": "Peop"}]}


def write_lines(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_convert_says_which_format_it_guessed(
    examples_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out"
    assert main(["convert", str(examples_folder / "news"), str(target), "--to", "spert"]) == 0
    output = capsys.readouterr()
    assert "as jsonl, writing" in output.err
    assert sorted(path.name for path in target.iterdir()) == ["dev.json", "test.json", "train.json", "types.json"]
    labels = json.loads((target / "types.json").read_text())
    assert sorted(labels["entities"]) == ["Loc", "Org", "Other", "Peop"]


def test_convert_reports_all_bad_records_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_lines(tmp_path / "a.jsonl", GOOD, {"words": "no list"}, {**GOOD, "entites": []}, GOOD)
    target = tmp_path / "b.json"
    target.write_text("old")
    assert main(["convert", str(source), str(target), "--to", "spert"]) == 1
    error = capsys.readouterr().err
    assert 'a.jsonl:2 (record 2), words: found "no list"; expected a list' in error
    assert "a.jsonl:3 (record 3), entites: found the unknown key" in error
    assert "did you mean 'entities'?" in error
    assert "--on-error skip" in error
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.json"]


def test_convert_skips_bad_records_when_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_lines(tmp_path / "a.jsonl", GOOD, {"words": 3}, {**GOOD, "id": "last"})
    target = tmp_path / "b.json"
    assert main(["convert", str(source), str(target), "--to", "spert", "--on-error", "skip"]) == 0
    assert "skipped 1 bad record\n" in capsys.readouterr().err
    assert [record["orig_id"] for record in json.loads(target.read_text())] == ["a-1", "last"]


@pytest.mark.parametrize("to", ["jsonl", "spert", "brat"])
def test_convert_that_skips_everything_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], to: str) -> None:
    source = write_lines(tmp_path / "a.jsonl", {"words": 3}, {"words": [""]})
    target = tmp_path / "b"
    assert main(["convert", str(source), str(target), "--to", to, "--on-error", "skip"]) == 1
    assert "Nothing was written: no document of a is left. Fix these records.\n" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_convert_that_skips_all_of_one_part_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    write_lines(tmp_path / "in" / "train.jsonl", GOOD, {"words": 3})
    write_lines(tmp_path / "in" / "dev.jsonl", {"words": 3})
    arguments = ["convert", str(tmp_path / "in"), str(tmp_path / "out"), "--to", "jsonl", "--on-error", "skip"]
    assert main(arguments) == 1
    assert "no document of dev is left" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_convert_refuses_overlaps_the_target_cannot_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nested = {
        "words": ["North", "Tarn", "Bank", "fell"],
        "entities": [
            {"start": 0, "end": 3, "label": "Org"},
            {"start": 0, "end": 2, "label": "Loc"},
            {"start": 3, "end": 4, "label": "Other"},
        ],
        "relations": [{"head": 0, "tail": 1, "label": "OrgBased_In"}, {"head": 0, "tail": 2, "label": "Fell"}],
    }
    source = write_lines(tmp_path / "a.jsonl", nested)
    target = tmp_path / "b.corp"
    assert main(["convert", str(source), str(target)]) == 1
    assert "--overlaps drop or keep-longest" in capsys.readouterr().err
    assert not target.exists()

    assert main(["convert", str(source), str(target), "--overlaps", "keep-longest"]) == 0
    error = capsys.readouterr().err
    assert "1 × overlapping entities left out" in error
    assert "1 × relations left out with an entity of theirs" in error

    assert main(["convert", str(source), str(target), "--overlaps", "drop"]) == 0
    error = capsys.readouterr().err
    assert "2 × overlapping entities left out" in error
    assert "2 × relations left out with an entity of theirs" in error

    assert main(["convert", str(source), str(tmp_path / "c.jsonl")]) == 0
    assert "left out" not in capsys.readouterr().err


def test_convert_refuses_relations_between_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = {
        "words": ["Mara", "left", ".", "Oldhaven", "slept", "."],
        "sentences": [[0, 3], [3, 6]],
        "entities": [{"start": 0, "end": 1, "label": "Peop"}, {"start": 3, "end": 4, "label": "Loc"}],
        "relations": [{"head": 0, "tail": 1, "label": "Live_In"}],
    }
    source = write_lines(tmp_path / "a.jsonl", two)
    target = tmp_path / "b.json"
    assert main(["convert", str(source), str(target), "--to", "spert"]) == 1
    error = capsys.readouterr().err
    assert "between sentences, from 'Mara' to 'Oldhaven'; expected" in error
    assert "Pass --crossing drop to keep 1 document and leave out only the relations between sentences." in error
    assert "on-error" not in error
    assert main(["convert", str(source), str(target), "--to", "spert", "--crossing", "drop"]) == 0
    assert "1 × relations between sentences left out" in capsys.readouterr().err
    assert [len(record["relations"]) for record in json.loads(target.read_text())] == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.jsonl", "b.jsonl"], "missing.jsonl: no such file or folder"),
        (["a.jsonl", "b.json"], "say which with --to"),
        (["a.jsonl", "b"], "say which format to write with --to"),
        (["a.jsonl", "b.json", "--to", "spart"], "unknown format 'spart'; did you mean 'spert'?"),
        (["a.jsonl", "b.jsonl", "--set", "text.wrods=rules"], "did you mean text.words?"),
        (["empty.jsonl", "b.jsonl"], "empty.jsonl: the file is empty"),
        (["noise.txt", "b.jsonl"], "in no format that can be guessed; name its format with --from"),
    ],
)
def test_convert_answers_a_wrong_call_plainly(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "a.jsonl", GOOD)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "noise.txt").write_text("just a text\n")
    assert main(["convert", *arguments]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "b.jsonl").exists()


def test_convert_refuses_a_folder_that_is_not_empty(
    examples_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").touch()
    assert main(["convert", str(examples_folder / "news"), str(tmp_path), "--to", "brat"]) == 1
    assert "is a folder that is not empty; name a new folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_convert_killed_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    write_lines(source, *({**GOOD, "id": i} for i in range(60_000)))
    target = tmp_path / "b.jsonl"
    target.write_text("old\n")
    command = [sys.executable, "-m", "relatum", "convert", str(source), str(target)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        drafts: list[Path] = []
        while process.poll() is None and not any(draft.stat().st_size for draft in drafts):
            drafts = list(tmp_path.glob(".b.jsonl.*.partial"))
            time.sleep(0.001)
        assert drafts, "the conversion ended before it could be killed"
        os.kill(process.pid, signal.SIGKILL)
    assert target.read_text() == "old\n"


def test_convert_in_place_reads_all_before_it_replaces(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", *({**GOOD, "id": f"d{i}"} for i in range(500)))
    before = path.read_text()
    assert main(["convert", str(path), str(path)]) == 0
    once = path.read_text()
    assert len(once.splitlines()) == 500
    assert main(["convert", str(path), str(path)]) == 0
    assert path.read_text() == once != before
