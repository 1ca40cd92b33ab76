"""Knowledge graphs: the entities and relations of many documents, merged by name."""

from relatum.graph.graph import Edge, Evidence, KnowledgeGraph, Mention, Node
from relatum.graph.merging import GraphBuilder

__all__ = ["Edge", "Evidence", "GraphBuilder", "KnowledgeGraph", "Mention", "Node"]
