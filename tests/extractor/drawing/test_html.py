"""Extractions as HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import combinations, pairwise
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from relatum.extractor.drawing.html import fragment, page
from relatum.extractor.result import Extraction
from relatum.look.colours import hue
from relatum.types import Annotation, Entity, Relation, Span


class Reader(HTMLParser):
    """The text of a fragment without its labels, what each mark holds of it, and whether all tags are closed."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.text = ""
        self.marks: list[tuple[str, str]] = []
        self._open: list[str] = []
        self._marked: list[list[str]] = []
        self._in_text = False
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "b")
        if tag == "meta":
            return
        self._open.append(tag)
        self._in_text |= tag == "p"
        if tag == "mark":
            self._marked.append([dict(attrs)["title"] or "", ""])

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag == "p":
            self._in_text = False
        if tag == "mark":
            title, text = self._marked.pop()
            if self._in_text:
                self.marks.append((title, text))

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["small"]:
            return
        if self._in_text:
            self.text += data
        for mark in self._marked:
            mark[1] += data


def made(text: str, *entities: tuple[int, int, str]) -> Extraction:
    return Extraction.of(text, Annotation(tuple(Entity(Span(start, end), label) for start, end, label in entities)))


def test_fragment_marks_entities_with_label_and_score() -> None:
    ann, acme = Entity(Span(0, 3), "Peop", score=0.98765), Entity(Span(10, 14), "Org", score=0.5)
    annotation = Annotation((ann, acme), (Relation(ann, acme, "Work_For", 0.25),))
    shown = fragment(Extraction.of("Ann runs\n Acme.", annotation, "d1"))
    assert f'<mark style="--hue: {hue("Peop")}" title="Peop, score 0.9877">Ann<small>Peop</small></mark>' in shown
    assert "<h2>d1</h2>" in shown
    below = re.sub(r"<.*?>", "", shown.partition("<ul>")[2]).rstrip()
    assert below == "Ann —Work_For→ Acme (0.25)"
    assert Reader(shown).text == "Ann runs\n Acme."


def test_fragment_escapes_everything_that_came_from_outside() -> None:
    evil = "<b>\"&'</b>"
    entity = Entity(Span(0, len(evil)), evil)
    shown = fragment(Extraction.of(evil, Annotation((entity,), (Relation(entity, entity, evil),)), evil))
    reader = Reader(shown)
    assert reader.text == evil
    assert reader.marks == [(evil, evil)]
    assert evil not in page([made(evil)], evil)


def test_fragment_nests_marks() -> None:
    text = "the North Tarn Bank fell"
    reader = Reader(fragment(made(text, (4, 19, "Org"), (4, 9, "Loc"), (4, 14, "Loc2"), (15, 19, "Kind"))))
    assert reader.text == text
    assert sorted(reader.marks) == [
        ("Kind", "Bank"),
        ("Loc", "North"),
        ("Loc2", "North Tarn"),
        ("Org", "North Tarn Bank"),
    ]


def test_fragment_keeps_neighbours_apart() -> None:
    assert Reader(fragment(made("abcd", (0, 2, "A"), (2, 4, "B")))).marks == [("A", "ab"), ("B", "cd")]


def test_fragment_marks_crossing_entities_in_parts_and_labels_them_once() -> None:
    shown = fragment(made("abcdef", (0, 4, "A"), (2, 6, "B")))
    assert Reader(shown).marks == [("B", "cd"), ("A", "abcd"), ("B", "ef")]
    assert re.findall("<small>(.)</small>", shown) == ["A", "B"]


spans = st.lists(st.tuples(st.integers(0, 11), st.integers(1, 12), st.sampled_from("ABC")), max_size=8)


@given(st.text("ab <&\n", min_size=12, max_size=12), spans)
def test_fragment_holds_the_text_and_every_entity_whatever_overlaps(
    text: str, drawn: list[tuple[int, int, str]]
) -> None:
    extraction = made(text, *((start, end, label) for start, end, label in drawn if start < end))
    shown = fragment(extraction)
    reader = Reader(shown)
    assert reader.text == text
    assert shown.count("<small>") == len(extraction.entities)
    for label in "ABC":
        marked = sum(len(part) for title, part in reader.marks if title == label)
        assert marked == sum(entity.span.width for entity in extraction.entities if entity.label == label)


def related(text: str, *ends: tuple[tuple[int, int], tuple[int, int]]) -> Extraction:
    relations = [Relation(Entity(Span(*h), "A"), Entity(Span(*t), "B"), f"r{n}", 0.5) for n, (h, t) in enumerate(ends)]
    entities = [entity for relation in relations for entity in (relation.head, relation.tail)]
    return Extraction.of(text, Annotation(tuple(entities), tuple(relations)))


def figures(extraction: Extraction) -> dict[str, ElementTree.Element]:
    """The drawings of a fragment by their classes, as XML: whatever is in the text, they are well formed."""
    drawn = re.findall("<svg.*?</svg>", fragment(extraction), re.DOTALL)
    return {one.attrib["class"]: one for one in map(ElementTree.fromstring, drawn)}


def test_relations_are_arcs_above_the_text_on_wide_pages_and_on_narrow_ones() -> None:
    text = "one two three four five six seven " * 6
    drawn = figures(related(text, ((0, 3), (8, 13)), ((4, 7), (14, 18)), ((8, 13), (178, 183))))
    assert list(drawn) == ["wide", "narrow"]
    for name, svg in drawn.items():
        arcs = svg.findall("g[@class='arc']")
        assert {arc.findtext("text") for arc in arcs} == {"r0", "r1", "r2"}
        assert len(svg.findall("g[@class='arc']/path[@class='arrow']")) == 3
        assert len(svg.findall("g[@class='chip']")) == 6  # "three" has two labels
        runs = [run.text or "" for run in svg.findall("text")]
        assert " ".join(" ".join(runs).split()) == text.strip(), name
        tops = [float(run.attrib["y"]) for run in svg.findall("text")]
        assert tops == sorted(tops)
        assert tops[-1] < float(svg.attrib["height"])
    assert drawn["wide"].findtext("g[@class='arc']/title", "").endswith("(0.50)")
    assert len(drawn["narrow"].findall("g[@class='arc']")) > len(drawn["wide"].findall("g[@class='arc']"))
    crossing = [arc.find("path[@class='bow']") for arc in drawn["wide"].findall("g[@class='arc']")[-2:]]
    assert len({re.findall(r"Q\S+ (\S+)", bow.attrib["d"])[0] for bow in crossing if bow is not None}) == 2


def test_relations_of_one_pair_and_of_entities_inside_one_another_have_places_of_their_own() -> None:
    text = "the University of New York in New York"
    outer, inner, same = Entity(Span(4, 26), "Org"), Entity(Span(18, 26), "Loc"), Entity(Span(4, 26), "Building")
    city = Entity(Span(30, 38), "Loc")
    ends = [(outer, city), (outer, city), (city, outer), (same, city), (inner, outer), (inner, outer), (same, outer)]
    relations = tuple(Relation(*pair, f"relation {number}") for number, pair in enumerate(ends))
    extraction = Extraction.of(text, Annotation((outer, inner, same, city), relations))
    for svg in figures(extraction).values():
        arcs = svg.findall("g[@class='arc']")
        assert {arc.findtext("text") for arc in arcs} == {relation.label for relation in relations}
        assert len(svg.findall("g[@class='arc']/path[@class='arrow']")) == len(relations)
        assert len(svg.findall("g[@class='chip']")) == 4
        places = svg.findall("g[@class='arc']/rect") + svg.findall("g[@class='chip']/rect")
        boxes = [[float(place.attrib[key]) for key in ("x", "y", "width", "height")] for place in places]
        for (x, y, width, height), (left, top, across, down) in combinations(boxes, 2):
            assert x >= left + across or left >= x + width or y >= top + down or top >= y + height
    listed = re.findall("<li>(.*?)</li>", fragment(extraction))
    assert len(listed) == len(relations)


def test_text_that_is_drawn_can_still_be_read_by_other_means() -> None:
    shown = fragment(related("Ann met Bo", ((0, 3), (8, 10))))
    assert '<p class="unseen">' in shown
    assert Reader(shown).text == "Ann met Bo"
    assert all("aria-hidden" in svg for svg in re.findall("<svg[^>]*>", shown))
    assert "<li>" in shown


def test_text_without_relations_or_from_right_to_left_is_not_drawn() -> None:
    assert "<svg" not in fragment(made("Ann", (0, 3, "A")))
    assert "<svg" not in fragment(related("אבג met Bo", ((0, 3), (8, 10))))


def test_drawing_escapes_everything_that_came_from_outside() -> None:
    evil = "<b>\"&'</b>"
    head, tail = Entity(Span(0, len(evil)), evil), Entity(Span(11, 11 + len(evil)), evil)
    extraction = Extraction.of(f"{evil} {evil}", Annotation((head, tail), (Relation(head, tail, evil),)))
    for svg in figures(extraction).values():
        assert evil in [text.text for text in svg.iter("text")]
        assert svg.find(".//b") is None


@given(st.text("ab <&\n\t日", min_size=12, max_size=12), spans)
def test_whatever_overlaps_is_drawn_once(text: str, drawn: list[tuple[int, int, str]]) -> None:
    entities = tuple(Entity(Span(start, end), label) for start, end, label in drawn if start < end)
    relations = tuple(Relation(one, other, "R") for one, other in pairwise(entities))
    extraction = Extraction.of(text, Annotation(entities, relations))
    for svg in figures(extraction).values():
        assert len(svg.findall("g[@class='chip']")) == len(extraction.entities)
        assert len(svg.findall("g[@class='arc']/path[@class='arrow']")) == len(extraction.relations)
        assert "".join("".join(run.text or "" for run in svg.findall("text")).split()) == "".join(text.split())


def test_page_stands_alone_and_fits_a_phone_by_day_and_night() -> None:
    whole = page([made("one"), made("two")], "Texts")
    Reader(whole)
    assert whole.count("<article") == 2
    assert "<title>Texts</title>" in whole
    assert 'name="viewport" content="width=device-width' in whole
    assert "prefers-color-scheme: dark" in whole
    assert "white-space: pre-wrap" in whole
    assert not re.search(r"https?:|url\(|<script|<link|@import", whole)
