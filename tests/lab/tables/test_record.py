"""Records of tables in JSON files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relatum.errors import RelatumError
from relatum.lab.tables.record import TableRecord

RESULTS = Path(__file__).parents[3] / "results"
RECORDS = [*RESULTS.glob("table-[0-9]*.json"), RESULTS / "conll04-minilm-l6-consistency.json"]


@pytest.fixture
def values() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RESULTS / "table-4-conll04-all-minilm-l6-v2-dev.json").read_text())
    return loaded


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_record_that_is_read_and_written_is_the_same_file_without_unknown_keys(path: Path) -> None:
    known = json.loads(path.read_text(encoding="utf-8"))
    known.pop("what", None)
    assert json.dumps(TableRecord.read(path).to_dict()) == json.dumps(known)


def test_rows_write_only_the_keys_that_they_have(values: dict[str, Any]) -> None:
    base = {key: values["rows"][0][key] for key in ("key", "section", "label", "average", "corpus", "published")}
    settings = {"encoder": "none", "config": "configs/paper/conll04.toml", "settings": ["model.width=16"]}
    values["rows"] = [
        {**base, "status": "quoted"},
        {**base, "status": "needs", "message": "a corpus"},
        {**base, **settings, "status": "needs", "message": "a corpus"},
        {**values["rows"][0], "ceiling": {"ner": 99.5}},
    ]
    values["complete"] = False
    assert json.dumps(TableRecord.from_dict(values).to_dict()) == json.dumps(values)


@pytest.mark.parametrize(
    ("place", "value", "mistake"),
    [
        (("columns",), ["ner", "f2"], "found the unknown columns f2; expected ner, re"),
        (("title",), 3, "title: Input should be a valid string"),
        (("rows", 1, "status"), "lost", "rows.1.status: Input should be 'quoted'"),
        (("rows", 0, "measured", "ner"), {"mean": "high"}, "rows.0.measured.ner.mean: Input should be a valid number"),
        (("rows", 0, "runs", 2, "ner"), "high", "rows.0.runs.2.scores.ner"),
        (("rows", 0, "runs"), 3, "'int' object is not iterable"),
    ],
)
def test_damage_is_named_with_its_file_and_its_cure(
    place: tuple[str | int, ...], value: object, mistake: str, values: dict[str, Any], tmp_path: Path
) -> None:
    *outer, last = place
    inner: Any = values
    for key in outer:
        inner = inner[key]
    inner[last] = value
    path = tmp_path / "table.json"
    path.write_text(json.dumps(values))
    with pytest.raises(RelatumError) as caught:
        TableRecord.read(path)
    assert str(caught.value).startswith(f"{path}: not a record as relatum reproduce writes it: {mistake}")
    assert str(caught.value).endswith("; make the table again by relatum reproduce, or name another file")
