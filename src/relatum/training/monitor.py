"""The monitors of a run, combined, and `log.jsonl` for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from relatum.data.atomic import replacing_file
from relatum.errors import naming_file
from relatum.monitor import Evaluation, Monitor


class Monitors(Monitor):
    """Several monitors combined into one, which also remembers all messages."""

    def __init__(self, *monitors: Monitor) -> None:
        self._monitors = list(monitors)
        self.messages: list[str] = []
        """The messages that were said, each once."""

    def begin_with(self, messages: list[str]) -> None:
        """Put earlier messages first; all messages are kept in this very list from now on."""
        messages += [message for message in self.messages if message not in messages]
        self.messages = messages

    def start(self, step: int, steps: int) -> None:
        for monitor in self._monitors:
            monitor.start(step, steps)

    def advance(self, step: int, loss: float) -> None:
        for monitor in self._monitors:
            monitor.advance(step, loss)

    def evaluate(self, evaluation: Evaluation, best: bool) -> None:
        for monitor in self._monitors:
            monitor.evaluate(evaluation, best)

    def say(self, message: str) -> None:
        if message not in self.messages:
            self.messages.append(message)
        for monitor in self._monitors:
            monitor.say(message)

    def close(self) -> None:
        for monitor in self._monitors:
            monitor.close()


class Log:
    """The file `log.jsonl`: one line per evaluation, with the fields of `Evaluation`."""

    def __init__(self, path: Path, evaluations: Iterable[Evaluation] = ()) -> None:
        """Begin the file with these evaluations: after a stop, the old file may have more than the checkpoint has."""
        self._path = path
        with replacing_file(path) as draft:
            draft.write_text("".join(map(_line, evaluations)), encoding="utf-8")

    def add(self, evaluation: Evaluation) -> None:
        with naming_file(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(_line(evaluation))


def _line(evaluation: Evaluation) -> str:
    return json.dumps(evaluation.to_dict()) + "\n"
