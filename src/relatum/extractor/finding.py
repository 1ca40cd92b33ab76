"""Models by name or folder: the ones that come with relatum, the user's own, and the ones on the Hugging Face hub."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path

from relatum.errors import RelatumError

DEFAULT_MODEL = "wiki"
"""The model that reads where no other is named; it comes with relatum."""


def shipped_models() -> list[str]:
    """The names of the models that come with relatum."""
    folder = files("relatum") / "pretrained" / "models"
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


@dataclass(frozen=True, slots=True)
class FoundModel:
    """The folder of a model, and the commit of its files if they are from the hub."""

    folder: Path
    revision: str | None = None


def find_model(name_or_path: str | Path) -> Path:
    """Return the directory of a model, given its path or a name; see `locate_model`."""
    return locate_model(name_or_path).folder


def locate_model(
    name_or_path: str | Path,
    revision: str | None = None,
    token: str | bool | None = None,
    local_files_only: bool = False,
) -> FoundModel:
    """Find a model that comes with relatum, by its name; a folder, by its path; or a model on the hub, by its name.

    They are tried in this order. A name means the same wherever it is used: a folder of that name is "./news", or a
    `Path`. Only a string of the form owner/model is looked for on the hub.
    """
    if not isinstance(name_or_path, str | Path):
        raise not_a_name(name_or_path)
    path = Path(name_or_path)
    names = shipped_models()
    if isinstance(name_or_path, str) and name_or_path in names:
        path = Path(str(files("relatum") / "pretrained" / "models" / name_or_path))
    elif not path.is_dir() or name_or_path == "":
        return _find_on_hub(name_or_path, names, revision, token, local_files_only)
    if revision is not None:
        raise RelatumError(f"{name_or_path}: the revision {revision!r} is for models on the hub; {path} is a folder")
    return FoundModel(path)


def _find_on_hub(
    name: str | Path, names: list[str], revision: str | None, token: str | bool | None, local_files_only: bool
) -> FoundModel:
    from relatum.extractor.hub import download_model, is_hub_name

    if not is_hub_name(name):
        known = ", ".join(names) or "none"
        near = get_close_matches(str(name).lower(), names, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise RelatumError(
            f"{name or repr('')}: no such model{hint}; name a directory that relatum train has made, a model on the "
            f"hub (owner/model), or one that comes with relatum: {known}"
        )
    try:
        model = download_model(str(name), revision, token, local_files_only)
    except RelatumError as error:
        raise RelatumError(f"{str(error).rstrip('.')}; there is no folder {Path(name).absolute()} either") from error
    return FoundModel(model.folder, model.revision)


def model_version(name_or_path: str | Path, folder: Path) -> str:
    """Return the name of a model with the beginning of a hash of its files, such as `news-1a2b3c4d`."""
    from relatum.models.manifest import Manifest

    return f"{Path(name_or_path).resolve().name}-{Manifest.read(folder).digest[:8]}"


def not_a_name(found: object) -> TypeError:
    """Return the error for something that cannot name a model."""
    return TypeError(
        f"expected the name of a model or the path of its folder, as str or Path, found {type(found).__name__}; the "
        f"models that come with relatum are {', '.join(map(repr, shipped_models())) or 'none'}"
    )
