from __future__ import annotations

from collections.abc import Callable

import torch

from relatum.config import Config
from relatum.models.labels import make_labels
from relatum.training.batches import Batches, cut_long
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunRecord
from relatum.training.setup import make_model

Start = Callable[[Config], tuple[TrainingData, RunRecord]]


def test_batch_has_the_inputs_and_labels_of_its_examples(start: Start, tiny: Callable[..., Config]) -> None:
    data, _ = start(tiny())
    model, _ = make_model(data, tiny(), torch.device("cpu"))
    batches = Batches(model, data.train)
    for indices in ([3, 0, 5], [5, 3]):  # the second time labels come from memory
        inputs, labels = batches.make(indices)
        wanted = make_labels([data.train[index] for index in indices], model)
        assert torch.equal(labels.entity_tags, wanted.entity_tags)
        assert torch.equal(labels.relation_tags, wanted.relation_tags)
        assert labels.relation_tags.dtype == torch.long
        assert inputs.mask.sum(1).tolist() == [len(data.train[index].sentence) for index in indices]


def test_short_sentences_stay_whole(start: Start, tiny: Callable[..., Config]) -> None:
    data, _ = start(tiny())
    assert cut_long(data.train, None, tiny()) == (data.train, [])


def test_long_sentences_are_cut_and_counted(start: Start, tiny: Callable[..., Config]) -> None:
    data, _ = start(tiny())
    config = tiny("training.max_cells=170", "extraction.overlap=4")
    cut, remarks = cut_long(data.train, None, config)
    assert max(len(example.sentence) for example in cut) == 13
    n_long = sum(len(example.sentence) > 13 for example in data.train)
    n_windows = len(cut) - (len(data.train) - n_long)
    assert n_long > 0
    assert len(remarks) == 1
    wanted = f"{n_long} long training sentences are learned in {n_windows} windows of at most 13 words"
    assert remarks[0].startswith(wanted)


class LongWords:
    """As much of an encoder as the cutting needs: each word has ten pieces, and twenty fit."""

    max_pieces = 20

    def count_pieces(self, words: list[str]) -> list[int]:
        return [10] * len(words)


def test_limit_of_the_encoder_is_kept(start: Start, tiny: Callable[..., Config]) -> None:
    data, _ = start(tiny())
    cut, remarks = cut_long(data.train, LongWords(), tiny())  # type: ignore[arg-type]
    assert max(len(example.sentence) for example in cut) == 2
    assert "20 pieces (the encoder)" in remarks[0]
