"""Compiled code: made for this machine when it is first needed and kept, or shipped with the package.

A binary in the cache ends with the digest of all that comes before it, and is loaded only if that is right: half a file
is made again. It is named after everything that it depends on, so nothing old is ever taken for new.

Loading a binary runs it, so the cache must be the user's alone: a folder or file that belongs to somebody else, that
others can write, or that is a symbolic link is not used. On Linux, files are checked and loaded through the same open
file, so nobody can exchange them in between. macOS loads files by their paths; there, the digest is in a file of its
own. On Windows nothing is compiled: binaries come with the package.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import logging
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from relatum.errors import RelatumError
from relatum.folders import cache_folder
from relatum.kernels.systems import SYSTEMS, System, explain_lack, has_developer_tools, this_machine, this_system

_log = logging.getLogger(__name__)

_DIGEST = hashlib.sha256().digest_size
_SEAL = ".sha256"
"""The end of the name of a file that has the digest of a binary, where the binary has not."""

AMX = frozenset({"avx512_bf16", "amx_tile", "amx_bf16"})
"""The flags of a CPU that multiplies matrices of bfloat16."""
BYTE_PRODUCTS = frozenset({"avx512_vnni", "avx_vnni", "asimddp"})
"""The flags of CPUs that multiply 8-bit integers and add the products up in one instruction."""
_V3 = frozenset("avx2 bmi1 bmi2 f16c fma abm movbe".split())
_V4 = _V3 | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())


class Variant(NamedTuple):
    """A kind of CPU that binaries may be shipped for."""

    machine: str
    needs: frozenset[str]
    """The flags that the CPU must have."""
    flags: tuple[str, ...]
    """The compiler's flags."""


VARIANTS = {
    "x86-64-v4-amx": Variant(
        "x86_64",
        _V4 | AMX | {"avx512_vnni"},
        ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16", "-mamx-tile", "-mamx-bf16"),
    ),
    "x86-64-v4-vnni": Variant("x86_64", _V4 | {"avx512_vnni"}, ("-march=x86-64-v4", "-mavx512vnni")),
    "x86-64-v4": Variant("x86_64", _V4, ("-march=x86-64-v4",)),
    "x86-64-v3": Variant("x86_64", _V3, ("-march=x86-64-v3",)),
    "armv8.2-a": Variant("aarch64", frozenset({"asimddp"}), ("-march=armv8.2-a+dotprod",)),
    "armv8-a": Variant("aarch64", frozenset(), ("-march=armv8-a",)),
}
"""The variants that may be shipped; of each architecture the fastest first."""
_ANY_CPU = {
    "x86_64": Variant("x86_64", frozenset(), ("-march=x86-64",)),
    "aarch64": Variant("aarch64", frozenset(), ("-march=armv8-a",)),
}


class CompileError(RelatumError):
    """Code that could not be compiled or loaded on this machine."""


@dataclass(frozen=True, slots=True)
class Source:
    """C++ in a folder: one file is compiled; the other files, and the files in `shared` folders, are its headers.

    `parts` are flags that leave something out, to save time; shipped binaries have everything. On a CPU without the
    flags in `needs` the code is of no use. Code `for_any_cpu` has one binary for all CPUs of an architecture.
    """

    folder: Path
    main: str
    flags: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    shared: tuple[Path, ...] = ()
    needs: frozenset[str] = frozenset()
    for_any_cpu: bool = False

    def shipped(self, variant: str, system: System | None = None) -> Path:
        """Return the path at which the binary of a variant comes with the package, for this system or another."""
        ending = (system or this_system() or SYSTEMS["Linux"]).ending
        return self.folder / "built" / f"{Path(self.main).stem}-{variant}{ending}"

    def variants(self, system: System, machine: str) -> dict[str, Variant]:
        """Return the variants to ship for a system on an architecture, by their names; the fastest first."""
        if self.for_any_cpu:
            return {machine: _ANY_CPU[machine]}
        return {name: VARIANTS[name] for name in system.variants[machine] if self.needs <= VARIANTS[name].needs}


def can_load(source: Source) -> tuple[bool, str]:
    """Return whether the code can run here, and why or why not; nothing is compiled."""
    system = this_system()
    if system is None:
        return False, explain_lack()
    if not _cpu_has(source.needs):
        return False, f"it needs a CPU with {', '.join(sorted(source.needs - cpu_flags()))}"
    shipped = _find_shipped(source)
    if shipped is not None:
        return True, f"compiled code that came with the package, {shipped.name}"
    if not system.native and not _comes_with_package(source, system):
        return False, f"this installation has none for {system.name}; install relatum from a wheel for {system.name}"
    if this_machine() == "x86_64" and not cpu_flags() >= _V3:
        return False, "it needs a CPU with AVX2 and FMA"
    compiler = find_compiler()
    if compiler is None:
        return False, f"there is no C++ compiler to make it with; {system.cure}"
    return True, f"compiled code, made once with {compiler}"


def load(source: Source, together: Sequence[Source] = ()) -> ctypes.CDLL:
    """Load the compiled code; compile it first if that has not been done.

    The sources in `together` will be needed soon: those that are not compiled either are compiled at the same time.
    """
    available, reason = can_load(source)
    if not available:
        raise CompileError(f"{source.main} cannot run: {reason}")
    shipped = _find_shipped(source)
    if shipped is not None:
        return _load_library(str(shipped), source)
    compiler = find_compiler()
    assert compiler is not None
    name = _name(source, compiler)
    file = _unkept[name] if name in _unkept else _open_kept(name)
    if file is None:
        others = {_name(other, compiler): other for other in together if can_load(other)[0]}
        missing = {key: other for key, other in others.items() if not _is_compiled(other, key)}
        file = _compile_all(missing | {name: source}, compiler, name)
    return _load_library(_loadable_path(file), source)


_unkept: dict[str, int] = {}
"""Open files of binaries that this process compiled and could not keep, by their names."""


def _loadable_path(file: int) -> str:
    """Return the path by which an open file is loaded. The file stays open."""
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(file, fcntl.F_GETPATH, bytes(1024)).partition(b"\0")[0])
    return f"/proc/self/fd/{file}"  # the number must never mean another library, so nobody closes it


def _compile_all(sources: dict[str, Source], compiler: str, wanted: str) -> int:
    """Compile sources side by side, keep the binaries under the names given, and open the one that is wanted.

    The others may fail: whoever loads them will try again and see the error.
    """
    draft, folder = _make_draft()
    files = ", ".join(source.main for source in sources.values())
    place = "not kept" if folder is None else f"kept in {folder}"
    _log.warning("compiling %s for this machine, once (about 10 s, longer on a busy machine; %s)", files, place)
    begun = time.monotonic()
    try:
        with ThreadPoolExecutor(len(sources)) as pool:
            makings = {name: pool.submit(_make, source, compiler, draft / name) for name, source in sources.items()}
        makings[wanted].result()
        for name, making in makings.items():
            if making.exception() is None:
                _keep(draft / name, folder)
        file = _unkept[wanted] if folder is None else _open_kept(wanted)
    except OSError as error:
        raise CompileError(f"the compiled {sources[wanted].main} cannot be written: {error}") from error
    finally:
        if folder is None and sys.platform == "darwin":  # where files that have no name cannot be loaded
            atexit.register(shutil.rmtree, draft, ignore_errors=True)
        else:
            shutil.rmtree(draft, ignore_errors=True)
    if file is None:
        raise CompileError(f"{folder} was exchanged while code was compiled into it; {_PRIVATE_CURE}")
    _log.warning("compiled in %.0f s", time.monotonic() - begun)
    return file


def _make(source: Source, compiler: str, binary: Path) -> None:
    """Compile a binary for this machine, with its digest at the end or beside it, for the user alone."""
    system = this_system()
    assert system is not None
    compile_source(source, compiler, system.native[this_machine()], binary)
    digest = hashlib.sha256(binary.read_bytes()).digest()
    seal = binary if system.seals_inside else _seal_of(binary)
    with seal.open("ab") as file:
        file.write(digest)
    for path in {binary, seal}:
        path.chmod(0o700)


def _seal_of(binary: Path) -> Path:
    return binary.with_name(binary.name + _SEAL)


def _keep(binary: Path, folder: Path | None) -> None:
    """Put a binary into its place in the cache; without a cache keep it open."""
    if folder is None:
        _unkept[binary.name] = os.open(binary, os.O_RDONLY | os.O_NOFOLLOW)
        return
    for path in (_seal_of(binary), binary):
        if path.exists():
            path.replace(folder / path.name)  # another process may have done the same: either is right


def _make_draft() -> tuple[Path, Path | None]:
    """Make a folder to compile in, and the cache, if it can be used; it is None otherwise, with a warning."""
    folder = binaries_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        opened = _open_folder(folder)
        if not isinstance(opened, str):
            os.close(opened)
            return Path(tempfile.mkdtemp(prefix=".making-", dir=folder)), folder
        _log.warning("%s is not used, since %s: compiled code is not kept; %s", folder, opened, _PRIVATE_CURE)
    except OSError as error:
        _log.warning("%s cannot be written (%s): compiled code is not kept", folder, error)
    return Path(tempfile.mkdtemp(prefix="relatum-")), None


_PRIVATE_CURE = "make it yours alone (chmod 700), remove it, or name another folder in the variable RELATUM_CACHE"


def _open_kept(name: str) -> int | None:
    """Open a binary in the cache; None if there is none that is whole and the user's own."""
    folder = _open_folder(binaries_folder())
    if isinstance(folder, str):
        return None
    try:
        file = _open_own(name, folder)
        seal = None if file is None or _seals_inside() else _open_own(name + _SEAL, folder)
    finally:
        os.close(folder)
    if file is None:
        return None
    whole = _is_whole(file, seal)
    if seal is not None:
        os.close(seal)
    if whole:
        return file
    os.close(file)
    return None


def _open_own(name: str, folder: int) -> int | None:
    """Open a file that is the user's own, in an open folder; None if there is none."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    found = os.fstat(file)
    if stat.S_ISREG(found.st_mode) and _find_intruder(found) is None:
        return file
    os.close(file)
    return None


def _seals_inside() -> bool:
    system = this_system()
    return system is None or system.seals_inside


def _open_folder(folder: Path) -> int | str:
    """Open a folder that is the user's alone; otherwise say why it is not."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return "it is a symbolic link" if folder.is_symlink() else "it is not a folder that can be read"
    intruder = _find_intruder(os.fstat(opened))
    if intruder is None:
        return opened
    os.close(opened)
    return intruder


def _find_intruder(found: os.stat_result) -> str | None:
    """Say who else could have written a file or folder; None if nobody."""
    if found.st_uid != os.geteuid():
        return f"it belongs to another user ({found.st_uid})"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users can write to it (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def _is_compiled(source: Source, name: str) -> bool:
    """True if a binary need not be compiled."""
    if _find_shipped(source) is not None or name in _unkept:
        return True
    file = _open_kept(name)
    if file is None:
        return False
    os.close(file)
    return True


def _load_library(path: str, source: Source) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path)
    except OSError as error:  # as on a disk from which nothing may be executed
        raise CompileError(f"the compiled {source.main} cannot be loaded: {error}") from error


def compile_source(
    source: Source,
    compiler: str | Sequence[str],
    target: tuple[str, ...],
    binary: Path,
    system: System | None = None,
) -> None:
    """Make a shared library for a target, by the compiler's flags for it, and for this system or another.

    The compiler is a program, or a program with arguments.
    """
    system = system or this_system() or SYSTEMS["Linux"]
    command = [
        *([compiler] if isinstance(compiler, str) else compiler),
        *system.flags,
        *target,
        *source.flags,
        *source.parts,
        *(f"-I{folder}" for folder in source.shared),
        str(source.folder / source.main),
        *system.libraries,
        "-o",
        str(binary),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise CompileError(f"the compiler {command[0]} cannot be run: {error}; {system.cure}") from error
    if done.returncode != 0:
        said = "\n".join(done.stderr.splitlines()[:20])
        raise CompileError(f"{' '.join(command)} failed; {system.cure}. It said:\n{said}")


def binaries_folder() -> Path:
    """Return the folder of kept binaries, in the user's cache."""
    return cache_folder() / "kernels"


def find_compiler() -> str | None:
    """Return the compiler that CXX names, or a usual one if CXX is not set; None if it is not found."""
    named = os.environ.get("CXX")
    for name in (named,) if named else ("g++", "clang++", "c++"):
        found = shutil.which(name)
        if found is not None and _works(found):
            return found
    return None


def _works(compiler: str) -> bool:
    return sys.platform != "darwin" or Path(compiler).parent != Path("/usr/bin") or has_developer_tools()


def _find_shipped(source: Source) -> Path | None:
    system = this_system()
    if source.flags or system is None:
        return None
    for name, variant in source.variants(system, this_machine()).items():
        path = source.shipped(name)
        if path.is_file() and _cpu_has(variant.needs):
            return path
    return None


def _cpu_has(flags: frozenset[str]) -> bool:
    """True if the CPU has these flags. It is not asked for none: on Windows the answer is in a library of ours."""
    return not flags or flags <= cpu_flags()


def _comes_with_package(source: Source, system: System) -> bool:
    """True if the package has a binary for this system, for whatever CPU."""
    return any(source.shipped(name).is_file() for name in source.variants(system, this_machine()))


def cpu_flags() -> frozenset[str]:
    """Return the processor's flags, under the names of Linux: all, or those that decide between variants elsewhere."""
    if sys.platform == "darwin":
        return frozenset({"asimddp"}) if this_machine() == "aarch64" else frozenset()
    return _ask_cpu() if sys.platform == "win32" else _read_cpu_flags()


@cache
def _ask_cpu() -> frozenset[str]:
    """Return the flags that decide between variants; empty if the package came without the code that asks the CPU."""
    from relatum.kernels.sources import POOL

    if _find_shipped(POOL) is None:
        return frozenset()
    flags = ctypes.create_string_buffer(256)
    load(POOL).relatum_pool_cpu_flags(flags)
    return frozenset(flags.value.decode().split())


def _read_cpu_flags() -> frozenset[str]:
    key = "flags" if this_machine() == "x86_64" else "Features"
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.partition(":")[2].split()) for line in lines if line.startswith(key)), frozenset())


def _name(source: Source, compiler: str) -> str:
    """Return the name of a binary: its source, and the digest of all that it depends on."""
    system = this_system()
    assert system is not None
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    parts = [
        compiler.encode(),
        version,
        " ".join((*system.flags, *system.native[this_machine()], *source.flags, *source.parts)).encode(),
    ]
    parts.append(" ".join(sorted(cpu_flags())).encode())
    for file in (file for folder in (source.folder, *source.shared) for file in sorted(folder.iterdir())):
        if file.suffix in (".cpp", ".h"):
            parts += [file.name.encode(), file.read_bytes()]
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
    return f"{Path(source.main).stem}-{digest[:32]}{system.ending}"


def _is_whole(file: int, seal: int | None) -> bool:
    """True if a binary has the digest at its end, or the digest that `seal` has."""
    content = _read(file)
    if _seals_inside():
        content, digest = content[:-_DIGEST], content[-_DIGEST:]
    else:
        digest = b"" if seal is None else _read(seal)
    return len(content) > 0 and hashlib.sha256(content).digest() == digest


def _read(file: int) -> bytes:
    with os.fdopen(file, "rb", closefd=False) as opened:
        return opened.read()
