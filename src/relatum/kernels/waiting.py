"""The way idle threads wait for work, and signs that other programs keep the machine busy.

Between two operations the threads of an OpenMP pool spin, so that they are ready when the next one begins. GNU's
library, which comes with torch on Linux, lets them spin for some 7 ms. On a busy machine they then hold the very cores
that the work waits for: training was 30 times slower. A wait of some 25 µs costs little on an idle machine
(docs/training.md has the figures). The library reads its variables once, when torch is imported. On macOS and Windows
torch has other libraries, which are left as they are.
"""

from __future__ import annotations

import os
import sys
import time

VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""Users who set one of these have chosen for themselves."""
_SPINS = "1000"
_SECONDS = 20.0
"""The seconds to watch before judging."""
_MIN_SHARE = 0.8
"""The share of the time for which a thread at work has a core on a machine that is not busy."""

_torch_came_first = False
_set_by_relatum = False


def shorten_waiting() -> None:
    """Let idle threads sleep after a short wait, unless the user chose how they wait. Call it before torch's import."""
    global _set_by_relatum, _torch_came_first
    if any(name in os.environ for name in VARIABLES):
        return
    if "torch" in sys.modules:
        _torch_came_first = True
    else:
        os.environ["GOMP_SPINCOUNT"] = _SPINS
        _set_by_relatum = True


def explain_waiting() -> tuple[bool, str]:
    """Tell if idle threads wait as somebody chose, and how."""
    if sys.platform != "linux":
        return True, "as PyTorch's library has them (KMP_BLOCKTIME)"
    if _torch_came_first:
        return False, "torch was imported before relatum, so idle threads spin, which is slow on a busy machine"
    chosen = ", ".join(f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ)
    return True, f"sleep after a short wait ({chosen})" if _set_by_relatum else f"as set by {chosen}"


WAITING_CURE = "import relatum before torch, or set GOMP_SPINCOUNT=1000"


def describe_load() -> str | None:
    """Describe the load of a machine with more to do than it has cores; None if it has less, or does not say."""
    if not hasattr(os, "getloadavg"):  # Windows
        return None
    try:
        load = os.getloadavg()[0]
    except OSError:
        return None
    n_cores = os.cpu_count() or 1
    return f"load {load:.1f} on {n_cores} cores" if load > n_cores else None


class BusyWatch:
    """A watch over how long the calling thread has a core; tells once if other programs keep it from working."""

    def __init__(self) -> None:
        self._begun: tuple[float, float] | None = None
        self._told = False

    def start(self) -> None:
        """Begin to watch the calling thread."""
        self._begun = time.monotonic(), time.thread_time()

    def look(self) -> str | None:
        """Describe how much slower work is on a busy machine, once; None otherwise."""
        if self._begun is None or self._told:
            return None
        (then, worked), now = self._begun, time.monotonic()
        if now - then < _SECONDS:
            return None
        share = (time.thread_time() - worked) / (now - then)
        load = describe_load()
        self.start()
        if load is None or share >= _MIN_SHARE:
            return None
        self._told = True
        well, waiting = explain_waiting()
        cure = "close other programs if you can" if well else f"{waiting}; {WAITING_CURE}"
        return (
            f"the machine is busy with other programs ({load}): training had a core for {share:.0%} of the last "
            f"{now - then:.0f} s and is slower for it; {cure}"
        )
