from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relatum.data.conversion import convert_corpus
from relatum.data.corpus import open_corpus
from relatum.data.fitting import Policy
from relatum.data.formats import jsonl
from relatum.data.formats.base import Format
from relatum.data.formats.brat import FORMAT, WITHOUT_EVENTS
from relatum.data.problems import Problems
from relatum.data.records import BadRecord
from relatum.data.splitting import make_splitter
from relatum.errors import DataError, FormatError
from relatum.schema import RelationType, Schema
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

TEXT = "Sony bought Columbia and Tristar Pictures.\nIt paid well.\n"


def folder(path: Path, files: dict[str, str | bytes]) -> Path:
    path.mkdir(exist_ok=True)
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path, format: Format = FORMAT) -> tuple[list[Document], Problems]:
    problems = Problems()
    return list(format.read(path, problems)), problems


def read_pair(path: Path, text: str | bytes, lines: str | bytes, format: Format = FORMAT) -> tuple[Document, Problems]:
    documents, problems = read(folder(path, {"d.txt": text, "d.ann": lines}), format)
    assert [str(problem) for problem in problems.kept] == []
    (document,) = documents
    return document, problems


def read_bad(path: Path, text: str | bytes, lines: str | bytes) -> list[str]:
    """The problems of one document, which must not be read, each without its folder."""
    documents, problems = read(folder(path, {"d.txt": text, "d.ann": lines}))
    assert documents == []
    assert problems.count == len(problems.kept)
    assert not problems.remarks
    return [str(problem).removeprefix(f"{path}{os.sep}") for problem in problems.kept]


def write(path: Path, *documents: Document, format: Format = FORMAT) -> dict[str, str]:
    format.write(path, documents)
    files = (file for file in path.rglob("*") if file.is_file())
    return {file.relative_to(path).as_posix(): file.read_bytes().decode() for file in files}


def written_and_read(path: Path, *documents: Document, format: Format = FORMAT) -> list[Document]:
    assert format.check is not None
    for document in documents:
        format.check(document)
    format.write(path, documents)
    found, problems = read(path, format)
    problems.raise_if_any()
    return found


def test_read_takes_entities_relations_and_ids(tmp_path: Path) -> None:
    lines = "T1\tOrg 0 4\tSony\nR7\tBuys Arg1:T1 Arg2:T5\nT5\tOrg 12 20\tColumbia\n"
    document, problems = read_pair(tmp_path, TEXT, lines)
    sony, columbia = Entity(Span(0, 4), "Org"), Entity(Span(12, 20), "Org")
    assert document == Document("d", TEXT, Annotation((sony, columbia), (Relation(sony, columbia, "Buys"),)))
    assert [entity.id for entity in document.annotation.entities] == ["T1", "T5"]
    assert [relation.id for relation in document.annotation.relations] == ["R7"]
    assert not problems.remarks


def test_read_takes_discontinuous_mentions(tmp_path: Path) -> None:
    document, problems = read_pair(tmp_path, TEXT, "T1\tOrg 12 20;33 41\tColumbia Pictures\n")
    assert document.annotation.entities == (Entity(Span(12, 41), "Org", (Span(12, 20), Span(33, 41))),)
    assert not problems.remarks


def test_read_accepts_pieces_without_space_between_as_before_brat_1_3(tmp_path: Path) -> None:
    document, _ = read_pair(tmp_path, TEXT, "T1\tOrg 12 20;33 41\tColumbiaPictures\n")
    assert len(document.annotation.entities[0].fragments) == 2


def test_read_puts_pieces_in_order_and_says_so(tmp_path: Path) -> None:
    document, problems = read_pair(tmp_path, TEXT, "T1\tOrg 33 41;12 20\tPictures Columbia\n")
    assert document.annotation.entities == (Entity(Span(12, 41), "Org", (Span(12, 20), Span(33, 41))),)
    assert problems.remarks == {"mention whose pieces were joined over a line break or put in order": 1}


@pytest.mark.parametrize(
    ("text", "pieces", "reference"),
    [
        ("New\nYork", "0 3;4 8", "New York"),
        ("New  \n\t York", "0 3;8 12", "New York"),
        ("New\r\n\r\nYork", "0 3;7 11", "New York"),
        ("NewYork", "0 3;3 7", "New York"),
        ("New\nYork", "0 8", "New York"),
    ],
)
def test_read_makes_one_mention_of_pieces_around_a_line_break(
    tmp_path: Path, text: str, pieces: str, reference: str
) -> None:
    document, problems = read_pair(tmp_path, text, f"T1\tLoc {pieces}\t{reference}\n")
    assert document.annotation.entities == (Entity(Span(0, len(text)), "Loc"),)
    assert bool(problems.remarks) == (";" in pieces)


def test_read_keeps_pieces_around_a_mere_space_apart(tmp_path: Path) -> None:
    document, _ = read_pair(tmp_path, "New York", "T1\tLoc 0 3;4 8\tNew York\n")
    assert document.annotation.entities[0].fragments == (Span(0, 3), Span(4, 8))


def test_read_takes_attributes_of_entities_and_relations(tmp_path: Path) -> None:
    lines = (
        "A1\tNegation T1\nT1\tOrg 0 4\tSony\nT2\tOrg 12 20\tColumbia\nR1\tBuys Arg1:T1 Arg2:T2\n"
        "A2\tConfidence R1 very high\nM1\tSpeculation T2\n"
    )
    document, problems = read_pair(tmp_path, TEXT, lines)
    (sony, columbia), (buys,) = document.annotation.entities, document.annotation.relations
    assert document.attributes == (
        Attribute(sony, "Negation"),
        Attribute(buys, "Confidence", "very high"),
        Attribute(columbia, "Speculation"),
    )
    assert not problems.remarks


def test_read_takes_equivalences_as_clusters(tmp_path: Path) -> None:
    lines = (
        "*\tEquiv T1 T2\nT1\tOrg 0 4\tSony\nT2\tOrg 43 45\tIt\nT3\tOrg 12 20;33 41\tColumbia Pictures\n*\tEquiv T3\n"
    )
    document, _ = read_pair(tmp_path, TEXT, lines)
    assert document.clusters == ((Span(0, 4), Span(43, 45)), (Span(12, 41),))


def test_read_keeps_all_other_lines(tmp_path: Path) -> None:
    kept = [
        "E1\tBuy:T2 Buyer:T1",
        "A1\tNegation E1",
        "N1\tReference T1 Wikidata:Q41187\tSony",
        "#1\tAnnotatorNotes T1\tsure\tof it?",
        "# a word to the reader",
        "*\tOverlap T1 T2",
        "*\tEquiv E1 T2",
        "X9\tsomething else",
    ]
    lines = "\n".join(["T1\tOrg 0 4\tSony", *kept, "T2\tBuy 5 11\tbought"]) + "\n"
    document, problems = read_pair(tmp_path, TEXT, lines, WITHOUT_EVENTS)
    assert document.metadata == {"brat": kept}
    assert document.attributes == ()
    assert document.clusters == ()
    assert problems.remarks == {"line that is no entity, relation, attribute or equivalence, kept as it is": len(kept)}


EVENTS = (
    "T1\tOrg 0 4\tSony\nT2\tBuy 5 11\tbought\nT3\tOrg 12 20\tColumbia\nT4\tOrg 25 41\tTristar Pictures\n"
    "T5\tPay 46 50\tpaid\nE1\tBuy:T2 Buyer:T1 Theme:T3 Theme2:T4\nE2\tPay:T5 For:E1\n"
)


def ends(document: Document) -> list[tuple[str | None, str, str | None]]:
    return [(relation.head.id, relation.label, relation.tail.id) for relation in document.annotation.relations]


def test_read_takes_events_as_triggers_and_their_arguments_as_relations(tmp_path: Path) -> None:
    document, problems = read_pair(tmp_path, TEXT, EVENTS)
    assert [entity.id for entity in document.annotation.entities] == ["T1", "T2", "T3", "T4", "T5"]
    assert ends(document) == [
        ("T2", "Buyer", "T1"),
        ("T2", "Theme", "T3"),
        ("T2", "Theme", "T4"),
        ("T5", "For", "T2"),
    ]
    assert document.metadata == {}
    assert problems.remarks == {
        "event read as its trigger (--from brat-no-events keeps events as lines instead)": 2,
        "argument of an event read as a relation from the trigger": 4,
    }
    assert written_and_read(tmp_path / "again", document) == [document]


def split_events() -> dict[str, str | bytes]:
    """The events as BioNLP has them: names in one file, triggers and events in another."""
    lines = EVENTS.splitlines(keepends=True)
    names = [line for line in lines if "\tOrg " in line]
    return {
        "d.txt": TEXT,
        "d.a1": "".join(names).removesuffix("\n"),
        "d.a2": "".join(line for line in lines if line not in names),
    }


def test_read_takes_the_files_of_bionlp_together(tmp_path: Path) -> None:
    assert FORMAT.recognise(folder(tmp_path / "parts", split_events()))
    (document,), problems = read(tmp_path / "parts")
    expected, _ = read_pair(tmp_path / "whole", TEXT, EVENTS)
    assert set(ends(document)) == set(ends(expected))
    assert set(document.annotation.entities) == set(expected.annotation.entities)
    assert not problems.count
    (without,), _ = read(tmp_path / "parts", WITHOUT_EVENTS)
    assert without.annotation.relations == ()


def test_read_reports_a_bad_line_with_the_file_it_stands_in(tmp_path: Path) -> None:
    files = split_events() | {"d.rel": "R1\tOwns Arg1:T1 Arg2:T99\n"}
    documents, problems = read(folder(tmp_path, files))
    assert documents == []
    assert str(problems.kept[0]).startswith(f"{tmp_path / 'd.rel'}:1, R1: found T99, which is not in this file")


def test_read_says_that_parts_beside_an_ann_file_are_not_read(tmp_path: Path) -> None:
    (document,), problems = read(folder(tmp_path, split_events() | {"d.ann": "T1\tOrg 0 4\tSony\n"}))
    assert len(document.annotation.entities) == 1
    assert problems.remarks == {"annotation in .a1 that is not read, since there is an .ann file": 1}
    (document,), _ = read(folder(tmp_path / "b", {"d.txt": TEXT, "d.rel": "no annotation"}))
    assert document.annotation.entities == ()


def test_read_takes_relations_between_events_as_relations_between_triggers(tmp_path: Path) -> None:
    lines = f"R1\tNext_Operation Arg1:E1 Arg2:E2\nR2\tOwns Arg1:T1 Arg2:E1\n{EVENTS}"
    document, _ = read_pair(tmp_path, TEXT, lines)
    assert ends(document)[:2] == [("T2", "Next_Operation", "T5"), ("T1", "Owns", "T2")]
    assert len(ends(document)) == 6


def test_read_puts_all_that_hangs_on_an_event_on_its_trigger(tmp_path: Path) -> None:
    hanging = "A1\tNegation E1\nM1\tDegree E2 high\n*\tEquiv E1 T5\n#1\tAnnotatorNotes E1\tsure of E1?\n"
    document, problems = read_pair(tmp_path, TEXT, EVENTS + hanging + "N1\tReference E2 W:Q1\tpaid\n")
    bought, paid = document.annotation.entities[1], document.annotation.entities[4]
    assert document.attributes == (Attribute(bought, "Negation"), Attribute(paid, "Degree", "high"))
    assert document.clusters == ((Span(5, 11), Span(46, 50)),)
    assert document.metadata == {"brat": ["#1\tAnnotatorNotes T2\tsure of E1?", "N1\tReference T5 W:Q1\tpaid"]}
    assert problems.remarks["line that is no entity, relation, attribute or equivalence, kept as it is"] == 2


def test_read_says_what_events_with_one_trigger_lose(tmp_path: Path) -> None:
    document, problems = read_pair(tmp_path, TEXT, EVENTS + "E3\tGet:T2 Buyer:T1 Theme3:T5\n")
    assert ends(document)[-1] == ("T2", "Theme", "T5")
    assert len(ends(document)) == 5
    assert problems.remarks == {
        "event read as its trigger (--from brat-no-events keeps events as lines instead)": 3,
        "argument of an event read as a relation from the trigger": 5,
        "argument that stands twice at one trigger, read once": 1,
        "event with the trigger of another one: which arguments go together is lost": 1,
        "event of another type than its trigger, which is the one that was read": 1,
    }


def test_read_keeps_a_role_that_is_only_a_number(tmp_path: Path) -> None:
    document, _ = read_pair(tmp_path, TEXT, EVENTS + "E9\tPay:T5 2:T1\n")
    assert ends(document)[-1] == ("T5", "2", "T1")


def test_format_without_events_keeps_them_and_what_hangs_on_them(tmp_path: Path) -> None:
    lines = f"{EVENTS}R1\tNext Arg1:E1 Arg2:E2\nA1\tNegation E1\n*\tEquiv E1 E2\n"
    document, _ = read_pair(tmp_path / "a", TEXT, lines, WITHOUT_EVENTS)
    assert document.annotation.relations == ()
    assert document.attributes == ()
    assert write(tmp_path / "b", document, format=WITHOUT_EVENTS)["d.ann"] == lines
    assert not WITHOUT_EVENTS.recognise(tmp_path / "a")
    # Written with events, these lines would become relations; they go where they are left alone.
    assert written_and_read(tmp_path / "c", document) == [document]


def test_read_takes_roles_by_name_else_by_order(tmp_path: Path) -> None:
    lines = (
        "T1\tOrg 0 4\tSony\nT2\tOrg 12 20\tColumbia\nR1\tA Arg2:T1 Arg1:T2\nR2\tB Buyer:T1 Bought:T2\n"
        "R3\tC Theme:T2 Cause:T1\n"
    )
    document, problems = read_pair(tmp_path, TEXT, lines)
    found = [(relation.head.id, relation.label, relation.tail.id) for relation in document.annotation.relations]
    assert found == [("T2", "A", "T1"), ("T1", "B", "T2"), ("T2", "C", "T1")]
    assert problems.remarks == {"relation with roles other than Arg1 and Arg2: the first was read as the head": 2}


def test_read_uses_the_path_as_id_and_passes_over_other_files(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "b/2.txt": "two",
        "b/2.ann": "",
        "a#3.x.txt": "one",
        "a#3.x.ann": "T1\tN 0 3\tone\n",
        "annotation.conf": "[entities]\n",
        "b/visual.conf": "",
        "notes.md": "T1",
    }
    documents, problems = read(folder(tmp_path, files))
    assert [document.id for document in documents] == ["a#3.x", "b/2"]
    assert documents[0].annotation.entities == (Entity(Span(0, 3), "N"),)
    assert problems.count == 0
    assert not problems.remarks


def test_read_gives_documents_in_the_natural_order_of_their_names(tmp_path: Path) -> None:
    names = ["b-9", "a/2", "b-10", "a/10", "b-1"]
    documents, _ = read(folder(tmp_path, {f"{name}.txt": "" for name in names}))
    assert [document.id for document in documents] == ["a/2", "a/10", "b-1", "b-9", "b-10"]


def test_read_says_that_text_behind_an_annotation_is_left_out(tmp_path: Path) -> None:
    lines = "T1\tOrg 0 4\tSony\nR1\tIs Arg1:T1 Arg2:T1\t\nA1\tSure T1\tby far\n*\tEquiv T1\tall\n"
    document, problems = read_pair(tmp_path, TEXT, lines)
    assert document.attributes == (Attribute(document.annotation.entities[0], "Sure"),)
    assert problems.remarks == {"text behind a relation, attribute or equivalence left out": 2}


def test_read_takes_a_text_without_annotation_and_says_so(tmp_path: Path) -> None:
    documents, problems = read(folder(tmp_path, {"d.txt": "one"}))
    assert documents == [Document("d", "one")]
    assert problems.remarks == {"text without an .ann file, read as a document without annotation": 1}
    assert problems.count == 0


def test_read_reports_an_annotation_without_text(tmp_path: Path) -> None:
    documents, problems = read(folder(tmp_path, {"d.ann": "T1\tN 0 3\tone\n", "e.txt": "", "e.ann": ""}))
    assert [document.id for document in documents] == ["e"]
    assert str(problems.kept[0]) == f"{tmp_path / 'd.ann'}: found no text file beside it; expected its text in d.txt"


def test_read_reports_a_path_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("T1")
    for name, found in (("f", "a file"), ("g", "nothing")):
        documents, problems = read(tmp_path / name)
        assert documents == []
        assert problems.kept[0].found == found


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "T1\tOrg 0 4\tSoni\n",
            ["d.ann:1, T1: found the text 'Soni'; expected 'Sony', the characters [0, 4) of the .txt"],
        ),
        (
            "T1\tOrg 0 4;12 20\tSony Pictures\n",
            [
                "d.ann:1, T1: found the text 'Sony Pictures'; expected 'Sony Columbia', "
                "the characters [0, 4), [12, 20) of the .txt"
            ],
        ),
        (
            "\nT1\tOrg -1 4\tSony\n",
            [f"d.ann:2, T1: found the characters [-1, 4); expected 0 <= start < end <= {len(TEXT)}"],
        ),
        (
            "T1\tOrg 4 0\tSony\n",
            [f"d.ann:1, T1: found the characters [4, 0); expected 0 <= start < end <= {len(TEXT)}"],
        ),
        (
            "T1\tOrg 4 4\t\n",
            [f"d.ann:1, T1: found the characters [4, 4); expected 0 <= start < end <= {len(TEXT)}"],
        ),
        (
            "T1\tOrg 50 999\tSony\n",
            [f"d.ann:1, T1: found the characters [50, 999); expected 0 <= start < end <= {len(TEXT)}"],
        ),
        (
            "T1\tOrg 0 4;2 6\tSony ny b\n",
            ['d.ann:1, T1: found "0 4;2 6"; expected pieces that do not overlap'],
        ),
        (
            "T1\tOrg 0 4\tSony\nT1\tOrg 12 20\tColumbia\n",
            ["d.ann:2, T1: found the id T1 again; expected ids that differ"],
        ),
        (
            "T1\tOrg 0 4\tSony\nR1\tBuys Arg1:T1 Arg2:E1\nE1\tBuy:T9\nE2\tBuy:T1 Buyer:E3\nE2\tBuy:T1\n",
            [
                "d.ann:3, E1: found the trigger T9, which is not in this file; "
                "expected the id of its trigger (T1, T2, …)",
                "d.ann:4, E2: found E3, which is not in this file; "
                "expected the id of an entity or event (T1, E1, …) of this file",
                "d.ann:5, E2: found the id E2 again; expected ids that differ",
            ],
        ),
        (
            "T1\tOrg 0 4\tSony\nR1\tBuys Arg1:T1 Arg2:T9\n*\tEquiv T1 T8\nA1\tNegation T7\n",
            [
                "d.ann:2, R1: found T9, which is not in this file; "
                "expected the id of an entity or event (T1, E1, …) of this file",
                "d.ann:3: found T8, which is not in this file; "
                "expected the id of an entity or event (T1, E1, …) of this file",
                "d.ann:4, A1: found T7, which is not in this file; expected the id of an entity, relation or event",
            ],
        ),
        (
            "T1\tOrg 0 4\tSony\nR1\tBuys Arg1:T1 Arg1:T1\n",
            ['d.ann:2, R1: found "Buys Arg1:T1 Arg1:T1"; expected TYPE Arg1:ID Arg2:ID, or two other roles'],
        ),
    ],
)
def test_read_reports_what_is_wrong_with_a_line(tmp_path: Path, lines: str, expected: list[str]) -> None:
    assert read_bad(tmp_path, TEXT, lines) == expected


@pytest.mark.parametrize(
    "line",
    [
        "T1 Org 0 4 Sony",
        "T1\tOrg 0 4 Sony",
        "T1\tOrg 0 4",
        "T1\tOrg\t0\t4\tSony",
        "T1\tOrg 0\tSony",
        "T1\tOrg 0 4;\tSony",
        "T1\tOrg 0.0 4.0\tSony",
        "T1\t0 4\tSony",
        f"T1\tOrg 0 {'9' * 5000}\tSony",
        "T\tOrg 0 4\tSony",
        "Tx\tOrg 0 4\tSony",
        "\tOrg 0 4\tSony",
        " T1\tOrg 0 4\tSony",
        "\ufeffT1\tOrg 0 4\tSony",
        "R1\t",
        "R1\tBuys",
        "R1\tBuys Arg1:T0",
        "R1\tBuys Arg1 Arg2",
        "R1\tBuys Arg1:T0 Arg2:T0 Arg3:T0",
        "R1\tBuys :T0 Arg2:T0",
        "R1\tBuys Arg1: Arg2:T0",
        "E1\t",
        "E1\tBuy",
        "E1\tBuy:",
        "E1\tBuy:T0 Buyer",
        "E1\tBuy:T0 :T0",
        "Ex\tBuy:T0",
        "A1\tNegation",
        "A1\t",
        "A1",
        "*\tEquiv",
        "just words",
    ],
)
def test_read_reports_lines_of_another_shape(tmp_path: Path, line: str) -> None:
    (problem,) = read_bad(tmp_path, TEXT, f"T0\tOrg 0 4\tSony\n{line}\n")
    assert problem.startswith("d.ann:2")


def test_read_reports_every_bad_line_of_a_document_but_nothing_that_only_follows(tmp_path: Path) -> None:
    lines = (
        "T1\tOrg 0 4\tSoni\nT2\tOrg 12 20\tColumbia\nR1\tBuys Arg1:T1 Arg2:T2\nR2\tBuys Arg1:T2\nA1\tSure R2\nrest\n"
    )
    assert [re.split("[,:]", line)[1] for line in read_bad(tmp_path, TEXT, lines)] == ["1", "4", "6"]
    assert read(tmp_path)[1].size() == "1 bad record with 3 problems"


def test_read_goes_on_after_a_bad_document(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"a.txt": "x", "a.ann": "T1\tN 0 9\tx\n", "b.txt": "x", "b.ann": "T1\tN 0 1\tx\n"}
    documents, problems = read(folder(tmp_path, files))
    assert [document.id for document in documents] == ["b"]
    assert problems.count == 1


def test_read_counts_raw_characters_of_crlf_where_the_texts_fit(tmp_path: Path) -> None:
    document, problems = read_pair(tmp_path, "One.\r\nTwo.\r\n", "T1\tN 6 9\tTwo\r\n")
    assert document.text == "One.\r\nTwo.\r\n"
    assert document.annotation.entities[0].span.of(document.text) == "Two"
    assert not problems.remarks


def test_read_counts_crlf_as_one_where_only_that_fits(tmp_path: Path) -> None:
    document, problems = read_pair(tmp_path, "One.\r\nTwo.\r\n", "T1\tN 0 3\tOne\nT2\tN 5 8\tTwo\n")
    assert document.text == "One.\nTwo.\n"
    assert document.annotation.entities == (Entity(Span(0, 3), "N"), Entity(Span(5, 8), "N"))
    assert problems.remarks == {"text whose offsets count CRLF as one character: its line ends were read as LF": 1}


def test_read_reports_raw_offsets_where_neither_way_of_counting_fits(tmp_path: Path) -> None:
    problems = read_bad(tmp_path, "One.\r\nTwo.\r\n", "T1\tN 0 3\tOne\nT2\tN 7 10\tTwo\n")
    assert problems == ["d.ann:2, T2: found the text 'Two'; expected 'wo.', the characters [7, 10) of the .txt"]


def test_read_passes_over_byte_order_marks(tmp_path: Path) -> None:
    document, problems = read_pair(tmp_path, "\ufeffOne", "\ufeffT1\tN 0 3\tOne\n")
    assert document == Document("d", "One", Annotation((Entity(Span(0, 3), "N"),)))
    assert not problems.remarks


def test_read_counts_a_byte_order_mark_where_only_that_fits(tmp_path: Path) -> None:
    document, problems = read_pair(tmp_path, "\ufeffOne.\r\nTwo", "T1\tN 1 4\tOne\nT2\tN 6 9\tTwo\n")
    assert document.text == "One.\nTwo"
    assert [entity.span.of(document.text) for entity in document.annotation.entities] == ["One", "Two"]
    assert len(problems.remarks) == 2


@pytest.mark.parametrize("content", [b"caf\xe9", b"\xff\xfeO\x00n\x00", b"\xed\xa0\x80"])
def test_read_reports_files_that_are_not_utf8(tmp_path: Path, content: bytes) -> None:
    assert read_bad(tmp_path, content, "")[0].startswith("d.txt")
    assert read_bad(tmp_path, "One", b"T1\tN 0 3\tOne\n" + content)[0].startswith("d.ann")


def test_read_reports_file_names_that_cannot_be_ids(tmp_path: Path) -> None:
    folder(tmp_path, {".txt": "x", "b/.ann": "", "c.txt": ""})
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")).write_bytes(b"")
    documents, problems = read(tmp_path)
    assert [document.id for document in documents] == ["c"]
    assert [problem.found for problem in problems.kept] == ["a file name that cannot be an id"] * 3
    "".join(map(str, problems.kept)).encode()


def test_read_reports_two_names_for_one_id(tmp_path: Path) -> None:
    documents, problems = read(folder(tmp_path, {"A.txt": "x", "%41.txt": "y"}))
    assert [document.text for document in documents] == ["y"]
    assert problems.kept[0].found == 'the id "A" again (first of %41.txt)'


def test_read_reports_files_that_cannot_be_opened(tmp_path: Path) -> None:
    folder(tmp_path, {"d.ann": "", "e.txt": ""})
    (tmp_path / "d.txt").mkdir()
    (tmp_path / "f.txt").symlink_to(tmp_path / "gone")
    documents, problems = read(tmp_path)
    assert [document.id for document in documents] == ["e"]
    assert problems.count == 2


def test_read_reports_files_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, _: Problems) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("relatum.data.formats.brat.reading.read_text", refuse)
    (problem,) = read_bad(tmp_path, TEXT, "")
    assert problem == "d.txt: found Permission denied; expected a file that can be read"


@pytest.mark.parametrize(
    "content", ["[1]", "{", '{"a": "\\ud800"}', '{"a": NaN}', b"\xff", "[" * 100_000, '{"a":' * 900 + "1" + "}" * 900]
)
def test_read_reports_metadata_that_is_no_json_object(tmp_path: Path, content: str | bytes) -> None:
    documents, problems = read(folder(tmp_path, {"d.txt": "x", "d.ann": "", "d.metadata.json": content}))
    assert len(documents) + problems.count == 1
    assert problems.count == 1 or json.loads(content) == documents[0].metadata


def test_recognise_looks_for_ann_files(tmp_path: Path) -> None:
    assert FORMAT.recognise(folder(tmp_path / "a", {"x/y/d.ann": ""}))
    assert not FORMAT.recognise(folder(tmp_path / "b", {"d.txt": "", "d.ann.bak": ""}))
    assert not FORMAT.recognise(folder(tmp_path / "c", {}))
    assert not FORMAT.recognise(folder(tmp_path / "d", {"d.ann": ""}) / "d.ann")
    assert not FORMAT.recognise(tmp_path / "nothing\0here")


def test_write_makes_the_exact_files(tmp_path: Path) -> None:
    text = "Sony bought Columbia\nPictures."
    sony, buys = Entity(Span(0, 4), "Org", id="T3"), Entity(Span(5, 11), "Buy")
    columbia = Entity(Span(12, 29), "Org", id="e1")
    parts = Entity(Span(0, 29), "Odd", (Span(0, 4), Span(21, 29)))
    relation = Relation(sony, columbia, "Buys", id="R2")
    document = Document(
        "news/abc#3",
        text,
        Annotation((sony, buys, columbia, parts), (relation, Relation(columbia, buys, "Is"))),
        clusters=((Span(0, 4), Span(12, 29)),),
        attributes=(Attribute(sony, "Negation"), Attribute(relation, "Sure", "very much")),
        metadata={"brat": ["E1\tBuy:T1 Buyer:T3", "A1\tNegation E1", "#1\tAnnotatorNotes T3\tsure"], "year": 1989},
    )
    assert write(tmp_path, document, format=WITHOUT_EVENTS) == {
        "news/abc#3.txt": text,
        "news/abc#3.ann": (
            "T3\tOrg 0 4\tSony\n"
            "T2\tBuy 5 11\tbought\n"  # not T1, which the event names
            "T4\tOrg 12 20;21 29\tColumbia Pictures\n"
            "T5\tOdd 0 4;21 29\tSony Pictures\n"
            "R2\tBuys Arg1:T3 Arg2:T4\n"
            "R1\tIs Arg1:T4 Arg2:T2\n"
            "A2\tNegation T3\n"
            "A3\tSure R2 very much\n"
            "*\tEquiv T3 T4\n"
            "E1\tBuy:T1 Buyer:T3\n"
            "A1\tNegation E1\n"
            "#1\tAnnotatorNotes T3\tsure\n"
        ),
        "news/abc#3.metadata.json": '{"year": 1989}\n',
    }
    for format in (FORMAT, WITHOUT_EVENTS):
        assert written_and_read(tmp_path / format.name, document, format=format) == [document]


def test_write_keeps_what_brat_wrote(tmp_path: Path) -> None:
    lines = (
        "T1\tOrg 0 4\tSony\nT2\tBuy 5 11\tbought\nT3\tOrg 12 20;33 41\tColumbia Pictures\nR1\tOwns Arg1:T1 Arg2:T3\n"
        "A1\tNegation T1\n*\tEquiv T1 T3\nE1\tBuy:T2 Buyer:T1\n#1\tAnnotatorNotes R1\twhy?\n"
    )
    document, _ = read_pair(tmp_path / "a", TEXT, lines, WITHOUT_EVENTS)
    assert write(tmp_path / "b", document, format=WITHOUT_EVENTS) == {"d.txt": TEXT, "d.ann": lines}


def test_write_has_every_mention_end_and_begin_on_a_line_as_brat_must(tmp_path: Path) -> None:
    text = "a b\n\n  c\r\nd"
    files = write(tmp_path, Document("d", text, Annotation((Entity(Span(0, len(text)), "N"),))))
    assert files["d.ann"] == "T1\tN 0 3;7 8;10 11\ta b c d\n"


def test_write_puts_a_space_for_a_line_break_at_the_edge_of_a_mention(tmp_path: Path) -> None:
    document = Document("d", "a\nb\n", Annotation((Entity(Span(0, 4), "N"), Entity(Span(3, 4), "M"))))
    assert write(tmp_path, document)["d.ann"] == "T1\tN 0 4\ta b \nT2\tM 3 4\t \n"
    assert written_and_read(tmp_path, document) == [document]


def test_write_tells_equal_entities_apart(tmp_path: Path) -> None:
    first, second = Entity(Span(0, 1), "N"), Entity(Span(0, 1), "N")
    relations = (Relation(second, first, "R"),)
    document = Document("d", "x", Annotation((first, second), relations), attributes=(Attribute(second, "Yes"),))
    lines = "T1\tN 0 1\tx\nT2\tN 0 1\tx\nR1\tR Arg1:T2 Arg2:T1\nA1\tYes T2\n"
    assert write(tmp_path, document)["d.ann"] == lines


def test_write_finds_equal_entities_by_id_where_they_are_copies(tmp_path: Path) -> None:
    first, second = Entity(Span(0, 1), "N", id="T1"), Entity(Span(0, 1), "N", id="T2")
    relations = (
        Relation(replace(second), replace(first), "R"),
        Relation(replace(second, id="x"), replace(second, id=None), "R"),
    )
    document = Document("d", "x", Annotation((first, second), relations))
    assert write(tmp_path, document)["d.ann"].endswith("R1\tR Arg1:T2 Arg2:T1\nR2\tR Arg1:T1 Arg2:T1\n")


def refused(path: Path, document: Document) -> tuple[str, str]:
    """What was found and expected in a document that must be refused both before and while it is written."""
    assert FORMAT.check is not None
    with pytest.raises(BadRecord) as caught:
        FORMAT.check(document)
    found, expected = caught.value.found, caught.value.expected
    with pytest.raises(FormatError, match=re.escape(f"document {document.id!r}: found {found}; expected {expected}")):
        FORMAT.write(path, [document])
    return found, expected


@pytest.mark.parametrize("label", ["two words", "", "tab\t", "new\nline", "\u2028"])
def test_names_that_brat_cannot_hold_are_refused(tmp_path: Path, label: str) -> None:
    entity = Entity(Span(0, 1), "N")
    for what, document in (
        ("entity type", Document("d#1", "x", Annotation((Entity(Span(0, 1), label),)))),
        ("relation type", Document("d#1", "x", Annotation((entity,), (Relation(entity, entity, label),)))),
        ("attribute", Document("d#1", "x", Annotation((entity,)), attributes=(Attribute(entity, label),))),
    ):
        assert refused(tmp_path, document)[0] == f"the {what} {label!r}"


@pytest.mark.parametrize("value", ["", " ", "a\tb", "a\nb", "a\r"])
def test_attribute_values_that_brat_cannot_hold_are_refused(tmp_path: Path, value: str) -> None:
    entity = Entity(Span(0, 1), "N")
    document = Document("d", "x", Annotation((entity,)), attributes=(Attribute(entity, "Sure", value),))
    assert refused(tmp_path, document)[0] == f"the value {value!r} of the attribute 'Sure'"


def test_clusters_of_what_is_no_entity_are_refused(tmp_path: Path) -> None:
    document = Document("d", "one two", Annotation((Entity(Span(0, 3), "N"),)), clusters=((Span(0, 3), Span(4, 7)),))
    assert refused(tmp_path, document)[0] == "'two' at characters [4, 7) in a cluster"


def test_text_that_is_no_unicode_is_refused(tmp_path: Path) -> None:
    assert "not valid Unicode" in refused(tmp_path, Document("d", "\ud800"))[0]


@pytest.mark.parametrize("id", ["", "\ud800"])
def test_ids_that_cannot_be_file_names_are_refused(tmp_path: Path, id: str) -> None:
    assert refused(tmp_path, Document(id, "x"))[1] == "an id that can be a file name"


@pytest.mark.parametrize(
    ("document", "width"),
    [
        (Document("x" * 252, "x"), 256),
        (Document("x" * 242, "x", metadata={"a": 1}), 256),
        (Document("é" * 126, "x"), 256),
        (Document("a/" + "?" * 84, "x"), 256),
        (Document("x" * 300 + "/y", "x"), 300),
    ],
)
def test_ids_that_are_too_long_for_a_file_name_are_refused(tmp_path: Path, document: Document, width: int) -> None:
    assert FORMAT.check is not None
    with pytest.raises(BadRecord, match=f"a file name of {width} bytes; expected 255 at most"):
        FORMAT.check(document)
    with pytest.raises(FormatError, match="the id is too long for a file name"):
        FORMAT.write(tmp_path, [document])


@pytest.mark.parametrize(
    "document", [Document("x" * 251, "x"), Document("x" * 241, "x", metadata={"a": 1}), Document("x" * 255 + "/y", "x")]
)
def test_ids_that_just_fit_a_file_name_are_written(tmp_path: Path, document: Document) -> None:
    assert written_and_read(tmp_path, document) == [document]


def test_write_refuses_a_path_longer_than_the_system_takes(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="the id is too long for a file name"):
        FORMAT.write(tmp_path, [Document("é/" * 3000 + "x", "x")])


def test_write_refuses_two_documents_of_one_id(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="document 'd': found the id \"d\" again; expected ids that differ"):
        FORMAT.write(tmp_path, [Document("d", "x"), Document("d", "y")])


def test_convert_reports_every_document_that_brat_cannot_hold_or_skips_them(tmp_path: Path) -> None:
    source, target = tmp_path / "source.jsonl", tmp_path / "target"
    jsonl.FORMAT.write(
        source,
        [
            Document("a", "x", Annotation((Entity(Span(0, 1), "two words"),))),
            Document("b", "x", Annotation((Entity(Span(0, 1), "N"),))),
            Document("c", "x y", clusters=((Span(2, 3),),)),
        ],
    )
    corpus, splitter = open_corpus(source), make_splitter("rules", "rules")
    with pytest.raises(DataError) as caught:
        convert_corpus(corpus, target, FORMAT, splitter, Policy())
    assert [(p.path, p.field, p.found, p.expected) for p in caught.value.problems] == [
        (
            str(source),
            "document 'a'",
            "the entity type 'two words'",
            "a name without white space, as brat needs; rename it first",
        ),
        (
            str(source),
            "document 'c'",
            "'y' at characters [2, 3) in a cluster",
            "clusters of entities, as brat holds no others; make it an entity first",
        ),
    ]
    assert not target.exists()
    done = convert_corpus(corpus, target, FORMAT, splitter, Policy(), on_error="skip")
    assert (done.documents, done.problems.count) == ({"source": 1}, 2)
    assert [document.id for document in read(target)[0]] == ["b"]


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("abc#3", "abc#3"),
        ("a/b c/d", "a/b c/d"),
        ("/etc/passwd", "%2Fetc/passwd"),
        ("../x", "%2E%2E/x"),
        ("a/../x", "a/%2E%2E/x"),
        ("a/./x", "a/%2E/x"),
        ("a//b/", "a%2F%2Fb%2F"),
        ("..", "%2E%2E"),
        ("/", "%2F"),
        (".git/x", "%2Egit/x"),
        ("a./b ", "a%2E/b%20"),
        ("C:\\x?*", "C%3A%5Cx%3F%2A"),
        ("50%", "50%25"),
        ("a%20b", "a%2520b"),
        ("a\0b\n", "a%00b%0A"),
        ("x.txt/y.txt", "x%2Etxt/y.txt"),
        ("x.ANN/y", "x%2EANN/y"),
        ("Zoë 🙂", "Zoë 🙂"),
    ],
)
def test_write_escapes_ids_and_read_takes_them_back(tmp_path: Path, id: str, name: str) -> None:
    document = Document(id, "x")
    assert write(tmp_path / "in", document) == {f"{name}.txt": "x", f"{name}.ann": ""}
    assert written_and_read(tmp_path / "in", document) == [document]
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_write_keeps_apart_ids_that_differ_only_in_case(tmp_path: Path) -> None:
    ids = ["Ab", "ab", "aB", "F/x", "f/x", "f/y", "Café", "Cafe\u0301", "x", "x.txt/x", "x.txt"]
    documents = [Document(id, id) for id in ids]
    files = write(tmp_path, *documents)
    assert len({name.casefold() for name in files}) == len(files) == 2 * len(ids)
    assert {"Ab.txt", "%61%62.txt", "%61%42.txt", "F/x.txt", "%66/x.txt", "%66/y.txt"} <= files.keys()
    assert sorted(document.id for document in read(tmp_path)[0]) == sorted(ids)


def test_read_takes_only_its_own_escapes_for_escapes(tmp_path: Path) -> None:
    names = ["a%20b", "100%", "%zz", "%FF", "a%2Fb", "%2e%2e"]
    documents, _ = read(folder(tmp_path, {f"{name}.txt": "" for name in names}))
    assert sorted(document.id for document in documents) == sorted(["a%20b", "100%", "%zz", "%FF", "a/b", "%2e%2e"])


def test_write_streams(tmp_path: Path) -> None:
    def stream() -> Iterator[Document]:
        yield Document("a", "x")
        assert (tmp_path / "a.txt").read_text() == "x"
        yield Document("b", "y")

    FORMAT.write(tmp_path, stream())
    assert (tmp_path / "b.ann").exists()


def test_write_makes_an_empty_folder_of_no_documents(tmp_path: Path) -> None:
    FORMAT.write(tmp_path / "new", [])
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize(
    "lines",
    [[], "E1\tx", ["T1\tN 0 1\tx"], ["E1\tx\ny"], ["E1\tx\r"], ["A1\tNo T1"], ["*\tEquiv T1"], ["plain"], [1], ["\t"]],
)
def test_write_puts_what_are_no_lines_of_brat_with_the_other_metadata(tmp_path: Path, lines: object) -> None:
    document = Document("d", "x", metadata={"brat": lines})
    for format in (FORMAT, WITHOUT_EVENTS):
        assert write(tmp_path, document, format=format)["d.ann"] == ""
        assert written_and_read(tmp_path, document, format=format) == [document]


def test_companion_lists_types_and_arguments() -> None:
    assert FORMAT.companion is not None
    schema = Schema(
        ("Loc", "Org", "Peop"),
        (RelationType("Lives_In", False, ("Peop",), ("Loc", "Org")), RelationType("Near", True)),
    )
    assert FORMAT.companion(schema) == (
        "annotation.conf",
        "[entities]\nLoc\nOrg\nPeop\n\n"
        "[relations]\n"
        "Lives_In\tArg1:Peop, Arg2:Loc|Org\n"
        "Near\tArg1:<ENTITY>, Arg2:<ENTITY>, <REL-TYPE>:symmetric\n"
        "Equiv\tArg1:<ENTITY>, Arg2:<ENTITY>, <REL-TYPE>:symmetric-transitive\n"
        "<OVERLAP>\tArg1:<ENTITY>, Arg2:<ENTITY>, <OVL-TYPE>:<ANY>\n\n"
        "[events]\n\n[attributes]\n",
    )
    assert FORMAT.companion(Schema(("Loc",), (RelationType("Equiv"),)))[1].count("Equiv") == 1


TEXTS = st.text("ab .\n\n\r\t🙂é\ufeff\u2028\x85漢", max_size=25)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=6)
IDS = st.text("aAtx..%//# :\\é🙂\0", min_size=1, max_size=10)
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n"), min_size=1).filter(str.strip)
PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON: st.SearchStrategy[Any] = (
    PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(st.text(max_size=5), PLAIN, max_size=2)
)


@st.composite
def entities(draw: st.DrawFn, text: str) -> Entity:
    borders = sorted(draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=6)))
    pieces = [Span(start, end) for start, end in zip(borders[::2], borders[1::2], strict=False)]
    # Such pieces cannot be told from those that brat makes of a mention that runs over a line break.
    told_apart = all(not re.fullmatch(r"\s*[\r\n]\s*", text[a.end : b.start]) for a, b in pairwise(pieces))
    fragments = tuple(pieces) if len(pieces) > 1 and told_apart else ()
    id = draw(st.none() | st.sampled_from(["T1", "T2", "T03", "e1", "R1", "T4x", "", "T 1"]))
    return Entity(Span(pieces[0].start, pieces[-1].end), draw(NAMES), fragments, id=id)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    text = draw(TEXTS)
    mentions = draw(st.lists(entities(text), max_size=5)) if text else []
    relations, attributes, clusters = [], [], []
    if mentions:
        mention = st.sampled_from(mentions)
        ids = st.none() | st.sampled_from(["R1", "R2", "T1", "x"])
        relations = draw(st.lists(st.builds(Relation, mention, mention, NAMES, id=ids), max_size=4))
        targets = st.sampled_from([*mentions, *relations])
        attributes = draw(st.lists(st.builds(Attribute, targets, NAMES, st.none() | VALUES), max_size=4))
        clusters = draw(
            st.lists(st.lists(mention.map(lambda m: m.span), min_size=1, max_size=3).map(tuple), max_size=2)
        )
    lines = st.sampled_from(
        ["E1\tB:T1 x:T2", "R9\tN a:E1 b:T1", "#1\tNotes T1\t🙂", "N1\tRef T1 a:b", "A1\tNo E1", "*\tEquiv E1 E2"]
    )
    metadata = draw(st.dictionaries(st.text(max_size=4), JSON, max_size=2))
    if draw(st.booleans()):
        metadata["brat"] = draw(st.lists(lines, min_size=1, max_size=3) | JSON)
    return Document(
        draw(IDS),
        text,
        Annotation(tuple(mentions), tuple(relations)),
        clusters=tuple(clusters),
        attributes=tuple(attributes),
        metadata=metadata,
    )


@settings(deadline=None)
@given(
    st.lists(documents(), max_size=2, unique_by=lambda document: document.id),
    st.sampled_from([FORMAT, WITHOUT_EVENTS]),
)
def test_written_documents_read_back_equal(written: list[Document], format: Format) -> None:
    with tempfile.TemporaryDirectory() as path:
        found = written_and_read(Path(path), *written, format=format)
        assert {document.id: document for document in found} == {document.id: document for document in written}
        assert len(found) == len(written)
        names = [file.relative_to(path).as_posix() for file in Path(path).rglob("*")]
        assert len({name.casefold() for name in names}) == len(names)


SEEDS = (
    b"T1\tOrg 0 4\tSony\nT2\tOrg 12 20;33 41\tColumbia Pictures\nR1\tBuys Arg1:T1 Arg2:T2\nA1\tNo T1 x\nM1\tYes R1\n"
    b"*\tEquiv T1 T2\nE1\tBuy:T2 Buyer:T1\nE2\tBuy:T2 Buyer2:E1\nR2\tIs Arg1:E1 Arg2:E2\nA2\tNo E1\n"
    b"#1\tAnnotatorNotes T1\tsure\nN1\tRef T1 W:Q1\tSony\n"
)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """The bytes cut short, or with some of them replaced, left out, doubled or put in."""
    data = bytearray(whole[: draw(st.integers(0, len(whole)))] if draw(st.booleans()) else whole)
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 6)))
        put = draw(st.binary(max_size=4) | st.sampled_from([b"\t", b"\n", b" ", b"T1", b"-", b";", b":", b"\r\n"]))
        data[start:end] = put
    return bytes(data)


@settings(deadline=None)
@given(
    st.binary(max_size=60) | damaged(TEXT.encode()),
    st.binary(max_size=60) | damaged(SEEDS),
    st.none() | st.binary(max_size=10) | damaged(b'{"a": [1, {"b": null}]}'),
    st.sampled_from([FORMAT, WITHOUT_EVENTS]),
)
def test_read_makes_a_document_or_a_problem_of_anything(
    text: bytes, lines: bytes, extra: bytes | None, format: Format
) -> None:
    with tempfile.TemporaryDirectory() as name:
        files: dict[str, str | bytes] = {"d.txt": text, "d.ann": lines}
        if extra is not None:
            files["d.metadata.json"] = extra
        path = folder(Path(name), files)
        assert FORMAT.recognise(path)
        found, problems = read(path, format)
        assert bool(found) != bool(problems.count)
        if found:
            assert written_and_read(Path(name) / "again", *found, format=format) == found


def test_read_takes_a_line_of_a_megabyte(tmp_path: Path) -> None:
    text = "x" * 1_000_000
    document, _ = read_pair(tmp_path, text, f"T1\tN 0 {len(text)}\t{text}\n")
    assert document.annotation.entities[0].span.width == len(text)
    (problem,) = read_bad(tmp_path, text, "T1\t" + text)
    assert len(problem) < 500


def test_write_takes_a_mention_of_a_megabyte_of_blanks(tmp_path: Path) -> None:
    text = "x" + " " * 1_000_000 + "\nx"
    document = Document("d", text, Annotation((Entity(Span(0, len(text)), "N"),)))
    assert written_and_read(tmp_path, document) == [document]
