"""Colours: the same for a label everywhere, and with enough contrast to read."""

from __future__ import annotations

import colorsys
import re
from itertools import pairwise

import pytest

from relatum.look.colours import hue
from relatum.look.rendering import STYLES

TOKENS = (STYLES / "tokens.css").read_text(encoding="utf-8").split("prefers-color-scheme: dark")
Colour = tuple[float, float, float]


def test_hue_is_the_same_everywhere_and_tells_the_labels_of_a_corpus_apart() -> None:
    assert [hue(label) for label in ("Peop", "Org", "Loc", "Other")] == [333, 86, 160, 249]
    assert [hue(label) for label in ("Drug", "Adverse-Effect")] == [97, 13]
    relations = sorted(hue(label) for label in ("Work_For", "Kill", "OrgBased_In", "Live_In", "Located_In"))
    assert min(b - a for a, b in pairwise([*relations, relations[0] + 360])) >= 60


def luminance(colour: Colour) -> float:
    """Return the relative luminance of WCAG 2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: Colour, other: Colour) -> float:
    darker, lighter = sorted([luminance(one), luminance(other)])
    return (lighter + 0.05) / (darker + 0.05)


def colour(block: str, name: str) -> Colour:
    (digits,) = re.findall(rf"--{name}: #(\w{{6}});", block)
    return int(digits[:2], 16) / 255, int(digits[2:4], 16) / 255, int(digits[4:], 16) / 255


@pytest.mark.parametrize("block", TOKENS, ids=["light", "dark"])
@pytest.mark.parametrize(("ground", "ink"), [("tint", "ink"), ("deep", "on-deep"), ("line", "paper")])
def test_every_hue_gives_text_that_can_be_read(block: str, ground: str, ink: str) -> None:
    ((share, light),) = re.findall(rf"--{ground}: (\d+)% (\d+)%", block)
    text = colour(block, ink)
    for degrees in range(360):
        back = colorsys.hls_to_rgb(degrees / 360, int(light) / 100, int(share) / 100)
        assert contrast(text, back) >= 4.5, degrees


@pytest.mark.parametrize("block", TOKENS, ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "ground"),
    [
        *((ink, ground) for ink in ("ink", "faint") for ground in ("paper", "ground", "hover")),
        *((ink, "paper") for ink in ("accent", "bad", "good", "curve-1", "curve-2", "curve-3")),
        ("on-accent", "accent"),
        ("bad", "bad-ground"),
    ],
)
def test_text_has_enough_contrast_by_day_and_by_night(block: str, ink: str, ground: str) -> None:
    assert contrast(colour(block, ink), colour(block, ground)) >= 4.5
