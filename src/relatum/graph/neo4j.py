"""Knowledge graphs for Neo4j: a script of Cypher, and CSV files for `neo4j-admin database import`.

The evidence of an edge is a property of its relationship, as JSON. Labels in the engine are labels of relatum on one
line; the property `label` has them exactly.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from relatum.graph.records import rounded
from relatum.graph.text import evidence_json, one_line, writable

if TYPE_CHECKING:
    from relatum.graph.graph import Edge, KnowledgeGraph

NODES, RELATIONSHIPS = "nodes.csv", "relationships.csv"
_NODE_HEADER = ("id:ID", "name", "label", "count:int", ":LABEL")
_EDGE_HEADER = (":START_ID", ":END_ID", ":TYPE", "label", "score:double", "count:int", "evidence")
_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def to_cypher(graph: KnowledgeGraph) -> str:
    """Return a script that adds the graph to a database, one statement a line; running it twice changes nothing."""
    return "".join(f"{line}\n" for line in _cypher_lines(graph))


def _cypher_lines(graph: KnowledgeGraph) -> Iterator[str]:
    for label in sorted({node.label for node in graph.nodes}):
        yield f"CREATE CONSTRAINT IF NOT EXISTS FOR (n:{_name(label)}) REQUIRE n.id IS UNIQUE;"
    labels = {}
    for node in graph.nodes:
        labels[node.id] = _name(node.label)
        yield (
            f"MERGE (n:{_name(node.label)} {{id: {_string(node.id)}}}) SET n.name = {_string(node.name)}, "
            f"n.label = {_string(node.label)}, n.count = {node.count};"
        )
    for edge in graph.edges:
        head, tail = (f"{labels[end]} {{id: {_string(end)}}}" for end in (edge.head, edge.tail))
        yield f"MATCH (h:{head}), (t:{tail}) MERGE (h)-[r:{_name(edge.label)}]->(t) SET {_edge_values(edge)};"


def _edge_values(edge: Edge) -> str:
    score = "NULL" if edge.score is None else repr(rounded(edge.score))
    evidence = ", ".join(_string(evidence_json(one)) for one in edge.evidence)
    return f"r.label = {_string(edge.label)}, r.score = {score}, r.count = {edge.count}, r.evidence = [{evidence}]"


def _string(text: str) -> str:
    """Return a string literal of Cypher.

    Engines differ in whether a backslash that is escaped can begin an escape such as that of a quote by its number, so
    the literal is divided there.
    """
    return f"'{writable(text).translate(_ESCAPES)}'".replace("\\\\u", "\\\\' + 'u").replace("\\\\U", "\\\\' + 'U")


def _name(label: str) -> str:
    """Return a label as a quoted name of Cypher; a backslash, with which an escape could begin, becomes a slash."""
    return f"`{_engine_label(label).replace('`', '``')}`"


def _engine_label(label: str) -> str:
    return one_line(label).replace("\\", "/") or "_"


def write_csv(graph: KnowledgeGraph, folder: Path) -> None:
    """Write nodes.csv and relationships.csv into a folder, with every value in quotes and on one line."""
    _write(folder / NODES, _NODE_HEADER, _node_rows(graph))
    _write(folder / RELATIONSHIPS, _EDGE_HEADER, map(_edge_row, graph.edges))


def _write(path: Path, header: tuple[str, ...], rows: Iterator[list[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(header) + "\n")
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)


def _node_rows(graph: KnowledgeGraph) -> Iterator[list[object]]:
    for node in graph.nodes:
        label = _csv_label(node.label)
        yield [one_line(node.id), one_line(node.name), one_line(node.label), node.count, label]


def _edge_row(edge: Edge) -> list[object]:
    evidence = f"[{', '.join(map(evidence_json, edge.evidence))}]"
    score = "" if edge.score is None else rounded(edge.score)
    ends = [one_line(edge.head), one_line(edge.tail)]
    return [*ends, _csv_label(edge.label), one_line(edge.label), score, edge.count, evidence]


def _csv_label(label: str) -> str:
    return _engine_label(label).replace(";", ",")  # a semicolon separates labels
