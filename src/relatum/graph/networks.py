"""Knowledge graphs for networkx, and as GraphML, which networkx writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relatum.errors import MissingExtraError
from relatum.graph.records import rounded
from relatum.graph.text import evidence_json, writable

if TYPE_CHECKING:
    import networkx

    from relatum.graph.graph import KnowledgeGraph


def to_networkx(graph: KnowledgeGraph) -> networkx.MultiDiGraph[str]:
    """Return the graph for networkx, with the relation as the key of an edge."""
    made: networkx.MultiDiGraph[str] = _library().MultiDiGraph()
    for node in graph.nodes:
        made.add_node(node.id, name=node.name, label=node.label, count=node.count, mentions=node.mentions)
    for edge in graph.edges:
        values = {"label": edge.label, "score": edge.score, "count": edge.count, "evidence": edge.evidence}
        made.add_edge(edge.head, edge.tail, edge.label, **values)
    return made


def to_graphml(graph: KnowledgeGraph) -> str:
    """Return the graph as GraphML; the evidence of an edge is JSON in an attribute."""
    networkx = _library()
    made = networkx.MultiDiGraph()
    for node in graph.nodes:
        made.add_node(writable(node.id), name=writable(node.name), label=writable(node.label), count=node.count)
    for edge in graph.edges:
        evidence = f"[{', '.join(map(evidence_json, edge.evidence))}]"
        values: dict[str, Any] = {"label": writable(edge.label), "count": edge.count, "evidence": evidence}
        if edge.score is not None:
            values["score"] = rounded(edge.score)
        made.add_edge(writable(edge.head), writable(edge.tail), writable(edge.label), **values)
    return "\n".join(networkx.generate_graphml(made)) + "\n"


def _library() -> Any:
    try:
        import networkx
    except ImportError:
        raise MissingExtraError("a graph of networkx", "graph") from None
    return networkx
