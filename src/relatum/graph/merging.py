"""Merging the entities and relations of documents into a knowledge graph, one document at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from operator import itemgetter
from typing import Generic, Protocol, TypeVar

from relatum.data.documents import find_evidence, sentence_spans
from relatum.graph.graph import Edge, Evidence, KnowledgeGraph, Mention, Node
from relatum.graph.names import full_names, node_id, normalise
from relatum.types import Annotation, Document, Entity, Relation, Span

T = TypeVar("T", Mention, Evidence)


class Extracted(Protocol):
    """A document with the spans of its sentences, such as an `Extraction`."""

    @property
    def document(self) -> Document: ...
    @property
    def sentences(self) -> tuple[Span, ...]: ...


class GraphBuilder:
    """A knowledge graph that grows document by document; memory grows with the graph, not with the documents."""

    def __init__(self, keep: int | None = None, threshold: float | None = None) -> None:
        if threshold is not None and not 0 <= threshold <= 1:
            raise ValueError(f"threshold is {threshold!r}; expected a score from 0 to 1, such as 0.9")
        if keep is not None and keep < 1:
            raise ValueError(f"keep is {keep}; expected at least 1, or None to keep all mentions and evidence")
        self._keep = keep
        self._threshold = threshold
        self._nodes: dict[str, _Node] = {}
        self._edges: dict[tuple[str, str, str], _Best[Evidence]] = {}
        self._n_documents = 0

    def add(self, extraction: Extracted | Document) -> None:
        """Merge the entities and relations of one document."""
        self._n_documents += 1
        if not hasattr(extraction, "document") and not isinstance(extraction, Document):
            raise TypeError(f"expected an Extraction or a Document, found {type(extraction).__name__}")
        if isinstance(extraction, Document):
            document, sentences = extraction, sentence_spans(extraction)
        else:
            document, sentences = extraction.document, extraction.sentences
        name = document.id or str(self._n_documents)
        annotation = document.annotation if self._threshold is None else _above(document.annotation, self._threshold)
        mentions = _mentions(document.text, annotation, name)
        nodes = {}
        for entity, id in _assign(mentions).items():
            nodes[entity] = id
            self._node(id, entity.label).add(mentions[entity], id)
        for relation in annotation.relations:
            head, tail = mentions[relation.head], mentions[relation.tail]
            place = find_evidence(sentences, relation)
            start, end = place or (None, None)
            text = place.of(document.text) if place else None
            evidence = Evidence(name, head, tail, relation.score, start, end, text)
            self._edge(nodes[relation.head], nodes[relation.tail], relation.label).add(evidence)

    def add_graph(self, graph: KnowledgeGraph) -> None:
        """Merge a graph; its nodes keep their ids."""
        for node in graph.nodes:
            draft = self._node(node.id, node.label)
            for mention in node.mentions:
                draft.add(mention, node.id)
            draft.forms[node.name] += node.left_out
            draft.mentions.count += node.left_out
        for edge in graph.edges:
            best = self._edge(edge.head, edge.tail, edge.label)
            for evidence in edge.evidence:
                best.add(evidence)
            best.count += edge.left_out

    def build(self) -> KnowledgeGraph:
        """Return the graph of all that was added."""
        nodes = [
            Node(id, draft.name(), draft.label, draft.mentions.items(), draft.mentions.left_out)
            for id, draft in self._nodes.items()
        ]
        edges = [Edge(*key, best.items(), best.left_out) for key, best in self._edges.items()]
        return KnowledgeGraph(tuple(nodes), tuple(edges))

    def _node(self, id: str, label: str) -> _Node:
        draft = self._nodes.get(id)
        if draft is None:
            draft = self._nodes[id] = _Node(label, _Best(self._keep))
        elif label != draft.label:  # types that differ in case only
            draft.label = min(label, draft.label)
        return draft

    def _edge(self, head: str, tail: str, label: str) -> _Best[Evidence]:
        best = self._edges.get((head, tail, label))
        if best is None:
            best = self._edges[head, tail, label] = _Best(self._keep)
        return best


class _Best(Generic[T]):
    """The mentions or evidence with the best scores, in order of appearance, and the number of all."""

    __slots__ = ("_heap", "_keep", "count")

    def __init__(self, keep: int | None) -> None:
        self._keep = keep
        self._heap: list[tuple[float, int, T]] = []
        self.count = 0

    def add(self, item: T) -> None:
        # Of equal scores the earlier item stays. No two items have the same number, so items are never compared.
        entry = (1.0 if item.score is None else item.score, -self.count, item)
        self.count += 1
        if self._keep is None:
            self._heap.append(entry)
        elif len(self._heap) < self._keep:
            heappush(self._heap, entry)
        else:
            heappushpop(self._heap, entry)

    def items(self) -> tuple[T, ...]:
        return tuple(item for _, _, item in sorted(self._heap, key=itemgetter(1), reverse=True))

    @property
    def left_out(self) -> int:
        return self.count - len(self._heap)


@dataclass(slots=True)
class _Node:
    """A node that is being made: its mentions, and how often each form of its name was seen."""

    label: str
    mentions: _Best[Mention]
    forms: Counter[str] = field(default_factory=Counter)

    def add(self, mention: Mention, id: str) -> None:
        self.mentions.add(mention)
        # A short form that joined a longer name, such as a surname, does not name the node.
        if node_id(self.label, normalise(mention.text)) == id:
            self.forms[mention.text] += 1

    def name(self) -> str:
        """Return the most frequent form; of several, the shortest, then one not all in capitals, then the first."""
        return max(self.forms, key=lambda form: (self.forms[form], -len(form), not form.isupper()))


def _above(annotation: Annotation, threshold: float) -> Annotation:
    """Leave out what has a lower score, and relations without one of their entities."""

    def stays(item: Entity | Relation) -> bool:
        return item.score is None or item.score >= threshold

    entities = tuple(filter(stays, annotation.entities))
    present = set(entities)
    relations = [one for one in annotation.relations if stays(one) and {one.head, one.tail} <= present]
    return Annotation(entities, tuple(relations))


def _mentions(text: str, annotation: Annotation, name: str) -> dict[Entity, Mention]:
    mentions: dict[Entity, Mention] = {}
    for entity in _all_entities(annotation):
        if entity not in mentions:
            words = " ".join(piece.of(text) for piece in entity.pieces()).split()
            mentions[entity] = Mention(name, *entity.span, " ".join(words), entity.score)
    return mentions


def _all_entities(annotation: Annotation) -> Iterable[Entity]:
    yield from annotation.entities
    for relation in annotation.relations:
        yield relation.head
        yield relation.tail


def _assign(mentions: dict[Entity, Mention]) -> dict[Entity, str]:
    """Return the id of the node that each mention of a document belongs to."""
    names: dict[str, dict[str, str]] = {}
    for entity, mention in mentions.items():
        names.setdefault(entity.label.casefold(), {})[normalise(mention.text)] = ""
    full = {label: full_names(of_type) for label, of_type in names.items()}
    return {
        entity: node_id(entity.label, full[entity.label.casefold()][normalise(mention.text)])
        for entity, mention in mentions.items()
    }
