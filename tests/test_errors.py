from __future__ import annotations

import inspect
import pickle

import pytest

from relatum import errors
from relatum.errors import (
    SHOWN,
    ConfigError,
    DataError,
    FormatError,
    MissingExtraError,
    NoSpaceError,
    Problem,
    RelatumError,
    SchemaError,
)


def test_every_error_is_a_relatum_error() -> None:
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
    assert {ConfigError, DataError, FormatError, MissingExtraError, SchemaError} <= set(classes)
    assert all(issubclass(kind, RelatumError) for kind in classes)


def test_missing_extra_error_names_the_command_that_cures_it() -> None:
    assert str(MissingExtraError("reading DocBin", "spacy")) == (
        "reading DocBin needs the extra 'spacy': pip install 'relatum[spacy]'"
    )


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("a.json", "1", "2"), "a.json: found 1; expected 2"),
        (Problem("a.json", "1", "2", line=3), "a.json:3: found 1; expected 2"),
        (Problem("a.json", "1", "2", record=4), "a.json (record 4): found 1; expected 2"),
        (Problem("a.json", "1", "2", field="x[0]"), "a.json, x[0]: found 1; expected 2"),
        (Problem("a.json", "1", "2", 3, 4, "x.y"), "a.json:3 (record 4), x.y: found 1; expected 2"),
    ],
)
def test_problem_names_file_line_record_field_found_and_expected(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_data_error_spells_out_every_problem_and_ends_with_the_cure() -> None:
    problems = [Problem("a.json", str(number), "x", line=number) for number in range(1, SHOWN + 1)]
    error = DataError(iter(problems), "Do this.")
    assert error.problems == tuple(problems)
    assert str(error).splitlines() == [*map(str, problems), "Do this."]


def test_data_error_counts_the_problems_it_does_not_show() -> None:
    problems = [Problem("a.json", str(number), "x") for number in range(SHOWN + 7)]
    error = DataError(problems)
    assert len(error.problems) == SHOWN + 7
    assert str(error).splitlines()[-1] == "… and 7 more"
    assert len(str(error).splitlines()) == SHOWN + 1


def test_errors_keep_their_text_between_processes() -> None:
    problem = Problem("a.json", "1", "2", 3, 4, "x")
    for error in (
        DataError([problem], "Do this."),
        MissingExtraError("reading DocBin", "spacy"),
        NoSpaceError("a.json: No space left on device", "start again"),
        FormatError("no"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
