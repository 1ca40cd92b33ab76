"""The colours of labels."""

from __future__ import annotations


def hue(label: str) -> int:
    """Return the hue of a label in degrees: the same on every machine, and in web/static/labels.js."""
    # An FNV hash; its start was picked so that labels that are shown together in the usual corpora are far apart.
    number = 9719
    for byte in label.encode(errors="replace"):
        number = (number ^ byte) * 16777619 % 2**32
    return (number ^ number >> 15) % 360
