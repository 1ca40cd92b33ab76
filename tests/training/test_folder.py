from __future__ import annotations

import json
import shlex
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
