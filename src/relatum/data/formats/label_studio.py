"""Label Studio's JSON: an array of tasks, each with its text and the annotations made on it.

Offsets count characters (code points), as Label Studio has done since 2021; before that it counted UTF-16 units, which
the reader notices by the regions' own texts. Label Studio holds one relation for each ordered pair of regions, so the
relations of a pair are written as one that has all their labels.

What is found in a task beside its text, regions and relations is kept in the metadata: result items of other kinds
(choices, ratings, …) under `label_studio`, other columns of its data under `label_studio_data`, and what stands in its
`meta` as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from relatum.data.documents import Names
from relatum.data.formats.base import Format, Holds, write_array
from relatum.data.formats.utf16 import characters_of_units
from relatum.data.json_files import first_record, json_array
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, Field, read_records, shorten, show
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
    return read_records(path, json_array(path, problems), _parse, problems)


def _parse(record: Field, default_id: str) -> Document:
    if "data" not in record.mapping():
        raise record.bad(
            "the key 'data', as every task has; export from Label Studio as JSON, not as JSON-MIN",
            f"only {', '.join(map(repr, record.mapping())) or 'no keys'}"[:200],
        )
    data = record.need("data")
    regions: list[Field] = []
    relations: list[Field] = []
    others: list[Field] = []
    lists = {"labels": regions, "relation": relations}
    for item in _results(record):
        kind = item.need("type").text()
        lists.get(kind, others).append(item)
    for item in others:
        item.remark("result item that is no region or relation, kept as it is")
    key = _text_key(data, regions)
    text = data.need(key).text(empty=True)
    entities, by_id = _entities(regions, _spans(record, regions, text))
    parsed_relations = tuple(relation for item in relations for relation in _relations(item, by_id))
    meta = record.mapping().get("meta") or {}
    metadata = dict(meta) if isinstance(meta, dict) else {"meta": meta}
    if columns := {name: value for name, value in data.mapping().items() if name != key}:
        metadata["label_studio_data"] = columns
    if others:
        metadata["label_studio"] = [item.value for item in others]
    name = record.optional_name("id") or default_id
    return Document(name, text, Annotation(tuple(entities), parsed_relations), metadata=metadata)


def _results(record: Field) -> list[Field]:
    """Return the result items of the annotation that counts: the first ground truth, or else the first submitted."""
    annotations = record.lists("annotations") or record.lists("completions")
    ready = [item for item in annotations if item.mapping().get("was_cancelled") is not True]
    truths = [item for item in ready if item.mapping().get("ground_truth") is True]
    for key in ("predictions", "drafts"):
        left_out = record.mapping().get(key)
        for _ in left_out if isinstance(left_out, list) else ():
            record.remark(f"{key} left out")
    if not ready:
        reason = "task whose annotations were all cancelled" if annotations else "task without annotation"
        record.remark(f"{reason}, read as a document without annotation")
        return []
    for _ in annotations[1:]:
        record.remark("annotation beside the one that was read")
    return (truths or ready)[0].need("result").items()


def _entities(regions: Sequence[Field], spans: Sequence[Span]) -> tuple[list[Entity], dict[str, list[Entity]]]:
    """Return an entity for each label of each region, and the entities of each region by the region's id."""
    entities: list[Entity] = []
    by_id: dict[str, list[Entity]] = {}
    for region, span in zip(regions, spans, strict=True):
        for key in region.mapping():
            if key not in _REGION:
                region.remark(f"property {shorten(key)} of a region left out")
        id = region.optional_name("id")
        score = region.optional_number("score")
        same = by_id.setdefault(id, []) if id is not None else []
        if same and same[0].span != span:
            raise region.bad("region ids that differ", f"the region id {show(id)} at another place")
        labels = region.need("value").need("labels")
        if not labels.texts():
            raise labels.bad("at least one label")
        for label in labels.texts():
            entity = Entity(span, label, score=score, id=None if same else id)
            same.append(entity)
            entities.append(entity)
    return entities, by_id


def _relations(item: Field, by_id: dict[str, list[Entity]]) -> Iterator[Relation]:
    ends = []
    for key in ("from_id", "to_id"):
        end = item.need(key)
        entities = by_id.get(end.name())
        if entities is None:
            raise end.bad("the id of a region with labels, of the same annotation")
        if len(entities) > 1:
            item.remark("relation at a region with several labels, read as of the first of them")
        ends.append(entities[0])
    direction = item.get("direction")
    towards = direction.text() if direction else "right"
    if direction and towards not in ("right", "left", "bi"):
        raise direction.bad("right, left or bi")
    if towards == "bi":
        item.remark("relation in both directions, read as two")
    labels = item.listed("labels").texts()
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


def _per_label(item: Field, key: str, n_labels: int) -> list[Field | None]:
    """Return the value (such as the score) of each label of a relation; several labels have their values in a list."""
    if n_labels == 1:
        return [item.get(key)]
    several = item.get(f"{key}s")
    fields = several.items(n_labels) if several else []
    return [None if field.value is None else field for field in fields] or [item.get(key)] * n_labels


def _distinct_texts(fields: Sequence[Field], key: str) -> list[str]:
    values = [field.mapping().get(key) for field in fields]
    return sorted({value for value in values if isinstance(value, str)})


def _text_key(data: Field, regions: Sequence[Field]) -> str:
    """Return the column that the regions lie in: the one they name, else `text`, else the only column that is text."""
    columns = data.mapping()
    texts = [key for key, value in columns.items() if isinstance(value, str)]
    sources = _distinct_texts(regions, "source")
    names = _distinct_texts(regions, "to_name")
    if len(names) > 1:
        raise data.bad("all regions on one text", f"regions on {', '.join(map(show, names))}")
    for key in (*(source.removeprefix("$") for source in sources), *names):
        if key in texts:
            return key
    if "text" in columns:
        return "text"
    if len(texts) != 1:
        found = f"the strings {', '.join(map(repr, texts)) or 'none'}"[:200]
        raise data.bad("the key 'text', or one string only", found)
    return texts[0]


def _spans(record: Field, regions: Sequence[Field], text: str) -> list[Span]:
    """Return the spans of the regions, with offsets counted so that the regions' own texts fit."""
    try:
        return [_span(region, text, range(len(text) + 1)) for region in regions]
    except BadRecord as by_characters:
        units = characters_of_units(text)
        try:
            spans = [_span(region, text, units) for region in regions]
        except BadRecord:
            raise by_characters from None
    record.remark("task whose offsets count UTF-16 units, read so")
    return spans


def _span(region: Field, text: str, positions: Sequence[int]) -> Span:
    """Return a region's span; `positions` maps its offsets to characters, and the region's own text must agree."""
    value = region.need("value")
    offsets = (value.need(key).integer(0) for key in ("start", "end"))
    start, end = (positions[offset] if offset < len(positions) else -1 for offset in offsets)
    span = value.span(start, end, len(text), "characters")
    surface = value.get("text")
    if surface and surface.text(empty=True) and _plain(surface.text()) != _plain(span.of(text)):
        place = f"the characters [{span.start}, {span.end}) of the text"
        raise surface.bad(f"{shorten(span.of(text))}, {place}", shorten(surface.text()))
    return span


def _plain(text: str) -> str:
    """Normalise a text for comparison: in regions, Label Studio writes line breaks as `\\n` and narrows white space."""
    return " ".join(text.replace("\\n", " ").split())


def check(document: Document) -> None:
    """Raise `BadRecord` for what Label Studio cannot hold."""
    _task(document)


def write(path: Path, documents: Iterable[Document]) -> None:
    write_array(path, map(_task_or_error, documents))


def _task_or_error(document: Document) -> dict[str, Any]:
    try:
        return _task(document)
    except BadRecord as bad:
        raise FormatError(f"document {shorten(document.id)}: found {bad.found}; expected {bad.expected}") from None


def _task(document: Document) -> dict[str, Any]:
    metadata = dict(document.metadata)
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
    regions = [_region(entity, name, document.text) for entity, name in zip(entities, names.all, strict=True)]
    result = [*regions, *_relation_items(document.annotation.relations, names), *others]
    return {
        "id": int(document.id) if re.fullmatch("0|[1-9][0-9]{0,15}", document.id) else document.id,
        "data": {"text": document.text, **columns},
        "annotations": [{"result": result, "was_cancelled": False, "ground_truth": False}],
        "predictions": [],
        **({"meta": metadata} if metadata else {}),
    }


def _region(entity: Entity, name: str, text: str) -> dict[str, Any]:
    if entity.fragments:
        pieces = " … ".join(piece.of(text) for piece in entity.fragments)
        raise BadRecord(
            f"the discontinuous entity {entity.label} {shorten(pieces)}",
            "entities of one piece, as Label Studio holds no others",
        )
    span = entity.span
    value = {"start": span.start, "end": span.end, "text": span.of(text), "labels": [entity.label]}
    region = {"id": name, "from_name": "label", "to_name": "text", "type": "labels", "value": value}
    return region if entity.score is None else {**region, "score": entity.score}


def _is_other(item: object) -> bool:
    kind = item.get("type") if isinstance(item, dict) else None
    return isinstance(kind, str) and kind not in ("", "labels", "relation")


def _relation_items(relations: Sequence[Relation], names: Names) -> Iterator[dict[str, Any]]:
    pairs: dict[tuple[str, str], list[Relation]] = {}
    for relation in relations:
        ends = names.of(relation.head), names.of(relation.tail)
        pairs.setdefault(ends, []).append(relation)
    for (head, tail), group in pairs.items():
        item: dict[str, Any] = {"from_id": head, "to_id": tail, "type": "relation", "direction": "right"}
        item["labels"] = [relation.label for relation in group]
        for key, values in (("score", [r.score for r in group]), ("id", [r.id for r in group])):
            if all(value is None for value in values):
                continue
            if len(values) == 1:
                item[key] = values[0]
            else:
                item[f"{key}s"] = values
        yield item


def labeling_config(schema: Schema) -> tuple[str, str]:
    """Return the labelling interface to set up in Label Studio before the tasks are imported."""
    from xml.sax.saxutils import quoteattr  # brings half of urllib with it

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
    holds=Holds(ids=True, words=False, text=True, scores=True, metadata=True),
    recognise=recognise,
    read=read,
    write=write,
    companion=labeling_config,
    check=check,
    record_keys=("id", "data", "annotations", "predictions"),
)
