"""Where a model runs."""

from __future__ import annotations

import torch

from relatum.errors import RelatumError

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
