"""Tables from records."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from relatum.cli.reproduce import make_table
from relatum.errors import RelatumError
from relatum.lab.tables.blocks import files_of, fill
from relatum.lab.tables.record import RowRecord, RunScores, Status, TableRecord
from relatum.lab.tables.rendering import caption, remarks, to_csv, to_markdown
from relatum.lab.tables.table import NER, RE, Numbers, Published
from relatum.training.result import BestModel
from relatum.training.runs.summary import Spread


def row(key: str, published: Numbers, status: Status = "complete", **values: Any) -> RowRecord:
    given = {"section": "", "label": key.title(), "average": "micro", "corpus": "CoNLL04", "encoder": "minilm"}
    return RowRecord(key=key, published=published, status=status, **{**given, **values})


def run(seed: int) -> RunScores:
    return RunScores(f"seed-{seed}", seed, None, "", BestModel(1, 0.5), 1.0, {})


def measured(**means: float) -> dict[str, Any]:
    spreads = {key: Spread(mean, 0.5, 2) for key, mean in means.items()}
    return {"measured": spreads, "runs": (run(0), run(1)), "n_wanted": 2}


def with_row(record: TableRecord, number: int, **changes: Any) -> TableRecord:
    """The record with changes in one of its rows."""
    rows = list(record.rows)
    rows[number] = replace(rows[number], **changes)
    return replace(record, rows=tuple(rows))


@pytest.fixture
def record() -> TableRecord:
    return TableRecord(
        table=3,
        title="Ablation of the two encoders",
        source="the paper",
        published=Published("ACE05", "ALBERT", "test", 5),
        columns=(NER, RE),
        default="default",
        notes=("A note.",),
        command="",
        part="dev",
        n_runs=2,
        steps=5000,
        settings=("training.precision=bf16", "a|b=*c_d*"),
        commit=None,
        versions=None,
        device=None,
        rows=(
            row("default", {"ner": 89.5, "re": 67.6}, **measured(ner=85.0, re=70.25)),
            row("without", {"ner": 88.4}, **measured(ner=84.125)),
            row("new", {"ner": None, "re": None}, **measured(ner=86.0, re=70.0)),
            row("bad", {"ner": 1.0, "re": 2.0}, "failed", message="no | memory", n_wanted=2),
            row("quoted", {"ner": 80.0}, "quoted", section="Others"),
        ),
    )


def cells(markdown: str, label: str) -> list[str]:
    line = next(line for line in markdown.splitlines() if line.startswith(f"| {label} "))
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_markdown_has_both_numbers_and_their_distance_from_the_default_row(record: TableRecord) -> None:
    text = to_markdown(record)
    assert cells(text, "setting") == ["setting", "NER paper", "NER ours", "RE paper", "RE ours", "runs"]
    assert cells(text, "Default") == ["Default", "89.5", "85.00 ± 0.50", "67.6", "70.25 ± 0.50", "2"]
    assert cells(text, "Without") == ["Without", "88.4 (−1.1)", "84.12 ± 0.50 (−0.88)", "–", "–", "2"]
    assert cells(text, "New") == ["New", "–", "86.00 ± 0.50 (+1.00)", "–", "70.00 ± 0.50 (−0.25)", "2"]
    assert cells(text, "Bad")[-1] == "0 (failed)"
    assert "| **Others** |" in text
    assert "- Bad (bad): failed: no \\| memory" in text


def test_caption_says_what_both_were_measured_on(record: TableRecord) -> None:
    text = caption(record)
    assert "Table 3 of the paper: ablation of the two encoders." in text
    assert "Paper: ACE05, test, ALBERT, mean of 5 runs." in text
    assert "Ours: CoNLL04, minilm, dev, 5,000 updates, mean ± standard deviation of the runs." in text
    assert "With training.precision=bf16, a|b=*c_d*." in text
    assert text.endswith("In brackets: the difference from the default row. A note.")
    assert "a\\|b=\\*c\\_d\\*" in to_markdown(record)


def test_corpus_and_encoder_stand_in_columns_where_rows_differ_in_them(record: TableRecord) -> None:
    record = with_row(record, 1, encoder="mpnet")
    text = to_markdown(record)
    assert cells(text, "setting")[:2] == ["setting", "encoder"]
    assert cells(text, "Without")[1] == "mpnet"
    assert "Ours: CoNLL04, the encoder of each row" in caption(record)


def test_one_run_has_no_deviation(record: TableRecord) -> None:
    for number, one in enumerate(record.rows):
        spreads = {key: replace(spread, std=None) for key, spread in one.measured.items()}
        record = with_row(record, number, measured=spreads)
    record = replace(record, n_runs=1)
    assert cells(to_markdown(record), "Default")[2] == "85.00"
    assert "one run" in caption(record)


def test_csv_has_a_line_for_every_number(record: TableRecord) -> None:
    lines = list(csv.DictReader(io.StringIO(to_csv(record))))
    assert [(line["key"], line["column"]) for line in lines[:3]] == [
        ("default", "ner"),
        ("default", "re"),
        ("without", "ner"),
    ]
    assert len(lines) == 8
    assert (lines[2]["published_difference"], lines[2]["mean"], lines[2]["difference"]) == ("-1.1", "84.125", "-0.875")
    assert (lines[3]["published"], lines[3]["std"], lines[3]["n"]) == ("", "0.5", "2")
    assert lines[5]["status"] == "failed"


def test_csv_of_several_tables_has_one_head(record: TableRecord) -> None:
    head, *lines = to_csv(record).splitlines()
    other = replace(record, table=4)
    assert to_csv(record, other).splitlines() == [head, *lines, *("4" + line[1:] for line in lines)]


def test_terminal_has_the_same_cells_and_no_styles_from_labels(record: TableRecord) -> None:
    record = with_row(record, 1, label="[red]x\x1b[0m")
    shown = io.StringIO()
    Console(file=shown, width=300, markup=False).print(make_table(record))
    assert "[red]x\\x1b[0m" in shown.getvalue()
    assert "84.12 ± 0.50 (−0.88)" in shown.getvalue()


def test_remarks_say_how_far_a_row_came(record: TableRecord) -> None:
    record = with_row(record, 3, status="partial", runs=(run(0),), message=None)
    assert remarks(record) == ["Bad (bad): not complete, 1 of 2 runs are complete"]
    assert cells(to_markdown(record), "Bad")[-1] == "1 of 2 (not complete)"
    assert "Not complete: 1 of 8 runs are missing; means are of those that are there." in caption(record)
    record = with_row(record, 3, status="not run", runs=())
    assert remarks(record) == ["Bad (bad): not run, 0 of 2 runs are complete"]
    assert "Not complete: 2 of 8 runs are missing" in caption(record)


def test_table_whose_rows_failed_is_not_called_interrupted(record: TableRecord) -> None:
    assert "Not complete" not in caption(record)


def test_tables_of_a_page_are_made_from_the_files_that_it_names() -> None:
    page = "One\n<!-- table: a.json -->\nold\n<!-- end of table -->\nTwo\n<!-- table: b.json --><!-- end of table -->\n"
    page = page.replace("b.json --><", "b.json -->\n<")
    filled = fill(page, lambda name: f"| {name} |")
    assert files_of(page) == ["a.json", "b.json"]
    assert "old" not in filled
    assert "<!-- table: b.json -->\n\n| b.json |\n<!-- end of table -->" in filled
    assert fill(filled, lambda name: f"| {name} |") == filled
    with pytest.raises(RelatumError, match="a mark of a table has no end"):
        fill("<!-- table: a.json -->\n", str)


def test_ceiling_is_remarked_once_for_each_corpus(record: TableRecord) -> None:
    assert not any("allows" in remark for remark in remarks(record))
    for number in range(3):
        record = with_row(record, number, ceiling={"ner": 99.4, "re": 99.583})
    found = [remark for remark in remarks(record) if "allows" in remark]
    assert len(found) == 1
    assert found[0].startswith("CoNLL04, micro: gold that the tagging cannot express counts as missed")
    assert found[0].endswith("NER 99.40, RE 99.58")
