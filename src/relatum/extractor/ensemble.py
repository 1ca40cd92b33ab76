"""An ensemble of several models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from relatum.config import Config
from relatum.data.splitting import Rule, Splitter
from relatum.encoders.base import TextEncoder
from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.extractor.finding import find_model
from relatum.extractor.hub import PushedModel, PushOptions
from relatum.extractor.introspection.layers import LayerOutputs
from relatum.extractor.piping import OnProgress
from relatum.extractor.unseen import find_unseen
from relatum.models.model import Model
from relatum.runtime.base import Runtime
from relatum.runtime.ensemble import EnsembleRuntime
from relatum.runtime.precision import Precision
from relatum.schema import RelationType, Schema
from relatum.types import Entity, Sentence

if TYPE_CHECKING:
    import torch

_THRESHOLDS = ("entity_threshold", "relation_threshold")
_FITTED = tuple(f"decoding.{key}" for key in _THRESHOLDS)
"""Settings that were fitted to each member."""
_CURE = "read with models of the same labels, tags and decoding, such as those of relatum train --runs"


class Ensemble(Extractor):
    """An ensemble: average the models' probabilities of words and of cells, and decode once.

    The models must have the same labels, and the same settings of text, tagging and decoding; encoders and sizes may
    differ. All other settings are the first model's, but batches and windows are small enough for every model. An
    encoder that several models share, or the same encoders side by side, reads once for all of them. Scores come
    from the mean probabilities, uncalibrated: what calibrates a member does not calibrate the ensemble.
    """

    def __init__(
        self,
        members: Sequence[Model],
        names: Sequence[str] | None = None,
        batch_size: int | None = None,
        max_cells: int | None = None,
        splitter: Splitter | None = None,
    ) -> None:
        if not members:
            raise RelatumError("an ensemble needs at least one model; name some")
        first = members[0]
        titles = names or [f"model {number}" for number in range(1, len(members) + 1)]
        check_alike([(title, one.config, one.schema) for title, one in zip(titles, members, strict=True)])
        schema = _join_schemas([member.schema for member in members])
        config = _join_limits(members)
        joined = replace(first, config=config, schema=schema, calibration=None)
        super().__init__(joined, "", batch_size, max_cells, splitter)
        self.members = tuple(members)
        self._unseen = find_unseen(members)
        self.name = " + ".join(names or ())

    def save(self, path: str | Path) -> None:
        raise RelatumError(f"{path}: an ensemble is not a model, and is not saved; keep the folders of its members")

    def push_to_hub(self, name: str, **_: Unpack[PushOptions]) -> PushedModel:
        raise RelatumError(f"{name}: an ensemble is not a model, and is not pushed; push its members one by one")

    def read_layers(
        self,
        sentences: Sequence[Sentence],
        entities: Sequence[Sequence[Entity]] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[tuple[int, list[LayerOutputs]]]:
        del sentences, entities, on_progress
        raise RelatumError("an ensemble has no layers of its own to look at; look at one of its members at a time")

    def _select(self) -> Runtime:
        return EnsembleRuntime(self.members)

    def _pieces(self, words: Sequence[str]) -> tuple[list[int], int | None]:
        """Return the most pieces that any encoder makes of each word, and the lowest limit of pieces of any encoder."""
        encoders = [member.encoder for member in self.members if member.encoder is not None]
        if not encoders:
            return [1] * len(words), None
        limits = [encoder.max_pieces for encoder in encoders if encoder.max_pieces is not None]
        counts = zip(*(encoder.count_pieces(words) for encoder in encoders), strict=True)
        return list(map(max, counts)), min(limits, default=None)


def load_ensemble(
    names: Sequence[str | Path],
    device: torch.device | str | None,
    precision: Precision,
    batch_size: int | None,
    max_cells: int | None,
    words: str | Rule | None = None,
    sentences: str | Rule | None = None,
) -> Ensemble:
    """Load the models of these names, or in these directories, as an ensemble."""
    check_distinct(names)
    members: list[Model] = []
    versions: list[str] = []
    splitter: Splitter | None = None
    encoders: dict[tuple[str, int], TextEncoder] = {}
    for name in names:
        loaded = Extractor.from_pretrained(name, device, precision, words=words, sentences=sentences)
        member = loaded.model
        if member.encoder is not None:  # the same one is kept once, and reads for all who have it
            key = member.encoder.fingerprint, member.encoder.n_mixed
            member = replace(member, encoder=encoders.setdefault(key, member.encoder))
        members.append(member)
        versions.append(loaded.version)
        splitter = splitter or loaded.splitter
    ensemble = Ensemble(members, [str(name) for name in names], batch_size, max_cells, splitter)
    ensemble.version = " + ".join(versions)
    return ensemble


def check_distinct(names: Sequence[str | Path]) -> None:
    """Refuse a model that is named twice, also by another name."""
    places = [find_model(name).resolve() for name in names]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise RelatumError(f"{names[number]}: the model is named twice; its second voice would not be its own")


def check_alike(members: Sequence[tuple[str, Config, Schema]]) -> None:
    """Refuse a model whose probabilities do not mean the same as the first's.

    A model is given by its name, its settings and its labels.
    """
    name, config, schema = members[0]
    expected = _aspects(config, schema)
    for other_name, other_config, other_schema in members[1:]:
        found = _aspects(other_config, other_schema)
        for what in expected:
            if found[what] != expected[what]:
                raise RelatumError(
                    f"{other_name} cannot join {name}: {what} is {found[what]} there and {expected[what]} here; {_CURE}"
                )


def _aspects(config: Config, schema: Schema) -> dict[str, str]:
    """Return everything that the meaning of a model's probabilities depends on, by name."""
    kinds = schema.relation_types
    aspects = {
        "the list of entity types": ", ".join(schema.entity_types) or "empty",
        "the list of relation types": ", ".join(schema.relation_names) or "empty",
        "the list of symmetric types": ", ".join(kind.name for kind in kinds if kind.symmetric) or "empty",
        "the table of relations": "missing" if config.table.kind == "none" else "filled",
    }
    sections = {"text": config.text, "tagging": config.tagging, "decoding": config.decoding}
    for name, section in sections.items():
        aspects |= {f"{name}.{key}": repr(value) for key, value in section.to_dict().items()}
    return {name: value for name, value in aspects.items() if name not in _FITTED}


def _join_schemas(schemas: Sequence[Schema]) -> Schema:
    """Return the schema that the models share; a relation connects whatever it connects in any of the schemas."""
    first = schemas[0]
    same_kinds = zip(*(schema.relation_types for schema in schemas), strict=True)
    return replace(first, relation_types=tuple(_join_kinds(same, first.entity_types) for same in same_kinds))


def _join_kinds(kinds: Sequence[RelationType], labels: Sequence[str]) -> RelationType:
    """Return the relation type that connects whatever any of these connects."""
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]

    def is_allowed(head: str, tail: str) -> bool:
        return any(kind.allows(head, tail) for kind in kinds)

    return kinds[0].connecting([(head, tail) for head, tail in product(labels, repeat=2) if is_allowed(head, tail)])


def _join_limits(members: Sequence[Model]) -> Config:
    """Return the first model's settings, with batches and windows that suit all, and the largest context of any.

    The thresholds of entities and relations are the means of all.
    """
    config = members[0].config
    sections = [member.config.extraction for member in members]
    limits = {
        "batch_size": min(section.batch_size for section in sections),
        "max_cells": min(section.max_cells for section in sections),
        "max_words": min(section.max_words for section in sections),
        "overlap": max(section.overlap for section in sections),
    }
    context = max(member.config.encoder.context for member in members)  # each encoder knows how many of them it reads
    extraction = config.extraction.model_copy(update=limits)
    encoder = config.encoder.model_copy(update={"context": context})
    decoding = config.decoding.model_copy(update={key: _mean_threshold(members, key) for key in _THRESHOLDS})
    return config.model_copy(update={"extraction": extraction, "encoder": encoder, "decoding": decoding})


def _mean_threshold(members: Sequence[Model], key: str) -> float:
    return sum(getattr(member.config.decoding, key) or 0.5 for member in members) / len(members)
