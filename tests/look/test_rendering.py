"""Templates and style sheets."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from relatum.look import rendering
from relatum.look.rendering import STYLES, pixels, render, stream, style, token

EVIL = "<b>\"&'</b>\x00\x1b\ud800"


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "one.html").write_text('<p title="{{ value }}">{{ value }}</p>')
    monkeypatch.setattr(rendering, "PACKAGE", tmp_path)
    rendering._environment.cache_clear()
    yield "one.html"
    rendering._environment.cache_clear()


def test_values_are_escaped_and_hold_nothing_that_html_cannot(template: str) -> None:
    shown = "&lt;b&gt;&#34;&amp;&#39;&lt;/b&gt;␀␛?"
    assert render(template, value=EVIL) == f'<p title="{shown}">{shown}</p>'


def test_white_space_of_values_stays(template: str) -> None:
    assert "".join(stream(template, value=" a\r\n\tb ")) == '<p title=" a\r\n\tb "> a\r\n\tb </p>'


def test_value_that_is_missing_is_an_error(template: str) -> None:
    with pytest.raises(UndefinedError):
        render(template)


def test_pages_name_themselves_and_allow_nothing_from_elsewhere() -> None:
    page = render("look/page.html", title=EVIL)
    assert page.count("&lt;b&gt;") == 2
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|url\(|<script|<link|@import", page)


def test_every_style_sheet_is_plain_and_without_comments_in_pages() -> None:
    for path in STYLES.iterdir():
        sheet = style(f"look/styles/{path.name}")
        assert "/*" not in sheet
        assert sheet.count("{") == sheet.count("}") > 0
        assert not re.search(r"url\(|@import|</", sheet)


def test_tokens_are_numbers_of_the_style_sheet() -> None:
    assert token("arc-level") == 19
    assert token("chip-text") == 10.5
    with pytest.raises(ValueError, match="not enough values"):
        token("no-such-token")


def test_pixels_are_short() -> None:
    assert [pixels(number) for number in (1.0, 1.25, 12345678.96, 0)] == ["1", "1.2", "12345679", "0"]


def test_jinja_is_imported_only_for_html() -> None:
    code = "import sys, relatum.extractor.result, relatum.look.rendering; print('jinja2' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "False\n"
