"""Lines on two logarithmic axes as an SVG file, without another library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

_COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8d5a97", "#b07d12", "#555555")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 280, 56, 12, 30, 44
_PER_ROW = 3


@dataclass(frozen=True)
class Line:
    """Points in the order of their x; lines of one name have one colour."""

    name: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """Lines on axes of their own."""

    title: str
    lines: tuple[Line, ...]


def draw(panels: Sequence[Panel], x_label: str, y_label: str, note: str = "") -> str:
    """The file's text; all panels have the same axes, and every x of a point is marked."""
    points = [point for panel in panels for line in panel.lines for point in line.points]
    if not points:
        raise ValueError("there is nothing to draw")
    xs, ys = sorted({x for x, _ in points}), [y for _, y in points]
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}
    low, high = floor(log10(min(ys))), max(ceil(log10(max(ys))), floor(log10(min(ys))) + 1)
    span = log10(xs[-1] / xs[0]) or 1.0

    def across(x: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (log10(x / xs[0]) / span if len(xs) > 1 else 0.5)

    def down(y: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (log10(y) - low) / (high - low)

    def frame(panel: Panel) -> list[str]:
        lines = [_text(_LEFT, 18, panel.title, "start", "bold")]
        for power in range(low, high + 1):
            y = down(10.0**power)
            lines.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
            lines.append(_text(_LEFT - 6, y + 4, f"{10.0**power:g}", "end"))
        for x in xs:
            place = across(x)
            lines.append(f'<path d="M{place:.1f} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="#eee"/>')
            lines.append(_text(place, _HEIGHT - _BOTTOM + 16, f"{x:g}", "middle"))
        lines.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, x_label, "middle"))
        middle = (_TOP + _HEIGHT - _BOTTOM) / 2
        lines.append(f'<g transform="rotate(-90 14 {middle})">{_text(14, middle, y_label, "middle")}</g>')
        return lines

    def curve(line: Line) -> list[str]:
        colour, places = colours[line.name], [(across(x), down(y)) for x, y in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dashes = ' stroke-dasharray="5 4"' if line.dashed else ""
        drawn = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dashes}/>']
        return drawn + [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>' for x, y in places]

    columns = min(_PER_ROW, len(panels))
    width, height = columns * _WIDTH, -(-len(panels) // columns) * _HEIGHT + 50
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12" fill="#222">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        corner = f"{number % columns * _WIDTH} {number // columns * _HEIGHT}"
        body = frame(panel) + [part for line in panel.lines for part in curve(line)]
        out += [f'<g transform="translate({corner})">', *body, "</g>"]
    for number, name in enumerate(names):
        x, y = 16 + 110 * number, height - 32
        out.append(f'<path d="M{x} {y}h20" stroke="{colours[name]}" stroke-width="2"/>')
        out.append(_text(x + 26, y + 4, name, "start"))
    out += [_text(16, height - 8, note, "start"), "</svg>"]
    return "\n".join(out) + "\n"


def _text(x: float, y: float, words: str, anchor: str, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'
