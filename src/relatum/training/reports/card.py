"""The model card: the README of a trained model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from relatum.config import Config, list_keys
from relatum.evaluation.ceiling import Ceiling, describe_ceiling, is_limited
from relatum.evaluation.confidence import Calibrated
from relatum.evaluation.metrics import Scores
from relatum.training.corpus import TrainingData
from relatum.training.reports.confidence import confidence_section

_TASKS = {"entities": "entities", "relations": "relations (RE)", "relations_strict": "relations, strict (RE+)"}
_TUNING = {"frozen": "frozen", "lora": "with adapters that were trained, LoRA", "full": "all its weights trained, too"}

_CHOICES = {"choose": "chosen by the dev part", "train": "the last ones; the dev part was trained on, too"}


def make_card(
    data: TrainingData,
    source: str,
    config: Config,
    command: str,
    step: int,
    scores: Mapping[str, Scores],
    confidence: Calibrated | None = None,
    ceilings: Mapping[str, Ceiling] | None = None,
) -> str:
    """Return the card as Markdown; `scores` and `ceilings` are by part; they and `confidence` may not be known yet."""
    schema = data.schema
    changed = [key for key in list_keys(config) if key.value != key.default]
    names = " and ".join(f"`{name}`" for name in config.encoder.names)
    adapters = "" if config.encoder.adapters is None else ", with the adapters of another model"
    encoder = f"{names} ({_TUNING[config.encoder.tuning]}{adapters})" if names else "none"
    return "\n".join(
        [
            f"# A model for {', '.join(schema.relation_names) or 'entities'}",
            "",
            "A table-sequence encoder that finds entities and the relations between them, made with relatum.",
            "",
            "```python",
            "from relatum import Extractor",
            "",
            f'extractor = Extractor.from_pretrained("PATH/TO/THIS/FOLDER"{_own_functions(config)})',
            'print(extractor("…"))',
            "```",
            "",
            f"- Entities: {', '.join(schema.entity_types)}",
            f"- Relations: {', '.join(schema.relation_names) or 'none'}",
            f"- Encoder: {encoder}",
            f"- Updates: {step:,} of {config.training.steps:,}, {_CHOICES[config.training.dev]}; "
            f"seed {config.training.seed}",
            "",
            "## Data",
            "",
            f"`{Path(source).name}`" if source else "Not named.",
            "",
            "| part | sentences | entities | relations |",
            "|---|---:|---:|---:|",
            *(
                f"| {name} | {len(part):,} | {sum(len(e.full_gold.entities) for e in part):,} "
                f"| {sum(len(e.full_gold.relations) for e in part):,} |"
                for name, part in data.parts.items()
                if part
            ),
            "",
            "## Scores",
            "",
            *_score_lines(scores),
            *_ceiling_lines(ceilings or {}),
            "",
            *([] if confidence is None else [*confidence_section(confidence), ""]),
            "## How it was made",
            "",
            "```sh",
            command or "# not known",
            "```",
            "",
            "Settings that differ from the defaults:",
            "",
            "```toml",
            *([f"{key.name} = {json.dumps(key.value)}" for key in changed] or ["# none"]),
            "```",
            "",
            "## Licence",
            "",
            "To be filled in by whoever publishes the model: the licences of the data and of the encoder apply.",
            "",
        ]
    )


def _score_lines(scores: Mapping[str, Scores]) -> list[str]:
    if not scores:
        return ["Not measured yet."]
    return [
        "Per cent; micro averages over exact matches, then the macro F1 (the plain mean over types).",
        "",
        "| part | task | P | R | F1 | macro F1 |",
        "|---|---|---:|---:|---:|---:|",
        *(
            f"| {part} | {_TASKS[name]} | {100 * task.micro.precision:.2f} | {100 * task.micro.recall:.2f} "
            f"| {100 * task.micro.f1:.2f} | {100 * task.macro.f1:.2f} |"
            for part, of_part in scores.items()
            for name, task in of_part.tasks()
        ),
    ]


def _own_functions(config: Config) -> str:
    """Return the arguments that name the user's own functions with which the model splits text; empty without any."""
    return "".join(f', {key}="{name}"' for key, name in config.text.functions().items())


def _ceiling_lines(ceilings: Mapping[str, Ceiling]) -> list[str]:
    """Return a line for each part whose gold the tags cannot fully express."""
    limited = {part: ceiling for part, ceiling in ceilings.items() if is_limited(ceiling)}
    if not limited:
        return []
    return [
        "",
        "Gold that the model cannot find counts as missed. The best that it allows, in per cent:",
        "",
        *(
            line
            for part, ceiling in limited.items()
            for line in (f"- {part}: {describe_ceiling(ceiling)}", *(f"  - {loss}" for loss in ceiling.losses))
        ),
    ]
