"""The three paragraphs that every host reads, the model that reads them, and the graph that all of them end in."""

from __future__ import annotations

from pathlib import Path

import pytest

from relatum.extractor.extractor import Extractor
from relatum.graph import KnowledgeGraph


@pytest.fixture(scope="session")
def news() -> Extractor:
    return Extractor.from_pretrained("news")


@pytest.fixture(scope="session")
def paragraphs(examples_folder: Path) -> list[str]:
    return [(examples_folder / "graph" / f"{number}.txt").read_text(encoding="utf-8") for number in (1, 2, 3)]


@pytest.fixture(scope="session")
def graph(news: Extractor, paragraphs: list[str]) -> KnowledgeGraph:
    return KnowledgeGraph.of(news(paragraphs))
