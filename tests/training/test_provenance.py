from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from relatum._version import __version__
from relatum.config import Config, load_config
from relatum.evaluation.metrics import evaluate
from relatum.training import provenance
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunRecord
from relatum.training.reports.card import make_card


def test_versions_name_what_is_installed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_PACKAGES", ("torch", "no-such-package"))
    found = provenance.versions()
    assert found.keys() == {"relatum", "python", "torch"}
    assert found["relatum"] == __version__


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@b.example"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_commit_is_that_of_the_source_and_says_whether_it_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "relatum" / "training" / "provenance.py"
    source.parent.mkdir(parents=True)
    source.write_text("")
    version = tmp_path / "relatum" / "_version.py"
    version.write_text("1")
    monkeypatch.setattr(provenance, "__file__", str(source))
    git(tmp_path, "init")
    assert provenance.commit() is None  # inside a repository, and not a part of it
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    clean = provenance.commit()
    assert clean is not None
    assert len(clean) == 40
    version.write_text("2")
    assert provenance.commit() == f"{clean}+changes"


def test_commit_is_unknown_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert provenance.commit() is None


def test_device_is_named() -> None:
    assert provenance.device_name(torch.device("cpu")).startswith("cpu: ")


def test_card_says_what_the_model_is_and_how_it_was_made(
    start: Callable[[Config], tuple[TrainingData, RunRecord]], tiny: Callable[..., Config]
) -> None:
    data, _ = start(tiny())
    example = data.dev[0]
    scores = evaluate([(example.gold, example.gold)])
    card = make_card(data, "/somewhere/news", tiny('table.directions=["nw"]'), "relatum train x", 8, {"dev": scores})
    assert "- Entities: Loc, Org, Other, Peop" in card
    assert "`news`" in card
    assert "/somewhere" not in card
    sizes = [len(data.train), sum(len(e.gold.entities) for e in data.train)]
    assert f"| train | {sizes[0]} | {sizes[1]} |" in card
    assert "| dev | entities | 100.00 | 100.00 | 100.00 | 100.00 |" in card
    assert 'table.directions = ["nw"]' in card
    assert "relatum train x" in card
    assert "8 of 12" in card
    assert "Licence" in card


def test_settings_of_a_card_can_be_used_again(
    start: Callable[[Config], tuple[TrainingData, RunRecord]], tiny: Callable[..., Config], tmp_path: Path
) -> None:
    config = tiny('table.directions=["nw"]', "words.path=glove.txt")
    data, _ = start(tiny())
    block = make_card(data, "", config, "", 8, {}).partition("```toml\n")[2].partition("```")[0]
    path = tmp_path / "again.toml"
    path.write_text(block)
    assert load_config(path) == config
