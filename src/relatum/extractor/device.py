"""Where a model runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from relatum.errors import RelatumError

_Result = TypeVar("_Result")
_DEVICES = "'cpu', 'cuda' (or one GPU of several, such as 'cuda:0'), or 'auto', which is a GPU where there is one"


def choose_device(name: torch.device | str) -> torch.device:
    """The device of a name; "auto" is a GPU where there is one. One that relatum cannot use is an error."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise RelatumError(f"device {name!r}: there is none of that name; use {_DEVICES}") from None
    if device.type not in ("cpu", "cuda"):
        raise RelatumError(f"device {str(name)!r}: relatum does not run on it; use {_DEVICES}")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise RelatumError(f"device {str(name)!r}: torch finds no GPU here; use 'cpu', or see relatum doctor")
        count = torch.cuda.device_count()
        if (device.index or 0) >= count:
            raise RelatumError(f"device {str(name)!r}: torch finds {count} GPUs here, and they count from cuda:0")
    return device


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether memory ran out; that of the CPU has no error of its own in torch, only words."""
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


def if_it_fits(compute: Callable[[], _Result]) -> _Result | None:
    """What is computed; None where memory ran out, of which all that can be is then free."""
    try:
        return compute()
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    # Not before: the error held on to what was computed when it came.
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    return None
