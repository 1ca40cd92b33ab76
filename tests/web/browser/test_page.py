"""The page in a real browser: what it asks of the server, draws and says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from relatum.extractor.extractor import Extractor
from relatum.extractor.result import Extraction, mention

from .conftest import Open, serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

TEXT = "Mara Ilves works for Tarn Shipping in Oldhaven. The ferry left Port Amsel on Tuesday, she said."
N_FIRST = 47
"""Characters of the first sentence."""


def link(**view: object) -> str:
    return f"#{urlencode(view)}"


def arcs(page: Page, box: str = "#sentences") -> int:
    """How many relations are drawn; one of several lines has several parts, of which one has the arrow."""
    return page.locator(f"{box} .arrow").count()


def listed(extraction: Extraction) -> list[str]:
    scores = [relation["score"] for relation in extraction.to_dict()["relations"]]
    return [
        f"{mention(r.head, extraction.text)} —{r.label}→ {mention(r.tail, extraction.text)} {score:.2f}"
        for r, score in zip(extraction.relations, scores, strict=True)
    ]


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def tab_to(page: Page, id: str) -> None:
    """Go on with the Tab key alone until that element has the focus."""
    for _ in range(60):
        press(page, "Tab")
        if page.evaluate("document.activeElement.closest('[id]')?.id") == id:
            return
    raise AssertionError(f"the Tab key does not come to {id}")


def test_page_loads_with_its_models_and_asks_for_a_text(open_page: Open) -> None:
    page = open_page()
    options = page.locator("#model option")
    options.nth(1).wait_for(state="attached")
    assert options.all_inner_texts() == ["tiny", "other"]
    assert page.input_value("#model") == "tiny"
    assert "Live_In" in page.inner_text("#kinds")
    assert page.locator("#found").is_hidden()
    page.click("#go")
    page.locator("#problem").wait_for()
    assert "type or paste" in page.inner_text("#problem")


def test_text_is_shown_with_its_entities_and_crossing_arcs(open_page: Open, extractor: Extractor) -> None:
    found = extractor(TEXT)
    places = [sorted((r.head.span.start, r.tail.span.start)) for r in found.relations if r.head.span.end < N_FIRST]
    assert any(a < c < b < d for a, b in places for c, d in places)
    page = open_page()
    page.fill("#text", TEXT)
    page.click("#go")
    page.locator("#found").wait_for()
    assert page.locator("#sentences .sentence").count() == 2
    assert arcs(page) == len(found.relations)
    assert page.locator("#sentences .chip").all_inner_texts() == [entity.label for entity in found.entities]
    assert page.locator("#sentences mark").all_inner_texts() == [entity.span.of(TEXT) for entity in found.entities]
    assert page.locator("#relations li").all_inner_texts() == listed(found)
    assert f"{len(found.entities)} entities and {len(found.relations)} relations in 2 sentences" in page.inner_text(
        "#status"
    )
    assert " ".join(page.locator("#sentences .words").all_inner_texts()).split() == TEXT.split()


def test_arcs_stand_on_the_labels_of_their_entities_and_never_on_each_other(open_page: Open) -> None:
    page = open_page(link(text=TEXT))
    page.locator("#sentences .arc").first.wait_for()
    drawn = page.evaluate(
        """() => [...document.querySelectorAll('#sentences .line')].map((line) => ({
            arcs: [...line.querySelectorAll('.arc')].map((arc) => ({
                ...arc.dataset, bow: box(arc.querySelector('.bow')), label: box(arc.querySelector('text')) })),
            chips: Object.fromEntries([...line.querySelectorAll('.chip')].map((c) => [c.dataset.entity, box(c)])) }));
        function box(element) { const b = element.getBoundingClientRect();
            return {left: b.left, right: b.right, top: b.top, bottom: b.bottom}; }"""
    )
    checked = 0
    for line in drawn:
        for number, arc in enumerate(line["arcs"]):
            ends = [line["chips"].get(arc[end]) for end in ("head", "tail")]
            if None not in ends:
                left, right = sorted(ends, key=lambda chip: chip["left"])
                # More arcs than its label is wide may reach over an entity's label a little.
                assert left["left"] - 60 <= arc["bow"]["left"] <= left["right"] + 60
                assert right["left"] - 60 <= arc["bow"]["right"] <= right["right"] + 60
                assert arc["bow"]["bottom"] <= max(left["top"], right["top"]) + 2
                checked += 1
            for other in line["arcs"][:number]:
                apart = abs(arc["bow"]["top"] - other["bow"]["top"]) >= 15
                aside = arc["bow"]["left"] > other["bow"]["right"] or other["bow"]["left"] > arc["bow"]["right"]
                assert apart or aside
    assert checked >= 20


def test_mouse_on_an_arc_shows_its_score_and_lights_its_entities(open_page: Open, extractor: Extractor) -> None:
    page = open_page(link(text=TEXT))
    page.locator("#sentences .arc text").first.hover()
    page.locator("#tip").wait_for()
    first = page.locator("#sentences .arc").first.get_attribute("data-relation")
    assert first is not None
    expected = listed(extractor(TEXT))[int(first[1:]) - 1]
    assert page.inner_text("#tip").replace(" · ", " ") == expected
    assert page.locator("#relations li.lit").all_inner_texts() == [expected]
    assert 1 <= page.locator("#sentences .chip.lit").count() <= 2
    page.mouse.move(1, 1)
    page.locator("#tip").wait_for(state="hidden")


def test_threshold_filters_what_is_drawn_listed_and_copied(open_page: Open, extractor: Extractor) -> None:
    page = open_page(link(text=TEXT))
    page.locator("#sentences .arc").first.wait_for()
    every = extractor(TEXT)
    page.fill("#threshold", "0.5")
    found = every.above(0.5)
    assert 0 < len(found.relations) < len(every.relations)
    assert page.locator("#relations li").all_inner_texts() == listed(found)
    assert arcs(page) == len(found.relations)
    assert page.inner_text("#threshold-shown") == "0.50"
    page.click("#copy-json")
    page.get_by_text("Copied ✓").wait_for()
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert len(copied.pop("sentences")) == 2
    assert copied == found.to_dict()
    page.fill("#threshold", "0")
    assert arcs(page) == len(every.relations)


def test_layer_slider_shows_what_each_layer_says(open_page: Open, extractor: Extractor) -> None:
    probe = extractor.probe(TEXT)[0].to_dict()
    assert len({json.dumps(layer["cells"]) for layer in probe["layers"]}) == 3
    page = open_page(link(text=TEXT))
    page.get_by_role("button", name="Look inside sentence 1").click()
    page.locator("#layer-control").wait_for()
    pictures = set()
    for number in (3, 2, 1):
        page.fill("#layer", str(number))
        layer = probe["layers"][number - 1]
        assert page.inner_text("#layer-shown") == f"{number} of 3"
        assert page.inner_text("#table-title") == f"Relation table of layer {number}"
        assert arcs(page, "#layer-drawing") == len(layer["relations"])
        assert page.locator("#layer-drawing .chip").count() == len(layer["entities"])
        gained, lost = (layer[change] for change in ("gained", "lost"))
        assert page.locator("#changes .gained").count() == len(gained["entities"]) + len(gained["relations"])
        assert page.locator("#changes .lost").count() == len(lost["entities"]) + len(lost["relations"])
        pictures.add(page.evaluate("document.querySelector('#table .cells').toDataURL()"))
    assert len(pictures) == 3


def test_table_and_attention_are_read_with_the_arrow_keys(open_page: Open, extractor: Extractor) -> None:
    probe = extractor.probe(TEXT)[0].to_dict()
    words = [word["text"] for word in probe["words"]]
    page = open_page(link(text=TEXT, sentence=1, layer=3, head=2))
    page.locator("#layer-control").wait_for()
    page.locator("#attention .field").focus()
    press(page, "ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowDown")
    weight = probe["attention"][2][1][1][2]
    assert page.inner_text("#attention .readout") == f"{words[1]} → {words[2]}: {weight:.2f}"
    page.locator("#table .field").focus()
    press(page, "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowDown")
    tag, probability = probe["layers"][2]["cells"][1][0]
    said = "no relation" if tag == 0 else probe["relation_tags"][tag]
    assert page.inner_text("#table .readout").startswith(f"{words[1]} × {words[0]}: {said} {probability:.2f}")
    before = page.evaluate("document.querySelector('#attention .cells').toDataURL()")
    page.get_by_role("radio", name="1").check(force=True)
    assert page.inner_text("#attention-title") == "Table-guided attention of layer 3, head 1"
    assert page.evaluate("document.querySelector('#attention .cells').toDataURL()") != before


def test_link_brings_back_the_view(open_page: Open) -> None:
    text = f"{TEXT}\n\nZoë & 100% #1 = 😀 of Oldhaven."
    page = open_page(link(text=text, model="other", sentence=2, layer=2, head=2))
    page.locator("#layer-control").wait_for()
    page.fill("#threshold", "0.4")
    page.click("#copy-link")
    page.get_by_text("Copied ✓").wait_for()
    address, fragment = page.evaluate("navigator.clipboard.readText()").split("#")
    again = open_page(f"#{fragment}")
    assert again.url.startswith(address)
    again.locator("#layer-control").wait_for()
    for one in (page, again):
        assert one.input_value("#text") == text
        assert one.input_value("#model") == "other"
        assert one.input_value("#threshold") == "0.4"
        assert one.input_value("#sentence") == "1"
        assert one.inner_text("#layer-shown") == "2 of 3"
        assert one.inner_text("#attention-title").endswith("layer 2, head 2")
    assert again.inner_text("#sentences") == page.inner_text("#sentences")
    again.evaluate("location.hash = '#text=Oldhaven'")
    again.get_by_text("in 1 sentence").wait_for()
    assert again.input_value("#text") == "Oldhaven"


def test_entities_are_in_their_place_behind_characters_of_two_halves(open_page: Open, extractor: Extractor) -> None:
    text = "😀😀 flag 🇨🇭! Mara Ilves of 👩‍👩‍👧 Oldhaven."
    page = open_page(link(text=text))
    page.locator("#sentences .line").first.wait_for()
    expected = [entity.span.of(text) for entity in extractor(text).entities]
    assert expected
    assert page.locator("#sentences mark").all_inner_texts() == expected


def test_refusals_are_said_in_plain_words(open_page: Open) -> None:
    page = open_page(refusals=True)
    page.locator("#model option").first.wait_for(state="attached")
    page.fill("#text", "word " * 5000)
    page.click("#go")
    page.locator("#problem").wait_for()
    assert page.inner_text("#problem").startswith("This is more than the server reads at once.")
    assert "20000" in page.inner_text("#problem").replace(",", "")
    assert page.locator("#found").is_hidden()
    page.fill("#text", TEXT)
    page.click("#go")
    page.locator("#found").wait_for()
    assert page.locator("#problem").is_hidden()
    page.context.set_offline(True)
    page.click("#go")
    page.get_by_text("does not answer").wait_for()
    assert page.get_by_role("alert").inner_text() == page.inner_text("#problem")


def test_unknown_model_of_a_link_is_told(open_page: Open) -> None:
    page = open_page(link(model="gone"))
    page.get_by_text("has no model “gone”").wait_for()
    assert page.input_value("#model") == "tiny"


def test_unknown_model_of_a_link_is_told_beside_what_another_found(open_page: Open) -> None:
    page = open_page(link(model="gone", text="Mara of Oldhaven.", sentence=1))
    page.locator("#layer-control").wait_for()
    assert page.locator("#found").is_visible()
    assert "has no model “gone”; “tiny” is used instead" in page.inner_text("#problem")
    page.locator("#go").click()
    page.locator("#problem").wait_for(state="hidden")


def test_what_is_written_is_never_markup(open_page: Open) -> None:
    evil = "<img src=x onerror=alert(1)> of <b>Oldhaven</b> & Mara."
    page = open_page(link(text=evil, sentence=1))
    page.locator("#layer-control").wait_for()
    assert page.locator("main img, main b b, #sentences b").count() == 0
    assert "".join(page.locator("#sentences .words").all_inner_texts()).split() == evil.split()


def test_token_is_asked_for_where_the_server_wants_one(open_page: Open, extractor: Extractor) -> None:
    with serving({"tiny": extractor}, token="sesame-123") as address:
        page = open_page(link(text=TEXT), at=address, refusals=True)
        page.locator("#token").wait_for()
        assert page.evaluate("document.activeElement.id") == "token"
        page.keyboard.type("wrong")
        press(page, "Enter")
        page.get_by_text("asks for a token").wait_for()
        page.fill("#token", "sesame-123")
        press(page, "Enter")
        page.locator("#found").wait_for()
        assert page.locator("#token-form").is_hidden()
        assert page.locator("#problem").is_hidden()
        assert "sesame" not in page.url
        page.close()  # before the server, of which it may still ask something


def test_keyboard_alone_does_everything(open_page: Open, extractor: Extractor) -> None:
    page = open_page()
    page.locator("#model option").first.wait_for(state="attached")
    press(page, "Tab", "Enter")  # the link that skips to the text
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.insert_text(TEXT)
    press(page, "Control+Enter")
    page.locator("#found").wait_for()
    tab_to(page, "threshold")
    press(page, "Home", *["ArrowRight"] * 3)
    assert page.inner_text("#threshold-shown") == "0.03"
    tab_to(page, "relations")
    press(page, "ArrowDown", "End", "ArrowUp")
    found = listed(extractor(TEXT))
    assert page.evaluate("document.activeElement.innerText") == found[-2]
    assert page.locator("#sentences .arc.lit").count() >= 1
    tab_to(page, "sentence")
    press(page, "ArrowDown")
    page.locator("#layer-control").wait_for()
    page.locator(".number").first.focus()
    press(page, "ArrowDown", "Enter")
    page.locator(".number.chosen").get_by_text("2").wait_for()
    page.wait_for_load_state("networkidle")
    assert page.input_value("#sentence") == "1"
    tab_to(page, "layer")
    press(page, "ArrowLeft")
    assert page.inner_text("#table-title") == "Relation table of layer 2"
    tab_to(page, "table")
    tab_to(page, "head-0")
    press(page, "ArrowRight")
    assert page.inner_text("#attention-title").endswith("head 2")
