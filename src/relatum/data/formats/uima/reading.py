"""Reading XMI."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import Element

from relatum.data.formats.utf16 import characters_of_units
from relatum.data.formats.xml_files import parse_xml
from relatum.data.json_files import read_bytes
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, show
from relatum.types import Annotation, Document, Entity, Relation, Span

_ENDS = (("Governor", "Dependent"), ("source", "target"), ("head", "tail"))
"""Features that name the ends of a relation."""
_LABELS = ("value", "label", "relType", "role")
_OWN = {"xmi:id", "sofa", "begin", "end"}
_SEGMENTATION = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type."
_TOKEN, _SENTENCE = f"{_SEGMENTATION}Token", f"{_SEGMENTATION}Sentence"
_LINGUISTIC = re.compile(r"\.(lexmorph|segmentation|syntax|metadata|transform)\.|^uima\.(tcas|cas)\.")
"""Types that hold no entities, such as tokens and parts of speech."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A feature structure with a place in the text: its type, id, features and span."""

    type: str
    id: str
    features: Mapping[str, str]
    span: Span | None
    """None if it has no place, or is empty."""

    @property
    def label(self) -> str:
        named = (self.features[name] for name in _LABELS if self.features.get(name))
        return next(named, self.type.rpartition(".")[2])

    @property
    def ends(self) -> tuple[str, str] | None:
        for head, tail in _ENDS:
            if head in self.features and tail in self.features:
                return self.features[head], self.features[tail]
        return None


def parse_file(path: Path, id: str, problems: Problems) -> Document | None:
    data = read_bytes(path, problems)
    if data is None:
        return None
    root = parse_xml(data)
    if not root.tag.endswith("XMI"):
        raise BadRecord(f"the element <{root.tag}>", "<xmi:XMI>")
    packages = {key[6:]: _package(value) for key, value in root.attrib.items() if key.startswith("xmlns:")}
    sofa, text = _text(root, packages, str(path), problems)
    items = list(_items(root, packages, sofa, text))
    annotation = _annotation(items, str(path), problems)
    words, sentences = _words(items, str(path), problems)
    return Document(id, text, annotation, words, sentences)


def _package(namespace: str) -> str:
    """Return the package that a namespace such as `http:///webanno/custom.ecore` stands for."""
    return namespace.removeprefix("http:///").removesuffix(".ecore").replace("/", ".")


def _type(element: Element, packages: Mapping[str, str]) -> str:
    prefix, _, name = element.tag.rpartition(":")
    package = packages.get(prefix, prefix)
    return name if package in ("", "uima.noNamespace") else f"{package}.{name}"


def _text(root: Element, packages: Mapping[str, str], where: str, problems: Problems) -> tuple[str, str]:
    """Return the id and the text of the view that is read: the initial one, or else the first."""
    sofas = [element for element in root if _type(element, packages) == "uima.cas.Sofa"]
    texts = [sofa for sofa in sofas if "sofaString" in sofa.attrib]
    if not texts:
        raise BadRecord("no text", "an element <cas:Sofa> with a sofaString")
    sofa = next((one for one in texts if one.get("sofaID") == "_InitialView"), texts[0])
    problems.remark("view beside the one that was read", where, len(sofas) - 1)
    return sofa.get("xmi:id", ""), sofa.attrib["sofaString"]


def _items(root: Element, packages: Mapping[str, str], sofa: str, text: str) -> Iterator[_Item]:
    positions = characters_of_units(text)
    for element in root:
        if element.get("sofa") == sofa and "begin" in element.attrib:
            yield _Item(_type(element, packages), element.get("xmi:id", ""), element.attrib, _span(element, positions))


def _span(element: Element, positions: Sequence[int]) -> Span | None:
    ends = []
    for key in ("begin", "end"):
        value = element.get(key, "")
        at = int(value) if re.fullmatch("[0-9]{1,12}", value) else len(positions)
        if at >= len(positions) or positions[at] < 0:
            field = f"{element.tag} {element.get('xmi:id', '')}"
            expected = f"a UTF-16 offset of at most {len(positions) - 1} that does not cut a character in two"
            raise BadRecord(f"the {key} {show(value)}", expected, field)
        ends.append(positions[at])
    if ends[0] > ends[1]:
        raise BadRecord(f"the offsets {ends[0]} and {ends[1]}", "a begin before the end", element.tag)
    return Span(*ends) if ends[0] < ends[1] else None


def _annotation(items: Sequence[_Item], where: str, problems: Problems) -> Annotation:
    by_id = {item.id: item for item in items}
    links = [(item, ends) for item in items if (ends := item.ends) and not _LINGUISTIC.search(item.type)]
    types = _entity_types(items, [by_id[end].type for _, ends in links for end in ends if end in by_id])
    entities: dict[str, Entity] = {}
    for item in items:
        if item.type in types and not item.ends:
            if item.span is None:
                problems.remark("annotations without characters left out", where)
            else:
                entities[item.id] = Entity(item.span, item.label)
    relations = []
    for item, ends in links:
        if not all(end in entities for end in ends):
            problems.remark("relations left out whose ends are no annotations that were read", where)
        else:
            relations.append(Relation(entities[ends[0]], entities[ends[1]], item.label))
    read = {*types, *(item.type for item, _ in links), _TOKEN, _SENTENCE, "uima.tcas.DocumentAnnotation"}
    for type, times in Counter(item.type for item in items if item.type not in read).items():
        problems.remark(f"annotations of the type {type}, which is not read", where, times)
    for type in sorted(types):
        others = sum(len(_other_features(item)) for item in items if item.type == type)
        problems.remark(f"features of {type} that are not read", where, others)
    return Annotation(tuple(entities.values()), tuple(relations))


def _entity_types(items: Sequence[_Item], named: Iterable[str]) -> set[str]:
    types = {type for type in named if not _LINGUISTIC.search(type)}
    present = dict.fromkeys(item.type for item in items if not item.ends and not _LINGUISTIC.search(item.type))
    if not types:
        types = {type for type in present if type.endswith(".NamedEntity")}
    return types or set(list(present)[:1])


def _other_features(item: _Item) -> set[str]:
    label = next((name for name in _LABELS if item.features.get(name)), "")
    return item.features.keys() - _OWN - {label}


def _words(
    items: Sequence[_Item], where: str, problems: Problems
) -> tuple[tuple[Span, ...] | None, tuple[Span, ...] | None]:
    """Return tokens and sentences as words and ranges of words; nothing if they do not fit each other."""
    tokens = sorted(item.span for item in items if item.type == _TOKEN and item.span)
    borders = sorted(item.span for item in items if item.type == _SENTENCE and item.span)
    if not tokens or not borders:
        return None, None
    ranges, at = [], 0
    for sentence in borders:
        first = at
        while at < len(tokens) and sentence.contains(tokens[at]):
            at += 1
        if at > first:
            ranges.append(Span(first, at))
    if at < len(tokens) or any(one.end > other.start for one, other in pairwise(tokens)):
        problems.remark("tokens that overlap or lie in no sentence: words and sentences are not read", where)
        return None, None
    return tuple(tokens), tuple(ranges)
