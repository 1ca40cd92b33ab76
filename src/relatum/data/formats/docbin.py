"""spaCy's DocBin, a `.spacy` file: entities as spaCy keeps them, relations as the custom attribute `doc._.relations`.

Words are the tokens that are not white space; the text survives to the last character. Entities are `doc.ents`, or the
span group `doc.spans["entities"]` where some overlap. What spaCy has no place for lies in custom attributes of the
`Doc` (register them with `Doc.set_extension(name, default=None)` to see them), in plain values that count tokens:

- `relations`: a list of `{"label", "head", "tail"}`, with `"score"`, `"id"` and `"attributes"` where there are any;
  head and tail are `{"start", "end", "label"}`, with the entity's `"id"` and `"fragments"` where it has them
- `entity_details`: the entities in their order with scores, fragments and attributes, where spaCy cannot say all this
- `id`; `clusters`, as lists of `[start, end]`; `metadata_json`, as JSON text; and `word_tokens`, the numbers of the
  tokens that are words, where white space alone does not tell

Relations in the form of spaCy's relation extraction tutorial, `doc._.rel`, are read too. A DocBin cannot be written
piece by piece: all documents are collected before the file appears.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from relatum.data.documents import split_parts, word_annotation, word_clusters
from relatum.data.formats.base import Format, Holds
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, Field, SeenIds, parse_json, show
from relatum.errors import FormatError, MissingExtraError, Problem
from relatum.types import Annotation, Attribute, Document, Entity, Relation, Span

if TYPE_CHECKING:
    from spacy.tokens import Doc, DocBin
    from spacy.vocab import Vocab

THRESHOLD = 0.5
"""The score from which a label in the tutorial's `doc._.rel` counts as a relation."""

_GROUP = "entities"
_OWN = ("id", "relations", "entity_details", "clusters", "metadata_json", "word_tokens")

Remark = Callable[[str, int], None]
T = TypeVar("T")


def recognise(path: Path) -> bool:
    try:
        if path.suffix != ".spacy" or not path.is_file():
            return False
        with path.open("rb") as file:
            start = zlib.decompressobj().decompress(file.read(1024), 64)
    except (OSError, zlib.error):
        return False
    return start[:1] >= b"\x80" and b"attrs" in start  # a msgpack map, with a key that stands near its front


def read(path: Path, problems: Problems) -> Iterator[Document]:
    _need_spacy()
    return _read(path, problems)


def _need_spacy() -> None:
    if importlib.util.find_spec("spacy") is None:
        raise MissingExtraError("the DocBin format", "spacy")


def _read(path: Path, problems: Problems) -> Iterator[Document]:
    from spacy.vocab import Vocab

    vocab = Vocab()
    data = path.read_bytes()
    try:
        packed = _decode(lambda: _load(data, vocab), "a DocBin file, as spaCy's DocBin.to_disk writes it")
    except BadRecord as bad:
        problems.add(Problem(str(path), bad.found, bad.expected))
        return
    seen = SeenIds()
    try:
        for number in range(1, len(packed) + 1):

            def parts(place: int = number - 1) -> _Parts:
                return _parts(_unpack(packed, place, vocab))

            def remark(what: str, times: int, number: int = number) -> None:
                problems.remark(what, f"{path} (record {number})", times)

            try:
                document = _parse(_decode(parts, "a document that spaCy can read"), f"{path.stem}-{number}", remark)
                first = seen.add(document.id, number)
                if first is not None:
                    raise BadRecord(f"the id {show(document.id)} again (first in record {first})", "ids that differ")
                yield document
            except BadRecord as bad:
                problems.add(Problem(str(path), bad.found, bad.expected, record=number, field=bad.field))
    finally:
        seen.close()


def _decode(work: Callable[[], T], expected: str) -> T:
    """What spaCy makes of its bytes; whatever it stumbles over is a `BadRecord`."""
    collecting = gc.isenabled()
    try:
        return work()
    except BadRecord:
        raise
    except Exception as error:  # spaCy trusts its input, so bad bytes come up as errors of any kind
        message = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise BadRecord(f"bytes that spaCy cannot decode ({message[:150]})", expected) from None
    finally:
        if collecting:
            gc.enable()  # unpacking turns the collector off, and an error leaves it so


def _load(data: bytes, vocab: Vocab) -> DocBin:
    from spacy.tokens import DocBin

    packed = DocBin().from_bytes(data)
    if len(set(packed.attrs)) < len(packed.attrs):  # spaCy would check only the first of two
        raise ValueError("a token attribute stands twice")
    for string in packed.strings:
        vocab.strings.add(string)
    return packed


def _unpack(packed: DocBin, place: int, vocab: Vocab) -> Doc:
    """One document by itself, so that a bad one does not take the rest with it."""
    from spacy.tokens import DocBin

    one = DocBin()
    one.attrs = packed.attrs
    for name in ("tokens", "spaces", "cats", "span_groups", "flags", "user_data"):
        setattr(one, name, getattr(packed, name)[place : place + 1])
    return next(one.get_docs(vocab))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a spaCy Doc says, in plain values; spans count tokens."""

    tokens: list[str]
    after: list[str]
    """The white space that follows each token."""
    starts: list[int] | None
    """The tokens that begin a sentence."""
    entities: list[dict[str, object]]
    extras: dict[str, object]
    """Our custom attributes and the tutorial's, by name."""
    rest: list[str]
    """What is there but has no place in a document."""


def _parts(doc: Doc) -> _Parts:
    starts = [0, *(token.i for token in doc if token.i and token.is_sent_start)]
    if doc.has_unknown_spaces:  # it came as words, and gets the text that words have in a document
        inner = set(starts)
        after = ["\n" if i in inner else " " for i in range(1, len(doc))] + [""] * bool(len(doc))
    else:
        after = [token.whitespace_ for token in doc]
    entities: list[dict[str, object]] = [
        {"start": span.start, "end": span.end, "label": span.label_} | ({"id": span.id_} if span.id_ else {})
        for span in doc.spans.get(_GROUP, doc.ents)
    ]
    data: dict[Any, Any] = doc.user_data
    extras = {name: _plain(data[_key(name)], name) for name in _OWN if _key(name) in data}
    tutorial = data.get(_key("rel"))
    if tutorial is not None and "relations" not in extras:
        if not isinstance(tutorial, dict):
            raise BadRecord(show(tutorial), "a dictionary {(head, tail): {label: score}}", "doc._.rel")
        extras["rel"] = [_plain(item, "rel") for item in tutorial.items()]
    return _Parts(
        [token.text for token in doc],
        after,
        starts if doc.has_annotation("SENT_START") else None,
        entities,
        extras,
        _rest(doc, extras),
    )


def _key(name: str) -> tuple[str, str, None, None]:
    """Where spaCy keeps a custom attribute of a whole document."""
    return ("._.", name, None, None)


def _plain(value: object, name: str) -> object:
    """A custom attribute as JSON would have it; msgpack gives tuples for lists, and numpy's numbers as they were."""
    import numpy

    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise BadRecord(f"the keys {show(list(value))}", "keys that are strings", f"doc._.{name}")
        return {key: _plain(item, name) for key, item in value.items()}
    return value.item() if isinstance(value, numpy.generic) else value


def _rest(doc: Doc, extras: dict[str, object]) -> list[str]:
    known: set[Any] = {_key(name) for name in extras}
    rest = [name for name in ("TAG", "POS", "MORPH", "LEMMA", "DEP") if doc.has_annotation(name)]
    rest += ["ENT_KB_ID"] if any(token.ent_kb_id for token in doc) else []
    rest += ["doc.cats"] if doc.cats else []
    rest += ["doc.ents beside doc.spans['entities']"] if _GROUP in doc.spans and doc.ents else []
    rest += [f"doc.spans[{name!r}]" for name in doc.spans if name != _GROUP]
    rest += sorted({f"user data {_name(key)!r}" for key in doc.user_data if key not in known})
    return rest


def _name(key: object) -> object:
    """The name of user data; that of a custom attribute without the place it belongs to."""
    return f"_.{key[1]}" if isinstance(key, tuple) and len(key) == 4 and key[0] == "._." else key


@dataclass(frozen=True, slots=True)
class _Tokens:
    """Where a Doc's tokens lie in the text, and which of them are words."""

    offsets: list[tuple[int, int]]
    words: list[int]

    def under(self, start: int, end: int) -> Span | None:
        """The words among the tokens, as a range of words."""
        first, last = bisect_left(self.words, start), bisect_left(self.words, end)
        return Span(first, last) if first < last else None

    def characters(self, place: Field, start: object, end: object) -> Span:
        """The characters of the words among the tokens, without what lies around them."""
        span = place.span(start, end, len(self.offsets), "tokens")
        words = self.under(span.start, span.end)
        if words is None:
            raise place.bad("a span that holds a word", f"no word in the tokens [{span.start}, {span.end})")
        return Span(self.offsets[self.words[words.start]][0], self.offsets[self.words[words.end - 1]][1])

    def pair(self, place: Field) -> Span:
        start, end = place.items(2)
        return self.characters(place, start.value, end.value)


def _parse(parts: _Parts, default_id: str, remark: Remark) -> Document:
    def extra(name: str) -> Field | None:
        value = parts.extras.get(name)
        return None if value is None else Field(value, None, f"doc._.{name}")

    def items(name: str) -> list[Field]:
        found = extra(name)
        return found.items() if found else []

    tokens = _tokens(parts, extra("word_tokens"))
    details = _details(parts, items("entity_details"), remark)
    entities = [_entity(item, tokens, remark) for item in details]
    stated = items("relations")
    known: dict[Entity, list[Entity]] = {}
    for entity in entities:
        known.setdefault(entity, []).append(entity)
    relations = [_relation(item, tokens, known) for item in stated]
    targets: list[Entity | Relation] = [*entities, *relations]
    attributes = [
        Attribute(target, name, value)
        for target, item in zip(targets, (*details, *stated), strict=True)
        for name, value in _attributes(item)
    ]
    relations += _tutorial_relations(items("rel"), details, entities, remark)
    name, metadata = extra("id"), extra("metadata_json")
    for what in parts.rest:
        remark(f"documents whose {what} was passed over, as it has no place here", 1)
    return Document(
        name.name() if name else default_id,
        "".join(token + space for token, space in zip(parts.tokens, parts.after, strict=True)),
        Annotation(tuple(entities), tuple(relations)),
        tuple(Span(*tokens.offsets[number]) for number in tokens.words),
        _sentences(parts, tokens, remark),
        tuple(tuple(map(tokens.pair, cluster.items())) for cluster in items("clusters")),
        tuple(attributes),
        Field(parse_json(metadata.text()), None, "doc._.metadata_json").mapping() if metadata else {},
    )


def _tokens(parts: _Parts, given: Field | None) -> _Tokens:
    offsets = []
    at = 0
    for token, space in zip(parts.tokens, parts.after, strict=True):
        offsets.append((at, at + len(token)))
        at += len(token) + len(space)
    if given is None:
        return _Tokens(offsets, [number for number, token in enumerate(parts.tokens) if not token.isspace()])
    words = [item.integer(0, len(offsets) - 1) for item in given.items()]
    if any(a >= b for a, b in pairwise(words)):
        raise given.bad("the numbers of tokens, in order")
    return _Tokens(offsets, words)


def _sentences(parts: _Parts, tokens: _Tokens, remark: Remark) -> tuple[Span, ...]:
    if parts.starts is None:
        remark("documents without sentence starts, read as one sentence", 1)
    borders = [*(parts.starts or [0]), len(parts.tokens)]
    found = (tokens.under(start, end) for start, end in pairwise(borders))
    return tuple(sentence for sentence in found if sentence)


def _details(parts: _Parts, given: list[Field], remark: Remark) -> list[Field]:
    """The entities as spaCy has them, or with our details where those still speak of the same entities."""

    def same(items: list[Field]) -> Counter[tuple[str, ...]]:
        return Counter(tuple(show(item.need(key).value) for key in ("start", "end", "label")) for item in items)

    native = Field(parts.entities, None, "entities").items()
    if given and same(given) == same(native):
        return given
    remark("documents whose doc._.entity_details was passed over, as the entities have changed since", bool(given))
    return native


def _entity(item: Field, tokens: _Tokens, remark: Remark | None = None) -> Entity:
    item.only("start", "end", "label", "fragments", "id", "score", "attributes")
    start, end = item.need("start").integer(0), item.need("end").integer(1)
    span = tokens.characters(item, start, end)
    fragments, score, name = item.get("fragments"), item.get("score"), item.get("id")
    pieces = tuple(map(tokens.pair, fragments.items())) if fragments else ()
    if pieces and (
        len(pieces) < 2
        or (pieces[0].start, pieces[-1].end) != (span.start, span.end)
        or any(a.end > b.start for a, b in pairwise(pieces))
    ):
        raise item.bad("two or more fragments in order, from 'start' to 'end'")
    if remark and (tokens.offsets[start][0], tokens.offsets[end - 1][1]) != (span.start, span.end):
        remark("entities with white space at their ends, which was left out", 1)
    return Entity(
        span,
        item.need("label").text(),
        pieces,
        score.number() if score else None,
        name.name() if name else None,
    )


def _attributes(item: Field) -> Iterator[tuple[str, str | None]]:
    found = item.get("attributes")
    for pair in found.items() if found else []:
        name, value = pair.items(2)
        yield name.text(empty=True), None if value.value is None else value.text(empty=True)


def _relation(item: Field, tokens: _Tokens, known: dict[Entity, list[Entity]]) -> Relation:
    item.only("label", "head", "tail", "score", "id", "attributes")
    ends = []
    for key in ("head", "tail"):
        end = _entity(item.need(key), tokens)
        if end not in known:
            raise item.need(key).bad("the span and label of an entity of this document")
        ends.append(next((entity for entity in known[end] if entity.id == end.id), known[end][0]))
    score, name = item.get("score"), item.get("id")
    return Relation(
        ends[0],
        ends[1],
        item.need("label").text(),
        score.number() if score else None,
        name.name() if name else None,
    )


def _tutorial_relations(
    rows: list[Field], details: list[Field], entities: Sequence[Entity], remark: Remark
) -> Iterator[Relation]:
    """Relations as spaCy's tutorial has them: {(first token of head, first token of tail): {label: score}}."""
    at: dict[object, list[Entity]] = {}
    for item, entity in zip(details, entities, strict=True):
        at.setdefault(item.need("start").value, []).append(entity)
    for row in rows:
        pair, labels = row.items(2)
        for label, value in labels.mapping().items():
            score = Field(value, labels, label).number()
            if score < THRESHOLD:
                # The tutorial fills in 0 for every label that does not hold: nothing is lost with those.
                remark(f"labels in doc._.rel scored above 0 but below {THRESHOLD}, passed over", score > 0)
                continue
            for end in pair.items(2):
                if end.integer() not in at:
                    raise end.bad("the first token of an entity")
            heads, tails = (at[end.value] for end in pair.items(2))
            remark(
                "relations in doc._.rel given to the first of several entities at one token",
                len(heads) > 1 or len(tails) > 1,
            )
            yield Relation(heads[0], tails[0], Field(label, labels, label).text(), score)


def write(path: Path, documents: Iterable[Document]) -> None:
    _need_spacy()
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    vocab = Vocab()
    packed = DocBin(store_user_data=True)
    for document in documents:
        packed.add(_doc(document, vocab))
    try:
        data = packed.to_bytes()
    except ValueError as error:
        raise FormatError(f"{len(packed)} documents are too many for one DocBin ({error}); write several") from None
    path.write_bytes(data)


def _doc(document: Document, vocab: Vocab) -> Doc:
    from spacy import tokens as spacy

    words, sentences = split_parts(document)
    texts, spaces, places = _cover(document.text, words)
    starts = {0, *(places[sentence.start] for sentence in sentences[1:])}
    doc = spacy.Doc(vocab, words=texts, spaces=spaces, sent_starts=[i in starts for i in range(len(texts))])

    def pair(span: Span) -> list[int]:
        return [places[span.start], places[span.end - 1] + 1]

    def end(entity: Entity) -> dict[str, Any]:
        record: dict[str, Any] = dict(zip(("start", "end"), pair(entity.span), strict=True), label=entity.label)
        if entity.fragments:
            record["fragments"] = [pair(piece) for piece in entity.fragments]
        return record | _id(entity)

    annotation = word_annotation(document)
    entities = [end(entity) for entity in annotation.entities]
    spans = [
        spacy.Span(doc, item["start"], item["end"], label=item["label"], span_id=item.get("id", 0)) for item in entities
    ]
    kept = sorted(spans, key=lambda span: span.start)
    if all(span.label_ for span in spans) and all(a.end <= b.start for a, b in pairwise(kept)):
        doc.ents = kept
    else:
        doc.spans[_GROUP] = kept = spans
    relations = [{"label": r.label, "head": end(r.head), "tail": end(r.tail), **_id(r)} for r in annotation.relations]
    _complete([*entities, *relations], document)
    plain = kept == spans and all(item.keys() <= {"start", "end", "label", "id"} for item in entities)
    telling = [i for i, text in enumerate(texts) if not text.isspace()] == places
    extras: dict[str, object] = {
        "id": document.id or None,
        "relations": relations or None,
        "entity_details": None if plain else entities,
        "clusters": [list(map(pair, cluster)) for cluster in word_clusters(document)] or None,
        "metadata_json": json.dumps(dict(document.metadata)) if document.metadata else None,
        "word_tokens": None if telling else places,
    }
    data: dict[Any, Any] = doc.user_data
    data.update({_key(name): value for name, value in extras.items() if value is not None})
    return doc


def _id(item: Entity | Relation) -> dict[str, str]:
    return {"id": item.id} if item.id else {}


def _cover(text: str, words: Sequence[Span]) -> tuple[list[str], list[bool], list[int]]:
    """Tokens that make up the whole text, whether a space follows each, and which of them the words are."""
    texts: list[str] = []
    spaces: list[bool] = []
    places: list[int] = []
    at = 0
    for word in (*words, None):
        gap = text[at : word.start if word else len(text)]
        if texts and gap.startswith(" "):
            spaces[-1] = True
            gap = gap[1:]
        for token in (gap, word.of(text) if word else ""):
            if token:
                texts.append(token)
                spaces.append(False)
        if word:
            places.append(len(texts) - 1)
            at = word.end
    return texts, spaces, places


def _complete(records: Sequence[dict[str, Any]], document: Document) -> None:
    """Put scores and attributes on the records of all entities and relations."""
    targets: tuple[Entity | Relation, ...] = (*document.annotation.entities, *document.annotation.relations)
    for record, target in zip(records, targets, strict=True):
        if target.score is not None:
            record["score"] = target.score
    for attribute in document.attributes:
        # Two annotations may be equal while only one of them carries the attribute: identity goes first.
        same = (i for i, target in enumerate(targets) if target is attribute.target)
        record = records[next(same, targets.index(attribute.target))]
        record.setdefault("attributes", []).append([attribute.name, attribute.value])


FORMAT = Format(
    name="docbin",
    title="spaCy DocBin",
    suffix=".spacy",
    holds=Holds(words=True, text=True, discontinuous=True, clusters=True, attributes=True, scores=True, metadata=True),
    recognise=recognise,
    read=read,
    write=write,
)
