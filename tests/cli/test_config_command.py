"""`relatum config`, through the front door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from relatum.cli.app import main
from relatum.config import Config, list_keys, load_config


@pytest.fixture(autouse=True)
def _work_in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base.toml").write_text("[tagging]\nfill = 'lower'\nscheme = 'bio'\n")
    Path("good.toml").write_text("extends = 'base.toml'\ndata.crossing = 'drop'\n")
    Path("bad.toml").write_text("[text]\nwrods = 1\nwords = 2\n")


def test_show_prints_a_file_that_loads_to_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show"]) == 0
    text = capsys.readouterr().out
    Path("shown.toml").write_text(text)
    assert load_config(Path("shown.toml")) == Config()
    assert all(f"{key.name.rpartition('.')[2]} = " in text for key in list_keys(Config()))


def test_show_says_where_values_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "good.toml", "--set", "text.words=whitespace", "--set", "tagging.cells=last"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "  # " in line] == [
        'words = "whitespace"  # --set (default: "rules")',
        'crossing = "drop"  # good.toml:2 (default: "fail")',
        'scheme = "bio"  # base.toml:3',
        'fill = "lower"  # base.toml:2 (default: "entire")',
        'cells = "last"  # --set (default: "entity")',
    ]


def test_show_changed_prints_only_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "good.toml", "--changed"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith("#")]
    assert [line.partition("  # ")[0] for line in lines] == [
        "[data]",
        'crossing = "drop"',
        "[tagging]",
        'fill = "lower"',
    ]


def test_show_changed_says_so_when_nothing_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "--changed"]) == 0
    assert capsys.readouterr().out == "# every setting has its default\n"


def test_show_json_gives_every_key_with_value_default_and_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "good.toml", "--json", "--set", "text.words=whitespace"]) == 0
    record = json.loads(capsys.readouterr().out)
    keys = {key.name: key for key in list_keys(Config())}
    assert list(record) == list(keys)
    assert {name: item["description"] for name, item in record.items()} == {
        name: key.description for name, key in keys.items()
    }
    assert record["tagging.fill"] == {
        "value": "lower",
        "default": "entire",
        "origin": "base.toml:2",
        "expected": '"entire", "lower" or "upper"',
        "description": keys["tagging.fill"].description,
    }
    assert record["text.words"]["origin"] == "--set"
    assert (record["data.overlaps"]["value"], record["data.overlaps"]["origin"]) == (None, "default")


def test_show_json_changed_gives_only_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "good.toml", "--json", "--changed"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"tagging.fill", "data.crossing"}


def test_show_reports_all_problems_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "bad.toml", "--set", "data.crossing=keep"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "relatum: bad.toml:2, text.wrods: found an unknown key; expected one of words, sentences, unit "
        "(did you mean text.words?)",
        'bad.toml:3, text.words: found 2; expected "rules", "whitespace" or "package.module:function"',
        '--set, data.crossing: found "keep"; expected "fail", "drop" or "join"',
    ]


def test_check_says_ok(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "good.toml", "base.toml"]) == 0
    assert capsys.readouterr().out == "good.toml: ok\nbase.toml: ok\n"


def test_check_goes_on_after_a_bad_file_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "bad.toml", "good.toml", "gone.toml"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["bad.toml", "bad.toml", "good.toml", "gone.toml"]


def test_check_without_files_is_a_bad_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check"]) == 2
    assert "FILE" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="file names are bytes elsewhere")
def test_check_survives_file_names_that_are_not_text() -> None:
    command = [sys.executable, "-m", "relatum", "config", "check"]
    done = subprocess.run([*command, b"\xff.toml"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout == b"\\udcff.toml: found no such file; expected a TOML file in UTF-8\n"


@pytest.mark.parametrize(
    ("arguments", "module"),
    # typer itself imports pydantic for the parameters of a command, but not for the list of commands.
    [(["--help"], "pydantic"), (["config", "show", "--help"], "relatum.config")],
)
def test_help_does_not_import_what_only_commands_need(arguments: list[str], module: str) -> None:
    code = f"import sys; from relatum.cli.app import main; main({arguments!r}); sys.exit({module!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
