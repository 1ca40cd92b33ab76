import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.data.formats.ace.markup import (
    OFFSET_RULES,
    Piece,
    Ruler,
    escape_markup,
    escaped_offsets,
    find_body,
    strip_markup,
)
from relatum.types import Span

TEXTS = st.text(st.sampled_from("ab <>&;#13\r\né😀lt"), max_size=30)


def text_of(sgml: str) -> str:
    return "".join(piece.text for piece in strip_markup(sgml))


@given(TEXTS)
def test_pieces_make_up_the_file(sgml: str) -> None:
    assert "".join(piece.raw for piece in strip_markup(sgml)) == sgml


@given(TEXTS)
def test_escaped_text_comes_back_as_it_was(text: str) -> None:
    assert text_of(escape_markup(text)) == text
    assert text_of(f"<DOC><BODY>{escape_markup(text)}</BODY></DOC>") == text


@given(TEXTS, st.data())
def test_escaped_offsets_are_those_of_the_ldc(text: str, data: st.DataObject) -> None:
    offsets = escaped_offsets(text)
    assert len(offsets) == len(text) + 1
    if text:
        start = data.draw(st.integers(0, len(text) - 1))
        end = data.draw(st.integers(start + 1, len(text)))
        ruler = Ruler(strip_markup(f"<DOC>{escape_markup(text)}</DOC>"), OFFSET_RULES[0])
        assert ruler.span(offsets[start], offsets[end] - 1) == Span(start, end)


def test_a_reading_says_what_counts() -> None:
    pieces = [Piece("<b>", ""), Piece("&lt;", "<"), Piece("\r\n", "\n"), Piece("word", "word")]
    assert {(r.tags, r.references, r.returns): [r.length(p) for p in pieces] for r in OFFSET_RULES} == {
        (False, True, False): [0, 4, 1, 4],
        (False, True, True): [0, 4, 2, 4],
        (False, False, False): [0, 1, 1, 4],
        (False, False, True): [0, 1, 2, 4],
        (True, True, False): [3, 4, 1, 4],
        (True, True, True): [3, 4, 2, 4],
        (True, False, False): [3, 1, 1, 4],
        (True, False, True): [3, 1, 2, 4],
    }
    assert OFFSET_RULES[0].length(pieces[1]) == 4


@pytest.mark.parametrize(
    ("start", "last", "span"),
    [
        (0, 0, Span(0, 1)),
        (1, 5, Span(1, 2)),
        (3, 3, Span(1, 2)),
        (0, 6, Span(0, 3)),
        (6, 6, Span(2, 3)),
        (6, 7, None),
        (7, 7, None),
        (-1, 0, None),
        (2, 1, None),
    ],
)
def test_ruler_turns_inclusive_offsets_into_spans(start: int, last: int, span: Span | None) -> None:
    assert Ruler(strip_markup("a&amp;<i>b</i>"), OFFSET_RULES[0]).span(start, last) == span


def test_ruler_finds_no_text_inside_tags() -> None:
    ruler = Ruler(strip_markup("<i>a</i>"), OFFSET_RULES[4])
    assert [ruler.span(i, i) for i in range(8)] == [None, None, None, Span(0, 1), None, None, None, None]
    assert ruler.span(0, 3) is None


@pytest.mark.parametrize(
    ("sgml", "text"),
    [
        ("<P> a </P> b", "\na\n\nb"),
        ("<DOC> a </DOC>", " a "),
        ("<text> a </text>", " a "),
        ("<DOCID> a </DOCID>", "\na\n"),
        ("a <P>", "a\n"),
        ("<P>&#32;a", " a"),
        ("<P> ", "\n"),
    ],
)
def test_spaces_beside_tags_become_newlines(sgml: str, text: str) -> None:
    assert text_of(sgml) == text


@pytest.mark.parametrize(
    ("sgml", "body"),
    [
        ("<DOC>a<BODY>b<TEXT>c</TEXT></BODY>d</DOC>", (1, 3)),
        ("<DOC>a<TEXT>c</TEXT>d</DOC>", (1, 2)),
        ("<DOC>a<text>c", (1, 2)),
        ("a<BODY>b</BODY>c<BODY>d</BODY>e", (1, 4)),
        ("a</BODY>b<BODY>c", (2, 2)),
        ("<DOC>a</DOC>", None),
        ("&lt;BODY&gt;", None),
    ],
)
def test_find_body_gives_its_place_in_the_text(sgml: str, body: tuple[int, int] | None) -> None:
    assert find_body(strip_markup(sgml)) == body
