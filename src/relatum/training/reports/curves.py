"""Learning curves as pictures: `curves.png` by matplotlib, and SVG for the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import floor, log10
from pathlib import Path
from typing import NamedTuple

from relatum.data.atomic import replacing_file
from relatum.look.rendering import render
from relatum.monitor import Evaluation

TASKS = {"entities": "NER", "relations": "RE", "relations_strict": "RE+"}
_COLOURS = ("#0072b2", "#d55e00", "#009e73")
_WIDTH, _HEIGHT = 440, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 12, 42


@dataclass(frozen=True, slots=True)
class Curve:
    """Values over steps."""

    name: str
    points: Sequence[tuple[int, float]]


class _Point(NamedTuple):
    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class _Chart:
    """A chart in pixels, ready for chart.svg; the texts of curves are shown under the mouse."""

    title: str
    rows: Sequence[_Point]
    columns: Sequence[_Point]
    mark: float | None
    curves: Sequence[Sequence[_Point]]
    width: int = _WIDTH
    height: int = _HEIGHT
    right: int = _WIDTH - _RIGHT
    top: int = _TOP
    bottom: int = _HEIGHT - _BOTTOM
    middle: float = (_LEFT + _WIDTH - _RIGHT) / 2


def loss_curves(evaluations: Iterable[Evaluation]) -> list[Curve]:
    """Return the mean loss per word of the updates before each evaluation."""
    return [Curve("loss", [(one.step, one.loss) for one in evaluations])]


def score_curves(evaluations: Sequence[Evaluation]) -> list[Curve]:
    """Return the micro F1 scores on dev, in per cent; empty if there is no dev part."""
    scored = [one for one in evaluations if one.dev]
    curves = [Curve(name, [(one.step, 100 * one.f1(task)) for one in scored]) for task, name in TASKS.items()]
    return curves if scored else []


def draw_curves(path: Path, evaluations: Sequence[Evaluation], say: Callable[[str], None]) -> None:
    """Draw loss and dev scores; without matplotlib there is no picture, and `say` is told why."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        say(f"{path.name} is not drawn: matplotlib is not installed (pip install 'relatum[train]')")
        return
    charts = [("training loss", loss_curves(evaluations)), ("micro F1 on dev, %", score_curves(evaluations))]
    charts = [(title, curves) for title, curves in charts if curves]
    figure = Figure(figsize=(5 * len(charts), 4), layout="constrained")
    for axes, (title, curves) in zip(figure.subplots(1, len(charts), squeeze=False)[0], charts, strict=True):
        for curve, colour in zip(curves, _COLOURS, strict=False):
            steps, values = zip(*curve.points, strict=True)
            axes.plot(steps, values, color=colour, marker="o", markersize=3, label=curve.name)
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.set_ylim(0, 1.05 * max(value for curve in curves for _, value in curve.points) or 1)
        axes.grid(alpha=0.3)
        if len(curves) > 1:
            axes.legend()
    with replacing_file(path) as draft:
        figure.savefig(draft, format="png", dpi=120)


def make_svg(title: str, curves: Sequence[Curve], mark: int | None = None) -> str:
    """Return a chart as SVG that needs no script; its colours are the classes `curve-1`, `curve-2`… of the page.

    `mark` is a step to be marked, such as the step of the best model.
    """
    points = [point for curve in curves for point in curve.points]
    last = max((step for step, _ in points), default=1)
    highest = max((value for _, value in points), default=1.0)
    ticks = _ticks(highest)
    top = max(ticks[-1], highest) or 1.0

    def place(step: float, value: float, text: str) -> _Point:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * step / last
        y = _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / top
        return _Point(round(x, 1), round(y, 1), text)

    def place_curve(curve: Curve) -> list[_Point]:
        return [place(step, value, f"{curve.name}, step {step:,}: {value:.4g}") for step, value in curve.points]

    chart = _Chart(
        title=title,
        rows=[place(0, value, f"{value:g}") for value in ticks],
        columns=[place(step, 0, f"{step:,g}") for step in _ticks(last)],
        mark=None if mark is None else place(mark, 0, "").x,
        curves=[place_curve(curve) for curve in curves],
    )
    return render("training/reports/chart.svg", chart=chart)


def _ticks(highest: float) -> list[float]:
    """Return about five round numbers from 0 up to the highest value."""
    if highest <= 0:
        return [0.0]
    rough = highest / 5
    size = 10.0 ** floor(log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    return [round(number * step, 12) for number in range(floor(highest / step * 1.0001) + 1)]
