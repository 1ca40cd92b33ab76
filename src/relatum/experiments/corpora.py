"""The corpora that tables are made on, and where the user has them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relatum.data.corpus import open_corpus
from relatum.errors import RelatumError
from relatum.experiments.configs import PRESET

VARIABLE = "RELATUM_DATA"
"""The environment variable that names the folder of corpora."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus by its name, and how the paper divides it."""

    name: str
    title: str
    config: str
    """The file of settings for it, in the folder configs."""
    source: str
    """Where a user gets it."""
    n_folds: int | None = None
    """The folds of the paper's cross-validation."""


CORPORA = {
    corpus.name: corpus
    for corpus in (
        Corpus("ace04", "ACE04", "paper/ace04", "ACE 2004, licensed by the LDC (LDC2005T09)", 5),
        Corpus("ace05", "ACE05", "paper/ace05", "ACE 2005, licensed by the LDC (LDC2006T06)"),
        Corpus("conll04", "CoNLL04", PRESET, "CoNLL04, in the repository of the paper's authors"),
        Corpus("ade", "ADE", "paper/ade", "ADE, in the repository of the paper's authors", 10),
        Corpus("scierc", "SciERC", "paper/scierc", "SciERC, from its authors"),
    )
}


def name_corpus(name: str) -> Corpus:
    """A corpus by its name; any other file or folder goes by the preset of CoNLL04."""
    if name in CORPORA:
        return CORPORA[name]
    path = Path(name)
    if not path.exists():
        raise RelatumError(
            f"--corpus {name}: expected {', '.join(CORPORA)}, or an annotated file or folder, and there is none of "
            "that name"
        )
    title = path.absolute().name
    return Corpus(title, title, PRESET, str(path))


@dataclass(frozen=True, slots=True)
class Located:
    """A corpus that is there."""

    path: Path
    folds: Path | int | None
    """A file or folder of lists, or how many folds are to be made; None where it has parts of its own."""
    shown: str
    """Its path as a user would write it."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where corpora and word vectors are looked for."""

    named: Mapping[str, Path] = field(default_factory=dict)
    """Corpora with places of their own."""
    lists: Mapping[str, Path] = field(default_factory=dict)
    """Lists of documents for corpora, by name."""
    folder: Path | None = None
    """A folder that has others by the names of corpora, or is itself a corpus."""
    variable: bool = False
    """Whether an environment variable says which."""

    @classmethod
    def parse(
        cls, given: Sequence[str], environment: Mapping[str, str] = os.environ, lists: Sequence[str] = ()
    ) -> Places:
        """Read values of `--data`, a folder or NAME=PATH, and of `--lists`, NAME=PATH."""
        named: dict[str, Path] = {}
        folders: list[Path] = []
        for text in given:
            name, sign, place = text.partition("=")
            if sign and name in CORPORA:
                named[name] = Path(place)
            else:
                folders.append(Path(text))
        if len(folders) > 1:
            raise RelatumError(
                f"--data {folders[1]}: a second folder of corpora; give one, and others as NAME=PATH, where NAME is "
                f"{', '.join(CORPORA)}"
            )
        for path in (*named.values(), *folders):
            if not path.exists():
                raise RelatumError(f"--data {path}: no such file or folder")
        listed = _parse_lists(lists)
        if folders or VARIABLE not in environment:
            return cls(named, listed, folders[0] if folders else None)
        folder = Path(environment[VARIABLE])
        if not folder.is_dir():
            raise RelatumError(f"{VARIABLE} names {folder}, which is not a folder; set it anew, or give --data")
        return cls(named, listed, folder, variable=True)

    def locate(self, corpus: Corpus, alone: bool) -> Located | None:
        """The corpus, or None where it is not there; where it stands `alone`, the folder itself may be it."""
        lists = self.lists.get(corpus.name)
        if corpus.name not in CORPORA:
            path = Path(corpus.source)
            return _located(corpus, path, str(path), lists)
        if corpus.name in self.named:
            path = self.named[corpus.name]
            return _located(corpus, path, str(path), lists)
        if self.folder is None:
            return None
        inside = self.folder / corpus.name
        if inside.exists():
            shown = f"${VARIABLE}/{corpus.name}" if self.variable else str(inside)
            return _located(corpus, inside, shown, lists)
        others = any((self.folder / name).exists() for name in CORPORA)
        if alone and not others and not self.variable:
            return _located(corpus, self.folder, str(self.folder), lists)
        return None

    def word_vectors(self, name: str) -> Path | None:
        """A file of word vectors beside the corpora: the named one, or a part of it, compressed or not."""
        stem = name.removesuffix(".gz").removesuffix(".txt")
        folders = [] if self.folder is None else [self.folder, self.folder / "glove"]
        found = [path for folder in folders for path in sorted(folder.glob(f"{stem}*.txt*")) if path.is_file()]
        return found[0] if found else None

    def needed(self, corpus: Corpus) -> str:
        """What a user must do to have the corpus."""
        return (
            f"{corpus.source}: give --data {corpus.name}=PATH, or a folder of corpora by --data or {VARIABLE} that has "
            f"{corpus.name}"
        )


def _parse_lists(given: Sequence[str]) -> dict[str, Path]:
    """Read values of `--lists`."""
    named: dict[str, Path] = {}
    for text in given:
        name, _, place = text.partition("=")
        if name not in CORPORA or not place:
            raise RelatumError(f"--lists {text}: expected NAME=PATH, where NAME is {', '.join(CORPORA)}")
        named[name] = Path(place)
        if not named[name].exists():
            raise RelatumError(f"--lists {text}: no such file or folder")
    return named


def _located(corpus: Corpus, path: Path, shown: str, lists: Path | None) -> Located:
    """A corpus with the lists that were given, or lie in its folder, or else as the paper divides it."""
    inside = (path / "folds.json", path / "lists")
    lists = lists or next((place for place in inside if place.exists()), None)
    if lists is not None:
        return Located(path, lists, shown)
    if corpus.n_folds is None or "train" in {part.name for part in open_corpus(path).parts}:
        return Located(path, None, shown)
    return Located(path, corpus.n_folds, shown)
