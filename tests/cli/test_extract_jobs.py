"""`relatum extract` into a folder: the options, messages and exit statuses of jobs."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relatum.cli import job
from relatum.cli.app import main
from relatum.errors import RelatumError
from relatum.models.checkpoint import save_model
from relatum.scale import JobReport, JobSettings, libraries
from relatum.scale.job import Job
from relatum.scale.progress import JobProgress
from relatum.scale.rows import Columns
from relatum.scale.shards import ShardSize
from relatum.scale.worker import ShardReader, Task, WorkerPlan

from ..small_models import make_small_model

TEXTS = ["Mara Ilves met Tom in Oldhaven.", "Ann left Port Amsel.", "Tom met Ann.", "The ferry left.", "Mara left."]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "small"
    save_model(make_small_model(), folder)
    return str(folder)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a file of documents."""
    monkeypatch.chdir(tmp_path)
    records = [{"id": f"d{number}", "text": text, "year": 1990 + number} for number, text in enumerate(TEXTS)]
    Path("in.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    pq.write_table(pa.Table.from_pylist(records), "in.parquet")


@dataclass
class Call:
    """A call of `extract_job` that was recorded, and the report that it answers with."""

    input: str = ""
    out: str = ""
    settings: JobSettings | None = None
    options: dict[str, Any] = field(default_factory=dict)
    report: JobReport = field(default_factory=lambda: JobReport(5, 0, 2, 0, ()))
    progress: list[JobProgress] = field(default_factory=list)

    def __call__(self, input: str, out: str, settings: JobSettings, **options: Any) -> JobReport:
        on_progress = options.pop("on_progress")
        self.input, self.out, self.settings, self.options = input, out, settings, options
        for progress in self.progress:
            on_progress(progress)
        return self.report


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    recorded = Call()
    monkeypatch.setattr("relatum.scale.run.extract_job", recorded)
    return recorded


class EngineHere:
    """An engine that works in this process; a stop is asked for after some shards."""

    limit: int | None = None
    asked: Any = None

    def __init__(self, workers: int, threads: int, gpus: int) -> None:
        EngineHere.asked = workers, threads, gpus

    def run(self, job: Job, plan: WorkerPlan, on_progress: Callable[[JobProgress], None]) -> bool:
        del on_progress
        reader = ShardReader(plan)
        for number, shard in enumerate(job.pending_shards()):
            if number == self.limit:
                return False
            job.commit(reader.read(Task(shard), lambda _: None))
        return True


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> type[EngineHere]:
    monkeypatch.setattr("relatum.scale.run.LocalEngine", EngineHere)
    monkeypatch.setattr(EngineHere, "limit", None)
    return EngineHere


def extract(*options: str, input: str = "in.jsonl", out: str = "out") -> int:
    return main(["extract", "--input", input, "--out", out, "--device", "cpu", *options])


def read_rows(out: str = "out") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in sorted(Path(out).glob("part-*")):
        if path.suffix == ".parquet":
            rows += pq.ParquetFile(path).read().to_pylist()
        else:
            rows += [json.loads(line) for line in path.read_text().splitlines()]
    return rows


def test_job_without_options_has_the_defaults(call: Call) -> None:
    assert extract() == 0
    assert (call.input, call.out) == ("in.jsonl", "out")
    assert call.settings == JobSettings(device="cpu")
    assert call.options == {"engine": "local", "workers": None, "threads": None, "address": None}


def test_every_option_reaches_the_job(call: Call) -> None:
    options = "--model first --with second --precision bf16 --batch-size 7 --max-cells 900 --threshold 0.25".split()
    options += "--set text.words=whitespace --engine ray --workers 3 --threads 2 --address 10.0.0.1:6379".split()
    options += "--text-column body --id-column key --keep year --keep title --without-text".split()
    options += "--shard-documents 17 --max-characters 999 --format jsonl".split()
    assert extract(*options, input="s3://bucket/in/*.parquet", out="s3://bucket/out") == 0
    assert (call.input, call.out) == ("s3://bucket/in/*.parquet", "s3://bucket/out")
    assert call.options == {"engine": "ray", "workers": 3, "threads": 2, "address": "10.0.0.1:6379"}
    assert call.settings == JobSettings(
        models=("first", "second"),
        device="cpu",
        precision="bf16",
        batch_size=7,
        max_cells=900,
        splitting=(("words", "whitespace"),),
        threshold=0.25,
        max_characters=999,
        columns=Columns("body", "key", ("year", "title")),
        format="jsonl",
        with_text=False,
        shard=ShardSize(17),
    )


@pytest.mark.parametrize(
    ("out", "options"),
    [
        ("results", []),
        ("results/", []),
        ("results.d/", []),
        ("there.d", []),
        ("memory://results", []),
        ("results.parquet", ["--format", "parquet"]),
        ("results", ["--format", "jsonl"]),
    ],
)
def test_folder_as_output_makes_a_job(call: Call, out: str, options: list[str]) -> None:
    Path("there.d").mkdir()
    assert extract(*options, out=out) == 0
    assert call.out == out
    assert call.settings is not None
    assert call.settings.format == ("jsonl" if "jsonl" in options else "parquet")


@pytest.mark.parametrize(
    "option",
    [
        ("--engine", "ray"),
        ("--workers", "2"),
        ("--threads", "2"),
        ("--address", "10.0.0.1:6379"),
        ("--text-column", "body"),
        ("--id-column", "key"),
        ("--keep", "year"),
        ("--without-text",),
        ("--shard-documents", "5"),
        ("--max-characters", "5"),
    ],
    ids=lambda option: option[0],
)
@pytest.mark.parametrize(
    "arguments", [["Tom met Ann."], ["--input", "in.jsonl", "--out", "out.json"]], ids=["text", "file"]
)
def test_options_of_jobs_are_refused_elsewhere(
    call: Call, option: tuple[str, ...], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["extract", *arguments, *option]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{option[0]} is for jobs, whose results are a folder; name a new folder with --out" in said
    assert call.input == ""


@pytest.mark.parametrize(
    "input", ["in.parquet", "in.csv", "in.tsv", "in.jsonl.gz", "in.jsonl.zst", "s3://b/a", "*.txt"]
)
def test_input_that_only_jobs_read_is_refused_elsewhere(input: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", "--input", input]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"--input {input} is read by jobs, whose results are a folder; name a new folder with --out" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "in.jsonl", "--format", "parquet"], "--format parquet writes a folder; name a new one with --out"),
        (["Tom met Ann.", "--format", "parquet"], "parquet is written by jobs, which read --input"),
        (["--input", "in.jsonl", "--out", "o.parquet"], "Parquet is written by jobs, whose results are a folder"),
        (["Tom met Ann.", "--out", "o.parquet"], "Parquet is written by jobs, whose results are a folder"),
        (["--input", "in.jsonl", "--out", "out", "--workers", "0"], "--workers"),
        (["--input", "in.jsonl", "--out", "out", "--shard-documents", "0"], "--shard-documents"),
        (["--input", "in.jsonl", "--out", "out", "--engine", "spark"], "--engine"),
        (["--input", "in.jsonl", "--out", "out", "--on-error", "skip"], "a job writes bad texts as rows with an error"),
    ],
)
def test_wrong_options_are_told(
    call: Call, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["extract", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert call.input == ""
    assert not Path("o.parquet").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keep", "id"], "--keep id: the results have a column of that name"),
        (["--address", "10.0.0.1:6379"], "--address is for --engine ray"),
        (["--model", "no-model"], "no-model: no such model"),
        (["--text-column", "body", "--input", "in.parquet"], "there is no column 'body'"),
        (["--id-column", "key", "--input", "in.parquet"], "there is no column 'key'"),
        (["--keep", "title", "--input", "in.parquet"], "there is no column 'title'"),
        (["--input", "missing.jsonl"], "missing.jsonl: no such file or folder"),
        (["--input", "in.docx"], "in.docx: not a kind of file that jobs read"),
    ],
)
def test_job_that_cannot_be_done_ends_with_status_1_and_the_reason(
    engine: object, model: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    del engine
    Path("in.docx").touch()
    assert extract("--model", model, *options) == 1
    said = capsys.readouterr()
    assert said.err.startswith("relatum: ")
    assert message in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_job_writes_what_was_asked_for_and_counts_it(
    engine: type[EngineHere], model: str, format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model", model, "--format", format, "--keep", "year", "--shard-documents", "2", "--without-text"]
    assert extract(*options, "--workers", "3", "--threads", "2", "--max-characters", "25", input="in.parquet") == 0
    assert engine.asked == (3, 2, 0)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "relatum: 5 documents in, 5 documents out, in 3 shards: out",
        "relatum: 1 document could not be read; the column error has the reasons",
    ]
    assert sorted(path.name for path in Path("out").glob("part-*")) == [f"part-00000{n}.{format}" for n in range(3)]
    rows = read_rows()
    assert [list(row) for row in rows] == [["id", "year", "entities", "relations", "error"]] * 5
    assert [(row["id"], row["year"]) for row in rows] == [(f"d{number}", 1990 + number) for number in range(5)]
    assert rows[0]["error"] == "the text has 31 characters; at most 25 are read (max_characters)"
    assert [row["error"] for row in rows[1:]] == [None] * 4


def test_columns_of_the_input_can_have_other_names(engine: object, model: str) -> None:
    del engine
    Path("in.csv").write_text("key,body\na,Tom met Ann.\nb,Ann met Tom.\n")
    assert extract("--model", model, "--text-column", "body", "--id-column", "key", input="in.csv") == 0
    assert [(row["id"], row["text"]) for row in read_rows()] == [("a", "Tom met Ann."), ("b", "Ann met Tom.")]


def test_stopped_job_says_so_and_the_same_command_goes_on(
    engine: type[EngineHere], model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "limit", 1)
    options = ["--model", model, "--shard-documents", "2"]
    assert extract(*options) == 130
    assert capsys.readouterr().err == "relatum: stopped with 2 documents done; run the same command again to go on\n"
    assert extract(*options, "--workers", "2") == 130  # another number of workers is the same job
    assert "stopped with 4 documents done" in capsys.readouterr().err
    assert extract(*options) == 0
    assert capsys.readouterr().err == "relatum: 5 documents in, 5 documents out, in 3 shards: out\n"
    assert [row["id"] for row in read_rows()] == [f"d{number}" for number in range(5)]
    assert extract(*options) == 0  # all is done: the counts are told again
    assert capsys.readouterr().err == "relatum: 5 documents in, 5 documents out, in 3 shards: out\n"


def test_another_job_in_the_same_folder_is_refused(
    engine: object, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    del engine
    assert extract("--model", model) == 0
    capsys.readouterr()
    assert extract("--model", model, "--threshold", "0.5") == 1
    assert (
        "out: another job was started in this folder: settings.threshold was null, now 0.5" in capsys.readouterr().err
    )


def test_ids_that_occur_twice_are_told(engine: object, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    del engine
    ids = ["a", "b", "a", "\x1b[2J", "\x1b[2J"]
    Path("in.jsonl").write_text("".join(json.dumps({"id": id, "text": "Tom met Ann."}) + "\n" for id in ids))
    assert extract("--model", model) == 0
    assert capsys.readouterr().err.splitlines()[1:] == ["relatum: 2 ids occur more than once: a, \\x1b[2J"]


def test_report_is_told_in_lines(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    call.report = JobReport(12_345, 1_000, 13, 2_500, ("a", "b"))
    assert extract() == 0
    assert capsys.readouterr().err.splitlines() == [
        "relatum: 12,345 documents in, 12,345 documents out, in 13 shards: out",
        "relatum: 1,000 documents could not be read; the column error has the reasons",
        "relatum: 2,500 ids occur more than once: a, b, …",
    ]


def make_progress(seconds: float = 100, **values: Any) -> JobProgress:
    progress = JobProgress(12_000, 7, 0.5, 2, Counter({1: 4_000, 2: 5_000}), _first_share=0.25, **values)
    progress._begun -= seconds
    return progress


def test_progress_is_a_line_with_rate_failures_restarts_and_time_left() -> None:
    line = job.describe_progress(make_progress())
    assert (
        line
        == "12,000 documents · 90/s · 7 failed · 2 workers restarted · 50% · 0:03:20 left · per worker 4,000 to 5,000"
    )
    assert job.describe_progress(JobProgress(0, 0)) == "0 documents · 0/s"


@pytest.mark.parametrize(("every", "n_lines"), [(0.0, 5), (3600.0, 0)])
def test_progress_is_printed_now_and_then_where_there_is_no_terminal(
    call: Call, every: float, n_lines: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call.progress = [make_progress()] * 5
    monkeypatch.setattr(job, "_EVERY", every)
    assert extract() == 0
    *lines, last = capsys.readouterr().err.splitlines()
    assert [line.partition(" ·")[0] for line in lines] == ["relatum: 12,000 documents"] * n_lines
    assert last == "relatum: 5 documents in, 5 documents out, in 2 shards: out"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_on_a_terminal(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stderr", screen)
    call.progress = [make_progress()] * 3
    assert extract() == 0
    assert screen.getvalue().rstrip().endswith("5 documents in, 5 documents out, in 2 shards: out")


@pytest.mark.parametrize(
    ("missing", "options", "extra"),
    [
        ("fsspec", [], "scale"),
        ("pyarrow", [], "scale"),
        ("ray", ["--engine", "ray"], "ray"),
        ("ray.data", ["--engine", "ray"], "ray"),
    ],
)
def test_missing_library_is_told_with_the_extra_that_installs_it(
    model: str,
    missing: str,
    options: list[str],
    extra: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(name: str) -> object:
        if name == missing:
            raise ImportError(f"No module named {name!r}")
        return import_module(name)

    monkeypatch.setattr(libraries, "import_module", fail)
    assert extract("--model", model, *options) == 1
    said = capsys.readouterr().err
    assert f"{missing} cannot be imported" in said
    assert f"install it: pip install 'relatum[{extra}]'" in said


@pytest.mark.parametrize("where", ["input", "out"])
def test_missing_library_of_an_object_store_is_told(
    model: str, where: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    def fail(url: str, **_: Any) -> object:
        if "://" in url:
            raise ImportError("Install s3fs to access S3")
        return system(url)

    system = fsspec.core.url_to_fs
    monkeypatch.setattr(fsspec.core, "url_to_fs", fail)
    urls = {"input": "in.jsonl", "out": "out", where: "s3://bucket/folder"}
    assert extract("--model", model, input=urls["input"], out=urls["out"]) == 1
    assert (
        "s3://bucket/folder: Install s3fs to access S3; install it: pip install 'relatum[s3]'"
        in capsys.readouterr().err
    )


def test_job_runs_in_a_worker_process(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert extract("--model", model, "--workers", "1", "--threads", "1", "--shard-documents", "3") == 0
    assert capsys.readouterr().err == "relatum: 5 documents in, 5 documents out, in 2 shards: out\n"
    assert [row["text"] for row in read_rows()] == TEXTS


def test_errors_of_a_job_are_raised_to_whoever_calls_it_from_python(model: str) -> None:
    from relatum.scale import extract_job

    with pytest.raises(RelatumError, match="--address is for --engine ray; leave it out, or add --engine ray"):
        extract_job("in.jsonl", "out", JobSettings((model,)), address="10.0.0.1:6379")


def test_job_without_documents_says_so(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    call.report = JobReport(0, 0, 0, 0, ())
    assert extract() == 0
    assert "the input holds no documents" in capsys.readouterr().err
