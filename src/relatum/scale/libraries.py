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


def describe_error(error: Exception) -> str:
    """Return the reason that an error of a library gives; errors of the system are known without their name."""
    return str(error) if isinstance(error, OSError) and str(error) else f"{type(error).__name__}: {error}"


def missing_store(url: str, error: Exception) -> RelatumError:
    """Return the error for a URL that no installed library can open."""
    cure = "install the package for this kind of URL, such as gcsfs for gs://"
    if url.startswith(("s3://", "s3a://")):
        cure = "install it: pip install 'relatum[s3]'"
    return RelatumError(f"{url}: {error}; {cure}")
