"""From a row of a table to the settings of its runs, as `relatum train` takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path

from relatum.config import Config, load_config, trace_config, without_idle
from relatum.config.toml import to_toml
from relatum.errors import RelatumError
from relatum.folders import expand_user
from relatum.lab.tables.configs import PRESET, config_file
from relatum.lab.tables.corpora import CorpusPaths, TableCorpus
from relatum.lab.tables.table import Row

PAPER_STEPS = 20_000
"""The number of updates behind the published numbers."""
N_EVALUATIONS = 20
"""The number of evaluations in a run of another length: the paper's 40 would take most of the time of a short run."""
_BARE = re.compile(r"(?!(?:true|false|inf|nan|unset)$)[A-Za-z/.~][\w./~-]*")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that a run of a row is started with, but for its data, seed and folder."""

    file: Path
    overrides: tuple[str, ...]
    config: Config

    def arguments(self) -> list[str]:
        """Return the settings as words of a command line."""
        return ["--config", str(self.file), *(word for setting in self.overrides for word in ("--set", setting))]


def make_settings(row: Row, corpus: TableCorpus, overrides: Sequence[str]) -> Settings:
    """Make the settings of a row: its first file, and overrides for all else.

    The overrides are the changes that the corpus's file and the row's other files make, and the row's own settings;
    the given overrides come after them, without those that have no effect on this row.
    """
    first, *others = row.configs or (corpus.config,)
    # What a row sets is what the table is about: it stands over what is usual for a corpus.
    changes = [*_changes(corpus.config)]
    for name in (first, *others):
        changes += _changes(name)
    file = config_file(first)
    wanted = _effective([*changes, *row.settings])
    given = {change.partition("=")[0]: change for change in _changes(first)}
    changed = [change for key, change in wanted.items() if given.get(key) != change]
    every = (*changed, *without_idle(file, changed, overrides))
    return Settings(file, every, load_config(file, every))


def user_overrides(
    steps: int | None,
    encoder: str | None,
    given: Sequence[str],
    paths: CorpusPaths,
    preset: Config,
    *,
    need_words: bool = True,
) -> list[str]:
    """Return the overrides that the user asks of all rows: a length, an encoder and settings.

    A length comes with a warm-up in proportion and 20 evaluations. Word vectors that the preset names and that are not
    there are looked for beside the corpora; if they are nowhere, that is an error, unless they are not needed yet
    (`need_words`). A frozen encoder is not stored with every one of the many models.
    """
    names_store = any(setting.replace(" ", "").startswith("encoder.store=") for setting in given)
    overrides = [] if names_store else ["encoder.store=name"]
    if steps is not None:
        every = ceil(steps / N_EVALUATIONS)
        parts = {"steps": steps, "warmup_steps": max(1, steps // 20), "evaluate_every": every}
        overrides += [f"training.{key}={value}" for key, value in parts.items()]
    if encoder is not None:
        overrides.append(override("encoder.name", encoder))
    missing = missing_word_vectors(given, paths, preset)
    if missing is not None and need_words:
        raise RelatumError(missing)
    if missing is None and not _names_words(given):
        overrides += _word_vectors(paths, preset)
    return [*overrides, *given]


def missing_word_vectors(given: Sequence[str], paths: CorpusPaths, preset: Config) -> str | None:
    """Say how to get the word vectors that the preset names; None if they are there, or the user names others."""
    name = preset.words.path
    if _names_words(given) or name is None or expand_user(name).exists() or paths.word_vectors(name) is not None:
        return None
    return (
        f"the paper's preset has the word vectors {name}, which are neither here nor beside the corpora; get GloVe "
        "(glove.6B.zip) and pass --set words.path=FILE, or do without by --set words.path=unset"
    )


def _names_words(given: Sequence[str]) -> bool:
    return any(re.match(r"\s*words(\.path)?\s*=", setting) for setting in given)


def override(key: str, value: object) -> str:
    """Format a setting as `--set` takes it."""
    if value is None:
        return f"{key}=unset"
    text = value if isinstance(value, str) and _BARE.fullmatch(value) else to_toml(value)
    return f"{key}={text}"


def _word_vectors(paths: CorpusPaths, preset: Config) -> list[str]:
    """Return the override that names the word vectors beside the corpora; empty if it is not needed."""
    name = preset.words.path
    if name is None or expand_user(name).exists():
        return []
    vectors = paths.word_vectors(name)
    return [] if vectors is None else [override("words.path", str(vectors.absolute()))]


@cache
def _changes(name: str) -> tuple[str, ...]:
    """Return the settings in which a file, with the files that it extends, differs from the preset."""
    _, preset = trace_config(config_file(PRESET))
    _, settings = trace_config(config_file(name))
    changed = (
        override(key, setting.value)
        for key, setting in settings.items()
        if key not in preset or preset[key].value != setting.value
    )
    return tuple(changed)


def _effective(changes: Sequence[str]) -> dict[str, str]:
    """Return the last change of each key, in the order in which keys first occur."""
    return {change.partition("=")[0]: change for change in changes}
