"""The devices that a model can be asked to run on."""

from __future__ import annotations

import pytest
import torch

from relatum.errors import RelatumError
from relatum.extractor.device import choose_device, is_out_of_memory, none_if_out_of_memory


def have_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def test_auto_is_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    have_gpus(monkeypatch, 0)
    assert choose_device("auto") == torch.device("cpu")
    have_gpus(monkeypatch, 1)
    assert choose_device("auto") == torch.device("cuda")


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:1", torch.device("cpu"), torch.device("cuda", 1)], ids=str)
def test_device_that_is_there_is_taken(monkeypatch: pytest.MonkeyPatch, name: torch.device | str) -> None:
    have_gpus(monkeypatch, 2)
    assert choose_device(name) == torch.device(name)


@pytest.mark.parametrize("name", ["gpu", "mps", "meta", "", "cuda:x", "CPU", torch.device("mps")], ids=str)
def test_other_device_is_refused_with_those_that_work(name: torch.device | str) -> None:
    with pytest.raises(RelatumError, match=f"device '{name}': .*; use 'cpu', 'cuda' .*, or 'auto'"):
        choose_device(name)


@pytest.mark.parametrize("name", ["cuda", "cuda:0", torch.device("cuda")], ids=str)
def test_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, name: torch.device | str) -> None:
    have_gpus(monkeypatch, 0)
    with pytest.raises(RelatumError, match=f"device '{name}': torch finds no GPU here; use 'cpu'"):
        choose_device(name)


def test_gpu_beyond_the_last_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    have_gpus(monkeypatch, 2)
    with pytest.raises(RelatumError, match="device 'cuda:2': torch finds 2 GPUs here, and they count from cuda:0"):
        choose_device("cuda:2")


def too_large() -> torch.Tensor:
    """Ask for more memory than any machine has."""
    return torch.empty(2**60, dtype=torch.uint8)


def test_memory_of_the_cpu_that_ran_out_is_known_by_its_words() -> None:
    with pytest.raises(RuntimeError) as error:
        too_large()
    assert is_out_of_memory(error.value)
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("unable to mmap 45 bytes from file <x>: Cannot allocate memory (12)"))
    assert not is_out_of_memory(RuntimeError("shape '[2]' is invalid for input of size 3"))


def test_what_does_not_fit_is_none() -> None:
    def fail() -> None:
        raise MemoryError

    assert none_if_out_of_memory(too_large) is None
    assert none_if_out_of_memory(fail) is None
    assert none_if_out_of_memory(lambda: 3) == 3
