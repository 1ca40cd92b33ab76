"""Knowledge graphs as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relatum.data.records import BadRecord, Field
from relatum.errors import RelatumError
from relatum.graph.graph import Edge, Evidence, KnowledgeGraph, Mention, Node


def to_record(graph: KnowledgeGraph) -> dict[str, Any]:
    """Return the graph as JSON can hold it; scores have four decimals."""
    return {"nodes": list(map(_node_record, graph.nodes)), "edges": list(map(_edge_record, graph.edges))}


def rounded(score: float | None) -> float | None:
    """Round a score to four decimals, as the JSON of an extraction has it."""
    return None if score is None else round(float(score), 4)


def _node_record(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "name": node.name,
        "label": node.label,
        "mentions": [{"document": one.document, **_mention_record(one)} for one in node.mentions],
        "left_out": node.left_out,
    }


def _mention_record(mention: Mention) -> dict[str, Any]:
    return {"start": mention.start, "end": mention.end, "text": mention.text, "score": rounded(mention.score)}


def _edge_record(edge: Edge) -> dict[str, Any]:
    return {
        "head": edge.head,
        "tail": edge.tail,
        "label": edge.label,
        "evidence": list(map(evidence_record, edge.evidence)),
        "left_out": edge.left_out,
    }


def evidence_record(evidence: Evidence) -> dict[str, Any]:
    return {
        "document": evidence.document,
        "head": _mention_record(evidence.head),
        "tail": _mention_record(evidence.tail),
        "score": rounded(evidence.score),
        "start": evidence.start,
        "end": evidence.end,
        "text": evidence.text,
    }


def from_record(record: Mapping[str, Any]) -> KnowledgeGraph:
    """Read a graph; refuse what does not have the form that `to_record` gives it."""
    root = Field.root(dict(record))
    try:
        root.only("nodes", "edges")
        nodes: dict[str, Node] = {}
        for item in root.need("nodes").items():
            node = _node(item)
            if node.id in nodes:
                raise item.need("id").bad("an id that no other node has")
            nodes[node.id] = node
        edges: dict[tuple[str, str, str], Edge] = {}
        for item in root.need("edges").items():
            edge = _edge(item, nodes)
            if (edge.head, edge.tail, edge.label) in edges:
                raise item.bad("head, tail and label that no other edge has")
            edges[edge.head, edge.tail, edge.label] = edge
    except BadRecord as bad:
        raise RelatumError(f"not a knowledge graph: {bad}") from None
    return KnowledgeGraph(tuple(nodes.values()), tuple(edges.values()))


def _node(item: Field) -> Node:
    item.only("id", "name", "label", "mentions", "left_out")
    mentions = []
    for one in item.need("mentions").items():
        one.only("document", "start", "end", "text", "score")
        mentions.append(_mention(one, _text(one, "document")))
    left_out = item.need("left_out").integer(0)
    return Node(_name(item, "id"), _text(item, "name"), _name(item, "label"), tuple(mentions), left_out)


def _mention(item: Field, document: str) -> Mention:
    start, end = item.need("start").integer(0), item.need("end").integer(0)
    return Mention(document, start, end, _text(item, "text"), item.optional_number("score"))


def _edge(item: Field, nodes: Mapping[str, Node]) -> Edge:
    item.only("head", "tail", "label", "evidence", "left_out")
    for key in ("head", "tail"):
        if _name(item, key) not in nodes:
            raise item.need(key).bad("the id of a node")
    evidence = tuple(map(_evidence, item.need("evidence").items()))
    left_out = item.need("left_out").integer(0)
    return Edge(_name(item, "head"), _name(item, "tail"), _name(item, "label"), evidence, left_out)


def _evidence(item: Field) -> Evidence:
    item.only("document", "head", "tail", "score", "start", "end", "text")
    document = _text(item, "document")
    head, tail = _end(item.need("head"), document), _end(item.need("tail"), document)
    score = item.optional_number("score")
    if item.get("text") is None:
        return Evidence(document, head, tail, score)
    start, end = item.need("start").integer(0), item.need("end").integer(0)
    return Evidence(document, head, tail, score, start, end, _text(item, "text"))


def _end(item: Field, document: str) -> Mention:
    item.only("start", "end", "text", "score")
    return _mention(item, document)


def _text(item: Field, key: str) -> str:
    return item.need(key).text(empty=True, surrogates=True)


def _name(item: Field, key: str) -> str:
    return item.need(key).text(surrogates=True)
