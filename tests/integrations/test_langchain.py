"""`RelatumExtractor` and `RelatumGraphTransformer` in LangChain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="needs langchain-core: pip install 'relatum[langchain]'")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.graph import KnowledgeGraph
from relatum.integrations.langchain import RelatumExtractor, RelatumGraphTransformer

TEXT = "Ingrid Solheim lives in Oslo."


class Noted(BaseCallbackHandler):
    """Counts the texts that were begun, and the ones that failed."""

    def __init__(self) -> None:
        self.begun = self.failed = 0

    def on_chain_start(self, *_args: Any, **_options: Any) -> None:
        self.begun += 1

    def on_chain_error(self, *_args: Any, **_options: Any) -> None:
        self.failed += 1


def test_invoke_reads_a_text_or_a_document(news: Extractor) -> None:
    extractor = RelatumExtractor(news)
    assert extractor.invoke(TEXT) == news(TEXT)
    assert extractor.invoke(Document(page_content=TEXT, id="7")).document.id == "7"
    assert list(extractor.stream(TEXT)) == [news(TEXT)]
    assert asyncio.run(extractor.ainvoke(TEXT)) == news(TEXT)


def test_batch_reads_texts_in_their_order(news: Extractor, paragraphs: list[str]) -> None:
    extractor, noted = RelatumExtractor(news), Noted()
    assert extractor.batch(list(paragraphs), {"callbacks": [noted]}) == news(paragraphs)
    assert (noted.begun, noted.failed) == (3, 0)
    assert asyncio.run(extractor.abatch(list(paragraphs))) == news(paragraphs)
    assert extractor.batch([]) == []


def test_graph_of_a_text_is_a_step_of_a_chain(news: Extractor, graph: KnowledgeGraph, paragraphs: list[str]) -> None:
    chain = RunnableLambda(lambda page: page["text"]) | RelatumExtractor(news, returns="graph")
    graphs = chain.batch([{"text": text} for text in paragraphs])
    first, *others = map(KnowledgeGraph.from_dict, graphs)
    assert first.merge(*others).triples() == graph.triples()


def test_text_that_cannot_be_read_fails_alone(news: Extractor) -> None:
    extractor, noted = RelatumExtractor(news), Noted()
    inputs: Sequence[Any] = [None, TEXT, 5]
    none, found, five = extractor.batch(inputs, {"callbacks": [noted]}, return_exceptions=True)  # type: ignore[arg-type]
    assert (str(none), str(five)) == ("text 1: expected str, found NoneType", "text 3: expected str, found int")
    assert found == news(TEXT)
    assert (noted.begun, noted.failed) == (3, 2)
    with pytest.raises(TypeError, match="expected str, found NoneType"):
        extractor.invoke(None)  # type: ignore[arg-type]


def test_options_are_checked_when_they_are_given(news: Extractor) -> None:
    with pytest.raises(ValueError, match="threshold is 3; expected a score from 0 to 1"):
        RelatumExtractor(news, threshold=3)
    with pytest.raises(ValueError, match="returns is 'triples'; expected 'extraction' or 'graph'"):
        RelatumExtractor(news, returns="triples")  # type: ignore[arg-type]


@pytest.mark.skipif(
    find_spec("langchain_neo4j") is not None or find_spec("langchain_community") is not None,
    reason="a package with GraphDocument is installed",
)
def test_missing_graph_documents_are_explained(news: Extractor) -> None:
    with pytest.raises(RelatumError, match=r"GraphDocument cannot be imported .* pip install langchain-neo4j"):
        RelatumGraphTransformer(news)


def test_graph_documents_share_the_ids_of_their_nodes(
    news: Extractor, graph: KnowledgeGraph, paragraphs: list[str]
) -> None:
    pytest.importorskip("langchain_neo4j", reason="needs GraphDocument: pip install langchain-neo4j")
    transformer = RelatumGraphTransformer(news)
    documents = [Document(page_content=text) for text in paragraphs]
    made = transformer.convert_to_graph_documents(documents)
    assert [one.source for one in made] == documents
    assert {(node.id, node.type) for one in made for node in one.nodes} == {(n.id, n.label) for n in graph.nodes}
    triples = {
        (edge.source.properties["name"], edge.type, edge.target.properties["name"])
        for one in made
        for edge in one.relationships
    }
    assert triples == set(graph.triples())
    for one in made:
        for edge in one.relationships:
            start, end = edge.properties["evidence_start"], edge.properties["evidence_end"]
            assert one.source.page_content[start:end] == edge.properties["evidence"]
    assert asyncio.run(transformer.aconvert_to_graph_documents(documents)) == made
    assert transformer.process_response(documents[1]).relationships[0].type == "Work_For"
    assert asyncio.run(transformer.aprocess_response(documents[1])) == transformer.process_response(documents[1])
    wrong: Any = documents[0], ["a text"]
    for documents, said in zip(
        wrong, ("found a single one", "document 1: expected a Document, found str"), strict=True
    ):
        with pytest.raises(TypeError, match=said):
            transformer.convert_to_graph_documents(documents)
