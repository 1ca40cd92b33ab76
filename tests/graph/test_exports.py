"""Knowledge graphs in the forms of other tools, read back by those tools."""

from __future__ import annotations

import csv
import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import kuzu
import networkx
import pytest
import rdflib

from relatum.errors import RelatumError
from relatum.graph import Edge, Evidence, KnowledgeGraph, Mention, Node
from relatum.types import Annotation, Document, Entity, Relation, Span

NASTY = [
    'Zoë\'s "Bank" & Söhne',
    "back\\slash\\",
    "\\u0027) DETACH DELETE n //",
    "'}) DETACH DELETE (n) //",
    "`; MATCH (n) DETACH DELETE n; //",
    "</script><script>alert(1)</script>",
    "<b>&amp;</b>",
    "a;b,c|d",
    "$name {x} %s",
    "日本 💙 \u202e\u200f",
    "\x00\x1b[2J\x85",
    "half \ud83d",
    "--- // /* */",
    "\ufffe\uffff",
]


def graph_of(names: list[str], labels: list[str], relations: list[str]) -> KnowledgeGraph:
    """Return a graph in which each name is related to the next."""
    text = " | ".join(names)
    entities = []
    at = 0
    for name, label in zip(names, labels, strict=True):
        entities.append(Entity(Span(at, at + len(name)), label, score=0.5))
        at += len(name) + 3
    found = tuple(
        Relation(head, tail, label, 0.25 + 1e-9)
        for (head, tail), label in zip(pairwise(entities), relations, strict=False)
    )
    words = (Span(0, len(text)),)
    return KnowledgeGraph.of([Document("d 1", text, Annotation(tuple(entities), found), words, (Span(0, 1),))])


@pytest.fixture(scope="module")
def plain() -> KnowledgeGraph:
    return graph_of(["Ada Marsh", "Tarn Bank", "Oldhaven"], ["Peop", "Org", "Loc"], ["Work_For", "OrgBased_In"])


@pytest.fixture(scope="module")
def nasty() -> KnowledgeGraph:
    return graph_of(NASTY, NASTY[::-1], [f"to {name}" for name in NASTY])


def test_json_reads_back(plain: KnowledgeGraph, nasty: KnowledgeGraph) -> None:
    for graph in (plain, nasty, plain.merge(plain, keep=1), KnowledgeGraph()):
        record = json.loads(json.dumps(graph.to_dict()))
        again = KnowledgeGraph.from_dict(record)
        assert again.to_dict() == record
        assert again.triples() == graph.triples()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("nodes", 0, "id"), "org/tarn-bank", r"nodes\[1\]\.id: found \"org/tarn-bank\"; expected an id that no other"),
        (("nodes", 0, "left_out"), -1, r"nodes\[0\]\.left_out: found -1; expected a number of at least 0"),
        (
            ("nodes", 0, "mentions", 0, "score"),
            "x",
            r"nodes\[0\]\.mentions\[0\]\.score: found \"x\"; expected",
        ),
        (("edges", 0, "head"), "x/y", r"edges\[0\]\.head: found \"x/y\"; expected the id of a node"),
        (("edges", 0, "evidence", 0, "head"), None, r"edges\[0\]\.evidence\[0\]\.head: found null; expected an object"),
        (
            ("edges", 0, "evidnce"),
            [],
            r"edges\[0\]\.evidnce: found the unknown key \"evidnce\".*did you mean 'evidence'",
        ),
    ],
)
def test_json_that_is_no_graph_is_refused(
    plain: KnowledgeGraph, path: tuple[str | int, ...], value: object, message: str
) -> None:
    record: Any = plain.to_dict()
    inner = record
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(RelatumError, match=f"^not a knowledge graph: {message}"):
        KnowledgeGraph.from_dict(record)


def test_networkx_has_nodes_and_edges_with_their_evidence(plain: KnowledgeGraph) -> None:
    made = plain.to_networkx()
    assert made.nodes["org/tarn-bank"]["name"] == "Tarn Bank"
    assert list(made.edges(keys=True)) == [
        ("peop/ada-marsh", "org/tarn-bank", "Work_For"),
        ("org/tarn-bank", "loc/oldhaven", "OrgBased_In"),
    ]
    assert made["org/tarn-bank"]["loc/oldhaven"]["OrgBased_In"]["evidence"] == plain.edges[1].evidence
    assert networkx.shortest_path(made, "peop/ada-marsh", "loc/oldhaven")[1] == "org/tarn-bank"


def test_graphml_reads_back(plain: KnowledgeGraph, nasty: KnowledgeGraph) -> None:
    made = networkx.parse_graphml(plain.to_graphml(), force_multigraph=True)
    assert made.nodes["org/tarn-bank"] == {"name": "Tarn Bank", "label": "Org", "count": 1}
    ((_, _, values), _) = made.edges(data=True)
    assert (values["label"], values["score"], values["count"]) == ("Work_For", 0.25, 1)
    (evidence,) = json.loads(values["evidence"])
    assert (evidence["document"], evidence["text"]) == ("d 1", "Ada Marsh | Tarn Bank | Oldhaven")
    made = networkx.parse_graphml(nasty.to_graphml(), force_multigraph=True)
    assert made.number_of_edges() == len(nasty.edges)
    assert {values["name"] for _, values in made.nodes(data=True)} >= set(NASTY[:1] + NASTY[4:9])


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")  # the reader of rdflib makes one
@pytest.mark.parametrize("format", ["turtle", "json-ld"])
def test_rdf_reads_back_with_provenance(plain: KnowledgeGraph, format: str) -> None:
    base = "https://data.example.com/kg#"
    text = plain.to_turtle(base) if format == "turtle" else plain.to_jsonld(base)
    read = rdflib.Graph().parse(data=text, format=format)
    query = """
        PREFIX v: <https://data.example.com/kg#vocabulary/> PREFIX r: <https://data.example.com/kg#relation/>
        PREFIX t: <https://data.example.com/kg#type/>
        SELECT ?name ?place ?score ?document ?text ?start ?headText WHERE {
            ?head r:OrgBased_In ?tail; a t:Org; rdfs:label ?name. ?tail rdfs:label ?place.
            [] a rdf:Statement; rdf:subject ?head; rdf:predicate r:OrgBased_In; rdf:object ?tail; v:score ?score;
               v:evidence [ v:document ?document; v:text ?text; v:start ?start; v:headText ?headText ].
        }"""
    (row,) = [[item.toPython() for item in row] for row in read.query(query)]  # type: ignore[union-attr]
    row[2] = float(row[2])
    assert row == ["Tarn Bank", "Oldhaven", 0.25, "d 1", "Ada Marsh | Tarn Bank | Oldhaven", 0, "Tarn Bank"]


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")  # the reader of rdflib makes one
def test_rdf_of_any_characters_reads_back(nasty: KnowledgeGraph) -> None:
    turtle = rdflib.Graph().parse(data=nasty.to_turtle(), format="turtle")
    jsonld = rdflib.Graph().parse(data=nasty.to_jsonld(), format="json-ld")
    assert set(turtle) == set(jsonld)
    assert {str(name) for name in turtle.objects(None, rdflib.RDFS.label)} >= set(NASTY[:1] + NASTY[4:9])
    assert len(set(turtle.subjects(rdflib.RDF.type, rdflib.RDF.Statement))) == len(nasty.edges)


def test_rdf_of_several_graphs_can_be_loaded_together(plain: KnowledgeGraph) -> None:
    once = rdflib.Graph().parse(data=plain.to_turtle(), format="turtle")
    n_statements = len(once)
    once.parse(data=plain.to_turtle(), format="turtle")
    assert len(once) == n_statements


@pytest.mark.parametrize(
    "base", ["", "example.org/", "https://example.org", "https://a b/", "https://é\ud800/", "<x>:"]
)
def test_a_base_that_no_iri_can_begin_with_is_refused(plain: KnowledgeGraph, base: str) -> None:
    with pytest.raises(RelatumError, match=r"expected the beginning of IRIs, ending in /, # or :"):
        plain.to_turtle(base)


def run_in_kuzu(graph: KnowledgeGraph) -> list[tuple[Any, ...]]:
    """Run the script twice in a database of kuzu, which needs tables and has no constraints; return all edges."""
    script = graph.to_cypher().removesuffix("\n").split("\n")
    quoted = "`(?:[^`]|``)+`"
    labels = dict.fromkeys(re.findall(rf"^MERGE \(n:({quoted})", "\n".join(script), re.MULTILINE))
    ends: dict[str, set[str]] = {}
    for head, tail, label in re.findall(
        rf"^MATCH \(h:({quoted}) .*?, \(t:({quoted}) .*-\[r:({quoted})\]->", "\n".join(script), re.MULTILINE
    ):
        ends.setdefault(label, set()).add(f"FROM {head} TO {tail}")
    connection = kuzu.Connection(kuzu.Database(":memory:"))
    for label in labels:
        connection.execute(f"CREATE NODE TABLE {label}(id STRING PRIMARY KEY, name STRING, label STRING, count INT64)")
    for label, pairs in ends.items():
        columns = "label STRING, score DOUBLE, count INT64, evidence STRING[]"
        connection.execute(f"CREATE REL TABLE {label}({', '.join(sorted(pairs))}, {columns})")
    for line in script * 2:
        if not line.startswith("CREATE CONSTRAINT"):
            connection.execute(line)
    rows = connection.execute("MATCH (h)-[r]->(t) RETURN h.id, h.name, h.label, r.label, r.score, r.evidence, t.id")
    assert not isinstance(rows, list)
    return [tuple(row) for row in rows]


def expected_rows(graph: KnowledgeGraph) -> set[tuple[str, str, str, str, str]]:
    from relatum.graph.text import writable

    nodes = {node.id: node for node in graph.nodes}
    return {
        (edge.head, writable(nodes[edge.head].name), writable(nodes[edge.head].label), writable(edge.label), edge.tail)
        for edge in graph.edges
    }


def test_cypher_runs_in_an_engine(plain: KnowledgeGraph) -> None:
    rows = run_in_kuzu(plain)
    assert {(*row[:4], row[6]) for row in rows} == expected_rows(plain)
    assert len(rows) == 2
    (evidence,) = rows[0][5]
    assert json.loads(evidence)["text"] == "Ada Marsh | Tarn Bank | Oldhaven"
    assert rows[0][4] == 0.25


def test_cypher_is_safe_for_any_characters_in_names(nasty: KnowledgeGraph) -> None:
    graph = graph_of(NASTY, ["A"] * len(NASTY), ["r"] * len(NASTY))
    rows = run_in_kuzu(graph)
    assert {(*row[:4], row[6]) for row in rows} == expected_rows(graph)
    assert len(rows) == len(graph.edges)
    assert "\\\\u" not in nasty.to_cypher()  # engines differ in what it is


def test_cypher_is_safe_for_any_characters_in_labels(nasty: KnowledgeGraph) -> None:
    rows = run_in_kuzu(nasty)
    assert {(*row[:4], row[6]) for row in rows} == expected_rows(nasty)


def test_cypher_has_one_statement_a_line(nasty: KnowledgeGraph) -> None:
    lines = nasty.to_cypher().removesuffix("\n").split("\n")
    assert all(re.match("CREATE CONSTRAINT|MERGE|MATCH", line) and line.endswith(";") for line in lines)
    assert len(lines) == len({node.label for node in nasty.nodes}) + len(nasty.nodes) + len(nasty.edges)


def test_csv_has_the_headers_of_neo4j_and_every_value_in_quotes_on_one_line(
    nasty: KnowledgeGraph, tmp_path: Path
) -> None:
    nasty.save(tmp_path / "kg.csv")
    tables = {}
    for name in ("nodes.csv", "relationships.csv"):
        text = (tmp_path / "kg.csv" / name).read_text(encoding="utf-8")
        header, *lines = text.split("\n")[:-1]
        assert all(re.fullmatch(r'("([^"\n\r]|"")*"(,|$))+', line) for line in lines)
        tables[name] = list(csv.DictReader([header, *lines], strict=True))
    nodes, edges = tables["nodes.csv"], tables["relationships.csv"]
    assert list(nodes[0]) == ["id:ID", "name", "label", "count:int", ":LABEL"]
    assert list(edges[0]) == [":START_ID", ":END_ID", ":TYPE", "label", "score:double", "count:int", "evidence"]
    assert [node["id:ID"] for node in nodes] == [node.id for node in nasty.nodes]
    assert not any(";" in node[":LABEL"] for node in nodes)  # it separates labels
    assert [(edge[":START_ID"], edge[":END_ID"]) for edge in edges] == [(edge.head, edge.tail) for edge in nasty.edges]
    assert all(len(json.loads(edge["evidence"])) == 1 for edge in edges)
    with pytest.raises(RelatumError, match="is a folder that is not empty; name a new folder"):
        nasty.save(tmp_path / "kg.csv")


@pytest.mark.parametrize("suffix", [".json", ".html", ".graphml", ".ttl", ".jsonld", ".cypher"])
def test_files_are_written_in_the_format_of_their_suffix(nasty: KnowledgeGraph, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"kg{suffix}"
    nasty.save(path)
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    starts = {".html": "<!DOCTYPE", ".graphml": "<graphml", ".ttl": "@prefix", ".cypher": "CREATE"}
    assert text.startswith(starts.get(suffix, "{"))


def test_a_suffix_that_says_no_format_is_refused(plain: KnowledgeGraph, tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match=r"cannot be told from the suffix '\.xml'; expected \.json, \.html"):
        plain.save(tmp_path / "kg.xml")
    plain.save(tmp_path / "kg.xml", "graphml")
    ElementTree.parse(tmp_path / "kg.xml")


@pytest.mark.parametrize(("module", "method"), [("networkx", "to_networkx"), ("rdflib", "to_turtle")])
def test_a_missing_library_names_the_extra(
    plain: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch, module: str, method: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(RelatumError, match=r"pip install 'relatum\[graph\]'"):
        getattr(plain, method)()


def test_graph_without_scores_and_sentences_is_written(tmp_path: Path) -> None:
    ends = Mention("d", 0, 3, "Ada"), Mention("d", 9, 14, "Paris")
    nodes = Node("peop/ada", "Ada", "Peop", ends[:1]), Node("loc/paris", "Paris", "Loc", ends[1:])
    graph = KnowledgeGraph(nodes, (Edge("peop/ada", "loc/paris", "Live_In", (Evidence("d", *ends),)),))
    for suffix in (".json", ".html", ".graphml", ".ttl", ".jsonld", ".cypher", ".csv"):
        graph.save(tmp_path / f"kg{suffix}")
    assert "r.score = NULL" in graph.to_cypher()
    assert "score" not in graph.to_turtle()
    assert "d, characters 0 and 9" in graph.to_html()
    assert KnowledgeGraph.from_dict(graph.to_dict()) == graph
