"""A small corpus, and settings of a tiny network."""

from __future__ import annotations

from pathlib import Path

import pytest

TINY = (
    "words.path=unset",
    "encoder.kind=none",
    "model.width=16",
    "sequence.n_attention_heads=2",
    "sequence.feedforward_width=32",
    "characters.width=8",
    "training.batch_size=8",
)


@pytest.fixture(autouse=True)
def _no_shared_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found beside the corpora must not depend on the machine."""
    monkeypatch.delenv("RELATUM_DATA", raising=False)


@pytest.fixture(scope="session")
def news(tmp_path_factory: pytest.TempPathFactory, examples_folder: Path) -> Path:
    """The first documents of each part of the news examples."""
    folder = tmp_path_factory.mktemp("data") / "news"
    folder.mkdir()
    for name, size in (("train", 16), ("dev", 6), ("test", 6)):
        lines = (examples_folder / "news" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        (folder / f"{name}.jsonl").write_text("\n".join(lines[:size]) + "\n", encoding="utf-8")
    return folder
