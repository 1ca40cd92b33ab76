"""Dividing a corpus into train, dev and test: by chance, in folds, or by given lists."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from random import Random

from relatum import strict_json
from relatum.data.atomic import new_folder
from relatum.data.corpus import open_corpus
from relatum.data.formats import get_format
from relatum.data.formats.base import natural_order
from relatum.data.problems import Problems
from relatum.errors import RelatumError
from relatum.files import read_bytes
from relatum.monitor import Monitor, as_monitor
from relatum.types import Document

_PARTS = ("train", "dev", "test")
_TEST_SHARE = 0.2
"""The default share of the documents that is held out for the test."""
_CV = re.compile(r"cv[0-9]+(?:\.txt)?", re.IGNORECASE)
"""Names of files that each list the test part of a fold, like the files published for ACE 2004."""
_NAMED = 200
"""The most documents that a remark on lists names."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Record numbers, from 0, of one division of a corpus."""

    train: tuple[int, ...]
    dev: tuple[int, ...]
    test: tuple[int, ...]

    def parts(self) -> dict[str, tuple[int, ...]]:
        """Return the parts that are not empty, by name."""
        every = {"train": self.train, "dev": self.dev, "test": self.test}
        return {name: numbers for name, numbers in every.items() if numbers}


@dataclass(frozen=True, slots=True)
class Partition:
    """A corpus divided into parts, as it was written."""

    folder: Path
    """The folder that was written: folds.json and, unless only lists were asked for, the documents of every part."""
    folds: tuple[Fold, ...]
    """The divisions: several for cross-validation, else one."""
    skipped: tuple[tuple[str, str], ...]
    """The files of the data folder that were not read, each with the reason."""
    problems: Problems
    """Remarks on the documents of given lists, and on documents that got a new id."""


def split(  # noqa: PLR0913 -- an argument for each option of the command
    data: str | Path,
    out: str | Path | None = None,
    *,
    folds: int | None = None,
    dev: float = 0.15,
    test: float | None = None,
    seed: int = 0,
    lists: str | Path | None = None,
    lists_only: bool = False,
    format: str | None = None,
    monitor: Monitor | Callable[[str], object] | None = None,
) -> Partition:
    """Divide annotated data into train, dev and test, or into folds, and write them as relatum JSONL.

    All parts that the data has are taken together; documents with equal texts stay together. `dev` and `test` are the
    shares to hold out; without `test` it is 0.2. With `folds`, every document is in the test part of one fold, and
    `dev` is the share of the rest. With `lists` the parts are given: a JSON file of record numbers or ids, or a folder
    of lists of ids. The same seed gives the same parts.

    `out`, a new folder, is NAME-split in the working directory if it is not given. It gets train.jsonl, dev.jsonl and
    test.jsonl (in fold-1, fold-2, … where there are several folds) and folds.json, the record numbers of every part;
    with `lists_only` folds.json alone. Bad records raise `DataError`, and nothing is written.

    `monitor` hears messages: a function such as `print`, or a `relatum.monitor.Monitor`.
    """
    if folds is not None and test is not None:
        raise RelatumError(f"folds={folds}, test={test}: the test parts are the folds; leave test out")
    if lists is not None and (folds is not None or test is not None):
        raise RelatumError(f"lists={str(lists)!r}: the parts are given; leave folds and test out")
    listener = as_monitor(monitor)
    problems = Problems()
    corpus = open_corpus(Path(data), format)
    for line in corpus.skipped_lines():
        listener.say(line)
    documents = [document for part in corpus.parts for document in part.read(problems)]
    problems.raise_if_any("Nothing was written. Fix these records, or convert with --on-error skip first.")
    texts = [document.text for document in documents]
    if lists is not None:
        divisions = load_lists(Path(lists), documents)
        remark_on_lists(divisions, documents, problems, str(lists))
    elif folds is not None:
        divisions = make_folds(texts, folds, dev, seed)
    else:
        test_share = _TEST_SHARE if test is None else test
        divisions = [divide(texts, dev, test_share, seed)]
    target = Path(f"{corpus.path.resolve().stem}-split") if out is None else Path(out)
    _write_folds(divisions, [] if lists_only else documents, target, problems)
    for line in problems.lines():
        listener.say(line)
    return Partition(target, tuple(divisions), corpus.skipped, problems)


def _write_folds(folds: Sequence[Fold], documents: Sequence[Document], target: Path, problems: Problems) -> None:
    """Write the lists of all folds and, if there are documents, the parts of every fold to a new folder."""
    many = len(folds) > 1
    with new_folder(target) as folder:
        content = json.dumps([fold.parts() for fold in folds])
        (folder / "folds.json").write_text(content + "\n", encoding="utf-8")
        for number, fold in enumerate(folds if documents else (), 1):
            inside = f"fold-{number}" if many else ""
            (folder / inside).mkdir(exist_ok=True)
            for name, members in fold.parts().items():
                picked = pick(documents, members, problems, str(target / inside / name))
                get_format("jsonl").write(folder / inside / f"{name}.jsonl", picked)


def divide(texts: Sequence[str], dev: float, test: float, seed: int) -> Fold:
    """Make one division with these shares of the whole for dev and test."""
    if not (0 <= dev < 1 and 0 <= test < 1 and dev + test < 1):
        raise RelatumError(f"--dev {dev} and --test {test} must be at least 0 and leave something to train on")
    groups = _shuffled_groups(texts, Random(seed))
    held_out, rest = _take(groups, round(test * len(texts)))
    tuning, training = _take(rest, round(dev * len(texts)))
    return _fold(training, tuning, held_out)


def make_folds(texts: Sequence[str], n_folds: int, dev: float, seed: int) -> list[Fold]:
    """Make folds for cross-validation: each record is in the test part of one; `dev` is the share of the rest held out.

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
    """Return the groups that, taken in order, together fit into `size` records, and the other groups."""
    taken: list[list[int]] = []
    rest: list[list[int]] = []
    for group in groups:
        if len(group) <= size:
            taken.append(group)
            size -= len(group)
        else:
            rest.append(group)
    return taken, rest


def _fold(train: Iterable[list[int]], dev: Iterable[list[int]], test: Iterable[list[int]]) -> Fold:
    fold = Fold(*(tuple(sorted(chain.from_iterable(groups))) for groups in (train, dev, test)))
    if not fold.train:
        raise RelatumError("too few documents: nothing is left to train on; hold out less with --dev and --test")
    return fold


def load_lists(path: Path, documents: Sequence[Document]) -> list[Fold]:
    """Load folds from lists of record numbers (from 0) or document ids.

    Either a JSON file, one object `{"train": […], "dev": […], "test": […]}` or a list of them, or a folder of files
    with one id a line: `train`, `dev` and `test`, each with or without `.txt`; or one subfolder of such files for each
    fold; or `cv0`, `cv1`, …, each of which lists the test part of a fold, whose train part is the other lists.
    """
    numbers: dict[str, int | None] = {}
    for number, document in enumerate(documents):
        numbers[document.id] = None if document.id in numbers else number
    folds = []
    unknown: dict[str, str] = {}
    for place, lists in _lists(path):
        parts: dict[str, tuple[int, ...]] = {"train": (), "dev": (), "test": ()}
        for name, members in lists.items():
            if name not in parts:
                raise RelatumError(f"{place}: found the list {name!r}; expected train, dev and test")
            listed = []
            for index, member in enumerate(members):
                found_at = numbers.get(member) if isinstance(member, str) else member
                if found_at is None and member in numbers:
                    raise RelatumError(f"{place}, {name}[{index}]: several documents have the id {member!r}")
                if type(found_at) is not int or not 0 <= found_at < len(documents):
                    unknown.setdefault(repr(member), f"{place}, {name}[{index}]")
                else:
                    listed.append(found_at)
            parts[name] = tuple(listed)
        folds.append(Fold(**parts))
    _refuse_unknown(unknown, path, len(documents))
    return folds


def _refuse_unknown(unknown: dict[str, str], path: Path, n_documents: int) -> None:
    """Name all members of lists that are no documents, each with the place where it is listed first."""
    expected = f"expected the id of a document, or its number from 0 to {n_documents - 1}"
    if len(unknown) == 1:
        ((member, place),) = unknown.items()
        raise RelatumError(f"{place}: found {member}; {expected}")
    if unknown:
        lines = "".join(f"\n  {member} ({place})" for member, place in unknown.items())
        raise RelatumError(
            f"{path}: {len(unknown)} of the documents that it lists are not in the corpus, which has {n_documents:,}; "
            f"{expected}. Name the folder that has them all, or take them off the lists:{lines}"
        )


def remark_on_lists(
    folds: Sequence[Fold],
    documents: Sequence[Document],
    problems: Problems,
    where: str,
    left_out: Set[int] = frozenset(),
) -> None:
    """Say which documents given lists put into several parts of a fold, or into none where they are not `left_out`."""
    for number, fold in enumerate(folds, 1):
        times = Counter(member for members in fold.parts().values() for member in set(members))
        place = f"{where}, fold {number}" if len(folds) > 1 else where
        for member, count_ in times.items():
            if count_ > 1:
                problems.remark("documents in several parts of a fold", f"{place}, {documents[member].id}")
        names = [
            document.id for member, document in enumerate(documents) if member not in times and member not in left_out
        ]
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        problems.remark("documents in no part of a fold", f"{place}, {', '.join(names[:_NAMED])}{more}", len(names))
        trained = {documents[member].text for member in fold.train}
        for member in {*fold.dev, *fold.test} - {*fold.train}:
            if documents[member].text in trained:
                problems.remark("documents held out whose text is also in train", f"{place}, {documents[member].id}")


def _lists(path: Path) -> list[tuple[str, dict[str, list[object]]]]:
    if path.is_dir():
        return _folder_lists(path)
    try:
        value = strict_json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise RelatumError(f"{path}: not valid JSON: {error}") from None
    folds = value if isinstance(value, list) else [value]
    if not folds or not all(map(_has_lists, folds)):
        raise RelatumError(f'{path}: expected {{"train": […], "dev": […], "test": […]}}, or a list of such objects')
    if len(folds) == 1:
        return [(str(path), folds[0])]
    return [(f"{path}, fold {number}", fold) for number, fold in enumerate(folds, 1)]


def _has_lists(fold: object) -> bool:
    """True for an object that holds lists and nothing else."""
    return isinstance(fold, dict) and bool(fold) and all(isinstance(members, list) for members in fold.values())


def _folder_lists(path: Path) -> list[tuple[str, dict[str, list[object]]]]:
    """Return the lists of a folder, fold by fold, each with the place it comes from."""
    if lists := _part_lists(path):
        return [(str(path), lists)]
    inside = sorted(path.iterdir(), key=lambda child: natural_order(child.name))
    folders = [(str(child), inner) for child in inside if child.is_dir() and (inner := _part_lists(child))]
    if folders:
        return folders
    tests = {child: _ids(child) for child in inside if child.is_file() and _CV.fullmatch(child.name)}
    if len(tests) < 2:
        raise RelatumError(
            f"{path}: found no lists; expected train.txt, dev.txt and test.txt, one id a line, or a subfolder of them "
            "for each fold, or cv0, cv1 and so on, the test parts of folds"
        )
    folds = []
    for file, test in tests.items():
        train = [id for other, ids in tests.items() if other != file for id in ids]
        folds.append((str(file), {"train": train, "test": test}))
    return folds


def _part_lists(path: Path) -> dict[str, list[object]]:
    """Return the lists of parts in a folder, by name; the files may end in .txt or not."""
    lists: dict[str, list[object]] = {}
    for name in _PARTS:
        files = [file for file in (path / name, path / f"{name}.txt") if file.is_file()]
        if len(files) > 1:
            raise RelatumError(f"{path}: found both {name} and {name}.txt; expected one list of each part; remove one")
        if files:
            lists[name] = _ids(files[0])
    return lists


def _ids(path: Path) -> list[object]:
    return [line.strip() for line in _text(path).splitlines() if line.strip()]


def _text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RelatumError(f"{path}: not valid UTF-8 at byte {error.start}; save it as UTF-8") from None


def pick(documents: Sequence[Document], numbers: Iterable[int], problems: Problems, where: str) -> list[Document]:
    """Return the documents of a part; a document listed again, or with the id of another, gets a new id."""
    taken = {document.id for document in documents}
    seen: set[int] = set()
    used: set[str] = set()
    picked = []
    for number in numbers:
        document = documents[number]
        if document.id in used:
            what = "listed more than once in a part" if number in seen else "with the id of another in their part"
            problems.remark(f"documents {what}, renamed", f"{where}, {document.id}")
            name = next(name for time in count(2) if (name := f"{document.id}~{time}") not in taken)
            taken.add(name)
            document = replace(document, id=name)
        seen.add(number)
        used.add(document.id)
        picked.append(document)
    return picked
