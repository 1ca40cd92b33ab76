from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from relatum.config import Config
from relatum.layers.characters import CharacterBatch, PaddedCharacterBatch
from relatum.models.collate import MAX_CHARACTERS, round_characters, round_words
from relatum.models.labels import IGNORED, make_labels
from relatum.models.losses import joint_loss
from relatum.training.batches import Batches, cut_long
from relatum.training.corpus import TrainingData
from relatum.training.features import read_ahead, with_memory
from relatum.training.folder import RunRecord
from relatum.training.setup import make_model
from relatum.types import Annotation, Example, Sentence

from ..small_models import make_inputs

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
        wanted = make_inputs(model, [examples[index].sentence.words for index in (4, 0, 2)])
        for name in ("mask", "words", "vectors", "attention_maps"):
            got, expected = getattr(found, name), getattr(wanted, name)
            assert (got is None) == (expected is None), name
            assert got is None or (torch.equal(got, expected) and got.dtype == expected.dtype), name
        assert (found.characters is None) == (wanted.characters is None)
        if isinstance(found.characters, CharacterBatch) and isinstance(wanted.characters, CharacterBatch):
            assert torch.equal(found.characters.characters, wanted.characters.characters)
            assert torch.equal(found.characters.n_words, wanted.characters.n_words)
            assert torch.equal(found.characters.places, wanted.characters.places)


def test_words_without_characters_stand_in_a_batch(start: Start, tiny: Callable[..., Config]) -> None:
    data, _ = start(tiny())
    model, _ = make_model(data, tiny(), torch.device("cpu"))
    model.network.train()
    examples = [Example(Sentence(("a", "", "Mara")), Annotation()), Example(Sentence(("",)), Annotation())]
    for indices in ([0, 1], [1]):
        found, _ = Batches(model, examples).make(indices)
        wanted = make_inputs(model, [examples[index].sentence.words for index in indices])
        assert isinstance(found.characters, CharacterBatch)
        assert isinstance(wanted.characters, CharacterBatch)
        assert torch.equal(found.characters.places, wanted.characters.places)
        assert torch.equal(found.characters.characters, wanted.characters.characters)


@pytest.mark.parametrize(
    ("n_words", "rounded"), [(1, 4), (4, 4), (5, 8), (29, 32), (64, 64), (65, 72), (72, 72), (118, 120), (316, 320)]
)
def test_words_are_rounded_up_to_few_sizes(n_words: int, rounded: int) -> None:
    assert round_words(n_words) == rounded


@pytest.mark.parametrize(("n_characters", "rounded"), [(0, 8), (1, 8), (8, 8), (9, 16), (64, 64)])
def test_characters_are_rounded_up_to_few_sizes(n_characters: int, rounded: int) -> None:
    assert round_characters(n_characters) == rounded


def test_batch_fixed_sizes_has_the_same_content_and_more_padding(
    start: Start, tiny: Callable[..., Config], tiny_bert: Path
) -> None:
    config = tiny("encoder.kind=huggingface", f"encoder.name={tiny_bert}", "encoder.n_layers=2")
    data, _ = start(config)
    stored, _ = make_model(data, config, torch.device("cpu"))
    examples, _ = cut_long(data.train, stored.encoder, config)
    memory = with_memory(stored, examples)
    for model in (memory, stored):  # features that are kept, and features that are made for the batch
        n_checked = 0
        for indices in ([4, 0, 2], [1], [3, 5]):
            wanted, wanted_labels = Batches(model, examples).make(indices)
            found, labels = Batches(model, examples, fixed_sizes=True).make(indices)
            n_words, n_rounded = wanted.mask.shape[1], found.mask.shape[1]
            n_checked += n_words < n_rounded == round_words(n_words)
            assert torch.equal(found.mask[:, :n_words], wanted.mask)
            assert not found.mask[:, n_words:].any()
            assert found.vectors is not None
            assert wanted.vectors is not None
            torch.testing.assert_close(found.vectors[:, :n_words], wanted.vectors)
            assert not found.vectors[:, n_words:].any()
            assert found.attention_maps is not None
            assert found.attention_maps.shape[1:3] == (n_rounded, n_rounded)
            assert torch.equal(labels.entity_tags[:, :n_words], wanted_labels.entity_tags)
            assert (labels.entity_tags[:, n_words:] == IGNORED).all()
            assert torch.equal(labels.relation_tags[:, :n_words, :n_words], wanted_labels.relation_tags)
            assert (labels.relation_tags[:, n_words:] == IGNORED).all()
            assert (labels.relation_tags[:, :, n_words:] == IGNORED).all()
            assert isinstance(found.characters, PaddedCharacterBatch)
            assert len(found.characters.characters) % 8 == 0
            words = [examples[index].sentence.words for index in indices]
            lengths = [[len(word) for word in row] + [0] * (n_rounded - len(row)) for row in words]
            assert found.characters.lengths.tolist() == lengths
        assert n_checked


def test_loss_and_gradients_do_not_depend_on_padding(start: Start, tiny: Callable[..., Config]) -> None:
    config = tiny("model.dropout=0")
    data, _ = start(config)
    model, _ = make_model(data, config, torch.device("cpu"))
    network = model.network.double().train()
    lengths = [len(example.sentence) for example in data.train]
    longest = next(index for index, length in enumerate(lengths) if length % 4 and length > lengths[0])
    indices = [0, longest]
    results = []
    for fixed_sizes in (False, True):
        inputs, labels = Batches(model, data.train, fixed_sizes).make(indices)
        loss = joint_loss(network(inputs), labels, config.training).total
        results.append((inputs.mask.shape[1], loss, torch.autograd.grad(loss, list(network.parameters()))))
    (n_words, loss, grads), (n_padded, padded_loss, padded_grads) = results
    assert n_words < n_padded
    torch.testing.assert_close(padded_loss, loss, rtol=1e-11, atol=0)
    torch.testing.assert_close(padded_grads, grads, rtol=1e-8, atol=1e-9)


def test_very_long_word_is_read_without_padding(start: Start, tiny: Callable[..., Config]) -> None:
    data, _ = start(tiny())
    model, _ = make_model(data, tiny(), torch.device("cpu"))
    sentences = [("a", "b" * length, "") for length in (MAX_CHARACTERS, MAX_CHARACTERS + 1)]
    batches = Batches(model, [Example(Sentence(words), Annotation()) for words in sentences], fixed_sizes=True)
    assert isinstance(batches.make([0])[0].characters, PaddedCharacterBatch)
    for indices in ([1], [0, 1]):
        inputs, _ = batches.make(indices)
        assert isinstance(inputs.characters, CharacterBatch)
        assert inputs.mask.shape == inputs.characters.places.shape == (len(indices), 4)


def test_batch_takes_few_operations_however_many_sentences(start: Start, tiny: Callable[..., Config]) -> None:
    """On a GPU each of them is a kernel to start."""
    data, _ = start(tiny())
    model, _ = make_model(data, tiny(), torch.device("cpu"))
    for fixed_sizes, limit in ((False, 45), (True, 20)):
        batches = Batches(model, data.train, fixed_sizes)
        counts = []
        for indices in ([0], list(range(12))):
            batches.make(indices)
            with _Count() as count:
                batches.make(indices)
            counts.append(count.n)
        assert counts[0] == counts[1] < limit


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
