"""The properties of a GPU's multiprocessors that decide how a scan is divided among them."""

from __future__ import annotations

from functools import lru_cache

import torch


@lru_cache(maxsize=16)
def n_processors(device: torch.device) -> int:
    """Return the number of multiprocessors; an interpreter pretends to have some."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 64


@lru_cache(maxsize=16)
def memory(device: torch.device) -> int:
    """Return the bytes of memory that a program can have for itself alone."""
    if device.type != "cuda":
        return 227 * 1024  # an interpreter has no limit; so it divides as an H200 does
    from triton.runtime import driver

    index = torch.empty(0, device=device).get_device()  # a device need not name its number
    return int(driver.active.utils.get_device_properties(index)["max_shared_mem"])


def padded_width(number: int) -> int:
    """Round up to a power of two, and to at least what a tensor core takes."""
    return max(16, 1 << (number - 1).bit_length())
