"""At the build of a wheel: compiled code for common CPUs, where RELATUM_COMPILE=1 asks for it.

Without it the wheel runs anywhere, and compiles what it needs on first use; with it the wheel needs no compiler. It is
for Linux on x86-64 or ARM64, macOS on ARM64 or Windows on x86-64, whichever builds it.

RELATUM_SYSTEM (Linux, macOS, Windows) and RELATUM_MACHINE (x86_64, aarch64) name another system and architecture. For
Linux, the variable CXX must then name a compiler for it (aarch64-linux-gnu-g++). For Windows, and for macOS elsewhere,
the build fetches zig and compiles with it, unless CXX names a clang. GCC will not do for Windows: it does not align
vectors on the stack there.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from relatum.kernels.compile import Source, Variant
    from relatum.kernels.systems import System

_ZIG_TARGETS = {"macOS": "macos.11.0", "Windows": "windows-gnu"}


class CompiledCode(BuildHookInterface[Any]):
    """Adds a binary for each variant of CPU that `relatum.kernels.compile` knows."""

    def dependencies(self) -> list[str]:
        return ["ziglang>=0.14"] if _is_wanted() and _needs_zig() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not _is_wanted() or version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root / "src"))
        from relatum.kernels.sources import ALL, pool_for
        from relatum.kernels.systems import SYSTEMS, this_machine

        system, machine = SYSTEMS.get(_system()), os.environ.get("RELATUM_MACHINE") or this_machine()
        if system is None or machine not in system.variants:
            known = [f"{one.name} on {' and '.join(one.variants)}" for one in SYSTEMS.values()]
            raise SystemExit(f"RELATUM_COMPILE=1 can build for {', '.join(known)}, not for {_system()} on {machine}")
        os.environ.setdefault("MACOSX_DEPLOYMENT_TARGET", "11.0")
        self._made = Path(tempfile.mkdtemp())
        for source in (*ALL, *pool_for(system)):
            for name, variant in source.variants(system, machine).items():
                place = source.shipped(name, system)
                binary = self._made / place.name
                _compile(source, variant, binary, system)
                build_data["force_include"][str(binary)] = str(place.relative_to(root / "src"))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{system.tags[machine]}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        made = getattr(self, "_made", None)
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


def _is_wanted() -> bool:
    return os.environ.get("RELATUM_COMPILE") == "1"


def _system() -> str:
    """Return the system to build for, under the name that `platform.system` has for it."""
    named = os.environ.get("RELATUM_SYSTEM") or platform.system()
    return "Darwin" if named == "macOS" else named


def _needs_zig() -> bool:
    """True if the build is for Windows, or for macOS on another system, and the user names no compiler."""
    if os.environ.get("CXX"):
        return False
    return _system() == "Windows" or (_system() == "Darwin" and platform.system() != "Darwin")


def _compile(source: Source, variant: Variant, binary: Path, system: System) -> None:
    from relatum.kernels.compile import compile_source, find_compiler

    if _needs_zig():
        compile_by_zig(source, variant, binary, system)
        return
    compiler = find_compiler()
    if compiler is None:
        raise SystemExit(
            "RELATUM_COMPILE=1 needs a C++ compiler: install g++ or clang++, or name one in the variable CXX"
        )
    compile_source(source, compiler, variant.flags, binary, system)


def compile_by_zig(source: Source, variant: Variant, binary: Path, system: System) -> None:
    """Make a shared library by zig, in two steps: its C++ library, which it compiles too, can then be for any CPU."""
    from relatum.kernels.compile import compile_source

    zig = zig_compiler(variant.machine, system)
    compiled = binary.with_suffix(".o")
    compile_source(source, zig, (*zig_flags(variant.flags), "-c"), compiled, system)
    command = [*zig, *(flag for flag in system.flags if flag in ("-shared", "-s")), str(compiled)]
    subprocess.run([*command, *system.libraries, "-o", str(binary)], check=True)


def zig_compiler(machine: str, system: System) -> list[str]:
    """Return zig's compiler for a system on an architecture."""
    return [sys.executable, "-m", "ziglang", "c++", "-target", f"{machine}-{_ZIG_TARGETS[system.name]}"]


def zig_flags(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Translate a variant's flags: zig has names of its own for CPUs, and takes what they can do in the same flag."""
    first, *rest = flags
    name, *features = first.removeprefix("-march=").split("+")
    if name.startswith("arm"):
        name, features = "generic", [name.removeprefix("arm").replace(".", "_").replace("-", ""), *features]
    features += [flag.removeprefix("-m") for flag in rest]
    return (f"-mcpu={'+'.join([name.replace('-', '_'), *features])}",)
