"""`relatum push`, and models of the hub in other commands, against a stand-in of the hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from relatum.cli.app import main

from ..hub_stand_in import TOKEN, Hub, metadata_of, use_hub

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with use_hub(tmp_path / "cache") as hub:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield hub


def test_trained_model_is_pushed_with_its_scores_and_read_by_its_name(
    hub: Hub, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = "--private --license mit --language en --dataset mara/news --tag ships --message First".split()
    assert main(["push", str(trained / "model"), "mara/names", *given]) == 0
    repo = hub.repos["mara/names"]
    printed = capsys.readouterr()
    assert printed.out == f"{hub.url}/mara/names at {repo.refs['main']}\n"
    assert printed.err == ""
    assert (repo.private, repo.messages) == (True, ["First"])
    data = metadata_of(repo.files["README.md"].decode())
    assert (data.license, data.language, data.datasets) == ("mit", ["en"], ["mara/news"])
    assert "ships" in data.tags
    assert {one.dataset_split for one in data.eval_results} == {"dev", "test"}
    assert "entities, F1" in {one.metric_name for one in data.eval_results}
    text = "Erik Dahl lives in Oslo."
    assert main(["extract", "--model", "mara/names", "--device", "cpu", "--format", "json", text]) == 0
    assert f'"text": "{text}"' in capsys.readouterr().out


def test_push_says_what_is_missing(hub: Hub, trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["push", str(trained / "model"), "mara/names", "--branch", "next", "--encoder-inside"]) == 0
    assert "names no licence" in capsys.readouterr().err
    assert sorted(hub.repos["mara/names"].refs) == ["main", "next"]
    assert main(["push", str(trained / "model"), "names"]) == 1
    assert "expected owner/model" in capsys.readouterr().err
