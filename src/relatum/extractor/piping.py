"""Many texts through an extractor: read in chunks, answered in their order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Literal

from relatum.data.documents import map_spans
from relatum.errors import RelatumError
from relatum.extractor.result import Extraction
from relatum.types import Annotation, Entity, Prediction, Relation, Sentence, Span

if TYPE_CHECKING:
    from relatum.extractor.extractor import Extractor

OnProgress = Callable[[int, int], None]
"""Told after every batch how many sentences have been read, and how many have been gathered so far."""

OnError = Literal["raise", "skip"] | Callable[[object, Exception], Extraction | None]
"""Raise the error of a bad text; answer None for it; or answer the return value of a function of text and error."""


@dataclass(frozen=True, slots=True)
class PipeOptions:
    """The settings for reading texts and answering them."""

    chunk: int
    batch_size: int
    threshold: float | None = None
    as_tuples: bool = False
    on_error: OnError = "raise"
    on_progress: OnProgress | None = None


@dataclass(slots=True)
class _Text:
    """A text that waits for its answer; a bad text has its answer from the start, and no sentences."""

    text: str
    context: object
    sentences: Sequence[Sentence] = ()
    answered: bool = False
    answer: Extraction | None = None


def check_pipe(texts: object, chunk: int | None, batch_size: int | None, on_error: object) -> None:
    """Refuse arguments of `pipe` that cannot be used."""
    if isinstance(texts, str | bytes) or not (hasattr(texts, "__iter__") or hasattr(texts, "__getitem__")):
        cure = "; put it in []" if isinstance(texts, str) else ""
        raise TypeError(f"expected a list of texts, or another iterable, found {type(texts).__name__}{cure}")
    _check_count("chunk", "sentences to gather", chunk)
    _check_count("batch_size", "sentences in a batch", batch_size)
    if on_error not in ("raise", "skip") and not callable(on_error):
        raise ValueError(f"on_error is {on_error!r}; expected 'raise', 'skip' or a function of a text and its error")


def _check_count(name: str, what: str, number: int | None) -> None:
    """Refuse an argument of `pipe` that is not an integer of at least 1; None stands for the default."""
    try:
        is_count = number is None or index(number) >= 1
    except TypeError:  # a string or a float, for example
        is_count = False
    if not is_count:
        raise ValueError(f"{name} is the number of {what}; expected at least 1, found {number!r}")


def answer_texts(
    extractor: Extractor, items: Iterable[object], options: PipeOptions
) -> Iterator[tuple[Extraction | None, object]]:
    """Yield an answer for every item, in their order, with the item's context; None stands for a skipped text."""
    waiting: list[_Text] = []
    n_read = n_waiting = n_sentences = 0

    def progress(n_more: int, n_gathered: int) -> None:
        if options.on_progress is not None:
            options.on_progress(n_read + n_more, n_read + n_gathered)

    for number, item in enumerate(items, 1):
        text, context = _pair(item, number) if options.as_tuples else (item, None)
        waiting.append(_gather(extractor, text, context, number, options))
        n_waiting += len(waiting[-1].sentences)
        n_sentences += sum(max(1, len(sentence.starts)) for sentence in waiting[-1].sentences)
        if max(n_sentences, len(waiting)) >= options.chunk:
            yield from _answer(extractor, waiting, options, progress)
            n_read += n_waiting
            waiting = []
            n_waiting = n_sentences = 0
    yield from _answer(extractor, waiting, options, progress)


def _pair(item: object, number: int) -> tuple[object, object]:
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    raise TypeError(f"text {number}: expected a pair (text, context) with as_tuples, found {type(item).__name__}")


def _gather(extractor: Extractor, text: object, context: object, number: int, options: PipeOptions) -> _Text:
    """Split a text; a text that cannot be read is answered as `on_error` says."""
    try:
        if isinstance(text, str):
            return _Text(text, context, extractor.split(text))
    except RelatumError as error:
        return _Text("", context, answered=True, answer=_answer_error(text, error, options))
    cure = "; extractor.pipe(texts, on_error='skip') answers it by None" if options.on_error == "raise" else ""
    wrong = TypeError(f"text {number}: expected str, found {type(text).__name__}{cure}")
    return _Text("", context, answered=True, answer=_answer_error(text, wrong, options))


def _answer_error(text: object, error: Exception, options: PipeOptions) -> Extraction | None:
    if options.on_error == "raise":
        raise error
    if options.on_error == "skip":
        return None
    answer = options.on_error(text, error)
    if answer is not None and not isinstance(answer, Extraction):
        raise TypeError(f"on_error returned {type(answer).__name__}; expected an Extraction or None")
    return answer


def _answer(
    extractor: Extractor, texts: Sequence[_Text], options: PipeOptions, on_progress: OnProgress
) -> Iterator[tuple[Extraction | None, object]]:
    """Read the texts together; if that fails and errors are not raised, read each text by itself."""
    open_texts = [text for text in texts if not text.answered]
    try:
        _read(extractor, open_texts, options, on_progress)
    except RelatumError:
        if options.on_error == "raise":
            raise
        for text in open_texts:
            try:
                _read(extractor, [text], options, None)
            except RelatumError as error:
                text.answer = _answer_error(text.text, error, options)
    for text in texts:
        yield text.answer, text.context


def _read(extractor: Extractor, texts: Sequence[_Text], options: PipeOptions, on_progress: OnProgress | None) -> None:
    sentences = [sentence for text in texts for sentence in text.sentences]
    predictions = iter(extractor.predict(sentences, on_progress=on_progress, batch_size=options.batch_size))
    for text in texts:
        extraction = extractor.join_sentences(text.text, [next(predictions) for _ in text.sentences])
        text.answer = extraction if options.threshold is None else extraction.above(options.threshold)


def join_sentences(
    text: str,
    predictions: Iterable[Prediction],
    find_loose: Callable[[Sentence], Collection[int]],
    find_owned: Callable[[Sentence], Collection[int]],
) -> Extraction:
    """Join the predictions for the sentences of a text, in characters of the text.

    `find_loose` gives the indices of the words of a sentence that are taken off the edges of entities, `find_owned` the
    indices of words that belong to the word before them.
    """
    entities: list[Entity] = []
    relations: list[Relation] = []
    sentences: list[Span] = []
    for prediction in predictions:
        offsets = prediction.sentence.offsets
        assert offsets is not None
        sentences += [Span(offsets[start].start, offsets[end - 1].end) for start, end in prediction.sentence.ranges]
        if not prediction.found.entities:
            continue
        loose = find_loose(prediction.sentence)
        owned = find_owned(prediction.sentence)

        def characters(
            span: Span,
            offsets: Sequence[Span] = offsets,
            loose: Collection[int] = loose,
            owned: Collection[int] = owned,
        ) -> Span:
            start, end = span
            end += end in owned
            while end - start > 1 and end - 1 in loose:
                end -= 1
            while end - start > 1 and start in loose:
                start += 1
            return Span(offsets[start].start, offsets[end - 1].end)

        annotation = map_spans(prediction.found, characters)
        entities += annotation.entities
        # Of entities inside one another, two may become the same when loose words are taken off.
        relations += [relation for relation in annotation.relations if relation.head != relation.tail]
    return Extraction.of(text, Annotation(tuple(entities), tuple(relations)), sentences=sentences)
