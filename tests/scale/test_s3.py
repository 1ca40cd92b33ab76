"""Input and output in object stores: a local S3 server, and memory."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relatum.errors import RelatumError
from relatum.scale import JobSettings, extract_job
from relatum.scale.inputs import find_source
from relatum.scale.shards import ShardSize
from relatum.scale.storage import Storage
from relatum.scale.writing import read_ids

from .jobs_here import make_texts, result_files, run_here, write_jsonl

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("s3fs")
moto_server = pytest.importorskip("moto.server")

N_DOCUMENTS = 10
IDS = [f"d{number}" for number in range(N_DOCUMENTS)]
RECORDS: list[dict[str, object]] = [
    {"id": id, "text": text} for id, text in zip(IDS, make_texts(N_DOCUMENTS), strict=True)
]


@pytest.fixture(scope="module", autouse=True)
def _server() -> Iterator[None]:
    """A server on this machine; the variables reach worker processes too."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    server.stop()


@pytest.fixture
def bucket(request: pytest.FixtureRequest) -> str:
    """The URL of a bucket with nothing in it."""
    name = f"bucket-{abs(hash(request.node.name))}"
    fsspec.filesystem("s3").mkdir(name)
    return f"s3://{name}"


@pytest.fixture
def settings(model: str) -> JobSettings:
    return JobSettings((model,), shard=ShardSize(documents=3))


@pytest.fixture
def expected(tmp_path: Path, settings: JobSettings) -> dict[str, bytes]:
    """The results of the same job on a disk."""
    run_here(write_jsonl(tmp_path / "in.jsonl", RECORDS), tmp_path / "expected", settings)
    return result_files(tmp_path / "expected")


def put(url: str, data: bytes) -> None:
    with fsspec.open(url, "wb") as stream:
        stream.write(data)


def put_jsonl(url: str, records: list[dict[str, object]] = RECORDS) -> None:
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    put(url, gzip.compress(data) if url.endswith(".gz") else data)


def put_parquet(url: str, records: list[dict[str, object]] = RECORDS) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(records), sink, row_group_size=4)
    put(url, sink.getvalue().to_pybytes())


def put_csv(url: str) -> None:
    put(url, "".join(["id,text\n", *(f'{record["id"]},"{record["text"]}"\n' for record in RECORDS)]).encode())


def stored(url: str) -> dict[str, bytes]:
    """All files below a URL, by their paths."""
    system, root = fsspec.core.url_to_fs(url)
    system.invalidate_cache()
    return {path.removeprefix(root).lstrip("/"): system.cat_file(path) for path in sorted(system.find(root))}


def results(url: str) -> dict[str, bytes]:
    return {name: data for name, data in stored(url).items() if not name.startswith("_job/")}


@pytest.mark.parametrize("name", ["in.parquet", "in.jsonl", "in.jsonl.gz", "in.csv"])
def test_file_on_s3_gives_the_results_of_a_file_on_disk(
    bucket: str, settings: JobSettings, expected: dict[str, bytes], tmp_path: Path, name: str
) -> None:
    write = {"parquet": put_parquet, "csv": put_csv}.get(name.rpartition(".")[2], put_jsonl)
    write(f"{bucket}/{name}")
    run_here(f"{bucket}/{name}", tmp_path / "out", settings)
    assert result_files(tmp_path / "out") == expected


@pytest.mark.parametrize("url", ["{}/in", "{}/in/", "{}/in/*.jsonl", "{}/in/part-?.jsonl"])
def test_folder_or_pattern_on_s3_is_read_in_the_order_of_its_names(
    bucket: str, settings: JobSettings, expected: dict[str, bytes], tmp_path: Path, url: str
) -> None:
    put_jsonl(f"{bucket}/in/part-2.jsonl", RECORDS[7:])
    put_jsonl(f"{bucket}/in/part-1.jsonl", RECORDS[:7])
    put(f"{bucket}/in/_SUCCESS", b"")
    run_here(url.format(bucket), tmp_path / "out", settings)
    assert result_files(tmp_path / "out") == expected


def test_text_files_on_s3_are_documents(bucket: str, settings: JobSettings, tmp_path: Path) -> None:
    for name in ("b/2", "1"):
        put(f"{bucket}/in/{name}.txt", b"Tom met Ann.")
    report, _ = run_here(f"{bucket}/in", tmp_path / "out", replace(settings, format="jsonl"))
    assert report.documents == 2
    lines = (tmp_path / "out" / "part-000000.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["1", "b/2"]


def test_job_from_s3_to_s3_goes_on_where_it_stopped(
    bucket: str, settings: JobSettings, expected: dict[str, bytes]
) -> None:
    put_jsonl(f"{bucket}/in.jsonl")
    out = f"{bucket}/deep/out"
    report, read = run_here(f"{bucket}/in.jsonl", out, settings, limit=2)
    assert (report.finished, read) == (False, [0, 1])
    assert sorted(stored(out)) == [
        "_job/job.json",
        "_job/shards/000000.json",
        "_job/shards/000001.json",
        "part-000000.parquet",
        "part-000001.parquet",
    ]
    report, read = run_here(f"{bucket}/in.jsonl", out, settings)
    assert (report.finished, report.documents, read) == (True, N_DOCUMENTS, [2, 3])
    assert results(out) == expected
    assert run_here(f"{bucket}/in.jsonl", out, settings) == (report, [])


def test_slash_at_the_end_of_a_folder_on_s3_changes_nothing(
    bucket: str, settings: JobSettings, expected: dict[str, bytes]
) -> None:
    put_jsonl(f"{bucket}/in.jsonl")
    run_here(f"{bucket}/in.jsonl", f"{bucket}/out/", settings, limit=2)
    assert run_here(f"{bucket}/in.jsonl", f"{bucket}/out", settings)[1] == [2, 3]
    assert results(f"{bucket}/out") == expected


def test_worker_processes_write_to_s3(bucket: str, settings: JobSettings, expected: dict[str, bytes]) -> None:
    put_parquet(f"{bucket}/in.parquet")
    report = extract_job(f"{bucket}/in.parquet", f"{bucket}/out", settings, workers=1, threads=1)
    assert (report.finished, report.documents) == (True, N_DOCUMENTS)
    assert results(f"{bucket}/out") == expected


def test_shard_on_s3_that_was_damaged_or_lost_is_done_again(
    bucket: str, settings: JobSettings, expected: dict[str, bytes]
) -> None:
    put_jsonl(f"{bucket}/in.jsonl")
    run_here(f"{bucket}/in.jsonl", f"{bucket}/out", settings)
    fsspec.filesystem("s3").rm(f"{bucket}/out/part-000001.parquet")
    put(f"{bucket}/out/part-000003.parquet", b"half")
    assert run_here(f"{bucket}/in.jsonl", f"{bucket}/out", settings)[1] == [1, 3]
    assert results(f"{bucket}/out") == expected


def test_another_job_in_a_folder_on_s3_is_refused(bucket: str, settings: JobSettings) -> None:
    put_jsonl(f"{bucket}/in.jsonl")
    run_here(f"{bucket}/in.jsonl", f"{bucket}/out", settings, limit=1)
    with pytest.raises(RelatumError, match=r"another job was started in this folder: settings\.threshold was null"):
        run_here(f"{bucket}/in.jsonl", f"{bucket}/out", replace(settings, threshold=0.5))
    put_jsonl(f"{bucket}/in.jsonl", [*RECORDS[:-1], {"id": "d9", "text": "Ann met Tom instead."}])
    with pytest.raises(RelatumError, match=r"another job was started in this folder: input\."):
        run_here(f"{bucket}/in.jsonl", f"{bucket}/out", settings)


def test_folder_on_s3_that_holds_something_else_is_refused(bucket: str, settings: JobSettings) -> None:
    put_jsonl(f"{bucket}/in.jsonl")
    put(f"{bucket}/out/thesis.tex", b"")
    with pytest.raises(RelatumError, match=r"out: the folder holds thesis\.tex, and no job; name a new or empty"):
        run_here(f"{bucket}/in.jsonl", f"{bucket}/out", settings)


@pytest.mark.parametrize("name", ["missing.jsonl", "missing/", "missing/*.jsonl"])
def test_input_that_is_not_on_s3_is_told_by_its_name(bucket: str, name: str, settings: JobSettings) -> None:
    with pytest.raises(RelatumError, match=r"s3://bucket-\d+/missing"):
        run_here(f"{bucket}/{name}", f"{bucket}/out", settings)


def test_bucket_that_is_not_there_is_told(bucket: str, settings: JobSettings, tmp_path: Path) -> None:
    put_jsonl(f"{bucket}/in.jsonl")
    with pytest.raises(RelatumError, match="s3://no-such-bucket"):
        run_here("s3://no-such-bucket/in.jsonl", tmp_path / "out", settings)
    with pytest.raises(RelatumError, match="s3://no-such-bucket-for-results"):
        run_here(f"{bucket}/in.jsonl", "s3://no-such-bucket-for-results/out", settings)


def test_s3_that_refuses_is_told_and_not_shown_as_a_traceback(
    bucket: str, settings: JobSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_jsonl(f"{bucket}/in.jsonl")

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("Access Denied")

    system = fsspec.filesystem("s3")
    monkeypatch.setattr(system, "pipe_file", refuse)
    with pytest.raises(RelatumError, match=r"s3://bucket-\d+/out/_job/job\.json: cannot be written: Access Denied"):
        run_here(f"{bucket}/in.jsonl", f"{bucket}/out", settings)
    monkeypatch.setattr(system, "isdir", refuse)
    with pytest.raises(RelatumError, match=r"s3://bucket-\d+/in\.jsonl: cannot be listed: Access Denied"):
        run_here(f"{bucket}/in.jsonl", f"{bucket}/out", settings)


def test_large_file_is_stored_whole(bucket: str) -> None:
    storage = Storage(f"{bucket}/out")
    data = bytes(range(256)) * 2**18
    storage.write("part-000000.parquet", data)
    assert storage.read("part-000000.parquet") == data
    assert storage.sizes() == {"part-000000.parquet": len(data)}


@pytest.fixture
def memory() -> Iterator[str]:
    """The URL of a folder in the memory of this process."""
    fsspec.filesystem("memory").store.clear()
    yield "memory://jobs"
    fsspec.filesystem("memory").store.clear()


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_jobs_run_on_any_file_system_that_fsspec_knows(memory: str, settings: JobSettings, format: Any) -> None:
    put_jsonl(f"{memory}/in.jsonl.gz")
    settings = replace(settings, format=format)
    run_here(f"{memory}/in.jsonl.gz", f"{memory}/out", settings, limit=1)
    report, read = run_here(f"{memory}/in.jsonl.gz", f"{memory}/out", settings)
    assert (report.finished, report.documents, read) == (True, N_DOCUMENTS, [1, 2, 3])
    storage = Storage(f"{memory}/out")
    names = sorted(storage.sizes())
    assert names == [f"part-00000{number}.{format}" for number in range(4)]
    ids: list[str] = []
    for name in names:
        with storage.open(name) as stream:
            ids += read_ids(stream, format)
    assert ids == IDS


def test_input_that_another_program_changes_has_another_fingerprint(bucket: str) -> None:
    boto3 = pytest.importorskip("boto3")
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    prints = []
    for body in (b'{"text": "a"}\n', b'{"text": "b"}\n'):
        client.put_object(Bucket=bucket.removeprefix("s3://"), Key="in/a.jsonl", Body=body)
        prints.append(find_source(f"{bucket}/in").fingerprint())
    assert prints[0] != prints[1]
