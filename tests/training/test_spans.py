"""A model with span tagging learns what the paper's tags cannot express."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from relatum.config import Config
from relatum.models.checkpoint import load_model
from relatum.models.labels import TagSets, make_tag_sets
from relatum.models.model import Model
from relatum.schema import RelationType, Schema
from relatum.training import batches as batches_module
from relatum.training.batches import Batches
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunRecord
from relatum.training.loop import TrainingStopped, predict, score, train
from relatum.training.setup import make_model
from relatum.training.thresholds import THRESHOLDS
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span

from .conftest import Silent

SCHEMA = Schema(
    ("Loc", "Org", "Peop"), (RelationType("Leads"), RelationType("Kin", symmetric=True), RelationType("Works_For"))
)


def nested(person: str, place: str) -> Example:
    """The firm's name holds a place, which is a person too, and overlaps another place; a pair has two relations."""
    words = (person, "leads", place, "Steel", "Works", "of", "Orvik", ".")
    peop, loc, firm = Entity(Span(0, 1), "Peop"), Entity(Span(2, 3), "Loc"), Entity(Span(2, 5), "Org")
    again, long = Entity(Span(2, 3), "Peop"), Entity(Span(4, 7), "Loc")
    relations = (
        Relation(peop, firm, "Leads"),
        Relation(peop, firm, "Works_For"),
        Relation(peop, long, "Kin"),
        Relation(long, firm, "Leads"),
    )
    return Example(Sentence(words), Annotation((peop, loc, again, firm, long), relations))


PLAIN = Example(Sentence(("It", "rained", ".")), Annotation())
OPPOSITE = Example(
    Sentence(("Mara", "and", "Tom", "differ")),
    Annotation(
        (Entity(Span(0, 1), "Peop"), Entity(Span(2, 3), "Peop")),
        (
            Relation(Entity(Span(0, 1), "Peop"), Entity(Span(2, 3), "Peop"), "Leads"),
            Relation(Entity(Span(2, 3), "Peop"), Entity(Span(0, 1), "Peop"), "Leads"),
            Relation(Entity(Span(0, 1), "Peop"), Entity(Span(2, 3), "Peop"), "Kin"),
        ),
    ),
)
EXAMPLES = [nested("Mara", "Tarn"), nested("Tom", "Lund"), PLAIN, OPPOSITE]


def start(config: Config) -> tuple[TrainingData, RunRecord]:
    data = TrainingData(EXAMPLES, EXAMPLES, [], SCHEMA)
    return data, RunRecord(config, "by hand", None, None, "cpu", "", data.fingerprint())


def test_nested_entities_and_several_relations_are_learned_by_heart(
    tiny: Callable[..., Config], tmp_path: Path
) -> None:
    config = tiny(
        "tagging.kind=spans",
        "model.dropout=0",
        "model.width=32",
        "characters.width=16",
        "training.batch_size=4",
        "training.learning_rate=8e-3",
        "training.steps=150",
        "training.evaluate_every=50",
    )
    data, record = start(config)
    run = train(data, record, tmp_path / "run", device=torch.device("cpu"), monitor=Silent())
    model = load_model(run.model)
    decoding = model.config.decoding
    assert {decoding.entity_threshold, decoding.relation_threshold} <= set(THRESHOLDS)
    tagged = [model.tagging.encode(example.gold, len(example.sentence)) for example in EXAMPLES]
    assert not any(one.lost_entities or one.lost_relations or one.gained_relations for one in tagged)
    assert run.dev is not None
    assert run.dev.relations_strict.micro.f1 == run.dev.entities.micro.f1 == 1.0
    for example, prediction in zip(EXAMPLES, predict(model, EXAMPLES), strict=True):
        assert set(prediction.found.entities) == set(example.gold.entities)
        assert set(prediction.found.relations) == set(example.gold.relations)
        assert len(prediction.found.relations) == len(example.gold.relations)


def test_best_model_of_a_stopped_run_has_the_thresholds_that_it_was_chosen_with(
    tiny: Callable[..., Config], tmp_path: Path
) -> None:
    config = tiny(
        "tagging.kind=spans", "training.learning_rate=8e-3", "training.steps=60", "training.evaluate_every=20"
    )
    data, record = start(config)
    monitor = Silent()
    whole = train(data, record, tmp_path / "whole", device=torch.device("cpu"), monitor=Silent())
    monitor.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 40 else None
    with pytest.raises(TrainingStopped, match="best model so far"):
        train(data, record, tmp_path / "run", device=torch.device("cpu"), monitor=monitor)
    best, kept = monitor.evaluations[-1]
    assert kept
    assert best.step == 40
    model = load_model(tmp_path / "run" / "best" / "step-40")
    decoding = model.config.decoding
    assert {decoding.entity_threshold, decoding.relation_threshold} <= set(THRESHOLDS)
    assert best.dev is not None
    assert score(model, EXAMPLES).to_dict() == best.dev.to_dict()
    resumed = train(data, record, tmp_path / "run", device=torch.device("cpu"), monitor=Silent(), resume=True)
    assert load_model(resumed.model).config == load_model(whole.model).config


def test_every_batch_has_the_tag_sets_of_all_examples(tiny: Callable[..., Config]) -> None:
    """So batches of any examples have tables of one size, whatever comes first."""
    data, record = start(tiny("tagging.kind=spans"))
    model, _ = make_model(data, record.config, torch.device("cpu"))
    batches = Batches(model, data.train)
    tables = [batches.make(indices)[1].tag_sets for indices in ([2], [3, 0], [0, 1, 2, 3])]
    first = tables[0]
    assert first is not None
    assert all(table is not None and torch.equal(table, first) for table in tables)
    _, labels = batches.make([2, 0])
    assert labels.relation_tags.max() < len(first)
    for number, example in ((0, PLAIN), (1, EXAMPLES[0])):
        tagged = model.tagging.encode(example.gold, len(example.sentence)).cell_tags
        for i in range(len(example.sentence)):
            for j in range(len(example.sentence)):
                has_tag = first[labels.relation_tags[number, i, j]]
                assert tuple(has_tag.nonzero().flatten().tolist()) == tagged.get((i, j), ())


def test_more_tag_sets_than_int16_can_number_are_learned(
    tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, record = start(tiny("tagging.kind=spans"))
    model, _ = make_model(data, record.config, torch.device("cpu"))

    def make_many(model: Model) -> TagSets:
        sets = make_tag_sets(model)
        assert sets is not None
        for number in range(2**15):
            sets.number((0,) * (number % 200) + (1,) * (number // 200 + 1))  # different tuples are different sets
        return sets

    monkeypatch.setattr(batches_module, "make_tag_sets", make_many)
    _, labels = Batches(model, data.train).make([0])
    assert labels.relation_tags.max() >= 2**15
