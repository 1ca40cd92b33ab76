"""The component `relatum` of spaCy pipelines: entities in `doc.ents`, relations in `doc._.relations`.

What the component finds is stored in the `user_data` of a `Doc`, in the plain values that relatum's DocBin format has
(see `relatum.data.formats.docbin`), so that it survives `to_bytes`, pickling, DocBin and worker processes. The custom
attributes make objects of these values when they are read. The values count tokens, and characters beside them:
characters stay right when tokens are merged later.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Any, Literal
from weakref import finalize

from relatum.data.documents import WordIndex
from relatum.data.formats.docbin import GROUP, user_key
from relatum.errors import ConfigError, MissingExtraError, RelatumError
from relatum.evaluation.metrics import evaluate
from relatum.extractor.finding import DEFAULT_MODEL
from relatum.extractor.result import Extraction, check_threshold
from relatum.models.manifest import NAME as MANIFEST
from relatum.models.manifest import Manifest
from relatum.types import Annotation, Entity, Prediction, Relation, Sentence, Span

try:
    import srsly  # type: ignore[import-untyped]
    from spacy.language import Language
    from spacy.scorer import get_ner_prf
    from spacy.tokens import Doc, SpanGroup
    from spacy.tokens import Span as DocSpan
    from spacy.training import Example
    from spacy.util import filter_spans, minibatch
except ImportError:
    raise MissingExtraError("the component of spaCy pipelines", "spacy") from None

if TYPE_CHECKING:
    from relatum.extractor.extractor import Extractor
    from relatum.runtime.precision import Precision

NAME = "relatum"
DOCS = 128
"""The number of documents that are read together, if the pipeline does not say it."""
_log = logging.getLogger(__name__)
_DETAILS = "entity_details"
_DAMAGED = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""The errors of values in `user_data` that are not of our form."""


@dataclass(frozen=True, slots=True)
class SpanRelation:
    """A relation between two spans of a spaCy `Doc`; the labels of the spans are the entity types."""

    head: DocSpan
    tail: DocSpan
    label: str
    score: float | None = None

    @property
    def evidence(self) -> DocSpan | None:
        """The sentence of the relation, or all from its first to its last; None if sentences are not known."""
        doc = self.head.doc
        if not doc.has_annotation("SENT_START"):
            return None
        ends = (self.head[0], self.head[-1], self.tail[0], self.tail[-1])
        start = min(token.sent.start for token in ends)
        end = max(token.sent.end for token in ends)
        while doc[end - 1].is_space:
            end -= 1
        return doc[start:end]


@Language.factory(
    NAME,
    assigns=["doc.ents", "doc.spans", "doc._.relations", "doc._.extraction"],
    default_config={
        "model": DEFAULT_MODEL,
        "threshold": None,
        "device": None,
        "precision": "fp32",
        "batch_size": None,
        "entities": "found",
        "labels": {},
    },
    default_score_weights={
        "ents_f": 0.5,
        "ents_p": 0.0,
        "ents_r": 0.0,
        "ents_per_type": None,
        "rel_micro_f": 0.5,
        "rel_micro_p": 0.0,
        "rel_micro_r": 0.0,
        "rel_per_type": None,
    },
)
def make_component(  # noqa: PLR0913 — spaCy wants an argument for each setting
    nlp: Language,  # noqa: ARG001 — spaCy passes it
    name: str,
    model: str,
    threshold: float | None,
    device: str | None,
    precision: Literal["fp32", "bf16", "int8"],
    batch_size: int | None,
    entities: Literal["found", "given"],
    labels: dict[str, str | None],
) -> RelatumComponent:
    """Make the component from its settings in the pipeline."""
    return RelatumComponent(model, name, threshold, device, precision, batch_size, entities, labels)


class RelatumComponent:
    """Reads the documents of a spaCy pipeline with a trained model.

    The model is loaded when it is first needed, so that a pipeline can be loaded whose model lies inside it.
    """

    def __init__(
        self,
        model: str,
        name: str = NAME,
        threshold: float | None = None,
        device: str | None = None,
        precision: Precision = "fp32",
        batch_size: int | None = None,
        entities: Literal["found", "given"] = "found",
        labels: Mapping[str, str | None] | None = None,
    ) -> None:
        if threshold is not None:
            check_threshold(threshold)
        if labels and entities == "found":
            raise ConfigError("labels are for the entities of other components; set entities to 'given', too")
        register_attributes()
        self.model = model
        self.name = name
        self.threshold = threshold
        self.device = device
        self.precision: Precision = precision
        self.batch_size = batch_size
        self.entities = entities
        self.labels = dict(labels or {})
        self._extractor: Extractor | None = None
        self._warned: set[str] = set()

    @property
    def extractor(self) -> Extractor:
        """The extractor with the model; loaded at first use."""
        if self._extractor is None:
            self._extractor = self._load(self.model)
        return self._extractor

    def _load(self, model: str | Path) -> Extractor:
        from relatum.extractor.extractor import Extractor

        return Extractor.from_pretrained(model, self.device, self.precision, self.batch_size)

    def __call__(self, doc: Doc) -> Doc:
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = DOCS) -> Iterator[Doc]:
        """Annotate documents; sentences of `batch_size` documents are read together."""
        handle_error = self.get_error_handler()
        for docs in minibatch(stream, batch_size):  # type: ignore[no-untyped-call]
            try:
                self._annotate(docs)
            except Exception as error:
                handle_error(self.name, self, docs, error)
            else:
                yield from docs

    def set_error_handler(self, error_handler: Any) -> None:
        """Set the function that spaCy wants to be called with the documents of a batch that cannot be read."""
        self._handle_error = error_handler

    def get_error_handler(self) -> Any:
        """Return the function for batches that cannot be read; by default it raises the error."""
        return getattr(self, "_handle_error", _raise_error)

    def _annotate(self, docs: Sequence[Doc]) -> None:
        split = [self._split(doc) for doc in docs]
        sentences = [sentence for of_doc in split for sentence in of_doc]
        if self.entities == "given":
            self._annotate_given(docs, split, sentences)
            return
        predictions = iter(self.extractor.predict(sentences))
        for doc, of_doc in zip(docs, split, strict=True):
            extraction = self.extractor.join_sentences(doc.text, [next(predictions) for _ in of_doc])
            if self.threshold is not None:
                extraction = extraction.above(self.threshold)
            _store_extraction(doc, extraction)

    def _split(self, doc: Doc) -> list[Sentence]:
        """Return the sentences of a document, of spaCy's tokens; set its sentences if no component has done so."""
        tokens = [token for token in doc if not token.is_space]
        words = tuple(Span(token.idx, token.idx + len(token)) for token in tokens)
        if doc.has_annotation("SENT_START"):
            index = WordIndex(words)
            parts = (index.touching(Span(part.start_char, part.end_char)) for part in doc.sents if part.text)
            ranges = tuple(filter(None, parts))
        else:
            ranges = self.extractor.splitter.group(doc.text, words)
            starts = {tokens[part.start].i for part in ranges}
            for token in doc:
                token.is_sent_start = token.i in starts
        return self.extractor.split_at(doc.text, words, ranges)

    def _annotate_given(
        self, docs: Sequence[Doc], split: Sequence[Sequence[Sentence]], sentences: Sequence[Sentence]
    ) -> None:
        """Store the relations between entities that the documents have already."""
        given = [part for doc, of_doc in zip(docs, split, strict=True) for part in self._given(doc, of_doc)]
        entities = [_first(part) for part in given]
        predictions = iter(zip(given, self.extractor.predict(sentences, entities), strict=True))
        for doc, of_doc in zip(docs, split, strict=True):
            spans: list[DocSpan] = []
            relations: list[SpanRelation] = []
            for _ in of_doc:
                part, prediction = next(predictions)
                spans += [span for _, span in part]
                relations += self._relations(part, prediction)
            _store(doc, [(span, None) for span in spans], relations)

    def _given(self, doc: Doc, sentences: Sequence[Sentence]) -> list[list[tuple[Entity, DocSpan]]]:
        """Return the entities of a document that the model knows, in words, by sentence."""
        parts: list[list[tuple[Entity, DocSpan]]] = [[] for _ in sentences]
        indices = [WordIndex(sentence.offsets or ()) for sentence in sentences]
        known = self.extractor.schema.entity_types
        for span in doc.ents:
            label = self.labels.get(span.label_, span.label_)
            if label is None:
                continue
            if label not in known:
                cure = f"map it to one of {', '.join(known)} or to None: labels={{{span.label_!r}: …}}"
                self._warn(
                    f"entities with the label {span.label_!r} are not read: the model has no type {label!r}; {cure}"
                )
                continue
            place = Span(span.start_char, span.end_char)
            for part, index in zip(parts, indices, strict=True):
                if index.is_exact(place):
                    part.append((Entity(index.exact(place), label), span))
                    break
            else:
                self._warn(f"entities that cross the end of a sentence are not read; the first is {span.text!r}")
        return parts

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            _log.warning("%s: %s", self.name, message)

    def _relations(self, given: Sequence[tuple[Entity, DocSpan]], prediction: Prediction) -> Iterator[SpanRelation]:
        spans = dict(given)
        for relation in prediction.found.relations:
            if self.threshold is None or relation.score is None or relation.score >= self.threshold:
                yield SpanRelation(spans[relation.head], spans[relation.tail], relation.label, relation.score)

    def score(self, examples: Iterable[Example], **_: Any) -> dict[str, Any]:
        """Score entities as spaCy does, and relations with relatum's strict match: both ends and their types count.

        The scores of relations are None if no reference has `doc._.relations`; a reference without them has none.
        """
        examples = list(examples)
        scores: dict[str, Any] = dict(get_ner_prf(examples))
        key: Any = user_key("relations")
        if not any(key in example.reference.user_data for example in examples):
            return {**scores, "rel_micro_p": None, "rel_micro_r": None, "rel_micro_f": None, "rel_per_type": None}
        pairs = [(_annotation(example.reference), _annotation(example.predicted)) for example in examples]
        found = evaluate(pairs, self.extractor.schema).relations_strict
        per_type = {name: {"p": one.precision, "r": one.recall, "f": one.f1} for name, one in found.types.items()}
        micro = found.micro
        return {
            **scores,
            "rel_micro_p": micro.precision,
            "rel_micro_r": micro.recall,
            "rel_micro_f": micro.f1,
            "rel_per_type": per_type,
        }

    def to_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> None:  # noqa: ARG002 — spaCy passes it
        """Save the model into the pipeline's folder; an earlier one is replaced."""
        path = Path(path)
        with TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as folder:
            self.extractor.save(Path(folder, NAME))
            if (path / MANIFEST).exists():
                shutil.rmtree(path)
            Path(folder, NAME).rename(path)

    def from_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> RelatumComponent:  # noqa: ARG002
        """Load the model from the pipeline's folder; its files are checked, and nothing in them is executed."""
        self._extractor = self._load(Path(path))
        return self

    def to_bytes(self, *, exclude: Sequence[str] = ()) -> bytes:  # noqa: ARG002
        """Return the files of the model as bytes."""
        with TemporaryDirectory() as folder:
            saved = Path(folder, NAME)
            self.extractor.save(saved)
            names = [MANIFEST, *Manifest.read(saved).files]
            packed: bytes = srsly.msgpack_dumps({name: (saved / name).read_bytes() for name in names})
            return packed

    def from_bytes(self, data: bytes, *, exclude: Sequence[str] = ()) -> RelatumComponent:  # noqa: ARG002
        """Load the model from bytes; its files are checked as those of a folder."""
        files = srsly.msgpack_loads(data)
        folder = Path(mkdtemp(prefix="relatum-spacy-"))
        # The folder stays as long as the component: an encoder stored inside is copied from it when the model is saved.
        finalize(self, shutil.rmtree, folder, ignore_errors=True)
        try:
            (folder / MANIFEST).write_bytes(files[MANIFEST])
            for name in Manifest.read(folder).files:  # which refuses names outside the folder
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(files[name])
        except (KeyError, TypeError) as error:
            raise RelatumError(f"{self.name}: found bytes without the files of a model ({error!r})") from None
        self._extractor = self._load(folder)
        return self


def register_attributes() -> None:
    """Make `doc._.relations` and `doc._.extraction` known to spaCy; also for documents that come from a DocBin.

    A plain attribute of the name that a program has registered is replaced: its values stay where they are.
    """
    for name, functions in _ATTRIBUTES.items():
        if not Doc.has_extension(name):
            Doc.set_extension(name, **functions)
            continue
        _, method, getter, _ = Doc.get_extension(name)
        if getter is functions["getter"]:
            continue
        if getter is not None or method is not None:
            raise RelatumError(f"doc._.{name} is a custom attribute of another program already; remove it there")
        Doc.set_extension(name, force=True, **functions)


def get_relations(doc: Doc) -> list[SpanRelation]:
    """Return the relations of a document."""
    try:
        return [_relation(doc, record) for record in _stored(doc, "relations")]
    except _DAMAGED as error:
        raise _damaged("relations", error) from None


def set_relations(doc: Doc, relations: Iterable[SpanRelation] | None) -> None:
    """Set the relations of a document, such as gold for `nlp.evaluate`; None says that they are not known."""
    key: Any = user_key("relations")
    if relations is None:
        doc.user_data.pop(key, None)
        return
    records = []
    for relation in relations:
        if not isinstance(relation, SpanRelation):
            raise TypeError(f"expected relations of the type SpanRelation, found {type(relation).__name__}")
        for end in (relation.head, relation.tail):
            if end.doc is not doc:
                raise ValueError(f"{end.text!r} is a span of another document; make it of this one")
        ends = {"head": _record(relation.head), "tail": _record(relation.tail)}
        records.append({"label": relation.label, **ends} | _score(relation.score))
    doc.user_data[key] = records


def get_extraction(doc: Doc) -> Extraction:
    """Return the entities and relations of a document in characters, as relatum's `Extractor` gives them.

    The entities are those that relatum has found or was given; else `doc.spans["relatum"]`, or `doc.ents`.
    """
    annotation = _annotation(doc)
    parts = doc.sents if len(doc) and doc.has_annotation("SENT_START") else ()
    stripped = [_without_space(part) for part in parts]
    return Extraction.of(doc.text, annotation, sentences=[span for span in stripped if span is not None])


_ATTRIBUTES: Mapping[str, dict[str, Any]] = {
    "relations": {"getter": get_relations, "setter": set_relations},
    "extraction": {"getter": get_extraction},
}


def _annotation(doc: Doc) -> Annotation:
    relations = tuple(
        Relation(_entity(one.head), _entity(one.tail), one.label, one.score) for one in get_relations(doc)
    )
    ends = [end for relation in relations for end in (relation.head, relation.tail)]
    try:
        details = [(_span(doc, record), record.get("score")) for record in _stored(doc, _DETAILS)]
    except _DAMAGED as error:
        raise _damaged(_DETAILS, error) from None
    found = details or [(span, None) for span in doc.spans.get(GROUP, doc.ents)]
    entities = [_entity(span, score) for span, score in found]
    return Annotation(tuple(dict.fromkeys([*entities, *ends])), relations)


def _store_extraction(doc: Doc, extraction: Extraction) -> None:
    spans = {}
    for entity in extraction.entities:
        span = doc.char_span(*entity.span, label=entity.label)
        assert span is not None, "entities begin and end with tokens"
        spans[entity.id] = span
    found = [(spans[entity.id], entity.score) for entity in extraction.entities]
    relations = [
        SpanRelation(spans[one.head.id], spans[one.tail.id], one.label, one.score) for one in extraction.relations
    ]
    doc.ents = filter_spans([span for span, _ in found])
    _store(doc, found, relations)


def _store(doc: Doc, entities: Sequence[tuple[DocSpan, float | None]], relations: Sequence[SpanRelation]) -> None:
    spans = [span for span, _ in entities]
    scores = [score for _, score in entities if score is not None]
    doc.spans[GROUP] = SpanGroup(doc, name=GROUP, attrs={"scores": scores} if scores else {}, spans=spans)
    key: Any = user_key(_DETAILS)
    doc.user_data[key] = [_record(span) | _score(score) for span, score in entities]
    set_relations(doc, relations)


def _stored(doc: Doc, name: str) -> list[Any]:
    key: Any = user_key(name)
    return list(doc.user_data.get(key) or ())


def _record(span: DocSpan) -> dict[str, Any]:
    characters = [span.start_char, span.end_char]
    return {"start": span.start, "end": span.end, "label": span.label_, "characters": characters}


def _score(score: float | None) -> dict[str, float]:
    return {} if score is None else {"score": float(score)}


def _relation(doc: Doc, record: Mapping[str, Any]) -> SpanRelation:
    head, tail = _span(doc, record["head"]), _span(doc, record["tail"])
    return SpanRelation(head, tail, str(record["label"]), record.get("score"))


def _span(doc: Doc, record: Mapping[str, Any]) -> DocSpan:
    label = record["label"]
    if "characters" not in record:
        return DocSpan(doc, record["start"], record["end"], label=label)
    start, end = record["characters"]
    span = doc.char_span(start, end, label=label, alignment_mode="expand")
    if span is None:
        raise ValueError(f"characters [{start}, {end}) of {len(doc.text)}")
    return span


def _damaged(name: str, error: Exception) -> RelatumError:
    return RelatumError(
        f"doc._.{name}: found values of another form ({type(error).__name__}: {error}); set doc._.relations to a list "
        "of relatum.integrations.spacy.SpanRelation"
    )


def _entity(span: DocSpan, score: float | None = None) -> Entity:
    return Entity(Span(span.start_char, span.end_char), span.label_, score=score)


def _first(pairs: Iterable[tuple[Entity, DocSpan]]) -> list[Entity]:
    return [entity for entity, _ in pairs]


def _without_space(part: DocSpan) -> Span | None:
    words = [token for token in part if not token.is_space]
    return Span(words[0].idx, words[-1].idx + len(words[-1])) if words else None


def _raise_error(_name: str, _component: object, _docs: object, error: Exception) -> None:
    raise error


register_attributes()
