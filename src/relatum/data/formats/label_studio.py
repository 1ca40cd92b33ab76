"""Label Studio's JSON: an array of tasks, each with its text and the annotations made on it.

Offsets count characters (code points), as Label Studio has done since 2021; before that it counted UTF-16 units, which
the reader notices by the regions' own texts. Label Studio holds one relation for each ordered pair of regions, so the
relations of a pair are written as one that has all their labels.

What is found in a task beside its text, regions and relations is kept in the metadata: result items of other kinds
(choices, ratings, …) under `label_studio`, other columns of its data under `label_studio_data`, and what stands in its
`meta` as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from relatum.data.documents import Names
from relatum.data.formats.base import Format, Holds, write_array
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, Field, first_record, json_array, read_records, show
from relatum.errors import FormatError
from relatum.schema import Schema
from relatum.types import Annotation, Document, Entity, Relation, Span

_REGION = ("id", "type", "value", "from_name", "to_name", "source", "origin", "score")


def recognise(path: Path) -> bool:
    try:
        record = first_record(path) if path.is_file() else None
    except OSError:
        return False
    return (
        isinstance(record, dict)
        and isinstance(record.get("data"), dict)
        and not record.keys().isdisjoint(("annotations", "completions", "predictions"))
    )


def read(path: Path, problems: Problems) -> Iterator[Document]:
    def parse(record: Field, default_id: str) -> Document:
        task = _Task(record, default_id)
        document = task.document()
        for remark, times in task.remarks.items():
            problems.remark(remark, f"{path}, task {document.id}", times)
        return document

    return read_records(path, json_array(path, problems), parse, problems)


@dataclass(frozen=True, slots=True)
class _Region:
    """A labelled stretch of text, its offsets not yet understood."""

    field: Field
    id: str | None
    labels: list[str]
    score: float | None


class _Task:
    """One task being read, with what is to be remarked on it."""

    def __init__(self, record: Field, default_id: str) -> None:
        if "data" not in record.mapping():
            raise record.bad(
                "the key 'data', as every task has; export from Label Studio as JSON, not as JSON-MIN",
                f"only {', '.join(map(repr, record.mapping())) or 'no keys'}"[:200],
            )
        id_field = record.get("id")
        self.id = id_field.name() if id_field else default_id
        self.record = record
        self.data = record.need("data")
        self.remarks: dict[str, int] = {}

    def document(self) -> Document:
        regions, relations, others = self._results()
        key = _text_key(self.data, [region.field for region in regions])
        text = Field(self.data.mapping()[key], self.data, key).text(empty=True)
        entities, by_id = self._entities(regions, text)
        annotation = Annotation(tuple(entities), tuple(r for item in relations for r in self._relations(item, by_id)))
        return Document(self.id, text, annotation, metadata=self._metadata(key, others))

    def _remark(self, what: str, times: int = 1) -> None:
        if times:
            self.remarks[what] = self.remarks.get(what, 0) + times

    def _results(self) -> tuple[list[_Region], list[Field], list[Field]]:
        """The result items of the annotation that counts: regions, relations and others."""
        field = self.record.get("annotations") or self.record.get("completions")
        annotations = field.items() if field else []
        ready = [item for item in annotations if item.mapping().get("was_cancelled") is not True]
        truths = [item for item in ready if item.mapping().get("ground_truth") is True]
        chosen = next(iter(truths or ready), None)
        if chosen is None:
            reason = "task whose annotations were all cancelled" if annotations else "task without annotation"
            self._remark(f"{reason}, read as a document without annotation")
        else:
            self._remark("annotation beside the one that was read", len(annotations) - 1)
        for key in ("predictions", "drafts"):
            left_out = self.record.mapping().get(key)
            self._remark(f"{key} left out", len(left_out) if isinstance(left_out, list) else 0)
        regions: list[_Region] = []
        relations: list[Field] = []
        others: list[Field] = []
        for item in chosen.need("result").items() if chosen else []:
            kind = item.need("type").text()
            if kind == "labels":
                regions.append(_region(item))
                for key in item.mapping():
                    self._remark(f"property {key!r} of a region left out", key not in _REGION)
            else:
                (relations if kind == "relation" else others).append(item)
        self._remark("result item that is no region or relation, kept as it is", len(others))
        return regions, relations, others

    def _entities(self, regions: Sequence[_Region], text: str) -> tuple[list[Entity], dict[str, list[Entity]]]:
        """An entity for each label of each region, and those of each region by its id."""
        entities: list[Entity] = []
        by_id: dict[str, list[Entity]] = {}
        for region, span in zip(regions, self._spans(regions, text), strict=True):
            same = by_id.setdefault(region.id, []) if region.id is not None else []
            if same and same[0].span != span:
                raise region.field.bad("region ids that differ", f"the region id {show(region.id)} at another place")
            for label in region.labels:
                entity = Entity(span, label, score=region.score, id=None if same else region.id)
                same.append(entity)
                entities.append(entity)
        return entities, by_id

    def _spans(self, regions: Sequence[_Region], text: str) -> list[Span]:
        try:
            return [_span(region.field, text, range(len(text) + 1)) for region in regions]
        except BadRecord as by_characters:
            units = _utf16_positions(text)
            try:
                spans = [_span(region.field, text, units) for region in regions]
            except BadRecord:
                raise by_characters from None
        self._remark("task whose offsets count UTF-16 units, read so")
        return spans

    def _relations(self, item: Field, by_id: dict[str, list[Entity]]) -> Iterator[Relation]:
        ends = []
        for key in ("from_id", "to_id"):
            end = item.need(key)
            if end.name() not in by_id:
                raise end.bad("the id of a region with labels, of the same annotation")
            found = by_id[end.name()]
            ends.append(found[0])
            self._remark("relation at a region with several labels, read as of the first of them", len(found) > 1)
        direction = item.get("direction")
        towards = direction.text() if direction else "right"
        if direction and towards not in ("right", "left", "bi"):
            raise direction.bad("right, left or bi")
        self._remark("relation in both directions, read as two", towards == "bi")
        labels_field = item.get("labels")
        labels = labels_field.texts() if labels_field else []
        if not labels:
            raise item.bad("a label in 'labels'", "a relation without label")
        scores = _per_label(item, "score", len(labels))
        ids = _per_label(item, "id", len(labels))
        for label, score, id in zip(labels, scores, ids, strict=True):
            known = score.number() if score else None, id.name() if id else None
            if towards != "left":
                yield Relation(ends[0], ends[1], label, *known)
            if towards != "right":
                yield Relation(ends[1], ends[0], label, *known)

    def _metadata(self, key: str, others: Sequence[Field]) -> dict[str, Any]:
        meta = self.record.mapping().get("meta") or {}
        metadata = dict(meta) if isinstance(meta, dict) else {"meta": meta}
        columns = {name: value for name, value in self.data.mapping().items() if name != key}
        if columns:
            metadata["label_studio_data"] = columns
        if others:
            metadata["label_studio"] = [item.value for item in others]
        try:
            json.dumps(metadata, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise self.record.bad("valid Unicode text", "a lone surrogate outside the text and the regions") from None
        except RecursionError:
            raise self.record.bad("a task of ordinary depth", "values nested too deeply") from None
        return metadata


def _region(item: Field) -> _Region:
    labels = item.need("value").need("labels")
    id, score = item.get("id"), item.get("score")
    if not labels.texts():
        raise labels.bad("at least one label")
    return _Region(item, id.name() if id else None, labels.texts(), score.number() if score else None)


def _per_label(item: Field, key: str, n_labels: int) -> list[Field | None]:
    """What a relation says for each of its labels: in a list of its own where there are several."""
    if n_labels == 1:
        return [item.get(key)]
    several = item.get(f"{key}s")
    fields = several.items(n_labels) if several else []
    return [None if field.value is None else field for field in fields] or [item.get(key)] * n_labels


def _text_key(data: Field, regions: Sequence[Field]) -> str:
    """Which column the regions lie in: the one they name, else `text`, else the only one that is text."""
    columns = data.mapping()
    texts = [key for key, value in columns.items() if isinstance(value, str)]
    sources, names = (
        sorted({value for region in regions if isinstance(value := region.mapping().get(key), str)})
        for key in ("source", "to_name")
    )
    if len(names) > 1:
        raise data.bad("all regions on one text", f"regions on {', '.join(map(show, names))}")
    for key in (*(source.removeprefix("$") for source in sources), *names):
        if key in texts:
            return key
    if "text" in columns:
        return "text"
    if len(texts) != 1:
        raise data.bad(
            "the key 'text', or one string only", f"the strings {', '.join(map(repr, texts)) or 'none'}"[:200]
        )
    return texts[0]


def _span(region: Field, text: str, positions: Sequence[int]) -> Span:
    """A region's place, each offset being that of the character in `positions`; the region's own text must agree."""
    value = region.need("value")
    offsets = (value.need(key).integer(0) for key in ("start", "end"))
    start, end = (positions[offset] if offset < len(positions) else -1 for offset in offsets)
    span = value.span(start, end, len(text), "characters")
    surface = value.get("text")
    if surface and surface.text(empty=True) and _plain(surface.text()) != _plain(span.of(text)):
        raise surface.bad(
            f"{span.of(text)!r}, the characters [{span.start}, {span.end}) of the text", repr(surface.value)
        )
    return span


def _utf16_positions(text: str) -> list[int]:
    """For each UTF-16 unit of a text the character that it begins, or -1 inside of one; the end comes last."""
    positions = []
    for at, character in enumerate(text):
        positions.append(at)
        if character > "\uffff":
            positions.append(-1)
    return [*positions, len(text)]


def _plain(text: str) -> str:
    """Text without what Label Studio changes in a region's text: line breaks become `\\n`, white space is narrowed."""
    return " ".join(text.replace("\\n", " ").split())


def write(path: Path, documents: Iterable[Document]) -> None:
    write_array(path, map(_record, documents))


def _record(document: Document) -> dict[str, Any]:
    text, metadata = document.text, dict(document.metadata)
    columns = metadata.get("label_studio_data")
    if isinstance(columns, dict) and columns and "text" not in columns:
        del metadata["label_studio_data"]
    else:
        columns = {}
    others = metadata.get("label_studio")
    if isinstance(others, list) and others and all(map(_is_other, others)):
        del metadata["label_studio"]
    else:
        others = []
    # Label Studio uses what follows a # in an id for itself.
    entities = [replace(e, id=None) if e.id and "#" in e.id else e for e in document.annotation.entities]
    names = Names(entities)
    regions = []
    for entity, name in zip(entities, names.all, strict=True):
        if entity.fragments:
            raise FormatError(
                f"document {document.id!r}: Label Studio cannot hold the discontinuous entity "
                f"{' … '.join(piece.of(text) for piece in entity.fragments)!r}"
            )
        value = {"start": entity.span.start, "end": entity.span.end, "text": entity.span.of(text)}
        region = {"id": name, "from_name": "label", "to_name": "text", "type": "labels"}
        score = {} if entity.score is None else {"score": entity.score}
        regions.append({**region, "value": {**value, "labels": [entity.label]}, **score})
    result = [*regions, *_relation_items(document.annotation.relations, names), *others]
    return {
        "id": int(document.id) if re.fullmatch("0|[1-9][0-9]{0,15}", document.id) else document.id,
        "data": {"text": text, **columns},
        "annotations": [{"result": result, "was_cancelled": False, "ground_truth": False}],
        "predictions": [],
        **({"meta": metadata} if metadata else {}),
    }


def _is_other(item: object) -> bool:
    return (
        isinstance(item, dict) and isinstance(item.get("type"), str) and item["type"] not in ("", "labels", "relation")
    )


def _relation_items(relations: Sequence[Relation], names: Names) -> Iterator[dict[str, Any]]:
    pairs: dict[tuple[str, str], list[Relation]] = {}
    for relation in relations:
        pairs.setdefault((names.of(relation.head), names.of(relation.tail)), []).append(relation)
    for (head, tail), group in pairs.items():
        item: dict[str, Any] = {"from_id": head, "to_id": tail, "type": "relation", "direction": "right"}
        item["labels"] = [relation.label for relation in group]
        for key, values in (("score", [r.score for r in group]), ("id", [r.id for r in group])):
            if any(value is not None for value in values):
                item |= {key: values[0]} if len(values) == 1 else {f"{key}s": values}
        yield item


def labeling_config(schema: Schema) -> tuple[str, str]:
    """The labelling interface to set up in Label Studio before the tasks are imported."""
    lines = ["<View>"]
    if schema.relation_types:
        relations = [f"    <Relation value={quoteattr(name)}/>" for name in schema.relation_names]
        lines += ['  <Relations choice="multiple">', *relations, "  </Relations>"]
    labels = [f"    <Label value={quoteattr(label)}/>" for label in schema.entity_types]
    lines += ['  <Labels name="label" toName="text">', *labels, "  </Labels>"]
    lines += ['  <Text name="text" value="$text"/>', "</View>"]
    return "labeling_config.xml", "\n".join(lines) + "\n"


FORMAT = Format(
    name="label-studio",
    title="Label Studio JSON",
    suffix=".json",
    holds=Holds(words=False, text=True, scores=True, metadata=True),
    recognise=recognise,
    read=read,
    write=write,
    companion=labeling_config,
)
