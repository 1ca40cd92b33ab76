"""What is installed: exact versions with hashes, which agree with what the package asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "requirements"


def pins_of(path: Path) -> dict[str, Requirement]:
    """The requirements of a file, by their names, without hashes, options and comments."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.partition(" --hash")[0].strip() for line in text.splitlines() if line and line[0] not in "#-"]
    return {canonicalize_name(pin.name): pin for pin in map(Requirement, lines)}


@pytest.fixture(scope="module")
def constraints() -> dict[str, Requirement]:
    return pins_of(ROOT / "constraints.txt")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return found


def test_locks_have_the_versions_of_the_constraints(constraints: dict[str, Requirement]) -> None:
    run, dev = pins_of(LOCKS / "run.txt"), pins_of(LOCKS / "dev.txt")
    assert not run.keys() & dev.keys()
    locked = {**run, **dev}
    assert {name: str(pin.specifier) for name, pin in locked.items()} == {
        name: str(pin.specifier) for name, pin in constraints.items() if name != "torch"
    }
    assert (LOCKS / "dev.txt").read_text(encoding="utf-8").splitlines()[1] == "--requirement run.txt"


@pytest.mark.parametrize("name", ["run.txt", "dev.txt"])
def test_every_locked_package_has_hashes(name: str) -> None:
    text = (LOCKS / name).read_text(encoding="utf-8").replace("\\\n", " ")
    packages = [line for line in text.splitlines() if line and line[0] not in "#-"]
    assert packages
    for package in packages:
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+", package), package


def test_locks_hold_what_the_package_needs(project: dict[str, Any]) -> None:
    run, dev = pins_of(LOCKS / "run.txt"), pins_of(LOCKS / "dev.txt")
    needed = list(map(Requirement, project["project"]["dependencies"]))
    extras = project["project"]["optional-dependencies"]
    named = [Requirement(line) for line in extras["dev"]]
    (own,) = [one for one in named if one.name == "relatum"]
    more = [one for one in named if one.name != "relatum"]
    more += [Requirement(line) for extra in own.extras for line in extras[extra] if not line.startswith("relatum[")]
    for wanted, locks in ((needed, run), (more, {**run, **dev})):
        for one in wanted:
            if one.name != "torch":
                (pin,) = locks[canonicalize_name(one.name)].specifier
                assert pin.version in one.specifier, one


def test_build_backend_is_pinned(project: dict[str, Any]) -> None:
    requires = list(map(Requirement, project["build-system"]["requires"]))
    assert requires
    run = pins_of(LOCKS / "run.txt")
    assert {one.name: str(one.specifier) for one in requires} == {
        one.name: str(run[canonicalize_name(one.name)].specifier) for one in requires
    }
