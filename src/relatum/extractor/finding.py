"""Models by name or folder: the ones that come with relatum, and the user's own."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path

from relatum.errors import RelatumError


def shipped_models() -> list[str]:
    """The names of the models that come with relatum."""
    folder = files("relatum") / "pretrained" / "models"
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


def find_model(name_or_path: str | Path) -> Path:
    """Return the directory of a model, given its path or the name of a model that comes with relatum.

    A name means the same wherever it is used: a folder of that name is "./news", or a `Path`.
    """
    if not isinstance(name_or_path, str | Path):
        raise not_a_name(name_or_path)
    path = Path(name_or_path)
    names = shipped_models()
    if isinstance(name_or_path, str) and name_or_path in names:
        return Path(str(files("relatum") / "pretrained" / "models" / name_or_path))
    if path.is_dir() and name_or_path != "":
        return path
    known = ", ".join(names) or "none"
    near = get_close_matches(str(name_or_path).lower(), names, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise RelatumError(
        f"{name_or_path or repr('')}: no such model{hint}; name a directory that relatum train has made, or one that "
        f"comes with relatum: {known}"
    )


def model_version(name_or_path: str | Path) -> str:
    """Return the name of a model with the beginning of a hash of its files, such as `news-1a2b3c4d`."""
    from relatum.models.manifest import Manifest

    path = find_model(name_or_path)
    return f"{path.resolve().name}-{Manifest.read(path).digest[:8]}"


def not_a_name(found: object) -> TypeError:
    """Return the error for something that cannot name a model."""
    return TypeError(
        f"expected the name of a model or the path of its folder, as str or Path, found {type(found).__name__}; the "
        f"models that come with relatum are {', '.join(map(repr, shipped_models())) or 'none'}"
    )
