from __future__ import annotations

import pytest

from relatum.cli.console import results
from relatum.cli.score_tables import show_comparison, show_scores
from relatum.evaluation.matching import count
from relatum.evaluation.metrics import evaluate
from relatum.evaluation.significance import bootstrap, compare
from relatum.schema import Schema
from relatum.types import Annotation, Entity, Relation, Span

ANNA, ROME, DATE = Entity(Span(0, 1), "Peop"), Entity(Span(3, 4), "Loc"), Entity(Span(5, 6), "Date")
GOLD = Annotation((ANNA, ROME), (Relation(ANNA, ROME, "Live_In"),))
# Entities: 1 right of 2 predicted and 2 gold; macro over Loc (0, 0, 0) and Peop (1, 1, 1).
FOUND = Annotation((ANNA, DATE))


def rows(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def test_scores_are_shown_by_task_in_per_cent(capsys: pytest.CaptureFixture[str]) -> None:
    show_scores(results(), evaluate([(GOLD, Annotation((ANNA, DATE, ROME)))]))
    output = capsys.readouterr().out
    shown = rows(output)
    # Entities: 2 right of 3 predicted and 2 gold: P = 66.67, R = 100, F1 = 4/5.
    assert ["micro", "66.67", "100.00", "80.00", "2"] in shown
    assert ["macro", "100.00", "100.00", "100.00", "2"] in shown
    assert ["Date", "0.00", "0.00", "0.00", "0"] in shown
    assert ["Live_In", "0.00", "0.00", "0.00", "1"] in shown
    titles = [line.strip() for line in output.splitlines()]
    places = [titles.index(title) for title in ("Entities", "Relations (RE)", "Relations, strict (RE+)")]
    assert places == sorted(places)
    assert "interval" not in output


@pytest.mark.parametrize(
    ("over", "lines"),
    [
        ("gold", ["over the types in gold.", "Entities (2): Loc, Peop", "Relations (1): Live_In"]),
        ("all", ["over the types in gold or predicted.", "Entities (3): Date, Loc, Peop"]),
    ],
)
def test_macro_says_what_it_is_over(over: str, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    show_scores(results(), evaluate([(GOLD, FOUND)], None, over))  # type: ignore[arg-type]
    output = capsys.readouterr().out
    assert all(line in output for line in lines)


def test_macro_over_the_schema_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_scores(results(), evaluate([(Annotation((ANNA,)), Annotation((ANNA,)))], Schema(("Loc", "Peop")), "schema"))
    output = capsys.readouterr().out
    assert "over the types of the schema." in output
    assert "Entities (2): Loc, Peop" in output
    assert "Relations (0): none" in output


def test_intervals_stand_below_the_averages(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [(GOLD, FOUND)] * 3
    show_scores(results(), evaluate(pairs), bootstrap([count(*pair) for pair in pairs], n_resamples=2000, seed=7))
    output = capsys.readouterr().out
    shown = rows(output)
    after_micro = shown[shown.index(["micro", "50.00", "50.00", "50.00", "6"]) + 1]
    assert after_micro == ["95%", "interval", *["50.00–50.00"] * 3]
    assert "2,000 resamples, seed 7" in output


def test_gold_entities_are_named_in_the_titles(capsys: pytest.CaptureFixture[str]) -> None:
    show_scores(results(), evaluate([(GOLD, GOLD)]), gold_entities=True)
    output = capsys.readouterr().out
    assert "Relations (RE), gold entities given" in output
    assert "Entities, gold" not in output


def test_comparison_shows_both_their_difference_and_p(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = [count(GOLD, FOUND)] * 2, [count(GOLD, GOLD)] * 2
    show_comparison(results(), compare(a, b, n_resamples=99), "a.jsonl", "b.jsonl")
    output = capsys.readouterr().out
    (entities,) = [row for row in rows(output) if row[:2] == ["Entities", "micro"]]
    assert entities[2:7] == ["50.00", "100.00", "+50.00", "[+50.00,", "+50.00]"]
    assert "A: a.jsonl" in output
    assert "B: b.jsonl" in output
    assert "B − A" in output


def test_labels_are_shown_as_they_are_and_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    labels = ("[bold]", "[/x]", ":smile:", "bell\a", "esc\x1b[31m", "two\nlines", "L" * 120)
    gold = Annotation(tuple(Entity(Span(i, i + 1), label) for i, label in enumerate(labels)))
    show_scores(results(), evaluate([(gold, gold)]))
    output = capsys.readouterr().out
    for shown in ("[bold]", "[/x]", ":smile:", r"bell\x07", r"esc\x1b[31m", r"two\nlines", "L" * 120):
        assert f"  {shown} " in output
    assert "\a" not in output
    assert "\x1b" not in output
