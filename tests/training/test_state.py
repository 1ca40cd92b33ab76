from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from relatum.config import TrainingConfig
from relatum.errors import RelatumError
from relatum.evaluation.metrics import evaluate
from relatum.monitor import Evaluation
from relatum.training.checkpoints import Checkpoint, read_checkpoint, save_checkpoint
from relatum.training.history import Progress, selection_score
from relatum.training.optimisation import Optimiser
from relatum.training.sampler import Sampler
from relatum.training.state import capture, fixed_hash, restore
from relatum.types import Annotation, Entity, Relation, Span

from ..small_results import make_scores

CONFIG = TrainingConfig(batch_size=2, warmup_steps=5)
LENGTHS = [3, 5, 2, 7, 4]


class Net(nn.Module):
    """Shared layers, a buffer, a frozen parameter and dropout: all that a real network may have."""

    def __init__(self) -> None:
        super().__init__()
        shared = nn.Linear(4, 4)
        self.layers = nn.ModuleList([shared, shared])
        self.frozen = nn.Parameter(torch.full((4,), 2.0), requires_grad=False)
        self.register_buffer("vectors", torch.ones(4))

    def forward(self, inputs: Tensor) -> Tensor:
        for layer in self.layers:
            inputs = nn.functional.dropout(torch.tanh(layer(inputs)), 0.5)
        return (inputs * self.frozen * self.get_buffer("vectors")).sum()


def steps(net: Net, optimiser: Optimiser, sampler: Sampler, first: int, last: int) -> None:
    for step in range(first, last + 1):
        rows = torch.tensor([[float(i)] * 4 for i in sampler.next()])
        optimiser.update(net(rows), step)


def make(seed: int) -> tuple[Net, Optimiser]:
    torch.manual_seed(seed)
    net = Net()
    return net, Optimiser(net.parameters(), CONFIG)


def test_restored_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    net, optimiser = make(3)
    sampler = Sampler(LENGTHS, CONFIG)
    steps(net, optimiser, sampler, 1, 7)
    path = save_checkpoint(tmp_path, capture(net, optimiser, sampler, Progress(step=7), fixed_hash(net)))
    steps(net, optimiser, sampler, 8, 20)

    other, other_optimiser = make(99)
    said: list[str] = []
    progress, place = restore(read_checkpoint(path), other, other_optimiser, said.append)
    assert progress.step == 7
    resumed = Sampler(LENGTHS, CONFIG)
    resumed.go_to(**place)
    steps(other, other_optimiser, resumed, 8, 20)
    assert not said
    for name, tensor in net.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor), name


def test_other_number_of_threads_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    net, optimiser = make(3)
    state = capture(net, optimiser, Sampler(LENGTHS, CONFIG), Progress(), fixed_hash(net))
    n, said = torch.get_num_threads(), list[str]()
    monkeypatch.setattr(torch, "get_num_threads", lambda: n + 3)
    restore(state, net, optimiser, said.append)
    assert len(said) == 1
    assert f"was {n} and is now {n + 3}" in said[0]
    assert f"OMP_NUM_THREADS={n} " in said[0]


def test_state_before_the_first_update_can_be_restored() -> None:
    net, optimiser = make(3)
    sampler = Sampler(LENGTHS, CONFIG)
    begin = capture(net, optimiser, sampler, Progress(), fixed_hash(net))
    assert not any(name.startswith("adam/") for name in begin.tensors)
    other, other_optimiser = make(4)
    restore(begin, other, other_optimiser, print)
    assert torch.equal(other.layers[0].weight, net.layers[0].weight)  # type: ignore[arg-type]


def test_state_holds_what_is_learned_and_nothing_twice() -> None:
    net, optimiser = make(3)
    sampler = Sampler(LENGTHS, CONFIG)
    steps(net, optimiser, sampler, 1, 1)
    names = set(capture(net, optimiser, sampler, Progress(step=1), fixed_hash(net)).tensors)
    adam = {f"adam/layers.0.{p}/{key}" for p in ("weight", "bias") for key in ("step", "exp_avg", "exp_avg_sq")}
    assert names == {"network/layers.0.weight", "network/layers.0.bias", "random/cpu", *adam}


def test_state_of_another_network_is_refused() -> None:
    net, optimiser = make(3)
    state = capture(net, optimiser, Sampler(LENGTHS, CONFIG), Progress(step=4), fixed_hash(net))
    wider, _ = make(3)
    wider.layers = nn.ModuleList([nn.Linear(5, 5)])
    with pytest.raises(RelatumError, match=r"step 4 is of another network \(layers\.0\.weight differs\)"):
        restore(state, wider, Optimiser(wider.parameters(), CONFIG), print)
    more, _ = make(3)
    more.layers.append(nn.Linear(4, 4))
    with pytest.raises(RelatumError, match=r"layers\.2\.bias differs"):
        restore(state, more, Optimiser(more.parameters(), CONFIG), print)
    for name in ("vectors", "frozen"):
        changed, changed_optimiser = make(3)
        changed.state_dict()[name].add_(1)
        with pytest.raises(RelatumError, match="the word vectors or another part that is not learned differs"):
            restore(state, changed, changed_optimiser, print)


def test_progress_comes_back_and_knows_its_best() -> None:
    made = [
        Evaluation(step, 1.0, 1e-3, score, 2.0, make_scores(0.5)) for step, score in ((5, 0.2), (10, 0.7), (15, 0.7))
    ]
    progress = Progress(17, 3.5, 0.25, 2, evaluations=made)
    assert Progress.from_dict(progress.to_dict()) == progress
    assert progress.best == made[1]
    assert Progress().best is None


def test_selection_score_is_the_mean_of_the_chosen_scores() -> None:
    a, b, c = (Entity(Span(i, i + 1), label) for i, label in enumerate("XXY"))
    wrong = Entity(Span(2, 3), "X")
    gold = Annotation((a, b, c), (Relation(a, b, "r"), Relation(a, c, "s")))
    found = Annotation((a, b, wrong), (Relation(a, b, "r"), Relation(a, wrong, "s")))
    scores = evaluate([(gold, found)])
    # Entities: micro 2/3; X 4/5, Y 0. RE: all right. RE+: r is right and s is not.
    assert selection_score(scores, TrainingConfig()) == pytest.approx((2 / 3 + 1) / 2)
    assert selection_score(scores, TrainingConfig(selection="macro")) == pytest.approx((2 / 5 + 1) / 2)
    assert selection_score(scores, TrainingConfig(selection_relations="strict")) == pytest.approx((2 / 3 + 1 / 2) / 2)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"progress": 3, "sampler": {"epoch": 0, "position": 0}},
        {"progress": {"evaluations": [{"x": 1}]}, "sampler": {"epoch": 0, "position": 0}},
        {"progress": {"evaluations": []}, "sampler": {"epoch": "one"}},
        {"progress": {"evaluations": []}, "sampler": {"epoch": 0, "position": 0}, "fixed": None, "python_random": 3},
    ],
    ids=str,
)
def test_checkpoint_whose_record_is_of_no_run_is_refused(tmp_path: Path, record: dict[str, object]) -> None:
    net, optimiser = make(3)
    tensors = capture(net, optimiser, Sampler(LENGTHS, CONFIG), Progress(step=7), "").tensors
    record = {key: fixed_hash(net) if key == "fixed" else value for key, value in record.items()}
    path = save_checkpoint(tmp_path, Checkpoint(7, record, tensors))
    with pytest.raises(RelatumError, match="the checkpoint of step 7 cannot be used"):
        restore(read_checkpoint(path), net, optimiser, lambda _: None)
