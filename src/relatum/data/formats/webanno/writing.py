"""Writing WebAnno TSV."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count

from relatum.data.documents import split_parts, word_annotation
from relatum.data.formats.folders import check_text
from relatum.data.formats.utf16 import units_of_characters
from relatum.data.records import BadRecord, show
from relatum.types import Document, Entity, Span

_NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
_HEADER = (
    "#FORMAT=WebAnno TSV 3.3",
    f"#T_SP={_NAMED_ENTITY}|identifier|value",
    f"#T_RL=webanno.custom.Relation|label|BT_{_NAMED_ENTITY}",
    "",
)
_WHITE = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\b": "\\b"}


def _escape(text: str, special: str) -> str:
    """Escape backslashes, the special characters, and white space that would end a cell or line."""
    return re.sub(f"->|[\\\\\t\n\r\f\b{re.escape(special)}]", lambda match: _WHITE.get(match[0], f"\\{match[0]}"), text)


def _value(text: str) -> str:
    if not text:
        raise BadRecord("an empty label", "labels that are not empty")
    return _escape(text, "[]|_;*")


def file_content(document: Document) -> str:
    """Return the content of a document's file."""
    check_text(document)
    return "\n".join([*_HEADER, *_lines(document)]) + "\n"


def _lines(document: Document) -> Iterator[str]:
    words, sentences = split_parts(document)
    units = units_of_characters(document.text)
    cells = _annotation_cells(document)
    starts = _sentence_starts(document)
    for number, (first, last) in enumerate(sentences):
        yield ""
        text = document.text[starts[number] : starts[number + 1]]
        if number + 1 < len(sentences):
            text = text.removesuffix("\n")
        yield "#Text=" + re.sub("[\\\\\t\n\r\f\b]", lambda match: _WHITE.get(match[0], "\\\\"), text)
        for index in range(first, last):
            start, end = words[index]
            word = _escape(document.text[start:end], "[]|_;*")
            place = f"{number + 1}-{index - first + 1}", f"{units[start]}-{units[end]}"
            yield "\t".join((*place, word, *cells[index])) + "\t"


def _sentence_starts(document: Document) -> list[int]:
    """Return the start of each sentence with the white space before the first, and the end of the text."""
    words, sentences = split_parts(document)
    return [0, *(words[sentence.start].start for sentence in sentences[1:]), len(document.text)]


def _annotation_cells(document: Document) -> dict[int, tuple[str, str, str, str]]:
    """Return the cells of each word: identifier and value of entities, label and head of relations."""
    annotation = word_annotation(document)
    entities = list(dict.fromkeys(annotation.entities))
    numbers = _numbers(entities)
    at: defaultdict[int, list[Entity]] = defaultdict(list)
    for entity in entities:
        for index in range(*entity.span):
            at[index].append(entity)
    relations: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
    addresses = _addresses(split_parts(document)[1])
    for relation in annotation.relations:
        head, tail = relation.head, relation.tail
        ends = numbers[head], numbers[tail]
        source = addresses[head.span.start] + (f"[{ends[0]}_{ends[1]}]" if any(ends) else "")
        relations[tail.span.start].append((_value(relation.label), source))
    cells = {}
    for index in range(len(addresses)):
        brackets = [f"[{numbers[entity]}]" if numbers[entity] else "" for entity in at[index]]
        cells[index] = (
            "|".join(f"*{bracket}" for bracket in brackets) or "_",
            "|".join(_value(entity.label) + bracket for entity, bracket in zip(at[index], brackets, strict=True))
            or "_",
            "|".join(label for label, _ in relations[index]) or "_",
            "|".join(source for _, source in relations[index]) or "_",
        )
    return cells


def _addresses(sentences: Sequence[Span]) -> list[str]:
    return [f"{n}-{i}" for n, sentence in enumerate(sentences, 1) for i in range(1, sentence.width + 1)]


def _numbers(entities: Sequence[Entity]) -> dict[Entity, int]:
    """Return the number of each entity that has several words or shares one; 0 for others."""
    used: defaultdict[int, int] = defaultdict(int)
    for entity in entities:
        if entity.fragments:
            raise BadRecord(f"the discontinuous entity {show(entity.label)}", "entities of one piece")
        for index in range(*entity.span):
            used[index] += 1
    new = count(1)
    return {e: next(new) if e.span.width > 1 or used[e.span.start] > 1 else 0 for e in entities}
