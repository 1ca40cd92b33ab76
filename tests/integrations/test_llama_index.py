"""`RelatumExtractor` in LlamaIndex: a property graph index with the library's own store, embeddings and LLM."""

from __future__ import annotations

import asyncio
import pickle

import pytest

pytest.importorskip("llama_index.core", reason="needs llama-index-core: pip install 'relatum[llama-index]'")

from llama_index.core import Document, MockEmbedding, PropertyGraphIndex
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import KG_NODES_KEY, KG_RELATIONS_KEY, EntityNode
from llama_index.core.ingestion import run_transformations
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode

from relatum.extractor.extractor import Extractor
from relatum.graph import KnowledgeGraph
from relatum.integrations.llama_index import RelatumExtractor


@pytest.fixture(scope="module")
def store(news: Extractor, paragraphs: list[str]) -> SimplePropertyGraphStore:
    """The graph store of an index of the three paragraphs."""
    made = SimplePropertyGraphStore()
    PropertyGraphIndex.from_documents(
        [Document(text=text, metadata={"page": number}) for number, text in enumerate(paragraphs)],
        kg_extractors=[RelatumExtractor(news)],
        property_graph_store=made,
        llm=MockLLM(),
        embed_model=MockEmbedding(embed_dim=2),
    )
    return made


def test_index_has_the_graph(store: SimplePropertyGraphStore, graph: KnowledgeGraph) -> None:
    found = [(head.id, edge.label, tail.id) for head, edge, tail in store.graph.get_triplets()]
    assert sorted(found) == sorted(graph.triples())
    entities = [node for node in store.graph.get_all_nodes() if isinstance(node, EntityNode)]
    assert {(node.name, node.label) for node in entities} == {(node.name, node.label) for node in graph.nodes}


def test_store_answers_questions_about_an_entity(store: SimplePropertyGraphStore, paragraphs: list[str]) -> None:
    triples = store.get_triplets(entity_names=["Marta Figueira"], relation_names=["Work_For"])
    ((marta, work, _),) = triples
    assert marta.properties["page"] == 1
    assert work.properties["page"] == 1
    start, end = work.properties["evidence_start"], work.properties["evidence_end"]
    assert paragraphs[1][start:end] == work.properties["evidence"]
    assert paragraphs[1][work.properties["head_start"] : work.properties["head_end"]] == "Marta Figueira"
    assert 0 < work.properties["score"] <= 1


def test_store_names_the_text_of_an_entity(store: SimplePropertyGraphStore, paragraphs: list[str]) -> None:
    (joao,) = store.get(ids=["Joao Sarmento"])
    (source,) = store.get_llama_nodes([joao.properties["triplet_source_id"]])
    assert source.get_content() == paragraphs[2].strip()
    assert source.get_content()[joao.properties["starts"][0] : joao.properties["ends"][0]] == "Joao Sarmento"


def test_extractor_keeps_what_others_have_found(news: Extractor) -> None:
    other = EntityNode(name="other")
    node = TextNode(text="Ingrid Solheim lives in Oslo.", metadata={KG_NODES_KEY: [other], "page": 1})
    (read,) = run_transformations([node], [RelatumExtractor(news)])
    assert [one.id for one in read.metadata[KG_NODES_KEY]] == ["other", "Ingrid Solheim", "Oslo"]
    assert [one.label for one in read.metadata[KG_RELATIONS_KEY]] == ["Live_In"]


def test_text_without_entities_has_empty_lists(news: Extractor) -> None:
    (node,) = asyncio.run(RelatumExtractor(news).acall([TextNode(text="")]))
    assert node.metadata == {KG_NODES_KEY: [], KG_RELATIONS_KEY: []}


def test_names_of_several_types_are_told_apart(news: Extractor) -> None:
    text = "Paris Hilton lives in Paris, France. Paris works for Hilton."
    (node,) = RelatumExtractor(news)([TextNode(text=text)])
    found = {(one.id, one.label) for one in node.metadata[KG_NODES_KEY]}
    assert {("Paris (Loc)", "Loc"), ("Paris (Peop)", "Peop"), ("France", "Loc")} <= found
    ids = {name for name, _ in found}
    assert all({one.source_id, one.target_id} <= ids for one in node.metadata[KG_RELATIONS_KEY])


def test_threshold_leaves_out_what_has_a_lower_score(news: Extractor) -> None:
    (node,) = RelatumExtractor(news, threshold=1)([TextNode(text="Ingrid Solheim lives in Oslo.")])
    assert node.metadata[KG_NODES_KEY] == []


def test_extractor_is_stored_by_the_name_of_its_model(news: Extractor) -> None:
    extractor = RelatumExtractor(news, threshold=0.5)
    stored = extractor.to_dict()
    assert stored == {
        "model": "news",
        "device": None,
        "threshold": 0.5,
        "batch_size": None,
        "class_name": "RelatumExtractor",
    }
    again = RelatumExtractor.from_dict(stored)
    assert again.to_dict() == stored
    (node,) = again([TextNode(text="Ingrid Solheim lives in Oslo.")])
    assert len(node.metadata[KG_NODES_KEY]) == 2
    assert pickle.loads(pickle.dumps(extractor)).to_dict() == stored
