"""What the command line makes of errors that nobody raised on purpose."""

from __future__ import annotations

import errno

import pytest
import torch

from relatum.cli.app import _run


def test_memory_that_ran_out_is_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(lambda: torch.empty(2**60, dtype=torch.uint8)) == 1
    said = capsys.readouterr().err
    assert said.startswith("relatum: out of memory (")
    assert "; close other programs, divide the data" in said
    assert said.count("\n") == 1

    def fail() -> None:
        raise MemoryError

    assert _run(fail) == 1
    assert capsys.readouterr().err.startswith("relatum: out of memory (MemoryError); ")


def test_other_errors_of_torch_are_not_hidden() -> None:
    with pytest.raises(RuntimeError, match="invalid for input"):
        _run(lambda: torch.zeros(3).view(2))


def test_file_without_space_is_named_with_the_cure(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "out.jsonl")

    assert _run(fail) == 1
    assert capsys.readouterr().err == "relatum: out.jsonl: No space left on device; free some space\n"
