from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from relatum.data.atomic import check_target, new_folder, replacing_file
from relatum.errors import RelatumError, explain_os_error


@pytest.fixture
def umask() -> Iterator[None]:
    old = os.umask(0o027)
    yield
    os.umask(old)


def _names(folder: Path) -> list[str]:
    return sorted(child.name for child in folder.iterdir())


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_replacing_file_shows_the_new_content_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("old")
    with replacing_file(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
        assert draft.parent == path.parent, "a draft elsewhere could not be moved in one step"
        assert draft.name.startswith("."), "a draft must not look like a part of the corpus"
    assert path.read_text() == "new"
    assert _names(tmp_path) == ["data.jsonl"]


def test_replacing_file_makes_a_new_file_and_the_folders_above_it(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "data.jsonl"
    with replacing_file(path) as draft:
        draft.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_replacing_file_keeps_the_old_file_when_the_block_fails(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("old")

    def fail() -> None:
        with replacing_file(path) as draft:
            draft.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert _names(tmp_path) == ["data.jsonl"]


def test_replacing_file_makes_nothing_when_the_block_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with replacing_file(tmp_path / "data.jsonl") as draft:
            draft.write_text("half")
            raise ValueError("midway")

    with pytest.raises(ValueError, match="midway"):
        fail()
    assert _names(tmp_path) == []


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640, 0o666, 0o755])
def test_replacing_file_keeps_the_permissions_of_the_old_file(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("old")
    path.chmod(mode)
    with replacing_file(path) as draft:
        draft.write_text("new")
    assert _mode(path) == mode


@pytest.mark.usefixtures("umask")
def test_replacing_file_gives_a_new_file_the_usual_permissions(tmp_path: Path) -> None:
    with replacing_file(tmp_path / "data.jsonl") as draft:
        draft.write_text("new")
    assert _mode(tmp_path / "data.jsonl") == 0o640


def test_replacing_file_leaves_the_umask_as_it_was(tmp_path: Path) -> None:
    before = os.umask(0o022)
    os.umask(before)
    with replacing_file(tmp_path / "data.jsonl"):
        pass
    after = os.umask(before)
    assert after == before


def test_replacing_file_refuses_a_folder(tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match=f"{tmp_path} is a folder; name a file"), replacing_file(tmp_path):
        pytest.fail("the block must not run")
    assert _names(tmp_path) == []


def test_replacing_file_refuses_to_put_a_file_in_the_place_of_a_device(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(RelatumError, match=str(path)), replacing_file(path) as draft:
        draft.write_text("new")
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_replacing_file_writes_through_a_symbolic_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text("old")
    link.symlink_to(real)
    with replacing_file(link) as draft:
        draft.write_text("new")
    assert real.read_text() == link.read_text() == "new"
    assert link.is_symlink()


def test_replacing_file_takes_any_name_that_a_file_may_have(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 249 + ".jsonl")
    with replacing_file(path) as draft:
        draft.write_text("new")
    assert path.read_text() == "new"


def test_replacing_file_lets_two_writers_race_without_mixing_them(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    with replacing_file(path) as one:
        with replacing_file(path) as two:
            assert one != two
            two.write_text("second")
            one.write_text("first")
        assert path.read_text() == "second"
    assert path.read_text() == "first"


def test_a_folder_that_may_not_be_written_to_is_an_error_that_names_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / ".draft.partial"))

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    monkeypatch.setattr(os, "access", lambda *_: False)
    path = tmp_path / "new" / "out.json"
    for attempt in (replacing_file(path), new_folder(path)):
        with pytest.raises(PermissionError) as caught, attempt:
            raise AssertionError("nothing is to be written")
        assert caught.value.filename == str(path)
    with pytest.raises(PermissionError) as caught:
        check_target(path)
    assert explain_os_error(caught.value).startswith(f"{path}: Permission denied; change its permissions")


def test_new_folder_appears_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a" / "corpus"
    with new_folder(path) as draft:
        (draft / "train.jsonl").write_text("x")
        (draft / "fold-1").mkdir()
        (draft / "fold-1" / "dev.jsonl").write_text("y")
        assert not path.exists()
    assert sorted(str(child.relative_to(path)) for child in path.rglob("*")) == [
        "fold-1",
        "fold-1/dev.jsonl",
        "train.jsonl",
    ]
    assert _names(path.parent) == ["corpus"]


def test_new_folder_may_stand_there_empty(tmp_path: Path) -> None:
    path = tmp_path / "corpus"
    path.mkdir()
    with new_folder(path) as draft:
        (draft / "train.jsonl").write_text("x")
    assert _names(path) == ["train.jsonl"]
    assert _names(tmp_path) == ["corpus"]


@pytest.mark.parametrize("name", [".", "link"])
def test_new_folder_in_the_place_of_the_current_one_or_of_a_link_is_made_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / "corpus"
    path.mkdir()
    monkeypatch.chdir(path if name == "." else tmp_path)
    if name == "link":
        (tmp_path / "link").symlink_to(path)
    made = False
    with suppress(RelatumError):
        with new_folder(Path(name)) as draft:
            (draft / "train.jsonl").write_text("x")
        made = True
    assert _names(tmp_path / ("corpus" if name == "." else "link")) == (["train.jsonl"] if made else [])


def test_new_folder_refuses_one_that_is_not_empty(tmp_path: Path) -> None:
    path = tmp_path / "corpus"
    path.mkdir()
    (path / ".hidden").write_text("x")
    message = f"{path} is a folder that is not empty; name a new folder, or remove it first"
    with pytest.raises(RelatumError, match=message), new_folder(path):
        pytest.fail("the block must not run")
    assert _names(path) == [".hidden"]
    assert _names(tmp_path) == ["corpus"]


def test_new_folder_refuses_a_file(tmp_path: Path) -> None:
    path = tmp_path / "corpus"
    path.write_text("x")
    with pytest.raises(RelatumError, match=f"{path} is a file; name a new folder"), new_folder(path):
        pytest.fail("the block must not run")
    assert path.read_text() == "x"


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_new_folder_leaves_nothing_when_the_block_fails(
    tmp_path: Path, there: bool, error: type[BaseException]
) -> None:
    path = tmp_path / "corpus"
    if there:
        path.mkdir()

    def fail() -> None:
        with new_folder(path) as draft:
            (draft / "train.jsonl").write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert _names(tmp_path) == (["corpus"] if there else [])
    assert not there or _names(path) == []


@pytest.mark.usefixtures("umask")
def test_new_folder_has_the_usual_permissions(tmp_path: Path) -> None:
    with new_folder(tmp_path / "corpus") as draft:
        (draft / "train.jsonl").write_text("x")
    assert _mode(tmp_path / "corpus") == 0o750
    assert _mode(tmp_path / "corpus" / "train.jsonl") == 0o640


def test_new_folder_that_was_filled_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "corpus"

    def race() -> None:
        with new_folder(path) as draft:
            (draft / "train.jsonl").write_text("mine")
            path.mkdir()
            (path / "train.jsonl").write_text("theirs")

    with pytest.raises((OSError, RelatumError)):
        race()
    assert (path / "train.jsonl").read_text() == "theirs"
    assert _names(tmp_path) == ["corpus"]


_KILLED = """
import sys, time
from pathlib import Path
from relatum.data.atomic import new_folder, replacing_file

with {call}(Path(sys.argv[1])) as draft:
    file = draft{below}
    with file.open("w") as out:
        out.write("half of a rec")
        out.flush()
        print("ready", flush=True)
        time.sleep(60)
"""


def _kill_while_writing(call: str, below: str, path: Path) -> None:
    code = _KILLED.format(call=call, below=below)
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


def test_replacing_file_killed_in_the_middle_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("old and whole")
    path.chmod(0o640)
    _kill_while_writing("replacing_file", "", path)
    assert path.read_text() == "old and whole"
    assert _mode(path) == 0o640
    with replacing_file(path) as draft:
        draft.write_text("new")
    assert path.read_text() == "new", "what the killed process left is not in the way"


def test_new_folder_killed_in_the_middle_never_appears(tmp_path: Path) -> None:
    path = tmp_path / "corpus"
    _kill_while_writing("new_folder", ' / "train.jsonl"', path)
    assert not path.exists()
    with new_folder(path) as draft:
        (draft / "train.jsonl").write_text("new")
    assert _names(path) == ["train.jsonl"]
