"""Compiling once and keeping: what is loaded is whole, new, and made for this machine."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from relatum.kernels import compile as compiling
from relatum.kernels.compile import VARIANTS, CompileError, Source, binaries_folder, can_load, compile_source, load

pytestmark = pytest.mark.skipif(
    not compiling.can_load(Source(Path(), "none.cpp"))[0], reason="there is no compiler, or no CPU that it is for"
)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """A source of its own, with a cache of its own."""
    monkeypatch.setenv("RELATUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiling, "_unkept", {})
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "number.h").write_text("constexpr int number = 42;\n", encoding="utf-8")
    (folder / "answer.cpp").write_text(
        '#include "number.h"\nextern "C" int answer() { return number; }\n', encoding="utf-8"
    )
    return Source(folder, "answer.cpp")


def kept() -> list[Path]:
    return sorted(binaries_folder().iterdir())


def refuse(*_: object) -> None:
    raise AssertionError("there is nothing to compile")


def test_code_is_compiled_once_and_says_so(
    source: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert load(source).answer() == 42
        monkeypatch.setattr(compiling, "compile_source", refuse)
        assert load(source).answer() == 42
    assert len(caplog.messages) == 2
    assert caplog.messages[0].startswith("compiling answer.cpp for this machine, once")
    assert caplog.messages[1].startswith("compiled in ")
    assert len(kept()) == 1


@pytest.mark.parametrize("file", ["number.h", "answer.cpp"])
def test_changed_source_is_compiled_again(source: Source, file: str) -> None:
    load(source)
    path = source.folder / file
    path.write_text(path.read_text(encoding="utf-8").replace("42", "43").replace("number;", "43;"), encoding="utf-8")
    assert load(source).answer() == 43


def test_other_flags_and_parts_make_other_binaries(source: Source) -> None:
    load(source)
    load(Source(source.folder, source.main, flags=("-DA",)))
    load(Source(source.folder, source.main, parts=("-DA=1",)))
    assert len(kept()) == 3


@pytest.mark.parametrize("spoil", ["cut", "change", "empty"])
def test_spoilt_binary_is_not_loaded_but_made_again(source: Source, spoil: str) -> None:
    load(source)
    (path,) = kept()
    content = path.read_bytes()
    middle = len(content) // 2
    spoilt = {"cut": content[:middle], "change": content[:middle] + b"?" + content[middle + 1 :], "empty": b""}
    path.unlink()  # the library in use stays as it is
    path.write_bytes(spoilt[spoil])
    assert load(source).answer() == 42
    assert kept() == [path]
    assert path.read_bytes() == content


def test_processes_that_compile_at_once_do_not_disturb_each_other(source: Source) -> None:
    script = (
        "import sys; from pathlib import Path; from relatum.kernels.compile import Source, load;"
        "print(load(Source(Path(sys.argv[1]), 'answer.cpp')).answer())"
    )
    command = [sys.executable, "-c", script, str(source.folder)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in running] == ["42"] * 3
    assert len(kept()) == 1


def test_machine_without_a_compiler_is_told_the_cure(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    available, reason = can_load(source)
    assert not available
    assert "apt install g++" in reason
    with pytest.raises(CompileError, match="there is no C\\+\\+ compiler"):
        load(source)


def test_named_compiler_that_does_not_exist_is_not_replaced(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert not can_load(source)[0]


def test_code_that_does_not_compile_shows_what_the_compiler_said(source: Source) -> None:
    (source.folder / "number.h").write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(CompileError, match="nonsense"):
        load(source)
    assert kept() == []


def test_cache_that_cannot_be_written_is_done_without(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RELATUM_CACHE", str(tmp_path / "file"))
    assert load(source).answer() == 42
    assert "compiled code is not kept" in caplog.text


@pytest.mark.parametrize("spoil", ["open folder", "linked folder", "open file", "linked file", "fifo", "other owner"])
def test_binary_that_somebody_else_can_have_planted_is_not_loaded(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, spoil: str
) -> None:
    if spoil == "other owner" and os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    planted = Source(tmp_path / "planted", source.main)
    planted.folder.mkdir()
    (planted.folder / "answer.cpp").write_text('extern "C" int answer() { return 666; }', encoding="utf-8")
    load(source)
    (path,) = kept()
    compiler = compiling.find_compiler()
    assert compiler is not None
    path.unlink()
    compiling._make(planted, compiler, path)  # a whole binary, under the right name
    assert path.stat().st_mode & 0o777 == 0o700
    folder = path.parent
    assert folder.stat().st_mode & 0o777 == 0o700
    if spoil == "open folder":
        folder.chmod(0o777)
    elif spoil == "other owner":
        os.chown(folder, 12345, 12345)
    elif spoil == "linked folder":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    elif spoil == "open file":
        path.chmod(0o722)
    elif spoil == "linked file":
        path.rename(tmp_path / "elsewhere.so")
        path.symlink_to(tmp_path / "elsewhere.so")
    else:
        path.unlink()
        os.mkfifo(path)
    caplog.clear()
    assert load(source).answer() == 42
    refused = "folder" in spoil or spoil == "other owner"
    assert ("compiled code is not kept; make it yours alone (chmod 700)" in caplog.text) == refused
    if refused:  # within this process it is compiled once
        monkeypatch.setattr(compiling, "compile_source", refuse)
    assert load(source).answer() == 42


def test_mask_of_the_user_does_not_open_the_cache(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0)
    try:
        load(source)
    finally:
        os.umask(before)
    monkeypatch.setattr(compiling, "compile_source", refuse)
    assert load(source).answer() == 42


def test_sources_that_are_needed_soon_are_compiled_side_by_side(
    source: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    others = [Source(source.folder, source.main, parts=(f"-DA={number}",)) for number in range(2)]
    both, broken = Barrier(3, timeout=30), Source(source.folder, "nothing.cpp")
    real = compile_source

    def compile_with_others(source: Source, *rest: Any) -> None:
        if source != broken:
            both.wait()  # nobody comes here alone
        real(source, *rest)

    monkeypatch.setattr(compiling, "compile_source", compile_with_others)
    assert load(source, [*others, broken]).answer() == 42
    assert caplog.messages[0].startswith("compiling answer.cpp, answer.cpp, nothing.cpp, answer.cpp for this machine")
    assert len(kept()) == 3
    monkeypatch.setattr(compiling, "compile_source", refuse)
    assert [load(other).answer() for other in others] == [42, 42]


def test_shipped_binary_is_taken_where_the_cpu_has_what_it_needs(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = compiling.find_compiler()
    assert compiler is not None
    for variant in ("x86-64-v4", "x86-64-v3"):
        path = source.shipped(variant)
        path.parent.mkdir(exist_ok=True)
        compile_source(source, compiler, ("-march=x86-64-v3", f"-Danswer=answer_{variant[-2:]}"), path)
    monkeypatch.setattr(compiling, "compile_source", refuse)
    for variant in ("x86-64-v4", "x86-64-v3"):
        monkeypatch.setattr(compiling, "cpu_flags", lambda variant=variant: VARIANTS[variant].needs)
        assert variant in can_load(source)[1]
        assert getattr(load(source), f"answer_{variant[-2:]}")() == 42
        assert compiling._find_shipped(Source(source.folder, source.main, flags=("-DA",))) is None
    monkeypatch.setattr(compiling, "cpu_flags", frozenset)
    assert not can_load(source)[0]


def test_binaries_are_kept_in_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELATUM_CACHE", "/somewhere")
    assert binaries_folder() == Path("/somewhere/kernels")
