"""The contents of a corpus: counts, shapes, and problems to expect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from relatum.config import Config, TaggingConfig, change_section
from relatum.data.conversion import Watch
from relatum.data.corpus import Corpus, open_corpus
from relatum.data.documents import iter_examples
from relatum.data.duplicates import SentenceIndex, Shared
from relatum.data.fitting import align, crossing_relations, overlapping, split, trim
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, shorten
from relatum.data.splitting import Splitter, make_splitter
from relatum.errors import Problem
from relatum.monitor import Monitor, as_monitor
from relatum.schema import SchemaBuilder
from relatum.tagging.tagging import Tagging
from relatum.types import Annotation, Document, Example

_TRIED = 1000
"""The most words that the entities of a sentence may have for its tags to be tried; the cost is quadratic in them."""
_KNOWN = 500
"""The number of labels beyond which tags are made afresh, without the labels seen before."""


TaggingKind = Literal["words", "spans"]
TAGGINGS: tuple[TaggingKind, ...] = ("words", "spans")


@dataclass(slots=True)
class TaggingLosses:
    """The annotations that the tags of a model cannot express, counted by the reason."""

    entities: Counter[str] = field(default_factory=Counter)
    relations: Counter[str] = field(default_factory=Counter)
    gained_relations: int = 0
    """The number of relations that tags add between entities that share words.

    Entities of exactly the same words are told apart by the types that relations connect in the sentences so far.
    """

    def to_dict(self) -> dict[str, Any]:
        return {
            "entities": dict(self.entities.most_common()),
            "relations": dict(self.relations.most_common()),
            "gained_relations": self.gained_relations,
        }


def _no_losses() -> dict[TaggingKind, TaggingLosses]:
    return {kind: TaggingLosses() for kind in TAGGINGS}


@dataclass(slots=True)
class PartCounts:
    """The contents of one part in numbers; all but `distinct` are counted while its documents stream past."""

    format: str
    documents: int = 0
    sentences: int = 0
    distinct: int = 0
    words: int = 0
    entities: Counter[str] = field(default_factory=Counter)
    relations: Counter[str] = field(default_factory=Counter)
    signatures: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    longest: tuple[int, str] = (0, "")
    overlapping: int = 0
    discontinuous: int = 0
    crossing: int = 0
    losses: dict[TaggingKind, TaggingLosses] = field(default_factory=_no_losses)
    """The annotations that a model of each tagging would lose."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "documents": self.documents,
            "sentences": self.sentences,
            "distinct_sentences": self.distinct,
            "words": self.words,
            "longest_sentence": {"words": self.longest[0], "id": self.longest[1]},
            "entities": {"total": self.entities.total(), "types": dict(self.entities.most_common())},
            "relations": {"total": self.relations.total(), "types": dict(self.relations.most_common())},
            "signatures": [
                {"relation": label, "head": head, "tail": tail, "count": count}
                for (label, head, tail), count in self.signatures.most_common()
            ],
            "overlapping_entities": self.overlapping,
            "discontinuous_entities": self.discontinuous,
            "crossing_relations": self.crossing,
            "untaggable": {kind: losses.to_dict() for kind, losses in self.losses.items()},
        }


@dataclass(frozen=True, slots=True)
class Inspection:
    """The contents of a corpus."""

    parts: dict[str, PartCounts]
    """The counts of every part, by name."""
    distinct: int
    """The number of different sentences in all parts together."""
    shared: dict[tuple[str, str], Shared]
    """The sentences that two parts have in common, by the names of the parts."""
    skipped: tuple[tuple[str, str], ...]
    """The files of the folder that were not read, each with the reason."""
    problems: Problems
    """The bad records, which are not counted, and remarks of the readers."""

    def to_dict(self) -> dict[str, Any]:
        parts = self.parts.values()
        return {
            "parts": {name: counts.to_dict() for name, counts in self.parts.items()},
            "total": {
                "documents": sum(counts.documents for counts in parts),
                "sentences": sum(counts.sentences for counts in parts),
                "distinct_sentences": self.distinct,
                "words": sum(counts.words for counts in parts),
                "entities": sum(counts.entities.total() for counts in parts),
                "relations": sum(counts.relations.total() for counts in parts),
            },
            "shared_sentences": [_shared_record(names, shared) for names, shared in self.shared.items()],
            "bad_records": self.problems.n_records,
            "problems": [str(problem) for problem in self.problems.kept],
            "remarks": dict(self.problems.remarks),
        }


def _shared_record(names: tuple[str, str], shared: Shared) -> dict[str, Any]:
    """Return the sentences that two parts have in common as JSON can hold them."""
    first, second = names
    sentences = [
        {"text": sentence.text, first: sentence.first, second: sentence.second} for sentence in shared.sentences
    ]
    return {"parts": list(names), "distinct": shared.count, "sentences": sentences}


def inspect(
    data: str | Path,
    *,
    format: str | None = None,
    config: Config | None = None,
    monitor: Monitor | Callable[[str], object] | None = None,
) -> Inspection:
    """Count the documents, sentences, entities and relations of a file or folder, and find what will hurt.

    The format is guessed if none is named. Bad records are left out of all counts and reported in `problems`. Entities
    and relations that the tags of a model cannot express are counted for both taggings; the section tagging of `config`
    has the details of the paper's, and the section text says how text is split into sentences and words.

    `monitor` hears messages: a function such as `print`, or a `relatum.monitor.Monitor`, whose `watch` can also count
    the documents.
    """
    settings = config or Config()
    listener = as_monitor(monitor)
    corpus = open_corpus(Path(data), format)
    for line in corpus.skipped_lines():
        listener.say(line)
    splitter = make_splitter(settings.text.words, settings.text.sentences)
    inspection = inspect_corpus(corpus, splitter, settings.tagging, listener.watch)
    for line in inspection.problems.lines():
        listener.say(line)
    return inspection


def inspect_corpus(
    corpus: Corpus, splitter: Splitter, tagging: TaggingConfig, watch: Watch = lambda documents, _: documents
) -> Inspection:
    """Count what is in a corpus, in one pass and a fixed amount of memory.

    Entities and relations that the tags of a model cannot express are counted too, for both taggings.
    """
    problems = Problems()
    index = SentenceIndex()
    tagger = _Tagger(tagging, problems)
    parts: dict[str, PartCounts] = {}
    try:
        for part in corpus.parts:
            counts = parts[part.name] = PartCounts(part.format.name)
            for document in watch(part.read(problems), part.name):
                try:
                    _count(document, part.name, counts, index, splitter, tagger)
                except BadRecord as bad:
                    field = f"document {shorten(document.id)}"
                    problems.add(Problem(str(part.path), bad.found, bad.expected, field=field))
            counts.distinct = index.distinct(part.name)
        shared = {(a, b): index.shared(a, b) for a, b in combinations(parts, 2)}
        return Inspection(parts, index.distinct(), shared, corpus.skipped, problems)
    finally:
        index.close()


class _Tagger:
    """A counter of annotations that tags cannot express; the tags are made anew only when a new label is seen."""

    def __init__(self, settings: TaggingConfig, problems: Problems) -> None:
        self._settings = {kind: change_section(settings, kind=kind) for kind in TAGGINGS}
        self._problems = problems
        self._schema = SchemaBuilder()
        self._labels: set[tuple[str, ...]] = set()
        self._taggings = self._make_taggings()

    def _make_taggings(self) -> dict[TaggingKind, Tagging]:
        schema = self._schema.build()
        return {kind: Tagging.of(schema, settings) for kind, settings in self._settings.items()}

    def count_lost(self, example: Example, counts: PartCounts) -> None:
        """Count the reason for each entity and relation of a sentence that its tags cannot express."""
        gold = example.gold
        n_words = len(example.sentence)
        if sum(entity.span.width for entity in gold.entities) > _TRIED:
            self._problems.remark("sentences with too much in them to try their tags", example.id)
            return
        labels: set[tuple[str, ...]] = {(entity.label,) for entity in gold.entities}
        labels.update((r.label, r.head.label, r.tail.label) for r in gold.relations)
        if not labels <= self._labels:
            if len(self._labels) > _KNOWN:
                self._schema = SchemaBuilder()
                self._labels = set()
            self._labels |= labels
            self._schema.add(gold)
            self._taggings = self._make_taggings()
        if len(gold.entities) > 1 or gold.relations or any(entity.fragments for entity in gold.entities):
            for kind, tagging in self._taggings.items():
                losses = counts.losses[kind]
                lost_entities = tagging.encode(Annotation(gold.entities), n_words).lost_entities
                losses.entities.update(lost.reason for lost in lost_entities)
                gone = {lost.entity for lost in lost_entities}
                entities = tuple(entity for entity in gold.entities if entity not in gone)
                tagged = tagging.encode(Annotation(entities, gold.relations), n_words)
                losses.relations.update(lost.reason for lost in tagged.lost_relations)
                losses.gained_relations += len(tagged.gained_relations)


def _ignore(_what: str, _times: int) -> None:
    """Ignore a remark: the changes that conversions make are of no concern here."""


def _count(
    document: Document, part: str, counts: PartCounts, index: SentenceIndex, splitter: Splitter, tagger: _Tagger
) -> None:
    document = align(trim(split(document, splitter), _ignore), _ignore)
    annotation = document.annotation
    crossing = set(crossing_relations(document))
    counts.documents += 1
    counts.overlapping += len(overlapping(annotation.entities))
    counts.discontinuous += sum(bool(entity.fragments) for entity in annotation.entities)
    counts.crossing += len(crossing)
    counts.entities.update(entity.label for entity in annotation.entities)
    for relation in annotation.relations:
        counts.relations[relation.label] += 1
        counts.signatures[relation.label, relation.head.label, relation.tail.label] += 1
    if crossing:
        within = tuple(relation for relation in annotation.relations if relation not in crossing)
        document = replace(document, annotation=Annotation(annotation.entities, within))
    for example in iter_examples(document):
        n_words = len(example.sentence)
        counts.sentences += 1
        counts.words += n_words
        if n_words > counts.longest[0]:
            counts.longest = n_words, example.id
        index.add(part, example.id, " ".join(example.sentence.words))
        tagger.count_lost(example, counts)
