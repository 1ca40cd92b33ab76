"""The contents of a DocBin file as plain values: all code of the reader that touches spaCy."""

from __future__ import annotations

import gc
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from relatum.data.formats.docbin import CUSTOM, GROUP, user_key
from relatum.data.records import BadRecord, show

T = TypeVar("T")

MOST_UNPACKED = 2**28
"""The number of bytes that a file of any size may unpack to."""
LARGEST_RATIO = 100
"""The number of times its own size that a larger file may unpack to; annotated text packs to a third or a tenth."""
_CHUNK = 2**16


@dataclass(frozen=True, slots=True)
class Parts:
    """The contents of a spaCy Doc; spans count tokens."""

    tokens: list[str]
    after: list[str]
    """The white space that follows each token."""
    starts: list[int] | None
    """The tokens that begin a sentence."""
    entities: list[dict[str, object]]
    extras: dict[str, object]
    """Our custom attributes and the tutorial's, by name."""
    rest: list[str]
    """The names of contents that have no place in a document."""


class PackedDocs:
    """The documents of a DocBin; raises `BadRecord` if the bytes are no DocBin.

    Each document is unpacked by itself, so that a bad one does not take the rest with it.
    """

    def __init__(self, data: bytes) -> None:
        _check_size(data)
        self._vocab = Vocab()
        self._all = _decode(lambda: self._load(data), "a DocBin file, as spaCy's DocBin.to_disk writes it")

    def _load(self, data: bytes) -> DocBin:
        packed = DocBin().from_bytes(data)
        if len(set(packed.attrs)) < len(packed.attrs):  # spaCy would check only the first of two
            raise ValueError("a token attribute stands twice")
        for string in packed.strings:
            self._vocab.strings.add(string)
        return packed

    def __len__(self) -> int:
        return len(self._all)

    def parts(self, index: int) -> Parts:
        return _decode(lambda: _parts(self._unpack(index)), "a document that spaCy can read")

    def _unpack(self, index: int) -> Doc:
        single = DocBin()
        single.attrs = self._all.attrs
        for name in ("tokens", "spaces", "cats", "span_groups", "flags", "user_data"):
            setattr(single, name, getattr(self._all, name)[index : index + 1])
        return next(single.get_docs(self._vocab))


def _check_size(data: bytes) -> None:
    """Refuse a file that unpacks to far more than annotated text does, before spaCy takes the memory for it."""
    limit = max(MOST_UNPACKED, len(data) * LARGEST_RATIO)
    try:
        size = _unpacked_size(data, limit)
    except zlib.error:
        return  # spaCy says what is wrong with it
    if size > limit:
        raise BadRecord(
            f"{len(data):,} bytes that unpack to more than {limit:,}",
            "a DocBin that is not made to fill the memory; if you trust its source, write its documents to several "
            "files with spaCy",
        )


def _unpacked_size(data: bytes, limit: int) -> int:
    """Count the bytes that the data unpacks to, one piece at a time; stop beyond the limit."""
    unpacker = zlib.decompressobj()
    size = 0
    for start in range(0, len(data), _CHUNK):
        packed = data[start : start + _CHUNK]
        while packed and size <= limit:
            size += len(unpacker.decompress(packed, 16 * _CHUNK))
            packed = unpacker.unconsumed_tail
    return size


def _decode(work: Callable[[], T], expected: str) -> T:
    """Run `work`, in which spaCy decodes bytes, and return its result; any error becomes a `BadRecord`."""
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


def _parts(doc: Doc) -> Parts:
    starts = [0, *(token.i for token in doc if token.i and token.is_sent_start)]
    if doc.has_unknown_spaces:  # it came as words, and gets the text that words have in a document
        inner = set(starts)
        after = ["\n" if i in inner else " " for i in range(1, len(doc))] + [""] * bool(len(doc))
    else:
        after = [token.whitespace_ for token in doc]
    entities: list[dict[str, object]] = []
    for span in doc.spans.get(GROUP, doc.ents):
        entity: dict[str, object] = {"start": span.start, "end": span.end, "label": span.label_}
        if span.id_:
            entity["id"] = span.id_
        entities.append(entity)
    data: dict[Any, Any] = doc.user_data
    extras = {name: _plain(data[user_key(name)], name) for name in CUSTOM if user_key(name) in data}
    tutorial = data.get(user_key("rel"))
    if tutorial is not None and "relations" not in extras:
        if not isinstance(tutorial, dict):
            raise BadRecord(show(tutorial), "a dictionary {(head, tail): {label: score}}", "doc._.rel")
        extras["rel"] = [_plain(item, "rel") for item in tutorial.items()]
    return Parts(
        [token.text for token in doc],
        after,
        starts if doc.has_annotation("SENT_START") else None,
        entities,
        extras,
        _rest(doc, extras),
    )


def _plain(value: object, name: str) -> object:
    """Return a custom attribute in types that JSON has; msgpack gives tuples for lists, and numpy's own numbers."""
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise BadRecord(f"the keys {show(list(value))}", "keys that are strings", f"doc._.{name}")
        return {key: _plain(item, name) for key, item in value.items()}
    return value.item() if isinstance(value, numpy.generic) else value


def _rest(doc: Doc, extras: dict[str, object]) -> list[str]:
    known: set[Any] = {user_key(name) for name in extras}
    rest = [name for name in ("TAG", "POS", "MORPH", "LEMMA", "DEP") if doc.has_annotation(name)]
    rest += ["ENT_KB_ID"] if any(token.ent_kb_id for token in doc) else []
    rest += ["doc.cats"] if doc.cats else []
    is_in_group = set(doc.ents) <= set(doc.spans.get(GROUP, doc.ents))
    rest += [] if is_in_group else [f"doc.ents beside doc.spans[{GROUP!r}]"]
    rest += [f"doc.spans[{name!r}]" for name in doc.spans if name != GROUP]
    rest += sorted({f"user data {_name(key)!r}" for key in doc.user_data if key not in known})
    return rest


def _name(key: object) -> object:
    """Return the name of user data; for a custom attribute, without the place it belongs to."""
    return f"_.{key[1]}" if isinstance(key, tuple) and len(key) == 4 and key[0] == "._." else key
