"""A knowledge graph, and the mentions and sentences that it was made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx

    from relatum.graph.merging import Extracted
    from relatum.graph.saving import GraphFormat
    from relatum.types import Document

BASE = "https://example.org/"
"""The beginning of IRIs if no other is given."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a document; `start` and `end` are characters, and `text` is the name on one line."""

    document: str
    start: int
    end: int
    text: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """A relation in a document; `start`, `end` and `text` are the sentences of both names, None if not known."""

    document: str
    head: Mention
    tail: Mention
    score: float | None = None
    start: int | None = None
    end: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """An entity: all mentions that have the same type and the same name."""

    id: str
    name: str
    label: str
    mentions: tuple[Mention, ...] = ()
    left_out: int = 0
    """The number of mentions that were counted and not kept."""

    @property
    def count(self) -> int:
        """The number of all mentions."""
        return len(self.mentions) + self.left_out


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation between two nodes, given by their ids, with every place where it was found."""

    head: str
    tail: str
    label: str
    evidence: tuple[Evidence, ...] = ()
    left_out: int = 0
    """The number of places that were counted and not kept."""

    @property
    def count(self) -> int:
        """The number of all places where the relation was found."""
        return len(self.evidence) + self.left_out

    @property
    def score(self) -> float | None:
        """The best score of the evidence; None if nothing has a score."""
        return max((one.score for one in self.evidence if one.score is not None), default=None)


@dataclass(frozen=True, slots=True, repr=False)
class KnowledgeGraph:
    """The entities and relations of documents, merged by type and name; nodes and edges are in order of appearance."""

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()

    @classmethod
    def of(
        cls, extractions: Iterable[Extracted | Document], keep: int | None = None, threshold: float | None = None
    ) -> KnowledgeGraph:
        """Merge the extractions of many texts, or annotated documents, which are read one at a time.

        Only the graph is held in memory. With `keep`, each node keeps at most that many mentions, and each edge that
        many places as evidence: the ones with the best scores. `left_out` counts the others. `threshold` leaves out
        entities and relations with a lower score. An extraction without an id is known by its number.
        """
        from relatum.graph.merging import GraphBuilder

        builder = GraphBuilder(keep, threshold)
        if not isinstance(extractions, Iterable):
            raise TypeError(f"expected a list of extractions, found a single {type(extractions).__name__}")
        for extraction in extractions:
            builder.add(extraction)
        return builder.build()

    def merge(self, *others: KnowledgeGraph, keep: int | None = None) -> KnowledgeGraph:
        """Return one graph with the nodes and edges of this and other graphs, as if their documents were merged."""
        from relatum.graph.merging import GraphBuilder

        builder = GraphBuilder(keep)
        for graph in (self, *others):
            builder.add_graph(graph)
        return builder.build()

    def __or__(self, other: KnowledgeGraph) -> KnowledgeGraph:
        return self.merge(other)

    @property
    def names(self) -> dict[str, str]:
        """The name of each node, by its id."""
        return {node.id: node.name for node in self.nodes}

    def triples(self) -> list[tuple[str, str, str]]:
        """Return the name of the head, the relation and the name of the tail of each edge."""
        names = self.names
        return [(names[edge.head], edge.label, names[edge.tail]) for edge in self.edges]

    def to_dict(self) -> dict[str, Any]:
        """Return the graph as JSON can hold it, with every mention and all evidence."""
        from relatum.graph.records import to_record

        return to_record(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> KnowledgeGraph:
        """Read a graph that `to_dict` made."""
        from relatum.graph.records import from_record

        return from_record(record)

    def to_networkx(self) -> networkx.MultiDiGraph[str]:
        """Return the graph for networkx.

        Nodes have the attributes name, label, count and mentions; edges have their label as key, and the attributes
        label, score, count and evidence.
        """
        from relatum.graph.networks import to_networkx

        return to_networkx(self)

    def to_graphml(self) -> str:
        """Return the graph as GraphML, for Gephi, yEd, Cytoscape and others; evidence is JSON in an attribute."""
        from relatum.graph.networks import to_graphml

        return to_graphml(self)

    def to_turtle(self, base: str = BASE) -> str:
        """Return the graph as RDF in Turtle; every IRI begins with `base`."""
        from relatum.graph.rdf import to_rdf

        return to_rdf(self, "turtle", base)

    def to_jsonld(self, base: str = BASE) -> str:
        """Return the graph as RDF in JSON-LD; every IRI begins with `base`."""
        from relatum.graph.rdf import to_rdf

        return to_rdf(self, "json-ld", base)

    def to_cypher(self) -> str:
        """Return a script of Cypher that adds the graph to Neo4j, one statement a line."""
        from relatum.graph.neo4j import to_cypher

        return to_cypher(self)

    def to_html(self, title: str = "", max_nodes: int = 500) -> str:
        """Return an HTML page that draws the graph; of a larger graph, it shows the strongest nodes, and says so."""
        from relatum.graph.drawing.page import draw

        return draw(self, title or "Knowledge graph", max_nodes)

    def save(self, path: str | Path, format: GraphFormat | None = None, base: str = BASE) -> None:
        """Write the graph in the format that the suffix says: .json, .html, .graphml, .ttl, .jsonld, .cypher or .csv.

        csv is a new folder with the files that `neo4j-admin database import` reads. `base` is the beginning of IRIs.
        """
        from relatum.graph.saving import find_format, save

        save(self, Path(path), format or find_format(Path(path)), base)

    def __repr__(self) -> str:
        return f"<KnowledgeGraph: {self.describe()}>"

    def __str__(self) -> str:
        return "\n".join([self.describe(), *self._lines()])

    def describe(self) -> str:
        """Return the numbers of nodes and edges in words."""
        nodes, edges = len(self.nodes), len(self.edges)
        return f"{nodes:,} node{'' if nodes == 1 else 's'}, {edges:,} edge{'' if edges == 1 else 's'}"

    def _lines(self) -> Iterator[str]:
        for edge, (head, label, tail) in zip(self.edges, self.triples(), strict=True):
            times = f" ×{edge.count}" if edge.count > 1 else ""
            score = "" if edge.score is None else f" ({edge.score:.2f}{times})"
            yield f"  {head} —{label}→ {tail}{score or times}"
