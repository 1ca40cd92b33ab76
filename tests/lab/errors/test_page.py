"""The page of errors."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from relatum.errors import RelatumError
from relatum.evaluation.metrics import Scores, evaluate
from relatum.lab.errors.analysis import ErrorAnalysis, analyse
from relatum.lab.errors.kinds import EntityMatch
from relatum.lab.errors.page import making
from relatum.lab.errors.page.loss import error_loss
from relatum.lab.errors.page.making import make_page, write_page
from relatum.types import Annotation, Document, Entity, Relation, Span

VOID = {"meta", "br"}


class Tags(HTMLParser):
    """Checks that tags are closed in order; collects them, and the text of the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.text += data


def document(text: str, entities: list[Entity], relations: list[Relation], id: str = "one") -> Document:
    return Document(id, text, Annotation(tuple(entities), tuple(relations)))


def made(*pairs: tuple[Document, Document]) -> tuple[ErrorAnalysis, Scores]:
    return analyse(pairs), evaluate([(gold.annotation, found.annotation) for gold, found in pairs])


TEXT = "Anna met Anna in Rome for Acme."
FIRST, SECOND = Entity(Span(0, 4), "Peop"), Entity(Span(9, 13), "Peop")
ROME, ROME_AS_ORG = Entity(Span(17, 21), "Loc"), Entity(Span(17, 21), "Org", score=0.75)
ACME = Entity(Span(26, 30), "Org")


@pytest.fixture
def pair() -> tuple[Document, Document]:
    gold = document(TEXT, [FIRST, SECOND, ROME, ACME], [Relation(SECOND, ROME, "Live_In")])
    return gold, document(TEXT, [FIRST, SECOND, ROME_AS_ORG], [])


def articles(page: str) -> list[str]:
    return re.findall(r"<article.*?</article>", page, re.DOTALL)


def test_page_shows_errors_in_context_with_gold_and_found(pair: tuple[Document, Document]) -> None:
    page = make_page(*made(pair), "Errors of A on B")
    (article,) = articles(page)
    sides = re.findall(r"<section>.*?</section>", article, re.DOTALL)
    assert [re.findall(r"<mark( class=\"wrong\")?[^>]*>(\w+)", side) for side in sides] == [
        [("", "Anna"), ("", "Anna"), (' class="wrong"', "Rome"), (' class="wrong"', "Acme")],
        [("", "Anna"), ("", "Anna"), (' class="wrong"', "Rome")],
    ]
    rows = [attributes for tag, attributes in Tags(page).tags if tag == "tr" and "data-kind" in attributes]
    assert [row["data-kind"] for row in rows] == ["entity:type", "entity:missed", "relation:argument_type"]
    text = " ".join(Tags(article).text.split())
    assert "Loc RomeOrg Rome 0.75" in text
    assert "Live_In Anna, occurrence 2 Peop → Rome Loc" in text
    assert "3 errors" in text
    assert "Right: 2." in text


def test_page_has_scores_kinds_and_confusions(pair: tuple[Document, Document]) -> None:
    text = Tags(make_page(*made(pair), "Errors")).text
    assert "1 sentence, 1 with errors." in text
    assert "Micro F1: NER 57.14, RE 0.00, RE+ 0.00." in text
    assert "the span is right, the type is not" in text
    assert "gold ╲ found" in text


def test_sentences_are_sorted_by_loss_and_right_ones_left_out(pair: tuple[Document, Document]) -> None:
    right = document("Rome.", [Entity(Span(0, 4), "Loc")], [], "right")
    sure = document("Oslo.", [Entity(Span(0, 4), "Loc", score=0.999)], [], "sure")
    unsure = document("Oslo.", [Entity(Span(0, 4), "Loc", score=0.5)], [], "unsure")
    nothing = [document("Oslo.", [], [], one.id) for one in (sure, unsure)]
    pairs = (right, right), (nothing[1], unsure), pair, (nothing[0], sure)
    analysis, scores = made(*pairs)
    by_errors = make_page(analysis, scores, "E")
    assert re.findall(r"<h3[^>]*>(.*?)</h3>", by_errors) == ["1. sure", "2. one", "3. unsure"]
    assert "−log₂(1 − s)" in by_errors
    by_model = make_page(analysis, scores, "E", losses=[9.0, 7.0, 1.0, 2.0])
    assert re.findall(r"<h3[^>]*>(.*?)</h3>", by_model) == ["1. unsure", "2. sure", "3. one"]
    assert "loss 7.00" in by_model
    assert "−log P of the gold tag" in by_model
    with pytest.raises(RelatumError, match="found 1 losses of 4 sentences"):
        make_page(analysis, scores, "E", losses=[1.0])


def test_errors_weigh_more_the_surer_they_are() -> None:
    def loss(score: float | None) -> float:
        return error_loss(EntityMatch("spurious", None, Entity(Span(0, 1), "A", score=score)))

    assert loss(None) == error_loss(EntityMatch("missed", FIRST, None)) == loss(0.5) == 1
    assert loss(0.75) == 2
    assert loss(0.0) == 0
    assert loss(1.0) == 10
    assert error_loss(EntityMatch("right", FIRST, FIRST)) == 0


def test_only_the_worst_of_very_many_are_shown(
    pair: tuple[Document, Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "MOST_SENTENCES", 2)
    page = make_page(*made(pair, pair, pair), "E")
    assert len(articles(page)) == 2
    assert "The 2 of the greatest loss, of 3." in page


def test_page_without_errors_says_so() -> None:
    right = document("Rome.", [Entity(Span(0, 4), "Loc")], [])
    page = make_page(*made((right, right)), "E")
    assert articles(page) == []
    assert "There are none." in Tags(page).text


EVIL = '</p><script>alert("1")</script>\x00\x1b\ud800" onmouseover="x&amp;'


def test_nothing_in_the_data_becomes_part_of_the_page(tmp_path: Path) -> None:
    text = f"Anna {EVIL} Rome."
    wrong = Entity(Span(5, 5 + len(EVIL)), f"Loc{EVIL}")
    gold = document(text, [FIRST, wrong], [Relation(FIRST, wrong, f"r{EVIL}")], f"id{EVIL}")
    found = document(text, [Entity(Span(0, 4), f"Org{EVIL}")], [], f"id{EVIL}")
    write_page(tmp_path / "page.html", *made((gold, found)), f"Title {EVIL}", remarks=[EVIL])
    page = (tmp_path / "page.html").read_bytes().decode("utf-8")
    parsed = Tags(page)
    assert page.count("<script") == 1
    assert not any("onmouseover" in attributes for _, attributes in parsed.tags)
    assert "\x00" not in page
    assert '</p><script>alert("1")</script>␀␛?" onmouseover="x&amp;' in parsed.text


def test_page_needs_nothing_from_elsewhere(pair: tuple[Document, Document]) -> None:
    page = make_page(*made(pair), "E")
    parsed = Tags(page)
    assert not any({"src", "href"} & attributes.keys() for _, attributes in parsed.tags)
    assert "url(" not in page
    assert "@import" not in page
    policy = next(a["content"] for tag, a in parsed.tags if tag == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    form = next(attributes for tag, attributes in parsed.tags if tag == "form")
    assert "hidden" in form, "without scripts there must be no filter that does nothing"


def test_entities_inside_one_another_and_divided_ones_are_all_marked() -> None:
    inner, outer = Entity(Span(4, 8), "Loc"), Entity(Span(0, 8), "Org")
    crossing = Entity(Span(4, 13), "Peop")
    divided = Entity(Span(0, 13), "Org", fragments=(Span(0, 3), Span(9, 13)))
    text = "New York City."
    page = make_page(*made((document(text, [inner, outer, crossing], []), document(text, [divided], []))), "E")
    gold, found = re.findall(r"<section>.*?</section>", page, re.DOTALL)
    plain = re.sub(r"<span.*?</span>|( class| style)=\"[^\"]*\"", "", gold)
    crossing_twice = "<mark><mark>York<small>Loc</small></mark></mark>", "<mark> City<small>Peop</small></mark>."
    assert "<mark>New {}<small>Org</small></mark>{}".format(*crossing_twice) in plain
    assert re.findall(r"<mark[^>]*>([\w ]+)<", found) == ["New", "City"]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed (apt install chromium)")
@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("", "4 errors in 2 of 2 sentences"),
        ("#kind=relation", "1 error in 1 of 2 sentences"),
        ("#kind=entity:missed", "2 errors in 2 of 2 sentences"),
        ("#kind=entity:type&type=1", "1 error in 1 of 2 sentences"),
        ("#type=3", "1 error in 1 of 2 sentences"),
        ("#kind=nonsense", "4 errors in 2 of 2 sentences"),
    ],
)
def test_browser_filters_by_kind_and_type(
    choice: str, said: str, pair: tuple[Document, Document], tmp_path: Path
) -> None:
    other = document("Rome.", [Entity(Span(0, 4), "Loc")], [], "two")
    analysis, scores = made(pair, (other, document("Rome.", [], [], "two")))
    assert [*analysis.entities.types, *analysis.relations.types] == ["Loc", "Org", "Peop", "Live_In"]
    write_page(tmp_path / "page.html", analysis, scores, "E")
    address = f"{(tmp_path / 'page.html').as_uri()}{choice}"
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    browser = ["chromium", *options, "--dump-dom", address]
    page = subprocess.run(browser, capture_output=True, text=True, timeout=60, check=True).stdout
    found = re.search(r"<output[^>]*>(.*?)</output>", page)
    assert found is not None
    assert found[1] == said
