"""Reading tasks: the annotation that counts, its regions as entities, and its relations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from relatum.data.formats.utf16 import characters_of_units
from relatum.data.json_files import first_record, json_array
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, Field, read_records, shorten, show
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


def _parse(record: Field, default_id: str) -> Document | None:
    if "data" not in record.mapping():
        raise record.bad(
            "the key 'data', as every task has; export from Label Studio as JSON, not as JSON-MIN",
            f"only {', '.join(map(repr, record.mapping())) or 'no keys'}"[:200],
        )
    data = record.need("data")
    data.mapping()  # before a task without annotations is passed over
    regions: list[Field] = []
    relations: list[Field] = []
    others: list[Field] = []
    lists = {"labels": regions, "relation": relations}
    results = _results(record)
    if results is None:
        return None
    for item in results:
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


def _results(record: Field) -> list[Field] | None:
    """Return the result items of the annotation that counts: the first ground truth, or else the first submitted.

    None if nobody has annotated the task: what a model has predicted is not what is right, and neither is nothing.
    """
    annotations = record.lists("annotations") or record.lists("completions")
    ready = [item for item in annotations if item.mapping().get("was_cancelled") is not True]
    truths = [item for item in ready if item.mapping().get("ground_truth") is True]
    for key in ("predictions", "drafts"):
        left_out = record.mapping().get(key)
        for _ in left_out if isinstance(left_out, list) else ():
            record.remark(f"{key} left out")
    if not ready:
        reason = "task whose annotations were all cancelled" if annotations else "task that nobody has annotated"
        record.remark(f"{reason}, left out")
        return None
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
