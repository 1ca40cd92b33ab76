"""Documents as rows of Hugging Face datasets, and back, by files of JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relatum import convert, load_documents

datasets = pytest.importorskip("datasets", reason="the library datasets is not installed")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


@pytest.mark.parametrize("format", ["jsonl", "spert", "doccano"])
def test_documents_survive_a_dataset(format: str, examples_folder: Path, tmp_path: Path) -> None:
    suffix = "json" if format == "spert" else "jsonl"
    convert(examples_folder / "news" / "test.jsonl", tmp_path / f"news.{suffix}", to_format=format)
    rows = datasets.Dataset.from_json(str(tmp_path / f"news.{suffix}"), cache_dir=str(tmp_path / "cache"))
    assert len(rows)
    rows.to_json(tmp_path / "again.jsonl")
    assert load_documents(tmp_path / "again.jsonl", format) == load_documents(tmp_path / f"news.{suffix}", format)


def test_missing_values_of_a_dataset_are_missing_keys(tmp_path: Path) -> None:
    full = {"id": "a", "start": 0, "end": 3, "label": "Peop", "score": 0.5}
    records = [
        {"id": "1", "text": "Ada ran.", "entities": [full], "relations": [], "metadata": {"year": 1921}},
        {"id": "2", "text": "Bo.", "entities": [{"start": 0, "end": 2, "label": "Peop"}], "relations": []},
    ]
    path = tmp_path / "records.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    datasets.Dataset.from_list(records).to_json(tmp_path / "again.jsonl")
    assert [one.annotation for one in load_documents(tmp_path / "again.jsonl")] == [
        one.annotation for one in load_documents(path)
    ]
