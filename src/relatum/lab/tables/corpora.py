"""The corpora that tables are made on, and where the user has them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relatum.data.corpus import open_corpus
from relatum.errors import RelatumError
from relatum.lab.tables.configs import PRESET

VARIABLE = "RELATUM_DATA"
"""The environment variable that names the folder of corpora."""


@dataclass(frozen=True, slots=True)
class TableCorpus:
    """A corpus: its names, its settings, its source, and the folds that the paper divides it into."""

    name: str
    title: str
    config: str
    """The file of settings for the corpus, in the folder configs."""
    source: str
    """The place to get the corpus from; for a file or folder of the user's own, its path."""
    n_folds: int | None = None
    """The number of folds in the paper's cross-validation; None if the paper has none."""


CORPORA = {
    corpus.name: corpus
    for corpus in (
        TableCorpus("ace04", "ACE04", "paper/ace04", "ACE 2004, licensed by the LDC (LDC2005T09)", 5),
        TableCorpus("ace05", "ACE05", "paper/ace05", "ACE 2005, licensed by the LDC (LDC2006T06)"),
        TableCorpus("conll04", "CoNLL04", PRESET, "CoNLL04, in the repository of the paper's authors"),
        TableCorpus("ade", "ADE", "paper/ade", "ADE, in the repository of the paper's authors", 10),
        TableCorpus("scierc", "SciERC", "paper/scierc", "SciERC, from its authors"),
    )
}


def name_corpus(name: str) -> TableCorpus:
    """Return the corpus of a name; any other file or folder gets the settings of the preset for CoNLL04."""
    if name in CORPORA:
        return CORPORA[name]
    path = Path(name)
    if not path.exists():
        raise RelatumError(
            f"--corpus {name}: expected {', '.join(CORPORA)}, or an annotated file or folder, and there is none of "
            "that name"
        )
    title = path.absolute().name
    return TableCorpus(title, title, PRESET, str(path))


@dataclass(frozen=True, slots=True)
class CorpusPath:
    """A corpus that was found on disk."""

    path: Path
    folds: Path | int | None
    """A file or folder of lists, or the number of folds to make; None if the corpus has parts of its own."""
    shown: str
    """The path of the corpus as a user would write it."""


@dataclass(frozen=True, slots=True)
class CorpusPaths:
    """The places to look for corpora and word vectors."""

    named: Mapping[str, Path] = field(default_factory=dict)
    """The paths of corpora that were given as NAME=PATH, by name."""
    lists: Mapping[str, Path] = field(default_factory=dict)
    """The paths of the lists of documents for corpora, by the name of the corpus."""
    folder: Path | None = None
    """A folder that contains corpora under their names, or is itself a corpus."""
    variable: bool = False
    """True if `folder` comes from the environment variable."""

    @classmethod
    def parse(
        cls, given: Sequence[str], environment: Mapping[str, str] = os.environ, lists: Sequence[str] = ()
    ) -> CorpusPaths:
        """Read values of `--data`, a folder or NAME=PATH, and of `--lists`, NAME=PATH."""
        named: dict[str, Path] = {}
        folders: list[Path] = []
        for text in given:
            name, sign, location = text.partition("=")
            if sign and name in CORPORA:
                named[name] = Path(location)
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

    def locate(self, corpus: TableCorpus, alone: bool) -> CorpusPath | None:
        """Find a corpus; None if it is not there. If no other is asked for (`alone`), the folder itself may be it."""
        lists = self.lists.get(corpus.name)
        if corpus.name not in CORPORA:
            path = Path(corpus.source)
            return _corpus_path(corpus, path, str(path), lists)
        if corpus.name in self.named:
            path = self.named[corpus.name]
            return _corpus_path(corpus, path, str(path), lists)
        if self.folder is None:
            return None
        inside = self.folder / corpus.name
        if inside.exists():
            shown = f"${VARIABLE}/{corpus.name}" if self.variable else str(inside)
            return _corpus_path(corpus, inside, shown, lists)
        others = any((self.folder / name).exists() for name in CORPORA)
        if alone and not others and not self.variable:
            return _corpus_path(corpus, self.folder, str(self.folder), lists)
        return None

    def word_vectors(self, name: str) -> Path | None:
        """Find a file of word vectors beside the corpora: the named file, or a part of it, compressed or not."""
        stem = name.removesuffix(".gz").removesuffix(".txt")
        folders = [] if self.folder is None else [self.folder, self.folder / "glove"]
        paths = [path for folder in folders for path in sorted(folder.glob(f"{stem}*.txt*")) if path.is_file()]
        return paths[0] if paths else None

    def needed(self, corpus: TableCorpus) -> str:
        """Return a message that tells the user how to provide the corpus."""
        return (
            f"{corpus.source}: give --data {corpus.name}=PATH, or a folder of corpora by --data or {VARIABLE} that has "
            f"{corpus.name}"
        )


def _parse_lists(given: Sequence[str]) -> dict[str, Path]:
    """Read values of `--lists`."""
    named: dict[str, Path] = {}
    for text in given:
        name, _, location = text.partition("=")
        if name not in CORPORA or not location:
            raise RelatumError(f"--lists {text}: expected NAME=PATH, where NAME is {', '.join(CORPORA)}")
        named[name] = Path(location)
        if not named[name].exists():
            raise RelatumError(f"--lists {text}: no such file or folder")
    return named


def _corpus_path(corpus: TableCorpus, path: Path, shown: str, lists: Path | None) -> CorpusPath:
    """Describe a corpus that was found: divided by the given lists, by lists in its folder, or else as in the paper."""
    inside = (path / "folds.json", path / "lists")
    lists = lists or next((candidate for candidate in inside if candidate.exists()), None)
    if lists is not None:
        return CorpusPath(path, lists, shown)
    if corpus.n_folds is None or "train" in {part.name for part in open_corpus(path).parts}:
        return CorpusPath(path, None, shown)
    return CorpusPath(path, corpus.n_folds, shown)
