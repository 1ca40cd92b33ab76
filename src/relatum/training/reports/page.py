"""The reports to read after a run: `summary.txt` and `report.html`, both made from the content of `result.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from relatum.config import Config, list_keys, load_record
from relatum.data.atomic import replacing_file
from relatum.evaluation.ceiling import is_limited_record
from relatum.look.rendering import render
from relatum.monitor import Evaluation
from relatum.training.folder import RunFolder
from relatum.training.reports.curves import TASKS, loss_curves, make_svg, score_curves


def write_reports(folder: RunFolder, record: Mapping[str, Any]) -> None:
    """Write the summary and the report of a run into its folder."""
    for path, text in ((folder.summary, make_summary(record)), (folder.report, make_html(record))):
        with replacing_file(path) as draft:
            draft.write_text(text, encoding="utf-8")


def make_summary(record: Mapping[str, Any]) -> str:
    """Summarise a run on half a page of plain text."""
    data = record["data"]
    lines = [record["command"], "", f"data: {data['path']}" + (f", fold {data['fold']}" if data["fold"] else "")]
    for name, part in data["parts"].items():
        lines.append(
            f"  {name:<6}{part['sentences']:>9,} sentences {sum(part['entities'].values()):>9,} entities "
            f"{sum(part['relations'].values()):>9,} relations"
        )
    lines += ["", *(f"{name}: {value}" for name, value in _facts(record)), ""]
    lines.append(f"{'micro F1, %':<14}" + "".join(f"{name:>9}" for name in TASKS.values()))
    for part in ("dev", "test"):
        if record[part] is not None:
            lines.append(f"  {part:<12}" + "".join(f"{100 * record[part][t]['micro']['f1']:>9.2f}" for t in TASKS))
            if _is_limited(record, part):
                best = record["ceiling"][part]
                lines.append(f"    {'ceiling':<10}" + "".join(f"{100 * best[t]['micro']['f1']:>9.2f}" for t in TASKS))
    lines += ["", *_confidence_lines(record)]
    lines += ["", "said during the run:" if record["messages"] else "nothing was said during the run"]
    lines += [f"  - {message}" for message in record["messages"]]
    return "\n".join(lines) + "\n"


def make_html(record: Mapping[str, Any]) -> str:
    """Report a run in full, as one HTML page that needs no other files."""
    data = record["data"]
    limited = {part: _is_limited(record, part) for part in ("dev", "test")}
    # The settings are shown and nothing else: no function that they name is imported.
    config = load_record(record["config"], record["config"]["text"].values())
    return render(
        "training/reports/report.html",
        title=f"Training on {data['path'].rstrip('/').rpartition('/')[2]}",
        command=record["command"],
        facts=list(_facts(record)),
        charts=list(_charts(record)),
        scores=_score_tables(record),
        n_summary_rows={part: 4 if limited[part] else 2 for part in limited},
        calibration=_errors(record),
        data_path=data["path"],
        data_head=["", *data["parts"]],
        data_rows=_data_rows(data["parts"]),
        messages=record["messages"],
        settings=_changed_settings(config),
        versions=[*record["versions"].items(), ("commit", record["commit"] or "–")],
    )


def _charts(record: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    """Yield the charts of the loss and, if there is a dev part, of the scores on dev."""
    evaluations = [Evaluation(**one) for one in record["history"]]
    best = record["best"]["step"]
    loss = make_svg("training loss", loss_curves(evaluations), best)
    yield {"svg": loss, "caption": "Mean training loss of the updates before each evaluation", "legend": []}
    if curves := score_curves(evaluations):
        scores = make_svg("micro F1 on dev", curves, best)
        yield {"svg": scores, "caption": "Micro F1 on dev, %", "legend": list(TASKS.values())}


def _facts(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the facts that both reports begin with."""
    best, steps = record["best"], record["config"]["training"]["steps"]
    seconds = round(record["seconds"])
    ended = f"{record['steps']:,} of {steps:,}" + (" (stopped early)" if record["stopped_early"] else "")
    if record["dev"] is None:
        yield "model", f"after step {best['step']:,}, the last"
    else:
        yield "best model", f"after step {best['step']:,}, score on dev {100 * best['score']:.2f}"
    yield "updates", ended
    yield "parameters", f"{record['n_parameters']:,}"
    yield "seed", str(record["seed"])
    yield "device", record["device"]
    yield "time", f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _score_tables(record: Mapping[str, Any]) -> dict[str, dict[str, list[list[str]]]]:
    """Return the rows of a table for each part and task: its types, micro and macro, and the ceiling if it limits."""
    parts = [part for part in ("dev", "test") if record[part] is not None]
    return {part: {name: _score_rows(record, part, task) for task, name in TASKS.items()} for part in parts}


def _score_rows(record: Mapping[str, Any], part: str, task: str) -> list[list[str]]:
    scores = record[part][task]
    rows = [*scores["types"].items(), ("micro", scores["micro"]), ("macro", scores["macro"])]
    if _is_limited(record, part):
        best = record["ceiling"][part][task]
        rows += [("ceiling, micro", best["micro"]), ("ceiling, macro", best["macro"])]
    return [_score_row(label, score) for label, score in rows]


def _score_row(label: str, score: Mapping[str, Any]) -> list[str]:
    shares = [f"{100 * score[key]:.2f}" for key in ("precision", "recall", "f1")]
    return [label, *shares, f"{score['support']:,}"]


def _is_limited(record: Mapping[str, Any], part: str) -> bool:
    """True if the tagging cannot express all gold of the part; older records do not say."""
    return is_limited_record(record.get("ceiling", {}).get(part, {}))


def _confidence_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the summary's lines on expected calibration errors; none if there was nothing to measure them on."""
    if not _errors(record):
        return
    yield f"{'calibration':<12}{'entities':>17}{'RE+':>18}"
    yield f"{'error, %':<11}" + f"{'before':>9}{'after':>9}" * 2
    for part, *errors in _errors(record):
        yield f"  {part:<9}" + "".join(f"{error:>9}" for error in errors)


def _errors(record: Mapping[str, Any]) -> list[list[str]]:
    """Return a row per part: the errors of entities before and after calibration, then the errors of relations."""
    return [
        [part]
        + [
            "–" if when[task]["ece"] is None else f"{100 * when[task]['ece']:.2f}"
            for task in ("entities", "relations_strict")
            for when in (measured["before"], measured["after"])
        ]
        for part, measured in record["confidence"]["parts"].items()
    ]


def _data_rows(parts: Mapping[str, Any]) -> list[list[str]]:
    """Return how often each label is in each part."""
    rows = [["sentences", *(f"{part['sentences']:,}" for part in parts.values())]]
    for kind in ("entities", "relations"):
        labels = sorted({label for part in parts.values() for label in part[kind]})
        rows += [[label, *(f"{part[kind].get(label, 0):,}" for part in parts.values())] for label in labels]
    return rows


def _changed_settings(config: Config) -> str:
    return "\n".join(f"{key.name} = {json.dumps(key.value)}" for key in list_keys(config) if key.value != key.default)
