"""Parts that all hosts share: reading their texts, and the part of a graph that each text has."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from relatum.data.documents import map_spans
from relatum.extractor.extractor import Extractor
from relatum.extractor.result import Extraction
from relatum.graph import Edge, Evidence, KnowledgeGraph, Mention, Node
from relatum.types import Annotation, Document, Entity, Relation, Span

T = TypeVar("T", Mention, Evidence)

ModelName = str | Path | Extractor
"""The name or folder of a model, or an extractor that has loaded one."""


@dataclass(frozen=True)
class TextGraph:
    """The nodes and edges that one text has a part in, each with its places in this text."""

    nodes: list[tuple[Node, list[Mention]]] = field(default_factory=list)
    edges: list[tuple[Edge, list[Evidence]]] = field(default_factory=list)


def load(model: ModelName, device: str | None = None) -> Extractor:
    """Return the extractor that is given, or load a model."""
    return model if isinstance(model, Extractor) else Extractor.from_pretrained(model, device)


def name_of(model: ModelName) -> str:
    """Return a name by which `load` finds the same model again; a relative `Path` is made absolute."""
    if isinstance(model, Extractor):
        return model.name
    return str(model.absolute()) if isinstance(model, Path) else model


def read_texts(
    extractor: Extractor, texts: Sequence[str], threshold: float | None = None, batch_size: int | None = None
) -> list[Extraction]:
    """Read texts together; the id of each extraction is the number of its text, from 0."""
    numbered = ((text, str(number)) for number, text in enumerate(texts))
    answers = extractor.pipe(numbered, threshold=threshold, batch_size=batch_size, as_tuples=True)
    return [extraction.with_id(name) for extraction, name in answers]


def merge_texts(
    extractions: Sequence[Extraction], documents: Sequence[str] | None = None
) -> tuple[KnowledgeGraph, list[TextGraph]]:
    """Merge the extractions of `read_texts`; return the graph, and the part that each text has in it.

    `documents` names the document that each text is a chunk of: short forms of a name, such as surnames, are found in
    all chunks of a document. If not given, each text is a document.
    """
    names = documents or [extraction.document.id for extraction in extractions]
    chunks: dict[str, list[Extraction]] = {}
    for name, extraction in zip(names, extractions, strict=True):
        chunks.setdefault(name, []).append(extraction)
    joined = {str(number): _Joined(str(number), of_document) for number, of_document in enumerate(chunks.values())}
    graph = KnowledgeGraph.of(one.extraction for one in joined.values())
    parts = {extraction.document.id: TextGraph() for extraction in extractions}
    nodes, edges = [], []
    for node in graph.nodes:
        mentions = [joined[one.document].mention(one) for one in node.mentions]
        nodes.append(replace(node, mentions=tuple(mentions)))
        for name, places in _by_document(mentions).items():
            parts[name].nodes.append((node, places))
    for edge in graph.edges:
        evidence = [joined[one.document].evidence(one) for one in edge.evidence]
        edges.append(replace(edge, evidence=tuple(evidence)))
        for name, places_of_edge in _by_document(evidence).items():
            parts[name].edges.append((edge, places_of_edge))
    return KnowledgeGraph(tuple(nodes), tuple(edges)), list(parts.values())


class _Joined:
    """The chunks of a document joined into one text, and the way back to the chunks."""

    def __init__(self, name: str, chunks: Sequence[Extraction]) -> None:
        self._chunks = [chunk.document.id for chunk in chunks]
        self._starts: list[int] = []
        entities: list[Entity] = []
        relations: list[Relation] = []
        sentences: list[Span] = []
        text = ""
        for chunk in chunks:
            move = partial(_shift, by=len(text))
            moved = map_spans(chunk.document.annotation, move)
            entities += moved.entities
            relations += moved.relations
            sentences += map(move, chunk.sentences)
            self._starts.append(len(text))
            text += chunk.text + "\n"
        annotation = Annotation(tuple(entities), tuple(relations))
        self.extraction = Extraction(Document(name, text, annotation), tuple(sentences))

    def mention(self, found: Mention) -> Mention:
        """Return a mention in the characters of its chunk, whose id it has as its document."""
        number = bisect_right(self._starts, found.start) - 1
        first = self._starts[number]
        return replace(found, document=self._chunks[number], start=found.start - first, end=found.end - first)

    def evidence(self, found: Evidence) -> Evidence:
        """Return evidence in the characters of its chunk."""
        head, tail = self.mention(found.head), self.mention(found.tail)
        moved = replace(found, document=head.document, head=head, tail=tail)
        if found.start is None or found.end is None:
            return moved
        by = head.start - found.head.start
        return replace(moved, start=found.start + by, end=found.end + by)


def _shift(span: Span, by: int) -> Span:
    return span.shift(by)


def mention_properties(mentions: Sequence[Mention]) -> dict[str, Any]:
    """Return the places of a node in a text, as lists of numbers that every graph store can hold."""
    return {
        "starts": [mention.start for mention in mentions],
        "ends": [mention.end for mention in mentions],
        **best_score(mentions),
    }


def evidence_properties(evidence: Sequence[Evidence]) -> dict[str, Any]:
    """Return the place with the best score at which a relation is stated, and the number of all its places."""
    best = max(evidence, key=lambda one: one.score or 0.0)
    place = {"evidence": best.text, "evidence_start": best.start, "evidence_end": best.end}
    return {
        "count": len(evidence),
        "head_start": best.head.start,
        "head_end": best.head.end,
        "tail_start": best.tail.start,
        "tail_end": best.tail.end,
        **{key: value for key, value in place.items() if value is not None},
        **best_score(evidence),
    }


def best_score(places: Sequence[Mention] | Sequence[Evidence]) -> dict[str, float]:
    """Return the best score of some places as a property; none if they have no scores."""
    scores = [place.score for place in places if place.score is not None]
    return {"score": round(float(max(scores)), 4)} if scores else {}


def _by_document(places: Iterable[T]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for place in places:
        found.setdefault(place.document, []).append(place)
    return found
