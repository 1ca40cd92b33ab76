"""The scores of runs that are complete: as they were written, and with the gold entities given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relatum.config import TextConfig
from relatum.data.atomic import replacing_file
from relatum.errors import RelatumError
from relatum.files import read_json
from relatum.lab.tables.planning import PlannedRow
from relatum.lab.tables.table import Column
from relatum.scores import Scores
from relatum.training.folder import RunFolder
from relatum.training.result import RunResult
from relatum.training.runs.plan import PlannedRun

GOLD_SCORES = "gold-entities.json"
"""The file in the folder of a run that has its scores with the gold entities given."""


def measure(row: PlannedRow, run: PlannedRun, column: Column, part: str) -> float | None:
    """Return the value of a run for a column: an F1 between 0 and 1, or a count; None if the run does not have it."""
    folder = row.folder.run(run)
    result = RunResult.read(folder.result)
    if column.task is None:
        return result.n_parameters
    scores = result.scored.get(part)
    if column.gold_entities and result.config.evaluation.entities != "gold":
        scores = _read_gold_scores(folder.path / GOLD_SCORES).get(part)
    return None if scores is None else scores.task(column.task).average(row.selected.row.average).f1


def ceiling_of(row: PlannedRow, run: PlannedRun, column: Column, part: str) -> float | None:
    """Return the best F1 that the tagging of a run allows for a column; None if the run does not say."""
    ceilings = RunResult.read(row.folder.run(run).result).ceilings or {}
    best = ceilings.get(part)
    if column.task is None or best is None:
        return None
    task = best.task(column.task)
    return task.average(row.selected.row.average).f1 if task.micro.support else None


def needs_gold_scores(row: PlannedRow, column: Column) -> bool:
    """True if the row has this column and it needs gold entities, while the row's runs had to find their entities."""
    wanted = column.gold_entities and column.key in row.selected.row.published
    return wanted and row.plan.config.evaluation.entities != "gold"


def write_gold_scores(folder: RunFolder, scores: Mapping[str, Scores]) -> None:
    record = {part: of_part.to_dict() for part, of_part in scores.items()}
    with replacing_file(folder.path / GOLD_SCORES) as draft:
        draft.write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def score_with_gold_entities(folder: RunFolder, text: TextConfig, device: str | None = None) -> dict[str, Scores]:
    """Score the model of a run with the gold entities given, on dev, and on test if the run had it.

    `text` are the text settings with which the user has planned the run.
    """
    from relatum.evaluation.metrics import evaluate, usable_macro
    from relatum.extractor.extractor import Extractor
    from relatum.training.corpus import FoldChoice, load_training_data

    record = folder.read(text.functions().values())
    fold = None if record.fold is None else FoldChoice.parse(record.fold)
    data = load_training_data(Path(record.data), record.config, record.format, fold, with_test=record.with_test)
    rules = text.functions()
    words, sentences = rules.get("words"), rules.get("sentences")
    extractor = Extractor.from_pretrained(str(folder.model), device, "fp32", words=words, sentences=sentences)
    scores: dict[str, Scores] = {}
    for part in ("dev", "test"):
        examples = data.parts[part]
        if not examples:
            continue
        given = [example.gold.entities for example in examples]
        predictions = extractor.predict([example.sentence for example in examples], given)
        pairs = [
            (example.full_gold, prediction.found) for example, prediction in zip(examples, predictions, strict=True)
        ]
        macro_over = usable_macro(record.config.evaluation.macro_over, extractor.schema, (gold for gold, _ in pairs))
        scores[part] = evaluate(pairs, extractor.schema, macro_over, gold_entities=True)
    return scores


def _read_gold_scores(path: Path) -> dict[str, Scores]:
    """Read the scores with gold entities, by part; empty if they are not measured yet."""
    if not path.exists():
        return {}
    cure = "remove the file, and make the table again"
    try:
        values: Any = read_json(path)
        return {part: Scores.from_dict(scores) for part, scores in values.items()}
    except RelatumError as error:
        raise RelatumError(f"{error}; {cure}") from None
    except (AttributeError, KeyError, TypeError) as error:
        raise RelatumError(f"{path}: not the scores of a run ({error!r:.100}); {cure}") from None
