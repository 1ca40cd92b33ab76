"""The tutorial's commands, executed in the order of the page, do what the page promises."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from relatum.cli.app import main
from relatum.errors import RelatumError

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
UPDATES = 800
"""The updates made here: fewer than the page's command chooses, and enough for what the page promises."""


def commands() -> list[tuple[str, str]]:
    """Each command of the page with the output that is shown for it."""
    blocks = re.findall(
        r"^```(?:console|sh)\n(.*?)^```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return [
        (command, shown)
        for block in blocks
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


def flat(text: str) -> str:
    """The text with single spaces: how wide a table is depends on what else is in it."""
    return re.sub(" +", " ", text)


def promise(shown: str) -> re.Pattern[str]:
    """The shown lines in their order, other lines between them; `…` stands for any text."""
    lines = [flat(line).rstrip() for line in shown.splitlines() if line.strip() != "…"]
    return re.compile(r"(?s:.*)".join("^" + ".*".join(map(re.escape, line.split("…"))) for line in lines), re.MULTILINE)


def run(program: str, arguments: list[str]) -> tuple[int, str]:
    """The status of a command and all that it says; relatum is run in this process, which has loaded what it needs."""
    if program != "relatum":
        result = subprocess.run(
            [program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=600
        )
        return result.returncode, result.stdout
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with redirect_stdout(said), redirect_stderr(said):
        status = main(arguments)
    said.seek(0)
    return status, said.read()


def train(command: str, arguments: list[str], shown: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """Train in fewer updates: the status, all that was said, and what the page promises of that.

    The lines up to the first `…` say what is chosen. They are compared with what the page's own command says before
    it trains.
    """
    chosen, _, rest = shown.partition("…\n")
    steps = re.findall(r"training\.steps = ([0-9]+)", chosen)
    assert len(steps) == 1, chosen

    def stop(*_: object, **__: object) -> None:
        raise RelatumError("all is chosen")

    with monkeypatch.context() as patch:
        patch.setattr("relatum.training.loop.train", stop)
        _, said = run("relatum", arguments)
    assert promise(chosen + "relatum: all is chosen").search(flat(said)), (
        f"{command}\npromised:\n{chosen}\nfound:\n{said}"
    )
    status, said = run("relatum", [*arguments, "--set", f"training.steps={UPDATES}"])
    total = f"{int(steps[0]):,}"
    assert f"step 100 of {total}" in rest
    return status, said, rest.replace(f"of {total}", f"of {UPDATES:,}")


@pytest.mark.slow
def test_tutorial_keeps_its_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path
    done = []
    for command, shown in commands():
        program, *arguments = shlex.split(command)
        if program == "pip":
            continue  # the tests run where relatum is installed
        if program == "cd":
            place = place / arguments[0]
            continue
        monkeypatch.chdir(place)
        if arguments[0] == "train":
            status, said, shown = train(command, arguments, shown, monkeypatch)
        else:
            status, said = run(program, arguments)
        assert status == 0, f"{command}\n{said}"
        assert promise(shown).search(flat(said)), f"{command}\npromised:\n{shown}\nfound:\n{said}"
        done.append(program if program != "relatum" else arguments[0])
    assert done == ["init", "head", "inspect", "train", "evaluate", "extract", "extract"]
    scores = json.loads((place / "run" / "result.json").read_text(encoding="utf-8"))
    for part in ("dev", "test"):
        assert scores[part]["entities"]["micro"]["f1"] > 0.8
        assert scores[part]["relations_strict"]["micro"]["f1"] > 0.7


def test_tutorial_promise_needs_every_line_in_order() -> None:
    wanted = promise("one …\n…\n  two\n")
    assert wanted.search(flat("zero\none and a half\nmore\n    two\n"))
    assert not wanted.search(flat("  two\none and a half\n"))
    assert not wanted.search("one and a half\n")
