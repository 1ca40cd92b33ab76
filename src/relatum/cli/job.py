"""The jobs of `relatum extract`: many documents into a folder of shards."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from relatum.scale.job import JobReport, JobSettings
    from relatum.scale.progress import JobProgress

_PANEL = "Jobs: --out names a folder"
_EVERY = 30.0
"""Seconds between two lines of progress where standard error is not a terminal."""
_COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".zip")
_SUFFIXES = (".parquet", ".pq", ".csv", ".tsv", ".gz", ".zst")

Engine = Annotated[
    Literal["local", "ray"] | None,
    typer.Option(help="Worker processes on this machine, or Ray Data. Default: local.", rich_help_panel=_PANEL),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Worker processes. Default: one per core; on GPUs, up to 16 per GPU.",
        rich_help_panel=_PANEL,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Threads per worker. Default: the workers share the cores.", rich_help_panel=_PANEL
    ),
]
Address = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="A running Ray cluster, for --engine ray.", rich_help_panel=_PANEL),
]
TextColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help='The column with the text. Default: "text".', rich_help_panel=_PANEL),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help='The column with the id. Default: "id", or else file and line.', rich_help_panel=_PANEL
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A column to copy to the results; may be repeated.", rich_help_panel=_PANEL),
]
WithoutText = Annotated[
    bool, typer.Option("--without-text", help="Leave the texts out of the results.", rich_help_panel=_PANEL)
]
ShardDocuments = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Documents per shard. Default: 1000.", rich_help_panel=_PANEL),
]
MaxCharacters = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="A longer text becomes a row with an error. Default: 500,000.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of `relatum extract` that only jobs have; None where an option is not given."""

    engine: Literal["local", "ray"] | None
    workers: int | None
    threads: int | None
    address: str | None
    text_column: str | None
    id_column: str | None
    keep: Sequence[str] | None
    without_text: bool
    shard_documents: int | None
    max_characters: int | None

    def given(self) -> str | None:
        """Return the name of an option that is given, None if there is none."""
        for name in self.__slots__:
            if getattr(self, name):
                return f"--{name.replace('_', '-')}"
        return None

    def to_settings(self, *, device: str, **common: Any) -> JobSettings:
        """Return the settings of a job; `common` are those that every extraction has."""
        from relatum.scale.batch import MAX_CHARACTERS
        from relatum.scale.job import JobSettings
        from relatum.scale.rows import Columns
        from relatum.scale.shards import ShardSize

        columns = Columns(self.text_column or "text", self.id_column, tuple(self.keep or ()))
        size = ShardSize() if self.shard_documents is None else ShardSize(self.shard_documents)
        return JobSettings(
            device=device,
            columns=columns,
            shard=size,
            with_text=not self.without_text,
            max_characters=self.max_characters or MAX_CHARACTERS,
            **common,
        )


def is_job(input: str | None, out: str | None, format: str | None) -> bool:
    """True if the command asks for a job: results of --input in a folder."""
    if input is None or format not in (None, "parquet", "jsonl"):
        return False
    if format == "parquet" or (out is not None and "://" in out):
        return True
    if out is None:
        return False
    return out.endswith("/") or Path(out).is_dir() or not Path(out).suffix


def refuse_without_job(input: str | None, out: str | None, options: JobOptions) -> None:
    """Refuse what only a job can do."""
    cure = "name a new folder with --out, with a / at its end: --out results/"
    if option := options.given():
        raise typer.BadParameter(f"{option} is for jobs, whose results are a folder; {cure}")
    if input is not None and ("://" in input or "*" in input or Path(input).suffix.lower() in _SUFFIXES):
        raise typer.BadParameter(f"--input {input} is read by jobs, whose results are a folder; {cure}")
    if out is not None and Path(out).suffix.lower() in (".parquet", ".pq"):
        raise typer.BadParameter(f"--out {out}: Parquet is written by jobs, whose results are a folder; {cure}")
    if out is not None and Path(out).suffix.lower() in _COMPRESSED:
        raise typer.BadParameter(f"--out {out}: a compressed file is not written; leave out {Path(out).suffix}")


def run_job(input: str, out: str | None, options: JobOptions, settings: JobSettings) -> None:
    """Run a job, show its progress, and print its counts."""
    from relatum.cli.console import say

    if out is None:
        raise typer.BadParameter("--format parquet writes a folder; name a new one with --out")
    from relatum.scale.run import extract_job

    with _showing_progress() as on_progress:
        report = extract_job(
            input,
            out,
            settings,
            engine=options.engine or "local",
            workers=options.workers,
            threads=options.threads,
            address=options.address,
            on_progress=on_progress,
        )
    for line in describe(report, out):
        say(line)
    if not report.finished:
        raise typer.Exit(130)


def describe(report: JobReport, out: str) -> Iterator[str]:
    """Yield the lines that tell how a job ended."""
    if not report.finished:
        yield f"stopped with {report.documents:,} documents done; run the same command again to go on"
        return
    shards = "1 shard" if report.shards == 1 else f"{report.shards:,} shards"
    yield f"{report.documents:,} documents in, {report.documents:,} documents out, in {shards}: {out}"
    if report.failed:
        failed = "1 document" if report.failed == 1 else f"{report.failed:,} documents"
        yield f"{failed} could not be read; the column error has the reasons"
    if not report.documents:
        yield "the input holds no documents, so that there is no file of results"
    if report.duplicates:
        more = ", …" if report.duplicates > len(report.duplicate_ids) else ""
        yield f"{report.duplicates:,} ids occur more than once: {', '.join(report.duplicate_ids)}{more}"


@contextmanager
def _showing_progress() -> Iterator[Callable[[JobProgress], None]]:
    """Yield a function that shows progress: a line that changes on a terminal, or else a line now and then."""
    if not sys.stderr.isatty():
        yield _every_now_and_then()
        return
    from rich.console import Console
    from rich.status import Status

    with Status("starting the workers", console=Console(stderr=True)) as status:
        yield lambda progress: status.update(describe_progress(progress))


def _every_now_and_then() -> Callable[[JobProgress], None]:
    from relatum.cli.console import say

    last = time.monotonic()

    def show(progress: JobProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            say(describe_progress(progress))

    return show


def describe_progress(progress: JobProgress) -> str:
    """Return one line about a job under way."""
    parts = [f"{progress.documents:,} documents", f"{progress.rate:,.0f}/s"]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if progress.restarts:
        parts.append(f"{progress.restarts} workers restarted")
    if progress.share:
        parts.append(f"{progress.share:.0%}")
    left = progress.seconds_left
    if left is not None:
        minutes, seconds = divmod(int(left), 60)
        hours, minutes = divmod(minutes, 60)
        parts.append(f"{hours}:{minutes:02d}:{seconds:02d} left")
    shares = sorted(progress.by_worker.values(), reverse=True)
    if len(shares) > 1:
        parts.append(f"per worker {shares[-1]:,} to {shares[0]:,}")
    return " · ".join(parts)
