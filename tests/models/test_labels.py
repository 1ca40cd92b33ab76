"""Gold annotations as tensors, against the taggings they are made of."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from relatum.models.labels import IGNORED, label_example, make_labels
from relatum.models.model import Model
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span


def test_tags_are_those_of_the_paper_for_a_small_sentence(make_model: Any, examples: list[Example]) -> None:
    """Section 3: B and I over the words, →r in every cell of head and tail, ←r in the mirrored ones."""
    model: Model = make_model()
    assert model.tagging.words.names == ("O", "B-Org", "I-Org", "B-Peop", "I-Peop")
    assert model.tagging.cells.names == ("⊥", "→Work_For", "←Work_For", "↔Kin")
    labels = make_labels(examples[:1], model)
    assert labels.entity_tags.tolist() == [[3, 4, 0, 0, 1, 0]]
    expected = torch.zeros(6, 6, dtype=torch.long)
    expected[0, 4] = expected[1, 4] = 1
    expected[4, 0] = expected[4, 1] = 2
    assert torch.equal(labels.relation_tags[0], expected)


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
@pytest.mark.parametrize("cells", ["entity", "last"])
@pytest.mark.parametrize("directed", ["true", "false"])
@pytest.mark.parametrize("fill", ["entire", "lower", "upper"])
def test_labels_equal_the_tagging(
    make_model: Any, examples: list[Example], scheme: str, cells: str, directed: str, fill: str
) -> None:
    model: Model = make_model(
        f"tagging.scheme={scheme}", f"tagging.cells={cells}", f"tagging.directed={directed}", f"tagging.fill={fill}"
    )
    labels = make_labels(examples, model)
    assert labels.entity_tags.shape == (2, 6)
    assert labels.relation_tags.shape == (2, 6, 6)
    for row, example in enumerate(examples):
        n = len(example.sentence)
        tags = model.tagging.words.encode(example.gold.entities, n).tags
        assert labels.entity_tags[row].tolist() == [*tags, *[IGNORED] * (6 - n)]
        table = model.tagging.cells.encode(example.gold, n).cells
        for i in range(6):
            for j in range(6):
                filled = {"entire": True, "lower": i > j, "upper": i < j}[fill]
                expected = table.get((i, j), 0) if i < n and j < n and filled else IGNORED
                assert labels.relation_tags[row, i, j] == expected


@pytest.mark.parametrize(("setting", "expected"), [("true", 0), ("false", IGNORED)])
def test_diagonal_is_learned_or_ignored(make_model: Any, examples: list[Example], setting: str, expected: int) -> None:
    labels = make_labels(examples, make_model(f"training.diagonal_loss={setting}"))
    assert labels.relation_tags[0].diagonal().tolist() == [expected] * 6
    assert labels.relation_tags[1].diagonal().tolist() == [expected] * 4 + [IGNORED] * 2
    assert (labels.relation_tags == IGNORED).sum() == (36 - 16) + (0 if expected == 0 else 10)


def test_diagonal_is_learned_by_default(make_model: Any, examples: list[Example]) -> None:
    assert make_labels(examples, make_model()).relation_tags[0, 2, 2] == 0


def test_what_the_tags_cannot_say_is_counted(make_model: Any) -> None:
    one, inner = Entity(Span(0, 3), "Org"), Entity(Span(1, 2), "Peop")
    other = Entity(Span(3, 4), "Org")
    relations = (Relation(one, inner, "Work_For"), Relation(other, one, "Work_For"))
    example = Example(Sentence(("a", "b", "c", "d")), Annotation((one, inner, other), relations))
    labels = label_example(example, make_model(), None)
    assert labels.n_lost_entities == 1
    assert labels.n_lost_relations >= 1


def test_sentence_without_annotation_has_only_zeros(make_model: Any) -> None:
    labels = make_labels([Example(Sentence(("a", "b")), Annotation())], make_model())
    assert labels.entity_tags.tolist() == [[0, 0]]
    assert labels.relation_tags.tolist() == [[[0, 0], [0, 0]]]
