"""The page: a drawing that graph.js lays out, and the list of all edges that are shown."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relatum.graph.graph import Edge, KnowledgeGraph, Node
from relatum.graph.text import json_line
from relatum.look.colours import hue
from relatum.look.rendering import render

MAX_NODES = 500
MAX_EDGES = 2000
MAX_EVIDENCE = 5
"""The most places of an edge whose sentences are on the page."""


def draw(graph: KnowledgeGraph, title: str, max_nodes: int = MAX_NODES) -> str:
    """Return the page of a graph, or of its strongest nodes and edges."""
    if max_nodes < 1:
        raise ValueError(f"max_nodes is {max_nodes}; expected at least 1")
    nodes, edges = select_strongest(graph, max_nodes)
    script = (Path(__file__).parent / "graph.js").read_text(encoding="utf-8")
    return render(
        "graph/drawing/graph.html",
        title=title,
        facts=_facts(graph, nodes, edges),
        nodes={node.id: node for node in nodes},
        edges=edges,
        labels=Counter(node.label for node in nodes).most_common(),
        max_evidence=MAX_EVIDENCE,
        data=_data(nodes, edges),
        script=script,
        script_hash=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def select_strongest(graph: KnowledgeGraph, max_nodes: int) -> tuple[list[Node], list[Edge]]:
    """Return the nodes of the edges that were found most often, or with the best scores, and the edges between them."""
    ranked = sorted(graph.edges, key=lambda edge: (-edge.count, -(edge.score or 0)))
    chosen: set[str] = set()
    for edge in ranked:
        new = {edge.head, edge.tail} - chosen
        if len(chosen) + len(new) <= max_nodes:
            chosen |= new
    for node in sorted(graph.nodes, key=lambda node: -node.count):
        if len(chosen) < max_nodes:
            chosen.add(node.id)
    inside = [edge for edge in ranked if edge.head in chosen and edge.tail in chosen]
    return [node for node in graph.nodes if node.id in chosen], inside[:MAX_EDGES]


def _facts(graph: KnowledgeGraph, nodes: Sequence[Node], edges: Sequence[Edge]) -> list[str]:
    facts = []
    for what, shown, total in (("nodes", len(nodes), len(graph.nodes)), ("edges", len(edges), len(graph.edges))):
        only = f", of which the strongest {shown:,} are shown" if shown < total else ""
        facts.append(f"{total:,} {what if total != 1 else what[:-1]}{only}")
    return facts


def _data(nodes: Sequence[Node], edges: Sequence[Edge]) -> str:
    """Return what graph.js draws, as JSON in which nothing can end the element that holds it."""
    numbers = {node.id: number for number, node in enumerate(nodes)}
    shown_nodes: list[dict[str, Any]] = [
        {"name": node.name, "label": node.label, "hue": hue(node.label), "count": node.count} for node in nodes
    ]
    shown_edges = [[numbers[edge.head], numbers[edge.tail], edge.label] for edge in edges]
    return json_line({"nodes": shown_nodes, "edges": shown_edges}).replace("<", "\\u003c")
