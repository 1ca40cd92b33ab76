"""Label Studio's JSON: an array of tasks, each with its text and the annotations made on it.

Offsets count characters (code points), as Label Studio has done since 2021; before that it counted UTF-16 units, which
the reader notices by the regions' own texts. Label Studio holds one relation for each ordered pair of regions, so the
relations of a pair are written as one that has all their labels.

What is found in a task beside its text, regions and relations is kept in the metadata: result items of other kinds
(choices, ratings, …) under `label_studio`, other columns of its data under `label_studio_data`, and what stands in its
`meta` as it is.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from relatum.data.formats.base import Format, Holds
from relatum.data.formats.label_studio.labeling import LabelingConfig, labeling_config
from relatum.data.formats.label_studio.reading import read, recognise
from relatum.data.formats.label_studio.writing import check, write, write_predictions
from relatum.schema import Schema

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


def predictions_of(schema: Schema, model_version: str) -> Format:
    """Return the format that writes annotations as the predictions of a model, for people to correct."""
    config = LabelingConfig.of_schema(schema)
    return replace(FORMAT, write=partial(write_predictions, config=config, model_version=model_version))
