"""The page that draws a knowledge graph, in a real browser without a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from relatum.graph import KnowledgeGraph
from relatum.types import Annotation, Document, Entity, Relation, Span

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@contextmanager
def opened(browser: Browser, path: Path) -> Iterator[Page]:
    """Open a file; at the end nobody may have complained."""
    context = browser.new_context(offline=True, viewport={"width": 1000, "height": 900})
    complaints: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    yield page
    context.close()
    assert complaints == []


@pytest.fixture
def drawing(tmp_path: Path) -> Path:
    """Ada works for a bank and lives in a town that has the bank, too; a name is a script."""
    text = "Ada runs Tarn Bank in Oldhaven, says <script>alert(1)</script>"
    names = {"Ada": "Peop", "Tarn Bank": "Org", "Oldhaven": "Loc", "<script>alert(1)</script>": "Other"}
    ada, bank, town, script = (
        Entity(Span(text.index(name), text.index(name) + len(name)), label) for name, label in names.items()
    )
    relations = Relation(ada, bank, "Work_For"), Relation(ada, town, "Live_In"), Relation(bank, town, "OrgBased_In")
    annotation = Annotation((ada, bank, town, script), relations)
    document = Document("news", text, annotation, (Span(0, len(text)),), (Span(0, 1),))
    KnowledgeGraph.of([document]).save(tmp_path / "kg.html")
    return tmp_path / "kg.html"


def test_a_click_on_a_name_leaves_its_relations(browser: Browser, drawing: Path) -> None:
    with opened(browser, drawing) as page:
        assert page.locator(".node").count() == 4
        assert page.locator("li:visible").count() == 3
        page.locator(".node", has_text="Tarn Bank").locator("circle").click()
        assert page.locator("output").inner_text() == "2 of 3: Tarn Bank"
        assert page.locator("li:visible b").all_inner_texts() == ["Ada", "Tarn Bank", "Tarn Bank", "Oldhaven"]
        assert "Ada runs Tarn Bank in Oldhaven" in page.locator("li:visible blockquote").first.inner_text()
        page.get_by_role("button", name="Show all").click()
        assert page.locator("li:visible").count() == 3


def test_the_keyboard_selects_and_names_can_be_found(browser: Browser, drawing: Path) -> None:
    with opened(browser, drawing) as page:
        page.locator(".node", has_text="Oldhaven").focus()
        page.keyboard.press("Enter")
        assert page.locator("output").inner_text() == "2 of 3: Oldhaven"
        page.keyboard.press("Escape")
        assert page.locator("output").inner_text() == ""
        page.get_by_label("Find a name").fill("tarn")
        assert page.locator(".node.found text").all_text_contents() == ["Tarn Bank"]


def test_zooming_and_dragging_change_the_view(browser: Browser, drawing: Path) -> None:
    with opened(browser, drawing) as page:
        svg = page.locator(".drawing svg")
        first = svg.get_attribute("viewBox")
        page.get_by_role("button", name="Zoom in").click()
        assert svg.get_attribute("viewBox") != first
        page.get_by_role("button", name="Fit").click()
        assert svg.get_attribute("viewBox") == first
        box = svg.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 5, box["y"] + 5)
        page.mouse.down()
        page.mouse.move(box["x"] + 90, box["y"] + 60)
        page.mouse.up()
        assert svg.get_attribute("viewBox") != first


def test_nothing_is_wider_than_a_phone(browser: Browser, drawing: Path) -> None:
    with opened(browser, drawing) as page:
        page.set_viewport_size({"width": 340, "height": 640})
        assert page.evaluate("document.documentElement.scrollWidth") <= 340
