"""The entities and relations that were found in a text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from relatum.errors import MissingExtraError, RelatumError
from relatum.types import Annotation, Document, Entity, Relation, Span

if TYPE_CHECKING:
    import pandas

    from relatum.graph import KnowledgeGraph

RECORD_COLUMNS = (
    *("document", "head", "head_label", "head_start", "head_end"),
    *("relation", "tail", "tail_label", "tail_start", "tail_end", "score"),
    *("evidence", "evidence_start", "evidence_end"),
)
"""The keys of `Extraction.to_records`, in their order."""
_SHOWN = 40
"""The number of characters of a text that the repr shows."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


@dataclass(frozen=True, slots=True, repr=False)
class Extraction:
    """The entities and relations of a text, in characters. Like all annotations, they are equal whatever the scores.

    `sentences` are the spans of the sentences that were read; empty if they are not known, as in an extraction that was
    read from a file.
    """

    document: Document
    sentences: tuple[Span, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, text: str, annotation: Annotation, id: str = "", sentences: Sequence[Span] = ()) -> Extraction:
        """Sort and number an annotation: entities are e1, e2, … by start; at equal starts the longer entity is first.

        Relations are sorted by the numbers of their heads, then of their tails. Of equal entities or relations, only
        the first is kept.
        """
        entities = sorted(dict.fromkeys(annotation.entities), key=lambda e: (e.span.start, -e.span.end, e.label))
        numbers: dict[Entity, int] = {}
        named: list[Entity] = []
        for number, entity in enumerate(entities):
            if entity.span.end > len(text):
                place = f"[{entity.span.start}, {entity.span.end})"
                raise RelatumError(f"the entity at {place} ends beyond the text, which has {len(text)} characters")
            numbers[entity] = number
            named.append(
                Entity(
                    entity.span,
                    entity.label,
                    entity.fragments,
                    entity.score,
                    f"e{number + 1}",
                    entity.span.of(text),
                )
            )
        # By numbers rather than by entities, which take far longer to hash.
        relations: dict[tuple[int, int, str], Relation] = {}
        for relation in annotation.relations:
            head = numbers.get(relation.head)
            tail = numbers.get(relation.tail)
            if head is None or tail is None:
                end = relation.head if head is None else relation.tail
                place = f"[{end.span.start}, {end.span.end})"
                raise RelatumError(f"{relation.label} relates {end.label} at {place}, which is not among the entities")
            relations.setdefault((head, tail, relation.label), relation)
        linked = [
            Relation(named[head], named[tail], label, relation.score, relation.id)
            for (head, tail, label), relation in sorted(relations.items(), key=itemgetter(0))
        ]
        return cls(Document(id, text, Annotation(tuple(named), tuple(linked))), tuple(sentences))

    @property
    def text(self) -> str:
        return self.document.text

    @property
    def entities(self) -> tuple[Entity, ...]:
        return self.document.annotation.entities

    @property
    def relations(self) -> tuple[Relation, ...]:
        return self.document.annotation.relations

    def with_id(self, id: str) -> Extraction:
        """Return the same extraction for a text of that name."""
        return replace(self, document=replace(self.document, id=id))

    def evidence(self, relation: Relation) -> Span | None:
        """Return the characters from the first to the last sentence of a relation's entities; None if not known."""
        from relatum.data.documents import find_evidence

        return find_evidence(self.sentences, relation)

    def to_graph(self) -> KnowledgeGraph:
        """Return the knowledge graph of this text; `KnowledgeGraph.of` merges several texts."""
        from relatum.graph import KnowledgeGraph

        return KnowledgeGraph.of([self])

    def above(self, threshold: float) -> Extraction:
        """Return what has at least that score, or no score, numbered anew. A relation is dropped with its entities."""
        check_threshold(threshold)

        def stays(item: Entity | Relation) -> bool:
            return item.score is None or item.score >= threshold

        entities = {entity.id: entity for entity in self.entities if stays(entity)}
        relations = [r for r in self.relations if stays(r) and r.head.id in entities and r.tail.id in entities]
        annotation = Annotation(tuple(entities.values()), tuple(relations))
        return Extraction.of(self.text, annotation, self.document.id, self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return the extraction as JSON can hold it; relations name entities by id, scores have four decimals."""
        return {
            "text": self.text,
            "entities": [
                {
                    "id": entity.id,
                    "start": entity.span.start,
                    "end": entity.span.end,
                    "text": entity.span.of(self.text),
                    "label": entity.label,
                    "score": _rounded(entity.score),
                }
                for entity in self.entities
            ],
            "relations": [
                {
                    "head": relation.head.id,
                    "tail": relation.tail.id,
                    "label": relation.label,
                    "score": _rounded(relation.score),
                }
                for relation in self.relations
            ],
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return one flat dict for each relation, with its ends and its evidence; `RECORD_COLUMNS` are its keys.

        Names are on one line; offsets count characters of the text. Evidence is None if the sentences are not known.
        """
        return list(map(self._record, self.relations))

    def _record(self, relation: Relation) -> dict[str, Any]:
        head, tail = relation.head, relation.tail
        evidence = self.evidence(relation)
        start, end = evidence or (None, None)
        values = (
            self.document.id,
            *(mention(head, self.text), head.label, *head.span),
            relation.label,
            *(mention(tail, self.text), tail.label, *tail.span),
            _rounded(relation.score),
            *(evidence.of(self.text) if evidence else None, start, end),
        )
        return dict(zip(RECORD_COLUMNS, values, strict=True))

    def to_pandas(self) -> pandas.DataFrame:
        """Return a DataFrame with a row for each relation; its columns are the keys of `to_records`."""
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("a DataFrame", "pandas") from None
        return pandas.DataFrame(self.to_records(), columns=list(RECORD_COLUMNS))

    def to_json(self, indent: int | None = None) -> str:
        """Return the extraction as JSON that every encoding of Unicode can hold, and that reads back as the same text.

        Letters stay as they are; a lone surrogate, half of a character, is escaped.
        """
        if pair := _SURROGATE_PAIR.search(self.text):
            raise RelatumError(
                f"characters {pair.start()} and {pair.end() - 1} of the text are the halves of one character, which "
                "JSON would join, so that offsets would be wrong; join them before extraction: "
                "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')"
            )
        written = json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)
        return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", written)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Extraction:
        """Read an extraction that `to_dict` made; an optional "id" names the text. Entities keep their ids."""
        from relatum.data.records import BadRecord

        try:
            return cls(_document(record))
        except BadRecord as bad:
            raise RelatumError(f"not an extraction: {bad}") from None

    def to_html(self) -> str:
        """Return an HTML page that shows the text with its entities and relations."""
        from relatum.extractor.drawing.html import page

        return page([self], self.document.id or "Entities and relations")

    def _repr_html_(self) -> str:
        from relatum.extractor.drawing.html import fragment, fragment_style

        return f"<style>{fragment_style()}</style>{fragment(self)}"

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= _SHOWN else f"{self.text[: _SHOWN - 1]}…"
        name = f"{self.document.id!r}, " if self.document.id else ""
        return f"<Extraction {name}{text!r}: {self._counts()}>"

    def _counts(self) -> str:
        return f"{_count(len(self.entities), 'entity', 'entities')}, {_count(len(self.relations), 'relation')}"

    def __str__(self) -> str:
        lines = [self._counts()]
        lines += [f"  {e.label}: {mention(e, self.text)}{shown_score(e.score)}" for e in self.entities]
        for relation in self.relations:
            head, tail = mention(relation.head, self.text), mention(relation.tail, self.text)
            lines.append(f"  {head} —{relation.label}→ {tail}{shown_score(relation.score)}")
        return "\n".join(lines)


def check_threshold(threshold: float) -> None:
    """Refuse a threshold that no score can be compared with."""
    try:
        is_score = 0 <= threshold <= 1
    except TypeError:  # a string, for example
        is_score = False
    if not is_score:
        raise ValueError(f"threshold is {threshold!r}; expected a score from 0 to 1, such as 0.9")


def mention(entity: Entity, text: str) -> str:
    """An entity's words on one line."""
    return " ".join(entity.span.of(text).split())


def shown_score(score: float | None) -> str:
    """Format a score for display; empty if None."""
    return "" if score is None else f" ({score:.2f})"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(float(score), 4)  # a float of numpy is not one of JSON


def _document(record: object) -> Document:
    from relatum.data.records import Field

    root = Field.root(record if not isinstance(record, Mapping) else dict(record))
    root.only("id", "text", "entities", "relations")
    text = root.need("text").text(empty=True, surrogates=True)
    entities: dict[str, Entity] = {}
    for item in root.need("entities").items():
        item.only("id", "start", "end", "text", "label", "score")
        name = item.need("id").name()
        score = item.optional_number("score")
        if name in entities:
            raise item.need("id").bad("an id that no other entity has")
        start, end = item.need("start"), item.need("end")
        span: Span = item.span(start.value, end.value, len(text), "characters")
        characters = span.of(text)
        if item.need("text").value != characters:
            raise item.need("text").bad(f"the text at its offsets, {characters!r}")
        entities[name] = Entity(span, item.label("label"), score=score, id=name, text=characters)
    relations = []
    for item in root.need("relations").items():
        item.only("head", "tail", "label", "score")
        head, tail = item.need("head"), item.need("tail")
        for end in (head, tail):
            if end.name() not in entities:
                raise end.bad("the id of an entity")
        label = item.label("label")
        score = item.optional_number("score")
        relations.append(Relation(entities[head.name()], entities[tail.name()], label, score))
    annotation = Annotation(tuple(entities.values()), tuple(relations))
    return Document(root.optional_name("id") or "", text, annotation)
