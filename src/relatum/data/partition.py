"""Dividing a corpus into train, dev and test: by chance, in folds, or by given lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from relatum.data.problems import Problems
from relatum.errors import RelatumError
from relatum.types import Document


@dataclass(frozen=True, slots=True)
class Fold:
    """Record numbers, from 0, of one division of a corpus."""

    train: tuple[int, ...]
    dev: tuple[int, ...]
    test: tuple[int, ...]

    def parts(self) -> dict[str, tuple[int, ...]]:
        """The parts that hold anything, by name."""
        every = {"train": self.train, "dev": self.dev, "test": self.test}
        return {name: numbers for name, numbers in every.items() if numbers}


def divide(texts: Sequence[str], dev: float, test: float, seed: int) -> Fold:
    """One division with these shares of the whole for dev and test."""
    if not (0 <= dev < 1 and 0 <= test < 1 and dev + test < 1):
        raise RelatumError(f"--dev {dev} and --test {test} must be at least 0 and leave something to train on")
    groups = _shuffled_groups(texts, Random(seed))
    held_out, rest = _take(groups, round(test * len(texts)))
    tuning, training = _take(rest, round(dev * len(texts)))
    return _fold(training, tuning, held_out)


def make_folds(texts: Sequence[str], n_folds: int, dev: float, seed: int) -> list[Fold]:
    """Cross-validation: every record is in the test part of one fold; `dev` is the share of the rest held out.

    The same seed gives the same folds. Records with equal texts stay together, so that none is in train and test.
    """
    if n_folds < 2:
        raise RelatumError(f"--folds {n_folds}: at least 2 are needed")
    if not 0 <= dev < 1:
        raise RelatumError(f"--dev {dev} must be at least 0 and leave something to train on")
    random = Random(seed)
    groups = _shuffled_groups(texts, random)
    if len(groups) < n_folds:
        raise RelatumError(f"--folds {n_folds}: there are only {len(groups)} documents with different texts")
    tests: list[list[list[int]]] = [[] for _ in range(n_folds)]
    sizes = [0] * n_folds
    for group in groups:
        smallest = sizes.index(min(sizes))
        tests[smallest].append(group)
        sizes[smallest] += len(group)
    folds = []
    for number, held_out in enumerate(tests):
        rest = [group for other, fold in enumerate(tests) if other != number for group in fold]
        random.shuffle(rest)
        tuning, training = _take(rest, round(dev * sum(map(len, rest))))
        folds.append(_fold(training, tuning, held_out))
    return folds


def _shuffled_groups(texts: Sequence[str], random: Random) -> list[list[int]]:
    groups: dict[str, list[int]] = {}
    for number, text in enumerate(texts):
        groups.setdefault(text, []).append(number)
    shuffled = list(groups.values())
    random.shuffle(shuffled)
    return shuffled


def _take(groups: list[list[int]], size: int) -> tuple[list[list[int]], list[list[int]]]:
    """As many whole groups as come nearest to `size` records, and the rest."""
    taken = count = 0
    while taken < len(groups) and abs(count + len(groups[taken]) - size) < abs(count - size):
        count += len(groups[taken])
        taken += 1
    return groups[:taken], groups[taken:]


def _fold(train: Iterable[list[int]], dev: Iterable[list[int]], test: Iterable[list[int]]) -> Fold:
    one, two, three = (tuple(sorted(number for group in part for number in group)) for part in (train, dev, test))
    return Fold(one, two, three)


def load_lists(path: Path, documents: Sequence[Document]) -> list[Fold]:
    """Folds from given lists of record numbers (from 0) or document ids.

    Either a JSON file, one object `{"train": […], "dev": […], "test": […]}` or a list of them, or a folder with
    `train.txt`, `dev.txt` and `test.txt`, one id a line.
    """
    numbers = {document.id: number for number, document in enumerate(documents)}
    folds = []
    for place, lists in _lists(path):
        parts: dict[str, tuple[int, ...]] = {"train": (), "dev": (), "test": ()}
        for name, members in lists.items():
            if name not in parts:
                raise RelatumError(f"{place}: found the list {name!r}; expected train, dev and test")
            found = []
            for index, member in enumerate(members):
                number = numbers.get(member) if isinstance(member, str) else member
                if type(number) is not int or not 0 <= number < len(documents):
                    raise RelatumError(
                        f"{place}, {name}[{index}]: found {member!r}; expected the id of a document, or its "
                        f"number from 0 to {len(documents) - 1}"
                    )
                found.append(number)
            parts[name] = tuple(found)
        folds.append(Fold(**parts))
    return folds


def _lists(path: Path) -> list[tuple[str, dict[str, list[object]]]]:
    if path.is_dir():
        files = {name: path / f"{name}.txt" for name in ("train", "dev", "test")}
        lists: dict[str, list[object]] = {
            name: [line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
            for name, file in files.items()
            if file.exists()
        }
        if not lists:
            raise RelatumError(f"{path}: found no lists; expected train.txt, dev.txt and test.txt, one id a line")
        return [(str(path), lists)]
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise RelatumError(f"{path}: not valid JSON: {error}") from None
    folds = value if isinstance(value, list) else [value]
    if not folds or not all(isinstance(f, dict) and f and all(isinstance(m, list) for m in f.values()) for f in folds):
        raise RelatumError(f'{path}: expected {{"train": […], "dev": […], "test": […]}}, or a list of such objects')
    return [(f"{path}, fold {number}" if len(folds) > 1 else str(path), fold) for number, fold in enumerate(folds, 1)]


def pick(documents: Sequence[Document], numbers: Iterable[int], problems: Problems, where: str) -> list[Document]:
    """The documents of a part; one that is listed again gets an id of its own."""
    times: dict[int, int] = {}
    picked = []
    for number in numbers:
        times[number] = times.get(number, 0) + 1
        document = documents[number]
        if times[number] > 1:
            problems.remark("documents listed more than once in a part, renamed", f"{where}, {document.id}")
            document = replace(document, id=f"{document.id}~{times[number]}")
        picked.append(document)
    return picked
