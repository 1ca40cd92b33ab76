"""The reports to read after a run: `summary.txt` and `report.html`, both made from its result alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from relatum.config import Config, list_keys
from relatum.data.atomic import replacing_file
from relatum.evaluation.ceiling import is_limited
from relatum.evaluation.confidence import TaskConfidence
from relatum.look.rendering import render
from relatum.scores import Score, Scores
from relatum.training.folder import RunFolder
from relatum.training.reports.curves import TASKS, loss_curves, make_svg, score_curves
from relatum.training.result import LabelCounts, RunResult


def write_reports(folder: RunFolder, result: RunResult) -> None:
    """Write the summary and the report of a run into its folder."""
    for path, text in ((folder.summary, make_summary(result)), (folder.report, make_html(result))):
        with replacing_file(path) as draft:
            draft.write_text(text, encoding="utf-8")


def make_summary(result: RunResult) -> str:
    """Summarise a run on half a page of plain text."""
    data = result.data
    lines = [result.command, "", f"data: {data.path}" + (f", fold {data.fold}" if data.fold else "")]
    lines += [_part_line(name, counts) for name, counts in data.parts.items()]
    lines += ["", *(f"{name}: {value}" for name, value in _facts(result)), ""]
    lines.append(f"{'micro F1, %':<14}" + "".join(f"{name:>9}" for name in TASKS.values()))
    for part, scores in result.scored.items():
        lines.append(f"  {part:<12}" + _f1_cells(scores))
        if limit := _limit(result, part):
            lines.append(f"    {'ceiling':<10}" + _f1_cells(limit))
    lines += ["", *_confidence_lines(result)]
    lines += ["", "said during the run:" if result.messages else "nothing was said during the run"]
    lines += [f"  - {message}" for message in result.messages]
    return "\n".join(lines) + "\n"


def _part_line(name: str, counts: LabelCounts) -> str:
    return (
        f"  {name:<6}{counts.sentences:>9,} sentences {counts.n_entities:>9,} entities "
        f"{counts.n_relations:>9,} relations"
    )


def _f1_cells(scores: Scores) -> str:
    return "".join(f"{100 * scores.task(task).micro.f1:>9.2f}" for task in TASKS)


def make_html(result: RunResult) -> str:
    """Report a run in full, as one HTML page that needs no other files."""
    data = result.data
    return render(
        "training/reports/report.html",
        title=f"Training on {data.path.rstrip('/').rpartition('/')[2]}",
        command=result.command,
        facts=list(_facts(result)),
        charts=list(_charts(result)),
        scores=_score_tables(result),
        n_summary_rows={part: 4 if _limit(result, part) else 2 for part in result.scored},
        calibration=_calibration_errors(result),
        data_path=data.path,
        data_head=["", *data.parts],
        data_rows=_data_rows(data.parts),
        messages=result.messages,
        settings=_changed_settings(result.config),
        versions=[*result.versions.items(), ("commit", result.commit or "–")],
    )


def _charts(result: RunResult) -> Iterator[dict[str, object]]:
    """Yield the charts of the loss and, if there is a dev part, of the scores on dev."""
    best = result.best.step
    loss = make_svg("training loss", loss_curves(result.history), best)
    yield {"svg": loss, "caption": "Mean training loss of the updates before each evaluation", "legend": []}
    if curves := score_curves(result.history):
        scores = make_svg("micro F1 on dev", curves, best)
        yield {"svg": scores, "caption": "Micro F1 on dev, %", "legend": list(TASKS.values())}


def _facts(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the facts that both reports begin with."""
    best, seconds = result.best, round(result.seconds)
    if result.dev is None:
        yield "model", f"after step {best.step:,}, the last"
    else:
        yield "best model", f"after step {best.step:,}, score on dev {100 * best.score:.2f}"
    ended = " (stopped early)" if result.stopped_early else ""
    yield "updates", f"{result.steps:,} of {result.config.training.steps:,}{ended}"
    yield "parameters", f"{result.n_parameters:,}"
    yield "seed", str(result.seed)
    yield "device", result.device
    yield "time", f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _limit(result: RunResult, part: str) -> Scores | None:
    """Return the ceiling of a part if the model cannot find all its gold; None if it can, or is not known."""
    ceiling = (result.ceilings or {}).get(part)
    return ceiling if ceiling is not None and is_limited(ceiling) else None


def _score_tables(result: RunResult) -> dict[str, dict[str, list[list[str]]]]:
    """Return the rows of a table for each part and task: its types, micro and macro, and the ceiling if it limits."""
    return {
        part: {name: _score_rows(scores, _limit(result, part), task) for task, name in TASKS.items()}
        for part, scores in result.scored.items()
    }


def _score_rows(scores: Scores, limit: Scores | None, task: str) -> list[list[str]]:
    found = scores.task(task)
    rows = [*found.types.items(), ("micro", found.micro), ("macro", found.macro)]
    if limit is not None:
        best = limit.task(task)
        rows += [("ceiling, micro", best.micro), ("ceiling, macro", best.macro)]
    return [_score_row(label, score) for label, score in rows]


def _score_row(label: str, score: Score) -> list[str]:
    shares = [f"{100 * share:.2f}" for share in (score.precision, score.recall, score.f1)]
    return [label, *shares, f"{score.support:,}"]


def _confidence_lines(result: RunResult) -> Iterator[str]:
    """Yield the summary's lines on expected calibration errors; none if there was nothing to measure them on."""
    rows = _calibration_errors(result)
    if not rows:
        return
    yield f"{'calibration':<12}{'entities':>17}{'RE+':>18}"
    yield f"{'error, %':<11}" + f"{'before':>9}{'after':>9}" * 2
    for part, *errors in rows:
        yield f"  {part:<9}" + "".join(f"{error:>9}" for error in errors)


def _calibration_errors(result: RunResult) -> list[list[str]]:
    """Return a row per part: the errors of entities before and after calibration, then the errors of relations."""
    rows = []
    for part, before in result.confidence.before.items():
        after = result.confidence.after[part]
        tasks = (before.entities, after.entities, before.relations_strict, after.relations_strict)
        rows.append([part, *map(_error, tasks)])
    return rows


def _error(task: TaskConfidence) -> str:
    return "–" if task.error is None else f"{100 * task.error:.2f}"


def _data_rows(parts: Mapping[str, LabelCounts]) -> list[list[str]]:
    """Return how often each label is in each part."""
    rows = [["sentences", *(f"{part.sentences:,}" for part in parts.values())]]
    for counts in ([part.entities for part in parts.values()], [part.relations for part in parts.values()]):
        labels = sorted({label for part in counts for label in part})
        rows += [[label, *(f"{part.get(label, 0):,}" for part in counts)] for label in labels]
    return rows


def _changed_settings(config: Config) -> str:
    return "\n".join(f"{key.name} = {json.dumps(key.value)}" for key in list_keys(config) if key.value != key.default)
