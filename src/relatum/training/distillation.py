"""Soft distillation: a model learns the probabilities of its teachers, which are trained, mostly larger models.

The teachers read all sentences before the first update, and are gone when it begins.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from relatum.config import Config
from relatum.data.batching import make_batches
from relatum.errors import ConfigError, RelatumError
from relatum.extractor.ensemble import Ensemble, check_alike, check_distinct, load_ensemble
from relatum.extractor.finding import find_model, model_version
from relatum.models.labels import Targets, label_example, make_tag_sets
from relatum.models.model import Model
from relatum.models.record import ModelRecord
from relatum.runtime.ensemble import EnsembleRuntime
from relatum.schema import Schema
from relatum.training.batches import make_input
from relatum.training.features import ReadingProgress
from relatum.training.runs.budgets import free_memory
from relatum.types import Example

_HALF = 2
"""Bytes of a number in half precision."""


def check_teachers(config: Config, schema: Schema) -> None:
    """Refuse teachers whose tags are not those of the model that is to learn from them, or that make no ensemble."""
    teachers = [_read_teacher(name, config) for name in config.training.teachers]
    for teacher in teachers:
        _check_teacher(*teacher, config, schema)
    if teachers:
        check_distinct(config.training.teachers)
        check_alike(teachers)


def _read_teacher(name: str, config: Config) -> tuple[str, Config, Schema]:
    path = find_model(name)
    record = ModelRecord.read(path / "config.json", config.text.functions())
    return name, record.config, Schema.load(path / "schema.json")


def _check_teacher(name: str, of_teacher: Config, labels: Schema, config: Config, schema: Schema) -> None:
    found = _aspects(of_teacher, labels)
    for what, value in _aspects(config, schema).items():
        if found[what] != value:
            is_setting = "." in what
            cure = f"--set {what}={found[what]}" if is_setting else "train a teacher on the labels of this run"
            raise ConfigError(
                f"training.teachers: {what} of {name}: {found[what]}; {what} of this run: {value}. A model and its "
                f"teachers must have the same: {cure}, or name another teacher"
            )


def teacher_versions(config: Config) -> list[str]:
    """Return the name of each teacher with the beginning of a hash of its files."""
    return [model_version(name, find_model(name)) for name in config.training.teachers]


def _aspects(config: Config, schema: Schema) -> dict[str, str]:
    """Return all that the meaning of a model's tags depends on, by name, but not the order of types."""
    kinds = schema.relation_types
    aspects = {
        "entity types": ", ".join(sorted(schema.entity_types)) or "none",
        "relation types": ", ".join(sorted(schema.relation_names)) or "none",
        "symmetric relation types": ", ".join(sorted(kind.name for kind in kinds if kind.symmetric)) or "none",
        "table of relations": "none" if config.table.kind == "none" else "there is one",
        "text.unit": config.text.unit,
    }
    settings = config.tagging.to_dict()
    del settings["conflicts"]  # a choice between annotations, not between the meanings of tags
    return aspects | {f"tagging.{key}": str(value).lower() for key, value in settings.items()}


def read_targets(
    student: Model,
    examples: Sequence[Example],
    n_labelled: int,
    asked_to_stop: Callable[[], bool],
    say: Callable[[str], None],
) -> list[Targets] | None:
    """Let the teachers read all examples, the labelled ones first; return the targets of each, None if asked to stop.

    A labelled sentence that is too long for the encoder of a teacher is learned from gold alone.
    """
    settings, device = student.config.training, student.device
    check_teachers(student.config, student.schema)  # again: they may have changed since a run was started
    place = _choose_place(student, examples)
    with _same_random_numbers(device):
        functions = student.config.text.functions()
        teachers = load_ensemble(settings.teachers, device, "fp32", None, None, **functions)
    _say_context(teachers, student, say)
    is_short = [_is_short_enough(teachers, example) for example in examples]
    _refuse_long(examples[n_labelled:], is_short[n_labelled:])
    short = [index for index, fits in enumerate(is_short) if fits]
    long = [index for index, fits in enumerate(is_short) if not fits]
    n_unlabelled = len(examples) - n_labelled
    also = f", {n_unlabelled:,} of them without annotations" if n_unlabelled else ""
    say(f"reading {len(short):,} sentences{also}, with the teachers {teachers.name} ({teachers.version})")
    if long:
        say(f"{len(long):,} sentences are too long for the encoder of a teacher and are learned from gold alone")

    learner = _Learner(student, teachers, place)
    targets: dict[int, Targets] = {index: learner.copy_gold(examples[index]) for index in long}
    runtime, progress = EnsembleRuntime(teachers.members), ReadingProgress(len(short), say)
    lengths = [len(examples[index].sentence) for index in short]
    for batch in make_batches(lengths, teachers.batch_size, teachers.max_cells, bucketing=True, rng=None):
        if asked_to_stop():
            return None
        indices = [short[number] for number in batch]
        outputs = runtime.read(make_input([examples[index].sentence for index in indices], teachers.model))
        for row, index in enumerate(indices):
            example, n = examples[index], len(examples[index].sentence)
            of_cells = None if outputs.relation_logits is None else outputs.relation_logits[row, :n, :n]
            share = settings.teacher_weight if index < n_labelled else 1.0
            targets[index] = learner.mix(example, outputs.entity_logits[row, :n], of_cells, share)
        progress.add(len(batch))
    return [targets[index] for index in range(len(examples))]


class _Learner:
    """Turns the scores of teachers, in the order of their tags, into the targets of a student, in the order of its."""

    def __init__(self, student: Model, teachers: Ensemble, place: torch.device) -> None:
        self._student, self._place = student, place
        self._sets = make_tag_sets(student)
        self._word_tags = _order(student.tagging.words.names, teachers.tagging.words.names, student.device)
        self._cell_tags = _order(student.tagging.cells.names, teachers.tagging.cells.names, student.device)

    def mix(self, example: Example, of_words: Tensor, of_cells: Tensor | None, share: float) -> Targets:
        """Return the targets of an example by the scores of the teachers, and their share."""
        cells = None if of_cells is None else of_cells.index_select(-1, self._cell_tags)
        return self._make(example, of_words.index_select(-1, self._word_tags), cells, share)

    def copy_gold(self, example: Example) -> Targets:
        """Return targets that are the annotations of an example."""
        n, device = len(example.sentence), self._student.device
        words = torch.zeros(n, len(self._word_tags), device=device)
        has_table = self._student.config.table.kind != "none"
        cells = torch.zeros(n, n, len(self._cell_tags), device=device) if has_table else None
        return self._make(example, words, cells, 0.0)

    def _make(self, example: Example, words: Tensor, cells: Tensor | None, share: float) -> Targets:
        labels = label_example(example, self._student, self._sets)
        tag_sets = None if self._sets is None else self._sets.to_table(words.device)
        mixed = Targets.mix(labels, words, cells, share, tag_sets)
        return Targets(mixed.entity.to(self._place), None if mixed.relation is None else mixed.relation.to(self._place))


def _order(ours: Sequence[str], theirs: Sequence[str], device: torch.device) -> Tensor:
    return torch.tensor([theirs.index(name) for name in ours], device=device)


def _choose_place(student: Model, examples: Sequence[Example]) -> torch.device:
    """Return where the targets are kept: on a GPU that has much room, or else in memory; refuse if neither has room."""
    n_words, n_cells = len(student.tagging.words.names), len(student.tagging.cells.names)
    if student.config.table.kind == "none":
        n_cells = 0
    lengths = [len(example.sentence) for example in examples]
    size = _HALF * sum(n * (n_words + n * n_cells) for n in lengths)
    if student.device.type == "cuda" and size < torch.cuda.mem_get_info(student.device)[0] // 4:
        return student.device
    free = free_memory()
    if free is not None and size > free // 2:
        raise RelatumError(
            f"out of memory: the teachers' probabilities for {len(examples):,} sentences would take "
            f"{size / 2**30:.1f} GiB ({n_cells} tags for each pair of words), more than half of the {free / 2**30:.1f} "
            "GiB that are free; lower training.unlabelled_sentences, or training.max_cells, so that long sentences are "
            "cut into windows"
        )
    return torch.device("cpu")


@contextmanager
def _same_random_numbers(device: torch.device) -> Iterator[None]:
    """Within the block, draw random numbers that change none of those drawn after it."""
    state = random.getstate()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield
    random.setstate(state)


def _say_context(teachers: Ensemble, student: Model, say: Callable[[str], None]) -> None:
    most, ours = teachers.config.encoder.context, student.config.encoder.context
    if most > ours:
        say(
            f"a teacher was trained to read up to {most} words around a sentence, and gets {ours} here; with "
            f"encoder.context={most} it teaches better"
        )


def _is_short_enough(teachers: Ensemble, example: Example) -> bool:
    """True if the encoders of all teachers can read the whole sentence."""
    words = example.sentence.words
    encoders = [member.encoder for member in teachers.members if member.encoder is not None]
    return all(one.max_pieces is None or sum(one.count_pieces(words)) <= one.max_pieces for one in encoders)


def _refuse_long(unlabelled: Sequence[Example], is_short: Sequence[bool]) -> None:
    for example, fits in zip(unlabelled, is_short, strict=True):
        if not fits:
            beginning = " ".join(example.sentence.words)[:80]
            raise RelatumError(
                f"training.unlabelled: a sentence is too long for the encoder of a teacher: {beginning!r} …; remove it "
                "from the file"
            )
