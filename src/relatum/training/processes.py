"""The processes that make a run together, each with a share of every batch.

`torchrun` and `accelerate launch` start a program several times and say so in its environment; accelerate then joins
the processes. All of them have the same weights and do the same with them: gradients are added up before each update.
The first process alone evaluates, writes and speaks.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch import Tensor
from torch.nn import Parameter

from relatum.errors import RelatumError
from relatum.training.stopping import Stopping

_TIMEOUT = timedelta(hours=6)
"""The longest that processes wait for each other, such as while the first evaluates; if one ends, all know at once."""
_NO_LIMIT = 2**62


def is_main_process() -> bool:
    """True if this process is the only one or the first of several; can be called before they have been joined."""
    return not is_one_of_several() or os.environ["RANK"] == "0"


def is_one_of_several() -> bool:
    """True if a launcher started this process together with others."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


class Processes:
    """The processes of a run; in this class, a single process."""

    n, number = 1, 0

    def __init__(self, device: torch.device, stopping: Stopping) -> None:
        self.device, self._stopping = device, stopping

    @property
    def main(self) -> bool:
        return self.number == 0

    @property
    def asked_to_stop(self) -> bool:
        """True if the run is to stop; the same in all processes between two updates."""
        return self._stopping.asked

    def seed(self, seed: int) -> None:
        """Make this process draw other random numbers than the others; weights must have been drawn before."""

    def share(self, batch: list[int]) -> list[int]:
        """Return this process's share of a batch, which may be empty."""
        return batch

    def add_up(self, parameters: Sequence[Parameter], loss: Tensor) -> Tensor:
        """Sum the gradients over all processes, in place; return the sum of their losses."""
        del parameters
        return loss

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensors of all processes, of the same shape, on the CPU."""
        return [tensor]

    def least(self, limit: int | None) -> int | None:
        """Return the lowest of the limits of all processes; None is no limit."""
        found = min(int(one) for one in self.gather(torch.tensor(_NO_LIMIT if limit is None else limit)))
        return None if found == _NO_LIMIT else found

    def tell(self, text: str) -> str:
        """Send the first process's text to the others; return that text in every process."""
        return text

    def wait(self) -> None:
        """Wait until all processes are here."""


class Several(Processes):
    """One of several processes."""

    def __init__(self, device: torch.device, stopping: Stopping) -> None:
        try:
            from accelerate import PartialState  # type: ignore[import-untyped]
        except ImportError:
            raise RelatumError(
                f"this is one of {os.environ['WORLD_SIZE']} processes (WORLD_SIZE), and accelerate, which joins them, "
                "is not installed: pip install 'relatum[train]'"
            ) from None
        cpu = device.type == "cpu"
        place, n_devices = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
        if not cpu and place >= n_devices:
            raise RelatumError(
                f"there are more processes than GPUs, which are {n_devices}; start no more of them, or use --device cpu"
            )
        backend = {"backend": "gloo"} if cpu else {}
        with _watching():
            state = PartialState(cpu=cpu, timeout=_TIMEOUT, **backend)
        super().__init__(device if cpu else torch.device("cuda", state.local_process_index), stopping)
        self.n, self.number = state.num_processes, state.process_index
        self._agreed = False

    @property
    def asked_to_stop(self) -> bool:
        return self._agreed

    def seed(self, seed: int) -> None:
        if not self.main:
            digest = hashlib.sha256(f"{seed}/{self.number}".encode()).digest()
            torch.manual_seed(int.from_bytes(digest[:8], "big"))

    def share(self, batch: list[int]) -> list[int]:
        return batch[self.number :: self.n]  # sentences are in order of length, so that shares are about as long

    def add_up(self, parameters: Sequence[Parameter], loss: Tensor) -> Tensor:
        """Sum the gradients and the loss over all processes, by one message.

        The message also says if any process was asked to stop, and which parameters have gradients in any process.
        """
        there = [parameter.grad is not None for parameter in parameters]
        values = torch.tensor([self._stopping.asked, *there], dtype=loss.dtype, device=loss.device)
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
        message = torch.cat([loss.reshape(1), values, *(gradient.reshape(-1) for gradient in gradients)])
        with _watching():
            torch.distributed.all_reduce(message)
        asked, *counts = message[1 : len(parameters) + 2].tolist()
        self._agreed = asked > 0
        pieces = message[len(parameters) + 2 :].split([parameter.numel() for parameter in parameters])
        for parameter, count, piece in zip(parameters, counts, pieces, strict=True):
            parameter.grad = piece.view_as(parameter).to(parameter.dtype) if count else None
        return message[0]

    def gather(self, tensor: Tensor) -> list[Tensor]:
        mine = tensor.to(self.device)
        found = [torch.empty_like(mine) for _ in range(self.n)]
        with _watching():
            torch.distributed.all_gather(found, mine)
        return [one.cpu() for one in found]

    def tell(self, text: str) -> str:
        sent = torch.tensor(list(text.encode()), dtype=torch.uint8, device=self.device)
        size = torch.tensor(len(sent), device=self.device)
        with _watching():
            torch.distributed.broadcast(size, 0)
            if not self.main:
                sent = torch.empty(int(size), dtype=torch.uint8, device=self.device)
            torch.distributed.broadcast(sent, 0)
        return bytes(sent.cpu().numpy()).decode()

    def wait(self) -> None:
        self.gather(torch.zeros(1))


def join_processes(device: torch.device, stopping: Stopping) -> Processes:
    """Join the processes that a launcher started; without a launcher this process is alone, and nothing is imported."""
    return Several(device, stopping) if is_one_of_several() else Processes(device, stopping)


@contextmanager
def _watching() -> Iterator[None]:
    """Turn an error of the connection to other processes into an error that says what happened."""
    try:
        yield
    except RuntimeError as error:
        raise RelatumError(
            f"another process of this run has ended or cannot be reached ({str(error).splitlines()[0]}); see what it "
            "said. The run can go on from its last checkpoint by --resume"
        ) from error
