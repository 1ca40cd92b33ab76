"""The models of several runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from relatum.errors import RelatumError
from relatum.training.folder import resume_command
from relatum.training.runs.plan import RunsFolder


def runs_models(path: Path, say: Callable[[str], None]) -> list[str]:
    """Return the folders of the models of all runs in a folder, to be used as an ensemble.

    Runs of several folds are refused: the test part of a run is what others have learned from. `say` is told if that
    may also be so for parts that were held out by the seed.
    """
    folder = RunsFolder(path)
    runs = folder.read_runs()
    if len({run.fold for run in runs}) > 1:
        raise RelatumError(
            f"{path}: its runs are of several folds, and each has learned from what is the test part of others; name "
            "the models of one fold, the first as MODEL and the others by --with"
        )
    missing = [run.name for run in runs if not folder.run(run).model.is_dir()]
    if missing:
        cure = f"complete them by {resume_command(path)}"
        raise RelatumError(f"{path}: these runs have no model yet: {', '.join(missing)}; {cure}")
    if len({run.fingerprint for run in runs}) > 1:
        say(f"{path}: each run held out other sentences of its data, and has learned from some that others held out")
    return [str(folder.run(run).model) for run in runs]
