"""The part of a graph that each text has, and the properties of its nodes and edges."""

from __future__ import annotations

from pathlib import Path

import pytest

from relatum.extractor.extractor import Extractor
from relatum.graph import Evidence, Mention
from relatum.integrations.shared import (
    TextGraph,
    evidence_properties,
    mention_properties,
    merge_texts,
    name_of,
    read_texts,
)


def test_each_text_has_the_nodes_that_it_mentions(news: Extractor, paragraphs: list[str]) -> None:
    graph, parts = merge_texts(read_texts(news, [*paragraphs, ""]))
    assert [len(part.nodes) for part in parts][3] == 0
    for text, part in zip(paragraphs, parts, strict=False):
        for _, mentions in part.nodes:
            assert all(text[one.start : one.end].split() == one.text.split() for one in mentions)
    assert sum(len(mentions) for part in parts for _, mentions in part.nodes) == sum(n.count for n in graph.nodes)
    assert sum(len(evidence) for part in parts for _, evidence in part.edges) == sum(e.count for e in graph.edges)


def test_surname_in_a_later_chunk_of_a_document_is_the_person_of_an_earlier_chunk(news: Extractor) -> None:
    chunks = ["Ingrid Solheim works for the Nordic Bank.", "Solheim lives in Oslo, Norway.", "It rained."]
    extractions = read_texts(news, chunks)
    _, apart = merge_texts(extractions)
    _, together = merge_texts(extractions, ["a", "a", "b"])

    def people(part: TextGraph) -> list[tuple[str, str, str]]:
        return [
            (node.id, chunks[int(one.document)][one.start : one.end], node.name)
            for node, mentions in part.nodes
            for one in mentions
            if node.label == "Peop"
        ]

    assert people(apart[1]) == [("peop/solheim", "Solheim", "Solheim")]
    assert people(together[0]) == [("peop/ingrid-solheim", "Ingrid Solheim", "Ingrid Solheim")]
    assert people(together[1]) == [("peop/ingrid-solheim", "Solheim", "Ingrid Solheim")]
    assert people(together[2]) == []
    _, nameless = merge_texts(extractions, ["", "", "b"])
    assert list(map(people, nameless)) == list(map(people, together))
    for number, part in enumerate(together):
        for _, evidence in part.edges:
            assert all(one.text == chunks[number][one.start : one.end] for one in evidence)


def test_relation_is_described_by_its_best_place() -> None:
    weak = Mention("a", 0, 3, "Bob", 0.5)
    strong = Mention("a", 10, 13, "Bob", 0.9)
    oslo = Mention("a", 20, 24, "Oslo", 0.9)
    found = evidence_properties([Evidence("a", weak, oslo, 0.3), Evidence("a", strong, oslo, 0.8, 5, 30, "Bob.")])
    assert found == {
        "count": 2,
        "head_start": 10,
        "head_end": 13,
        "tail_start": 20,
        "tail_end": 24,
        "evidence": "Bob.",
        "evidence_start": 5,
        "evidence_end": 30,
        "score": 0.8,
    }
    assert mention_properties([weak, strong]) == {"starts": [0, 10], "ends": [3, 13], "score": 0.9}


def test_properties_leave_out_what_is_not_known() -> None:
    bob = Mention("a", 0, 3, "Bob")
    assert evidence_properties([Evidence("a", bob, bob)]).keys() == {
        "count",
        "head_start",
        "head_end",
        "tail_start",
        "tail_end",
    }
    assert mention_properties([bob]) == {"starts": [0], "ends": [3]}


def test_relative_folder_is_not_taken_for_a_model_that_comes_with_relatum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert name_of("news") == "news"
    assert name_of(Path("news")) == str(tmp_path / "news")
