"""`relatum.train` chooses the tagging that the data needs, from a file to a model that finds it all again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import relatum
from relatum.errors import DataError
from relatum.models.checkpoint import load_model
from relatum.training.train import resume

SETTINGS = {
    "encoder.kind": "none",
    "model.width": 32,
    "model.n_layers": 2,
    "model.dropout": 0,
    "sequence.n_attention_heads": 2,
    "sequence.feedforward_width": 32,
    "characters.width": 16,
    "table.width": 32,
    "training.batch_size": 4,
    "training.learning_rate": 8e-3,
    "training.steps": 100,
    "training.evaluate_every": 50,
}
SHORT = SETTINGS | {"training.steps": 2, "training.evaluate_every": 2}
NAMES = ["Mara", "Tom", "Ada", "Lev", "Ines", "Olaf", "Rut", "Paul"]
FLAT = ((0, 1, "Peop"), (2, 5, "Org"))
NESTED = (*FLAT, (4, 5, "Loc"))


def record(
    name: str, entities: tuple[tuple[int, int, str], ...], *relations: tuple[int, int, str], place: str = "Orvik"
) -> dict[str, Any]:
    return {
        "id": name + place,
        "words": ["Mara", "leads", "Port", "of", place, "beside", name],
        "entities": [{"start": start, "end": end, "label": label} for start, end, label in entities],
        "relations": [{"head": head, "tail": tail, "label": label} for head, tail, label in relations],
    }


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return path


def corpus(folder: Path, **parts: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    for name, records in parts.items():
        write(folder / f"{name}.jsonl", records)
    return folder


TWICE = [(0, 1, "Leads"), (0, 1, "Works_For")]
NESTED_RECORDS = [record(name, NESTED, *TWICE) for name in NAMES]
FLAT_RECORDS = [record(name, FLAT, (0, 1, "Leads")) for name in NAMES]


def test_file_with_nested_entities_and_two_relations_of_a_pair_is_learned(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", NESTED_RECORDS)
    lines: list[str] = []
    run = relatum.train(path, out=tmp_path / "run", overrides=SETTINGS, device="cpu", monitor=lines.append)
    (said,) = [line for line in lines if "chosen for this data and machine" in line]
    assert f"tagging.kind = spans: sentences with entities inside one another: {len(NESTED_RECORDS)}" in said
    assert "decoding.overlap = nested: in train and dev, only entities inside one another share words" in said
    assert "decoding.relations_of_pair = several: in train and dev, some pairs of entities have several" in said
    config = load_model(run.model).config
    assert config.tagging.kind == "spans"
    assert (config.decoding.overlap, config.decoding.relations_of_pair) == ("nested", "several")
    assert run.dev is not None
    assert run.dev.entities.micro.f1 == run.dev.relations_strict.micro.f1 == 1.0
    found = relatum.Extractor.from_pretrained(run.model, device="cpu")("Mara leads Port of Orvik beside Tom")
    assert {(one.text, one.label) for one in found.entities} == {
        ("Mara", "Peop"),
        ("Port of Orvik", "Org"),
        ("Orvik", "Loc"),
    }
    assert {(one.head.text, one.tail.text, one.label) for one in found.relations} == {
        ("Mara", "Port of Orvik", "Leads"),
        ("Mara", "Port of Orvik", "Works_For"),
    }


def test_flat_data_has_spans_and_the_same_model_as_if_they_were_given(tmp_path: Path) -> None:
    data = corpus(tmp_path / "data", train=FLAT_RECORDS, dev=FLAT_RECORDS[:2], test=FLAT_RECORDS[2:4])
    runs = []
    for name, given in (("left-open", {}), ("given", {"tagging.kind": "spans"})):
        lines: list[str] = []
        runs.append(
            relatum.train(data, out=tmp_path / name, overrides=SHORT | given, device="cpu", monitor=lines.append)
        )
        assert any("tagging.kind = spans: it finds more" in line for line in lines) == (not given)
    left_open, given_run = runs
    assert left_open.result.config == given_run.result.config
    assert (left_open.result.config.tagging.kind, left_open.result.config.decoding.overlap) == ("spans", "none")
    assert (left_open.dev, left_open.test, left_open.ceilings) == (given_run.dev, given_run.test, given_run.ceilings)
    weights, others = (load_model(run.model).network.state_dict() for run in runs)
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[key], others[key]) for key in weights)


def test_overlaps_that_are_left_out_are_not_found(tmp_path: Path) -> None:
    records = [record(name, NESTED, (0, 1, "Leads")) for name in NAMES]
    data = corpus(tmp_path / "data", train=records, dev=records[:2])
    settings = SHORT | {"data.overlaps": "keep-longest"}
    run = relatum.train(data, out=tmp_path / "run", overrides=settings, device="cpu")
    assert (run.result.config.tagging.kind, run.result.config.decoding.overlap) == ("spans", "none")
    kept = relatum.train(data, out=tmp_path / "kept", overrides=SHORT | {"data.overlaps": "keep"}, device="cpu")
    assert (kept.result.config.tagging.kind, kept.result.config.decoding.overlap) == ("spans", "nested")


def test_papers_tagging_that_is_given_refuses_nested_entities(tmp_path: Path) -> None:
    data = corpus(tmp_path / "data", train=NESTED_RECORDS, dev=NESTED_RECORDS[:2])
    with pytest.raises(DataError, match=r"found an overlapping entity, Org 'Port of Orvik'"):
        relatum.train(data, out=tmp_path / "run", overrides=SHORT | {"tagging.kind": "words"}, device="cpu")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", [None, "spans"])
def test_discontinuous_entities_are_refused_with_the_remedy_that_loses_least(tmp_path: Path, kind: str | None) -> None:
    broken = FLAT_RECORDS[0] | {"entities": [{"start": 0, "end": 3, "label": "Org", "fragments": [[0, 1], [2, 3]]}]}
    data = corpus(tmp_path / "data", train=[*NESTED_RECORDS[1:], broken | {"relations": []}], dev=NESTED_RECORDS[:2])
    settings = SHORT | ({} if kind is None else {"tagging.kind": kind})
    with pytest.raises(DataError, match=r"--set data\.overlaps=keep to keep 1 document"):
        relatum.train(data, out=tmp_path / "run", overrides=settings, device="cpu")


def test_run_of_span_tagging_is_resumed(tmp_path: Path) -> None:
    data = corpus(tmp_path / "data", train=NESTED_RECORDS, dev=NESTED_RECORDS[:2])
    run = relatum.train(data, out=tmp_path / "run", overrides=SHORT, device="cpu")
    (tmp_path / "run" / "result.json").unlink()
    again = resume(tmp_path / "run", device="cpu")
    assert again.result.config == run.result.config
    assert again.dev == run.dev


def test_run_on_flat_train_with_overlaps_in_dev_is_refused_or_can_be_resumed(tmp_path: Path) -> None:
    data = corpus(tmp_path / "data", train=FLAT_RECORDS, dev=NESTED_RECORDS[:2])
    try:
        relatum.train(data, out=tmp_path / "run", overrides=SHORT, device="cpu")
    except DataError:
        return
    (tmp_path / "run" / "result.json").unlink()
    resume(tmp_path / "run", device="cpu")


def test_a_further_relation_of_a_pair_that_decoding_loses_is_reported(tmp_path: Path) -> None:
    """One of 301 relations is no reason to find several of a pair, but dev cannot be found whole."""
    flat = [record(name, FLAT, (0, 1, "Leads"), place=f"P{n}") for n in range(38) for name in NAMES][:300]
    data = corpus(tmp_path / "data", train=flat, dev=[*FLAT_RECORDS[:2], record("Mara", FLAT, *TWICE, place="Tarn")])
    run = relatum.train(data, out=tmp_path / "run", overrides=SHORT, device="cpu")
    assert run.result.config.decoding.relations_of_pair == "one"
    assert run.ceilings["dev"].relations_strict.micro.recall == 3 / 4
    assert [loss.n_relations for loss in run.ceilings["dev"].losses] == [1]
