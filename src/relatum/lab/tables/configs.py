"""The files of settings that come with relatum."""

from __future__ import annotations

from pathlib import Path

from relatum.errors import RelatumError

PRESET = "paper/conll04"
"""The file that all rows of the paper's tables are changes of."""

_PACKAGE = Path(__file__).parents[2]


def configs_folder() -> Path:
    """Return the folder of these files: in the installed package, or at the root of the checkout it is made from."""
    folders = (_PACKAGE / "configs", _PACKAGE.parent.parent / "configs")
    for folder in folders:
        if (folder / f"{PRESET}.toml").is_file():
            return folder
    raise RelatumError(
        f"the files of settings that come with relatum are not there (looked in {folders[0]} and {folders[1]}); "
        "install relatum again, from a wheel or a whole checkout"
    )


def config_file(name: str) -> Path:
    """Return the path of a file of settings, by a name such as `ablations/layers-1`."""
    path = configs_folder() / f"{name}.toml"
    if not path.is_file():
        raise RelatumError(f"{path}: no such file of settings; install relatum again, or restore it")
    return path
