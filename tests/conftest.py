"""Folders that many tests read from, and how property tests run."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Several test processes share the machine: with one thread each they do not wait for one another.
os.environ["OMP_NUM_THREADS"] = "1"

# The benchmarks are not installed: they are found beside the tests.
ROOT = str(Path(__file__).parent.parent)
if ROOT not in sys.path:
    sys.path.append(ROOT)

# Whoever starts tests in the background may have told all its children to ignore Ctrl-C, which some tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow or busy machine must not fail a property, nor must luck: the examples are the same in every run. To look for
# new ones: RELATUM_FUZZ=20 pytest tests/data, which tries twenty times as many, drawn at random.
FUZZ = int(os.environ.get("RELATUM_FUZZ", "1"))
settings.register_profile(
    "relatum",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100 * FUZZ,
    derandomize=FUZZ == 1,
)
settings.load_profile("relatum")


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_disks() -> Iterator[None]:
    """What tests write need not survive a loss of power; some write thousands of files, each of which would wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_are_made_once() -> Iterator[None]:
    """Typer makes all commands anew at every call, which takes longer than most of what is called here."""
    make = cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", make)
        patch.setattr(typer.testing, "_get_command", make)
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium, or another one that is on the path.

    As long as it is there, an event loop runs in this thread, so that no test can run another one.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no chromium to show the page with; on Debian: apt install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'relatum[dev]'")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path)
        yield started
        started.close()


@pytest.fixture(scope="session")
def examples_folder() -> Path:
    """The corpora that come with the repository."""
    return Path(__file__).parent.parent / "examples"


@pytest.fixture
def deeds(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes runs pretend to train; sets what they do, as `fake_worker.py` says."""
    from relatum.training.runs import parallel

    monkeypatch.setattr(parallel, "WORKER", (str(Path(__file__).with_name("fake_worker.py")),))
    monkeypatch.setenv("FAKE", "")
    return lambda text: monkeypatch.setenv("FAKE", text)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The published corpora, where the environment variable RELATUM_DATA says they are; skips the test elsewhere."""
    folder = os.environ.get("RELATUM_DATA")
    if not folder:
        pytest.skip("RELATUM_DATA is not set; it names the folder with conll04, ade and scierc")
    if not Path(folder).is_dir():
        pytest.skip(f"RELATUM_DATA names {folder}, which is not a folder")
    return Path(folder)
