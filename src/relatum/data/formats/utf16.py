"""Offsets that count UTF-16 units, as in Java and JavaScript, and offsets that count characters."""

from __future__ import annotations

from itertools import accumulate


def characters_of_units(text: str) -> list[int]:
    """Return for each UTF-16 unit of a text the character it begins, or -1 inside a character; the end comes last."""
    positions = []
    for at, character in enumerate(text):
        positions.append(at)
        if character > "\uffff":
            positions.append(-1)
    return [*positions, len(text)]


def units_of_characters(text: str) -> list[int]:
    """Return the UTF-16 offset of each character of a text, and of its end."""
    return list(accumulate((1 + (character > "\uffff") for character in text), initial=0))


def n_units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text)
