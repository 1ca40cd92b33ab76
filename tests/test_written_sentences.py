"""Annotated sentences that are made from written patterns."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from scripts.written_sentences import FOLDER, Patterns, written_sentences

NAMES = """
[names]
first = Anna | John
last = Berg | Okafor
person Peop = {first} {last}
firm Org = Nokia | the Reserve Bank
day = Monday | Friday
# a comment

[sentences]
"""
FILES = sorted(FOLDER.glob("*.txt"))
FEWEST_LABELS = {"drugs": 1}
"""The least number of relation labels of a file, if it is not 5: ADE has one label."""


def write(tmp_path: Path, sentences: str) -> Path:
    path = tmp_path / "patterns.txt"
    path.write_text(NAMES + sentences, encoding="utf-8")
    return path


def test_slots_become_entities_and_relations(tmp_path: Path) -> None:
    patterns = Patterns.read(write(tmp_path, "{person:a} of {firm:b} came on {day}. | a Work_For b; b Hires a\n"))
    for record in patterns.make(patterns.sentences, 40, seed=1):
        first, last, _, *rest = record["tokens"]
        assert first.title() in ("Anna", "John")
        assert last.title() in ("Berg", "Okafor")
        length = 1 if rest[0].title() == "Nokia" else 2
        start = 3 if length == 1 else 4
        assert record["entities"] == [[0, 2, "Peop"], [start, start + length, "Org"]]
        pair = [0, 2, start, start + length]
        assert record["relations"] == [[*pair, "Work_For"], [*pair[2:], *pair[:2], "Hires"]]


def test_two_slots_of_a_kind_have_different_names(tmp_path: Path) -> None:
    patterns = Patterns.read(write(tmp_path, "{person:a} met {person:b}.\n"))
    for record in patterns.make(patterns.sentences, 40, seed=1):
        assert record["tokens"][:2] != record["tokens"][3:5]
        assert record["relations"] == []


def test_the_same_seed_makes_the_same_sentences(tmp_path: Path) -> None:
    patterns = Patterns.read(write(tmp_path, "{person:a} met {person:b}.\n{firm:a} closed on {day}.\n"))
    made = [list(patterns.make(patterns.sentences, 20, seed)) for seed in (3, 3, 4)]
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{city:a} sleeps.", "city is not among the names"),
        ("{city} and {person} sleep.", "city is not among the names"),
        ("{person:a} met {person:a}.", "two slots are called a"),
        ("{person:a} left. | a Work_For b", "b is no entity of the sentence"),
        ("{person:a} left on {day:b}. | a Leaves b", "b is no entity of the sentence"),
        ("{person:a} left. | a Work_For", "expected SLOT LABEL SLOT"),
    ],
)
def test_wrong_patterns_are_refused_with_their_line(line: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"patterns\.txt:{len(NAMES.splitlines()) + 1}: .*{said}"):
        Patterns.read(write(tmp_path, line + "\n"))


def test_names_that_are_made_of_unknown_names_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "patterns.txt"
    path.write_text("[names]\nperson Peop = {frist} Berg\n[sentences]\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"patterns\.txt: person: frist is not among the names"):
        Patterns.read(path)


def test_letters_that_become_two_in_capitals_stay_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.written_sentences.CAPITALS", 1)
    patterns = Patterns.read(
        write(tmp_path, "In Weißer Straße {person:a} met {firm:b}. | a Meets b\n{firm:a} closed.\n")
    )
    for record in patterns.make(patterns.sentences, 20, seed=1):
        for start, end, label in record["entities"]:
            name = " ".join(record["tokens"][start:end])
            assert name.isupper() == (len(record["tokens"]) < 6)
            assert (label == "Peop") == (name.split()[0].title() in ("Anna", "John"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_of_patterns_make_sentences_for_train_and_other_ones_for_dev(path: Path) -> None:
    patterns = Patterns.read(path)
    train, dev = (patterns.part(part) for part in ("train", "dev"))
    assert len(train) > 3 * len(dev) > 100
    assert not {pattern.text for pattern in train} & {pattern.text for pattern in dev}
    made = list(written_sentences(path.stem, "train", len(train)))
    assert len({" ".join(record["tokens"]) for record in made}) == len(made)
    labels = Counter(relation[4] for record in made for relation in record["relations"])
    assert len(labels) >= FEWEST_LABELS.get(path.stem, 5)
    assert any(not record["relations"] for record in made)
