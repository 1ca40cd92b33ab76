"""What docs/serving.md shows is asked and answered so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from relatum import Extractor
from relatum.cli.app import main
from relatum.web.app import STATIC, make_app
from relatum.web.limits import STATUS, Limits
from relatum.web.served import ServedModel

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "serving.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    models = [ServedModel(name, Extractor.from_pretrained(name, "cpu"), Limits()) for name in ("news", "drugs")]
    with TestClient(make_app(models)) as one:
        yield one


def without_scores(value: Any) -> Any:
    """The same, with scores to two digits."""
    if isinstance(value, list):
        return [without_scores(one) for one in value]
    if isinstance(value, dict):
        return {key: round(one, 2) if key == "score" else without_scores(one) for key, one in value.items()}
    return value


def test_examples_are_answered_as_shown(client: TestClient) -> None:
    examples = re.findall(r"```http\n(\w+) (\S+)\n(.*?)```\n\n```json\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == PAGE.count("```http") == 4
    for method, path, body, answer in examples:
        response = client.request(method, path, json=json.loads(body) if body else None)
        assert without_scores(response.json()) == without_scores(json.loads(answer)), path


def test_every_refusal_and_limit_is_listed() -> None:
    listed = re.findall(r"^\| (\d{3}) \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert {code: int(status) for status, code in listed} == STATUS
    limits = re.findall(r"^\| `--(max-\w+)` \| (\d+) \|", PAGE, re.MULTILINE)
    assert {name: float(value) for name, value in limits} == {
        name.replace("_", "-"): getattr(Limits(), name)
        for name in ("max_bytes", "max_sentences", "max_seconds", "max_waiting")
    }


def test_page_says_every_refusal_in_plain_words() -> None:
    script = (STATIC / "server.js").read_text(encoding="utf-8")
    (table,) = re.findall(r"^const PLAIN = \{\n(.*?)^\};", script, re.DOTALL | re.MULTILINE)
    words = re.findall(r'^  (\w+): "(.+)",$', table, re.MULTILINE)
    assert len(words) == len(table.splitlines())
    assert sorted(code for code, _ in words) == sorted(STATUS)


def test_every_option_is_on_the_page_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    options = set(re.findall(r"^\s+(--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)) - {"--help"}
    assert len(options) > 12
    commands = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert [one for one in sorted(options) if one not in commands] == []
