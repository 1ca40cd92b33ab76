"""An extractor of entities and relations for the pipelines of neo4j-graphrag."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import validate_call

from relatum.errors import MissingExtraError
from relatum.extractor.finding import DEFAULT_MODEL
from relatum.extractor.result import check_threshold
from relatum.graph import KnowledgeGraph
from relatum.integrations.shared import (
    ModelName,
    TextGraph,
    best_score,
    evidence_properties,
    load,
    mention_properties,
    merge_texts,
    read_texts,
)

try:
    from neo4j_graphrag.components.entity_relation_extractor import EntityRelationExtractor, OnError
    from neo4j_graphrag.components.lexical_graph import LexicalGraphBuilder
    from neo4j_graphrag.components.schema import GraphSchema
    from neo4j_graphrag.components.types import (
        DocumentInfo,
        LexicalGraphConfig,
        Neo4jGraph,
        Neo4jNode,
        Neo4jRelationship,
        TextChunk,
        TextChunks,
    )
except ImportError:
    raise MissingExtraError("relatum.integrations.neo4j_graphrag", "neo4j") from None


class RelatumExtractor(EntityRelationExtractor):
    """Finds entities and relations in the chunks of a document, without a language model.

    The chunks are merged as one document of a `KnowledgeGraph`. The properties of a node are its `id`, which is the
    same in every document, its name, the number of its mentions and the best score. Its relationship to a chunk has the
    offsets there. A relationship between entities has a score, offsets, the sentence that states it, and the number of
    such places.
    """

    def __init__(
        self,
        model: ModelName = DEFAULT_MODEL,
        device: str | None = None,
        threshold: float | None = None,
        create_lexical_graph: bool = True,
    ) -> None:
        """Load a model by its name or folder, or take an `Extractor`."""
        super().__init__(on_error=OnError.RAISE, create_lexical_graph=create_lexical_graph)
        if threshold is not None:
            check_threshold(threshold)
        self.extractor, self.threshold = load(model, device), threshold

    @validate_call
    async def run(
        self,
        chunks: TextChunks,
        document_info: DocumentInfo | None = None,
        lexical_graph_config: LexicalGraphConfig | None = None,
        schema: GraphSchema | None = None,
        **kwargs: Any,
    ) -> Neo4jGraph:
        """Return the graph of a document; with `create_lexical_graph` it has nodes for the chunks and the document.

        The model's labels are fixed: a `schema` does not change what is found. The component `GraphPruning` removes
        what a schema does not have.
        """
        del schema, kwargs
        config = lexical_graph_config or LexicalGraphConfig()
        builder = LexicalGraphBuilder(config=config)
        graph = Neo4jGraph()
        if self.create_lexical_graph:
            graph = (await builder.run(text_chunks=chunks, document_info=document_info)).graph
        texts = [chunk.text for chunk in chunks.chunks]
        extractions = await asyncio.to_thread(read_texts, self.extractor, texts, self.threshold)
        found, parts = merge_texts(extractions, ["document"] * len(texts))
        graph.nodes += _nodes(found)
        graph.relationships += _relationships(found)
        if self.create_lexical_graph or lexical_graph_config is not None:
            for chunk, part in zip(chunks.chunks, parts, strict=True):
                graph.relationships += _links(part, chunk, config)
        return graph


def _nodes(graph: KnowledgeGraph) -> list[Neo4jNode]:
    nodes = []
    for node in graph.nodes:
        score = best_score(node.mentions)
        properties: dict[str, Any] = {"id": node.id, "name": node.name, "count": node.count, **score}
        nodes.append(Neo4jNode(id=node.id, label=node.label, properties=properties))
    return nodes


def _relationships(graph: KnowledgeGraph) -> list[Neo4jRelationship]:
    return [
        Neo4jRelationship(
            start_node_id=edge.head,
            end_node_id=edge.tail,
            type=edge.label,
            properties=evidence_properties(edge.evidence),
        )
        for edge in graph.edges
    ]


def _links(part: TextGraph, chunk: TextChunk, config: LexicalGraphConfig) -> list[Neo4jRelationship]:
    """Return the relationships from the entities in a chunk to the chunk."""
    return [
        Neo4jRelationship(
            start_node_id=node.id,
            end_node_id=chunk.chunk_id,
            type=config.node_to_chunk_relationship_type,
            properties=mention_properties(mentions),
        )
        for node, mentions in part.nodes
    ]
