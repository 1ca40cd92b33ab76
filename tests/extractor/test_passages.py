"""Raw text read in passages, with a small random model that finds something in any text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from relatum.errors import RelatumError
from relatum.extractor.ensemble import Ensemble
from relatum.extractor.extractor import Extractor
from relatum.scale import extract_batch
from relatum.types import Annotation, Entity, Prediction, Relation, Span

from ..small_models import make_small_model

PASSAGES = ("text.unit=passage", "extraction.max_words=20", "extraction.overlap=6")
TEXT = "  Mara Ilves left.\n\n She\tlives in  Oldhaven. \r\nTarn Shipping is\xa0in the U.S. It pays her.\n"
LONG = " ".join(f"Mara {'Ilves ' * (number % 5)}left Port Amsel {number}." for number in range(40))


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    return Extractor(make_small_model(*PASSAGES))


def test_text_is_one_passage_that_knows_its_sentences(extractor: Extractor) -> None:
    (passage,) = extractor.split(TEXT)
    apart = Extractor(make_small_model()).split(TEXT)
    assert passage.words == tuple(word for one in apart for word in one.words)
    assert passage.offsets == tuple(offset for one in apart for offset in one.offsets or ())
    assert [end - start for start, end in passage.ranges] == [len(one) for one in apart]
    assert len(apart) == 4


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b"])
def test_text_without_words_has_no_passage(extractor: Extractor, text: str) -> None:
    assert extractor.split(text) == []
    assert extractor(text).entities == ()


def test_relations_across_sentences_have_the_characters_of_the_text(extractor: Extractor) -> None:
    """A final stop is trimmed in every sentence, and dotted letters keep theirs."""
    (passage,) = extractor.split(TEXT)
    mara, place = Entity(Span(0, 2), "Peop"), Entity(Span(7, 9), "Loc")
    country = Entity(Span(passage.words.index("U.S"), passage.words.index("U.S") + 1), "Loc")
    found = Annotation((mara, place, country), (Relation(mara, place, "Live_In"), Relation(mara, country, "Live_In")))
    extraction = extractor.join_sentences(TEXT, [Prediction(passage, found)])
    assert [entity.text for entity in extraction.entities] == ["Mara Ilves", "Oldhaven", "U.S."]
    for entity in extraction.entities:
        assert entity.span.of(TEXT) == entity.text
    assert [(one.head.text, one.tail.text) for one in extraction.relations] == [
        ("Mara Ilves", "Oldhaven"),
        ("Mara Ilves", "U.S."),
    ]


def test_short_text_is_read_as_it_is_without_sentence_borders() -> None:
    """A passage that fits is read at once, as with `text.sentences=none`."""
    text = "Mara Ilves left. She lives in Oldhaven"
    passages = Extractor(make_small_model("text.unit=passage"))
    whole = Extractor(make_small_model("text.sentences=none"))
    (as_passage,) = passages.predict(passages.split(text))
    (as_sentence,) = whole.predict(whole.split(text))
    assert as_passage.found == as_sentence.found
    assert as_passage.found.relations


def test_long_text_is_read_in_windows_of_whole_sentences(extractor: Extractor) -> None:
    (passage,) = extractor.split(LONG)
    windows = extractor.find_windows(passage)
    assert len(windows) > 10
    ends = {*passage.starts, len(passage)}
    assert all(window.width <= 20 and {*window} <= ends for window in windows)
    extraction = extractor(LONG)
    assert extraction.relations
    for entity in extraction.entities:
        assert entity.span.of(LONG) == entity.text
    assert max(entity.span.end for entity in extraction.entities) > len(LONG) // 2


def test_passages_are_read_alike_one_by_one_in_a_pipe_and_in_a_table(extractor: Extractor) -> None:
    texts = [TEXT, "", LONG, "One sentence.", TEXT * 2]
    random.Random(3).shuffle(texts)
    alone = [extractor(text) for text in texts]
    for chunk in (1, 3, None):
        assert list(extractor.pipe(texts, chunk=chunk)) == alone
    table = extract_batch(pd.DataFrame({"text": texts}), extractor)
    assert [len(one) for one in table["relations"]] == [len(one.relations) for one in alone]


def test_pipe_gathers_passages_by_their_sentences(extractor: Extractor) -> None:
    taken: list[int] = []

    def texts() -> Iterator[str]:
        for number in range(6):
            taken.append(number)
            yield TEXT  # of four sentences

    next(extractor.pipe(texts(), chunk=8))
    assert taken == [0, 1]


def test_probe_of_a_passage_finds_what_the_extractor_finds(extractor: Extractor) -> None:
    (probe,) = extractor.probe(LONG[:400])
    assert len(probe.windows) > 1
    assert probe.layers[-1].found == extractor(LONG[:400])


def test_saved_model_reads_passages(extractor: Extractor, tmp_path: Path) -> None:
    extractor.save(tmp_path / "model")
    loaded = Extractor.from_pretrained(tmp_path / "model", "cpu", words="whitespace")
    (passage,) = loaded.split(TEXT)
    assert "left." in passage.words
    assert Extractor.from_pretrained(tmp_path / "model", "cpu")(LONG) == extractor(LONG)


def test_models_that_read_sentences_and_passages_are_no_ensemble() -> None:
    members = [make_small_model(), make_small_model("text.unit=passage")]
    with pytest.raises(RelatumError, match=r"text\.unit is 'passage' there and 'sentence' here"):
        Ensemble(members, ["a", "b"])
