"""Whole conversions: what they carry along, and what they say they do not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

import relatum
from relatum.data.conversion import Conversion, convert_corpus
from relatum.data.corpus import open_corpus
from relatum.data.fitting import Policy
from relatum.data.formats import get_format
from relatum.data.splitting import make_splitter
from relatum.errors import ConfigError, DataError, FormatError, RelatumError
from relatum.monitor import Monitor
from relatum.schema import Schema

T = TypeVar("T")
PARTS = ("train", "dev", "test")


def run(source: Path, target: Path, to: str, policy: Policy | None = None) -> Conversion:
    splitter = make_splitter("whitespace", "lines")
    return convert_corpus(open_corpus(source), target, get_format(to), splitter, policy or Policy())


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


def test_one_call_converts_a_folder(examples_folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    news = examples_folder / "news"
    done = relatum.convert(str(news), str(tmp_path / "out"), to_format="spert", monitor=said.append)
    assert (done.from_format, done.to_format, done.written) == ("jsonl", "spert", (tmp_path / "out",))
    assert done.documents == {name: len(relatum.load_documents(news / f"{name}.jsonl")) for name in PARTS}
    assert len(relatum.load_documents(tmp_path / "out" / "dev.json")) == 22, "a record a sentence"
    assert said[0] == f"relatum: reading {news} as jsonl, writing {tmp_path / 'out'} as spert"
    assert said[1:] == [f"relatum: {line}" for line in done.problems.remark_lines()]


def test_files_that_are_not_data_are_named(spert: Path, tmp_path: Path) -> None:
    said: list[str] = []
    done = relatum.convert(spert, tmp_path / "out", to_format="jsonl", monitor=said.append)
    assert done.skipped == (("types.json", "a file of labels"),)
    assert said[0] == "relatum: skipped types.json: a file of labels"


def test_monitor_counts_the_documents_of_every_part(examples_folder: Path, tmp_path: Path) -> None:
    class Counting(Monitor):
        """Counts what is read, by part."""

        def __init__(self) -> None:
            self.counts: dict[str, int] = {}

        def watch(self, items: Iterable[T], name: str) -> Iterator[T]:
            for number, item in enumerate(items, 1):
                self.counts[name] = number
                yield item

    monitor = Counting()
    done = relatum.convert(examples_folder / "news", tmp_path / "out", to_format="jsonl", monitor=monitor)
    assert monitor.counts == done.documents
    assert list(done.documents) == list(PARTS)


def test_bad_records_are_skipped_if_the_caller_or_the_settings_say_so(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "a.jsonl", {"words": ["a"]}, {"words": 3})
    with pytest.raises(DataError, match=r"a\.jsonl:2 .*found 3; expected a list"):
        relatum.convert(source, tmp_path / "b.jsonl")
    skipping = relatum.load_config(None, ["data.on_error=skip"])
    said: list[str] = []
    for target, done in (
        ("b.jsonl", relatum.convert(source, tmp_path / "b.jsonl", on_error="skip", monitor=said.append)),
        ("c.jsonl", relatum.convert(source, tmp_path / "c.jsonl", config=skipping)),
    ):
        assert (done.documents, done.problems.n_records) == ({"a": 1}, 1)
        assert len(relatum.load_documents(tmp_path / target)) == 1
    assert said[-1] == "relatum: skipped 1 bad record"
    with pytest.raises(DataError):
        relatum.convert(source, tmp_path / "d.jsonl", on_error="fail", config=skipping)


def test_overlaps_and_crossing_say_what_is_left_out(tmp_path: Path) -> None:
    entities = [{"start": 0, "end": 2, "label": "X"}, {"start": 1, "end": 2, "label": "X"}]
    source = jsonl(tmp_path / "a.jsonl", {"words": ["a", "b"], "entities": entities})
    with pytest.raises(DataError, match="overlap"):
        relatum.convert(source, tmp_path / "b.corp")
    relatum.convert(source, tmp_path / "b.corp", overlaps="keep-longest")
    (document,) = relatum.load_documents(tmp_path / "b.corp")
    assert len(document.annotation.entities) == 1

    ends = [{"start": 0, "end": 3, "label": "X"}, {"start": 11, "end": 13, "label": "X"}]
    relations = [{"head": 0, "tail": 1, "label": "r"}]
    apart = jsonl(tmp_path / "c.jsonl", {"text": "Ann left.\n\nBo stayed.", "entities": ends, "relations": relations})
    with pytest.raises(DataError, match="relation"):
        relatum.convert(apart, tmp_path / "d.json", to_format="spert")
    for crossing, n_documents, n_relations in (("drop", 2, 0), ("join", 1, 1)):
        relatum.convert(apart, tmp_path / "d.json", to_format="spert", crossing=crossing)  # type: ignore[arg-type]
        documents = relatum.load_documents(tmp_path / "d.json")
        kept = sum(len(document.annotation.relations) for document in documents)
        assert (len(documents), kept) == (n_documents, n_relations)


def test_wrong_arguments_are_named_with_the_cure(examples_folder: Path, tmp_path: Path) -> None:
    news, target = examples_folder / "news", tmp_path / "out"
    with pytest.raises(RelatumError, match="nowhere: no such file or folder"):
        relatum.convert("nowhere", target, to_format="jsonl")
    with pytest.raises(FormatError, match="out: the source has several parts"):
        relatum.convert(news, target)
    with pytest.raises(ConfigError, match='on_error: found "skipp"; expected "fail" or "skip"'):
        relatum.convert(news, target, to_format="jsonl", on_error="skipp")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r'overlaps: found "all"; .*\ncrossing: found 3; '):
        relatum.convert(news, target, to_format="jsonl", overlaps="all", crossing=3)  # type: ignore[arg-type]
    assert not target.exists()
