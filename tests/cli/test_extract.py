"""`relatum extract` from the command line, with an extractor that knows a handful of words."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from relatum.cli.extract import extract
from relatum.data.json_files import json_lines
from relatum.data.problems import Problems
from relatum.data.records import Record
from relatum.errors import DataError, RelatumError
from relatum.extractor.drawing.html import page
from relatum.extractor.result import RECORD_COLUMNS, Extraction
from relatum.types import Annotation, Entity, Relation, Span

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(extract)

KNOWN = {"Mara": ("Peop", 0.9), "Oldhaven": ("Loc", 0.8), "Tarn": ("Org", 0.4), "Zoë": ("Peop", 0.7)}
TEXT = "Mara of Tarn left Oldhaven."
OnProgress = Callable[[int, int], None]


class FakeExtractor:
    """Knows some words, and relates the first to all others with the score 0.6; a sentence is a line."""

    loaded: tuple[object, str] | None = None
    limits: tuple[object, ...] = ()
    reads_ahead = 3

    def __call__(self, text: str) -> Extraction:
        found = [
            Entity(Span(*match.span()), KNOWN[match[0]][0], score=KNOWN[match[0]][1])
            for match in re.finditer("|".join(KNOWN), text)
        ]
        relations = [Relation(found[0], other, "Knows", 0.6) for other in found[1:]]
        return Extraction.of(text, Annotation(tuple(found), tuple(relations)))

    def pipe(self, texts: Iterable[str], on_progress: OnProgress) -> Iterator[Extraction]:
        waiting: list[str] = []
        for text in texts:
            waiting.append(text)
            n_sentences = text.count("\n") + 1
            for n_read in range(n_sentences):
                on_progress(n_read + 1, n_sentences)
            if len(waiting) == self.reads_ahead:
                yield from map(self, waiting)
                waiting = []
        yield from map(self, waiting)

    @classmethod
    def from_pretrained(cls, name: str, device: str, *limits: Any, **_: Any) -> FakeExtractor:
        FakeExtractor.loaded = name, device
        FakeExtractor.limits = limits
        return cls()


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = ModuleType("relatum.extractor.extractor")
    vars(module).update(Extractor=FakeExtractor)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(FakeExtractor, "loaded", None)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, input: bytes | None = None) -> Result:
    """Run the command; errors meant for the user are raised, as `relatum.cli.app` catches them."""
    result = CliRunner().invoke(app, list(arguments), input=input)
    if isinstance(result.exception, RelatumError):
        raise result.exception
    return result


def answer(*arguments: str, input: bytes | None = None) -> Any:
    result = run(*arguments, input=input)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def lines(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def write_lines(path: Path, *records: object) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four texts that are not in the order of their names, and two files that are none."""
    place = tmp_path / "texts"
    (place / "deep").mkdir(parents=True)
    for name, text in {"b-10": "Mara.", "b-2": "", "deep/a": "Oldhaven\nand Tarn", "c": "nobody"}.items():
        (place / f"{name}.txt").write_text(text, encoding="utf-8")
    (place / "notes.md").write_text("Mara", encoding="utf-8")
    (place / "dir.txt").mkdir()
    return place


def test_extract_answers_one_text_with_one_object() -> None:
    assert answer(TEXT) == FakeExtractor()(TEXT).to_dict()
    assert FakeExtractor.loaded == ("wiki", "auto")


def test_extract_hands_model_and_device_on(tmp_path: Path) -> None:
    answer(TEXT, "--model", str(tmp_path), "--device", "cpu")
    assert FakeExtractor.loaded == (str(tmp_path), "cpu")


def test_extract_refuses_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from relatum.extractor.device import choose_device

    class Choosing(FakeExtractor):
        @classmethod
        def from_pretrained(cls, name: str, device: str, *limits: Any, **_: Any) -> FakeExtractor:
            return super().from_pretrained(name, str(choose_device(device)), *limits)

    monkeypatch.setattr(sys.modules["relatum.extractor.extractor"], "Extractor", Choosing)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RelatumError, match="device 'cuda': torch finds no GPU here"):
        run(TEXT, "--device", "cuda")
    assert FakeExtractor.loaded is None
    answer(TEXT, "--model", "news")
    assert FakeExtractor.loaded == ("news", "cpu")


def test_extract_reads_standard_input() -> None:
    text = "Mara met Zoë\r\nin Oldhaven.\n"
    found = answer(input=b"\xef\xbb\xbf" + text.encode())
    assert found == FakeExtractor()(text).to_dict()
    assert [entity["text"] for entity in found["entities"]] == ["Mara", "Zoë", "Oldhaven"]


def test_extract_reads_json_lines_from_standard_input_and_says_so() -> None:
    piped = b"\xef\xbb\xbf\n" + b'{"id": "x", "text": "Mara"}\r\n\n{"text": "Zo\xc3\xab"}\n'
    result = run(input=piped)
    assert [(found["id"], found["text"]) for found in lines(result)] == [("x", "Mara"), ("stdin-2", "Zoë")]
    assert "standard input is read as JSONL" in result.stderr


@pytest.mark.parametrize(
    "text", ['{"text": "Mara"', '{"txt": "Mara"}\n', '["text"]', 'Mara\n{"text": "Zoë"}\n', '{"text": 1} Mara', "{}"]
)
def test_extract_reads_other_standard_input_as_one_text(text: str) -> None:
    result = run(input=text.encode())
    assert json.loads(result.stdout) == FakeExtractor()(text).to_dict()
    assert "JSONL" not in result.stderr


def test_extract_reports_bad_lines_of_standard_input() -> None:
    piped = b'{"text": "Mara"}\n\n{"text": "Zo\xeb"}\n{"text": 3}\n{"text": "\\ud800"}\n{"text"\n'
    with pytest.raises(DataError) as caught:
        run(input=piped)
    message = str(caught.value)
    assert "stdin:3 (record 2): found a byte that is not UTF-8" in message
    assert "stdin:4 (record 3), text: found 3; expected a string" in message
    assert "stdin:5 (record 4), text: found the lone surrogate U+D800" in message
    assert "stdin:6 (record 5): found Expecting ':'" in message
    result = run("--on-error", "skip", input=piped)
    assert [found["text"] for found in lines(result)] == ["Mara"]
    assert "skipped 4 bad records" in result.stderr


@pytest.mark.parametrize("arguments", [(), ("",)], ids=["standard input", "argument"])
def test_extract_finds_nothing_in_an_empty_text(arguments: tuple[str, ...]) -> None:
    assert answer(*arguments, input=b"") == {"text": "", "entities": [], "relations": []}


def test_extract_reads_a_file_as_one_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(TEXT, encoding="utf-8")
    assert answer("--input", str(path)) == FakeExtractor()(TEXT).to_dict()


def test_extract_reads_the_texts_of_a_folder_in_order(folder: Path) -> None:
    found = lines(run("--input", str(folder)))
    assert [record["id"] for record in found] == ["b-2", "b-10", "c", "deep/a"]
    assert [len(record["entities"]) for record in found] == [0, 1, 0, 2]
    assert [record["text"] for record in found] == ["", "Mara.", "nobody", "Oldhaven\nand Tarn"]


def test_extract_counts_the_files_of_a_folder_that_are_not_read(folder: Path) -> None:
    (folder / "deep" / "a.ann").touch()
    result = run("--input", str(folder))
    assert len(lines(result)) == 4
    remark = f"2 × file whose name does not end in .txt, which was not read (first: {folder / 'deep' / 'a.ann'})"
    assert remark in result.stderr
    assert "not read" not in run("--input", str(folder / "deep" / "a.txt")).stderr


def test_extract_takes_the_suffix_off_an_id_however_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for name in ("a.TXT", "b.Txt", "c.txt.txt"):
        (tmp_path / "texts" / name).write_text("Mara", encoding="utf-8")
    assert [record["id"] for record in lines(run("--input", "texts"))] == ["a", "b", "c.txt"]
    (tmp_path / "texts" / "a.txt").write_text("Zoë", encoding="utf-8")
    with pytest.raises(DataError, match=r"a.txt: found the id of a.TXT again; expected names that differ before .txt"):
        run("--input", "texts")


def test_extract_reads_json_lines_with_their_ids(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", {"text": TEXT, "id": 7}, {"text": "", "date": None}, {"text": "Mara"})
    found = lines(run("--input", source))
    assert [record["id"] for record in found] == ["7", "a-2", "a-3"]
    assert found[0] == {"id": "7", **FakeExtractor()(TEXT).to_dict()}
    assert answer("--input", source, "--format", "json") == found


def test_extract_keeps_every_text_with_its_id_however_far_the_extractor_reads_ahead(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", *({"id": f"d{i}", "text": f"Mara {i}"} for i in range(100)))
    found = lines(run("--input", source))
    assert [(record["id"], record["text"]) for record in found] == [(f"d{i}", f"Mara {i}") for i in range(100)]


def test_extract_holds_no_more_than_the_extractor_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    write_lines(path, *({"text": f"Mara {i}"} for i in range(50)))
    out = io.StringIO()
    n_read = 0

    def counted(path: Path, problems: Problems) -> Iterator[Record]:
        nonlocal n_read
        n_read = 0
        for record in json_lines(path, problems):
            n_read += 1
            yield record

    class Watching(FakeExtractor):
        def pipe(self, texts: Iterable[str], on_progress: OnProgress) -> Iterator[Extraction]:
            for taken, text in enumerate(texts, 1):
                assert n_read == taken
                on_progress(taken, taken)
                yield self(text)
                assert len(out.getvalue().splitlines()) == taken

    monkeypatch.setattr("relatum.data.json_files.json_lines", counted)
    monkeypatch.setattr(sys.modules["relatum.extractor.extractor"], "Extractor", Watching)
    monkeypatch.setattr(sys, "stdout", out)
    extract(input=str(path))
    assert n_read == 50


def test_extract_reports_all_bad_lines_and_reads_no_model(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", {"text": TEXT}, {"txt": 1}, {"text": 3}, {"text": "", "id": "a-1"})
    target = tmp_path / "out.jsonl"
    with pytest.raises(DataError) as caught:
        run("--input", source, "--out", str(target))
    message = str(caught.value)
    assert "a.jsonl:2 (record 2): found only 'txt'; expected the key 'text'" in message
    assert "a.jsonl:3 (record 3), text: found 3; expected a string" in message
    assert 'a.jsonl:4 (record 4): found the id "a-1" again' in message
    assert "--on-error skip" in message
    assert FakeExtractor.loaded is None
    assert not target.exists()


def test_extract_skips_bad_texts_when_told(folder: Path) -> None:
    (folder / "bad.txt").write_bytes(b"Mara\nZo\xeb")
    (folder / "wide.txt").write_bytes("Mara".encode("utf-16"))
    with pytest.raises(DataError, match=r"bad.txt:2: found the byte 0xEB, which is not UTF-8; expected a UTF-8 file"):
        run("--input", str(folder))
    result = run("--input", str(folder), "--on-error", "skip")
    assert [record["id"] for record in lines(result)] == ["b-2", "b-10", "c", "deep/a"]
    assert "wide.txt: found a UTF-16 file; expected UTF-8; convert it with: iconv" in result.stderr
    assert "skipped 2 bad records" in result.stderr


def test_extract_fails_where_all_is_bad(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"a.txt:1: found the byte 0xFF(?s:.*)There is nothing else to read"):
        run("--input", "a.txt", "--on-error", "skip")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "missing"], "missing: no such file or folder"),
        (["--input", "empty"], "empty: there are no texts in it; expected files whose names end in .txt"),
        (["--input", "empty.jsonl"], r"empty.jsonl: there are no texts in it; expected \{"),
        (["--input", "a.json"], "a.json: texts are not read from .json; expected .jsonl"),
        (["--input", "pipe.jsonl"], "pipe.jsonl: neither a file nor a folder; pipe its text in"),
        ([TEXT, "--out", "empty"], "empty is a folder; name a file to write"),
        ([TEXT, "--out", "a.json", "--format", "brat"], "a.json is a file; name a new folder"),
    ],
)
def test_extract_answers_a_wrong_call_plainly(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "a.json").touch()
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(RelatumError, match=message):
        run(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([TEXT, "--input", "a.txt"], "leave one out"),
        ([TEXT, "--format", "brat"], "name a new one with --out"),
        ([TEXT, "--threshold", "2"], "--threshold"),
        (["Zo\udceb"], "TEXT is not UTF-8"),
    ],
)
def test_extract_answers_a_wrong_option_with_its_use(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_extract_refuses_standard_input_that_is_not_utf8() -> None:
    with pytest.raises(RelatumError, match=r"standard input, line 2: found the byte 0xEB, which is not UTF-8"):
        run(input=b"Mara\nZo\xeb")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_extract_on_a_terminal_asks_for_a_text_instead_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    with pytest.raises(typer.BadParameter, match=r"there is no text; give it as an argument .* --input, or pipe it in"):
        extract()


def test_extract_says_that_a_file_name_is_taken_as_text(tmp_path: Path) -> None:
    (tmp_path / "Mara.txt").touch()
    result = run("Mara.txt")
    assert json.loads(result.stdout)["text"] == "Mara.txt"
    assert "to read the file of that name use --input" in result.stderr


def test_extract_shows_tables_on_a_terminal(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    extract(TEXT + " [bold]\x1b[31m")
    shown = re.sub(r"\x1b\[[\d;]*m", "", screen.getvalue())
    assert re.search(r"Mara +Peop +0\.90 +0 +4", shown)
    assert re.search(r"Mara +Knows +Oldhaven +0\.60", shown)
    screen.truncate(0)
    extract(input=str(folder))
    shown = re.sub(r"\x1b\[[\d;]*m", "", screen.getvalue())
    assert shown.index("b-10") < shown.index("no entities", shown.index("b-10")) < shown.index("deep/a")
    assert "Oldhaven\nand Tarn" in shown


def test_extract_counts_the_sentences_of_a_long_text_for_whoever_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    screen, out = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", out)
    extract("Mara\n" * 2000)
    assert re.search(r"the text.* [\d,]+ of 2,001 read", re.sub(r"\x1b\[[\d;]*m", "", screen.getvalue()))
    assert len(json.loads(out.getvalue())["entities"]) == 2000


def test_extract_counts_nothing_for_a_short_text_or_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    for stream, text in ((Terminal(), TEXT), (io.StringIO(), "Mara\n" * 2000)):
        monkeypatch.setattr(sys, "stderr", stream)
        extract(text)
        assert stream.getvalue() == ""


def test_extract_erases_the_count_before_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both streams are one screen: what follows the last erasing is what was found, and nothing else."""
    monkeypatch.setenv("COLUMNS", "80")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", screen)
    extract("Mara\n" * 50, format="jsonl")
    counted, _, answered = screen.getvalue().rpartition("\x1b[2K")
    assert "of 51 read" in counted
    assert len(json.loads(answered)["entities"]) == 50


def test_extract_escapes_what_a_terminal_would_obey(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", {"text": "Mara \x1b[2J [red]x", "id": "\x1b[2J"})
    result = run("--input", source, "--format", "table")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "[red]x" in result.stdout


@pytest.mark.parametrize("name", ["out.json", "out.jsonl", "out.html", "out.txt"])
def test_extract_tells_the_format_from_the_name_of_the_file(tmp_path: Path, name: str) -> None:
    result = run(TEXT + " Zoë", "--out", name)
    assert result.stdout == ""
    assert f"wrote {name}" in result.stderr
    content = (tmp_path / name).read_text(encoding="utf-8")
    extraction = FakeExtractor()(TEXT + " Zoë")
    expected = {"out.jsonl": extraction.to_json() + "\n", "out.html": page([extraction], "Entities and relations")}
    assert content == expected.get(name, extraction.to_json(indent=2) + "\n")


def test_extract_that_fails_on_the_way_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(FakeExtractor):
        def pipe(self, texts: Iterable[str], on_progress: OnProgress) -> Iterator[Extraction]:
            on_progress(1, 2)
            yield from map(self, texts)
            raise RelatumError("out of luck")

    monkeypatch.setattr(sys.modules["relatum.extractor.extractor"], "Extractor", Failing)
    (tmp_path / "out.json").write_text("old")
    with pytest.raises(RelatumError, match="out of luck"):
        run(TEXT, "--out", "out.json")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.json", "old")]


def test_extract_writes_triples_on_one_line_each(tmp_path: Path) -> None:
    assert run(TEXT, "--format", "triples").stdout == "Mara\tKnows\tTarn\nMara\tKnows\tOldhaven\n"
    assert run("nobody", "--format", "triples").stdout == ""
    source = write_lines(tmp_path / "a.jsonl", {"text": "Mara and Zoë"}, {"text": "nobody"}, {"text": TEXT})
    shown = run("--input", source, "--format", "triples").stdout
    assert shown.splitlines() == ["Mara\tKnows\tZoë", "Mara\tKnows\tTarn", "Mara\tKnows\tOldhaven"]


@pytest.mark.parametrize("format", ["triples", "csv"])
def test_extract_collapses_white_space_in_names(monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    monkeypatch.setitem(KNOWN, "Tarn\t\r\n Bank", ("Org", 0.5))
    monkeypatch.delitem(KNOWN, "Tarn")
    shown = run("Mara of Tarn\t\r\n Bank", "--format", format).stdout
    assert "Tarn Bank" in shown
    assert len(shown.splitlines()) == (1 if format == "triples" else 2)


def test_extract_writes_a_table_of_relations_as_csv(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", {"id": 'a,"b"', "text": TEXT}, {"text": "nobody"}, {"text": "Mara\nZoë"})
    run("--input", source, "--out", "out.csv")
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(RECORD_COLUMNS)
    assert [(row["document"], row["head"], row["relation"], row["tail"], row["score"]) for row in rows] == [
        ('a,"b"', "Mara", "Knows", "Tarn", "0.6"),
        ('a,"b"', "Mara", "Knows", "Oldhaven", "0.6"),
        ("a-3", "Mara", "Knows", "Zoë", "0.6"),
    ]
    assert run("nobody", "--format", "csv").stdout == ",".join(RECORD_COLUMNS) + "\n"


def test_extract_writes_brat_that_reads_back(folder: Path, tmp_path: Path) -> None:
    from relatum.data import load_documents

    result = run("--input", str(folder), "--format", "brat", "--out", "brat")
    assert "scores are left out" in result.stderr
    documents = {document.id: document for document in load_documents(tmp_path / "brat", "brat")}
    assert set(documents) == {"b-2", "b-10", "c", "deep/a"}
    assert documents["deep/a"].annotation == FakeExtractor()("Oldhaven\nand Tarn").document.annotation
    assert "Knows\tArg1:Loc, Arg2:Org" in (tmp_path / "brat" / "annotation.conf").read_text()
    run(TEXT, "--format", "brat", "--out", "one")
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["annotation.conf", "text.ann", "text.txt"]


def test_extract_writes_one_page_fallow_fewer_layers_texts(folder: Path) -> None:
    shown = run("--input", str(folder), "--format", "html").stdout
    assert re.findall("<h2>(.*?)</h2>", shown) == ["b-2", "b-10", "c", "deep/a"]
    assert shown.endswith("</html>\n")


@pytest.mark.parametrize("format", ["json", "html"])
def test_extract_keeps_letters_that_the_stream_lacks(monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace"))
    extract("Zoë", format=format)  # type: ignore[arg-type]
    shown = raw.getvalue().decode("ascii")
    assert json.loads(shown)["text"] == "Zoë" if format == "json" else "Zo&#235;" in shown


def test_extract_leaves_out_what_is_below_the_threshold() -> None:
    found = answer(TEXT, "--threshold", "0.5")
    assert [entity["text"] for entity in found["entities"]] == ["Mara", "Oldhaven"]
    assert found["relations"] == [{"head": "e1", "tail": "e2", "label": "Knows", "score": 0.6}]
    assert answer(TEXT, "--threshold", "0.7")["relations"] == []


def test_extract_to_json_does_not_wait_for_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    extract(TEXT)
    assert not any(name.partition(".")[0] == "rich" for name in sys.modules)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ("fp32", None, None)),
        (("--precision", "bf16", "--batch-size", "8", "--max-cells", "1000"), ("bf16", 8, 1000)),
    ],
)
def test_precision_and_limits_reach_the_extractor(options: tuple[str, ...], expected: tuple[object, ...]) -> None:
    answer(TEXT, *options)
    assert FakeExtractor.limits == expected


@pytest.mark.parametrize("option", [("--batch-size", "0"), ("--max-cells", "-1"), ("--precision", "int4")], ids=str)
def test_precision_and_limits_that_there_are_not_are_refused(option: tuple[str, str]) -> None:
    result = run(TEXT, *option)
    assert result.exit_code == 2
    assert option[0] in result.output
    assert FakeExtractor.loaded is None


def test_several_models_are_read_with_as_one() -> None:
    assert run("--with", "second", "--model", "first", "--with", "third", TEXT).exit_code == 0
    assert FakeExtractor.loaded == (["first", "second", "third"], "auto")


def test_a_tsv_file_has_triples_and_a_compressed_file_is_refused(tmp_path: Path) -> None:
    run(TEXT, "--out", "found.tsv")
    assert (tmp_path / "found.tsv").read_text(encoding="utf-8") == "Mara\tKnows\tTarn\nMara\tKnows\tOldhaven\n"
    refused = run(TEXT, "--out", "found.jsonl.gz")
    assert refused.exit_code == 2
    assert "a compressed file is not written; leave out .gz" in " ".join(refused.output.replace("│", "").split())
    assert not (tmp_path / "found.jsonl.gz").exists()
