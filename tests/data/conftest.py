"""Documents of every shape, and reading and writing them, for all tests of the data layer.

Strategies come as session fixtures, since test modules cannot import from each other; draw from them with `st.data()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from relatum.data.documents import from_words
from relatum.data.formats import get_format
from relatum.data.problems import Problems
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

_LABELS = st.sampled_from(["Peop", "Loc", "Adverse-Effect", "Ort »ä«"])
_WORDS = st.sampled_from(["Rome", ",", "é", "naïve", "\u2028", "New York", "🙂", '"', "\\"]) | st.text(
    min_size=1, max_size=4
)
_PIECES = st.sampled_from(["Rome", "is", "a", "city", "co-", " ", " ", "\n", ". ", ".\n", "é", "  "])
_IDS = st.text(min_size=1, max_size=5)
_SCORES = st.none() | st.floats(0, 1)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_METADATA = st.dictionaries(st.text(max_size=4).map("x-".__add__), _JSON, max_size=3)


def _named(draw: st.DrawFn, entities: list[Entity]) -> list[Entity]:
    """The same entities, some with ids, which differ."""
    size = len(entities)
    ids = draw(st.lists(st.text(min_size=1, max_size=3), min_size=size, max_size=size, unique=True))
    return [
        replace(entity, id=name) if draw(st.booleans()) else entity for entity, name in zip(entities, ids, strict=True)
    ]


def _inside(draw: st.DrawFn, low: int, high: int) -> Span:
    start = draw(st.integers(low, high - 1))
    return Span(start, draw(st.integers(start + 1, high)))


def _broken(draw: st.DrawFn, low: int, high: int) -> Entity:
    """A discontinuous entity between two places at least three apart."""
    borders = sorted(draw(st.sets(st.integers(low, high), min_size=4, max_size=6)))
    borders = borders[: len(borders) // 2 * 2]
    fragments = tuple(Span(a, b) for a, b in zip(borders[::2], borders[1::2], strict=True))
    return Entity(Span(borders[0], borders[-1]), draw(_LABELS), fragments, draw(_SCORES))


def _annotation(draw: st.DrawFn, ranges: list[tuple[int, int]], *, broken: bool, same_span: bool) -> Annotation:
    """Entities that each lie inside one range, and relations between any two of them."""
    entities: list[Entity] = []
    for low, high in ranges:
        entities += (
            Entity(_inside(draw, low, high), draw(_LABELS), score=draw(_SCORES)) for _ in range(draw(st.integers(0, 3)))
        )
        if broken and high - low >= 3 and draw(st.booleans()):
            entities.append(_broken(draw, low, high))
    if not same_span:
        labels: dict[Span, str] = {}
        entities = [entity for entity in entities if labels.setdefault(entity.span, entity.label) == entity.label]
    entities = _named(draw, draw(st.permutations(entities)))
    if not entities:
        return Annotation()
    some = st.sampled_from(entities)
    relation = st.builds(Relation, some, some, _LABELS, score=_SCORES, id=st.none() | st.text(min_size=1, max_size=3))
    return Annotation(tuple(entities), tuple(draw(st.lists(relation, max_size=3))))


def _attributed(draw: st.DrawFn, document: Document) -> Document:
    found = []
    values = st.none() | st.text(max_size=3)
    targets: list[Entity | Relation] = [*document.annotation.entities, *document.annotation.relations]
    for target in targets:
        if draw(st.booleans()):
            named = draw(st.dictionaries(st.text(max_size=3), st.lists(values, min_size=1, max_size=2), max_size=2))
            found += [Attribute(target, name, value) for name, many in named.items() for value in many]
    return replace(document, attributes=tuple(found))


@st.composite
def _word_documents(
    draw: st.DrawFn,
    *,
    min_sentences: int = 1,
    max_sentences: int = 3,
    same_span: bool = True,
    crossing: bool = True,
    clusters: bool = False,
) -> Document:
    sentence = st.lists(_WORDS, min_size=1, max_size=5)
    sentences = draw(st.lists(sentence, min_size=min_sentences, max_size=max_sentences))
    ranges = list(pairwise(accumulate(map(len, sentences), initial=0)))
    annotation = _annotation(draw, ranges, broken=False, same_span=same_span)
    if not crossing:
        place = {i: number for number, (low, high) in enumerate(ranges) for i in range(low, high)}
        within = (r for r in annotation.relations if place[r.head.span.start] == place[r.tail.span.start])
        annotation = replace(annotation, relations=tuple(within))
    groups: list[list[Span]] = []
    if clusters and ranges:
        size = ranges[-1][1]
        groups = [
            [_inside(draw, 0, size) for _ in range(draw(st.integers(1, 3)))] for _ in range(draw(st.integers(0, 2)))
        ]
    return from_words(draw(_IDS), sentences, annotation, groups, draw(_METADATA))


@st.composite
def _text_documents(draw: st.DrawFn, *, split: bool = True, worded: bool = False) -> Document:
    text = draw(st.lists(_PIECES, max_size=12).map("".join) if worded else st.text(max_size=30))
    size = len(text)
    annotation = Annotation()
    clusters: tuple[tuple[Span, ...], ...] = ()
    words = sentences = None
    if size:
        annotation = _annotation(draw, [(0, size)], broken=True, same_span=True)
        clusters = tuple(
            tuple(_inside(draw, 0, size) for _ in range(draw(st.integers(1, 2))))
            for _ in range(draw(st.integers(0, 2)))
        )
        if split and draw(st.booleans()):
            borders = sorted(draw(st.sets(st.integers(0, size), min_size=2, max_size=8)))
            words = tuple(Span(a, b) for a, b in pairwise(borders) if draw(st.booleans()))
            inner = draw(st.sets(st.integers(1, len(words) - 1))) if len(words) > 1 else set()
            sentences = tuple(Span(a, b) for a, b in pairwise([0, *sorted(inner), len(words)]) if a < b)
    document = Document(draw(_IDS), text, annotation, words, sentences, clusters, metadata=draw(_METADATA))
    return _attributed(draw, document)


@pytest.fixture(scope="session")
def word_documents() -> Callable[..., SearchStrategy[Document]]:
    """Documents that came as words; entities may overlap, and lie inside one sentence."""
    return _word_documents


@pytest.fixture(scope="session")
def text_documents() -> Callable[..., SearchStrategy[Document]]:
    """Documents with any text, any spans, and discontinuous entities; split into words in any way, or not at all."""
    return _text_documents


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for files that one example of a property writes over those of the last."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="session")
def read_as(scratch: Path) -> Callable[[str, str | bytes], tuple[list[Document], Problems]]:
    """Reads the given content as a format, from a file named `data`."""

    def read(format_name: str, content: str | bytes) -> tuple[list[Document], Problems]:
        path = scratch / "data"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        problems = Problems()
        return list(get_format(format_name).read(path, problems)), problems

    return read


@pytest.fixture(scope="session")
def written_and_read(scratch: Path) -> Callable[[str, Iterable[Document]], list[Document]]:
    """Writes documents in a format and reads them back; a problem with any is an error."""

    def through(format_name: str, documents: Iterable[Document]) -> list[Document]:
        path = scratch / "written"
        format = get_format(format_name)
        format.write(path, documents)
        problems = Problems()
        found = list(format.read(path, problems))
        problems.raise_if_any()
        return found

    return through
