"""The section of a model card that says what the scores beside entities and relations are worth."""

from __future__ import annotations

import re
from collections.abc import Iterator

from relatum.evaluation.calibration import LEAST_IN_BIN, N_BINS
from relatum.evaluation.confidence import Calibrated, Confidence

_TITLE = "## Confidence"
_FEW = 50
"""The number of found entities or relations below which statistics on them are hardly more than chance."""
_TASKS = {"entities": "entities", "relations_strict": "relations, strict (RE+)"}


def confidence_section(calibrated: Calibrated) -> list[str]:
    """Return the section as lines of Markdown."""
    first, maps = next(iter(calibrated.after), None), calibrated.calibration
    if first is None or maps is None:
        return [_TITLE, "", "Scores are not calibrated: no annotated text was left to fit them on."]
    formulas = [
        f"{name} sigmoid(logit(score) / {one.temperature:.3f}{_signed(one.bias)})"
        for name, one in (("entities", maps.entities), ("relations", maps.relations))
    ]
    return [
        _TITLE,
        "",
        f"Scores are calibrated on {first}: {'; '.join(formulas)}.",
        "On such text, about 80% of the findings with the score 0.8 are right. The table shows the expected",
        "calibration error in per cent, before and after calibration: the mean distance between scores and the",
        f"share of right findings, over {N_BINS} bins with the same number of findings (fewer bins if one would",
        f"have less than {LEAST_IN_BIN}). In small parts, chance alone makes an error of a few per cent. On {first}",
        "the error is a little too low, since the calibration was fitted there.",
        *_few(calibrated.before[first], first),
        "",
        "| part | task | found | before | after |",
        "|---|---|---:|---:|---:|",
        *_error_rows(calibrated),
        "",
        f"Findings with at least the score `--threshold`, on {first}; precision, recall and F1 in per cent:",
        "",
        "| threshold | entities | P | R | F1 | relations | P | R | F1 |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        *_threshold_rows(calibrated.after[first]),
    ]


def with_confidence(card: str, calibrated: Calibrated) -> str:
    """Return a card with this section in place of the card's old one, or else at the end of the card."""
    section = "\n".join(confidence_section(calibrated))
    found = re.search(rf"^{_TITLE}$.*?(?=^## |\Z)", card, re.MULTILINE | re.DOTALL)
    if found is None:
        return f"{card.rstrip()}\n\n{section}\n".lstrip()
    before, after = card[: found.start()], card[found.end() :]
    return f"{before}{section}\n" + (f"\n{after}" if after else "")


def _few(confidence: Confidence, part: str) -> Iterator[str]:
    for name, task in confidence.tasks():
        if task.n < _FEW:
            yield f"Of {_TASKS[name]} only {task.n} were found on {part}: too few to calibrate well."


def _error_rows(calibrated: Calibrated) -> Iterator[str]:
    for part, after in calibrated.after.items():
        for (name, own), (_, new) in zip(calibrated.before[part].tasks(), after.tasks(), strict=True):
            yield f"| {part} | {_TASKS[name]} | {own.n:,} | {_per_cent(own.error)} | {_per_cent(new.error)} |"


def _threshold_rows(confidence: Confidence) -> Iterator[str]:
    tasks = [task.thresholds for _, task in confidence.tasks()]
    for rows in zip(*tasks, strict=True):
        cells = [f"{rows[0].threshold:g}" if rows[0].threshold else "none"]
        for row in rows:
            precision = row.precision if row.n else None
            cells += [f"{row.n:,}", *map(_per_cent, (precision, row.recall, row.f1))]
        yield f"| {' | '.join(cells)} |"


def _signed(bias: float) -> str:
    if not bias:
        return ""
    sign = "-" if bias < 0 else "+"
    return f" {sign} {abs(bias):.3f}"


def _per_cent(fraction: float | None) -> str:
    return "–" if fraction is None else f"{100 * fraction:.2f}"
