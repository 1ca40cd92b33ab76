from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relatum.data.corpus import open_corpus
from relatum.data.documents import from_words
from relatum.data.fitting import crossing_relations
from relatum.data.formats.docred import FORMAT
from relatum.data.problems import Problems
from relatum.data.records import BadRecord
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

ReadAs = Callable[[str, str | bytes], tuple[list[Document], Problems]]

# As Re-DocRED has it, shortened.
RECORD: dict[str, Any] = {
    "title": "Willi Schneider",
    "vertexSet": [
        [
            {
                "type": "PER",
                "pos": [0, 2],
                "name": "Willi Schneider",
                "sent_id": 0,
                "global_pos": [0, 0],
                "index": "0_0",
            },
            {"name": "Schneider", "pos": [0, 1], "sent_id": 1, "type": "PER", "global_pos": [6, 6], "index": "0_1"},
        ],
        [{"name": "Kyrgyz SSR", "pos": [4, 6], "sent_id": 0, "type": "LOC", "global_pos": [4, 4], "index": "1_0"}],
        [{"name": "2004", "pos": [3, 4], "sent_id": 1, "type": "TIME", "global_pos": [10, 10], "index": "2_0"}],
    ],
    "labels": [
        {"r": "P27", "h": 0, "t": 1, "evidence": [0]},
        {"r": "P569", "h": 0, "t": 2, "evidence": []},
        {"r": "P570", "h": 1, "t": 2, "evidence": [0, 1]},
    ],
    "sents": [["Willi", "Schneider", "is", "from", "Kyrgyz", "SSR", "."], ["Schneider", "won", "in", "2004", "."]],
}
WILLI, AGAIN, KYRGYZ, YEAR = (
    Entity(Span(start, end), label)
    for start, end, label in ((0, 2, "PER"), (7, 8, "PER"), (4, 6, "LOC"), (10, 11, "TIME"))
)
DOCUMENT = from_words(
    "Willi Schneider",
    RECORD["sents"],
    Annotation(
        (WILLI, AGAIN, KYRGYZ, YEAR),
        (Relation(WILLI, KYRGYZ, "P27"), Relation(AGAIN, YEAR, "P569"), Relation(KYRGYZ, YEAR, "P570")),
    ),
    [[WILLI.span, AGAIN.span]],
)
DOCUMENT = replace(DOCUMENT, attributes=(Attribute(DOCUMENT.annotation.relations[2], "evidence", "0 1"),))


def test_docred_reads_clusters_and_relations_of_the_nearest_mentions(read_as: ReadAs) -> None:
    documents, problems = read_as("docred", json.dumps([RECORD]))
    assert documents == [DOCUMENT]
    assert not problems.count
    assert not problems.remarks


def test_docred_reads_a_relation_in_each_sentence_that_is_evidence(read_as: ReadAs) -> None:
    sentences = [["a", "b"]] * 3
    vertices = [[{"name": "", "pos": [at, at + 1], "sent_id": n, "type": "X"} for n in range(3)] for at in (0, 1)]
    record = {"title": "t", "sents": sentences, "vertexSet": vertices}
    for evidence, starts in (([], [0, 4, 8]), ([1], [4]), ([0, 2], [0, 8])):
        label = {"h": 0, "t": 1, "r": "R", "evidence": evidence}
        (document,), _ = read_as("docred", json.dumps([{**record, "labels": [label]}]))
        assert [relation.head.span.start for relation in document.annotation.relations] == starts
        assert not document.attributes


def test_docred_takes_the_names_of_relations_from_the_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "rel_info.json").write_text(json.dumps({"P27": "country of citizenship"}), encoding="utf-8")
    (tmp_path / "dev.json").write_text(json.dumps([RECORD]), encoding="utf-8")
    corpus = open_corpus(tmp_path)
    assert corpus.format_names == "docred"
    problems = Problems()
    (document,) = corpus.parts[0].read(problems)
    assert [relation.label for relation in document.annotation.relations] == ["country of citizenship", "P569", "P570"]
    (tmp_path / "rel_info.json").write_text("[", encoding="utf-8")
    list(corpus.parts[0].read(problems))
    assert str(problems.kept[0]).startswith(str(tmp_path / "rel_info.json"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sents": [[]]}, "vertexSet[0][0].pos: found [0, 2]; expected 0 <= start < end <= 0, in words"),
        ({"sents": ...}, "expected the key 'sents'"),
        ({"vertexSet": [[{"pos": [0, 9], "sent_id": 0, "type": "X"}]]}, "expected 0 <= start < end <= 7, in words"),
        ({"vertexSet": [[{"pos": [0, 1], "sent_id": 2, "type": "X"}]]}, "found 2; expected a number of at most 1"),
        ({"vertexSet": [[{"pos": [0, 1], "sent_id": 0}]]}, "expected the key 'type'"),
        ({"labels": [{"h": 3, "t": 0, "r": "X"}]}, "labels[0].h: found 3; expected a number of at most 2"),
        ({"labels": [{"h": 0, "t": 1}]}, "expected the key 'r'"),
        ({"labels": [{"h": 0, "t": 1, "r": "X", "evidence": [9]}]}, "evidence[0]: found 9"),
        ({"labels": [{"h": 0, "t": 1, "r": "X", "mentions": [[0, 1]]}]}, "mentions[0][1]: found 1"),
        ({"clusters": [[[0, 99]]]}, "clusters[0][0]: found [0, 99]"),
    ],
)
def test_docred_reports_what_is_wrong_with_a_record(read_as: ReadAs, changes: dict[str, Any], message: str) -> None:
    bad = {key: value for key, value in {**RECORD, **changes}.items() if value is not ...}
    documents, problems = read_as("docred", json.dumps([{**RECORD, "title": "good"}, bad]))
    assert len(documents) == 1
    assert message in str(problems.kept[0])


def test_docred_counts_what_it_does_not_read(read_as: ReadAs) -> None:
    mention = {"pos": [0, 1], "sent_id": 0, "type": "X", "link": 1}
    vertices = [[mention], [mention], []]
    labels = [{"h": 0, "t": 2, "r": "X"}, {"h": 0, "t": 1, "r": "X", "sure": True}]
    (document,), problems = read_as("docred", json.dumps([{**RECORD, "vertexSet": vertices, "labels": labels, "n": 1}]))
    assert document.annotation.relations == ()
    assert document.metadata == {"n": 1}
    assert [line.partition(" (first")[0].partition(", beyond")[0] for line in problems.remark_lines()] == [
        "2 × mention with keys that are not read",
        "1 × mention that has place and type of another, read once",
        "1 × relation between concepts left out, since a concept has no mention",
        "1 × relation with keys that are not read",
        "1 × relation between concepts left out, since both concepts have only the same mention",
    ]


def test_docred_writes_what_it_reads(tmp_path: Path, read_as: ReadAs) -> None:
    FORMAT.write(tmp_path / "a.json", [DOCUMENT])
    written = (tmp_path / "a.json").read_text(encoding="utf-8")
    (record,) = json.loads(written)
    for vertex in RECORD["vertexSet"]:
        for mention in vertex:
            mention.pop("global_pos", None)
            mention.pop("index", None)
    RECORD["labels"][1]["evidence"] = [1]
    assert record == RECORD
    assert read_as("docred", written)[0] == [DOCUMENT]


def test_docred_writes_pairs_of_mentions_and_clusters_that_its_own_keys_cannot_say(tmp_path: Path) -> None:
    far = Relation(DOCUMENT.annotation.entities[1], DOCUMENT.annotation.entities[2], "P27")
    clusters = (*DOCUMENT.clusters, (Span(0, 5), Span(6, 15)))
    document = replace(
        DOCUMENT, annotation=replace(DOCUMENT.annotation, relations=(far,)), attributes=(), clusters=clusters
    )
    FORMAT.write(tmp_path / "a.json", [document])
    (record,) = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert record["labels"] == [{"h": 0, "t": 1, "r": "P27", "evidence": [], "mentions": [[1, 0]]}]
    assert record["clusters"] == [[[0, 2], [7, 8]], [[0, 1], [1, 2]]]
    assert list(FORMAT.read(tmp_path / "a.json", Problems())) == [document]


def test_docred_refuses_evidence_that_is_no_sentence() -> None:
    bad = replace(DOCUMENT, attributes=(Attribute(DOCUMENT.annotation.relations[0], "evidence", "7"),))
    with pytest.raises(BadRecord, match="numbers of sentences"):
        FORMAT.check(bad)  # type: ignore[misc]


# Counts in the table of docs/data.md.
@pytest.mark.parametrize(
    ("name", "n_mentions", "n_relations", "n_crossing", "n_clusters"),
    [("dev_revised", 13153, 17770, 9357, 1881), ("test_revised", 12949, 17830, 9354, 1734)],
)
@pytest.mark.slow
def test_re_docred_is_read_whole(
    shared_data: Path, name: str, n_mentions: int, n_relations: int, n_crossing: int, n_clusters: int
) -> None:
    problems = Problems()
    documents = list(FORMAT.read(shared_data / "redocred" / f"{name}.json", problems))
    problems.raise_if_any()
    assert not any("left out" in remark for remark in problems.remarks)
    assert len(documents) == 500
    assert sum(len(document.annotation.entities) for document in documents) == n_mentions
    assert sum(len(document.annotation.relations) for document in documents) == n_relations
    assert sum(len(crossing_relations(document)) for document in documents) == n_crossing
    assert sum(len(document.clusters) for document in documents) == n_clusters
