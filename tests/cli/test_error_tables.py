from __future__ import annotations

import pytest

from relatum.cli.console import results
from relatum.cli.error_tables import show_errors, show_worst
from relatum.data.documents import from_words
from relatum.lab.errors.analysis import ErrorAnalysis, analyse
from relatum.lab.errors.seen import Seen
from relatum.types import Annotation, Entity, Relation, Span

WORDS = [("Anna", "Berg", "of", "Rome", "works", "for", "Acme")]
ANNA, ROME, ACME = Entity(Span(0, 2), "Peop"), Entity(Span(3, 4), "Loc"), Entity(Span(6, 7), "Org")
SHORT_ANNA, BAD = Entity(Span(0, 1), "Peop"), Entity(Span(4, 5), "[bold]\a")
GOLD = from_words("one", WORDS, Annotation((ANNA, ROME, ACME), (Relation(ANNA, ROME, "Live_In"),)))
FOUND = from_words("one", WORDS, Annotation((SHORT_ANNA, ROME, BAD), (Relation(SHORT_ANNA, ROME, "Live_In"),)))


@pytest.fixture
def analysis() -> ErrorAnalysis:
    return analyse([(GOLD, FOUND)], seen=Seen([GOLD]))


def rows(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def test_kinds_are_shown_with_what_f1_would_be(analysis: ErrorAnalysis, capsys: pytest.CaptureFixture[str]) -> None:
    show_errors(results(), analysis, "train.jsonl")
    output = capsys.readouterr().out
    shown = rows(output)
    # One right of three gold and three found: F1 is 1/3; with Acme found 4/7; with Anna Berg right 2/3.
    assert ["right", "1", "1", "33.33"] in shown
    assert ["missed", "1", "0", "57.14", "+23.81"] in [row[:5] for row in shown]
    assert ["boundary", "1", "1", "66.67", "+33.33"] in [row[:5] for row in shown]
    assert ["argument", "boundary", "1", "1", "100.00", "+100.00"] in [row[:6] for row in shown]
    # Of the type Org one gold entity, none right, one missed.
    assert ["Org", "1", "0", "0", "0", "0", "1", "0", "57.14"] in shown
    # Confusions: Org was found as nothing.
    assert ["Org", "·", "·", "·", "1"] in shown
    # All of gold was seen, and of the found only Rome: 1 of 1 and 1 of 3; mended 3 of 3 gold and 5 found.
    assert ["as", "this", "type", "3", "100.00", "33.33", "50.00", "75.00"] in shown
    assert "Seen in training: train.jsonl, without regard to case." in output


def test_worst_sentences_are_shown_side_by_side(analysis: ErrorAnalysis, capsys: pytest.CaptureFixture[str]) -> None:
    show_worst(results(), analysis, 1)
    output = capsys.readouterr().out
    assert "1. one: 4 errors" in output
    assert "Anna Berg of Rome works for Acme" in output
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in output.splitlines()]
    assert ["Peop: Anna Berg", "Peop: Anna", "boundary"] in lines
    assert ["Loc: Rome", "Loc: Rome"] in lines
    assert ["Org: Acme", "missed"] in lines
    head = "Live_In: Anna Berg [Peop] → Rome [Loc]"
    assert [head, "Live_In: Anna [Peop] → Rome [Loc]", "argument boundary"] in lines


def test_labels_cannot_steer_the_terminal(analysis: ErrorAnalysis, capsys: pytest.CaptureFixture[str]) -> None:
    show_errors(results(), analysis)
    show_worst(results(), analysis, 1)
    output = capsys.readouterr().out
    assert "[bold]\\x07" in output
    assert "\a" not in output
    assert "Seen in training" not in output
