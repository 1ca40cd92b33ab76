"""The reports to read after a run: `summary.txt` and `report.html`, both made from the content of `result.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from relatum.config import Config, list_keys, load_record
from relatum.data.atomic import replacing_file
from relatum.evaluation.ceiling import is_limited_record
from relatum.training.folder import RunFolder
from relatum.training.history import Evaluation
from relatum.training.reports.curves import TASKS, loss_curves, make_svg, score_curves

_STYLE = """
:root { color-scheme: light dark; --text: #1c1e21; --back: #ffffff; --faint: #6b7178; --line: #d9dde2;
  --one: #0072b2; --two: #c24e00; --three: #00805d; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e8ea; --back: #16181b; --faint: #9aa1a9; --line: #343a41;
    --one: #5ab4ee; --two: #f59a4a; --three: #3ecf9f; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: .6rem 0; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; border-bottom: 1px solid var(--line); font-weight: normal; }
thead th { color: var(--faint); } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
pre { overflow-x: auto; padding: .6rem .8rem; border: 1px solid var(--line); border-radius: 4px; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; } figure { flex: 1 1 24rem; margin: 0; }
figcaption, .faint { color: var(--faint); } .wide { overflow-x: auto; }
svg text { font-size: 12px; fill: var(--faint); } svg .grid { stroke: var(--line); }
svg .mark { stroke: var(--faint); stroke-dasharray: 3 4; }
svg polyline { fill: none; stroke-width: 2; }
.curve-1 { stroke: var(--one); } .curve-2 { stroke: var(--two); } .curve-3 { stroke: var(--three); }
circle.curve-1, .key-1 { fill: var(--one); color: var(--one); }
circle.curve-2, .key-2 { fill: var(--two); color: var(--two); }
circle.curve-3, .key-3 { fill: var(--three); color: var(--three); }
"""


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
    evaluations = [Evaluation(**one) for one in record["history"]]
    best = record["best"]["step"]
    name = record["data"]["path"].rstrip("/").rpartition("/")[2]
    legend = " ".join(f'<span class="key-{number}">● {task}</span>' for number, task in enumerate(TASKS.values(), 1))
    body = [
        f"<h1>Training on {escape(name)}</h1>",
        f"<pre>{escape(record['command'])}</pre>",
        _table(None, [[name, value] for name, value in _facts(record)]),
        "<h2>Learning curves</h2>",
        '<div class="charts">',
        f"<figure>{make_svg('training loss', loss_curves(evaluations), best)}"
        "<figcaption>Mean training loss of the updates before each evaluation</figcaption></figure>",
        *(
            [
                f"<figure>{make_svg('micro F1 on dev', curves, best)}"
                f"<figcaption>Micro F1 on dev, %: {legend}; the dashed line is the best model</figcaption></figure>"
            ]
            if (curves := score_curves(evaluations))
            else []
        ),
        "</div>",
        *_score_tables(record),
        "<h2>Calibration error of the scores of what was found, %</h2>",
        _table(["", "entities before", "after", "relations, strict before", "after"], _errors(record)),
        "<h2>Data</h2>",
        f'<p class="faint">{escape(record["data"]["path"])}</p>',
        _data_table(record["data"]["parts"]),
        "<h2>What was said</h2>",
        _list(record["messages"]),
        "<h2>Settings that differ from the defaults</h2>",
        # The settings are shown and nothing else: no function that they name is imported.
        _settings(load_record(record["config"], record["config"]["text"].values())),
        "<h2>Made with</h2>",
        _table(None, [[name, value] for name, value in (*record["versions"].items(), ("commit", record["commit"]))]),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Training on {escape(name)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


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


def _score_tables(record: Mapping[str, Any]) -> Iterator[str]:
    for part in ("dev", "test"):
        if record[part] is None:
            continue
        yield f"<h2>Scores on {part}, %</h2>"
        for task, name in TASKS.items():
            scores = record[part][task]
            rows = [*scores["types"].items(), ("micro", scores["micro"]), ("macro", scores["macro"])]
            if _is_limited(record, part):
                best = record["ceiling"][part][task]
                rows += [("ceiling, micro", best["micro"]), ("ceiling, macro", best["macro"])]
            yield _table(
                [name, "P", "R", "F1", "in gold"],
                [
                    [label, *(f"{100 * one[key]:.2f}" for key in ("precision", "recall", "f1")), f"{one['support']:,}"]
                    for label, one in rows
                ],
            )


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


def _data_table(parts: Mapping[str, Any]) -> str:
    rows = [["sentences", *(f"{part['sentences']:,}" for part in parts.values())]]
    for kind in ("entities", "relations"):
        labels = sorted({label for part in parts.values() for label in part[kind]})
        rows += [[label, *(f"{part[kind].get(label, 0):,}" for part in parts.values())] for label in labels]
    return _table(["", *parts], rows)


def _settings(config: Config) -> str:
    changed = [f"{key.name} = {json.dumps(key.value)}" for key in list_keys(config) if key.value != key.default]
    return f"<pre>{escape(chr(10).join(changed)) or 'none'}</pre>"


def _list(items: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>" if items else "<p>Nothing.</p>"


def _table(head: list[str] | None, rows: list[list[str | None]] | list[list[str]]) -> str:
    """Return a table as HTML; with a head, all columns but the first are numbers."""
    kind = "" if head is None else ' class="n"'
    above = ""
    if head is not None:
        above = f"<thead><tr><th>{escape(head[0])}</th>" + "".join(f"<th{kind}>{escape(one)}</th>" for one in head[1:])
        above += "</tr></thead>"
    below = "".join(
        f"<tr><th>{escape(first or '')}</th>"
        + "".join(f"<td{kind}>{escape(one or '–')}</td>" for one in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return f'<div class="wide"><table>{above}<tbody>{below}</tbody></table></div>'
