from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.data.formats import get_format
from relatum.data.formats.base import natural_order
from relatum.data.problems import Problems
from relatum.types import Annotation, Document, Entity, Relation, Span

DIGITS = st.text("01²٣a-/", max_size=6)


def test_natural_order_compares_numbers_as_numbers() -> None:
    names = ["", "9", "10", "a", "a/2", "a/10", "a/b", "train", "train-2", "train-2b", "train-10", "train-10a"]
    assert sorted(sorted(names), key=natural_order) == names


def test_natural_order_tells_equal_numbers_apart_by_their_digits() -> None:
    assert sorted(["a2", "a002", "a02", "a1"], key=natural_order) == ["a1", "a002", "a02", "a2"]


@given(st.lists(st.text(max_size=5) | DIGITS | st.just("9" * 5000) | st.just("\udc80")))
def test_natural_order_can_order_any_names(names: list[str]) -> None:
    backwards = names[::-1]
    assert sorted(backwards, key=natural_order) == sorted(names, key=natural_order)


@given(st.text("ab/-", max_size=3), st.integers(0, 10**20), st.integers(0, 10**20))
def test_natural_order_agrees_with_the_numbers(stem: str, one: int, other: int) -> None:
    assert (natural_order(f"{stem}{one}.x") < natural_order(f"{stem}{other}.x")) == (one < other)


@pytest.mark.parametrize("name", ["jsonl", "brat", "label-studio", "doccano", "docbin"])
def test_format_keeps_entities_inside_one_another_and_several_relations_of_a_pair(name: str, tmp_path: Path) -> None:
    text = "the University of New York in New York"
    outer, same = Entity(Span(4, 26), "Org", id="e1"), Entity(Span(4, 26), "Loc", id="e2")
    inner, crossing = Entity(Span(18, 26), "Loc", id="e3"), Entity(Span(22, 38), "Org", id="e4")
    relations = (
        Relation(outer, inner, "Based_In"),
        Relation(outer, inner, "Named_After"),
        Relation(inner, outer, "Based_In"),
        Relation(same, outer, "Based_In"),
        Relation(same, crossing, "Named_After"),
    )
    annotation = Annotation((outer, same, inner, crossing), relations)
    words = tuple(Span(match.start(), match.end()) for match in re.finditer(r"\S+", text))
    document = Document("one", text, annotation, words, (Span(0, len(words)),))
    format = get_format(name)
    path = tmp_path / f"file{format.suffix}"
    format.write(path, iter([document]))
    problems = Problems()
    (again,) = format.read(path, problems)
    problems.raise_if_any("")
    assert again.text == text
    assert set(again.annotation.entities) == set(annotation.entities)
    assert set(again.annotation.relations) == set(relations)
    assert len(again.annotation.relations) == len(relations)
