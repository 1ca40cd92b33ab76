"""Operating systems and architectures that compiled code is made for."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

_POSIX = ("-O2", "-std=c++17", "-shared", "-fPIC", "-ffp-contract=fast")


class System(NamedTuple):
    """An operating system, and the way libraries are compiled for it."""

    name: str
    ending: str
    """The end of a library's file name."""
    flags: tuple[str, ...]
    """The compiler's flags for every library."""
    variants: Mapping[str, tuple[str, ...]]
    """The names of the variants that may be shipped, by architecture."""
    native: Mapping[str, tuple[str, ...]]
    """The compiler's flags for the CPU of this machine, by architecture; empty if nothing is compiled on first use."""
    tags: Mapping[str, str]
    """The platform tags of wheels, by architecture."""
    cure: str = ""
    """The way to get a compiler."""
    libraries: tuple[str, ...] = ()
    """The flags for libraries of the system."""
    seals_inside: bool = True
    """True if a digest may be appended to a library: a library for macOS is signed as it is."""
    needs_pool: bool = False
    """True if compiled code may need threads of its own: there may be no OpenMP library but torch's."""


_CXX = "or name it in the variable CXX"

SYSTEMS = {
    "Linux": System(
        "Linux",
        ".so",
        _POSIX,
        variants={
            "x86_64": ("x86-64-v4-amx", "x86-64-v4-vnni", "x86-64-v4", "x86-64-v3"),
            "aarch64": ("armv8.2-a", "armv8-a"),
        },
        native={"x86_64": ("-march=native",), "aarch64": ("-mcpu=native",)},
        tags={"x86_64": "linux_x86_64", "aarch64": "linux_aarch64"},
        cure=f"install one (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++), {_CXX}",
    ),
    "Darwin": System(
        "macOS",
        ".dylib",
        # Hidden names stay in their library: macOS makes one of those that several libraries export.
        (*_POSIX, "-fvisibility=hidden"),
        variants={"aarch64": ("armv8.2-a",)},
        native={"aarch64": ("-march=armv8.2-a+dotprod",)},  # every Mac has these; not all compilers know "native"
        tags={"aarch64": "macosx_11_0_arm64"},
        cure=f"install one (xcode-select --install), {_CXX}",
        seals_inside=False,
        needs_pool=True,
    ),
    "Windows": System(
        "Windows",
        ".dll",
        ("-O2", "-std=c++17", "-shared", "-s", "-ffp-contract=fast"),
        variants={"x86_64": ("x86-64-v4-vnni", "x86-64-v4", "x86-64-v3")},
        native={},
        tags={"x86_64": "win_amd64"},
        libraries=("-lapi-ms-win-core-synch-l1-2-0",),
        needs_pool=True,
    ),
}
"""The systems that there is compiled code for, by the names that `platform.system` gives them."""

_MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}


def this_machine() -> str:
    """Return the architecture of this machine, under the name that Linux has for it."""
    name = platform.machine()
    return _MACHINES.get(name.lower(), name)


def this_system() -> System | None:
    """Return this operating system; None if there is no compiled code for it on this architecture."""
    system = SYSTEMS.get(platform.system())
    return system if system is not None and this_machine() in system.variants else None


def explain_lack() -> str:
    """Say that this system is none that compiled code is made for."""
    names = {"Darwin": "macOS"}
    here = f"{names.get(platform.system(), platform.system())} on {this_machine()}"
    return f"it is made for Linux on x86-64 and ARM64, macOS on ARM64 and Windows on x86-64, and this is {here}"


@cache
def has_developer_tools() -> bool:
    """True if the compilers in /usr/bin work: on a Mac without tools they only ask to install them, in a window."""
    program = shutil.which("xcode-select")
    return program is not None and subprocess.run([program, "-p"], capture_output=True, check=False).returncode == 0
