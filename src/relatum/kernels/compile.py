"""Compiled code: made for this machine when it is first needed and kept, or shipped with the package.

A binary in the cache ends with the digest of all that comes before it, and is loaded only if that is right: half a file
is made again. It is named after everything that it depends on, so nothing old is ever taken for new.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from relatum.errors import RelatumError

_log = logging.getLogger(__name__)

_FLAGS = ("-O2", "-std=c++17", "-shared", "-fPIC", "-ffp-contract=fast")
_NATIVE = ("-march=native",)
_DIGEST = hashlib.sha256().digest_size
_CURE = "install one (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++), or name it in the variable CXX"

AMX = frozenset({"avx512_bf16", "amx_tile", "amx_bf16"})
"""What a CPU has that multiplies matrices of bfloat16."""
_V3 = frozenset("avx2 bmi1 bmi2 f16c fma abm movbe".split())
_V4 = _V3 | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())
VARIANTS: dict[str, tuple[frozenset[str], tuple[str, ...]]] = {
    "x86-64-v4-amx": (
        _V4 | AMX,
        ("-march=x86-64-v4", "-mavx512bf16", "-mamx-tile", "-mamx-bf16"),
    ),
    "x86-64-v4": (_V4, ("-march=x86-64-v4",)),
    "x86-64-v3": (_V3, ("-march=x86-64-v3",)),
}
"""What may be shipped, the fastest first: the flags that a CPU must have, and those of the compiler."""


class CompileError(RelatumError):
    """Code that could not be compiled or loaded on this machine."""


@dataclass(frozen=True, slots=True)
class Source:
    """C++ in a folder, of which one file is compiled; the others are its headers, and so are those in `shared` folders.

    `parts` are flags that leave something out, to save time; what is shipped has everything. On a CPU without what it
    `needs` it is of no use.
    """

    folder: Path
    main: str
    flags: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    shared: tuple[Path, ...] = ()
    needs: frozenset[str] = frozenset()

    def shipped(self, variant: str) -> Path:
        """Where a binary lies that came with the package."""
        return self.folder / "built" / f"{Path(self.main).stem}-{variant}.so"


def can_load(source: Source) -> tuple[bool, str]:
    """Whether the code can run here, and why or why not; nothing is compiled."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False, f"it is made for Linux on x86-64, and this is {platform.system()} on {platform.machine()}"
    lacking = source.needs - cpu_flags()
    if lacking:
        return False, f"it needs a CPU with {', '.join(sorted(lacking))}"
    shipped = _find_shipped(source)
    if shipped is not None:
        return True, f"compiled code that came with the package, {shipped.name}"
    if not cpu_flags() >= _V3:
        return False, "it needs a CPU with AVX2 and FMA"
    compiler = find_compiler()
    if compiler is None:
        return False, f"there is no C++ compiler to make it with; {_CURE}"
    return True, f"compiled code, made once with {compiler}"


def load(source: Source) -> ctypes.CDLL:
    """The compiled code; made first where that has not been done, which takes seconds."""
    available, reason = can_load(source)
    if not available:
        raise CompileError(f"{source.main} cannot run: {reason}")
    shipped = _find_shipped(source)
    if shipped is not None:
        return ctypes.CDLL(str(shipped))
    compiler = find_compiler()
    assert compiler is not None
    path = cache_folder() / f"{Path(source.main).stem}-{_name(source, compiler)}.so"
    if _is_whole(path):
        return ctypes.CDLL(str(path))
    _log.warning("compiling %s for this machine, once; it will be kept in %s", source.main, path.parent)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = Path(tempfile.mkdtemp(prefix=".making-", dir=path.parent))
    except OSError as error:
        _log.warning("%s cannot be written (%s): compiled code is not kept", path.parent, error)
        draft = Path(tempfile.mkdtemp(prefix="relatum-"))
        path = draft / path.name
    try:
        binary = draft / "binary"
        compile_source(source, compiler, _NATIVE, binary)
        with binary.open("ab") as file:
            file.write(hashlib.sha256(binary.read_bytes()).digest())
        binary.replace(path)  # another process may have done the same: either is right
        return ctypes.CDLL(str(path))
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def compile_source(source: Source, compiler: str, target: tuple[str, ...], binary: Path) -> None:
    """Make a shared library for a target, by the compiler's flags for it."""
    command = [
        compiler,
        *_FLAGS,
        *target,
        *source.flags,
        *source.parts,
        *(f"-I{folder}" for folder in source.shared),
        str(source.folder / source.main),
        "-o",
        str(binary),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise CompileError(f"the compiler {compiler} cannot be run: {error}; {_CURE}") from error
    if done.returncode != 0:
        said = "\n".join(done.stderr.splitlines()[:20])
        raise CompileError(f"{' '.join(command)} failed; {_CURE}. It said:\n{said}")


def cache_folder() -> Path:
    """Where binaries are kept: in $RELATUM_CACHE, or else in relatum's folder of the user's cache."""
    own = os.environ.get("RELATUM_CACHE")
    if own:
        return Path(own).expanduser() / "kernels"
    general = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(general).expanduser() / "relatum" / "kernels"


def find_compiler() -> str | None:
    """The compiler that CXX names, or else a usual one; None where there is none."""
    named = os.environ.get("CXX")
    for name in (named,) if named else ("g++", "clang++", "c++"):
        found = shutil.which(name)
        if found is not None:
            return found
    return None


def _find_shipped(source: Source) -> Path | None:
    if source.flags:
        return None
    flags = cpu_flags()
    for variant, (wanted, _) in VARIANTS.items():
        path = source.shipped(variant)
        if wanted <= flags and path.is_file():
            return path
    return None


def cpu_flags() -> frozenset[str]:
    """What the processor can do, where the system says so in a file; else nothing."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), frozenset())


def _name(source: Source, compiler: str) -> str:
    """The digest of all that a binary depends on."""
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    parts = [compiler.encode(), version, " ".join((*_FLAGS, *_NATIVE, *source.flags, *source.parts)).encode()]
    parts.append(" ".join(sorted(cpu_flags())).encode())
    for file in (file for folder in (source.folder, *source.shared) for file in sorted(folder.iterdir())):
        if file.suffix in (".cpp", ".h"):
            parts += [file.name.encode(), file.read_bytes()]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:32]


def _is_whole(path: Path) -> bool:
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return len(content) > _DIGEST and hashlib.sha256(content[:-_DIGEST]).digest() == content[-_DIGEST:]
