"""Libraries that relatum installs only with an extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from relatum.errors import RelatumError


def need_library(module: str, extra: str) -> Any:
    """Import a library, or say which extra installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise RelatumError(
            f"{module} cannot be imported ({error}); install it: pip install 'relatum[{extra}]'"
        ) from None
