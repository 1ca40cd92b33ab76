"""An extractor of paths for LlamaIndex's `PropertyGraphIndex`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import Field, PrivateAttr

from relatum.errors import MissingExtraError
from relatum.extractor.extractor import Extractor
from relatum.extractor.finding import DEFAULT_MODEL
from relatum.graph import KnowledgeGraph
from relatum.integrations.shared import (
    ModelName,
    TextGraph,
    evidence_properties,
    load,
    mention_properties,
    merge_texts,
    name_of,
    read_texts,
)

try:
    from llama_index.core.graph_stores.types import KG_NODES_KEY, KG_RELATIONS_KEY, EntityNode, Relation
    from llama_index.core.schema import BaseNode, MetadataMode, TransformComponent
except ImportError:
    raise MissingExtraError("relatum.integrations.llama_index", "llama-index") from None


class RelatumExtractor(TransformComponent):
    """Adds the entities and relations of each node's text to the node, as the path extractors of LlamaIndex do.

    The nodes of one call are read together, and their mentions are merged as in a `KnowledgeGraph`. An entity is known
    by its name in LlamaIndex. Where entities of several types have the same name, their types are added to the names.

    Properties hold offsets in the text of the node, scores, and the sentence that states a relation.
    """

    model: str = DEFAULT_MODEL
    device: str | None = None
    threshold: float | None = Field(default=None, ge=0, le=1)
    batch_size: int | None = Field(default=None, ge=1)
    _extractor: Extractor | None = PrivateAttr(default=None)

    def __init__(
        self,
        model: ModelName = DEFAULT_MODEL,
        device: str | None = None,
        threshold: float | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Name a model, which is loaded when it is first needed, or give an `Extractor`.

        The model's name or folder is what `to_dict` stores of it.
        """
        fields: dict[str, Any] = {"device": device, "threshold": threshold, "batch_size": batch_size}
        fields["model"] = name_of(model)
        super().__init__(**fields)
        self._extractor = model if isinstance(model, Extractor) else None

    @classmethod
    def class_name(cls) -> str:
        return "RelatumExtractor"

    def __call__(self, nodes: Sequence[BaseNode], **_options: Any) -> Sequence[BaseNode]:
        """Add the entities and relations of every node to its metadata."""
        if self._extractor is None:
            self._extractor = load(self.model, self.device)
        texts = [node.get_content(metadata_mode=MetadataMode.NONE) for node in nodes]
        extractions = read_texts(self._extractor, texts, self.threshold, self.batch_size)
        graph, parts = merge_texts(extractions, [node.ref_doc_id or node.node_id for node in nodes])
        names = _distinct_names(graph)
        for node, part in zip(nodes, parts, strict=True):
            _add(node, part, names)
        return nodes

    async def acall(self, nodes: Sequence[BaseNode], **options: Any) -> Sequence[BaseNode]:
        """Do the same in a thread."""
        return await asyncio.to_thread(self.__call__, nodes, **options)


def _distinct_names(graph: KnowledgeGraph) -> dict[str, str]:
    """Return the name of each node by its id; names that several nodes have are followed by the type."""
    times = Counter(node.name for node in graph.nodes)
    return {node.id: node.name if times[node.name] == 1 else f"{node.name} ({node.label})" for node in graph.nodes}


def _add(node: BaseNode, part: TextGraph, names: dict[str, str]) -> None:
    """Add the part of the graph that a text has to what other extractors have found in it."""
    entities = node.metadata.pop(KG_NODES_KEY, [])
    relations = node.metadata.pop(KG_RELATIONS_KEY, [])
    metadata = dict(node.metadata)
    ids = {}
    for one, mentions in part.nodes:
        properties = {**metadata, **mention_properties(mentions)}
        entity = EntityNode(name=names[one.id], label=one.label, properties=properties)
        ids[one.id] = entity.id
        entities.append(entity)
    for edge, evidence in part.edges:
        properties = {**metadata, **evidence_properties(evidence)}
        relations.append(
            Relation(label=edge.label, source_id=ids[edge.head], target_id=ids[edge.tail], properties=properties)
        )
    node.metadata[KG_NODES_KEY], node.metadata[KG_RELATIONS_KEY] = entities, relations
