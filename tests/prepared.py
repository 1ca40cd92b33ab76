"""Processes of their own for scripts, without the seconds that it takes to import torch in each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

ENDED = "this script has ended with status "
FORK = f"""
def _fork():
    import json, os, signal, sys, traceback

    for line in sys.stdin:
        child = os.fork()
        if not child:
            signal.alarm(300)
            status = 0
            try:
                exec(json.loads(line), globals())
            except BaseException:
                traceback.print_exc()
                status = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print("\\n{ENDED}" + str(status), flush=True)
    os._exit(0)  # to take torch down in order takes a second

_fork()
"""


class Prepared:
    """A Python that has run `preparation`, and forks for every script: each begins with that and nothing else."""

    def __init__(self, preparation: str, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", preparation + FORK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            env={**os.environ, **(environment or {})},
        )

    def run(self, script: str) -> str:
        """What the script says on standard output and error; it must end well."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # why it has ended is said below
            self._process.stdin.write(json.dumps(script) + "\n")
            self._process.stdin.flush()
        said = ""
        for line in self._process.stdout:
            if line.startswith(ENDED):
                assert line.removeprefix(ENDED).strip() == "0", said
                return said
            said += line
        raise AssertionError(f"the preparation failed: {said}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        self._process.communicate()
