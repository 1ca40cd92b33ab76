"""Knowledge graphs as RDF, in Turtle or JSON-LD.

    BASEorg/nordic-bank  BASErelation/OrgBased_In  BASEloc/oslo     an edge
    BASEorg/nordic-bank  a BASEtype/Org; rdfs:label "Nordic Bank"   a node
    BASEstatement/…      a rdf:Statement about an edge, with its score, its count and its evidence
    BASEevidence/…       the document, the sentences and both names of one place

The IRIs of statements and evidence are hashes of their content: graphs from several files can be loaded together.
"""

from __future__ import annotations

import re
from decimal import Decimal
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from relatum.errors import MissingExtraError, RelatumError
from relatum.graph.graph import BASE
from relatum.graph.records import rounded
from relatum.graph.text import evidence_json, writable

if TYPE_CHECKING:
    import rdflib

    from relatum.graph.graph import Edge, Evidence, KnowledgeGraph, Mention

RdfFormat = Literal["turtle", "json-ld"]
_BASE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|\\^`\ud800-\udfff]*[/#:]|[A-Za-z][A-Za-z0-9+.-]*:")


def check_base(base: str) -> None:
    """Refuse a base that no IRI can begin with."""
    if not _BASE.fullmatch(base):
        raise RelatumError(f"the base is {base!r}; expected the beginning of IRIs, ending in /, # or :, such as {BASE}")


def to_rdf(graph: KnowledgeGraph, format: RdfFormat, base: str = BASE) -> str:
    """Return the graph as Turtle or JSON-LD, with IRIs that begin with the base."""
    check_base(base)
    try:
        import rdflib
    except ImportError:
        raise MissingExtraError("RDF", "graph") from None

    made = _Statements(rdflib.Graph(bind_namespaces="none"), base)
    for node in graph.nodes:
        subject = made.iri(node.id)
        made.add(subject, rdflib.RDF.type, made.iri(f"type/{_segment(node.label)}"))
        made.add(subject, rdflib.RDFS.label, writable(node.name))
        made.add(subject, made.term("count"), node.count)
    for edge in graph.edges:
        made.add_edge(edge)
    options: dict[str, Any] = {"auto_compact": True, "ensure_ascii": False} if format == "json-ld" else {}
    written: str = made.graph.serialize(format=format, encoding=None, **options)
    return written.rstrip("\n") + "\n"


class _Statements:
    """RDF statements that are being gathered."""

    def __init__(self, graph: rdflib.Graph, base: str) -> None:
        from rdflib import RDF, RDFS, XSD

        self.graph = graph
        self._base = base
        for prefix, iri in (("rdf", RDF), ("rdfs", RDFS), ("xsd", XSD), ("v", f"{base}vocabulary/")):
            graph.bind(prefix, str(iri))
        graph.bind("relation", f"{base}relation/")
        graph.bind("type", f"{base}type/")

    def iri(self, id: str) -> rdflib.URIRef:
        import rdflib

        return rdflib.URIRef(self._base + "/".join(map(_segment, id.split("/"))))

    def term(self, name: str) -> rdflib.URIRef:
        return self.iri(f"vocabulary/{name}")

    def add(self, subject: rdflib.URIRef, predicate: rdflib.URIRef, value: object) -> None:
        import rdflib

        if value is not None:
            item = value if isinstance(value, rdflib.URIRef) else rdflib.Literal(value)
            self.graph.add((subject, predicate, item))

    def add_edge(self, edge: Edge) -> None:
        from rdflib import RDF

        head, tail = self.iri(edge.head), self.iri(edge.tail)
        relation = self.iri(f"relation/{_segment(edge.label)}")
        self.add(head, relation, tail)
        key = f"{edge.head} {edge.label} {edge.tail}"
        statement = self.iri(f"statement/{_hash(key)}")
        self.add(statement, RDF.type, RDF.Statement)
        self.add(statement, RDF.subject, head)
        self.add(statement, RDF.predicate, relation)
        self.add(statement, RDF.object, tail)
        self.add(statement, self.term("score"), _decimal(edge.score))
        self.add(statement, self.term("count"), edge.count)
        for evidence in edge.evidence:
            place = self.iri(f"evidence/{_hash(key + evidence_json(evidence))}")
            self.add(statement, self.term("evidence"), place)
            self._add_evidence(place, evidence)

    def _add_evidence(self, place: rdflib.URIRef, evidence: Evidence) -> None:
        from rdflib import RDF

        self.add(place, RDF.type, self.term("Evidence"))
        self.add(place, self.term("document"), writable(evidence.document))
        self.add(place, self.term("score"), _decimal(evidence.score))
        self.add(place, self.term("start"), evidence.start)
        self.add(place, self.term("end"), evidence.end)
        self.add(place, self.term("text"), None if evidence.text is None else writable(evidence.text))
        self._add_mention(place, "head", evidence.head)
        self._add_mention(place, "tail", evidence.tail)

    def _add_mention(self, place: rdflib.URIRef, end: str, mention: Mention) -> None:
        self.add(place, self.term(f"{end}Text"), writable(mention.text))
        self.add(place, self.term(f"{end}Start"), mention.start)
        self.add(place, self.term(f"{end}End"), mention.end)


def _segment(name: str) -> str:
    """Return a name as a part of an IRI: letters of all scripts stay, everything else is percent-encoded."""
    return "".join(c if c.isalnum() else quote(c, safe="") for c in writable(name))


def _hash(key: str) -> str:
    return sha256(key.encode(errors="surrogatepass")).hexdigest()[:16]


def _decimal(score: float | None) -> Decimal | None:
    return None if score is None else Decimal(str(rounded(score)))
