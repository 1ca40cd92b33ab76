"""Writing PubTator's text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

from relatum.data.formats.concepts import Concepts, sentence_finder
from relatum.data.formats.pubtator.reading import NO_CONCEPT, concept_keys, one_line
from relatum.data.records import BadRecord, shorten, show
from relatum.errors import FormatError
from relatum.types import Document, Entity, Relation

_Cells = tuple[str, ...]


def check(document: Document) -> None:
    """Raise `BadRecord` for what PubTator cannot hold."""
    _article(document)


def write(path: Path, documents: Iterable[Document]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for document in documents:
            try:
                out.write(_article(document) + "\n")
            except BadRecord as bad:
                found = f"document {shorten(document.id)}: found {bad.found}"
                raise FormatError(f"{found}; expected {bad.expected}") from None


def _article(document: Document) -> str:
    name, text = document.id, document.text
    if not name.strip() or re.search(r"[|\t\n\r]|\A[\ufeff{\[]", name):
        raise BadRecord(f"the id {show(name)}", "an id without | and without tabs and line breaks")
    title, _, abstract = text.partition("\n")
    if "\r" in text or "\n" in abstract or text.endswith("\n"):
        raise BadRecord("a text of several paragraphs", "a title, a line break and an abstract")
    concepts = _concepts(document)
    lines = [f"{name}|t|{title}", f"{name}|a|{abstract}"]
    for entity in document.annotation.entities:
        start, end = entity.span
        if entity.fragments:
            raise BadRecord(f"the discontinuous entity {show(entity.label)}", "entities of one piece")
        for concept in concepts.get(entity, ["-"]):
            cells = str(start), str(end), one_line(entity.span.of(text)), _cell(entity.label), _cell(concept)
            lines.append("\t".join((name, *cells)))
    lines += ["\t".join((name, *map(_cell, cells))) for cells in _RelationLines(document, concepts).all()]
    return "".join(f"{line}\n" for line in lines)


def _cell(text: str) -> str:
    if not text or re.search(r"[\t\n\r]", text):
        raise BadRecord(show(text), "labels and concepts that are not empty, without tabs and line breaks")
    return text


def _concepts(document: Document) -> dict[Entity, list[str]]:
    """Return the concepts of mentions: those that they have, and new ones for others that take part in relations."""
    concepts: defaultdict[Entity, list[str]] = defaultdict(list)
    for attribute in document.attributes:
        if attribute.name == "concept" and isinstance(attribute.target, Entity):
            if attribute.value is None or attribute.value in NO_CONCEPT:
                raise BadRecord(f"the concept {show(attribute.value)}", "the id of a concept")
            concepts[attribute.target].append(attribute.value)
    for relation in document.annotation.relations:
        for entity in (relation.head, relation.tail):
            if entity not in concepts:
                concepts[entity] = [f"mention:{len(concepts) + 1}"]
    return concepts


class _RelationLines:
    """The relations between concepts that stand for just the relations between mentions of a document."""

    def __init__(self, document: Document, concepts: dict[Entity, list[str]]) -> None:
        self._text = document.text
        self._names = concepts
        self._concepts = Concepts(lambda: sentence_finder(document.text))
        for entity, names in concepts.items():
            for key in (key for name in names for key in concept_keys(name)):
                self._concepts.add(key, entity)
        self._attributes: defaultdict[tuple[Entity | Relation, str], list[str | None]] = defaultdict(list)
        for attribute in document.attributes:
            self._attributes[attribute.target, attribute.name].append(attribute.value)
        self._wanted = {
            (relation, novelty): None
            for relation in document.annotation.relations
            for novelty in self._attributes.get((relation, "novelty"), [None])
        }

    def all(self) -> Iterator[_Cells]:
        """Yield the columns of each line."""
        done: set[tuple[Relation, str | None]] = set()
        written: set[_Cells] = set()
        for relation, novelty in self._wanted:
            pairs = self._fitting(relation, novelty, exact=True)
            if not pairs and (relation, novelty) not in done:
                pairs = self._fitting(relation, novelty, exact=False)[:1]
                if not pairs:
                    raise self._refusal(relation)
            for head, tail in pairs:
                cells = (relation.label, head, tail, *([] if novelty is None else [novelty]))
                if cells not in written:
                    yield cells
                written.add(cells)
                done.update((one, novelty) for one in self._concepts.relations(head, tail, relation.label))

    def _fitting(self, relation: Relation, novelty: str | None, *, exact: bool) -> list[tuple[str, str]]:
        """Return the pairs of concepts whose relation stands for this one, and for no other that is not wanted."""
        heads = self._candidates(relation, "head_concept", relation.head, exact)
        tails = self._candidates(relation, "tail_concept", relation.tail, exact)
        fitting = []
        for head, tail in product(heads, tails):
            implied = [(one, novelty) for one in self._concepts.relations(head, tail, relation.label)]
            if (relation, novelty) in implied and self._wanted.keys() >= set(implied):
                fitting.append((head, tail))
        return fitting

    def _candidates(self, relation: Relation, role: str, end: Entity, exact: bool) -> Sequence[str]:
        """Return concepts of an end of the relation: the exact one that the relation names, or all of the mention's."""
        names = self._names[end]
        keys = [key for name in names for key in concept_keys(name)]
        if not exact:
            return keys
        named = self._attributes.get((relation, role), [])
        return [key for key in keys if key in named] or names

    def _refusal(self, relation: Relation) -> BadRecord:
        head, tail = (shorten(end.span.of(self._text)) for end in (relation.head, relation.tail))
        return BadRecord(
            f"the relation {show(relation.label)} from {head} to {tail}, which is not the one that PubTator would have "
            "between their concepts",
            "relations between concepts, or mentions without the attribute concept",
        )
