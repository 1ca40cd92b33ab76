"""Recorded updates without a GPU: a recorder that only pretends stands in for CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import torch
from torch import Tensor

from relatum.config import Config
from relatum.encoders.tuned import TunedEncoder
from relatum.kernels.backend import use_backend
from relatum.kernels.md_gru.geometry import make_geometry
from relatum.models.inputs import ModelInputs
from relatum.models.labels import Labels, Targets
from relatum.models.model import Model
from relatum.runtime.cuda_graphs import Recorder, make_recorder
from relatum.training import graphed_step
from relatum.training.batches import Batches, cut_long
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunRecord
from relatum.training.graphed_step import GraphedStep
from relatum.training.optimisation import Optimiser
from relatum.training.setup import learned_parts, make_model
from relatum.types import Example

Start = Callable[[Config], tuple[TrainingData, RunRecord]]
CPU = torch.device("cpu")
ORDER = ([0], [3, 1], [0], [2], [3, 1], [2], [0], [4, 5, 6], [3, 1], [6, 5, 4], [0], [4, 5, 6])


class Pretended:
    """As a graph does, it makes the step when it is replayed, from what then stands in the memory it was given."""

    def __init__(self) -> None:
        self.n_recorded = self.n_replayed = self.n_released = 0
        self._open = self.replays = False

    @contextmanager
    def ready(self) -> Iterator[None]:
        assert not self._open
        self._open = True
        try:
            yield
        finally:
            self._open = False

    def record(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        assert self._open
        self.n_recorded += 1

        def replay() -> Tensor:
            self.n_replayed += 1
            self.replays = True
            try:
                return step()
            finally:
                self.replays = False

        return replay

    def release(self) -> None:
        self.n_released += 1


class Broken:
    """A recorder for which nothing works."""

    n_tries = 0

    def ready(self) -> nullcontext[None]:
        return nullcontext()

    def record(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        del step
        self.n_tries += 1
        raise RuntimeError("operation not permitted when stream is capturing\nand much more")

    def release(self) -> None:
        raise AssertionError("there is nothing to release")


class Run:
    """A tiny network and its updates; the same each time it is made."""

    def __init__(self, start: Start, config: Config, recorder: Recorder | None) -> None:
        data, _ = start(config)
        self.model, _ = make_model(data, config, CPU)
        self.said: list[str] = []
        examples, _ = cut_long(data.train, self.model.encoder, config)
        self.batches = Batches(self.model, examples, fixed_sizes=True)
        self.updates = make_updates(self.model, self.said, recorder)

    def make(self, order: Sequence[Sequence[int]] = ORDER) -> list[Tensor]:
        torch.manual_seed(1)
        return [self.updates.update(*self.batches.make(batch), step) for step, batch in enumerate(order, 1)]


def make_updates(model: Model, said: list[str], recorder: Recorder | None) -> GraphedStep:
    model.network.train()
    config = model.config.training
    _, groups = learned_parts(model)
    return GraphedStep(model, Optimiser(model.network.parameters(), config, groups), config, said.append, recorder)


def assert_same(one: Run, two: Run, results: list[Tensor], others: list[Tensor]) -> None:
    assert torch.equal(torch.stack(results), torch.stack(others))
    for name, tensor in one.model.network.state_dict().items():
        assert torch.equal(two.model.network.state_dict()[name], tensor), name
    for first, second in zip(one.updates._optimiser.parameters, two.updates._optimiser.parameters, strict=True):
        assert torch.equal(first, second)


def test_recorded_updates_equal_those_made_one_by_one(start: Start, tiny: Callable[..., Config]) -> None:
    """Dropout, the rates of the warm-up and different shapes included."""
    recorder = Pretended()
    plain, recording = Run(start, tiny(), None), Run(start, tiny(), recorder)
    wanted, found = plain.make(), recording.make()
    assert_same(plain, recording, wanted, found)
    shapes = {tuple(recording.batches.make(batch)[0].mask.shape) for batch in ORDER}
    assert len(shapes) >= 3
    assert recorder.n_recorded == recording.updates.n_graphs > 0
    assert recorder.n_replayed > recorder.n_recorded
    assert not recording.said
    assert recording.updates.seconds_recording > 0


def test_recorded_updates_keep_the_average(start: Start, tiny: Callable[..., Config]) -> None:
    config, recorder = tiny("training.ema_decay=0.8"), Pretended()
    plain, recording = Run(start, config, None), Run(start, config, recorder)
    assert_same(plain, recording, plain.make(), recording.make())
    assert recorder.n_replayed > recorder.n_recorded > 0
    averages = [run.updates._optimiser.average for run in (plain, recording)]
    assert averages[0] is not None
    assert averages[1] is not None
    for one, other in zip(averages[0].tensors, averages[1].tensors, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", ["words", "spans"])
def test_recorded_updates_follow_targets(start: Start, tiny: Callable[..., Config], kind: str) -> None:
    config, recorder = tiny(f"tagging.kind={kind}"), Pretended()
    plain, recording, hard = Run(start, config, None), Run(start, config, recorder), Run(start, config, recorder)
    generator = torch.Generator().manual_seed(7)
    sizes = [len(names) for names in (plain.model.tagging.words.names, plain.model.tagging.cells.names)]
    targets = []
    for example in plain.batches._examples:
        n = len(example.sentence)
        of_words = torch.rand(n, sizes[0], generator=generator).half()
        targets.append(Targets(of_words, torch.rand(n, n, sizes[1], generator=generator).half()))
    plain.batches.follow(targets)
    recording.batches.follow(targets)
    wanted, found = plain.make(), recording.make()
    assert_same(plain, recording, wanted, found)
    assert recorder.n_replayed > recorder.n_recorded > 0
    assert not torch.allclose(torch.stack(hard.make()), torch.stack(found))


def test_first_batch_of_a_shape_is_made_and_the_second_recorded(start: Start, tiny: Callable[..., Config]) -> None:
    recorder = Pretended()
    run = Run(start, tiny(), recorder)
    run.make([[0]])
    assert (recorder.n_recorded, recorder.n_replayed) == (0, 0)
    run.make([[0]])
    assert (recorder.n_recorded, recorder.n_replayed) == (1, 1)
    run.make([[0], [0, 1]])
    assert (recorder.n_recorded, recorder.n_replayed) == (1, 2)


def test_loss_and_norm_are_the_answer(start: Start, tiny: Callable[..., Config]) -> None:
    run = Run(start, tiny("training.clip_norm=1e9"), None)
    (result,) = run.make([[0, 1]])
    assert result.shape == (2,)
    assert not result.requires_grad
    norms = [parameter.grad.norm() for parameter in run.model.network.parameters() if parameter.grad is not None]
    torch.testing.assert_close(result[1], torch.stack(norms).norm())


def test_recording_that_fails_is_said_once_and_loses_nothing(start: Start, tiny: Callable[..., Config]) -> None:
    recorder = Broken()
    plain, broken = Run(start, tiny(), None), Run(start, tiny(), recorder)
    assert_same(plain, broken, plain.make(), broken.make())
    (said,) = broken.said
    assert "could not be recorded" in said
    assert "(operation not permitted when stream is capturing)" in said
    assert recorder.n_tries == 1
    assert not broken.updates.n_graphs


def test_recordings_are_given_up_where_memory_is_short(
    start: Start, tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Pretended()
    plain, short = Run(start, tiny(), None), Run(start, tiny(), recorder)
    make = short.updates._make

    def make_where_there_is_room(inputs: ModelInputs, labels: Labels) -> Tensor:
        if short.updates.n_graphs and not recorder.replays:
            raise torch.OutOfMemoryError
        return make(inputs, labels)

    monkeypatch.setattr(short.updates, "_make", make_where_there_is_room)
    assert_same(plain, short, plain.make(), short.make())
    assert recorder.n_recorded == recorder.n_released == 1
    assert not short.updates.n_graphs
    (said,) = short.said
    assert "training.max_cells" in said


def test_memory_that_is_short_without_recordings_is_an_error(
    start: Start, tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(start, tiny(), Pretended())

    def refuse(*_: object) -> Tensor:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(run.updates, "_make", refuse)
    with pytest.raises(torch.OutOfMemoryError):
        run.make([[0]])


def test_no_more_than_so_many_shapes_are_recorded(
    start: Start, tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphed_step, "MAX_GRAPHS", 1)
    recorder = Pretended()
    plain, recording = Run(start, tiny(), None), Run(start, tiny(), recorder)
    assert_same(plain, recording, plain.make(), recording.make())
    assert recorder.n_recorded == 1


def test_what_the_cpu_must_read_is_not_recorded(start: Start, tiny: Callable[..., Config]) -> None:
    """Words that are so long that they are packed."""
    recorder = Pretended()
    run = Run(start, tiny(), recorder)
    example = run.batches._examples[0]
    words = ("x" * 100, *example.sentence.words[1:])
    run.batches = Batches(run.model, [Example(type(example.sentence)(words), example.gold)], fixed_sizes=True)
    run.make([[0]] * 3)
    assert not recorder.n_recorded


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_updates_of_a_tuned_encoder_are_recorded(
    start: Start, tiny: Callable[..., Config], tiny_bert: Path, tuning: str
) -> None:
    config = tiny(
        "encoder.kind=huggingface", f"encoder.name={tiny_bert}", "encoder.n_layers=2", f"encoder.tuning={tuning}"
    )
    recorder = Pretended()
    plain, recording = Run(start, config, None), Run(start, config, recorder)
    encoder = recording.model.encoder
    assert encoder is not None
    assert encoder.trained is not None
    assert encoder.trained.can_be_recorded
    sizes = [recording.batches.make(indices)[0].pieces for indices in ORDER]
    assert all(pieces is not None and pieces.pieces.shape[1] in (16, 32, 48, 64) for pieces in sizes)
    before = [weight.clone() for weight in recording.updates._optimiser.parameters]
    assert_same(plain, recording, plain.make(), recording.make())
    assert recorder.n_replayed > recorder.n_recorded > 0
    pairs = zip(before, recording.updates._optimiser.parameters, strict=True)
    assert sum(not torch.equal(old, new) for old, new in pairs) > len(before) / 2


def test_layers_that_are_computed_twice_are_not_recorded(tiny: Callable[..., Config], tiny_bert: Path) -> None:
    config = tiny(
        "encoder.kind=huggingface",
        f"encoder.name={tiny_bert}",
        "encoder.n_layers=2",
        "encoder.tuning=full",
        "encoder.gradient_checkpointing=true",
    )
    assert not TunedEncoder.prepare(config, want_maps=True).can_be_recorded


def test_what_a_wavefront_reads_outlives_the_cache(start: Start, tiny: Callable[..., Config]) -> None:
    run = Run(start, tiny(), Pretended())
    for backend, is_read in (("reference", False), ("wavefront", True)):
        run.updates = make_updates(run.model, run.said, Pretended())
        with use_backend(backend):
            make_geometry.cache_clear()
            run.make([[4]] * 3)
            kept = run.updates._geometries
            assert bool(kept) == is_read
            assert make_geometry.cache_info().currsize == int(is_read)  # kept are those that were used, and no others


def test_what_a_wavefront_reads_is_not_made_within_a_recording(start: Start, tiny: Callable[..., Config]) -> None:
    """The cache may have forgotten it since the first batch of the shape."""
    n_known: list[int] = []

    class Watching(Pretended):
        def record(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
            n_known.append(make_geometry.cache_info().currsize)
            return super().record(step)

    run = Run(start, tiny(), Watching())
    with use_backend("wavefront"):
        run.make([[4]])
        make_geometry.cache_clear()
        run.make([[4]])
    assert n_known == [1]


def test_nothing_is_recorded_on_a_cpu() -> None:
    assert make_recorder(CPU) is None
