"""Merging mentions of many documents into nodes, and relations into edges."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import Any

import pytest

from relatum.extractor.result import Extraction
from relatum.graph import GraphBuilder, KnowledgeGraph
from relatum.graph.names import full_names, node_id, normalise
from relatum.types import Annotation, Document, Entity, Relation, Span


def read(
    text: str, names: Iterable[tuple[str, str]], relations: Iterable[tuple[int, int, str]] = (), id: str = ""
) -> Extraction:
    """Make an extraction: names with their labels, in the order of the text, and relations between their numbers."""
    entities: list[Entity] = []
    at = 0
    for name, label in names:
        at = text.index(name, at)
        entities.append(Entity(Span(at, at + len(name)), label, score=0.5 + len(entities) / 100))
    found = tuple(Relation(entities[head], entities[tail], label, 0.75) for head, tail, label in relations)
    sentences = []
    start = 0
    for sentence in text.split(". "):
        sentences.append(Span(start, start + len(sentence)))
        start += len(sentence) + 2
    return Extraction.of(text, Annotation(tuple(entities), found), id, sentences)


FIRST = read(
    "Ada Marsh runs the Tarn Bank. Marsh lives in Oldhaven",
    [("Ada Marsh", "Peop"), ("Tarn Bank", "Org"), ("Marsh", "Peop"), ("Oldhaven", "Loc")],
    [(0, 1, "Work_For"), (2, 3, "Live_In")],
    "first",
)
SECOND = read(
    "The Tarn  Bank's chief is ADA MARSH",
    [("The Tarn  Bank's", "Org"), ("ADA MARSH", "Peop")],
    [(1, 0, "Work_For")],
    "second",
)


def test_names_that_differ_in_spaces_case_article_and_possessive_are_one_node() -> None:
    graph = KnowledgeGraph.of([FIRST, SECOND])
    assert [(node.id, node.name, node.label, node.count) for node in graph.nodes] == [
        ("peop/ada-marsh", "Ada Marsh", "Peop", 3),
        ("org/tarn-bank", "Tarn Bank", "Org", 2),
        ("loc/oldhaven", "Oldhaven", "Loc", 1),
    ]
    assert graph.triples() == [("Ada Marsh", "Work_For", "Tarn Bank"), ("Ada Marsh", "Live_In", "Oldhaven")]
    assert [edge.count for edge in graph.edges] == [2, 1]


def test_threshold_leaves_out_names_and_their_relations() -> None:
    graph = KnowledgeGraph.of([FIRST], threshold=0.505)  # "Ada Marsh" has 0.5, all relations 0.75
    assert graph.triples() == [("Marsh", "Live_In", "Oldhaven")]
    assert [node.name for node in graph.nodes] == ["Tarn Bank", "Marsh", "Oldhaven"]
    assert not KnowledgeGraph.of([FIRST], threshold=0.8).nodes


def test_evidence_says_the_document_the_names_and_the_sentence() -> None:
    (work, live) = KnowledgeGraph.of([FIRST, SECOND]).edges
    assert [(one.document, one.start, one.end, one.text) for one in work.evidence] == [
        ("first", 0, 28, "Ada Marsh runs the Tarn Bank"),
        ("second", 0, 35, "The Tarn  Bank's chief is ADA MARSH"),
    ]
    (evidence,) = live.evidence
    assert (evidence.head.text, evidence.head.start, evidence.tail.text) == ("Marsh", 30, "Oldhaven")
    assert evidence.text == "Marsh lives in Oldhaven"
    assert live.score == 0.75


def test_a_relation_across_sentences_has_both_as_evidence() -> None:
    text = "Ada Marsh left. She moved. She went to Oldhaven. It rained"
    extraction = read(text, [("Ada Marsh", "Peop"), ("Oldhaven", "Loc")], [(0, 1, "Live_In")])
    (edge,) = extraction.to_graph().edges
    assert edge.evidence[0].text == "Ada Marsh left. She moved. She went to Oldhaven"


def test_evidence_has_no_sentence_if_the_sentences_are_not_known() -> None:
    (edge, _) = KnowledgeGraph.of([Extraction(FIRST.document)]).edges
    assert (edge.evidence[0].start, edge.evidence[0].end, edge.evidence[0].text) == (None, None, None)


def test_annotated_documents_are_merged_too_with_their_own_sentences() -> None:
    annotation = Annotation((one := Entity(Span(0, 3), "Peop"), two := Entity(Span(9, 14), "Loc")))
    related = Annotation(annotation.entities, (Relation(one, two, "Live_In"),))
    words = (Span(0, 3), Span(4, 8), Span(9, 14), Span(15, 16))
    (edge,) = KnowledgeGraph.of([Document("d", "Ada left Paris .", related, words, (Span(0, 4),))]).edges
    assert (edge.score, edge.evidence[0].text) == (None, "Ada left Paris .")


def test_a_fragmented_mention_is_named_by_its_fragments() -> None:
    entity = Entity(Span(0, 19), "Org", (Span(0, 5), Span(15, 19)))
    (node,) = KnowledgeGraph.of([Document("d", "North and West Bank", Annotation((entity,)))]).nodes
    assert node.name == "North Bank"


def test_extractions_without_an_id_are_known_by_their_number() -> None:
    graph = KnowledgeGraph.of([FIRST.with_id(""), SECOND.with_id("")])
    assert [evidence.document for evidence in graph.edges[0].evidence] == ["1", "2"]


def test_nodes_do_not_depend_on_the_order_of_the_documents() -> None:
    third = read("Ada Marsh met Ada Marsh", [("Ada Marsh", "Peop"), ("Ada Marsh", "Peop")], [], "third")
    graphs = [KnowledgeGraph.of(order) for order in permutations([FIRST, SECOND, third])]
    assert (
        len({frozenset((node.id, node.name, node.label, node.count) for node in graph.nodes) for graph in graphs}) == 1
    )


def test_merging_graphs_is_merging_their_documents() -> None:
    assert FIRST.to_graph() | SECOND.to_graph() == KnowledgeGraph.of([FIRST, SECOND])
    assert FIRST.to_graph().merge() == FIRST.to_graph()


@pytest.mark.parametrize(
    ("names", "joined"),
    [
        (["ingrid solheim", "solheim"], {"solheim": "ingrid solheim"}),
        (["ingrid solheim", "lars solheim", "solheim"], {}),  # ambiguous
        (
            ["dr ingrid solheim", "ingrid solheim", "solheim"],
            dict.fromkeys(["ingrid solheim", "solheim"], "dr ingrid solheim"),
        ),
        (["ingrid solheim", "ingrid"], {}),  # the first word
        (["ingrid solheim", "heim"], {}),  # no whole word
    ],
)
def test_a_short_name_joins_the_one_longer_name_that_ends_in_it(names: list[str], joined: dict[str, str]) -> None:
    assert full_names(names) == {name: joined.get(name, name) for name in names}


def test_a_short_name_does_not_join_a_longer_name_of_another_type_or_document() -> None:
    text = "Ada Marsh left the Marsh"
    extraction = read(text, [("Ada Marsh", "Peop"), ("Marsh", "Loc")])
    other = read("Marsh came", [("Marsh", "Peop")])
    graph = KnowledgeGraph.of([extraction, other])
    assert [node.id for node in graph.nodes] == ["peop/ada-marsh", "loc/marsh", "peop/marsh"]


@pytest.mark.parametrize(
    ("name", "normalised"),
    [
        ("The\n Bergen  Shipping Company's", "bergen shipping company"),
        ("a Bank’s", "bank"),
        ("Marta Figueira", "marta figueira"),
        ("Lloyd's of London", "lloyd's of london"),
        ("The", "the"),
        ("'s", "'s"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("Joa\u0303o", "jo\xe3o"),
    ],
)
def test_names_are_normalised(name: str, normalised: str) -> None:
    assert normalise(name) == normalised


def test_node_ids_are_readable_and_differ_where_names_do() -> None:
    assert node_id("Org", "bergen shipping company") == "org/bergen-shipping-company"
    assert node_id("Peop", "joão sarmento") == "peop/joão-sarmento"
    names = ["a b", "a-b", "a/b", "a--b", "!", "?", "\ud800", "a-b-00000000", " ", ".", "#x?y", "x y"]
    names.append(node_id("X", "a-b").removeprefix("x/").replace("-", " "))
    ids = [node_id("X", name) for name in names]
    assert len(set(ids)) == len(ids)
    assert all("/" not in id.removeprefix("x/") for id in ids)


def test_types_that_differ_in_case_only_are_one() -> None:
    small, large = (read("Oslo", [("Oslo", label)]) for label in ("loc", "LOC"))
    assert KnowledgeGraph.of([small, large]).nodes[0].label == KnowledgeGraph.of([large, small]).nodes[0].label == "LOC"


def test_keep_leaves_the_best_evidence_and_counts_the_rest() -> None:
    builder = GraphBuilder(keep=2)
    for number, score in enumerate([0.3, 0.9, 0.9, 0.5, 0.9]):
        head, tail = Entity(Span(0, 1), "A", score=score), Entity(Span(2, 3), "B")
        relation = Relation(head, tail, "r", score)
        builder.add(Document(f"d{number}", "x y", Annotation((head, tail), (relation,))))
    graph = builder.build()
    (edge,) = graph.edges
    assert [one.document for one in edge.evidence] == ["d1", "d2"]
    assert (edge.count, edge.left_out, edge.score) == (5, 3, 0.9)
    assert [(node.count, node.left_out, len(node.mentions)) for node in graph.nodes] == [(5, 3, 2), (5, 3, 2)]
    again = graph.merge(graph, keep=1)
    assert (again.edges[0].count, again.edges[0].left_out, again.nodes[0].count) == (10, 9, 10)


def test_arguments_of_other_kinds_are_refused() -> None:
    wrong: Any = ["a text"]
    with pytest.raises(TypeError, match="expected an Extraction or a Document, found str"):
        KnowledgeGraph.of(wrong)
    single: Any = Document("1", "Oslo.")
    with pytest.raises(TypeError, match="expected a list of extractions, found a single Document"):
        KnowledgeGraph.of(single)
    with pytest.raises(ValueError, match="keep is 0; expected at least 1"):
        KnowledgeGraph.of([], keep=0)


def test_a_graph_prints_its_triples() -> None:
    graph = KnowledgeGraph.of([FIRST, SECOND])
    assert repr(graph) == "<KnowledgeGraph: 3 nodes, 2 edges>"
    assert str(graph) == (
        "3 nodes, 2 edges\n  Ada Marsh —Work_For→ Tarn Bank (0.75 ×2)\n  Ada Marsh —Live_In→ Oldhaven (0.75)"
    )


def test_a_mention_of_white_space_is_a_node_like_any_other() -> None:
    graph = KnowledgeGraph.of([Document("d", "a  b", Annotation((Entity(Span(1, 3), "A"),)))])
    assert graph.nodes[0].name == ""
    assert KnowledgeGraph.from_dict(graph.to_dict()) == graph
