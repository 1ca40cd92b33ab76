"""`relatum init`: a folder to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TEMPLATE = Path(__file__).parent / "template"


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to make; must be new or empty.")],
) -> None:
    """Make a folder with a small corpus, a commented settings file, and a README with the commands to train a model."""
    from shlex import quote
    from shutil import copyfile, copytree

    from relatum.cli.console import printable
    from relatum.data.atomic import new_folder

    with new_folder(folder) as draft:
        copytree(TEMPLATE, draft, copy_function=copyfile, dirs_exist_ok=True)
    print(printable(f"made {folder} with config.toml, data and README.md; now:"))
    print(printable(f"  cd {quote(str(folder))}"))
    print("  relatum train data --config config.toml --out run")
    print("  relatum evaluate run/model data")
    print('  relatum extract --model run/model "…"')
