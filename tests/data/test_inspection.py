"""Inspecting a corpus by one call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import relatum
from relatum.errors import FormatError, RelatumError


def test_one_call_counts_what_is_in_a_folder(examples_folder: Path) -> None:
    found = relatum.inspect(str(examples_folder / "news"))
    documents = {name: relatum.load_documents(examples_folder / "news" / f"{name}.jsonl") for name in found.parts}
    assert list(documents) == ["train", "dev", "test"]
    for name, counts in found.parts.items():
        assert counts.documents == len(documents[name])
        assert counts.relations.total() == sum(len(document.annotation.relations) for document in documents[name])
    assert found.to_dict()["total"]["distinct_sentences"] == found.distinct > 100
    assert (found.skipped, found.problems.count) == ((), 0)


def test_bad_records_are_reported_and_not_counted(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"words": ["one", "two"]}\n{"words": [1]}\n')
    (tmp_path / "notes.md").write_text("mine")
    said: list[str] = []
    found = relatum.inspect(tmp_path, monitor=said.append)
    assert (found.parts["train"].documents, found.parts["train"].words, found.problems.n_records) == (1, 2, 1)
    assert found.skipped == (("notes.md", "not annotated data in a known format"),)
    assert said == [
        "relatum: skipped notes.md: not annotated data in a known format",
        f"relatum: {tmp_path / 'train.jsonl'}:2 (record 2), words[0]: found 1; expected a string",
        "relatum: skipped 1 bad record",
    ]


def test_settings_say_how_text_is_split_and_tagged(tmp_path: Path) -> None:
    entities = [{"start": 0, "end": 1, "label": "A"}, {"start": 4, "end": 5, "label": "A"}]
    record = {"text": "a b-c", "entities": entities, "relations": [{"head": 1, "tail": 0, "label": "r"}]}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(record))
    other = relatum.load_config(None, ["tagging.fill=upper", "tagging.directed=false"])
    usual, upper = (relatum.inspect(path, config=config).parts["a"] for config in (None, other))
    assert [one.losses["words"].relations.total() for one in (usual, upper)] == [0, 1]
    assert [one.losses["spans"].relations.total() for one in (usual, upper)] == [0, 0]
    lines = tmp_path / "b.jsonl"
    lines.write_text(json.dumps({"text": "One. Two.\nThree."}))
    by_lines = relatum.load_config(None, ["text.sentences=lines", "text.words=whitespace"])
    assert [relatum.inspect(lines, config=c).parts["b"].sentences for c in (None, by_lines)] == [3, 2]


def test_wrong_path_and_format_are_named(examples_folder: Path) -> None:
    with pytest.raises(RelatumError, match="nowhere: no such file or folder"):
        relatum.inspect("nowhere")
    with pytest.raises(FormatError, match="spertt"):
        relatum.inspect(examples_folder / "news", format="spertt")
