"""At the build of a wheel: compiled code for common CPUs, where RELATUM_COMPILE=1 asks for it.

Without it the wheel runs anywhere, and compiles what it needs on first use; with it the wheel is for Linux on x86-64 or
ARM64, whichever builds it, and needs no compiler. RELATUM_MACHINE=aarch64 builds for ARM64 elsewhere, with a compiler
for it that the variable CXX names (aarch64-linux-gnu-g++).
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledCode(BuildHookInterface[Any]):
    """Adds a binary for each variant of CPU that `relatum.kernels.compile` knows."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if os.environ.get("RELATUM_COMPILE") != "1" or version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root / "src"))
        from relatum.kernels.compile import VARIANTS, compile_source, find_compiler
        from relatum.kernels.sources import ALL

        compiler = find_compiler()
        if compiler is None:
            raise SystemExit("RELATUM_COMPILE=1 needs a C++ compiler: install g++, or name one in the variable CXX")
        self._made = Path(tempfile.mkdtemp())
        machine = os.environ.get("RELATUM_MACHINE") or platform.machine()
        variants = {name: variant for name, variant in VARIANTS.items() if variant.machine == machine}
        if not variants:
            known = sorted({variant.machine for variant in VARIANTS.values()})
            raise SystemExit(f"RELATUM_COMPILE=1 can build for {' and '.join(known)}, not for {machine}")
        for name, variant in variants.items():
            for source in ALL:
                if not source.needs <= variant.needs:
                    continue
                place = source.shipped(name)
                binary = self._made / place.name
                compile_source(source, compiler, variant.flags, binary)
                build_data["force_include"][str(binary)] = str(place.relative_to(root / "src"))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{machine}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        made = getattr(self, "_made", None)
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
