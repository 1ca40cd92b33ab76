"""A run that several commands are tried on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from relatum.config import load_config
from relatum.monitor import Monitor
from relatum.training.corpus import load_training_data
from relatum.training.folder import RunRecord
from relatum.training.loop import train

from ..small_models import seal


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, examples_folder: Path) -> Path:
    """A run that has learned a little of the news examples; tests leave it as it is."""
    torch.set_num_threads(1)
    settings = (
        "encoder.kind=none",
        "model.width=16",
        "model.n_layers=1",
        "model.dropout=0",
        "sequence.n_attention_heads=2",
        "sequence.feedforward_width=16",
        "training.learning_rate=1e-2",
        "training.warmup_steps=5",
        "training.batch_size=8",
        "training.relation_weight=0.1",
        "training.steps=80",
        "training.evaluate_every=80",
    )
    path, config, news = (
        tmp_path_factory.mktemp("trained") / "run",
        load_config(None, settings),
        examples_folder / "news",
    )
    data = load_training_data(news, config)
    record = RunRecord(config, str(news), None, None, "cpu", "", data.fingerprint())
    train(data, record, path, device=torch.device("cpu"), monitor=Monitor())
    return path


def copy_with(model: Path, target: Path, section: str, **settings: str) -> Path:
    """Copy a model, with other settings in one section."""
    copy = Path(shutil.copytree(model, target))
    record = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    record["config"][section] |= settings
    (copy / "config.json").write_text(json.dumps(record), encoding="utf-8")
    seal(copy)
    return copy


@pytest.fixture
def crowded(trained: Path, examples_folder: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A model that was told to leave out overlapping entities, and a file in which the first entity of each text has
    a second type."""
    model = copy_with(trained / "model", tmp_path / "crowded", "data", overlaps="keep-longest")
    texts = [json.loads(line) for line in (examples_folder / "news" / "dev.jsonl").read_text("utf-8").splitlines()]
    texts = [text for text in texts if text["entities"]]
    for text in texts:
        first = text["entities"][0]
        text["entities"].append({**first, "id": "again", "label": "Loc" if first["label"] == "Org" else "Org"})
    data = tmp_path / "crowded.jsonl"
    data.write_text("".join(json.dumps(text) + "\n" for text in texts), encoding="utf-8")
    return model, data


@pytest.fixture
def crossing(trained: Path, examples_folder: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A model that refuses relations between sentences, and a file whose last text has one, and nested entities."""
    text = "Anna Berg slept.\n\nOslo near Bonn."
    places = [("a", 0, 9, "Peop"), ("b", 18, 22, "Loc"), ("c", 28, 32, "Loc"), ("d", 0, 4, "Org")]
    entities = [dict(zip(("id", "start", "end", "label"), place, strict=True)) for place in places]
    relations = [{"head": "b", "tail": "a", "label": "Live_In"}, {"head": "b", "tail": "c", "label": "Located_In"}]
    record = {"id": "x", "text": text, "entities": entities, "relations": relations}
    data = tmp_path / "crossing.jsonl"
    texts = (examples_folder / "news" / "dev.jsonl").read_text(encoding="utf-8")
    data.write_text(texts + json.dumps(record) + "\n", encoding="utf-8")
    return trained / "model", data
