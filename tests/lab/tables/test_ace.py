"""ACE from files in the LDC's layout, which we write ourselves, to the rows of Table 1, prepared as published."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relatum.cli.app import app
from relatum.config import load_config
from relatum.data.formats.ace import FORMAT
from relatum.errors import DataError, RelatumError
from relatum.lab.tables.configs import config_file
from relatum.lab.tables.corpora import CorpusPaths
from relatum.lab.tables.making import plan_table
from relatum.lab.tables.selection import Request
from relatum.training.corpus import FoldChoice, load_training_data
from relatum.types import Annotation, Document, Entity, Relation, Span

from .conftest import TINY

TEXT = "{id}\n\nOda Lind left home. She went to Oslo. A UNofficial visit, she said."


def document(id: str) -> Document:
    """Three sentences, with a relation from the first to the second and an entity inside a word of the third."""
    text = TEXT.format(id=id)

    def entity(name: str, label: str) -> Entity:
        start = text.index(name)
        return Entity(Span(start, start + len(name)), label)

    person, place = entity("Oda Lind", "PER"), entity("Oslo", "GPE")
    return Document(id, text, Annotation((person, place, entity("UN", "ORG")), (Relation(person, place, "PHYS"),)))


def ace05(folder: Path, **parts: Sequence[str]) -> tuple[Path, Path]:
    """The data of ACE 2005 and lists of its parts; what is in the list `un` is in none of them."""
    data, lists = folder / "ace_2005/data/English", folder / "split"
    lists.mkdir(parents=True)
    for name, ids in parts.items():
        FORMAT.write(data / f"{'un' if name == 'un' else 'nw'}/timex2norm", map(document, ids))
        if name != "un":
            (lists / name).write_text("".join(f"{id}\n" for id in ids), encoding="utf-8")
    return data, lists


PARTS = {"train": ["A.1", "A.2", "A.3"], "dev": ["B.1"], "test": ["C.1", "C.2"], "un": ["X.1", "X.2"]}


def test_paper_settings_join_sentences_and_cut_words_in_every_part(tmp_path: Path) -> None:
    data, lists = ace05(tmp_path, **PARTS)
    loaded = load_training_data(data, load_config(config_file("paper/ace05")), fold=FoldChoice(lists, 1))
    ids = {name: sorted({one.id.partition("#")[0] for one in examples}) for name, examples in loaded.parts.items()}
    assert ids == {name: PARTS[name] for name in ("train", "dev", "test")}
    assert loaded.schema.entity_types == ("GPE", "ORG", "PER")
    for examples in loaded.parts.values():
        texts = [" ".join(example.sentence.words) for example in examples]
        assert "Oda Lind left home . She went to Oslo ." in texts
        assert "A UN official visit , she said ." in texts
    header, crossed, cut = loaded.test[:3]
    assert header.gold == Annotation()
    assert [relation.label for relation in crossed.gold.relations] == ["PHYS"]
    assert [(entity.label, entity.span) for entity in cut.gold.entities] == [("ORG", Span(1, 2))]
    for wanted in (
        "6 × sentences joined because a relation connects them",
        "6 × words cut in two where an annotation begins or ends inside them",
        f"2 × documents in no part of a fold (first: {lists}:1, X.1, X.2)",
    ):
        assert any(remark.startswith(wanted) for remark in loaded.remarks), loaded.remarks


def test_words_are_cut_at_gold_borders_only_if_the_settings_say_so(tmp_path: Path) -> None:
    data, lists = ace05(tmp_path, **PARTS)
    config = load_config(config_file("paper/ace05"), ["data.inside_words=fail"])
    with pytest.raises(DataError, match=r"'UN' at characters .*, which begins or ends inside a word"):
        load_training_data(data, config, fold=FoldChoice(lists, 1))


def test_listed_documents_that_are_not_there_are_named(tmp_path: Path) -> None:
    data, lists = ace05(tmp_path, **PARTS)
    (lists / "dev").write_text("B.1\nB.2\nB.3\n", encoding="utf-8")
    with pytest.raises(
        RelatumError, match=r"2 of the documents that it lists are not in the corpus(.|\n)*'B\.2'"
    ) as error:
        load_training_data(data, load_config(config_file("paper/ace05")), fold=FoldChoice(lists, 1))
    assert f"'B.3' ({lists}, dev[2])" in str(error.value)


def ace04(folder: Path) -> tuple[Path, Path]:
    """The data of ACE 2004, and the test parts of five folds as they are published."""
    data, lists = folder / "ace_2004/data/English", folder / "cv"
    lists.mkdir()
    names = {fold: [f"VOA.{fold}.{number}" for number in (1, 2)] for fold in range(5)}
    FORMAT.write(data / "bnews", (document(id) for ids in names.values() for id in ids))
    FORMAT.write(data / "fisher_transcripts", [document("fsh_1")])
    for fold, ids in names.items():
        (lists / f"cv{fold}").write_text("\n".join(ids), encoding="utf-8")
    return data, lists


def test_folds_without_dev_hold_it_out_of_train_by_the_seed(tmp_path: Path) -> None:
    data, lists = ace04(tmp_path)
    parts = []
    for seed in range(4):
        config = load_config(config_file("paper/ace04"), [f"training.seed={seed}"])
        loaded = load_training_data(data, config, fold=FoldChoice(lists, 2))
        ids = {name: {one.id.partition("#")[0] for one in examples} for name, examples in loaded.parts.items()}
        assert ids["test"] == {"VOA.1.1", "VOA.1.2"}
        assert (len(ids["train"]), len(ids["dev"])) == (7, 1)
        assert not ids["train"] & ids["dev"]
        assert loaded.dev_by_seed
        assert f"1 of 8 training documents are held out for it (seed {seed})" in loaded.remarks[0]
        parts.append(ids["dev"])
    assert any(dev != parts[0] for dev in parts)


def test_reproduce_finds_the_rows_of_ace_by_their_lists(tmp_path: Path) -> None:
    (old, folds), (new, lists) = ace04(tmp_path), ace05(tmp_path, **PARTS)
    command = ["reproduce", "1", "--corpus", "ace04", "--corpus", "ace05", "--runs", "2", "--dry-run"]
    command += ["--data", f"ace04={old}", "--data", f"ace05={new}", "--out", str(tmp_path / "out")]
    command += [word for one in TINY for word in ("--set", one)]
    named = ["--lists", f"ace04={folds}", "--lists", f"ace05={lists}"]
    result = CliRunner().invoke(app, [*command, *named])
    assert result.exit_code == 0, result.output
    assert "0 of 10 runs are complete" in result.output
    assert "0 of 2 runs are complete" in result.output
    for name, place in (("ace04", folds), ("ace05", lists)):
        assert f"--folds {place}" in result.output
        assert f"--config {config_file(f'paper/{name}')}" in result.output
    lists.rename(new / "lists")
    folds.rename(old / "lists")
    inside = CliRunner().invoke(app, command)
    assert inside.exit_code == 0, inside.output
    assert inside.output == result.output.replace(str(folds), str(old / "lists")).replace(
        str(lists), str(new / "lists")
    )


def test_reproduce_says_what_ace05_lacks_without_lists(tmp_path: Path) -> None:
    data, _ = ace05(tmp_path, **PARTS)
    paths = CorpusPaths.parse([f"ace05={data}"])
    with pytest.raises(RelatumError, match=r"expected the parts train, dev and test. Give the .*--lists ace05=PATH"):
        plan_table(Request(1, ("ace05",), overrides=TINY, paths=paths), tmp_path / "out")
    for wrong in (str(data), f"mine={data}", "ace05="):
        with pytest.raises(RelatumError, match=r"expected NAME=PATH, where NAME is ace04, ace05"):
            CorpusPaths.parse([], {}, [wrong])
    with pytest.raises(RelatumError, match=r"--lists ace05=nowhere: no such file or folder"):
        CorpusPaths.parse([], {}, ["ace05=nowhere"])
