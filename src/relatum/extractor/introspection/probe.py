"""Findings of every layer in a sentence: the trained scorers read S_l and T_l of all layers (paper, section 6.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relatum.extractor.extractor import Extractor
from relatum.extractor.introspection.layers import LayerOutputs, LayerReading
from relatum.extractor.introspection.overlay import lay_cells, lay_rows, lay_words
from relatum.extractor.result import Extraction
from relatum.tagging.spans import CORNERS, SpanTags
from relatum.tagging.table import NO_RELATION
from relatum.tagging.tagging import Tagging
from relatum.types import Annotation, Entity, Prediction, Relation, Sentence, Span

_ARROWS = "→←↔"
"""The first characters of tags that have a direction."""
DIGITS = 4
"""The number of decimals that scores, probabilities and attention are rounded to."""


@dataclass(frozen=True, slots=True, eq=False)
class ProbedLayer:
    """The findings of one layer in a sentence."""

    found: Extraction
    """The entities and relations, in characters of the whole text; entities are numbered within the sentence."""
    of_words: NDArray[np.float64]
    """(words, entity tags): probabilities."""
    of_cells: NDArray[np.float64] | None
    """(words, words, relation tags): probabilities; None where no relations are scored.

    A cell that the table does not fill, or whose words no window holds together, certainly has no relation. In span
    tagging each tag has a probability of its own, and that of the first, no tag, is 1 − the highest of the others: it
    is the likeliest where no tag is above 0.5.
    """
    attention: NDArray[np.float64] | None
    """(attention heads, words, words): each row sums to 1; None where there is no sequence encoder."""


@dataclass(frozen=True, slots=True)
class Change:
    """The entities and relations that a layer finds and the layer before it does not, and the other way round."""

    gained: Annotation
    lost: Annotation


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """The findings of all layers in a sentence, the first layer first; the last layer finds what the extractor finds.

    A sentence that the extractor reads in windows is probed in the same windows, and joined as the extractor joins
    them. For a word in several windows, the window counts in which the word stands farthest from an edge.
    """

    text: str
    """The whole text, not only the sentence."""
    words: tuple[Span, ...]
    """The words of the sentence, as spans in characters of the text."""
    windows: tuple[Span, ...]
    """The ranges of words that were read at once; several if the sentence is long."""
    entity_tags: tuple[str, ...]
    relation_tags: tuple[str, ...]
    """The tags of cells; the first is none."""
    relation_labels: tuple[str, ...]
    """The type of relation or entity that each tag of cells stands for; empty for the first tag."""
    independent_tags: bool
    """True in span tagging: each tag of a cell has a probability of its own, and they do not sum to 1."""
    layers: tuple[ProbedLayer, ...]

    def changes(self) -> list[Change]:
        """Return the change of each layer from the layer before it; the first layer has none before it: no change."""
        found = [layer.found.document.annotation for layer in self.layers]
        return [Change(Annotation(), Annotation()), *map(compare, found, found[1:])]

    def to_dict(self, tables: bool = True) -> dict[str, Any]:
        """The probe as JSON can hold it; without tables there are neither cells nor attention."""
        layers = [
            self._layer(number, layer, change, tables)
            for number, (layer, change) in enumerate(zip(self.layers, self.changes(), strict=True), 1)
        ]
        described: dict[str, Any] = {
            "words": [{"text": span.of(self.text), "start": span.start, "end": span.end} for span in self.words],
            "windows": [{"start": window.start, "end": window.end} for window in self.windows],
            "entity_tags": list(self.entity_tags),
            "relation_tags": list(self.relation_tags),
            "relation_labels": list(self.relation_labels),
            "independent_tags": self.independent_tags,
            "layers": layers,
        }
        if tables:
            described["attention"] = [_rounded(layer.attention) for layer in self.layers]
        return described

    def _layer(self, number: int, layer: ProbedLayer, change: Change, tables: bool) -> dict[str, Any]:
        found = layer.found.to_dict()
        best = layer.of_words.argmax(-1)
        certainty = layer.of_words.max(-1)
        described = {
            "layer": number,
            "entities": found["entities"],
            "relations": found["relations"],
            "words": [
                {"tag": self.entity_tags[tag], "probability": round(probability, DIGITS)}
                for tag, probability in zip(best.tolist(), certainty.tolist(), strict=True)
            ],
        }
        if tables:
            cells = layer.of_cells
            described["cells"] = [] if cells is None else _best_tags(cells)
            described["no_relation"] = [] if cells is None else _rounded(cells[..., 0])
        places = {relation: place for place, relation in enumerate(layer.found.relations)}
        described["gained"] = {
            "entities": [entity.id for entity in change.gained.entities],
            "relations": [places[relation] for relation in change.gained.relations],
        }
        described["lost"] = {
            "entities": [self._entity(entity) for entity in change.lost.entities],
            "relations": [self._relation(relation) for relation in change.lost.relations],
        }
        return described

    def _entity(self, entity: Entity) -> dict[str, Any]:
        """Describe an entity of another layer; its id is from that layer."""
        start, end = entity.span
        score = None if entity.score is None else round(float(entity.score), DIGITS)
        return {
            "id": entity.id,
            "start": start,
            "end": end,
            "text": entity.span.of(self.text),
            "label": entity.label,
            "score": score,
        }

    def _relation(self, relation: Relation) -> dict[str, Any]:
        return {
            "head": self._entity(relation.head),
            "tail": self._entity(relation.tail),
            "label": relation.label,
            "score": None if relation.score is None else round(float(relation.score), DIGITS),
        }


def compare(before: Annotation, after: Annotation) -> Change:
    """Return what is gained and lost between two annotations; findings with the same words and labels are equal."""

    def without(one: Annotation, other: Annotation) -> Annotation:
        entities, relations = set(other.entities), set(other.relations)
        return Annotation(
            tuple(entity for entity in one.entities if entity not in entities),
            tuple(relation for relation in one.relations if relation not in relations),
        )

    return Change(gained=without(after, before), lost=without(before, after))


def make_probe(extractor: Extractor, text: str, sentence: Sentence, readings: Sequence[LayerOutputs]) -> Probe:
    """Make the probe of a sentence from the readings of its windows; its offsets count from the start of the text."""
    assert sentence.offsets is not None
    model = extractor.model
    windows = [reading.window for reading in readings]

    def layer(parts: Sequence[LayerReading]) -> ProbedLayer:
        in_windows = [(window, part.found) for window, part in zip(windows, parts, strict=True)]
        found = extractor.join_windows(in_windows, len(sentence))
        cells = [part.of_cells for part in parts if part.of_cells is not None]
        attention = [part.attention for part in parts if part.attention is not None]
        return ProbedLayer(
            extractor.join_sentences(text, [Prediction(sentence, found)]),
            lay_words(windows, [part.of_words for part in parts], len(sentence)),
            _make_table(model.tagging, windows, cells, len(sentence)) if cells else None,
            lay_rows(windows, attention, len(sentence)) if attention else None,
        )

    layers = zip(*(reading.layers for reading in readings), strict=True)
    return Probe(
        text,
        sentence.offsets,
        tuple(windows),
        model.tagging.words.names,
        (NO_RELATION, *_shown_names(model.tagging)),
        ("", *_find_labels(model.tagging)),
        model.tagging.has_tag_sets,
        tuple(layer(parts) for parts in layers),
    )


def _make_table(
    tagging: Tagging, windows: Sequence[Span], parts: Sequence[NDArray[np.float64]], n_words: int
) -> NDArray[np.float64]:
    """Merge the cells of the windows, as `ProbedLayer.of_cells` describes them."""
    if tagging.has_tag_sets:
        table = lay_cells(windows, parts, n_words, no_relation=None)[..., : -len(CORNERS)]
        return np.concatenate((1 - table.max(-1, keepdims=True), table), -1)
    table = lay_cells(windows, parts, n_words)
    empty = ~tagging.fill_mask(n_words)
    table[empty] = 0
    table[empty, 0] = 1
    return table


def _find_labels(tagging: Tagging) -> list[str]:
    """Return the type of each tag of cells other than none."""
    tags = tagging.cells
    if not isinstance(tags, SpanTags):
        return [name.removeprefix(name[0] if name[0] in _ARROWS else "") for name in tags.names[1:]]
    labels = _shown_names(tagging)
    for forward, mirrored, name in zip(tags.forward, tags.mirrored, tagging.schema.relation_names, strict=True):
        labels[forward] = labels[mirrored] = name
    return labels


def _shown_names(tagging: Tagging) -> list[str]:
    """Return the tags of cells other than none, without the corners of span tagging, which no type belongs to."""
    names = tagging.cells.names
    return list(names[: -len(CORNERS)] if tagging.has_tag_sets else names[1:])


def _rounded(values: NDArray[np.float64] | None) -> list[Any]:
    rounded: list[Any] = [] if values is None else np.round(values, DIGITS).tolist()
    return rounded


def _best_tags(cells: NDArray[np.float64]) -> list[list[list[float]]]:
    """Return the likeliest tag of each cell, and the tag's probability."""
    best = cells.argmax(-1).tolist()
    certainty = np.round(cells.max(-1), DIGITS).tolist()
    rows = []
    for best_of_row, certainty_of_row in zip(best, certainty, strict=True):
        row = [[tag, probability] for tag, probability in zip(best_of_row, certainty_of_row, strict=True)]
        rows.append(row)
    return rows
