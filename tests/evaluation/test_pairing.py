from __future__ import annotations

import pytest

from relatum.errors import DataError, RelatumError
from relatum.evaluation.pairing import pair_documents
from relatum.types import Document


def documents(**texts: str) -> list[Document]:
    return [Document(id, text) for id, text in texts.items()]


def ids(pairs: tuple[tuple[Document, Document], ...]) -> list[tuple[str, str]]:
    return [(gold.id, found.id) for gold, found in pairs]


def test_documents_with_the_same_ids_are_matched_by_id_in_the_order_of_gold() -> None:
    found = pair_documents(documents(a="one", b="two"), documents(b="two", a="one"))
    assert found.by == "id"
    assert ids(found.documents) == [("a", "a"), ("b", "b")]


def test_documents_with_other_ids_are_matched_by_position() -> None:
    found = pair_documents(documents(a="one", b="two"), documents(x="one", y="two"))
    assert found.by == "position"
    assert ids(found.documents) == [("a", "x"), ("b", "y")]


def test_repeated_ids_are_matched_by_position() -> None:
    twice = [Document("a", "one"), Document("a", "two")]
    found = pair_documents(twice, twice)
    assert found.by == "position"
    assert [gold.text for gold, _ in found.documents] == ["one", "two"]


def test_repeated_id_on_one_side_alone_is_not_matched_by_id() -> None:
    with pytest.raises(RelatumError, match='more than once in predictions: "a"'):
        pair_documents(documents(a="one"), [Document("a", "one"), Document("a", "one")])


def test_equal_ids_with_different_texts_are_all_reported() -> None:
    gold = documents(a="Anna lives in Rome .", b="same", c="short")
    with pytest.raises(DataError) as caught:
        pair_documents(gold, documents(a="Anna lives at Rome .", b="same", c="shorter"), "g.jsonl", "p.jsonl")
    assert list(map(str, caught.value.problems)) == [
        'p.jsonl, document "a": found "at Rome ." where gold has "in Rome .", from character 11; '
        "expected the text it has in g.jsonl",
        'p.jsonl, document "c": found "er" where gold has "", from character 5; expected the text it has in g.jsonl',
    ]
    assert "relatum convert" in str(caught.value)


def test_same_texts_in_another_order_do_not_match_without_ids() -> None:
    with pytest.raises(RelatumError) as caught:
        pair_documents(documents(a="one", b="two", c="three"), documents(x="one", y="three", z="two"), "G", "P")
    message = str(caught.value)
    assert 'missing in P: "a", "b", "c"' in message
    assert 'missing in G: "x", "y", "z"' in message
    assert (
        'by position: 2 texts differ, first that of document 2: "hree" where gold has "wo", from character 1' in message
    )
    assert "relatum convert" in message


def test_missing_document_is_named_and_long_lists_are_cut_with_a_count() -> None:
    gold = [Document(f"d{i}", "same") for i in range(9)]
    with pytest.raises(RelatumError) as caught:
        pair_documents(gold, gold[:1], "G", "P")
    message = str(caught.value)
    assert 'missing in P: "d1", "d2", "d3", "d4", "d5" and 3 more' in message
    assert "number of documents: 9 in G, 1 in P" in message
    assert "missing in G" not in message
    assert "texts differ" not in message
