from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from relatum.config import Config, load_config
from relatum.errors import RelatumError
from relatum.training.folder import RunFolder, RunRecord, resume_command


def record(config: Config | None = None) -> RunRecord:
    return RunRecord(config or Config(), "/data/news", None, "folds.json:2", "auto", "relatum train …", "abc")


def model(folder: RunFolder, step: int) -> Path:
    path = folder.best(step)
    path.mkdir(parents=True)
    (path / "README.md").write_text(str(step))
    return path


def test_record_of_a_run_comes_back(tmp_path: Path) -> None:
    config = load_config(None, ['table.directions=["nw","ne"]', "training.steps=7"])
    RunFolder(tmp_path / "run").create(record(config))
    assert RunFolder(tmp_path / "run").read() == record(config)


def test_run_takes_a_new_or_empty_folder_only(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    RunFolder(tmp_path / "empty").create(record())
    with pytest.raises(RelatumError, match=r"by relatum train --resume .*empty, or name a new one with --out"):
        RunFolder(tmp_path / "empty").create(record())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").write_text("mine")
    with pytest.raises(RelatumError, match=r"full is not an empty folder; name a new one"):
        RunFolder(tmp_path / "full").create(record())
    with pytest.raises(RelatumError, match="not an empty folder"):
        RunFolder(tmp_path / "full" / "note.txt").create(record())


def test_folder_without_a_run_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match=r"no run was started here \(there is no run\.json\)"):
        RunFolder(tmp_path).read()
    (tmp_path / "run.json").write_text(json.dumps({"config": {"nonsense": 1}}))
    with pytest.raises(RelatumError, match=r"run\.json: not the record of a run of this version"):
        RunFolder(tmp_path).read()


def test_second_process_is_kept_out(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from relatum.training.folder import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).locked(print): pass"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with RunFolder(tmp_path).locked(pytest.fail):
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "another process is training here" in refused.stderr
    assert subprocess.run(command, check=False).returncode == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from relatum.training.folder import RunFolder, RunRecord
from relatum.config import Config

Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
folder = RunFolder(Path(sys.argv[1]))
with folder.locked(print):
    folder.create(RunRecord(Config(), "/data/news", None, None, "auto", "relatum train", "abc"))
"""


def test_run_killed_at_the_very_first_rename_can_be_started_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(folder.path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    left = {path.name for path in folder.path.iterdir()}
    assert len(left) == 2
    assert ".lock" in left
    with pytest.raises(RelatumError, match=r"no run was started here .*; start one with relatum train DATA --out RUN"):
        folder.read()
    folder.check_new()
    with folder.locked(pytest.fail):
        folder.create(record())
    assert {path.name for path in folder.path.iterdir()} == {".lock", "run.json"}


def test_drafts_of_others_are_no_new_folder_and_stay(tmp_path: Path) -> None:
    (tmp_path / ".film.mkv.partial").write_text("half")
    with pytest.raises(RelatumError, match="not an empty folder"):
        RunFolder(tmp_path).create(record())
    assert (tmp_path / ".film.mkv.partial").exists()


def test_drafts_of_a_killed_run_are_removed_everywhere_when_it_goes_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.create(record())
    kept = [model(folder, 8) / "README.md", tmp_path / "tensorboard" / ".mine.partial", tmp_path / ".tmpfile"]
    places = [tmp_path, folder.checkpoints, folder.best(8), folder.predictions, folder.bad_batch, folder.model]
    drafts = [place / name for place in places for name in (".some.json.k3_f8a2x.partial", ".tmpAudsTY")]
    for path in (*drafts, *kept):
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    (tmp_path / "best" / ".step-9.x.partial").mkdir()
    folder.remove_after(8)
    assert not [path for path in drafts if path.exists()]
    assert all(path.exists() for path in kept)
    assert [path.name for path in (tmp_path / "best").iterdir()] == ["step-8"]


def test_models_that_no_checkpoint_names_are_removed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.remove_old()
    folder.remove_after(0)
    paths = [model(folder, step) for step in (2, 10, 9)]
    folder.remove_old()
    assert [path.exists() for path in paths] == [False, True, True]
    (tmp_path / "best" / ".step-11.x.partial").mkdir()
    folder.remove_after(9)
    assert [path.name for path in (tmp_path / "best").iterdir()] == ["step-9"]


def test_best_model_becomes_the_model(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for step in (4, 8):
        model(folder, step)
    folder.finish(4)
    assert (folder.model / "README.md").read_text() == "4"
    assert not (tmp_path / "best").exists()
    folder.finish(4)
    model(folder, 8)  # as if it had been killed before they were removed
    folder.finish(4)
    assert (folder.model / "README.md").read_text() == "4"
    assert not (tmp_path / "best").exists()


def test_newest_of_the_best_models_is_found(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.newest_best() is None
    paths = [model(folder, step) for step in (9, 10)]
    assert folder.newest_best() == paths[1]


def test_system_without_locks_goes_without_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    said: list[str] = []
    with RunFolder(tmp_path).locked(said.append), RunFolder(tmp_path).locked(said.append):
        pass
    assert said == [f"{tmp_path} cannot be locked on this system; do not start a second process on the same run"] * 2


def test_run_folder_is_imported_where_there_is_no_fcntl() -> None:
    code = "import sys; sys.modules['fcntl'] = None; import relatum.training.folder"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_command_that_goes_on_can_be_pasted_whatever_the_folder_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "my runs; $(rm)"
    assert shlex.split(resume_command(folder)) == ["relatum", "train", "--resume", str(folder)]
    assert resume_command(Path("runs/1")) == "relatum train --resume runs/1"


@pytest.mark.parametrize("content", ["", "[]", "3", "null", "[" * 100_000, "\\xff", '{"config": []}', '{"config": {}}'])
def test_record_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RelatumError, match=r"run\.json: not "):
        RunFolder(tmp_path).read()


@pytest.mark.parametrize(("key", "value"), [("data", 3), ("fold", 3), ("device", None), ("with_test", "yes"), ("x", 1)])
def test_record_with_a_value_of_another_kind_is_refused(tmp_path: Path, key: str, value: object) -> None:
    (tmp_path / "run.json").write_text(json.dumps({**record().to_dict(), key: value}))
    with pytest.raises(RelatumError, match=rf"run\.json: not the record of a run of this version: .*'{key}'"):
        RunFolder(tmp_path).read()


@pytest.mark.parametrize("name", ["run.json", ".lock", "log.jsonl", "result.json", "checkpoints", "checkpoints/step-1"])
def test_run_that_would_write_through_a_link_is_refused(tmp_path: Path, name: str) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create(record())
    outside = tmp_path / "outside"
    outside.write_text(json.dumps(record().to_dict()))
    place = folder.path / name
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(outside)
    with pytest.raises(RelatumError, match=f"{name}: found a link in the folder of a run, which is written to"):
        folder.read()


@pytest.mark.parametrize("name", ["run.json", "log.jsonl", "checkpoints/step-00000002.safetensors"])
def test_run_with_a_pipe_is_refused(tmp_path: Path, name: str) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create(record())
    place = folder.path / name
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    with pytest.raises(RelatumError, match=f"{name}: found a pipe"):
        folder.read()


def test_run_whose_folder_is_reached_by_a_link_is_read(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").create(record())
    (tmp_path / "link").symlink_to(tmp_path / "run")
    assert RunFolder(tmp_path / "link").read() == record()
