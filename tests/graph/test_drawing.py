"""The page that draws a knowledge graph."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from html.parser import HTMLParser

import pytest

from relatum.graph import Edge, Evidence, KnowledgeGraph, Mention, Node

EVIL = "</script><script>alert('x')</script> & \"<b>\" \x00"


class Page(HTMLParser):
    """The elements of a page, the text of its scripts, and its visible text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] == "script":
            self.scripts += [data] if data.strip() else []
        else:
            self.text += data


def star(n: int) -> KnowledgeGraph:
    """Return a graph in which all nodes point to the first; later ones were found more often."""
    mention = Mention("d", 0, 1, "x")
    nodes = [Node(f"a/{number}", f"Name {number}", "A", (mention,), number) for number in range(n)]
    edges = [Edge(node.id, "a/0", "r", (Evidence("d", mention, mention),), node.left_out) for node in nodes[1:]]
    return KnowledgeGraph(tuple(nodes), tuple(edges))


def evil() -> KnowledgeGraph:
    mention = Mention(EVIL, 0, 1, EVIL, 0.5)
    evidence = Evidence(EVIL, mention, mention, 0.5, 0, 1, EVIL)
    nodes = Node("a/1", EVIL, EVIL, (mention,)), Node("a/2", EVIL, "B", (mention,))
    return KnowledgeGraph(nodes, (Edge("a/1", "a/2", EVIL, (evidence,) * 7),))


def test_page_needs_no_other_file() -> None:
    html = star(3).to_html("My graph")
    page = Page(html)
    assert "<title>My graph</title>" in html
    assert not [name for _, values in page.elements for name in values if name in ("src", "href")]
    assert "url(" not in re.sub(r"url\(#tip\)", "", html)
    assert "3 nodes. 2 edges." in page.text


def test_page_allows_its_own_script_only() -> None:
    html = evil().to_html()
    data, script = Page(html).scripts
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html
    assert json.loads(data)["nodes"][0]["name"] == EVIL


def test_page_escapes_every_name_label_document_and_sentence() -> None:
    page = Page(evil().to_html(EVIL))
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert [tag for tag, _ in page.elements].count("b") == 2  # the names in bold
    assert page.text.count("<script>alert('x')</script>") > 10
    assert "and 2 more places" in page.text


def test_page_lists_each_relation_with_its_sentences() -> None:
    ada, bank = Mention("news", 0, 3, "Ada", 0.9), Mention("news", 9, 18, "Tarn Bank", 0.9)
    evidence = Evidence("news", ada, bank, 0.875, 0, 19, "Ada runs Tarn Bank.")
    nodes = Node("peop/ada", "Ada", "Peop", (ada,)), Node("org/tarn-bank", "Tarn Bank", "Org", (bank,))
    text = Page(KnowledgeGraph(nodes, (Edge("peop/ada", "org/tarn-bank", "Work_For", (evidence,)),)).to_html()).text
    words = " ".join(text.split())
    assert "Ada Peop —Work_For→ Tarn Bank Org 0.88 Ada runs Tarn Bank. news 0.88" in words


def test_page_of_a_large_graph_shows_the_strongest_and_says_so() -> None:
    page = Page(star(30).to_html(max_nodes=10))
    assert "30 nodes, of which the strongest 10 are shown. 29 edges, of which the strongest 9 are shown." in page.text
    names = {node["name"] for node in json.loads(page.scripts[0])["nodes"]}
    assert names == {"Name 0", *(f"Name {number}" for number in range(21, 30))}


def test_page_of_an_empty_graph_says_that_there_is_nothing() -> None:
    assert "0 nodes. 0 edges." in Page(KnowledgeGraph().to_html()).text
    with pytest.raises(ValueError, match="max_nodes is 0; expected at least 1"):
        KnowledgeGraph().to_html(max_nodes=0)
