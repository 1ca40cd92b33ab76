"""Where corpora are looked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relatum.errors import RelatumError
from relatum.lab.tables.corpora import CORPORA, CorpusPaths, name_corpus

LINE = json.dumps({"id": "a", "words": ["Anna"], "entities": [], "relations": []}) + "\n"


def corpus(folder: Path, *parts: str) -> Path:
    folder.mkdir(parents=True)
    for part in parts:
        (folder / f"{part}.jsonl").write_text(LINE)
    return folder


def test_corpora_are_found_by_name_in_a_folder(tmp_path: Path) -> None:
    corpus(tmp_path / "conll04", "train", "dev")
    found = CorpusPaths.parse([str(tmp_path)], {}).locate(CORPORA["conll04"], alone=False)
    assert found is not None
    assert (found.path, found.folds, found.shown) == (tmp_path / "conll04", None, str(tmp_path / "conll04"))
    assert CorpusPaths.parse([str(tmp_path)], {}).locate(CORPORA["ace05"], alone=True) is None


def test_environment_names_the_folder_and_is_shown_in_its_place(tmp_path: Path) -> None:
    corpus(tmp_path / "conll04", "train", "dev")
    paths = CorpusPaths.parse([], {"RELATUM_DATA": str(tmp_path)})
    found = paths.locate(CORPORA["conll04"], alone=False)
    assert found is not None
    assert found.shown == "$RELATUM_DATA/conll04"
    assert CorpusPaths.parse([], {}).locate(CORPORA["conll04"], alone=True) is None
    with pytest.raises(RelatumError, match="not a folder; set it anew"):
        CorpusPaths.parse([], {"RELATUM_DATA": str(tmp_path / "none")})


def test_licensed_corpus_may_be_named_by_itself_or_be_the_folder(tmp_path: Path) -> None:
    own = corpus(tmp_path / "mine", "train", "dev")
    named = CorpusPaths.parse([f"ace05={own}"], {}).locate(CORPORA["ace05"], alone=False)
    whole = CorpusPaths.parse([str(own)], {}).locate(CORPORA["ace05"], alone=True)
    assert named is not None
    assert whole is not None
    assert named.path == whole.path == own
    assert CorpusPaths.parse([str(own)], {}).locate(CORPORA["ace05"], alone=False) is None
    assert "LDC2006T06" in CorpusPaths().needed(CORPORA["ace05"])
    assert "--data ace05=PATH" in CorpusPaths().needed(CORPORA["ace05"])


def test_folds_are_those_of_a_file_or_as_many_as_in_the_paper(tmp_path: Path) -> None:
    paths = CorpusPaths.parse([str(tmp_path)], {})
    folder = corpus(tmp_path / "ade", "all")
    found = paths.locate(CORPORA["ade"], alone=False)
    assert found is not None
    assert found.folds == 10
    (folder / "folds.json").write_text('[{"train": [0], "dev": [], "test": []}]')
    found = paths.locate(CORPORA["ade"], alone=False)
    assert found is not None
    assert found.folds == folder / "folds.json"
    corpus(tmp_path / "ace04", "train", "dev", "test")
    found = paths.locate(CORPORA["ace04"], alone=False)
    assert found is not None
    assert found.folds is None


def test_mistakes_name_the_cure(tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match="no such file or folder"):
        CorpusPaths.parse([str(tmp_path / "none")], {})
    with pytest.raises(RelatumError, match="a second folder of corpora; give one, and others as NAME=PATH"):
        CorpusPaths.parse([str(tmp_path), str(tmp_path)], {})
    with pytest.raises(RelatumError, match="expected ace04, ace05, conll04"):
        name_corpus("nonsense")
    assert name_corpus(str(tmp_path)).title == tmp_path.name
