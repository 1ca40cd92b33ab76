"""How many runs go on at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from relatum.config import Config
from relatum.training.runs import budgets
from relatum.training.runs.budgets import BESIDE, CoreBudget, MemoryBudget, share_cores

Tiny = Callable[..., Config]
GIB = 2**30


@pytest.mark.parametrize(
    ("n_runs", "jobs", "kind", "expected"),
    [
        (5, None, "cpu", CoreBudget(5, 1)),
        (3, None, "cpu", CoreBudget(3, 2)),
        (20, None, "cpu", CoreBudget(8, 1)),
        (5, 2, "cpu", CoreBudget(2, 4)),
        (5, 1, "cpu", CoreBudget(1, None)),
        (1, None, "cpu", CoreBudget(1, None)),
        (2, 8, "cpu", CoreBudget(2, 4)),
        (5, None, "cuda", CoreBudget(5, None)),
        (50, None, "cuda", CoreBudget(16, None)),
    ],
)
def test_cores_are_shared_out(
    n_runs: int, jobs: int | None, kind: str, expected: CoreBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(budgets, "_cores", lambda: 16)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert share_cores(n_runs, jobs, torch.device(kind)) == expected


def test_threads_that_the_user_sets_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setattr(budgets, "_cores", lambda: 16)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert share_cores(10, None, torch.device("cpu")) == CoreBudget(4, None)


def test_given_number_holds_from_the_start(tiny: Tiny) -> None:
    budget = MemoryBudget(tiny(), 3, False, torch.device("cpu"))
    assert budget.limit == 3
    budget.hear({"event": "start", "peak": 100 * GIB, "free": GIB})
    assert budget.limit == 3


def test_first_run_goes_alone_until_memory_is_known(tiny: Tiny) -> None:
    budget = MemoryBudget(tiny(), 8, True, torch.device("cuda"))
    budget.hear({"event": "start", "peak": GIB, "free": 30 * GIB})
    assert budget.limit == 1
    budget.hear({"event": "evaluate", "peak": 4 * GIB, "free": 30 * GIB})
    assert int(0.9 * 30 * GIB / (1.5 * 4 * GIB + BESIDE)) == 3
    assert budget.limit == 4
    budget.hear({"event": "evaluate", "peak": 10 * GIB, "free": 1 * GIB})  # one is greedier than was known
    assert budget.limit == 2


def test_run_always_fits_by_itself(tiny: Tiny) -> None:
    budget = MemoryBudget(tiny(), 8, True, torch.device("cuda"))
    budget.hear({"event": "evaluate", "peak": 40 * GIB, "free": 0})
    assert budget.limit == 1


def test_cpu_run_is_measured_when_its_features_are_there(tiny: Tiny) -> None:
    budget = MemoryBudget(tiny(), 8, True, torch.device("cpu"))
    assert budget.limit == 1
    budget.hear({"event": "start", "peak": 2 * GIB, "free": 10 * GIB})
    assert budget.limit == 4
    unknown = MemoryBudget(tiny(), 8, True, torch.device("cpu"))
    unknown.hear({"event": "start", "peak": None, "free": None})
    assert unknown.limit == 8


def test_others_wait_for_the_run_that_fills_the_cache_on_disk(tiny: Tiny) -> None:
    config = tiny("encoder.kind=huggingface", "encoder.cache=disk")
    budget = MemoryBudget(config, 4, False, torch.device("cpu"))
    assert budget.limit == 1
    budget.hear({"event": "say", "message": "reading"})
    assert budget.limit == 1
    budget.hear({"event": "start", "peak": GIB, "free": GIB})
    assert budget.limit == 4
