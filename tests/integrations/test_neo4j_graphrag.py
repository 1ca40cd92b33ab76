"""`RelatumExtractor` in the pipelines of neo4j-graphrag, with a writer that keeps the graph."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("neo4j_graphrag", reason="needs neo4j-graphrag: pip install 'relatum[neo4j]'")

import neo4j
from neo4j_graphrag.components.kg_writer import KGWriter, KGWriterModel
from neo4j_graphrag.components.text_splitters.fixed_size_splitter import FixedSizeSplitter
from neo4j_graphrag.components.types import (
    DocumentInfo,
    LexicalGraphConfig,
    Neo4jGraph,
    Neo4jRelationship,
    TextChunk,
    TextChunks,
)
from neo4j_graphrag.embeddings import Embedder
from neo4j_graphrag.experimental.pipeline import Pipeline
from neo4j_graphrag.experimental.pipeline.kg_builder import SimpleKGPipeline
from neo4j_graphrag.llm import LLMInterface, LLMResponse
from pydantic import validate_call

from relatum.extractor.extractor import Extractor
from relatum.graph import KnowledgeGraph
from relatum.integrations.neo4j_graphrag import RelatumExtractor

LEXICAL = {"FROM_DOCUMENT", "NEXT_CHUNK", "FROM_CHUNK"}


class Kept(KGWriter):
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.graph = Neo4jGraph()

    @validate_call
    async def run(
        self,
        graph: Neo4jGraph,
        lexical_graph_config: LexicalGraphConfig = LexicalGraphConfig(),  # noqa: B008
    ) -> KGWriterModel:
        del lexical_graph_config
        self.graph = graph
        return KGWriterModel(status="SUCCESS")


class NoLLM(LLMInterface):
    """A language model that must not be asked."""

    def invoke(self, *_args: Any, **_options: Any) -> LLMResponse:
        raise AssertionError("the language model was asked")

    async def ainvoke(self, *_args: Any, **_options: Any) -> LLMResponse:
        raise AssertionError("the language model was asked")


class OneVector(Embedder):
    def embed_query(self, text: str) -> list[float]:
        return [float(len(text))]


def chunks_of(texts: list[str]) -> TextChunks:
    return TextChunks(chunks=[TextChunk(text=text, index=n, uid=f"chunk{n}") for n, text in enumerate(texts)])


def triples_of(graph: Neo4jGraph) -> list[tuple[str, str, str]]:
    """The triples between entities, by their names."""
    names = {node.id: str(node.properties.get("name")) for node in graph.nodes}
    between = [one for one in graph.relationships if one.type not in LEXICAL]
    return [(names[one.start_node_id], one.type, names[one.end_node_id]) for one in between]


def of_type(graph: Neo4jGraph, type: str) -> list[Neo4jRelationship]:
    return [one for one in graph.relationships if one.type == type]


@pytest.fixture(scope="module")
def found(news: Extractor, paragraphs: list[str]) -> Neo4jGraph:
    """The graph of the three paragraphs, which are the chunks of one document."""
    extractor, document = RelatumExtractor(news), DocumentInfo(path="harbour.txt", uid="document")
    return asyncio.run(extractor.run(chunks=chunks_of(paragraphs), document_info=document))


def test_entities_of_all_chunks_are_merged(found: Neo4jGraph, graph: KnowledgeGraph) -> None:
    assert triples_of(found) == graph.triples()
    entities = [node for node in found.nodes if node.label not in ("Document", "Chunk")]
    assert [(node.id, node.properties["id"], node.label) for node in entities] == [
        (node.id, node.id, node.label) for node in graph.nodes
    ]
    assert sum(int(str(node.properties["count"])) for node in entities) == sum(node.count for node in graph.nodes)


def test_document_and_chunks_are_in_the_graph(found: Neo4jGraph, paragraphs: list[str]) -> None:
    document, *chunks = [node for node in found.nodes if node.label in ("Document", "Chunk")]
    assert document.properties["path"] == "harbour.txt"
    assert [chunk.properties["text"] for chunk in chunks] == paragraphs
    assert [(one.start_node_id, one.end_node_id) for one in of_type(found, "NEXT_CHUNK")] == [
        ("chunk0", "chunk1"),
        ("chunk1", "chunk2"),
    ]
    assert {one.end_node_id for one in of_type(found, "FROM_DOCUMENT")} == {"document"}


def test_entity_knows_its_places_in_each_chunk(found: Neo4jGraph, paragraphs: list[str]) -> None:
    places = {one.end_node_id: one.properties for one in of_type(found, "FROM_CHUNK") if "solheim" in one.start_node_id}
    assert list(places) == ["chunk0", "chunk2"]
    starts, ends = places["chunk0"]["starts"], places["chunk0"]["ends"]
    assert isinstance(starts, list)
    assert isinstance(ends, list)
    assert [paragraphs[0][int(start) : int(end)] for start, end in zip(starts, ends, strict=True)] == [
        "Ingrid Solheim",
        "Solheim",
    ]


def test_relationship_has_its_evidence(found: Neo4jGraph) -> None:
    (work,) = [one for one in of_type(found, "Work_For") if one.start_node_id == "peop/marta-figueira"]
    assert str(work.properties["evidence"]).startswith("Marta Figueira, a spokeswoman")
    assert 0 < float(str(work.properties["score"])) <= 1


def test_chunks_are_left_out_if_asked(news: Extractor, paragraphs: list[str], graph: KnowledgeGraph) -> None:
    extractor = RelatumExtractor(news, create_lexical_graph=False)
    found = asyncio.run(extractor.run(chunks=chunks_of(paragraphs)))
    assert len(found.nodes) == len(graph.nodes)
    assert triples_of(found) == graph.triples()
    assert not of_type(found, "FROM_CHUNK")
    config = LexicalGraphConfig(node_to_chunk_relationship_type="IN")
    linked = asyncio.run(extractor.run(chunks=chunks_of(paragraphs), lexical_graph_config=config))
    assert {one.end_node_id for one in of_type(linked, "IN")} == {"chunk0", "chunk1", "chunk2"}


def test_document_without_chunks_has_no_entities(news: Extractor) -> None:
    assert asyncio.run(RelatumExtractor(news).run(chunks=TextChunks(chunks=[]))) == Neo4jGraph()


def test_threshold_is_checked_and_used(news: Extractor, paragraphs: list[str]) -> None:
    with pytest.raises(ValueError, match="threshold is 2; expected a score from 0 to 1"):
        RelatumExtractor(news, threshold=2)
    strict = RelatumExtractor(news, threshold=0.8, create_lexical_graph=False)
    found = asyncio.run(strict.run(chunks=chunks_of(paragraphs)))
    assert found.relationships
    assert all(float(str(one.properties["score"])) >= 0.8 for one in found.relationships)


def test_pipeline_runs_from_text_to_writer(news: Extractor, paragraphs: list[str], graph: KnowledgeGraph) -> None:
    writer, pipeline = Kept(), Pipeline()
    pipeline.add_component(FixedSizeSplitter(chunk_size=4000), "splitter")
    pipeline.add_component(RelatumExtractor(news), "extractor")
    pipeline.add_component(writer, "writer")
    pipeline.connect("splitter", "extractor", {"chunks": "splitter"})
    pipeline.connect("extractor", "writer", {"graph": "extractor"})
    inputs = {"splitter": {"text": "\n".join(paragraphs)}, "extractor": {"document_info": {"path": "a.txt"}}}
    asyncio.run(pipeline.run(inputs))
    assert sorted(triples_of(writer.graph)) == sorted(graph.triples())
    labels = {node.label for node in graph.nodes}
    assert {node.label for node in writer.graph.nodes} == {"Document", "Chunk", *labels}


def test_simple_pipeline_takes_the_extractor_in_place_of_its_own(
    news: Extractor, paragraphs: list[str], graph: KnowledgeGraph
) -> None:
    writer = Kept()
    with neo4j.GraphDatabase.driver("bolt://127.0.0.1:1") as driver:  # connects when it is first used
        simple = SimpleKGPipeline(
            llm=NoLLM("none"),
            driver=driver,
            embedder=OneVector(),
            schema="FREE",
            from_file=False,
            kg_writer=writer,
            perform_entity_resolution=False,
        )
        simple.runner.pipeline.set_component("extractor", RelatumExtractor(news))
        asyncio.run(simple.run_async(text="\n".join(paragraphs)))
    assert sorted(triples_of(writer.graph)) == sorted(graph.triples())
    (chunk,) = [node for node in writer.graph.nodes if node.label == "Chunk"]
    assert chunk.embedding_properties["embedding"]
