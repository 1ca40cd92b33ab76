"""`relatum inspect` from the command line."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from relatum.cli.app import main


def document(name: str, *sentences: str, **rest: object) -> dict[str, object]:
    """A record of sentences, given as words with spaces."""
    words = [sentence.split() for sentence in sentences]
    ends = [sum(map(len, words[: i + 1])) for i in range(len(words))]
    starts = [0, *ends[:-1]]
    flat = [word for sentence in words for word in sentence]
    return {"id": name, "words": flat, "sentences": list(map(list, zip(starts, ends, strict=True))), **rest}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two splits with one of everything that inspection counts."""
    entities = [
        {"start": 0, "end": 1, "label": "Peop"},
        {"start": 2, "end": 4, "label": "Org"},
        {"start": 2, "end": 3, "label": "Loc"},
        {"start": 5, "end": 6, "label": "Peop"},
    ]
    relations = [
        {"head": 0, "tail": 1, "label": "Work_For"},
        {"head": 0, "tail": 1, "label": "Owns"},
        {"head": 3, "tail": 1, "label": "Work_For"},
    ]
    train = [
        document("a", "Mara left Tarn Bank .", "Ivo stayed .", entities=entities, relations=relations),
        document("b", "Nothing happened ."),
        document("c", "Nothing happened ."),
    ]
    test = [document("x", "Ivo stayed ."), document("y", "All is new here .")]
    for name, records in (("train", train), ("test", test)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "notes.md").write_text("mine")
    return tmp_path


def inspect_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["inspect", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_inspect_counts_everything(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = inspect_json(capsys, str(corpus))
    assert list(found["parts"]) == ["train", "test"]
    assert found["parts"]["train"] == {
        "format": "jsonl",
        "documents": 3,
        "sentences": 4,
        "distinct_sentences": 3,
        "words": 14,
        "longest_sentence": {"words": 5, "id": "a#1"},
        "entities": {"total": 4, "types": {"Peop": 2, "Org": 1, "Loc": 1}},
        "relations": {"total": 3, "types": {"Work_For": 2, "Owns": 1}},
        "signatures": [
            {"relation": "Work_For", "head": "Peop", "tail": "Org", "count": 2},
            {"relation": "Owns", "head": "Peop", "tail": "Org", "count": 1},
        ],
        "overlapping_entities": 2,
        "discontinuous_entities": 0,
        "crossing_relations": 1,
        "untaggable": {
            "words": {
                "entities": {"it lies inside or around another entity": 1},
                "relations": {"another relation connects the same pair": 1},
                "gained_relations": 0,
            },
            "spans": {"entities": {}, "relations": {}, "gained_relations": 0},
        },
    }
    assert found["total"] == {
        "documents": 5,
        "sentences": 6,
        "distinct_sentences": 4,
        "words": 22,
        "entities": 4,
        "relations": 3,
    }
    assert found["shared_sentences"] == [
        {
            "parts": ["train", "test"],
            "distinct": 1,
            "sentences": [{"text": "Ivo stayed .", "train": "a#2", "test": "x"}],
        }
    ]


def test_inspect_prints_a_readable_table(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(corpus)]) == 0
    output = capsys.readouterr()
    lines = [" ".join(line.split()) for line in output.out.splitlines()]
    assert "sentences 4 2 6" in lines
    assert "Work_For: Peop → Org 2 0 2" in lines
    assert "entities that overlap 2 0 2" in lines
    assert "relations between sentences 1 0 1" in lines
    assert "words, relations without a tag: another relation connects the same pair 1 0 1" in lines
    assert "train: 1 sentence repeated from earlier in train" in lines
    assert "1 distinct sentence of test also in train:" in lines
    assert "x = a#2: Ivo stayed ." in lines
    assert "skipped notes.md" in output.err


def test_inspect_follows_the_configured_tagging(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.jsonl"
    entities = [{"start": 0, "end": 1, "label": "A"}, {"start": 2, "end": 3, "label": "A"}]
    path.write_text(
        json.dumps(document("a", "b c d", entities=entities, relations=[{"head": 1, "tail": 0, "label": "r"}]))
    )
    assert inspect_json(capsys, str(path))["parts"]["a"]["untaggable"]["words"]["relations"] == {}
    settings = ["--set", "tagging.fill=upper", "--set", "tagging.directed=false"]
    lost = inspect_json(capsys, str(path), *settings)["parts"]["a"]["untaggable"]["words"]["relations"]
    assert sum(lost.values()) == 1


def test_inspect_reports_bad_records_and_counts_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"words": ["one"]}\n{"words": [1]}\n{broken\n')
    assert main(["inspect", str(path)]) == 1
    output = capsys.readouterr()
    assert "a.jsonl:2 (record 2), words[0]: found 1; expected a string" in output.err
    assert "a.jsonl:3 (record 3)" in output.err
    assert "skipped 2 bad records" in output.err
    assert "sentences" in output.out


def test_inspect_conll04_finds_what_was_published(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = inspect_json(capsys, str(shared_data / "conll04"))
    assert {name: part["sentences"] for name, part in found["parts"].items()} == {"train": 922, "dev": 231, "test": 288}
    assert found["total"]["sentences"] == 1441
    assert found["total"]["entities"] == 5349
    assert found["total"]["relations"] == 2048
    shared = {tuple(entry["parts"]): entry for entry in found["shared_sentences"]}["train", "test"]
    assert shared["distinct"] == len(shared["sentences"]) == 18
    assert "NEW ORLEANS ( AP )" in {sentence["text"] for sentence in shared["sentences"]}


def test_inspect_ade_and_scierc_find_what_was_published(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ade = inspect_json(capsys, str(shared_data / "ade"))["total"]
    assert (ade["distinct_sentences"], ade["entities"], ade["relations"]) == (4152, 10475, 6551)
    scierc = inspect_json(capsys, str(shared_data / "scierc"))
    assert [part["documents"] for part in scierc["parts"].values()] == [350, 50, 100]
    assert scierc["total"]["sentences"] == 2687


def test_inspect_of_a_long_document_takes_a_bounded_multiple_of_its_size(tmp_path: Path, corpus: Path) -> None:
    text = "Mara Ilves works for Tarn Shipping in Oldhaven. " * 5000
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"text": text, "entities": [{"start": 0, "end": 10, "label": "Peop"}]}))
    assert main(["inspect", str(corpus)]) == 0  # to import all that it needs
    tracemalloc.start()
    try:
        assert main(["inspect", str(path)]) == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 45 * len(text)
