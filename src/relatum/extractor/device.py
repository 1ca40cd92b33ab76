"""The device that a model runs on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from relatum.errors import MissingExtraError, RelatumError

if TYPE_CHECKING:
    import torch

_Result = TypeVar("_Result")
_DEVICES = "'cpu', 'cuda' (or one GPU of several, such as 'cuda:0'), or 'auto', which is a GPU where there is one"


def choose_device(name: torch.device | str) -> torch.device:
    """Return the device of a name; "auto" is a GPU if there is one. A device that relatum cannot use is an error."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(f"the device {str(name)!r}", "torch") from error
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


_SIGNS = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvgpu", "/dev/dxg", "/dev/kfd")
"""Files that a system has where a driver of GPUs is loaded."""


def is_cpu(name: torch.device | str) -> bool:
    """True if a name means the CPU. Without a sign of a GPU this is known without torch; else torch is asked."""
    if str(name) == "cpu":
        return True
    if str(name) == "auto" and "torch" not in sys.modules and not may_have_gpu():
        return True
    return choose_device(name).type == "cpu"


def may_have_gpu() -> bool:
    """False if torch surely finds no GPU here: it is not installed, or there is no driver, or all GPUs are hidden."""
    if not has_torch() or os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
        return False
    return sys.platform != "linux" or any(Path(sign).exists() for sign in _SIGNS)


def has_torch() -> bool:
    """True if torch is installed; it is not imported."""
    try:
        return find_spec("torch") is not None
    except (ImportError, ValueError):  # something on the way to it cannot be imported
        return False


_OUT_OF_MEMORY = ("DefaultCPUAllocator", "Cannot allocate memory", "std::bad_alloc")
"""Words of errors that torch raises where the memory of the CPU ran out: they have no class of their own."""


def is_out_of_memory(error: RuntimeError | MemoryError) -> bool:
    """True if memory ran out, on a GPU or on the CPU."""
    torch = sys.modules.get("torch")
    if isinstance(error, MemoryError) or (torch is not None and isinstance(error, torch.OutOfMemoryError)):
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
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    return None
