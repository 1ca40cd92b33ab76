"""The user's folders: home, and the cache."""

from __future__ import annotations

import os
from pathlib import Path

from relatum.errors import RelatumError


def cache_folder() -> Path:
    """Return the folder for everything that relatum downloads, compiles or computes for later.

    It is $RELATUM_CACHE if that is set, else `relatum` in $XDG_CACHE_HOME, else ~/.cache/relatum, on every system.
    """
    own = os.environ.get("RELATUM_CACHE")
    if own:
        return expand_user(own)
    general = os.environ.get("XDG_CACHE_HOME", "")
    if not Path(general).is_absolute():  # unset, or invalid: the XDG specification says to ignore it
        general = "~/.cache"
    return expand_user(general) / "relatum"


def expand_user(path: str) -> Path:
    """Return the path with the home folder in place of a `~` at its beginning."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise RelatumError(f"{path}: the home folder it begins with is not known; write the path out") from None
