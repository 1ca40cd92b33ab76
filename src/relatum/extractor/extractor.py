"""From raw text to entities and relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, Unpack, get_args, overload

from relatum.data.batching import make_batches
from relatum.data.context import find_context, window_context
from relatum.data.passages import find_all_final_stops, find_all_owned_stops
from relatum.data.splitting import Rule, Splitter, make_splitter, rule_name
from relatum.data.windows import make_passage_windows, make_windows, merge_relations, merge_windows
from relatum.encoders.base import EncoderInput
from relatum.errors import ConfigError, MissingExtraError, RelatumError
from relatum.extractor.finding import locate_model, model_version, not_a_name
from relatum.extractor.held import ModelHolder, load_held
from relatum.extractor.hub import PushedModel, PushOptions, push_model
from relatum.extractor.jobs import Job, Window, check_given, do_jobs, entities_inside
from relatum.extractor.piping import OnError, OnProgress, PipeOptions, answer_texts, check_pipe, join_sentences
from relatum.extractor.result import Extraction, check_threshold
from relatum.extractor.unseen import find_unseen
from relatum.models.model import Model
from relatum.models.stored import read_card
from relatum.runtime.base import RuntimeName
from relatum.runtime.native.model import NativeModel
from relatum.runtime.native.reader import NativeReader
from relatum.runtime.precision import Precision, check_precision
from relatum.types import Annotation, Entity, Prediction, Sentence, Span

if TYPE_CHECKING:
    import torch

    from relatum.extractor.introspection.layers import LayerOutputs
    from relatum.extractor.introspection.probe import Probe

_SHOWN_LABELS = 8
"""The number of entity types, and of relation types, that the repr shows."""

CHUNK = 16
"""The number of batches of sentences that are gathered before they are read: enough to group similar lengths."""

C = TypeVar("C")
"""The type of the context of a text."""


class Extractor(ModelHolder):
    """Reads text with a trained model."""

    def __init__(
        self,
        model: Model | NativeModel,
        card: str = "",
        batch_size: int | None = None,
        max_cells: int | None = None,
        splitter: Splitter | None = None,
    ) -> None:
        settings = model.config.extraction
        for name, value in (("batch_size", batch_size), ("max_cells", max_cells)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; expected at least 1, or None for what the model's settings say")
        super().__init__(model)
        self.card = card
        self.name = self.version = ""
        """The name or folder of a model that was loaded, and its name with the beginning of a hash of its files."""
        self.revision: str | None = None
        """The commit on the hub that the model was loaded from; None for other models."""
        self.batch_size = settings.batch_size if batch_size is None else batch_size
        self.max_cells = settings.max_cells if max_cells is None else max_cells
        self.max_words = settings.max_words if max_cells is None else max(1, min(settings.max_words, isqrt(max_cells)))
        self._unseen = find_unseen([model])
        self.splitter = splitter or make_splitter(model.config.text.words, model.config.text.sentences)

    @classmethod
    def from_pretrained(  # noqa: PLR0913 -- an argument for each option
        cls,
        name_or_path: str | Path | Sequence[str | Path],
        device: torch.device | str | None = None,
        precision: Precision = "fp32",
        batch_size: int | None = None,
        max_cells: int | None = None,
        words: str | Rule | None = None,
        sentences: str | Rule | None = None,
        runtime: str = "auto",
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        local_files_only: bool = False,
    ) -> Extractor:
        """Load a model that comes with relatum, is in a directory or is on the hub; on a GPU if there is one.

        A name that comes with relatum means that model, whatever folders are here: "./news" is the folder. A name
        owner/model that is not a folder is downloaded from the Hugging Face hub, or read from its cache; `revision`, a
        branch, tag or commit, `token` and `local_files_only` are for such models.

        `precision` "bf16" computes products over tables in bfloat16, and on a CPU with AMX the products of the encoder
        and of the sequence as sums of bfloat16 products. Such a model cannot be saved. "int8" computes the products of
        the encoder in 8-bit integers; the encoder must be a BERT, on a CPU. Both are faster on devices with
        instructions for them, and results differ slightly.

        `batch_size` and `max_cells` override the settings of the model for this extractor; the model keeps its own. A
        `max_cells` that is given here limits single sentences too: a longer sentence is read in windows. Several names
        load an `Ensemble` of models that have the same labels.

        `words` and `sentences` split texts in another way than the model's settings say: the name of a built-in rule,
        "package.module:function", or a function from a text to a list of `Span`. A model that was trained with a
        function of your own needs it here: a function that a model's files name is never imported.

        `runtime` is "native" for compiled code on a CPU, which needs no torch; "torch" for plain PyTorch, on any device
        and for every model; or "auto" for the fastest that can read the model here. A runtime that is named and cannot
        run is an error.
        """
        check_precision(precision)
        if runtime not in get_args(RuntimeName):
            known = ", ".join(map(repr, get_args(RuntimeName)))
            raise ConfigError(f"runtime {runtime!r}: there is none of that name; use one of {known}")
        if runtime == "torch" and precision == "int8":
            raise ConfigError("precision 'int8': the runtime 'torch' has no 8-bit products; use runtime='auto'")
        name: object = name_or_path
        if isinstance(name, bytes | bytearray) or not isinstance(name, str | Path | Sequence):
            raise not_a_name(name)
        if not isinstance(name_or_path, str | Path):
            if runtime == "native":
                raise RelatumError("an ensemble reads with torch; leave out runtime='native', or name one model")
            if revision is not None:
                raise RelatumError(f"the revision {revision!r} is for one model; load an ensemble without it")
            try:
                from relatum.extractor.ensemble import load_ensemble
            except ImportError as error:
                raise MissingExtraError("an ensemble of models", "torch") from error
            return load_ensemble(name_or_path, device, precision, batch_size, max_cells, words, sentences)
        found = locate_model(name_or_path, revision, token, local_files_only)
        path = found.folder
        given = {key: rule for key, rule in (("words", words), ("sentences", sentences)) if rule is not None}
        names = {key: rule if isinstance(rule, str) else rule_name(rule) for key, rule in given.items()}
        model = load_held(path, "auto" if device is None else device, names, precision, runtime)
        text = model.config.text
        splitter = make_splitter(given.get("words", text.words), given.get("sentences", text.sentences))
        extractor = cls(model, read_card(path), batch_size, max_cells, splitter)
        extractor.name, extractor.version = str(name_or_path), model_version(name_or_path, path)
        extractor.revision = found.revision
        extractor._runtime_name = runtime
        return extractor

    def __repr__(self) -> str:
        entities = _shorten(self.schema.entity_types)
        relations = _shorten(self.schema.relation_names) or "no relations"
        return f"<{type(self).__name__} {self.name!r} on {self.device}: {entities}; {relations}>"

    def push_to_hub(self, name: str, **options: Unpack[PushOptions]) -> PushedModel:
        """Push the model to the Hugging Face hub as owner/model, in one commit, with metadata in front of its card.

        The repository is made if there is none; `private` is for a new one. By default the token of `hf auth login` or
        HF_TOKEN is used. An encoder that the model stores by name is not pushed, unless `encoder` is "inside"; `needs`
        of the result names it. Further options are token, branch and commit_message; license, language, datasets and
        tags are for the card.
        """
        return push_model(self.model, self.card, name, options)

    @overload
    def __call__(self, text: str, threshold: float | None = None) -> Extraction: ...
    @overload
    def __call__(self, text: list[str] | tuple[str, ...], threshold: float | None = None) -> list[Extraction]: ...
    def __call__(
        self, text: str | list[str] | tuple[str, ...], threshold: float | None = None
    ) -> Extraction | list[Extraction]:
        """Extract from one text; from a list of texts, as `list(extractor.pipe(texts))` does.

        With a threshold, only entities and relations with at least that score are left; see `Extraction.above`.
        """
        if isinstance(text, list | tuple):
            return list(self.pipe(text, threshold=threshold))
        if not isinstance(text, str):
            raise TypeError(
                f"expected str or a list of str, found {type(text).__name__}; for other iterables of texts, and for "
                "texts of which some are missing, use extractor.pipe(texts)"
            )
        if threshold is not None:
            check_threshold(threshold)
        extraction = self.join_sentences(text, self.predict(self.split(text)))
        return extraction if threshold is None else extraction.above(threshold)

    @overload
    def pipe(
        self,
        texts: Iterable[str],
        chunk: int | None = None,
        on_progress: OnProgress | None = None,
        *,
        threshold: float | None = None,
        batch_size: int | None = None,
        as_tuples: Literal[False] = False,
        on_error: Literal["raise"] = "raise",
    ) -> Iterator[Extraction]: ...
    @overload
    def pipe(
        self,
        texts: Iterable[tuple[str, C]],
        chunk: int | None = None,
        on_progress: OnProgress | None = None,
        *,
        threshold: float | None = None,
        batch_size: int | None = None,
        as_tuples: Literal[True],
        on_error: Literal["raise"] = "raise",
    ) -> Iterator[tuple[Extraction, C]]: ...
    @overload
    def pipe(
        self,
        texts: Iterable[object],
        chunk: int | None = None,
        on_progress: OnProgress | None = None,
        *,
        threshold: float | None = None,
        batch_size: int | None = None,
        as_tuples: Literal[False] = False,
        on_error: OnError,
    ) -> Iterator[Extraction | None]: ...
    @overload
    def pipe(
        self,
        texts: Iterable[tuple[object, C]],
        chunk: int | None = None,
        on_progress: OnProgress | None = None,
        *,
        threshold: float | None = None,
        batch_size: int | None = None,
        as_tuples: Literal[True],
        on_error: OnError,
    ) -> Iterator[tuple[Extraction | None, C]]: ...
    def pipe(
        self,
        texts: Iterable[object],
        chunk: int | None = None,
        on_progress: OnProgress | None = None,
        *,
        threshold: float | None = None,
        batch_size: int | None = None,
        as_tuples: bool = False,
        on_error: OnError = "raise",
    ) -> Iterator[object]:
        """Extract from many texts, in their order; many sentences are read at once, whichever text they are of.

        The first answer comes when `chunk` sentences, or as many texts, have been gathered: `CHUNK` batches where it is
        not given. With 1 each text is answered before the next is asked for, as a live stream needs it.

        `threshold` leaves out what has a lower score, `batch_size` is the number of sentences read at once. With
        `as_tuples` the texts are pairs (text, context), and so are the answers. `on_error` says what becomes of a text
        that cannot be read, such as a missing value: "raise" its error, "skip" it, or call a function with the text and
        the error. There is one answer for every text: None where a text was skipped, or what the function returned.
        """
        check_pipe(texts, chunk, batch_size, on_error)
        if threshold is not None:
            check_threshold(threshold)
        size = batch_size or self.batch_size
        options = PipeOptions(chunk or CHUNK * size, size, threshold, as_tuples, on_error, on_progress)
        answers = answer_texts(self, texts, options)
        return answers if as_tuples else (answer for answer, _ in answers)

    def predict(
        self,
        sentences: Sequence[Sentence],
        entities: Sequence[Sequence[Entity]] | None = None,
        on_progress: OnProgress | None = None,
        batch_size: int | None = None,
    ) -> list[Prediction]:
        """Return the entities and relations of each sentence; their spans count words.

        If entities are given, a list for each sentence, they are returned and only relations between them are looked
        for. Given entities may share words, but must lie inside their sentence. Two entities that no window of a long
        sentence holds together have no relation.
        """
        if entities is not None:
            check_given(sentences, entities)
        windows = self._all_windows(sentences)
        found: list[list[tuple[Span, Annotation]]] = [[] for _ in sentences]
        n_left = [0] * len(sentences)
        for window in windows:
            n_left[window.sentence] += 1
        n_read = n_left.count(0)
        runtime = self.runtime  # first: it may replace the model that is held
        for job, answers in do_jobs(self._held, runtime, self._jobs(windows, sentences, entities, batch_size)):
            for window, annotation in zip(job.windows, answers, strict=True):
                found[window.sentence].append((window.span, annotation))
                n_left[window.sentence] -= 1
                n_read += not n_left[window.sentence]
            if on_progress is not None:
                on_progress(n_read, len(sentences))
        predictions = []
        for number, sentence in enumerate(sentences):
            parts = sorted(found[number], key=lambda part: part[0])
            annotation = self.join_windows(parts, len(sentence), None if entities is None else entities[number])
            predictions.append(Prediction(sentence, annotation))
        return predictions

    def probe(self, text: str, only: int | None = None) -> list[Probe]:
        """Return the findings of every layer in a text, a probe per sentence; the last layer's are the extractor's.

        With `only`, only the sentence with this number, counted from 0, is probed.
        """
        if not isinstance(text, str):
            raise TypeError(f"expected str, found {type(text).__name__}")
        self.model  # noqa: B018  # made of torch's modules, if torch is here
        from relatum.extractor.introspection.probe import make_probe

        sentences = self.split(text) if only is None else self.split(text)[only : only + 1]
        readings = dict(self.read_layers(sentences))
        return [
            make_probe(self, text, sentence, readings[number])
            for number, sentence in enumerate(sentences)
            if number in readings
        ]

    def read_layers(
        self,
        sentences: Sequence[Sentence],
        entities: Sequence[Sequence[Entity]] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[tuple[int, list[LayerOutputs]]]:
        """Yield the number of each sentence that has words, and what all layers find in its windows; longest first.

        Windows and batches are the same as in `predict`; entities may be given as there.
        """
        model, runtime = self.model, self.runtime
        assert not isinstance(runtime, NativeReader)  # it reads with a model of torch
        from relatum.extractor.introspection.layers import read_layers

        if entities is not None:
            check_given(sentences, entities)
        windows = self._all_windows(sentences)
        n_left = Counter(window.sentence for window in windows)
        n_read = len(sentences) - len(n_left)
        waiting: dict[int, list[LayerOutputs]] = {}
        for number, reading in read_layers(model, runtime, self._jobs(windows, sentences, entities)):
            waiting.setdefault(number, []).append(reading)
            n_left[number] -= 1
            if not n_left[number]:
                n_read += 1
                yield number, sorted(waiting.pop(number), key=lambda one: one.window)
                if on_progress is not None:
                    on_progress(n_read, len(sentences))

    def _all_windows(self, sentences: Sequence[Sentence]) -> list[Window]:
        return [
            Window(number, span) for number, sentence in enumerate(sentences) for span in self.find_windows(sentence)
        ]

    def _jobs(
        self,
        windows: Sequence[Window],
        sentences: Sequence[Sentence],
        entities: Sequence[Sequence[Entity]] | None = None,
        batch_size: int | None = None,
    ) -> Iterator[Job]:
        lengths = [window.span.width for window in windows]
        context = self.config.encoder.context
        size = batch_size or self.batch_size
        for batch in make_batches(lengths, size, self.max_cells, bucketing=True, rng=None):
            members = [windows[index] for index in batch]
            given = None
            if entities is not None:
                given = [entities_inside(entities[window.sentence], window.span) for window in members]
            words: list[Sequence[str]] = [
                sentences[window.sentence].words[window.span.start : window.span.end] for window in members
            ]
            if self._unseen is not None:
                words = list(map(self._unseen.replace_emoji, words))
            beside = None
            if context:
                beside = [window_context(sentences[window.sentence], window.span, context) for window in members]
            yield Job(members, EncoderInput(words, beside), given)

    def join_windows(
        self, parts: Sequence[tuple[Span, Annotation]], n_words: int, entities: Sequence[Entity] | None = None
    ) -> Annotation:
        """Merge the annotations of the windows of a sentence into one, with the scores that users see."""
        model = self._held
        several = model.tagging.has_tag_sets and model.config.decoding.relations_of_pair == "several"
        if entities is not None:
            annotation = Annotation(tuple(entities), merge_relations(parts, entities, several))
        else:
            annotation = parts[0][1] if len(parts) == 1 else merge_windows(parts, n_words, several)
        if model.calibration is not None:
            annotation = model.calibration.apply(annotation, given=entities is not None)
        return annotation

    def join_sentences(self, text: str, predictions: Iterable[Prediction]) -> Extraction:
        """Join the predictions for the sentences of a text, as `split` made them, in characters of the text.

        Entities neither begin nor end with an emoji that the model has never seen. With `extraction.trim_stops` they
        do not end with the stop of their sentence, but letters with dots such as `U.S.` keep it.
        """
        return join_sentences(text, predictions, self._find_loose, self._find_owned)

    def _find_loose(self, sentence: Sentence) -> set[int]:
        """Return the indices of words with which no entity begins or ends."""
        loose = find_all_final_stops(sentence) if self.config.extraction.trim_stops else set()
        return loose if self._unseen is None else loose.union(self._unseen.find_emoji(sentence.words))

    def _find_owned(self, sentence: Sentence) -> set[int]:
        """Return the indices of stops that are added to entities ending with the word before them."""
        return find_all_owned_stops(sentence) if self.config.extraction.trim_stops else set()

    def find_windows(self, sentence: Sentence) -> list[Span]:
        """Return the ranges of words in which a sentence or passage is read: one, unless it is too long."""
        return self._windows(sentence.words, sentence.starts)

    def _windows(self, words: Sequence[str], starts: Sequence[int] = ()) -> list[Span]:
        """Return the whole sentence, or overlapping parts if it is longer than the settings or the encoder allow.

        The parts of a passage are whole sentences, which begin at `starts`, as far as the limits allow it.
        """
        max_words = self.max_words
        pieces, max_pieces = self._pieces(words)
        if 0 < len(words) <= max_words and (max_pieces is None or sum(pieces) <= max_pieces):
            return [Span(0, len(words))]  # as nearly always
        overlap = min(self.config.extraction.overlap, max_words // 2)
        if starts:
            return make_passage_windows(pieces, starts, max_pieces, max_words, overlap, words)
        return make_windows(pieces, max_pieces, max_words, overlap, words)

    def _pieces(self, words: Sequence[str]) -> tuple[list[int], int | None]:
        """Return the number of pieces that the encoder makes of each word, and the most that it can read."""
        encoder = self._held.encoder
        return ([1] * len(words), None) if encoder is None else (encoder.count_pieces(words), encoder.max_pieces)

    def split(self, text: str) -> list[Sentence]:
        """Split a text into sentences, as the model reads them; offsets of words count from the start of the text.

        With `encoder.context`, each sentence also has words of its neighbours as context. A model that reads passages
        (`text.unit`) gets all sentences as one.
        """
        return self.split_at(text, *self.splitter.split(text))

    def split_at(self, text: str, words: tuple[Span, ...], ranges: tuple[Span, ...]) -> list[Sentence]:
        """Return the sentences of a text, as `split` does, from words and sentences that somebody else has found.

        `words` are spans of characters, `ranges` are the sentences as ranges of words.
        """
        if self._unseen is not None:
            words, ranges = self._unseen.drop_invisible(text, words, ranges)
        if self.config.text.unit == "passage" and words:
            starts = tuple([start for start, _ in ranges])
            return [Sentence(tuple([text[start:end] for start, end in words]), words, starts=starts)]
        parts = [words] if len(ranges) == 1 else [words[start:end] for start, end in ranges]
        sentences = []
        for part in parts:
            words_of_part = tuple([text[start:end] for start, end in part])
            sentences.append(Sentence(words_of_part, part))
        context = self.config.encoder.context
        if context and len(sentences) > 1:
            contexts = find_context([text[start:end] for start, end in words], ranges, context)
            pairs = zip(sentences, contexts, strict=True)
            sentences = [replace(sentence, context=of_sentence) for sentence, of_sentence in pairs]
        return sentences


def _shorten(names: Sequence[str]) -> str:
    more = ", …" if len(names) > _SHOWN_LABELS else ""
    return ", ".join(names[:_SHOWN_LABELS]) + more
