"""What the documents promise is executed: commands, Python and records."""

from __future__ import annotations

import json
import logging
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import relatum
from relatum.cli.app import main
from relatum.data.formats import FORMATS
from relatum.data.formats.jsonl import FORMAT as JSONL
from relatum.data.problems import Problems

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def _level_of_warnings() -> Iterator[None]:
    """Undo what a page says to hear less of unseen letters: other tests listen for that warning."""
    logger = logging.getLogger("relatum.extractor.unseen")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what the documents' commands work on."""
    for name in ("examples", "configs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_documents_show_commands_that_work(page: Path) -> None:
    for block in blocks(page, "sh"):
        for line in block.splitlines():
            command = shlex.split(line, comments=True)
            if command and command[0] == "relatum":
                assert main(command[1:]) == 0, line
            else:
                assert not command or command[0] == "make", f"{line}: nobody checks this command"


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_documents_show_python_that_works(page: Path) -> None:
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), {})


def test_readme_names_the_two_commands_that_set_everything_up() -> None:
    commands = "".join(blocks(ROOT / "README.md", "sh"))
    assert "make demo" in commands
    assert "make test" in commands


def test_data_page_shows_records_that_can_be_read(tmp_path: Path) -> None:
    records = blocks(ROOT / "docs" / "data.md", "json")
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(json.loads(record)) + "\n" for record in records), encoding="utf-8")
    problems = Problems()
    documents = list(JSONL.read(path, problems))
    assert problems.kept == []
    assert [len(document.annotation.relations) for document in documents] == [2, 1]


def test_data_page_says_what_each_format_holds() -> None:
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    said = {row[0].strip("`"): row[2:] for row in rows if row[0].strip("`") in FORMATS}
    assert list(said) == list(FORMATS)
    for name, (files, *cells) in said.items():
        format = FORMATS[name]
        holds = format.holds
        assert files.strip("`") == (format.suffix or "folder")
        values = (
            holds.overlaps,
            holds.discontinuous,
            holds.crossing,
            holds.clusters,
            holds.attributes,
            holds.scores,
        )
        assert cells == ["yes" if value else "no" for value in values], name


def test_python_page_has_every_public_name() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    shown = {line.rpartition(".")[2] for line in text.splitlines() if line.startswith("::: ")}
    assert set(relatum.__all__) - {"__version__", "Config"} <= shown


def test_site_has_every_page() -> None:
    listed = re.findall(r"[\w-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


@pytest.mark.usefixtures("workplace")
def test_readme_shows_what_its_first_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    readme = ROOT / "README.md"
    exec(compile(blocks(readme, "python")[0], str(readme), "exec"), {})
    printed, shown = (
        [line.split(" | ") for line in text.splitlines()]
        for text in (capsys.readouterr().out, blocks(readme, "text")[0])
    )
    assert [line[:3] for line in printed] == [line[:3] for line in shown]
    for line, expected in zip(printed, shown, strict=True):
        assert float(line[3]) == pytest.approx(float(expected[3]), abs=0.02), "machines differ in the last digits"


@pytest.mark.usefixtures("workplace")
def test_graphs_page_shows_the_graph_that_its_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs" / "graphs.md"
    exec(compile(blocks(page, "python")[0], str(page), "exec"), {})
    printed, shown = (text.splitlines() for text in (capsys.readouterr().out, blocks(page, "text")[0]))
    assert printed[0] == shown[0]
    for line, expected in zip(printed, shown, strict=True):
        assert line.partition(" (")[0] == expected.partition(" (")[0]  # machines differ in the last digits of scores
