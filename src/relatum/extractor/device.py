"""The device that a model runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from relatum.errors import RelatumError

_Result = TypeVar("_Result")
_DEVICES = "'cpu', 'cuda' (or one GPU of several, such as 'cuda:0'), or 'auto', which is a GPU where there is one"


def choose_device(name: torch.device | str) -> torch.device:
    """Return the device of a name; "auto" is a GPU if there is one. A device that relatum cannot use is an error."""
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


_OUT_OF_MEMORY = ("DefaultCPUAllocator", "Cannot allocate memory", "std::bad_alloc")
"""Words of errors that torch raises where the memory of the CPU ran out: they have no class of their own."""


def is_out_of_memory(error: RuntimeError | MemoryError) -> bool:
    """True if memory ran out, on a GPU or on the CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return any(words in str(error) for words in _OUT_OF_MEMORY)


def none_if_out_of_memory(compute: Callable[[], _Result]) -> _Result | None:
    """Return the result of `compute`; if memory runs out, free as much of it as possible and return None."""
    try:
        return compute()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # Not before: the error held on to what was computed when it came.
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    return None
