from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from relatum.config import Config
from relatum.models.labels import make_labels
from relatum.training.batches import Batches, cut_long
from relatum.training.corpus import TrainingData
from relatum.training.features import read_ahead, with_memory
from relatum.training.folder import RunRecord
from relatum.training.setup import make_model
from relatum.types import Annotation, Example, Sentence

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


def test_batch_is_what_the_model_would_read_while_training(
    start: Start, tiny: Callable[..., Config], tiny_bert: Path, tmp_path: Path
) -> None:
    """The few operations of a batch give the same bits as sentence after sentence."""
    (tmp_path / "vectors.txt").write_text("the 1 2 3\n. 4 5 6\n")
    encoder = (
        f"words.path={tmp_path / 'vectors.txt'}",
        "encoder.kind=huggingface",
        f"encoder.name={tiny_bert}",
        "encoder.n_layers=2",
    )
    for overrides in ((), encoder, (*encoder, "table.attention_maps=false"), ("characters.kind=none", *encoder)):
        config = tiny(*overrides)
        data, _ = start(config)
        stored, _ = make_model(data, config, torch.device("cpu"))
        examples, _ = cut_long(data.train, stored.encoder, config)
        model = with_memory(stored, examples)
        assert read_ahead(model, examples, lambda: False, lambda _: None)
        model.network.train()
        found, _ = Batches(model, examples).make([4, 0, 2])
        wanted = model.inputs([examples[index].sentence.words for index in (4, 0, 2)])
        for name in ("mask", "words", "vectors", "attention_maps"):
            got, expected = getattr(found, name), getattr(wanted, name)
            assert (got is None) == (expected is None), name
            assert got is None or (torch.equal(got, expected) and got.dtype == expected.dtype), name
        assert (found.spelling is None) == (wanted.spelling is None)
        if found.spelling is not None and wanted.spelling is not None:
            assert torch.equal(found.spelling.characters, wanted.spelling.characters)
            assert torch.equal(found.spelling.n_words, wanted.spelling.n_words)
            assert torch.equal(found.spelling.places, wanted.spelling.places)


def test_words_without_characters_stand_in_a_batch(start: Start, tiny: Callable[..., Config]) -> None:
    data, _ = start(tiny())
    model, _ = make_model(data, tiny(), torch.device("cpu"))
    model.network.train()
    examples = [Example(Sentence(("a", "", "Mara")), Annotation()), Example(Sentence(("",)), Annotation())]
    for indices in ([0, 1], [1]):
        found, _ = Batches(model, examples).make(indices)
        wanted = model.inputs([examples[index].sentence.words for index in indices])
        assert found.spelling is not None
        assert wanted.spelling is not None
        assert torch.equal(found.spelling.places, wanted.spelling.places)
        assert torch.equal(found.spelling.characters, wanted.spelling.characters)


def test_batch_takes_few_operations_however_many_sentences(start: Start, tiny: Callable[..., Config]) -> None:
    """On a GPU each of them is a kernel to start."""
    data, _ = start(tiny())
    model, _ = make_model(data, tiny(), torch.device("cpu"))
    batches = Batches(model, data.train)
    counts = []
    for indices in ([0], list(range(12))):
        batches.make(indices)
        with _Count() as count:
            batches.make(indices)
        counts.append(count.n)
    assert counts[0] == counts[1] < 90


class _Count(TorchDispatchMode):
    """How many operations there are that are more than another look at a tensor."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.n = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n += not function.is_view
        return function(*args, **(kwargs or {}))


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
