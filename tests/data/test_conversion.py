"""Whole conversions: what they carry along, and what they say they do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relatum.data.conversion import Converted, convert
from relatum.data.corpus import open_corpus
from relatum.data.fitting import Policy
from relatum.data.formats import get_format
from relatum.data.splitting import make_splitter
from relatum.schema import Schema


def run(source: Path, target: Path, to: str, policy: Policy | None = None) -> Converted:
    splitter = make_splitter("whitespace", "lines")
    return convert(open_corpus(source), target, get_format(to), splitter, policy or Policy())


def jsonl(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture
def spert(tmp_path: Path) -> Path:
    folder = tmp_path / "spert"
    folder.mkdir()
    sentence = {
        "tokens": ["Ann", "and", "Bo"],
        "entities": [{"type": "Peop", "start": 0, "end": 1}, {"type": "Peop", "start": 2, "end": 3}],
        "relations": [{"type": "Sibling", "head": 0, "tail": 1}],
    }
    (folder / "train.json").write_text(json.dumps([sentence]))
    types = {"entities": {"Peop": {}}, "relations": {"Sibling": {"symmetric": True}}}
    (folder / "types.json").write_text(json.dumps(types))
    return folder


def test_symmetric_types_stay_symmetric_where_the_labels_say_so(spert: Path, tmp_path: Path) -> None:
    assert run(spert, tmp_path / "out", "spert").problems.count == 0
    assert Schema.load(tmp_path / "out" / "types.json").is_symmetric("Sibling")


def test_folder_of_one_part_becomes_a_folder(spert: Path, tmp_path: Path) -> None:
    assert run(spert, tmp_path / "out", "jsonl").written == (tmp_path / "out",)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["train.jsonl"]
    assert run(spert, tmp_path / "one.jsonl", "jsonl").written == (tmp_path / "one.jsonl",)
    assert (tmp_path / "one.jsonl").is_file()


def test_ids_that_a_format_cannot_hold_are_said(tmp_path: Path) -> None:
    entities = [{"id": "E1", "start": 0, "end": 1, "label": "X"}, {"start": 1, "end": 2, "label": "X"}]
    relations = [{"id": "R1", "head": "E1", "tail": 1, "label": "r"}]
    source = jsonl(tmp_path / "a.jsonl", {"words": ["a", "b"], "entities": entities, "relations": relations})
    left_out = "ids of entities and relations left out, which SpERT JSON cannot hold"
    assert run(source, tmp_path / "b.json", "spert").problems.remarks == {left_out: 2}
    assert run(source, tmp_path / "brat", "brat").problems.remarks == {}


@pytest.mark.parametrize(
    "record",
    [
        {"words": ["New York", "is", "big"]},
        {"text": "New York is big.", "word_offsets": [[0, 8], [9, 11], [12, 15], [15, 16]]},
    ],
)
def test_words_that_a_text_alone_does_not_show_are_said(tmp_path: Path, record: object) -> None:
    source = jsonl(tmp_path / "a.jsonl", record)
    said = run(source, tmp_path / "brat", "brat").problems.remarks
    assert said == {"documents whose words and sentences are left out, which brat standoff folder cannot hold": 1}
    assert run(source, tmp_path / "b.jsonl", "jsonl").problems.remarks == {}


def test_words_that_the_text_shows_are_not_spoken_of(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "a.jsonl", {"words": ["York", "is", "big"]})
    assert run(source, tmp_path / "brat", "brat").problems.remarks == {}


def test_entity_annotated_twice_is_written_once_where_nothing_may_overlap(tmp_path: Path) -> None:
    twice = [{"start": 0, "end": 1, "label": "X"}] * 2
    source = jsonl(tmp_path / "a.jsonl", {"words": ["a", "b"], "entities": twice})
    result = run(source, tmp_path / "b.corp", "corp")
    assert result.problems.remarks == {"entities annotated twice, written once": 1}
    (document,) = open_corpus(tmp_path / "b.corp").parts[0].read(result.problems)
    assert len(document.annotation.entities) == 1


def test_brat_attributes_keep_the_ids_that_notes_speak_of(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.txt").write_text("Ann Bo")
    lines = ["T1\tPeop 0 3\tAnn", "A1\tOld T1", "A2\tTall T1", "#1\tAnnotatorNotes A2\tsure"]
    (source / "a.ann").write_text("\n".join(lines) + "\n")
    run(source, tmp_path / "out", "brat")
    assert (tmp_path / "out" / "a.ann").read_text().splitlines() == lines


def test_brat_equivalence_of_a_shared_span_is_said(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.txt").write_text("Ann Bo")
    lines = ["T1\tPeop 0 3\tAnn", "T2\tOrg 0 3\tAnn", "T3\tOrg 4 6\tBo", "*\tEquiv T2 T3"]
    (source / "a.ann").write_text("\n".join(lines) + "\n")
    said = run(source, tmp_path / "out", "brat").problems.remarks
    assert said == {"mention in an equivalence whose span another has too: only the span is kept": 1}
