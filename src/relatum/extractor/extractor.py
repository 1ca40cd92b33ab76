"""From raw text to entities and relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from relatum.data.batching import make_batches
from relatum.data.context import around_window, find_context
from relatum.data.documents import map_spans
from relatum.data.splitting import Rule, Splitter, make_splitter, rule_name
from relatum.data.windows import make_windows, merge_relations, merge_windows
from relatum.errors import ConfigError, RelatumError
from relatum.extractor.device import choose_device
from relatum.extractor.jobs import Job, Window, do_jobs
from relatum.extractor.precision import Precision, check_precision, set_precision
from relatum.extractor.result import Extraction
from relatum.models.checkpoint import load_model, save_model
from relatum.models.known_words import KnownWords
from relatum.models.model import Model
from relatum.tagging.sequence import check_fit
from relatum.types import Annotation, Entity, Prediction, Relation, Sentence, Span

if TYPE_CHECKING:
    from relatum.extractor.inside.layers import Reading
    from relatum.extractor.inside.probe import Probe

CHUNK = 16
"""How many batches of sentences are gathered before they are read: enough to put like lengths together."""

OnProgress = Callable[[int, int], None]
"""Told after every batch how many sentences have been read, and how many have been gathered so far."""


class Extractor:
    """Reads text with a trained model."""

    def __init__(
        self,
        model: Model,
        card: str = "",
        batch_size: int | None = None,
        max_cells: int | None = None,
        splitter: Splitter | None = None,
    ) -> None:
        settings = model.config.extraction
        for name, value in (("batch_size", batch_size), ("max_cells", max_cells)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; expected at least 1, or None for what the model's settings say")
        self.model, self.card = model, card
        self.batch_size = settings.batch_size if batch_size is None else batch_size
        self.max_cells = settings.max_cells if max_cells is None else max_cells
        self.max_words = settings.max_words if max_cells is None else max(1, min(settings.max_words, isqrt(max_cells)))
        self._known = KnownWords()
        self.splitter = splitter or make_splitter(model.config.text.words, model.config.text.sentences)

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path | Sequence[str | Path],
        device: torch.device | str | None = None,
        precision: Precision = "fp32",
        batch_size: int | None = None,
        max_cells: int | None = None,
        words: str | Rule | None = None,
        sentences: str | Rule | None = None,
    ) -> Extractor:
        """A model that comes with relatum, by its name, or one in a directory; on a GPU where there is one.

        A name that comes with relatum is that model, whatever folders are here: "./news" is the folder. With "bf16"
        products over tables are computed in bfloat16, and on a CPU with AMX those of the encoder and of the sequence as
        sums of products of bfloat16: that is faster where the device has instructions for it, and not quite the same.
        Such a model cannot be saved. `batch_size` and `max_cells` stand for the settings of the model, which keeps its
        own. A `max_cells` that is given here limits single sentences too: a longer one is read in windows. Several
        names are an `Ensemble`: models of the same labels that are read with as one.

        `words` and `sentences` split texts in another way than the model's settings say: the name of a built-in rule,
        "package.module:function", or a function from a text to a list of `Span`. A model that was trained with a
        function of your own needs it here: a function that a model's files name is never imported.
        """
        check_precision(precision)
        if not isinstance(name_or_path, str | Path):
            from relatum.extractor.ensemble import load_ensemble

            return load_ensemble(name_or_path, device, precision, batch_size, max_cells, words, sentences)
        path, place = find_model(name_or_path), choose_device("auto" if device is None else device)
        card = path / "README.md"
        text = card.read_text(encoding="utf-8") if card.exists() else ""
        given = {key: rule for key, rule in (("words", words), ("sentences", sentences)) if rule is not None}
        names = {key: rule if isinstance(rule, str) else rule_name(rule) for key, rule in given.items()}
        model = load_model(path, place, names)
        splitter = make_splitter(**{**model.config.text.to_dict(), **given})
        extractor = cls(model, text, batch_size, max_cells, splitter)
        set_precision(extractor.model, precision)
        return extractor

    def save(self, path: str | Path) -> None:
        """Write the model to a new or empty directory."""
        if any(weight.dtype == torch.bfloat16 for weight in self.model.network.parameters()):
            raise RelatumError(
                f"{path}: the weights have been rounded to bfloat16 for reading, and are not saved so; load the model "
                "with precision='fp32' to save it"
            )
        save_model(self.model, Path(path), self.card)

    def __call__(self, text: str) -> Extraction:
        """What is in one text."""
        if not isinstance(text, str):
            raise TypeError(f"expected str, found {type(text).__name__}")
        return join_sentences(text, self.predict(self.split(text)))

    def pipe(
        self, texts: Iterable[str], chunk: int | None = None, on_progress: OnProgress | None = None
    ) -> Iterator[Extraction]:
        """What is in each text, in their order; many sentences are read at once, whichever text they are of.

        The first answer comes when `chunk` sentences, or as many texts, have been gathered: `CHUNK` batches where it is
        not given. With 1 each text is answered before the next is asked for, as a live stream needs it.
        """
        if isinstance(texts, str | bytes):
            raise TypeError(
                f"expected a list of texts, or another iterable, found {type(texts).__name__}; put it in []"
            )
        if chunk is not None and chunk < 1:
            raise ValueError(f"chunk is the number of sentences to gather; expected at least 1, found {chunk}")
        return self._pipe(texts, chunk or CHUNK * self.batch_size, on_progress)

    def _pipe(self, texts: Iterable[str], chunk: int, on_progress: OnProgress | None) -> Iterator[Extraction]:
        waiting: list[_Text] = []
        n_read = n_waiting = 0

        def progress(n_more: int, n_gathered: int) -> None:
            if on_progress is not None:
                on_progress(n_read + n_more, n_read + n_gathered)

        for number, text in enumerate(texts, 1):
            if not isinstance(text, str):
                raise TypeError(f"text {number}: expected str, found {type(text).__name__}")
            waiting.append(self._split(text))
            n_waiting += len(waiting[-1].sentences)
            if max(n_waiting, len(waiting)) >= chunk:
                yield from self._read(waiting, progress)
                n_read += n_waiting
                waiting, n_waiting = [], 0
        yield from self._read(waiting, progress)

    def predict(
        self,
        sentences: Sequence[Sentence],
        entities: Sequence[Sequence[Entity]] | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Prediction]:
        """What is in each sentence, in words.

        Where entities are given, a list for each sentence, they are returned and only relations are looked for, between
        them. They may share words, but must lie inside their sentence. Two that no window of a long sentence holds
        together have no relation.
        """
        if entities is not None:
            _check_given(sentences, entities)
        windows = self._all_windows(sentences)
        found: list[list[tuple[Span, Annotation]]] = [[] for _ in sentences]
        n_left = [0] * len(sentences)
        for window in windows:
            n_left[window.sentence] += 1
        n_read = n_left.count(0)
        for job, answers in self._do(self._jobs(windows, sentences, entities)):
            for one, annotation in zip(job.windows, answers, strict=True):
                found[one.sentence].append((one.span, annotation))
                n_left[one.sentence] -= 1
                n_read += not n_left[one.sentence]
            if on_progress is not None:
                on_progress(n_read, len(sentences))
        predictions = []
        for number, sentence in enumerate(sentences):
            parts = sorted(found[number], key=lambda part: part[0])
            annotation = self.join_windows(parts, len(sentence), None if entities is None else entities[number])
            predictions.append(Prediction(sentence, annotation))
        return predictions

    def probe(self, text: str, only: int | None = None) -> list[Probe]:
        """What every layer says of one text, a probe a sentence; the last layer says what the extractor says.

        With `only`, there is just that of the sentence with this number, counted from 0.
        """
        if not isinstance(text, str):
            raise TypeError(f"expected str, found {type(text).__name__}")
        from relatum.extractor.inside.probe import make_probe

        sentences = self.split(text) if only is None else self.split(text)[only : only + 1]
        readings = dict(self.read_layers(sentences))
        return [
            make_probe(text, sentence, readings[number], self.model, self.join_windows)
            for number, sentence in enumerate(sentences)
            if number in readings
        ]

    def read_layers(
        self,
        sentences: Sequence[Sentence],
        entities: Sequence[Sequence[Entity]] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[tuple[int, list[Reading]]]:
        """The number of each sentence that has words, and what all layers say of its windows; the longest come first.

        They are the windows that `predict` reads, in the same batches; entities may be given as there.
        """
        from relatum.extractor.inside.layers import read_layers

        if entities is not None:
            _check_given(sentences, entities)
        windows = self._all_windows(sentences)
        n_left = Counter(window.sentence for window in windows)
        n_read = len(sentences) - len(n_left)
        waiting: dict[int, list[Reading]] = {}
        for number, reading in read_layers(self.model, self._jobs(windows, sentences, entities), self._known):
            waiting.setdefault(number, []).append(reading)
            n_left[number] -= 1
            if not n_left[number]:
                n_read += 1
                yield number, sorted(waiting.pop(number), key=lambda one: one.window)
                if on_progress is not None:
                    on_progress(n_read, len(sentences))

    def _all_windows(self, sentences: Sequence[Sentence]) -> list[Window]:
        return [
            Window(number, span) for number, sentence in enumerate(sentences) for span in self._windows(sentence.words)
        ]

    def _jobs(
        self,
        windows: Sequence[Window],
        sentences: Sequence[Sentence],
        entities: Sequence[Sequence[Entity]] | None = None,
    ) -> Iterator[Job]:
        lengths = [window.span.width for window in windows]
        context = self.model.config.encoder.context
        for batch in make_batches(lengths, self.batch_size, self.max_cells, bucketing=True, rng=None):
            members = [windows[index] for index in batch]
            given = None if entities is None else [_inside(entities[one.sentence], one.span) for one in members]
            words = [sentences[one.sentence].words[one.span.start : one.span.end] for one in members]
            around = None
            if context:
                around = [around_window(sentences[one.sentence], one.span, context) for one in members]
            yield Job(members, words, given, around)

    def join_windows(
        self, parts: Sequence[tuple[Span, Annotation]], n_words: int, entities: Sequence[Entity] | None = None
    ) -> Annotation:
        """What was found in the windows of a sentence, as one, with the scores that users see."""
        if entities is not None:
            annotation = Annotation(tuple(entities), merge_relations(parts, entities))
        else:
            annotation = parts[0][1] if len(parts) == 1 else merge_windows(parts, n_words)
        if self.model.calibration is not None:
            annotation = self.model.calibration.apply(annotation, given=entities is not None)
        return annotation

    def _do(self, jobs: Iterator[Job]) -> Iterator[tuple[Job, list[Annotation]]]:
        return do_jobs(self.model, jobs, self._known)

    def _windows(self, words: Sequence[str]) -> list[Span]:
        """The whole sentence, or overlapping parts of one that is longer than the settings or the encoder allow."""
        max_words = self.max_words
        pieces, max_pieces = self._pieces(words)
        if 0 < len(words) <= max_words and (max_pieces is None or sum(pieces) <= max_pieces):
            return [Span(0, len(words))]  # as nearly always
        overlap = min(self.model.config.extraction.overlap, max_words // 2)
        return make_windows(pieces, max_pieces, max_words, overlap, words)

    def _pieces(self, words: Sequence[str]) -> tuple[list[int], int | None]:
        """How many pieces the encoder makes of each word, and how many it can read."""
        encoder = self.model.encoder
        return ([1] * len(words), None) if encoder is None else (encoder.count_pieces(words), encoder.max_pieces)

    def split(self, text: str) -> list[Sentence]:
        """The sentences of a text, as the model reads them; the offsets of their words count from its start.

        With `encoder.context`, each has words of its neighbours around it.
        """
        words, ranges = self.splitter.split(text)
        parts = [words] if len(ranges) == 1 else [words[start:end] for start, end in ranges]
        sentences = [Sentence(tuple([text[start:end] for start, end in part]), part) for part in parts]
        context = self.model.config.encoder.context
        if context and len(sentences) > 1:
            around = find_context([text[start:end] for start, end in words], ranges, context)
            sentences = [replace(one, around=its) for one, its in zip(sentences, around, strict=True)]
        return sentences

    def _split(self, text: str) -> _Text:
        return _Text(text, self.split(text))

    def _read(self, texts: Sequence[_Text], on_progress: OnProgress) -> Iterator[Extraction]:
        sentences = [sentence for text in texts for sentence in text.sentences]
        predictions = iter(self.predict(sentences, on_progress=on_progress))
        for text in texts:
            yield join_sentences(text.text, [next(predictions) for _ in text.sentences])


def join_sentences(text: str, predictions: Iterable[Prediction]) -> Extraction:
    """What was found in all sentences of a text, as `Extractor.split` made them, in characters of it."""
    entities: list[Entity] = []
    relations: list[Relation] = []
    for prediction in predictions:
        offsets = prediction.sentence.offsets
        assert offsets is not None

        def characters(span: Span, offsets: Sequence[Span] = offsets) -> Span:
            return Span(offsets[span.start].start, offsets[span.end - 1].end)

        annotation = map_spans(prediction.found, characters)
        entities += annotation.entities
        relations += annotation.relations
    return Extraction.of(text, Annotation(tuple(entities), tuple(relations)))


@dataclass(frozen=True, slots=True)
class _Text:
    """A text and its sentences; their offsets count from the start of the text."""

    text: str
    sentences: list[Sentence]


def _check_given(sentences: Sequence[Sentence], entities: Sequence[Sequence[Entity]]) -> None:
    """Refuse given entities that are not those of the sentences."""
    if len(entities) != len(sentences):
        raise ValueError(
            f"got the entities of {len(entities)} sentences for {len(sentences)} sentences; give a list for each, "
            f"an empty one where there are none"
        )
    for sentence, given in zip(sentences, entities, strict=True):
        for entity in given:
            check_fit(entity, len(sentence))


def _inside(entities: Sequence[Entity], window: Span) -> tuple[Entity, ...]:
    """The entities that lie in a window, counted from its start."""
    inside = tuple(entity for entity in entities if window.contains(entity.span))
    return map_spans(Annotation(inside), lambda span: span.shift(-window.start)).entities


def shipped_models() -> list[str]:
    """The names of the models that come with relatum."""
    folder = files("relatum") / "pretrained" / "models"
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


def find_model(name_or_path: str | Path) -> Path:
    """The directory of a model, by its path or by the name of one that comes with relatum.

    A name means the same wherever it is used: a folder of that name is "./news", or a `Path`.
    """
    path = Path(name_or_path)
    names = shipped_models()
    if isinstance(name_or_path, str) and name_or_path in names:
        return Path(str(files("relatum") / "pretrained" / "models" / name_or_path))
    if path.is_dir():
        return path
    known = ", ".join(names) or "none"
    raise RelatumError(
        f"{name_or_path}: no such model; name a directory that relatum train has made, or one that comes with relatum: "
        f"{known}"
    )
