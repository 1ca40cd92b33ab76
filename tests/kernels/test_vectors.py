"""Vectors of the compiled code on every kind of CPU, against plain loops in `native/vectors.cpp`."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from relatum.kernels.compile import VARIANTS, Source, Variant, compile_source, cpu_flags, find_compiler
from relatum.kernels.sources import ALL

CROSS = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64"
FLAGS = ("-O2", "-std=c++17", "-ffp-contract=fast")
FOLDERS = tuple(f"-I{source.folder}" for source in ALL)
MAIN = Path(__file__).parent / "native" / "vectors.cpp"


UNSHIPPED = {
    "x86-64-v3-vnni": Variant("x86_64", VARIANTS["x86-64-v3"].needs | {"avx_vnni"}, ("-march=x86-64-v3", "-mavxvnni")),
    "plain": Variant(platform.machine(), frozenset(), ()),
}
"""Code that only a compiler on the machine itself makes."""


@pytest.mark.parametrize("name", [*VARIANTS, *UNSHIPPED])
def test_vectors_compute_what_plain_loops_do(name: str, tmp_path: Path) -> None:
    machine, needs, flags = (VARIANTS | UNSHIPPED)[name]
    program = tmp_path / "vectors"
    if machine == platform.machine():
        compiler = find_compiler()
        if compiler is None or not needs <= cpu_flags():
            pytest.skip("there is no compiler" if compiler is None else f"this CPU is not {name}")
        subprocess.run([compiler, *FLAGS, *flags, *FOLDERS, str(MAIN), "-o", str(program)], check=True)
        command = [str(program)]
    else:
        if machine != "aarch64" or shutil.which(CROSS) is None or shutil.which(EMULATOR) is None:
            pytest.skip(f"cannot run code for {machine}; for ARM64, apt install g++-aarch64-linux-gnu qemu-user")
        subprocess.run([CROSS, *FLAGS, *flags, "-static", *FOLDERS, str(MAIN), "-o", str(program)], check=True)
        command = [EMULATOR, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("source", ALL, ids=lambda source: source.main)
def test_code_compiles_for_arm64_without_a_warning(source: Source, tmp_path: Path) -> None:
    if shutil.which(CROSS) is None:
        pytest.skip("there is no compiler for ARM64; apt install g++-aarch64-linux-gnu")
    flags = (*VARIANTS["armv8-a"].flags, "-Wall", "-Wextra", "-Werror", "-fsyntax-only")
    compile_source(source, CROSS, flags, tmp_path / "nothing")
