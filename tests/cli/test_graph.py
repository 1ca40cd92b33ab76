"""`relatum graph` from the command line."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relatum.cli.app import app
from relatum.cli.app import main as relatum
from relatum.graph import KnowledgeGraph
from relatum.scale.batch import Row
from relatum.scale.rows import Document
from relatum.scale.writing import ResultFormat, file_name, to_bytes

NEWS = ["--model", "news"]
TRIPLES = [
    ("Bergen", "Located_In", "Norway"),
    ("Ingrid Solheim", "Work_For", "Bergen Shipping Company"),
    ("Lisbon", "Located_In", "Portugal"),
    ("Ingrid Solheim", "Live_In", "Oslo"),
    ("Marta Figueira", "Work_For", "Portuguese Railway Company"),
    ("Portuguese Railway Company", "OrgBased_In", "Lisbon"),
    ("Porto", "Located_In", "Portugal"),
    ("Bergen Shipping Company", "OrgBased_In", "Bergen"),
    ("Ingrid Solheim", "Work_For", "Nordic Bank of Oslo"),
    ("Nordic Bank of Oslo", "OrgBased_In", "Norway"),
    ("Joao Sarmento", "Work_For", "Portuguese Railway Company"),
    ("Joao Sarmento", "Live_In", "Porto"),
]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run the command, which must end well, and return what it prints; `news` reads texts."""
    capsys.readouterr()
    status = relatum(["graph", *NEWS, *map(str, arguments)])
    shown = capsys.readouterr()
    assert status == 0, shown.err
    return shown.out


def graph_of(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> KnowledgeGraph:
    return KnowledgeGraph.from_dict(json.loads(answer(capsys, *arguments)))


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run the command, which must fail, and return its message."""
    capsys.readouterr()
    assert relatum(["graph", *map(str, arguments)]) in (1, 2)
    return " ".join(capsys.readouterr().err.replace("│", "").split())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, examples_folder: Path) -> Path:
    """The results of `relatum extract` with `news` for the three paragraphs."""
    path = tmp_path_factory.mktemp("results") / "results.jsonl"
    assert relatum(["extract", *NEWS, "--input", str(examples_folder / "graph"), "--out", str(path)]) == 0
    return path


def test_a_folder_of_texts_becomes_one_graph(capsys: pytest.CaptureFixture[str], examples_folder: Path) -> None:
    graph = graph_of(capsys, examples_folder / "graph")
    assert graph.triples() == TRIPLES
    (evidence,) = graph.edges[2].evidence
    assert evidence.document == "1"
    assert evidence.text is not None
    assert evidence.text.startswith("BERGEN, Norway - ")


def test_results_of_extract_become_the_same_graph(
    capsys: pytest.CaptureFixture[str], results: Path, examples_folder: Path
) -> None:
    graph = graph_of(capsys, results)
    assert graph == graph_of(capsys, examples_folder / "graph")


def test_results_are_read_from_json_however_extract_wrote_it(
    capsys: pytest.CaptureFixture[str], results: Path, tmp_path: Path
) -> None:
    records = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    (tmp_path / "list.json").write_text(json.dumps(records), encoding="utf-8")
    assert graph_of(capsys, tmp_path / "list.json").triples() == TRIPLES
    del records[0]["id"]
    (tmp_path / "one.json").write_text(json.dumps(records[0], indent=2), encoding="utf-8")
    assert graph_of(capsys, tmp_path / "one.json").triples()[1:] == TRIPLES[1:4]


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_the_folder_of_a_job_is_read(
    capsys: pytest.CaptureFixture[str], results: Path, tmp_path: Path, format: ResultFormat
) -> None:
    (tmp_path / "_job").mkdir()
    documents: list[Document] = []
    rows: list[Row] = []
    for line in results.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        documents.append(Document(record["id"], record["text"], ("kept",)))
        rows.append((record["entities"], record["relations"], None))
    documents.append(Document("bad", None, ("kept",)))
    rows.append((None, None, "the text is missing"))
    part = tmp_path / file_name(0, format)
    part.write_bytes(to_bytes(documents, rows, format, [("from", None)], True))
    assert graph_of(capsys, tmp_path).triples() == TRIPLES
    assert relatum(["graph", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert "1 × job that is not finished" in said
    assert "1 × document that the job could not read, left out" in said
    part.write_bytes(to_bytes(documents, rows, format, [("from", None)], False))
    assert "run the job again without --without-text" in refusal(capsys, tmp_path)


def test_annotated_data_of_any_format_is_read_without_a_model(
    capsys: pytest.CaptureFixture[str], examples_folder: Path, tmp_path: Path
) -> None:
    news = examples_folder / "news" / "dev.jsonl"
    graph = graph_of(capsys, news)
    assert relatum(["convert", str(news), str(tmp_path / "brat"), "--to", "brat"]) == 0
    again = graph_of(capsys, tmp_path / "brat")
    assert sorted(again.triples()) == sorted(graph.triples())
    assert all(edge.score is None and edge.evidence[0].text for edge in again.edges)


def test_files_beside_annotated_data_are_named(
    capsys: pytest.CaptureFixture[str], results: Path, tmp_path: Path
) -> None:
    (tmp_path / "results.jsonl").write_bytes(results.read_bytes())
    (tmp_path / "notes.txt").write_text("Ada Byron lives in London.", encoding="utf-8")
    assert relatum(["graph", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)["edges"]) == len(TRIPLES)
    assert "1 × file that was not read: not annotated data in a known format" in shown.err


def test_several_inputs_are_merged_and_their_documents_told_apart(
    capsys: pytest.CaptureFixture[str], examples_folder: Path, results: Path
) -> None:
    text = examples_folder / "graph" / "2.txt"
    (edge,) = [edge for edge in graph_of(capsys, text, results).edges if edge.head == "loc/porto"]
    names = [text.with_suffix("").as_posix(), f"{results.as_posix()}/2"]
    assert [one.document for one in edge.evidence] == names


@pytest.mark.parametrize("indent", [None, 2])
def test_results_can_be_piped_in(results: Path, indent: int | None) -> None:
    line = results.read_text(encoding="utf-8").splitlines()[0]
    piped = json.dumps(json.loads(line), indent=indent)
    result = CliRunner().invoke(app, ["graph"], input=piped.encode())
    assert KnowledgeGraph.from_dict(json.loads(result.stdout)).triples()[1:] == TRIPLES[1:4]


@pytest.mark.parametrize("start", ["", "[1] ", "{ "])
def test_text_can_be_piped_in(start: str) -> None:
    result = CliRunner().invoke(app, ["graph", *NEWS], input=f"{start}Ada Byron lives in London.".encode())
    assert KnowledgeGraph.from_dict(json.loads(result.stdout)).triples() == [("Ada Byron", "Live_In", "London")]


def test_a_terminal_gets_a_table(capsys: pytest.CaptureFixture[str], results: Path) -> None:
    lines = answer(capsys, results, "--format", "table").splitlines()
    assert lines[1].split() == ["head", "type", "relation", "tail", "type", "score", "found"]
    assert lines[5].split() == ["Lisbon", "Loc", "Located_In", "Portugal", "Loc", "0.74", "1"]
    assert lines[-1] == "13 nodes, 12 edges"


@pytest.mark.parametrize("name", ["kg.html", "kg.graphml", "kg.ttl", "kg.jsonld", "kg.cypher", "kg.json", "kg.csv"])
def test_the_suffix_of_the_output_says_the_format(
    capsys: pytest.CaptureFixture[str], results: Path, tmp_path: Path, name: str
) -> None:
    capsys.readouterr()
    assert relatum(["graph", str(results), "--out", str(tmp_path / name), "--base", "https://data.example.com/"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"wrote {tmp_path / name}: 13 nodes, 12 edges" in shown.err
    text = "".join(file.read_text("utf-8") for file in [tmp_path / name, *tmp_path.glob("kg.csv/*")] if file.is_file())
    assert "Portuguese Railway Company" in text
    assert ("https://data.example.com/" in text) == (name in ("kg.ttl", "kg.jsonld"))
    if name == "kg.csv":
        assert len(list(csv.reader(io.StringIO(text)))) == 1 + 13 + 1 + 12


def test_threshold_and_keep_leave_out_and_say_so(
    capsys: pytest.CaptureFixture[str], results: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again.jsonl"
    again.write_bytes(results.read_bytes())
    graph = graph_of(capsys, results, again, "--threshold", "0.8", "--keep", "1")
    assert ("Ingrid Solheim", "Live_In", "Oslo") not in graph.triples()
    assert all((edge.score or 0) >= 0.8 for edge in graph.edges)
    (edge,) = [edge for edge in graph.edges if edge.head == "loc/porto"]
    assert (len(edge.evidence), edge.count) == (1, 2)
    relatum(["graph", str(results), str(again), "--keep", "1"])
    assert (
        f"kept at most 1 of the places of each edge; places that are only counted: {len(TRIPLES)}"
        in capsys.readouterr().err
    )


def test_bad_documents_are_all_named_or_skipped(
    capsys: pytest.CaptureFixture[str], results: Path, tmp_path: Path
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(results.read_text(encoding="utf-8") + '{"text": "x", "entities": 7}\n', encoding="utf-8")
    out = tmp_path / "kg.json"
    message = refusal(capsys, path, "--out", out)
    assert "bad.jsonl:4 (record 4), entities: found 7; expected a list" in message
    assert "Nothing was written." in message
    assert not out.exists()
    assert graph_of(capsys, path, "--on-error", "skip").triples() == TRIPLES


def test_inputs_and_options_that_cannot_be_used_are_refused(
    capsys: pytest.CaptureFixture[str], results: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "schema.json").write_text('{\n"entity_types": []}', encoding="utf-8")
    assert "nowhere: no such file or folder" in refusal(capsys, "nowhere", results)
    assert "empty: there are no documents" in refusal(capsys, tmp_path / "empty")
    assert "found an object without entities" in refusal(capsys, tmp_path / "schema.json")
    (tmp_path / "graph.json").write_text('{\n"nodes": [], "edges": []}', encoding="utf-8")
    assert "found a knowledge graph, which is not read here" in refusal(capsys, tmp_path / "graph.json")
    (tmp_path / "broken.json").write_text("[1, 2", encoding="utf-8")
    assert "broken.json: found no results of relatum extract" in refusal(capsys, tmp_path / "broken.json")
    tasks = [{"data": {"text": "Oslo."}, "predictions": [{"result": []}]}]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks), encoding="utf-8")
    assert "1 × task that nobody has annotated, left out" in refusal(capsys, tmp_path / "tasks.json")
    unread = tmp_path / "text.txt"
    unread.touch()
    assert "is a folder; name a file" in refusal(capsys, unread, "--model", "x", "--out", tmp_path, "--format", "html")
    assert "cannot be told from the suffix '.xml'" in refusal(capsys, results, "--out", "kg.xml")
    assert "name a new folder with --out" in refusal(capsys, results, "--format", "csv")
    assert "leave out --out" in refusal(capsys, results, "--format", "table", "--out", "kg.txt")
    assert "the base is 'a b'" in refusal(capsys, results, "--base", "a b")


def test_results_are_read_without_loading_a_model(results: Path) -> None:
    import subprocess

    code = f"import sys; from relatum.cli.app import main; main(['graph', {str(results)!r}])"
    code += "; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
