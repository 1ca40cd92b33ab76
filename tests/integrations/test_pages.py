"""The pages about hosts: all of them end in the same graph."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from relatum.graph import KnowledgeGraph

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["agents", "langchain", "llama-index", "neo4j"])
def test_page_ends_in_the_graph_of_the_three_paragraphs(name: str, graph: KnowledgeGraph) -> None:
    (block,) = re.findall(r"^```text\n(.*?)^```", (DOCS / f"{name}.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert block.splitlines() == [" | ".join(triple) for triple in sorted(graph.triples())]
