"""How idle threads wait, as the OpenMP library of torch says it has read it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from relatum.kernels.threads import find_openmp
from relatum.kernels.waiting import VARIABLES

uses_gnu = torch.backends.openmp.is_available() and "gomp" in getattr(find_openmp(), "_name", "")
pytestmark = pytest.mark.skipif(not uses_gnu, reason="torch uses another OpenMP library than GNU's")


def run(script: str, **variables: str) -> str:
    """What Python and the library say; the library shows its variables when it is loaded."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment |= {"OMP_DISPLAY_ENV": "VERBOSE", **variables}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({}, "GOMP_SPINCOUNT = '1000'"),
        ({"GOMP_SPINCOUNT": "77"}, "GOMP_SPINCOUNT = '77'"),
        ({"OMP_WAIT_POLICY": "passive"}, "GOMP_SPINCOUNT = '0'"),
    ],
)
def test_idle_threads_wait_for_a_short_time_or_as_the_user_says(variables: dict[str, str], shown: str) -> None:
    assert shown in run("import relatum.kernels.threads, torch", **variables)


def test_torch_that_was_imported_first_is_noticed() -> None:
    said = run("import torch, relatum.kernels.waiting as waiting; print(waiting.explain_waiting())")
    assert "(False, 'torch was imported before relatum" in said
    assert "GOMP_SPINCOUNT = '1000'" not in said


@pytest.mark.parametrize(
    ("variables", "said"),
    [({}, "sleep after a short wait (GOMP_SPINCOUNT=1000)"), ({"GOMP_SPINCOUNT": "77"}, "as set by GOMP_SPINCOUNT=77")],
)
def test_doctor_tells_the_choice_of_relatum_from_that_of_the_user(variables: dict[str, str], said: str) -> None:
    script = "import relatum.kernels.waiting as waiting; print(waiting.explain_waiting())"
    assert f"(True, '{said}')" in run(script, **variables)
