"""Write requirements/run.txt and requirements/dev.txt: the versions of constraints.txt with the hashes of their files.

    python scripts/lock.py

run.txt holds what relatum needs to run and to be installed, dev.txt everything else. Run it in a complete development
environment, which says what depends on what; the hashes come from PyPI. torch is in neither file: its builds for CPUs,
for CUDA and for mirrors are different files of the same version.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

ROOT = Path(__file__).parent.parent
BUILD = ("hatchling", "editables")
UNHASHED = "torch"
RUN_EXTRA = "torch"
"""The extra of relatum that `make demo` installs: with it, all commands run, and extraction needs no compiler."""
_OLDEST = (3, 11)
_HEAD = "# Written by scripts/lock.py from constraints.txt; do not edit.\n"


def read_pins(path: Path) -> dict[str, Requirement]:
    """Read the pinned requirements of a file of constraints, by their canonical names."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in pins}


def version_of(pin: Requirement) -> str:
    """The one version that a pin allows."""
    (only,) = pin.specifier
    return only.version


def find_needed(names: Iterable[str]) -> set[str]:
    """Find everything that packages depend on, themselves included, as it is installed here."""
    needed: set[str] = set()
    waiting = [(name, extra) for name in names for extra in ("", *([RUN_EXTRA] if name == "relatum" else []))]
    seen = set(waiting)
    while waiting:
        name, extra = waiting.pop()
        needed.add(name)
        for line in metadata.requires(name) or []:
            requirement = Requirement(line)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            for wanted in ("", *requirement.extras):
                found = canonicalize_name(requirement.name), wanted
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)
    return needed


def fetch_hashes(pin: Requirement) -> list[str]:
    """Get the sha256 of every file of a version that a supported Python can install."""
    name, version = canonicalize_name(pin.name), Version(version_of(pin))
    with urllib.request.urlopen(f"https://pypi.org/simple/{name}/", timeout=60) as answer:
        page = answer.read().decode()
    hashes = {
        found["hash"]
        for found in re.finditer(r'href="[^"#]*/(?P<file>[^"#/]+)#sha256=(?P<hash>[0-9a-f]{64})"', page)
        if _is_wanted(found["file"], version)
    }
    if not hashes:
        raise SystemExit(f"{name} {version}: PyPI has no files of this version; correct constraints.txt")
    return sorted(hashes)


def _is_wanted(file: str, version: Version) -> bool:
    try:
        if file.endswith(".tar.gz"):
            return parse_sdist_filename(file)[1] == version
        _, found, _, tags = parse_wheel_filename(file)
    except (InvalidSdistFilename, InvalidWheelFilename):  # of a kind that pip does not install
        return False
    return found == version and any(_fits(tag.interpreter, tag.abi) for tag in tags)


def _fits(interpreter: str, abi: str) -> bool:
    """Tell if a wheel is for CPython of a version that relatum supports."""
    if interpreter.startswith("py3"):
        return True
    found = re.fullmatch(r"cp(\d)(\d+)", interpreter)
    return found is not None and (abi == "abi3" or (int(found[1]), int(found[2])) >= _OLDEST)


def write(path: Path, pins: Mapping[str, Requirement], hashes: Mapping[str, list[str]], head: str) -> None:
    """Write a file of requirements for `pip install --require-hashes`."""
    parts = [head]
    for name, pin in pins.items():
        marker = f" ; {str(pin.marker).replace(chr(34), chr(39))}" if pin.marker is not None else ""
        lines = [f"{name}=={version_of(pin)}{marker}", *(f"--hash=sha256:{one}" for one in hashes[name])]
        parts.append(" \\\n    ".join(lines) + "\n")
    path.write_text("".join(parts), encoding="utf-8")


def main() -> int:
    pins = read_pins(ROOT / "constraints.txt")
    del pins[UNHASHED]
    needed = find_needed(["relatum", *BUILD])
    unpinned = needed - pins.keys() - {"relatum", UNHASHED}
    if unpinned:
        raise SystemExit(f"constraints.txt has no version of {', '.join(sorted(unpinned))}")
    with ThreadPoolExecutor(16) as pool:
        hashes = dict(zip(pins, pool.map(fetch_hashes, pins.values()), strict=True))
    folder = ROOT / "requirements"
    folder.mkdir(exist_ok=True)
    here = {name: pin for name, pin in pins.items() if name in needed}
    rest = {name: pin for name, pin in pins.items() if name not in needed}
    write(folder / "run.txt", here, hashes, _HEAD)
    write(folder / "dev.txt", rest, hashes, f"{_HEAD}--requirement run.txt\n")
    print(f"{len(here)} packages to run, {len(rest)} more to develop")
    return 0


if __name__ == "__main__":
    sys.exit(main())
