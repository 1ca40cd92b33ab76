"""`relatum reproduce`."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from relatum.cli.app import app
from relatum.errors import RelatumError

pytestmark = pytest.mark.usefixtures("deeds")

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_shared_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELATUM_DATA", raising=False)


@pytest.fixture
def given(examples_folder: Path, tmp_path: Path) -> list[str]:
    """What all calls have: a small corpus, a folder, one run."""
    options = ["--corpus", str(examples_folder / "news"), "--out", str(tmp_path / "out"), "--runs", "1"]
    return [*options, "--set", "words.path=unset", "--device", "cpu", "--jobs", "2", "--dev"]


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, ["reproduce", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_table_is_printed_in_every_form_and_again_from_its_record(given: list[str], tmp_path: Path) -> None:
    first = run("5", *given)
    assert first.exit_code == 0
    assert "Layer-wise only" in first.stdout
    assert "Ours: news, all-minilm-l6-v2, dev" in first.stdout
    path = tmp_path / "out" / "table-5-news-all-minilm-l6-v2-dev.json"
    assert f"wrote {path}" in first.stderr
    record = json.loads(path.read_text())
    assert record["command"].startswith("relatum reproduce 5 --corpus ")
    assert record["command"].endswith("--jobs 2 --device cpu --dev")
    assert json.loads(run("5", *given, "--format", "json").stdout) == record
    assert run("5", *given, "--format", "markdown").stdout == path.with_suffix(".md").read_text()
    text = run("5", *given, "--format", "csv").stdout
    assert text == path.with_suffix(".csv").read_text()
    assert len(list(csv.reader(io.StringIO(text)))) == 15
    assert run("--render", path).stdout == first.stdout
    assert run("--render", path, "--format", "markdown").stdout == path.with_suffix(".md").read_text()


def test_dry_run_lists_commands_and_runs_nothing(given: list[str], tmp_path: Path) -> None:
    result = run("3", *given, "--row", "diagonal", "--dry-run")
    assert result.stdout.startswith("diagonal: NER on diagonal\n  0 of 1 runs are complete\n  relatum train ")
    assert f"--config {ROOT / 'configs/ablations/diagonal.toml'} --set encoder.store=name " in result.stdout
    assert not (tmp_path / "out").exists()


def test_several_tables_are_printed_one_after_the_other(given: list[str], tmp_path: Path) -> None:
    given = [*given, "--row", "default", "--row", "layer-only"]
    first = run("5", "9", "8", "9", *given)
    assert first.exit_code == 0
    assert first.stderr.count("begun") == 2
    assert first.stdout.index("Table 5. ") < first.stdout.index("\n\nTable 9. ") < first.stdout.index("\n\nTable 8. ")
    paths = [tmp_path / "out" / f"table-{number}-news-all-minilm-l6-v2-dev.json" for number in (5, 9, 8)]
    assert [f"wrote {path}" in first.stderr for path in paths] == [True] * 3
    records = [json.loads(path.read_text()) for path in paths]
    assert records[0]["command"].startswith("relatum reproduce 5 --corpus ")
    assert "--row default --row layer-only" in records[0]["command"]
    assert "layer-only" not in records[1]["command"]
    assert json.loads(run("5", "9", "8", *given, "--format", "json").stdout) == records
    lines = list(csv.DictReader(io.StringIO(run("5", "9", "8", *given, "--format", "csv").stdout)))
    assert [line["table"] for line in lines] == ["5"] * 4 + ["9"] * 2 + ["8"] * 4
    text = run("5", "9", "8", *given, "--format", "markdown").stdout
    assert text == "\n".join(path.with_suffix(".md").read_text() for path in paths)
    rendered = [word for path in paths for word in ("--render", str(path))]
    assert run(*rendered).stdout == first.stdout


def test_row_that_several_tables_have_fails_once(deeds: Callable[[str], None], given: list[str]) -> None:
    deeds("layer-only:fail")
    result = run("5", "8", "3", *given, "--row", "layer-only")
    assert result.exit_code == 1
    assert result.stderr.count("layer-only failed: the moon is full") == 1
    assert "Table 3 has no such row, and is left out" in result.stderr
    assert result.stdout.count("0 (failed)") == 2


def test_dry_run_without_corpora_and_word_vectors_says_what_is_needed(
    tmp_path: Path, examples_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a new user gives it, from the README."""
    monkeypatch.chdir(tmp_path)
    result = run("3", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.count("  needs CoNLL04") == 8
    assert "need word vectors: the paper's preset has the word vectors glove.6B.100d.txt" in result.stdout
    assert "--set words.path=unset" in result.stdout
    listed = run("3", "--corpus", examples_folder / "news", "--row", "default", "--dry-run").stdout
    assert "relatum train" in listed
    assert "get GloVe" in listed
    assert "need word vectors" not in run("3", "--dry-run", "--set", "words.path=unset").stdout
    with pytest.raises(RelatumError, match=r"get GloVe .* or do without by --set words\.path=unset"):
        run("3", "--corpus", examples_folder / "news")
    assert not list(tmp_path.iterdir())


def test_dry_run_of_several_tables_counts_runs_that_are_distinct(given: list[str], tmp_path: Path) -> None:
    run("5", *given, "--row", "default")
    result = run("3", "4", "5", "8", "9", *given, "--runs", "3", "--dry-run")
    assert "Table 9. Table filling formulations\nlower-triangle: " in result.stdout
    assert "In all 45 rows, 35 of them distinct: 1 of 105 runs are complete\n" in result.stdout
    assert len(list((tmp_path / "out" / "runs").glob("news-*"))) == 1


def test_as_is_shows_what_there_is(given: list[str]) -> None:
    run("5", *given, "--row", "default")
    result = run("5", "8", *given, "--row", "default", "--runs", "3", "--as-is")
    assert result.exit_code == 0
    assert "begun" not in result.stderr
    assert result.stdout.count("Not complete: 2 of 3 runs are missing; means are of those that are there.") == 2
    assert result.stdout.count("1 of 3 (not complete)") == 2


def test_row_that_fails_is_named_and_the_others_are_shown(deeds: Callable[[str], None], given: list[str]) -> None:
    deeds("layer-only:fail")
    result = run("5", *given)
    assert result.exit_code == 1
    assert "layer-only failed: the moon is full over layer-only" in result.stderr
    assert "give the same command again" in result.stderr
    assert "0 (failed)" in result.stdout
    deeds("")
    again = run("5", *given)
    assert again.exit_code == 0
    assert again.stderr.count("begun") == 1


def test_tables_of_a_page_are_made_anew(given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("5", *given, "--row", "default")
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# Page\n<!-- table: out/table-5-news-all-minilm-l6-v2-dev.json -->\n<!-- end of table -->\nEnd\n")
    run("--into", page)
    assert "| Bidirectional (default) | 89.5 |" in page.read_text()
    assert page.read_text().endswith("<!-- end of table -->\nEnd\n")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "page.md: there is no mark of a table; expected <!-- table: FILE -->"),
        ("<!-- table: a.json -->\n", "page.md: a mark of a table has no end"),
        ("A\n\n<!-- table: a.json -->\n<!-- end of table -->\n", "page.md: line 3: a.json: No such file"),
    ],
)
def test_mistakes_in_a_page_are_named_with_their_place(tmp_path: Path, text: str, mistake: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(RelatumError, match=re.escape(mistake)):
        run("--into", page)
    assert page.read_text() == text


def test_mistakes_name_the_cure(tmp_path: Path, given: list[str]) -> None:
    assert "give the number of a TABLE" in run().stderr
    with pytest.raises(RelatumError, match="there is no Table 7 to make"):
        run("7", *given)
    with pytest.raises(RelatumError, match="No such file or directory; name a JSON file"):
        run("--render", tmp_path / "none.json")
    (tmp_path / "other.json").write_text('{"rows": []}')
    with pytest.raises(RelatumError, match="not the record of a table"):
        run("--render", tmp_path / "other.json")
    for record in ({}, {"columns": 3}, {"columns": [], "rows": [3]}):
        (tmp_path / "other.json").write_text(json.dumps({"format": "relatum table 1", **record}))
        with pytest.raises(RelatumError, match=r"not a record as relatum reproduce writes it: .*; make the table"):
            run("--render", tmp_path / "other.json")
    (tmp_path / "other.json").write_text("nonsense")
    with pytest.raises(RelatumError, match="not valid JSON"):
        run("--render", tmp_path / "other.json")


def test_tables_in_the_documents_are_those_of_their_files(monkeypatch: pytest.MonkeyPatch) -> None:
    from relatum.lab.tables.blocks import files_of, fill
    from relatum.lab.tables.record import TableRecord
    from relatum.lab.tables.rendering import to_markdown

    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert all(name.startswith("results/") for name in files_of(page))
    assert fill(page, lambda name: to_markdown(TableRecord.read(Path(name)))) == page
