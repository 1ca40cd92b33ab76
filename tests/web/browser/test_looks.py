"""What the page and the HTML files look like: on phones, by night, and like each other."""

from __future__ import annotations

import random
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from relatum.extractor.drawing.arcs import Arc, Box, arrange
from relatum.extractor.drawing.html import page
from relatum.extractor.extractor import Extractor
from relatum.look.colours import hue

from .conftest import Open, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LONG = (
    " ".join(["Mara Ilves works for Tarn Shipping in Oldhaven and"] * 11)
    + " Llanfairpwllgwyngyllgogerychwyrndrobwllllantysilio" * 2
)
"""A sentence of 101 words, some of them long."""
PARAGRAPHS = "\n\n".join(["Mara Ilves works for Tarn Shipping in Oldhaven. The ferry left Port Amsel on Tuesday."] * 10)


def fits(shown: Page) -> bool:
    """Whether nobody has to scroll sideways."""
    width: int = shown.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width <= 0


def brightness(shown: Page, rule: str) -> float:
    return float(
        shown.evaluate(f"""getComputedStyle(document.body).{rule}.match(/\\d+/g).slice(0, 3)
        .reduce((sum, part) => sum + Number(part), 0) / 765""")
    )


def lines_fit(shown: Page) -> bool:
    over: list[float] = shown.evaluate(
        "[...document.querySelectorAll('.words')].map((w) => w.scrollWidth - w.clientWidth)"
    )
    return max(over) <= 1  # what a browser rounds


def test_paragraphs_fit_a_phone(open_page: Open) -> None:
    shown = open_page("#" + urlencode({"text": PARAGRAPHS, "sentence": 20}), width=360)
    shown.locator("#layer-control").wait_for()
    assert shown.locator("#sentences .sentence").count() == 20
    assert fits(shown)
    assert lines_fit(shown)


def test_long_sentence_fits_a_screen_and_then_a_phone(open_page: Open) -> None:
    shown = open_page("#" + urlencode({"text": LONG, "sentence": 1}))
    shown.locator("#layer-control").wait_for()
    assert fits(shown)
    assert lines_fit(shown)
    lines, arcs = (shown.locator(f"#sentences {part}").count() for part in (".line", ".arrow"))
    shown.set_viewport_size({"width": 360, "height": 740})
    shown.locator("#sentences .line").nth(lines).wait_for()
    assert fits(shown)
    assert lines_fit(shown)
    assert shown.locator("#sentences .arrow").count() == arcs


def test_text_from_right_to_left_runs_so(open_page: Open) -> None:
    shown = open_page("#" + urlencode({"text": "שלום Mara לונדון Oldhaven. Mara שלום Oldhaven."}))
    shown.locator("#sentences .chip").last.wait_for()
    assert [one.get_attribute("dir") for one in shown.locator("#sentences .lines").all()] == ["rtl", "ltr"]
    for line, leftward in zip(shown.locator("#sentences .line").all(), (True, False), strict=True):
        boxes = [chip.bounding_box() for chip in line.locator(".chip").all()]
        places = [box["x"] for box in boxes if box is not None]
        assert len(places) >= 3
        assert places == sorted(places, reverse=leftward)
    assert fits(shown)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_light_by_day_and_dark_by_night(open_page: Open, scheme: str) -> None:
    shown = open_page(color_scheme=scheme)
    dark = scheme == "dark"
    assert (brightness(shown, "backgroundColor") < 0.2) == dark
    assert (brightness(shown, "color") > 0.8) == dark


def test_everything_that_can_be_used_has_a_name(open_page: Open) -> None:
    shown = open_page("#" + urlencode({"text": PARAGRAPHS, "sentence": 1}))
    shown.locator("#layer-control").wait_for()
    nameless = shown.evaluate(
        """[...document.querySelectorAll('button, select, textarea, input, [tabindex="0"], svg, canvas')]
            .filter((one) => !one.closest('[aria-hidden="true"]') && !one.labels?.length && !one.textContent.trim()
                && !one.getAttribute('aria-label') && !one.classList.contains('cells')).map((one) => one.outerHTML)"""
    )
    assert nameless == []
    live = shown.locator("[role=status], [role=alert], [aria-live]")
    assert live.count() >= 5


def test_labels_have_the_same_colours_as_in_files(open_page: Open) -> None:
    shown = open_page()
    labels = ["Peop", "Org", "Work_For", "Adverse-Effect", "é→日😀", ""]
    hues = "async (labels) => { const m = await import('/static/labels.js'); return labels.map(m.hue); }"
    assert shown.evaluate(hues, labels) == [hue(label) for label in labels]


def test_arcs_go_the_same_ways_as_in_files(open_page: Open) -> None:
    shown = open_page()
    draw = random.Random(7)
    for _ in range(20):
        places = [(draw.randrange(16), draw.uniform(0, 360), draw.uniform(8, 40)) for _ in range(6)]
        ends = [(draw.randrange(6), draw.randrange(6), draw.uniform(10, 70)) for _ in range(8)]
        lines = arrange([Box(line, x, x + w) for line, x, w in places], [Arc(*end) for end in ends], 16, 400)
        other = shown.evaluate(
            """async ([places, ends]) => { const m = await import('/static/layout.js');
                const boxes = new Map(places.map(([line, left, width], i) => [i, {line, left, right: left + width}]));
                const arcs = ends.map(([head, tail, labelWidth]) => ({head, tail, labelWidth}));
                return m.arrange(Array.from({length: 16}, () => ({width: 400})), boxes, arcs).map(({segments}) =>
                    segments.map((p) => [p.arc, p.rise, p.lift, p.begins, p.ends, p.left, p.right, p.middle])); }""",
            [places, ends],
        )
        assert [len(segments) for segments in other] == [len(segments) for segments in lines]
        for segment, same in zip(chain(*lines), chain(*other), strict=True):
            assert [segment.arc, segment.rise, segment.lift, segment.begins, segment.ends] == same[:5]
            assert [segment.left, segment.right, segment.middle] == pytest.approx(same[5:])


@pytest.mark.parametrize(("width", "drawn"), [(900, "wide"), (360, "narrow")])
def test_file_shows_arcs_that_fit(
    browser: Browser, extractor: Extractor, tmp_path: Path, width: int, drawn: str
) -> None:
    file = tmp_path / "found.html"
    file.write_text(page([extractor(LONG), extractor(PARAGRAPHS)], "Found"))
    context = browser.new_context(viewport={"width": width, "height": 800}, java_script_enabled=True)
    shown = context.new_page()
    shown.goto(file.as_uri())
    assert fits(shown)
    seen = {name: shown.locator(f"svg.{name}").first.is_visible() for name in ("wide", "narrow")}
    assert seen == {"wide": drawn == "wide", "narrow": drawn == "narrow"}
    over = shown.evaluate(
        """(name) => [...document.querySelectorAll(`svg.${name}`)].flatMap((svg) => {
            const limit = svg.viewBox.baseVal.width;
            return [...svg.querySelectorAll(':scope > text')].map((text) => text.getBBox())
                .map((box) => box.x + box.width - limit); })""",
        drawn,
    )
    assert max(over) <= 1
    beyond = shown.evaluate(
        """(name) => [...document.querySelectorAll(`svg.${name} .chip`)].map((chip) =>
            chip.querySelector('text').getBBox().width - chip.querySelector('rect').getBBox().width)""",
        drawn,
    )
    assert max(beyond) < 0
    context.close()


def test_shipped_model_reads_the_example(open_page: Open) -> None:
    extractor = Extractor.from_pretrained("news")
    with serving({"news": extractor}) as address:
        shown = open_page(at=address)
        shown.locator("#model option").first.wait_for(state="attached")
        shown.click("#example")
        shown.locator("#sentences .arc").first.wait_for()
        found = extractor(shown.input_value("#text"))
        assert shown.locator("#sentences .arrow").count() == len(found.relations)
        marked = shown.locator("#entities b").all_inner_texts()
        assert marked == [entity.span.of(found.text) for entity in found.entities]
        assert any(entity.label == "Peop" for entity in found.entities)
        shown.close()  # before the server, of which it may still ask something
