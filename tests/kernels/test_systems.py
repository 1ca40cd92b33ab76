"""Compiled code on other systems: what is loaded there, threads of its own, and libraries for macOS and Windows."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relatum.kernels import compile as compiling
from relatum.kernels import systems, threads
from relatum.kernels.compile import VARIANTS, Source, can_load, compile_source, cpu_flags, find_compiler, load
from relatum.kernels.sources import ALL, ENCODER, LINEAR, POOL
from relatum.kernels.systems import SYSTEMS, System, this_machine, this_system

NATIVE = Path(__file__).parent / "native"
FOLDERS = tuple(f"-I{source.folder}" for source in ALL)
OTHERS = [(SYSTEMS["Darwin"], "aarch64"), (SYSTEMS["Windows"], "x86_64")]

needs_compiler = pytest.mark.skipif(
    find_compiler() is None or this_system() is None, reason="there is no compiler, or no system that it is for"
)
needs_zig = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="zig is missing: pip install ziglang"
)
needs_wine = pytest.mark.skipif(shutil.which("wine") is None, reason="wine is missing: apt install wine64 wine")


def be(monkeypatch: pytest.MonkeyPatch, system: System | None, flags: frozenset[str] = frozenset()) -> None:
    """Let the loader think that it runs on another system, on a CPU with these flags."""
    machine = "x86_64" if system is None else next(iter(system.variants))
    monkeypatch.setattr(compiling, "this_system", lambda: system)
    monkeypatch.setattr(compiling, "this_machine", lambda: machine)
    monkeypatch.setattr(compiling, "cpu_flags", lambda: flags)


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """A source of its own, with a cache of its own."""
    monkeypatch.setenv("RELATUM_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "source"
    (folder / "built").mkdir(parents=True)
    (folder / "answer.cpp").write_text('extern "C" int answer() { return 42; }\n', encoding="utf-8")
    return Source(folder, "answer.cpp")


@pytest.mark.parametrize(
    ("system", "machine", "known"),
    [
        ("Linux", "x86_64", True),
        ("Linux", "aarch64", True),
        ("Darwin", "arm64", True),
        ("Darwin", "x86_64", False),
        ("Windows", "AMD64", True),
        ("Windows", "ARM64", False),
        ("FreeBSD", "amd64", False),
    ],
)
def test_systems_that_code_is_made_for_are_known_by_all_their_names(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, known: bool
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert this_system() == (SYSTEMS[system] if known else None)


def test_other_system_is_told_which_ones_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    reason = can_load(ENCODER)[1]
    assert reason.startswith("it is made for Linux on x86-64 and ARM64, macOS on ARM64 and Windows on x86-64")
    assert reason.endswith("this is macOS on x86_64")


def test_windows_loads_what_came_with_the_package_and_compiles_nothing(
    monkeypatch: pytest.MonkeyPatch, answer: Source
) -> None:
    windows = SYSTEMS["Windows"]
    be(monkeypatch, windows, VARIANTS["x86-64-v4"].needs)
    assert can_load(answer)[1] == "this installation has none for Windows; install relatum from a wheel for Windows"
    for variant in windows.variants["x86_64"]:
        answer.shipped(variant, windows).touch()
    assert can_load(answer) == (True, "compiled code that came with the package, answer-x86-64-v4.dll")
    be(monkeypatch, windows)
    assert can_load(answer) == (False, "it needs a CPU with AVX2 and FMA")
    assert not can_load(LINEAR)[0]


def test_mac_without_developer_tools_is_told_how_to_install_them(
    monkeypatch: pytest.MonkeyPatch, answer: Source
) -> None:
    be(monkeypatch, SYSTEMS["Darwin"])
    monkeypatch.setattr(compiling, "find_compiler", lambda: None)
    assert "xcode-select --install" in can_load(answer)[1]


def test_compilers_of_a_mac_are_found_only_if_they_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    for works in (True, False):
        monkeypatch.setattr(compiling, "has_developer_tools", lambda works=works: works)
        assert find_compiler() == ("/usr/bin/g++" if works else None)
    monkeypatch.setattr(shutil, "which", lambda name: f"/opt/homebrew/bin/{name}")
    assert find_compiler() == "/opt/homebrew/bin/g++"


def test_developer_tools_are_those_that_the_system_says_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for status in (None, 0, 2):
        systems.has_developer_tools.cache_clear()
        if status is not None:
            program = tmp_path / "xcode-select"
            program.write_text(f'#!/bin/sh\n[ "$1" = -p ] && exit {status}\n', encoding="utf-8")
            program.chmod(0o700)
        assert systems.has_developer_tools() == (status == 0)
    systems.has_developer_tools.cache_clear()


@needs_compiler
@pytest.mark.parametrize("spoil", ["nothing", "binary", "digest", "no digest"])
def test_binary_that_must_stay_as_it_is_has_its_digest_beside_it(
    monkeypatch: pytest.MonkeyPatch, answer: Source, spoil: str
) -> None:
    here = this_system()
    assert here is not None
    monkeypatch.setattr(compiling, "this_system", lambda: here._replace(seals_inside=False))
    assert load(answer).answer() == 42
    binary, seal = sorted(compiling.binaries_folder().iterdir())
    content, digest = binary.read_bytes(), seal.read_bytes()
    assert seal.name == f"{binary.name}.sha256"
    assert binary.stat().st_mode & 0o777 == seal.stat().st_mode & 0o777 == 0o700
    path = binary if spoil == "binary" else seal
    if spoil != "nothing":
        path.unlink()  # the library in use stays as it is
    if spoil in ("binary", "digest"):
        path.write_bytes(b"?")
    compiled = []

    def compile_and_count(*given: Any) -> None:
        compiled.append(given)
        compile_source(*given)

    monkeypatch.setattr(compiling, "compile_source", compile_and_count)
    assert load(answer).answer() == 42
    assert bool(compiled) == (spoil != "nothing")
    assert (binary.read_bytes(), seal.read_bytes()) == (content, digest)


@needs_compiler
@pytest.mark.skipif(os.name == "nt", reason="the test is compiled here")
@pytest.mark.parametrize("flags", [(), ("-DRELATUM_PORTABLE",)], ids=["own way to sleep", "portable way"])
def test_threads_of_our_own_share_work_as_openmp_does(flags: tuple[str, ...], tmp_path: Path) -> None:
    compiler, program = find_compiler(), tmp_path / "team"
    files = (str(NATIVE / "team.cpp"), str(POOL.folder / POOL.main))
    command = [str(compiler), "-O2", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread", *flags, *FOLDERS, *files]
    subprocess.run([*command, "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@needs_compiler
def test_pool_is_given_to_code_where_no_openmp_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int | None] = []

    class Library:
        def relatum_use_threads(self, *functions: ctypes.c_void_p) -> None:
            given.extend(function.value for function in functions)

    monkeypatch.setattr(threads, "find_openmp", lambda: None)
    monkeypatch.setattr(threads, "_load_pool", lambda: load(POOL))
    threads.share_threads(Library())  # type: ignore[arg-type]
    pool = load(POOL)
    names = ("relatum_pool_run", "relatum_pool_count", "relatum_pool_index")
    assert given == [ctypes.cast(getattr(pool, name), ctypes.c_void_p).value for name in names]
    assert pool.relatum_pool_count() == 1


@needs_compiler
@pytest.mark.skipif(this_machine() != "x86_64" or sys.platform != "linux", reason="flags are compared with Linux's own")
def test_cpu_that_is_asked_has_the_flags_that_linux_lists() -> None:
    flags = ctypes.create_string_buffer(256)
    load(POOL).relatum_pool_cpu_flags(flags)
    deciding = VARIANTS["x86-64-v4-vnni"].needs
    assert set(flags.value.decode().split()) == cpu_flags() & deciding


@needs_zig
@pytest.mark.parametrize("source", [*ALL, POOL], ids=lambda source: source.main)
@pytest.mark.parametrize(("system", "machine"), OTHERS, ids=["macOS", "Windows"])
def test_code_compiles_for_other_systems_without_a_warning(
    source: Source, system: System, machine: str, tmp_path: Path
) -> None:
    hatch_build = pytest.importorskip("hatch_build")
    for variant in source.variants(system, machine).values():
        zig = hatch_build.zig_compiler(variant.machine, system)
        strict = replace(source, flags=("-Wall", "-Wextra", "-Werror", "-Wno-unused-command-line-argument", "-c"))
        compile_source(strict, zig, hatch_build.zig_flags(variant.flags), tmp_path / "nothing.o", system)


@needs_zig
@needs_wine
@pytest.mark.parametrize("name", SYSTEMS["Windows"].variants["x86_64"])
def test_code_for_windows_computes_and_shares_work_as_it_should(name: str, tmp_path: Path) -> None:
    hatch_build = pytest.importorskip("hatch_build")
    if this_machine() != "x86_64" or not VARIANTS[name].needs <= cpu_flags():
        pytest.skip(f"this CPU is not {name}")
    windows = SYSTEMS["Windows"]
    zig, flags = hatch_build.zig_compiler("x86_64", windows), hatch_build.zig_flags(VARIANTS[name].flags)
    for files in ([NATIVE / "vectors.cpp"], [NATIVE / "team.cpp", POOL.folder / POOL.main]):
        objects = [str(tmp_path / f"{file.stem}.o") for file in files]
        for file, compiled in zip(files, objects, strict=True):
            command = [*zig, *flags, "-O2", "-std=c++17", "-ffp-contract=fast", *FOLDERS, "-c", str(file)]
            subprocess.run([*command, "-o", compiled], check=True)
        program = tmp_path / "program.exe"
        subprocess.run([*zig, "-s", *objects, *windows.libraries, "-o", str(program)], check=True)
        environment = {**os.environ, "WINEPREFIX": str(tmp_path / "wine"), "WINEDEBUG": "-all"}
        done = subprocess.run(["wine", str(program)], capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stdout
