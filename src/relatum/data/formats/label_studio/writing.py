"""Writing documents as tasks, annotated or with a model's predictions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from relatum.data.documents import Names
from relatum.data.formats.base import write_array
from relatum.data.formats.label_studio.labeling import LabelingConfig
from relatum.data.records import BadRecord, shorten
from relatum.errors import FormatError
from relatum.types import Annotation, Document, Entity, Relation


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


def write_predictions(path: Path, documents: Iterable[Document], config: LabelingConfig, model_version: str) -> None:
    """Write tasks with a model's predictions; the id and the metadata of a document become the `meta` of its task."""

    def task(document: Document) -> dict[str, Any]:
        prediction, _ = make_prediction(document, config, model_version)
        meta: dict[str, object] = {"document": document.id, **document.metadata}
        return {"data": {"text": document.text}, "predictions": [prediction], "meta": meta}

    write_array(path, map(task, documents))


def make_prediction(
    document: Document, config: LabelingConfig, model_version: str
) -> tuple[dict[str, Any], Counter[str]]:
    """Return a prediction for a task, and how often labels were left out because the configuration does not offer them.

    A relation is also left out with one of its entities. The score of the prediction is the mean of all scores in it,
    and None if nothing was found.
    """
    found = document.annotation
    offered = [entity for entity in found.entities if entity.label in config.labels]
    names = Names(offered)
    kept = set(offered)
    relations = [r for r in found.relations if r.label in config.relations and {r.head, r.tail} <= kept]
    left_out = Counter([entity.label for entity in found.entities])
    left_out.update([relation.label for relation in found.relations])
    left_out.subtract([entity.label for entity in offered])
    left_out.subtract([relation.label for relation in relations])
    regions = []
    for entity, name in zip(offered, names.all, strict=True):
        from_name, label = config.labels[entity.label]
        shown = replace(entity, label=label, score=_rounded(entity.score))
        regions.append({**_region(shown, name, document.text), "from_name": from_name, "to_name": config.to_name})
    shown_relations = [
        replace(relation, label=config.relations[relation.label], score=_rounded(relation.score))
        for relation in relations
    ]
    result = [*regions, *_relation_items(shown_relations, names)]
    score = _rounded(Annotation(tuple(offered), tuple(relations)).mean_score())
    return {"result": result, "score": score, "model_version": model_version}, +left_out


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(float(score), 4)


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
