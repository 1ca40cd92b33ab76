"""Many texts through an extractor, as users of other libraries ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

import pytest
import torch

from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.extractor.result import Extraction
from relatum.types import Annotation, Entity, Prediction, Relation, Sentence, Span

from ..small_models import make_small_model

TEXT = "Mara Ilves works for Tarn Shipping in Oldhaven. The ferry left Port Amsel on Tuesday, she said."
NO_TEXT = r"^text 2: expected str, found NoneType; extractor\.pipe\(texts, on_error='skip'\) answers it by None$"
TEXTS = [TEXT, "Mara left Oldhaven.", "Tom met Ann in Port Amsel."]


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    return Extractor(make_small_model())


def test_list_of_texts_is_answered_by_a_list(extractor: Extractor) -> None:
    for texts in (TEXTS, tuple(TEXTS)):
        answers = extractor(texts)
        assert isinstance(answers, list)
        assert answers == [extractor(text) for text in TEXTS]
    assert extractor([]) == []
    with pytest.raises(TypeError, match=NO_TEXT) as raised:
        extractor(["Mara", None])  # type: ignore[list-item]
    assert raised.type is TypeError  # its name is shown above the message


@pytest.mark.parametrize("text", [None, b"Mara", 3.5, iter(TEXTS)], ids=["NoneType", "bytes", "float", "list_iterator"])
def test_what_is_neither_text_nor_list_is_refused_and_pipe_is_named(extractor: Extractor, text: object) -> None:
    message = rf"^expected str or a list of str, found {type(text).__name__}; .*use extractor\.pipe\(texts\)$"
    with pytest.raises(TypeError, match=message):
        extractor(text)  # type: ignore[call-overload]


def test_entities_that_differ_only_in_a_stop_become_one_without_a_relation_to_itself(extractor: Extractor) -> None:
    (sentence,) = extractor.split("Mara met Tom Ilves.")
    mara, short, long = Entity(Span(0, 1), "Peop"), Entity(Span(2, 4), "Peop"), Entity(Span(2, 5), "Peop")
    relations = Relation(short, long, "Kin"), Relation(mara, short, "Kin"), Relation(mara, long, "Kin")
    found = Annotation((mara, short, long), relations)
    extraction = extractor.join_sentences("Mara met Tom Ilves.", [Prediction(sentence, found)])
    assert [entity.text for entity in extraction.entities] == ["Mara", "Tom Ilves"]
    assert [(one.head.text, one.tail.text) for one in extraction.relations] == [("Mara", "Tom Ilves")]


def lowest_scores(extraction: Extraction) -> tuple[float, float]:
    entities, relations = ([one.score or 0 for one in kind] for kind in (extraction.entities, extraction.relations))
    return min(entities), min(relations)


def test_threshold_leaves_out_lower_scores_with_the_relations_of_what_is_left_out(extractor: Extractor) -> None:
    whole = extractor(TEXT)
    threshold = sorted(entity.score or 0 for entity in whole.entities)[1]
    expected = whole.above(threshold)
    assert 0 < len(expected.entities) < len(whole.entities)
    assert 0 < len(expected.relations) < len(whole.relations)
    read = [extractor(TEXT, threshold=threshold), *extractor.pipe([TEXT], threshold=threshold)]
    read += extractor([TEXT], threshold=threshold)
    for answer in read:
        assert answer.to_dict() == expected.to_dict()


@pytest.mark.parametrize("threshold", [-0.1, 1.5, 90, nan, "0.5"])
def test_threshold_that_is_no_score_is_refused_at_once(extractor: Extractor, threshold: float) -> None:
    message = rf"threshold is {threshold!r}; expected a score from 0 to 1"
    with pytest.raises(ValueError, match=message):
        extractor(TEXT, threshold=threshold)
    with pytest.raises(ValueError, match=message):
        extractor.pipe([TEXT], threshold=threshold)
    with pytest.raises(ValueError, match=message):
        extractor(TEXT).above(threshold)


def test_batch_size_of_a_pipe_is_for_that_pipe_alone(extractor: Extractor) -> None:
    sizes: list[int] = []

    def note(_: object, inputs: tuple[torch.Tensor], __: object) -> None:
        sizes.append(inputs[0].mask.shape[0])  # type: ignore[attr-defined]

    handle = extractor.model.network.register_forward_hook(note)
    try:
        texts = ["Mara left Oldhaven."] * 5
        answers = list(extractor.pipe(texts, batch_size=2))
        assert sizes == [2, 2, 1]
        assert answers == list(extractor.pipe(texts))
        assert sizes[3:] == [5]
    finally:
        handle.remove()
    assert extractor.batch_size == 32
    for name in ("batch_size", "chunk"):
        for size in (0, "8", 2.5):
            with pytest.raises(ValueError, match=rf"^{name} .*at least 1, found {size!r}$"):
                extractor.pipe(TEXTS, **{name: size})  # type: ignore[call-overload]


@pytest.mark.parametrize(("texts", "cure"), [("Mara", "; put it in []"), (b"Mara", ""), (None, ""), (3, "")])
def test_pipe_of_no_iterable_of_texts_is_refused_at_once(extractor: Extractor, texts: object, cure: str) -> None:
    with pytest.raises(TypeError) as raised:
        extractor.pipe(texts)  # type: ignore[call-overload]
    assert str(raised.value) == f"expected a list of texts, or another iterable, found {type(texts).__name__}{cure}"


def test_chunk_follows_the_batch_size(extractor: Extractor) -> None:
    texts = iter(["Mara."] * 40)
    next(extractor.pipe(texts, batch_size=1))
    assert len(list(texts)) == 24


def test_pairs_come_back_with_their_context(extractor: Extractor) -> None:
    pairs = [(text, {"row": number}) for number, text in enumerate(TEXTS)]
    answers = list(extractor.pipe(pairs, as_tuples=True))
    assert answers == [(extractor(text), context) for text, context in pairs]
    for bad in ("Mara", ("Mara", 1, 2)):
        with pytest.raises(TypeError, match=r"text 2: expected a pair \(text, context\) with as_tuples, found "):
            list(extractor.pipe([("Mara", 1), bad], as_tuples=True, on_error="skip"))  # type: ignore[call-overload]


MISSING = ["Mara left Oldhaven.", None, nan, 7, TEXT, b"x"]


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_missing_values_are_skipped_in_their_place(extractor: Extractor, chunk: int) -> None:
    answers = list(extractor.pipe(MISSING, chunk, on_error="skip"))
    assert answers == [extractor(TEXTS[1]), None, None, None, extractor(TEXT), None]
    with pytest.raises(TypeError, match=NO_TEXT):
        list(extractor.pipe(MISSING, chunk))  # type: ignore[arg-type]


def test_function_is_told_of_every_bad_text_and_answers_for_it(extractor: Extractor) -> None:
    told: list[tuple[object, str]] = []

    def answer(text: object, error: Exception) -> Extraction | None:
        told.append((text, str(error)))
        return Extraction.of("", Annotation()) if text is None else None

    answers = list(extractor.pipe(zip(MISSING, range(6), strict=True), as_tuples=True, on_error=answer))
    assert [context for _, context in answers] == list(range(6))
    assert [None if one is None else one.text for one, _ in answers] == [TEXTS[1], "", None, None, TEXT, None]
    assert [text for text, _ in told] == [None, nan, 7, b"x"]
    assert told[2][1] == "text 4: expected str, found int"


def test_on_error_must_be_something_that_can_be_done(extractor: Extractor) -> None:
    with pytest.raises(ValueError, match="on_error is 'ignore'; expected 'raise', 'skip' or a function"):
        extractor.pipe(TEXTS, on_error="ignore")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="on_error returned str; expected an Extraction or None"):
        list(extractor.pipe([None], on_error=lambda _, __: "x"))  # type: ignore[arg-type, return-value]


def test_text_that_the_model_cannot_read_does_not_take_its_chunk_along(monkeypatch: pytest.MonkeyPatch) -> None:
    extractor = Extractor(make_small_model())
    windows = extractor._windows

    def refuse(words: tuple[str, ...], starts: tuple[int, ...]) -> object:
        if "Tom" in words:
            raise RelatumError("word 1 of the sentence, 'Tom', is cut into 600 pieces")
        return windows(words, starts)

    expected = [extractor(text) for text in TEXTS[:2]]
    monkeypatch.setattr(extractor, "_windows", refuse)
    told: list[object] = []
    assert list(extractor.pipe([*TEXTS, TEXT], on_error="skip")) == [*expected, None, expected[0]]
    assert list(extractor.pipe(TEXTS, on_error=lambda text, _: told.append(text))) == [*expected, None]
    assert told == [TEXTS[2]]
    with pytest.raises(RelatumError, match="'Tom'"):
        list(extractor.pipe(TEXTS))


def test_errors_of_the_program_are_never_skipped(extractor: Extractor, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> list[Sentence]:
        raise RuntimeError("a bug")

    monkeypatch.setattr(extractor, "split", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        list(extractor.pipe(TEXTS, on_error="skip"))


def test_skipped_texts_keep_a_stream_going(extractor: Extractor) -> None:
    taken: list[object] = []

    def stream() -> Iterator[object]:
        for text in (None, "Mara.", None):
            taken.append(text)
            yield text

    answers = extractor.pipe(stream(), chunk=1, on_error="skip")
    assert next(answers) is None
    assert len(taken) == 1
    assert len(list(answers)) == 2
