"""The annotation in an `.apf.xml` file: mentions found in the text, relations between them, and clusters."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from relatum.data.formats.ace import LEFT_OUT
from relatum.data.formats.ace.markup import OFFSET_RULES, Piece, Ruler
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, show
from relatum.errors import Problem
from relatum.types import Annotation, Entity, Relation, Span

_ROLES = {"Arg-1": "Arg-1", "1": "Arg-1", "Arg-2": "Arg-2", "2": "Arg-2"}


def read_annotation(
    content: Element, text: str, pieces: Sequence[Piece], where: str, problems: Problems
) -> tuple[Annotation, tuple[tuple[Span, ...], ...]] | None:
    """Return entities and relations, each once, and clusters; None if heads are not where the file says they are."""
    mentions = list(_mentions(content))
    spans = _heads(mentions, text, pieces, where, problems)
    if spans is None:
        return None
    by_id: dict[str, Entity] = {}
    known: dict[Entity, Entity] = {}
    groups: dict[tuple[str, str], set[Span]] = {}
    for mention, span in zip(mentions, spans, strict=True):
        entity = Entity(span, mention.label, id=mention.id)
        by_id[mention.id] = known.setdefault(entity, entity)
        groups.setdefault(mention.group, set()).add(span)
    problems.remark("mentions left out that have head and type of another", where, len(mentions) - len(known))
    relations: list[Relation] = []
    arguments: dict[Relation, tuple[str, str]] = {}
    for head, tail, label, name in _relations(content, by_id, where, problems):
        relation = Relation(by_id[head], by_id[tail], label, id=name)
        if arguments.setdefault(relation, (head, tail)) == (head, tail):
            relations.append(relation)
        else:
            problems.remark("relations left out that equal another, as their mentions do", where)
    entities = tuple(sorted(known, key=lambda entity: (entity.span, entity.label)))
    clusters = (tuple(sorted(group)) for key, group in groups.items() if len(group) > 1 or key[0] == "CLUSTER")
    return Annotation(entities, tuple(relations)), tuple(clusters)


class _Mention(NamedTuple):
    """A mention as the annotation file has it; `last` is the offset of the last character of its head."""

    id: str
    label: str
    group: tuple[str, str]
    start: int
    last: int
    text: str


def _mentions(content: Element) -> Iterator[_Mention]:
    seen: set[str] = set()
    for number, entity in enumerate(content.iter("entity")):
        label = _need(entity, "TYPE")
        cluster = entity.get("CLUSTER")
        group = ("entity", str(number)) if cluster is None else ("CLUSTER", cluster)
        for mention in entity.iter("entity_mention"):
            name = _need(mention, "ID")
            field = f"mention {name}"
            if name in seen:
                raise BadRecord("an ID that another mention has", "IDs that differ", field)
            seen.add(name)
            head = mention.find("head/charseq")
            if head is None:
                raise BadRecord("no head", "<head> with a <charseq> in it", field)
            start, last = (_offset(head, key, field) for key in ("START", "END"))
            yield _Mention(name, label, group, start, last, "".join(head.itertext()))


def _need(element: Element, key: str) -> str:
    value = element.get(key)
    name = element.get("ID")
    if not value:
        found = f"<{element.tag}> without {key}"
        raise BadRecord(found, f"an attribute {key} that is not empty", f"{element.tag} {name}" if name else None)
    return value


def _offset(element: Element, key: str, field: str) -> int:
    value = element.get(key)
    if value is None or not re.fullmatch(r"[0-9]{1,9}", value):
        raise BadRecord(f"{key}={show(value)}" if value else f"no {key}", "a number of characters", field)
    return int(value)


def _heads(
    mentions: Sequence[_Mention], text: str, pieces: Sequence[Piece], where: str, problems: Problems
) -> list[Span] | None:
    """Return the head of each mention, counting offsets by the rule that agrees with the texts given for the mentions.

    Return None if no rule agrees with all texts; the mentions that disagree with the best rule become problems.
    """
    best: list[Span | None] = []
    wrong = list(range(len(mentions) + 1))
    for rule in OFFSET_RULES:
        ruler = Ruler(pieces, rule)
        spans = [ruler.span(mention.start, mention.last) for mention in mentions]
        differing = [
            number
            for number, (mention, span) in enumerate(zip(mentions, spans, strict=True))
            if span is None or _bare(span.of(text)) != _bare(mention.text)
        ]
        if len(differing) < len(wrong):
            best, wrong = spans, differing
        if not wrong:
            return [span for span in best if span]
    found_wrong = []
    for number in wrong:
        mention = mentions[number]
        span = best[number]
        place = f"characters {mention.start} to {mention.last}"
        found = f"{place} in a text of {len(text)}" if span is None else f"{show(span.of(text))} at {place}"
        found_wrong.append(Problem(where, found, f"the head {show(mention.text)}", field=f"mention {mention.id}"))
    problems.add(*found_wrong)
    return None


def _bare(text: str) -> str:
    """Normalise a text for comparison: the two files may differ in white space and in their use of references."""
    return "".join(html.unescape(text).split())


def _relations(
    content: Element, mentions: Mapping[str, Entity], where: str, problems: Problems
) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield for each relation the IDs of Arg-1 and Arg-2, its type, and its own ID."""
    for relation in content.iter("relation"):
        label = _need(relation, "TYPE")
        relation_mentions = list(relation.iter("relation_mention"))
        if label in LEFT_OUT:
            problems.remark(f"{label} relations left out, as is usual", where, max(len(relation_mentions), 1))
            continue
        for mention in relation_mentions:
            name = mention.get("ID")
            field = f"relation mention {name}"
            ends: dict[str, str] = {}
            for argument in mention:
                if argument.tag not in ("relation_mention_argument", "rel_mention_arg"):
                    continue
                role = _ROLES.get(argument.get("ROLE") or argument.get("ARGNUM") or "")
                if role is None:
                    problems.remark("arguments of relations left out that are neither Arg-1 nor Arg-2", where)
                    continue
                target = argument.get("REFID") or argument.get("ENTITYMENTIONID") or ""
                if target not in mentions:
                    raise BadRecord(f"the argument {show(target)}", "the ID of an entity mention of this file", field)
                if role in ends:
                    raise BadRecord(f"two arguments {role}", "one Arg-1 and one Arg-2", field)
                ends[role] = target
            if len(ends) < 2:
                raise BadRecord("too few arguments", "one Arg-1 and one Arg-2", field)
            yield ends["Arg-1"], ends["Arg-2"], label, name
