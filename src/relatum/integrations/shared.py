"""Parts that all hosts share: reading their texts, and the part of a graph that each text has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from relatum.extractor.extractor import Extractor
from relatum.extractor.result import Extraction
from relatum.graph import Edge, Evidence, KnowledgeGraph, Mention, Node

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


def merge_texts(extractions: Sequence[Extraction]) -> tuple[KnowledgeGraph, list[TextGraph]]:
    """Merge the extractions of `read_texts`; return the graph, and the part that each text has in it."""
    graph = KnowledgeGraph.of(extractions)
    parts = {extraction.document.id: TextGraph() for extraction in extractions}
    for node in graph.nodes:
        for name, mentions in _by_document(node.mentions).items():
            parts[name].nodes.append((node, mentions))
    for edge in graph.edges:
        for name, evidence in _by_document(edge.evidence).items():
            parts[name].edges.append((edge, evidence))
    return graph, list(parts.values())


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
