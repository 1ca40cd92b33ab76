"""Recorded updates on a GPU, against updates made one operation after the other.

Run with `PYTHONPATH=src python -m pytest --noconftest -v tests/training/test_graphed_step_gpu.py`. The first
run takes a minute or two, most of it for compiling.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
import torch
from torch import Tensor

from relatum.config import load_config
from relatum.encoders.words import WordVectors
from relatum.layers.characters import CharacterBatch, CharacterLSTM, PaddedCharacterBatch
from relatum.models.build import build_model
from relatum.models.vocabulary import find_characters
from relatum.runtime.cuda_graphs import GraphRecorder, make_recorder
from relatum.schema import RelationType, Schema
from relatum.training.batches import Batches
from relatum.training.checkpoints import read_checkpoint, save_checkpoint
from relatum.training.features import read_ahead, with_memory
from relatum.training.graphed_step import GraphedStep
from relatum.training.history import Progress
from relatum.training.optimisation import Optimiser
from relatum.training.sampler import Sampler
from relatum.training.state import capture, fixed_hash, restore
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span

sys.path.append(str(Path(__file__).parents[2]))  # the benchmarks are not installed, and no conftest.py is read here

from benchmarks.stand_in import StandIn

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

N_STEPS = 24
SMALL = (
    "model.width=64",
    "model.n_layers=2",
    "sequence.feedforward_width=96",
    "training.batch_size=4",
    "training.warmup_steps=6",
    "training.learning_rate=1e-3",
)


def make_examples() -> list[Example]:
    """Sentences of four to thirty words, some of which have many characters."""
    random = Random(0)
    examples = []
    for number in range(20):
        length = random.choice((4, 7, 11, 18, 30))
        words = tuple("".join(random.choices("etaoinshr", k=random.choice((1, 3, 5, 12)))) for _ in range(length))
        head, tail = Entity(Span(0, 2), random.choice("AB")), Entity(Span(3, 4), random.choice("AB"))
        gold = Annotation((head, tail), (Relation(head, tail, random.choice("RS")),))
        examples.append(Example(Sentence(words), gold, str(number)))
    return examples


class Run:
    """A small network with all its parts, and its updates; the same each time it is made."""

    def __init__(self, recorded: bool, *overrides: str, seed: int = 3) -> None:
        device = torch.device("cuda", torch.cuda.current_device())
        config = load_config(None, [*SMALL, *overrides])
        self.examples = make_examples()
        words = sorted({word for example in self.examples for word in example.sentence.words})[::2]
        vectors = WordVectors(tuple(words), torch.randn(len(words), 10, generator=torch.Generator().manual_seed(0)))
        torch.manual_seed(seed)
        characters = find_characters(example.sentence.words for example in self.examples)
        schema = Schema(("A", "B"), (RelationType("R"), RelationType("S")))
        model = build_model(config, schema, StandIn(width=24, n_attention_maps=6), vectors, characters).to(device)
        self.model = with_memory(model, self.examples)
        read_ahead(self.model, self.examples, lambda: False, lambda _: None)
        self.network = self.model.network.train()
        self.network.table_dtype = torch.bfloat16 if config.training.precision == "bf16" else None
        self.said: list[str] = []
        self.config = config.training
        self.optimiser = Optimiser(self.network.parameters(), self.config)
        self.batches = Batches(self.model, self.examples)
        self.sampler = Sampler([len(example.sentence) for example in self.examples], self.config)
        recorder = make_recorder(device) if recorded else None
        self.updates = GraphedStep(self.model, self.optimiser, self.config, self.said.append, recorder)

    def make(self, first: int = 1, last: int = N_STEPS) -> Tensor:
        """The losses and norms of updates, (steps, 2)."""
        steps = range(first, last + 1)
        return torch.stack([self.updates.update(*self.batches.make(self.sampler.next()), step) for step in steps])

    def repeat(self, batch: Sequence[int], n_times: int) -> Tensor:
        """The same batch again and again, (times, 2)."""
        inputs, labels = self.batches.make(batch)
        return torch.stack([self.updates.update(inputs, labels, step) for step in range(1, n_times + 1)])


def assert_same_weights(one: Run, two: Run) -> None:
    for name, tensor in one.network.state_dict().items():
        torch.testing.assert_close(two.network.state_dict()[name], tensor, rtol=1e-4, atol=1e-5, msg=name)
    for first, second in zip(one.optimiser.parameters, two.optimiser.parameters, strict=True):
        states, others = one.optimiser.adam.state[first], two.optimiser.adam.state[second]
        assert states["step"].item() == others["step"].item()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_recorded_run_equals_one_that_is_not(precision: str) -> None:
    """Losses, norms and weights, with dropout, over several shapes of batches, and the random numbers left behind."""
    plain, recorded = (Run(one, f"training.precision={precision}") for one in (False, True))
    results, states = [], []
    for run in (plain, recorded):
        torch.manual_seed(5)
        results.append(run.make())
        states.append(torch.cuda.get_rng_state())
    assert not recorded.said
    assert recorded.updates.n_graphs >= 3
    assert torch.equal(states[0], states[1])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=0)
    assert_same_weights(plain, recorded)


def test_recorded_run_with_an_average_equals_one_that_is_not() -> None:
    plain, recorded = (Run(one, "training.ema_decay=0.9") for one in (False, True))
    results = []
    for run in (plain, recorded):
        torch.manual_seed(5)
        results.append(run.make())
    assert not recorded.said
    assert recorded.updates.n_graphs >= 3
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=0)
    assert_same_weights(plain, recorded)
    for one, two in zip(plain.optimiser.parameters, recorded.optimiser.parameters, strict=True):
        with plain.optimiser.averaged(), recorded.optimiser.averaged():
            torch.testing.assert_close(two, one, rtol=1e-4, atol=1e-5)
    weight = recorded.optimiser.parameters[0]
    now = weight.detach().clone()
    with recorded.optimiser.averaged():
        assert not torch.equal(weight, now)


def test_resumed_run_equals_one_that_was_not_stopped(tmp_path: Path) -> None:
    """What one has recorded at the time, the other has not."""
    whole = Run(True)
    torch.manual_seed(5)
    whole.make(1, 15)
    progress = Progress(step=15)
    state = capture(whole.network, whole.optimiser, whole.sampler, progress, fixed_hash(whole.network))
    path = save_checkpoint(tmp_path, state)
    assert whole.updates.n_graphs  # the other run begins without any
    end = whole.make(16, 30)
    resumed = Run(True, seed=8)
    _, place = restore(read_checkpoint(path), resumed.network, resumed.optimiser, pytest.fail)
    resumed.sampler.go_to(**place)
    torch.testing.assert_close(resumed.make(16, 30), end, rtol=1e-4, atol=0)
    assert_same_weights(whole, resumed)
    assert resumed.updates.n_graphs


def test_dropout_differs_from_replay_to_replay() -> None:
    run = Run(True, "training.learning_rate=1e-30")
    losses = run.repeat([0, 1], 8)[:, 0].tolist()
    assert run.updates.n_graphs == 1
    assert len(set(losses)) == 8


def test_replays_without_dropout_learn() -> None:
    run = Run(True, "model.dropout=0", "training.warmup_steps=0")
    losses = run.repeat([0, 1], 12)[:, 0].tolist()
    assert run.updates.n_graphs == 1
    assert all(later < earlier for earlier, later in pairwise(losses))


def test_rate_of_each_replay_is_that_of_its_step() -> None:
    """Adam moves a weight by at most about its rate, and this one falls to nothing."""
    run = Run(True, "model.dropout=0", "training.warmup_steps=0", "training.decay_rate=1e30", "training.decay_steps=4")
    run.repeat([0, 1], 3)
    before = [parameter.detach().clone() for parameter in run.optimiser.parameters]
    inputs, labels = run.batches.make([0, 1])
    run.updates.update(inputs, labels, 3)
    moved = [(one - two).abs().max().item() for one, two in zip(run.optimiser.parameters, before, strict=True)]
    assert max(moved) > 1e-4
    before = [parameter.detach().clone() for parameter in run.optimiser.parameters]
    run.updates.update(inputs, labels, 5)
    assert all(torch.equal(one, two) for one, two in zip(run.optimiser.parameters, before, strict=True))


def test_replay_reads_the_new_batch_and_not_the_recorded_one() -> None:
    run = Run(True, "model.dropout=0", "training.learning_rate=1e-30")
    lengths = [len(example.sentence) for example in run.examples]
    same = [index for index, length in enumerate(lengths) if length == 18]
    assert len(same) >= 2
    plain = Run(False, "model.dropout=0", "training.learning_rate=1e-30")
    batches = [run.batches.make([index]) for index in (same[0], same[0], same[0], same[1])]
    found = torch.stack([run.updates.update(*batch, 1) for batch in batches])
    wanted = torch.stack([plain.updates.update(*batch, 1) for batch in batches])
    assert run.updates.n_graphs >= 1
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=0)
    assert not torch.isclose(found[2, 0], found[3, 0], rtol=1e-3)


@pytest.mark.parametrize("table", ["table.kind=cnn", "table.reset=before", "table.kind=none"])
def test_other_networks_are_recorded_as_well(table: str) -> None:
    plain, recorded = (Run(one, table, "model.dropout=0") for one in (False, True))
    found = recorded.repeat([0, 1], 4)
    assert not recorded.said
    assert recorded.updates.n_graphs == 1
    torch.testing.assert_close(found, plain.repeat([0, 1], 4), rtol=1e-3, atol=0)


def test_words_with_padding_are_read_as_those_without() -> None:
    """cuDNN reads both forms; values and gradients, next to those in double precision on a CPU.

    For words with padding it takes other kernels, which were seen to be 5e-6 away on an H200, where those for packed
    words are 1e-7; in training both forms are read in TF32, which is good to three or four digits.
    """
    run = Run(False, "model.dropout=0")
    reader = run.network.embedder.characters
    assert reader is not None
    inputs, _ = run.batches.make([0, 1, 2])
    spelling = inputs.characters
    assert isinstance(spelling, PaddedCharacterBatch)
    words = spelling.lengths > 0
    places = torch.zeros_like(spelling.lengths)
    places[words] = torch.arange(1, int(words.sum()) + 1, device=places.device)
    there = spelling.characters.permute(1, 2, 0)[words].cpu()
    packed = CharacterBatch.pack(there[there > 0], spelling.lengths[words].cpu(), places.cpu())
    weights = torch.randn(*places.shape, reader.width, generator=torch.Generator().manual_seed(0))

    def read(by: CharacterLSTM, form: CharacterBatch | PaddedCharacterBatch) -> list[Tensor]:
        vectors = by(form)
        grads = torch.autograd.grad((vectors * weights.to(vectors)).sum(), list(by.parameters()))
        return [one.detach().double().cpu() for one in (vectors, *grads)]

    exact = read(deepcopy(reader).cpu().double(), packed)
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        plain, padded = read(reader, packed.to(places.device)), read(reader, spelling)
    finally:
        torch.backends.cudnn.allow_tf32 = before
    for one, two, right in zip(padded, plain, exact, strict=True):
        assert (one - right).norm() <= 2 * (two - right).norm() + 1e-5 * right.norm()


def test_recording_that_waits_for_the_device_fails_and_training_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left behind that would disturb random numbers or memory."""
    plain, broken = Run(False), Run(True)
    record = GraphRecorder.record

    def wait(self: GraphRecorder, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        def waiting() -> Tensor:
            result = step()
            result.tolist()  # not allowed while recording
            return result

        return record(self, waiting)

    monkeypatch.setattr(GraphRecorder, "record", wait)
    results = []
    for run in (plain, broken):
        torch.manual_seed(5)
        results.append(run.make())
    (said,) = broken.said
    assert "could not be recorded" in said
    assert not broken.updates.n_graphs
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=0)
