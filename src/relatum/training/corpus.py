"""The sentences a model is trained, tuned and tested on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path

from relatum.config import Config, TrainingConfig
from relatum.data import partition
from relatum.data.corpus import Corpus, open_corpus
from relatum.data.passages import count_sentences
from relatum.data.problems import Cure, Problems
from relatum.errors import RelatumError
from relatum.evaluation.ceiling import Limits, describe_ceiling, is_limited, measure_ceiling
from relatum.schema import RelationType, Schema, infer_schema
from relatum.tagging.tagging import Tagging
from relatum.training.examples import make_examples
from relatum.training.unlabelled import draw_unlabelled
from relatum.types import Annotation, Document, Example

DEV_SHARE = 0.15
"""The share of the training documents that is held out for dev if there is no dev part."""
TEST_SHARE = 0.15
"""The share of the documents that is held out for test as well, if all documents are in one file."""
LEAST_FOR_TEST = 100
"""The number of documents below which no test part is held out: all are needed for training and dev."""

_CURE = Cure("Nothing was trained.")
_FOLD_CURE = "Fix these records first: lists of records count them all."


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Sentences by part, their labels, and remarks on how they were made."""

    train: list[Example]
    dev: list[Example]
    test: list[Example]
    schema: Schema
    remarks: tuple[str, ...] = ()
    dev_by_seed: bool = False
    """True if the dev part was drawn from train by the seed, so that another seed has other parts."""
    unlabelled: list[Example] = field(default_factory=list)
    """Sentences without annotations, from which only the probabilities of teachers are learned."""

    @property
    def depends_on_seed(self) -> bool:
        """True if another seed has other data: it draws dev from train, or the sentences of unlabelled text."""
        return self.dev_by_seed or bool(self.unlabelled)

    @property
    def parts(self) -> dict[str, list[Example]]:
        return {"train": self.train, "dev": self.dev, "test": self.test}

    @property
    def leaves_out(self) -> bool:
        """True if gold has annotations that no model can learn."""
        return any(example.left_out != Annotation() for part in self.parts.values() for example in part)

    def fingerprint(self) -> str:
        """Return a hash of all sentences and annotations, by which a resumed run knows its data.

        Annotations that are left out are scored, too, and hashed. Older versions did not score them, and their hashes
        lack them.
        """
        labels = self.schema.to_dict()
        for kind in labels["relation_types"]:
            kind.pop("pairs", None)  # no labels of their own; runs that were begun before they were kept go on
        found = hashlib.sha256(json.dumps(labels).encode())
        for name, examples in self.parts.items():
            found.update(f"\n{name}".encode())
            for example in examples:
                found.update(json.dumps([example.sentence.words, *_values(example.gold)]).encode())
                if example.sentence.starts:
                    found.update(json.dumps(example.sentence.starts).encode())
                if example.left_out != Annotation():
                    found.update(json.dumps(_values(example.left_out)).encode())
        for example in self.unlabelled:
            found.update(f"\nunlabelled {json.dumps(example.sentence.words)}".encode())
        return found.hexdigest()


def _values(annotation: Annotation) -> tuple[list[object], list[object]]:
    """Return the entities and relations as plain values."""
    return (
        [[*entity.span, entity.label] for entity in annotation.entities],
        [[*r.head.span, *r.tail.span, r.label] for r in annotation.relations],
    )


@dataclass(frozen=True, slots=True)
class FoldChoice:
    """One fold of a file of lists, counted from 1."""

    path: Path
    number: int
    lists: tuple[partition.Fold, ...] | None = None
    """The folds that the file will hold, if it is not written yet."""

    @classmethod
    def parse(cls, text: str) -> FoldChoice:
        """Read `FILE:K`."""
        path, colon, number = text.rpartition(":")
        if not colon or not path or not number.isdecimal() or int(number) < 1:
            raise RelatumError(f"--fold {text}: expected FILE:K, such as folds.json:1, with K counted from 1")
        return cls(Path(path), int(number))

    def __str__(self) -> str:
        return f"{self.path}:{self.number}"


def load_training_data(
    path: Path,
    config: Config,
    format_name: str | None = None,
    fold: FoldChoice | None = None,
    *,
    with_test: bool = True,
) -> TrainingData:
    """Read a corpus: a folder with the parts train, dev (or valid) and test, or a single file.

    Without a dev part, a share of train is held out by the seed; from a single file that is large enough, another share
    is held out for test. With a fold, the lists say which part each record is in. Without test, the test part is empty,
    and its file is not read, unless there are lists, which count all records.
    If dev is trained on as well, its sentences are at the end of train, and the dev part is empty.
    """
    _check_that_something_is_scored(config, with_test)
    corpus = _open(path, format_name)
    problems, remarks = Problems(), [f"skipped {name}: {reason}" for name, reason in corpus.skipped]
    if fold is not None:
        documents, by_seed = _read_fold(corpus, fold, config.training, problems, remarks, with_test)
    else:
        documents, by_seed = _read_parts(corpus, config, problems, remarks, with_test)
    if not with_test:
        documents["test"] = []
    parts = _split_into_examples(documents, path, config, problems, remarks)
    if config.data.on_error == "fail" or fold is not None:
        problems.raise_if_any(_CURE if fold is None else _FOLD_CURE)
    _refuse_empty_parts(parts, path, config, problems)
    if config.training.dev == "train":
        remarks.append(_join(parts))
    if config.encoder.context:
        remarks += _without_context(parts["train"])
    schema = _schema(corpus.schema, parts, remarks)
    if config.decoding.constraints == "schema":
        remarks += _unconstrained(schema)
    remarks += _try_tags(parts, schema, config, problems)
    unlabelled: list[Example] = []
    if config.training.unlabelled is not None:
        labelled = chain.from_iterable(parts.values())
        unlabelled = draw_unlabelled(config.training.unlabelled, labelled, config)
        remarks.append(f"{len(unlabelled):,} sentences of unlabelled text are learned from, too")
    said = (*remarks, *_skipped_lines(problems), *problems.remark_lines())
    return TrainingData(**parts, schema=schema, remarks=said, dev_by_seed=by_seed, unlabelled=unlabelled)


def _check_that_something_is_scored(config: Config, with_test: bool) -> None:
    if config.training.dev == "train" and not with_test:
        raise RelatumError(
            'training.dev is "train": dev is trained on, so that nothing is left to score; leave that setting out '
            "here, and use it for the last run, when all else is chosen"
        )


def _split_into_examples(
    documents: Mapping[str, Sequence[Document]], path: Path, config: Config, problems: Problems, remarks: list[str]
) -> dict[str, list[Example]]:
    """Split the documents of each part into sentences; a part that is scored keeps records that no model can hold."""
    parts = {}
    for name, part in documents.items():
        scored = name == "test" or (name == "dev" and config.training.dev == "choose")
        before = problems.n_records
        parts[name] = make_examples(part, _to_score(config) if scored else config, problems, f"{path}, {name}")
        if scored:
            remarks += _unscored(name, problems.n_records - before)
    return parts


def _refuse_empty_parts(parts: Mapping[str, Sequence[Example]], path: Path, config: Config, problems: Problems) -> None:
    for name in ("train", "dev") if config.training.dev == "choose" else ("train",):
        if not parts[name]:
            problems.raise_if_any(_none_left(name))
            raise RelatumError(f"{path}: the {name} part has no sentences; add some, or name another file or folder")


def _skipped_lines(problems: Problems) -> list[str]:
    """Return a line for each record that was skipped; if they are too many, a last line counts them all."""
    lines = [f"skipped {problem}" for problem in problems.kept]
    if problems.count > len(problems.kept):
        lines.append(f"skipped {problems.size()} in all")
    return lines


def load_part(path: Path, part: str, config: Config, format_name: str | None = None) -> tuple[list[Example], list[str]]:
    """Read the sentences of one part, and remarks on them; if the corpus has a single part, read that part."""
    corpus = open_corpus(path, format_name)
    names = [one.name for one in corpus.parts]
    alone = len(corpus.parts) == 1
    chosen = [one for one in corpus.parts if alone or one.name == part or (one.name, part) == ("valid", "dev")]
    if not chosen:
        raise RelatumError(f"{path}: found the parts {', '.join(names)}; name one of them with --part")
    problems = Problems()
    documents = list(chosen[-1].read(problems))
    examples = make_examples(documents, config, problems, str(chosen[-1].path))
    problems.raise_if_any("Fix these records first: leaving them out would change the scores.")
    if not examples:
        raise RelatumError(f"{chosen[-1].path}: there are no sentences in it")
    used = f"{chosen[-1].path} is the only part and is taken" if alone and chosen[-1].name != part else ""
    said = [*([used] if used and path.is_dir() else []), *problems.remark_lines()]
    if any(example.left_out != Annotation() for example in examples):
        said.append("annotations that are left out count as missed in all scores")
    return examples, said


def make_fold_lists(
    path: Path, n_folds: int, seed: int, format_name: str | None = None, *, with_test: bool = True
) -> tuple[partition.Fold, ...]:
    """Make folds of all documents of a corpus, whatever parts it has.

    Each fold is test once, and a share of the other documents is then the dev part. Without test, the folds are made of
    the train and dev parts alone; each fold is dev once, and nothing is for test. A corpus that is one part is taken
    whole.
    """
    documents, apart = _read_all(_open(path, format_name), Problems())
    if not with_test:
        # Lists number all documents, so that these are read in the same way as any others.
        numbers = [number for number in range(len(documents)) if number not in apart]
        if not numbers:
            raise RelatumError(f"{path}: found neither a train nor a dev part; expected both, or one file")
        chosen = partition.make_folds([documents[number].text for number in numbers], n_folds, 0.0, seed)
        return tuple(
            partition.Fold(*(tuple(numbers[place] for place in places) for places in (fold.train, fold.test, ())))
            for fold in chosen
        )
    folds = partition.make_folds([document.text for document in documents], n_folds, DEV_SHARE, seed)
    if not all(fold.dev for fold in folds):
        raise RelatumError(
            f"--folds {n_folds}: {path} has too few documents ({len(documents):,}) for a dev part in every fold; "
            "make fewer folds"
        )
    return tuple(folds)


def load_fold_lists(lists: Path, path: Path, format_name: str | None = None) -> list[partition.Fold]:
    """Read the folds that a file or folder of lists has for a corpus."""
    documents, _ = _read_all(open_corpus(path, format_name), Problems())
    return partition.load_lists(lists, documents)


def _open(path: Path, format_name: str | None) -> Corpus:
    """Open a corpus to train on; refuse a folder whose only part is dev or test, which lacks a part to learn from."""
    corpus = open_corpus(path, format_name)
    names = [part.name for part in corpus.parts]
    if path.is_dir() and len(names) == 1 and names[0] in ("dev", "valid", "test"):
        skipped = "".join(f"; skipped {name}: {reason}" for name, reason in corpus.skipped)
        raise RelatumError(
            f"{path}: found the part {names[0]} alone; expected train, and dev and test{skipped}. To train on "
            f"{names[0]} itself, name its file"
        )
    return corpus


def _read_all(corpus: Corpus, problems: Problems) -> tuple[list[Document], frozenset[int]]:
    """Read the documents of all parts; also return the numbers of those outside train and dev, if there are parts."""
    names = {part.name for part in corpus.parts}
    dev = "dev" if "dev" in names else "valid"
    learned = names if len(names) == 1 else {"train", dev}
    documents: list[Document] = []
    apart: set[int] = set()
    for part in corpus.parts:
        first = len(documents)
        documents += part.read(problems)
        if part.name not in learned:
            apart.update(range(first, len(documents)))
    problems.raise_if_any(_FOLD_CURE)
    return documents, frozenset(apart)


def _read_fold(
    corpus: Corpus,
    fold: FoldChoice,
    training: TrainingConfig,
    problems: Problems,
    remarks: list[str],
    with_test: bool,
) -> tuple[dict[str, list[Document]], bool]:
    """Read the parts of a fold; if it has no dev part, draw one from train by the seed, and return True for that."""
    documents, apart = _read_all(corpus, problems)
    folds = fold.lists or partition.load_lists(fold.path, documents)
    if fold.number > len(folds):
        raise RelatumError(f"--fold {fold}: {fold.path} has {len(folds)} folds")
    chosen = folds[fold.number - 1]
    partition.remark_on_lists([chosen], documents, problems, str(fold), frozenset() if with_test else apart)
    parts = {
        name: partition.pick(documents, numbers, problems, f"{fold}, {name}")
        for name, numbers in (("train", chosen.train), ("dev", chosen.dev), ("test", chosen.test))
    }
    if not chosen.dev:
        _hold_out(parts, fold.path, training, False, remarks)
    return parts, not chosen.dev


def _read_parts(
    corpus: Corpus, config: Config, problems: Problems, remarks: list[str], with_test: bool
) -> tuple[dict[str, list[Document]], bool]:
    """Read the parts of a corpus; if it has no dev part, draw one from train by the seed, and return True for that."""
    found = {part.name: part for part in corpus.parts}
    alone = len(found) == 1
    names = {"train": next(iter(found)) if alone else "train", "dev": "dev", "test": "test"}
    if "dev" not in found and "valid" in found and not alone:
        names["dev"] = "valid"
    if names["train"] not in found:
        raise RelatumError(f"{corpus.path}: found the parts {', '.join(found)}; expected train, and dev and test")
    unused = sorted(found.keys() - set(names.values()))
    if unused:
        remarks.append(f"parts that are not used: {', '.join(unused)} (expected train, dev or valid, test)")
    read: dict[str, list[Document]] = {}
    for part, name in names.items():
        if part == "test" and not with_test:
            continue
        before = problems.n_records
        read[part] = list(found[name].read(problems)) if name in found and (part == "train" or not alone) else []
        if part != "train":
            remarks += _unscored(part, problems.n_records - before)
    if config.data.on_error == "fail":
        problems.raise_if_any(_CURE)  # before anything is said about what is left
    if not read["train"]:
        problems.raise_if_any(_none_left("train"))
        reasons = "".join(f"; {line}" for line in problems.remark_lines())
        raise RelatumError(f"{corpus.path}: there is no annotated document to train on{reasons}; annotate some")
    by_seed = names["dev"] not in found or alone
    if by_seed:
        _hold_out(read, corpus.path, config.training, alone, remarks)
    return read, by_seed


def _none_left(part: str) -> Cure:
    """Return the closing line of an error if all records of a part were left out."""
    return Cure(f"Nothing was trained: no record of {part} is left.", skip=None)


def _hold_out(
    parts: dict[str, list[Document]], path: Path, training: TrainingConfig, alone: bool, remarks: list[str]
) -> None:
    """Take a dev part from train, unless dev is trained on, and a test part if train is the only part and large."""
    documents, seed = parts["train"], training.seed
    dev = DEV_SHARE if training.dev == "choose" else 0.0
    test = TEST_SHARE if alone and len(documents) >= LEAST_FOR_TEST else 0.0
    fold = partition.divide([document.text for document in documents], dev, test, seed)
    if dev and not fold.dev:
        raise RelatumError(
            f"{path}: there is no dev part, and too few documents to hold some out ({len(documents):,}); add a file "
            "named dev"
        )
    taken = {"train": fold.train, "dev": fold.dev} | ({"test": fold.test} if fold.test else {})
    for name, numbers in taken.items():
        parts[name] = [documents[number] for number in numbers]
    if not dev:
        if fold.test:
            remarks.append(f"{len(fold.test):,} of {len(documents):,} documents are held out for test (seed {seed})")
        return
    also = f", and {len(fold.test):,} for test" if fold.test else ""
    remarks.append(
        f"there is no dev part: {len(fold.dev):,} of {len(documents):,} training documents are held out for it{also} "
        f"(seed {seed})"
    )


def _join(parts: dict[str, list[Example]]) -> str:
    """Move dev to the end of train; return a remark on that."""
    n = count_sentences(parts["dev"])
    parts["train"], parts["dev"] = [*parts["train"], *parts["dev"]], []
    what = f"the {n:,} sentences of dev are trained on, too" if n else "no dev part is held out"
    return f'{what} (training.dev = "train"): the last weights are kept, and scores are not calibrated'


def _to_score(config: Config) -> Config:
    """Return the settings for a part that is scored, in which records that a model cannot hold are not skipped.

    Skipping such records as bad would leave them out of gold, too. Their annotations beyond a model's reach count as
    missed. If bad records are errors, the settings stay as they are.
    """
    data = config.data
    if data.on_error == "fail":
        return config
    least = "keep" if config.tagging.kind == "spans" else "keep-longest"
    overlaps = least if data.overlaps in (None, "fail", "keep") else data.overlaps
    crossing = "drop" if data.crossing == "fail" else data.crossing
    return config.model_copy(update={"data": data.model_copy(update={"overlaps": overlaps, "crossing": crossing})})


def _unscored(part: str, n_records: int) -> list[str]:
    """Return a remark on the records of a part that cannot be scored, if there are any."""
    return [f"{part}: bad records that are in no score, as they are skipped: {n_records:,}"] if n_records else []


def _schema(given: Schema | None, parts: Mapping[str, Iterable[Example]], remarks: list[str]) -> Schema:
    """Return the given schema, or else the schema of train, with all other types that occur."""
    learned = infer_schema(example.gold for example in parts["train"])
    base = given or learned
    whole = infer_schema(example.gold for examples in parts.values() for example in examples)
    entities = tuple(label for label in whole.entity_types if label not in base.entity_types)
    relations = tuple(kind for kind in whole.relation_types if kind.name not in base.relation_names)
    source = "the file of labels" if given else "train"
    for what, names in (("entity", entities), ("relation", tuple(kind.name for kind in relations))):
        if names:
            remarks.append(f"{what} types that are not in {source}, taken in all the same: {', '.join(names)}")
    if not base.entity_types:
        raise RelatumError("there are no entities in train; annotate some, since there is nothing else to learn")
    if not base.relation_types:
        remarks.append("there are no relations in train: the model will find none")
    # A type given without its ends may connect anything, and what is in the data must not narrow it.
    widened = tuple(_widen(kind, whole, learned) for kind in base.relation_types)
    return Schema((*base.entity_types, *entities), (*widened, *relations))


def _join_labels(known: tuple[str, ...], seen: tuple[str, ...]) -> tuple[str, ...]:
    """Add labels to a list of labels; an empty list allows every label, and stays empty."""
    if not known:
        return ()
    return (*known, *(label for label in seen if label not in known))


def _widen(kind: RelationType, whole: Schema, learned: Schema) -> RelationType:
    """Return the relation type with all ends that it has anywhere in the data, if its ends are listed at all.

    The pairs of ends come from the given schema and from train alone: constraints may not be learned from dev or test.
    """
    if kind.name not in whole.relation_names:
        return kind
    seen = whole.relation_type(kind.name)
    heads = _join_labels(kind.head_labels, seen.head_labels)
    tails = _join_labels(kind.tail_labels, seen.tail_labels)
    widened = replace(kind, head_labels=heads, tail_labels=tails)
    pairs = _pairs(kind)
    if pairs and kind.name in learned.relation_names:
        pairs += _pairs(learned.relation_type(kind.name))
    return widened.only(pairs) if pairs else widened


def _pairs(kind: RelationType) -> tuple[tuple[str, str], ...]:
    """Return all pairs of entity types that a relation type connects; empty if one of its ends may be anything."""
    return kind.pairs or tuple(product(kind.head_labels, kind.tail_labels))


def _without_context(examples: Iterable[Example]) -> list[str]:
    """Return a remark on a context that is empty, if no text has several sentences."""
    if any(any(example.sentence.context) for example in examples):
        return []
    return ["encoder.context: no text of train has several sentences, so there is nothing to read around them"]


def _unconstrained(schema: Schema) -> list[str]:
    """Return a remark on relation types that nothing constrains, if there are any."""
    names = [kind.name for kind in schema.relation_types if not (kind.pairs or kind.head_labels or kind.tail_labels)]
    if not names:
        return []
    return [
        f"decoding.constraints: the file of labels lets these relation types connect anything: {', '.join(names)}; "
        "give them head_labels and tail_labels there, or remove the file to have them learned from train"
    ]


def _try_tags(parts: Mapping[str, Sequence[Example]], schema: Schema, config: Config, problems: Problems) -> list[str]:
    """Count the annotations that no model with these tags can learn or find; return remarks on the best scores."""
    tagging = Tagging.of(schema, config.tagging)
    for name, examples in parts.items():
        for example in examples:
            where = f"{name}, {example.id}"
            tagged = tagging.encode(example.gold, len(example.sentence))
            for entity in tagged.lost_entities:
                problems.remark(f"entities in {name} that the tags cannot say: {entity.reason}", where)
            if tagged.gained_relations:
                times = len(tagged.gained_relations)
                problems.remark(
                    f"relations that the tags add in {name}, between entities that share words", where, times
                )
            for relation in tagged.lost_relations:
                problems.remark(f"relations in {name} that the tags cannot say: {relation.reason}", where)
    limits = Limits.of(config)
    ceilings = {name: measure_ceiling(parts[name], tagging, limits=limits) for name in ("dev", "test")}
    return [
        f"{name}: gold that the model cannot find counts as missed; the best it allows is {describe_ceiling(one)} "
        f"({', '.join(map(str, one.losses))})"
        for name, one in ceilings.items()
        if is_limited(one)
    ]
