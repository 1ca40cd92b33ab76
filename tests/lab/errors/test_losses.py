"""The loss of a model on sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from relatum.extractor.extractor import Extractor
from relatum.lab.errors.losses import sentence_losses
from relatum.models.labels import make_labels
from relatum.models.losses import joint_loss
from relatum.training.corpus import load_part
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span

from ...small_models import make_inputs, make_small_model


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    torch.set_num_threads(1)
    return Extractor.from_pretrained("news", "cpu")


@pytest.fixture(scope="module")
def examples(extractor: Extractor, examples_folder: Path) -> list[Example]:
    return load_part(examples_folder / "news", "dev", extractor.model.config)[0][:8]


def test_losses_are_those_that_training_would_have(examples: list[Example]) -> None:
    model = make_small_model(spread=0.6)
    extractor = Extractor(model)
    known = [replace(example, gold=model.schema.restrict(example.gold)) for example in examples]
    assert sum(len(example.gold.relations) for example in known) > 0
    settings = model.config.training.model_copy(update={"loss": "sum"})
    losses = sentence_losses(extractor, examples)
    of_cells = sentence_losses(extractor, examples, with_entities=False)
    for example, whole, cells in zip(known, losses, of_cells, strict=True):
        with torch.inference_mode():
            outputs = model.network(make_inputs(model, [example.sentence.words]))
            wanted = joint_loss(outputs, make_labels([example], model), settings)
        assert whole == pytest.approx(float(wanted.entity + wanted.relation), rel=1e-4, abs=1e-4)
        assert cells == pytest.approx(float(wanted.relation), rel=1e-4, abs=1e-4)


def test_losses_of_span_tagging_are_those_of_each_tag() -> None:
    model = make_small_model("tagging.kind=spans", spread=0.6)
    mara, outer, inner = Entity(Span(0, 2), "Peop"), Entity(Span(3, 5), "Loc"), Entity(Span(4, 5), "Loc")
    relations = Relation(mara, outer, "Live_In"), Relation(mara, outer, "Kin"), Relation(inner, outer, "Live_In")
    sentence = Sentence(("Mara", "Ilves", "left", "Port", "Amsel"))
    example = Example(sentence, Annotation((mara, outer, inner), relations))
    with torch.inference_mode():
        outputs = model.network(make_inputs(model, [sentence.words]))
        labels = make_labels([example], model)
        of_words = joint_loss(outputs, labels, model.config.training).entity
    assert outputs.relation_logits is not None
    assert labels.tag_sets is not None
    has_tag = labels.tag_sets[labels.relation_tags].float()
    of_cells = binary_cross_entropy_with_logits(outputs.relation_logits, has_tag, reduction="sum")
    assert sentence_losses(Extractor(model), [example]) == pytest.approx([float(of_words + of_cells)])
    (in_windows,) = sentence_losses(Extractor(model, max_cells=9), [example])
    (of_nothing,) = sentence_losses(Extractor(model, max_cells=9), [Example(sentence, Annotation())])
    assert of_nothing < in_windows < 1e4  # the relations between windows cannot be found, no relations cost nothing


def test_unknown_types_count_as_not_annotated(extractor: Extractor, examples: list[Example]) -> None:
    example = next(one for one in examples if one.gold.relations)
    other = tuple(replace(entity, label="Unknown") for entity in example.gold.entities)
    unknown = replace(example, gold=Annotation(other, ()))
    empty = replace(example, gold=Annotation())
    assert sentence_losses(extractor, [unknown]) == sentence_losses(extractor, [empty])
    assert sentence_losses(extractor, [empty]) != sentence_losses(extractor, [example])


def test_long_sentences_have_one_loss_from_their_windows(examples: list[Example]) -> None:
    short = Extractor.from_pretrained("news", "cpu", max_cells=64)
    losses = sentence_losses(short, examples)
    assert len(losses) == len(examples)
    assert all(0 < loss < 1e6 for loss in losses)
