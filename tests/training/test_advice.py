"""Warnings about problems in training data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from relatum.config import Config, load_config
from relatum.extractor.extractor import Extractor
from relatum.training.advice import SHOWN, advise, shorten
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunRecord
from relatum.training.loop import train
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span

from ..small_models import make_small_model
from .conftest import Silent

CONFIG = load_config()


def example(number: int, *, name: str = "s", label: str = "Rel", extra: str = "") -> Example:
    """A sentence of its own with two entities and a relation."""
    head, tail = Entity(Span(0, 1), "A"), Entity(Span(2, 3), "B")
    words = (f"{name}{number}", "sees", f"it{number}", *extra.split())
    relations = (Relation(head, tail, label),) if label else ()
    return Example(Sentence(words), Annotation((head, tail), relations), f"{name}-{number}")


def good() -> dict[str, list[Example]]:
    return {
        "train": [example(number) for number in range(60)],
        "dev": [example(number, name="d") for number in range(20)],
        "test": [example(number, name="t") for number in range(20)],
    }


def the_one(parts: dict[str, list[Example]], config: Config = CONFIG) -> str:
    (remark,) = advise(parts, config)
    return remark


def test_advise_has_nothing_to_say_of_good_data() -> None:
    assert advise(good(), CONFIG) == []


def test_advise_needs_no_test_part() -> None:
    assert advise(good() | {"test": []}, CONFIG) == []


@pytest.mark.parametrize("part", ["dev", "test"])
def test_advise_finds_sentences_that_were_trained_on(part: str) -> None:
    parts = good()
    parts[part][3:5] = parts["train"][7:9]
    remark = the_one(parts)
    assert remark.startswith(f"2 {part} sentences are also in train (s-7 = s-7, s-8 = s-8): scores will be too high")


def test_advise_finds_sentences_annotated_in_two_ways() -> None:
    parts = good()
    parts["train"].append(Example(parts["train"][4].sentence, Annotation(), "again"))
    remark = the_one(parts)
    assert remark.startswith("1 sentence is annotated differently in two places (s-4 and again), so a model must get")


def test_advise_takes_the_order_of_annotations_for_nothing() -> None:
    parts = good()
    first = parts["train"][4]
    turned = Annotation(first.gold.entities[::-1], first.gold.relations)
    parts["train"].append(Example(first.sentence, turned, "again"))
    assert advise(parts, CONFIG) == []


def test_advise_names_rare_types_with_their_places() -> None:
    parts = good()
    for part, name in (("train", "x"), ("dev", "y"), ("test", "z")):
        parts[part] += [example(number, name=name, label="Rare") for number in range(5)]
    remark = the_one(parts)
    assert remark.startswith("relation type Rare has only 5 examples in train (x-0, x-1, x-2, …)")
    assert "Annotate 10 or more" in remark


@pytest.mark.parametrize(("n", "found"), [(9, True), (10, False)])
def test_advise_counts_ten_examples_as_enough(n: int, found: bool) -> None:
    parts = good()
    for part, name in (("train", "x"), ("dev", "y"), ("test", "z")):
        parts[part] += [example(number, name=name, label="Rare") for number in range(n)]
    assert bool(advise(parts, CONFIG)) is found


def test_advise_names_types_that_a_part_lacks() -> None:
    parts = good()
    parts["train"] += [example(number, name="x", label="More") for number in range(10)]
    dev, test = advise(parts, CONFIG)
    assert dev.startswith("relation types in train but not in dev (More): the best model is chosen without them.")
    assert test.startswith("relation types in train but not in test (More): they get no scores.")


def test_advise_names_types_that_train_lacks() -> None:
    parts = good()
    parts["test"].append(example(0, name="x", label="New"))
    remark = the_one(parts)
    assert remark.startswith("relation type New is in test (1 example: x-0) but not in train")


def test_advise_notices_a_part_without_relations() -> None:
    parts = good()
    parts["dev"] = [example(number, name="d", label="") for number in range(20)]
    assert the_one(parts).startswith(
        "dev has no relations, so the best model is chosen without them. Move some from train"
    )


@pytest.mark.parametrize(("part", "least"), [("train", 50), ("dev", 20), ("test", 20)])
def test_advise_counts_the_sentences_of_each_part(part: str, least: int) -> None:
    parts = good()
    parts[part] = parts[part][:least]
    assert advise(parts, CONFIG) == []
    parts[part] = parts[part][: least - 1]
    assert the_one(parts).startswith(f"{part} has only {least - 1} sentences: ")


def test_advise_notices_a_type_that_is_nearly_all() -> None:
    parts = good()
    parts["train"] = [example(number) for number in range(400)]
    for part, name, n in (("train", "x", 12), ("dev", "y", 1), ("test", "z", 1)):
        parts[part] += [example(number, name=name, label="Other") for number in range(n)]
    remark = the_one(parts)
    assert remark.startswith("97% of all relations in train are Rel")
    assert "training.selection=macro" in remark


def test_advise_notices_long_sentences() -> None:
    parts = good()
    for part, name in (("train", "x"), ("dev", "y")):
        parts[part].append(example(0, name=name, extra="word " * 8))
    config = load_config(None, ["extraction.max_words=10"])
    train_, dev = advise(parts, config)
    assert train_.startswith("1 train sentence is longer than 10 words (x-0: 11 words)")
    assert dev.startswith("1 dev sentence is longer than extraction.max_words = 10 (y-0: 11 words)")
    assert advise(parts, load_config(None, ["extraction.max_words=11"])) == []


def test_advise_notices_entities_that_end_with_the_stop_of_their_sentence() -> None:
    """Such as claims, which are whole sentences; a slip or two are none of its business."""
    parts = good()
    parts["train"] = [example(number) for number in range(200)]
    claims = [
        Example(Sentence((f"It{number}", "rains", ".")), Annotation((Entity(Span(0, 3), "A"),)), f"c{number}")
        for number in range(20)
    ]
    parts["train"] += claims[:2]
    assert advise(parts, CONFIG) == []
    parts["train"] += claims[2:]
    remark = the_one(parts)
    assert remark.startswith(
        "in train, 20 entities are marked with the full stop of the sentence (c0, c1, c2, …). Extraction"
    )
    assert "Set extraction.trim_stops=false" in remark
    assert advise(parts, load_config(None, ["extraction.trim_stops=false"])) == []


@pytest.mark.parametrize("n_words", [200, 300])
def test_advice_on_long_sentences_has_a_cure_that_works(n_words: int) -> None:
    """The limit that advice speaks of is the one that the extractor keeps, beyond 181 words (32,768 cells) too."""
    words = ("word",) * n_words
    parts = good()
    parts["dev"].append(Example(Sentence(words), Annotation(), "long"))
    for max_words, n_windows in ((n_words - 1, 2), (n_words, 1)):
        model = make_small_model(f"extraction.max_words={max_words}")
        assert len(Extractor(model)._windows(words)) == n_windows
        remarks = advise(parts, model.config)
        assert len(remarks) == n_windows - 1
        assert all("Raise the setting" in remark for remark in remarks)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("Tarn ,", True),
        ('" Tarn', True),
        ("( Tarn", True),
        ("Tarn )", True),
        ("Tarn ( UK )", False),
        ('" Tarn "', False),
        ("Tarn Inc.", False),
        (",", False),
    ],
)
def test_advise_notices_punctuation_at_the_edges_of_entities(words: str, found: bool) -> None:
    parts = good()
    sentence = Sentence((*words.split(), "grew"))
    gold = Annotation((Entity(Span(0, len(words.split())), "A"),))
    parts["train"].append(Example(sentence, gold, "odd"))
    remarks = advise(parts, CONFIG)
    assert len(remarks) == found
    if found:
        assert remarks[0].startswith(f"1 entity is marked with punctuation at an edge (odd: {words})")


def test_shorten_counts_what_it_leaves_out() -> None:
    few = [str(number) for number in range(SHOWN)]
    assert shorten(few) == few
    many = shorten([*few, "more", "and more"])
    assert len(many) == SHOWN
    assert many[-1].startswith("… and 3 more warnings")


def test_train_says_what_will_hurt(
    tmp_path: Path,
    tiny: Callable[..., Config],
    start: Callable[[Config], tuple[TrainingData, RunRecord]],
    silent: Silent,
) -> None:
    data, record = start(tiny("training.steps=1", "training.evaluate_every=1"))
    train(data, record, tmp_path / "run", device=torch.device("cpu"), monitor=silent)
    wanted = shorten(advise(data.parts, record.config))
    assert any("has only" in remark for remark in wanted)
    assert [remark for remark in silent.said if remark in wanted] == wanted
