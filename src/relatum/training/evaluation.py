"""The scores of a trained model on annotated data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack

import torch

from relatum.config import Config, change_section
from relatum.data.atomic import replacing_file
from relatum.data.documents import from_words, words_by_sentence
from relatum.data.fitting import Crossing, Overlaps
from relatum.data.formats import get_format
from relatum.data.splitting import Rule
from relatum.errors import RelatumError
from relatum.evaluation.ceiling import Limits, measure_ceiling
from relatum.evaluation.metrics import usable_macro
from relatum.evaluation.report import SystemReport, check_resampling, make_report
from relatum.extractor.ensemble import Ensemble
from relatum.extractor.extractor import Extractor
from relatum.extractor.piping import OnProgress
from relatum.monitor import Monitor, Remarks
from relatum.runtime.precision import Precision
from relatum.training.corpus import load_part
from relatum.training.runs.models import runs_models
from relatum.types import Example, Prediction


class LoadingOptions(TypedDict, total=False):
    """The options of `Extractor.from_pretrained`."""

    device: torch.device | str | None
    precision: Precision
    batch_size: int | None
    max_cells: int | None
    words: str | Rule | None
    sentences: str | Rule | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEvaluation(SystemReport):
    """The scores of a model on annotated sentences, and everything they were computed from."""

    extractor: Extractor
    examples: Sequence[Example] = field(repr=False)
    """The sentences with their gold annotations."""
    predictions: Sequence[Prediction] = field(repr=False)
    """The entities and relations that the model found, one prediction for each example."""
    gold_entities: bool
    """True if the gold entities were given to the model."""
    remarks: tuple[str, ...]
    """The messages that the monitor heard."""

    @property
    def n_models(self) -> int:
        """The number of models: 1, unless they are an ensemble."""
        return len(self.extractor.members) if isinstance(self.extractor, Ensemble) else 1

    def write_predictions(self, path: str | Path) -> None:
        """Write the predictions, sentence by sentence, as relatum JSONL."""
        documents = (
            from_words(example.id, words_by_sentence(example.sentence), prediction.found)
            for example, prediction in zip(self.examples, self.predictions, strict=True)
        )
        with replacing_file(Path(path)) as draft:
            get_format("jsonl").write(draft, documents)


def evaluate_model(  # noqa: PLR0913 -- an argument for each option of the command
    model: str | Path | Sequence[str | Path] | Extractor,
    data: str | Path,
    part: str = "test",
    *,
    format: str | None = None,
    ensemble: bool = False,
    gold_entities: bool = False,
    overlaps: Overlaps | None = None,
    crossing: Crossing | None = None,
    bootstrap: int | None = None,
    seed: int = 0,
    monitor: Monitor | Callable[[str], object] | None = None,
    on_progress: OnProgress | None = None,
    **loading: Unpack[LoadingOptions],
) -> ModelEvaluation:
    """Let a model read annotated sentences, and score what it finds.

    The model is a name, a folder, an `Extractor`, or several names and folders, which are read with as an ensemble.
    With `ensemble`, the (first) folder is one that `relatum train --runs` has made, and all its models are read with.
    The data is a folder, of which `part` is scored, or a file; its format is guessed if none is named.

    Scores are against all gold annotations: those that the model cannot find count as missed, and `ceiling` has the
    best scores that the model allows, with the reasons. `overlaps` ("fail", "drop", "keep-longest", "keep") is for
    nested, overlapping and discontinuous gold entities, `crossing` ("fail", "drop", "join") for gold relations between
    sentences; both are as in training if not given. With `gold_entities` the model is given the gold entities and finds
    relations only.
    With `bootstrap`, a number of resamples drawn by `seed`, scores get 95% intervals.

    `monitor` hears messages: a function such as `print`, or a `relatum.monitor.Monitor`. `on_progress` is called with
    the number of sentences that have been read, and of all sentences. Further arguments are those of
    `Extractor.from_pretrained`: device, precision, batch_size, max_cells, words and sentences.
    """
    check_resampling(bootstrap, seed)
    remarks = Remarks(monitor)
    extractor = _load(model, ensemble, remarks, loading)
    config, schema = extractor.config, extractor.schema
    examples = load_examples(data, part, config, format, remarks, overlaps, crossing)
    gold = [example.full_gold for example in examples]
    macro_over = usable_macro(config.evaluation.macro_over, schema, gold)
    if unknown := schema.unknown_types(gold):
        macro = "; macro averages are over all types" if config.evaluation.macro_over == "schema" else ""
        types = f"{', '.join(unknown)}{macro}"
        remarks.say(f"{_name(model)} does not know these types of {Path(data)}, and finds none of them: {types}")
    given = gold_entities or config.evaluation.entities == "gold"
    predictions = predict_examples(extractor, examples, given, on_progress)
    pairs = [(own, prediction.found) for own, prediction in zip(gold, predictions, strict=True)]
    limits = Limits.of(config, extractor.find_windows, given)
    ceiling = measure_ceiling(examples, extractor.tagging, macro_over, limits)
    report = make_report([pairs], schema, macro_over, bootstrap, seed, confidence=True, given=given, ceiling=ceiling)
    (scored,) = report.systems
    return ModelEvaluation(
        scored.scores,
        scored.intervals,
        scored.confidence,
        scored.ceiling,
        extractor=extractor,
        examples=examples,
        predictions=predictions,
        gold_entities=given,
        remarks=tuple(remarks.said),
    )


def load_examples(
    data: str | Path,
    part: str,
    config: Config,
    format: str | None,
    monitor: Monitor,
    overlaps: Overlaps | None = None,
    crossing: Crossing | None = None,
) -> list[Example]:
    """Load the sentences of a part as training reads them; the monitor hears remarks on them.

    `overlaps` and `crossing` replace the settings of training if they are given.
    """
    policy = change_section(config.data, overlaps=overlaps, crossing=crossing)
    examples, remarks = load_part(Path(data), part, config.model_copy(update={"data": policy}), format)
    for remark in remarks:
        monitor.say(remark)
    return examples


def predict_examples(
    extractor: Extractor, examples: Sequence[Example], gold_entities: bool, on_progress: OnProgress | None
) -> list[Prediction]:
    """Let a model read the sentences of examples; with `gold_entities` it is given their entities."""
    entities = [example.gold.entities for example in examples] if gold_entities else None
    return extractor.predict([example.sentence for example in examples], entities, on_progress)


def _load(
    model: str | Path | Sequence[str | Path] | Extractor, ensemble: bool, monitor: Monitor, loading: LoadingOptions
) -> Extractor:
    """Return the extractor that is given, or load it; a single name in a list is no ensemble."""
    if isinstance(model, Extractor):
        given = [*loading, *(["ensemble"] if ensemble else [])]
        if given:
            raise RelatumError(
                f"{', '.join(given)}: the model is an Extractor, which is loaded already; give these arguments to "
                "Extractor.from_pretrained, or give the name or the folder of the model here"
            )
        return model
    names = [model] if isinstance(model, str) or not isinstance(model, Sequence) else list(model)
    if ensemble:
        names = [*(own for folder in names[:1] for own in runs_models(Path(folder), monitor.say)), *names[1:]]
    return Extractor.from_pretrained(names[0] if len(names) == 1 else names, **loading)


def _name(model: str | Path | Sequence[str | Path] | Extractor) -> str:
    """Return the name of a model for messages; of several models, the name of the first."""
    if isinstance(model, Extractor):
        return model.name or "the model"
    return str(model if isinstance(model, str | Path) else model[0])
