"""Scoring files by one call."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

import relatum
from relatum.errors import DataError, RelatumError, SchemaError
from relatum.monitor import Monitor

T = TypeVar("T")


def record(id: str, *labels: str, relation: str = "") -> dict[str, Any]:
    """A document of words, of which the first ones are entities with these labels, the first two related."""
    entities = [{"start": place, "end": place + 1, "label": label} for place, label in enumerate(labels)]
    relations = [{"head": 0, "tail": 1, "label": relation}] if relation else []
    return {"id": id, "words": ["Anna", "Rome", "left"], "entities": entities, "relations": relations}


def write(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return path


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    whole = record("a", "Peop", "Loc", relation="Live_In")
    return write(tmp_path / "gold.jsonl", whole, record("b", "Peop", "Org", relation="Work_For"))


@pytest.fixture
def found(tmp_path: Path) -> Path:
    """Three of four entities, one of two relations."""
    return write(tmp_path / "found.jsonl", record("b", "Peop"), record("a", "Peop", "Loc", relation="Live_In"))


def test_one_call_scores_a_file_against_another(gold: Path, found: Path) -> None:
    scored = relatum.score(str(gold), str(found))
    micro = scored.scores.entities.micro
    assert (micro.precision, micro.recall, micro.support) == (1, 0.75, 4)
    assert scored.scores.relations_strict.micro.f1 == pytest.approx(2 / 3)
    assert scored.to_dict() == scored.scores.to_dict()
    assert (scored.pairs[0].by, len(scored.pairs[0].documents), scored.remarks) == ("id", 2, ())


def test_two_systems_are_compared(gold: Path, found: Path) -> None:
    scored = relatum.score(gold, found, gold, bootstrap=20, seed=3)
    assert scored.comparison is not None
    assert scored.comparison.values["entities", "micro"].difference > 0
    assert [system.intervals is not None for system in scored.systems] == [True, True]
    assert set(scored.to_dict()) == {"a", "b", "comparison"}


def test_words_of_gold_are_kept_only_if_asked_for(gold: Path, found: Path) -> None:
    for keep in (False, True):
        own, its = relatum.score(gold, found, keep_words=keep).pairs[0].documents[0]
        assert (own.words is not None, its.words is None) == (keep, True)


def test_schema_says_which_relations_are_symmetric(gold: Path, tmp_path: Path) -> None:
    turned = record("a", "Peop", "Loc")
    turned["relations"] = [{"head": 1, "tail": 0, "label": "Live_In"}]
    found = write(tmp_path / "turned.jsonl", turned, record("b", "Peop", "Org", relation="Work_For"))
    file = tmp_path / "schema.json"
    file.write_text(
        json.dumps({"entity_types": [], "relation_types": [{"name": "Live_In", "symmetric": True}]}), encoding="utf-8"
    )
    assert relatum.score(gold, found).scores.relations.micro.f1 == 0.5
    said: list[str] = []
    for schema, name in ((file, str(file)), (relatum.Schema.load(file), "the schema")):
        scored = relatum.score(gold, found, schema=schema, monitor=said.append)
        assert scored.scores.relations.micro.f1 == 1
        (remark,) = scored.remarks
        assert remark == f"{name} lacks relation types of {gold} and {found}, taken as directed: Work_For"
        assert said[-1] == f"relatum: {remark}"


def test_spans_that_are_not_gold_are_refused_if_gold_entities_were_given(
    gold: Path, found: Path, tmp_path: Path
) -> None:
    assert relatum.score(gold, found, gold_entities=True).gold_entities
    more = write(tmp_path / "more.jsonl", record("a", "Peop", "Loc", "Loc"), record("b"))
    with pytest.raises(DataError, match=r'more\.jsonl, document "a"'):
        relatum.score(gold, more, gold_entities=True)


def test_wrong_arguments_are_named_with_the_cure(gold: Path, found: Path, tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match="nowhere: no such file or folder"):
        relatum.score(gold, "nowhere")
    with pytest.raises(RelatumError, match=r"missing in .*one\.jsonl: \"b\""):
        relatum.score(gold, write(tmp_path / "one.jsonl", record("a")))
    with pytest.raises(DataError, match=r"bad\.jsonl:1 .*\nFix these records first"):
        relatum.score(gold, write(tmp_path / "bad.jsonl", {"words": 3}))
    with pytest.raises(SchemaError, match="needs a schema"):
        relatum.score(gold, found, macro_over="schema")
    with pytest.raises(ValueError, match="macro_over is one of gold, schema, all; got 'none'"):
        relatum.score(gold, found, macro_over="none")  # type: ignore[arg-type]
    with pytest.raises(RelatumError, match="bootstrap is -3; expected at least 1 resample"):
        relatum.score(gold, found, bootstrap=-3)


def test_monitor_watches_the_documents_of_every_file(gold: Path, found: Path) -> None:
    class Watching(Monitor):
        """Remembers what is read."""

        names: ClassVar[list[str]] = []

        def watch(self, items: Iterable[T], name: str) -> Iterable[T]:
            self.names.append(name)
            return items

    relatum.score(gold, found, monitor=Watching())
    assert Watching.names == ["gold", "found"]
