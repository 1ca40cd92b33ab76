"""What an extraction holds, and its forms."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.extractor.result import RECORD_COLUMNS, Extraction
from relatum.types import Annotation, Entity, Relation, Span

TEXT = "Zoë Marsh of the North\nTarn Bank lives in Oldhaven."
ZOE = Entity(Span(0, 9), "Peop", score=0.98765)
BANK = Entity(Span(17, 32), "Org", score=0.75)
NORTH = Entity(Span(17, 22), "Loc", score=0.5)
OLDHAVEN = Entity(Span(42, 50), "Loc", score=0.93754)
WORKS = Relation(ZOE, BANK, "Work_For", 0.66666)
LIVES = Relation(ZOE, OLDHAVEN, "Live_In", 0.25)
BASED = Relation(BANK, NORTH, "OrgBased_In", 0.9)


def found() -> Extraction:
    return Extraction.of(TEXT, Annotation((OLDHAVEN, NORTH, BANK, ZOE), (BASED, LIVES, WORKS)))


def test_extraction_is_sorted_and_numbered_by_position() -> None:
    names = [(entity.id, entity.label, entity.span.of(TEXT)) for entity in found().entities]
    assert names == [
        ("e1", "Peop", "Zoë Marsh"),
        ("e2", "Org", "North\nTarn Bank"),
        ("e3", "Loc", "North"),
        ("e4", "Loc", "Oldhaven"),
    ]
    ends = [(relation.head.id, relation.tail.id, relation.label) for relation in found().relations]
    assert ends == [("e1", "e2", "Work_For"), ("e1", "e4", "Live_In"), ("e2", "e3", "OrgBased_In")]


def test_extraction_keeps_types_of_the_same_words_and_relations_of_the_same_pair_apart() -> None:
    place = Entity(BANK.span, "Loc", score=0.6)
    ends = [
        (ZOE, BANK, "Work_For"),
        (ZOE, BANK, "Owns"),
        (ZOE, place, "Live_In"),
        (place, BANK, "Same"),
        (NORTH, place, "In"),
    ]
    relations = [Relation(*end, 0.9) for end in ends]
    extraction = Extraction.of(TEXT, Annotation((place, NORTH, BANK, ZOE), tuple(relations)))
    record = extraction.to_dict()
    assert [(one["id"], one["label"]) for one in record["entities"]] == [
        ("e1", "Peop"),
        ("e2", "Loc"),
        ("e3", "Org"),
        ("e4", "Loc"),
    ]
    assert [(one["head"], one["tail"], one["label"]) for one in record["relations"]] == [
        ("e1", "e2", "Live_In"),
        ("e1", "e3", "Owns"),
        ("e1", "e3", "Work_For"),
        ("e2", "e3", "Same"),
        ("e4", "e2", "In"),
    ]
    assert Extraction.from_dict(record) == extraction
    left = extraction.above(0.7)
    assert [(one.head.id, one.tail.id, one.label) for one in left.relations] == [
        ("e1", "e2", "Owns"),
        ("e1", "e2", "Work_For"),
    ]


def test_extraction_numbers_do_not_depend_on_the_order_or_ids_given() -> None:
    other = Extraction.of(TEXT, Annotation((ZOE, BANK, NORTH, OLDHAVEN), (LIVES, WORKS, BASED)))
    assert other.to_dict() == found().to_dict()
    renamed = Entity(ZOE.span, ZOE.label, score=ZOE.score, id="T9")
    again = Extraction.of(TEXT, Annotation((renamed,), (Relation(renamed, renamed, "Kill"),)))
    assert (again.entities[0].id, again.relations[0].head.id) == ("e1", "e1")


def test_extraction_takes_equal_entities_and_relations_for_one() -> None:
    twice = Extraction.of(TEXT, Annotation((ZOE, BANK, Entity(ZOE.span, "Peop", score=0.1)), (WORKS, WORKS)))
    assert [entity.score for entity in twice.entities] == [ZOE.score, BANK.score]
    assert len(twice.relations) == 1


def test_extraction_refuses_what_does_not_belong_to_its_text() -> None:
    with pytest.raises(RelatumError, match=r"the entity at \[42, 50\) ends beyond the text, which has 43 characters"):
        Extraction.of(TEXT[:43], Annotation((OLDHAVEN,)))
    with pytest.raises(RelatumError, match=r"Work_For relates Org at \[17, 32\), which is not among the entities"):
        Extraction.of(TEXT, Annotation((ZOE,), (WORKS,)))


def test_extraction_as_a_dict_has_exactly_these_keys_and_values() -> None:
    assert Extraction.of(TEXT, Annotation((BANK, ZOE), (WORKS,))).to_dict() == {
        "text": TEXT,
        "entities": [
            {"id": "e1", "start": 0, "end": 9, "text": "Zoë Marsh", "label": "Peop", "score": 0.9877},
            {"id": "e2", "start": 17, "end": 32, "text": "North\nTarn Bank", "label": "Org", "score": 0.75},
        ],
        "relations": [{"head": "e1", "tail": "e2", "label": "Work_For", "score": 0.6667}],
    }


def test_extraction_as_json_is_its_dict_with_letters_as_they_are() -> None:
    text = found().to_json()
    assert json.loads(text) == found().to_dict()
    assert "Zoë" in text
    assert "\n" not in text
    assert found().to_json(indent=2).startswith('{\n  "text": ')


def test_extraction_comes_back_from_its_dict() -> None:
    record = json.loads(found().to_json())
    back = Extraction.from_dict(record)
    assert back == found()
    assert back.to_dict() == record
    assert [entity.id for entity in back.entities] == ["e1", "e2", "e3", "e4"]
    assert Extraction.from_dict({"id": "d1", **record}).document.id == "d1"


def test_entities_of_an_extraction_know_their_text() -> None:
    for extraction in (found(), Extraction.from_dict(found().to_dict()), found().above(0), found().with_id("d1")):
        assert [entity.text for entity in extraction.entities] == ["Zoë Marsh", "North\nTarn Bank", "North", "Oldhaven"]
        assert [(one.head.text, one.tail.text) for one in extraction.relations] == [
            ("Zoë Marsh", "North\nTarn Bank"),
            ("Zoë Marsh", "Oldhaven"),
            ("North\nTarn Bank", "North"),
        ]
    assert found().entities[0] == ZOE, "the text is no part of what is compared"
    assert ZOE.text is None


def test_extraction_has_a_short_repr() -> None:
    assert repr(found()) == "<Extraction 'Zoë Marsh of the North\\nTarn Bank lives …': 4 entities, 3 relations>"
    assert repr(Extraction.of("", Annotation(), "d1")) == "<Extraction 'd1', '': 0 entities, 0 relations>"
    assert len(repr(Extraction.of("x" * 10_000, Annotation()))) < 100


@pytest.mark.parametrize("points", [[0xD83D], [0xDE00], [0xDCFF], [0xDE00, 0xD83D]])
def test_extraction_with_a_lone_surrogate_can_be_written_and_read_back(points: list[int]) -> None:
    half = "".join(map(chr, points))
    text = f"Zoë {half} of Oldhaven"
    start = len(text) - 8
    extraction = Extraction.of(
        text, Annotation((Entity(Span(0, 4 + len(half)), "X"), Entity(Span(start, len(text)), "Loc")))
    )
    written = extraction.to_json()
    assert "Zoë" in written
    back = Extraction.from_dict(json.loads(written.encode("utf-8")))
    assert back == extraction
    assert back.text == text
    assert [entity.text for entity in back.entities] == [f"Zoë {half}", "Oldhaven"]
    extraction.to_html().encode("utf-8")
    extraction._repr_html_().encode("utf-8")


def test_extraction_whose_halves_json_would_join_is_refused_with_a_cure_that_works() -> None:
    text = "Zoë \ud83d\ude00 \udcff"
    with pytest.raises(
        RelatumError, match=r"characters 4 and 5 of the text .*; join them before extraction: "
    ) as error:
        Extraction.of(text, Annotation()).to_json()
    cured = eval(str(error.value).partition("extraction: ")[2])
    assert cured == "Zoë 😀 \ufffd"
    Extraction.of(cured, Annotation()).to_json().encode("utf-8")


def test_extraction_of_nothing_has_all_its_forms() -> None:
    empty = Extraction.of("", Annotation())
    assert empty.to_dict() == {"text": "", "entities": [], "relations": []}
    assert Extraction.from_dict(empty.to_dict()) == empty
    assert str(empty) == "0 entities, 0 relations"
    assert "<p></p>" in empty.to_html()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": 3}, "text: found 3; expected a string"),
        ({"entities": None}, "entities: found null; expected a list"),
        ({"found": 1}, "found: found the unknown key"),
        (
            {"relations": [{"head": "e1", "tail": "e7", "label": "L"}]},
            r'relations\[0\].tail: found "e7"; expected the id',
        ),
        (
            {"entities": [{"id": "e1", "start": 0, "end": 9, "text": "Ann", "label": "P"}]},
            r'text: found "Ann"; expected',
        ),
        ({"entities": [{"id": "e1", "start": 0, "end": 99, "text": "", "label": "P"}]}, "0 <= start < end <= 51"),
        ({"entities": [{"id": "e1", "start": 0, "end": 3, "text": "Zoë", "label": "P"}] * 2}, "no other entity has"),
    ],
)
def test_extraction_refuses_a_dict_that_is_none(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RelatumError, match=f"not an extraction: .*{message}"):
        Extraction.from_dict({**found().to_dict(), **change})


def test_extraction_above_a_threshold_loses_relations_with_their_entities() -> None:
    high = found().with_id("d1").above(0.6)
    assert [(entity.id, entity.label) for entity in high.entities] == [("e1", "Peop"), ("e2", "Org"), ("e3", "Loc")]
    assert high.entities[2].span == OLDHAVEN.span
    assert [relation.label for relation in high.relations] == ["Work_For"]
    assert high.document.id == "d1"
    assert found().above(0.75).entities[1].label == "Org"


def test_extraction_above_a_threshold_keeps_what_has_no_score() -> None:
    plain = Extraction.of(TEXT, Annotation((Entity(ZOE.span, "Peop"),)))
    assert plain.above(0.9).entities == plain.entities
    assert plain.to_dict()["entities"][0]["score"] is None


def test_extraction_as_text_lists_what_was_found() -> None:
    assert str(found()).splitlines() == [
        "4 entities, 3 relations",
        "  Peop: Zoë Marsh (0.99)",
        "  Org: North Tarn Bank (0.75)",
        "  Loc: North (0.50)",
        "  Loc: Oldhaven (0.94)",
        "  Zoë Marsh —Work_For→ North Tarn Bank (0.67)",
        "  Zoë Marsh —Live_In→ Oldhaven (0.25)",
        "  North Tarn Bank —OrgBased_In→ North (0.90)",
    ]


def test_extraction_shows_itself_in_a_notebook_with_its_style() -> None:
    shown = found()._repr_html_()
    assert shown.startswith("<style>")
    assert "<article" in shown
    assert "<html" not in shown
    assert found().to_html().startswith("<!DOCTYPE html>")


def test_evidence_of_a_relation_is_the_sentences_of_its_entities() -> None:
    text = "Ann moved. Bob lives in Rome. It rained."
    bob, rome, ann = (Entity(Span(*span), "X") for span in ((11, 14), (24, 28), (0, 3)))
    sentences = (Span(0, 10), Span(11, 29), Span(30, 40))
    inside, across = Relation(bob, rome, "in"), Relation(rome, ann, "of")
    extraction = Extraction.of(text, Annotation((bob, rome, ann), (inside, across)), sentences=sentences)
    assert extraction.evidence(inside) == sentences[1]
    assert extraction.evidence(across) == Span(0, 29)
    assert extraction.above(0.5).with_id("d").evidence(inside) == sentences[1]
    assert Extraction.from_dict(extraction.to_dict()).evidence(inside) is None


def test_extractor_tells_the_sentences_that_it_read() -> None:
    text = "It rained. Marta Figueira lives in Lisbon. Nobody came."
    extraction = Extractor.from_pretrained("news")(text)
    assert [sentence.of(text) for sentence in extraction.sentences] == [
        "It rained.",
        "Marta Figueira lives in Lisbon.",
        "Nobody came.",
    ]
    (relation,) = extraction.relations
    evidence = extraction.evidence(relation)
    assert evidence is not None
    assert evidence.of(text) == "Marta Figueira lives in Lisbon."


def test_records_have_a_row_for_each_relation_with_its_evidence() -> None:
    annotation = Annotation((ZOE, BANK, OLDHAVEN), (LIVES, WORKS))
    records = Extraction.of(TEXT, annotation, "news", [Span(0, 33), Span(33, len(TEXT))]).to_records()
    assert list(records[0]) == list(RECORD_COLUMNS)
    assert [tuple(record.values()) for record in records] == [
        ("news", "Zoë Marsh", "Peop", 0, 9, "Work_For", "North Tarn Bank", "Org", 17, 32, 0.6667, TEXT[:33], 0, 33),
        ("news", "Zoë Marsh", "Peop", 0, 9, "Live_In", "Oldhaven", "Loc", 42, 50, 0.25, TEXT, 0, len(TEXT)),
    ]
    (first, *_) = Extraction.of(TEXT, annotation).to_records()
    assert (first["document"], first["evidence"], first["evidence_start"]) == ("", None, None)


def test_data_frame_has_the_columns_of_the_records_even_if_it_is_empty() -> None:
    frame = found().to_pandas()
    assert list(frame.columns) == list(RECORD_COLUMNS)
    assert list(frame["tail"]) == ["North Tarn Bank", "Oldhaven", "North"]
    assert list(Extraction.of("Nothing.", Annotation()).to_pandas().columns) == list(RECORD_COLUMNS)


def test_data_frame_without_pandas_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RelatumError, match=r"pip install 'relatum\[pandas\]'"):
        found().to_pandas()
