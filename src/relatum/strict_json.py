"""JSON in which no object has a key twice.

Python keeps the last of two values that stand under one key, and the first is lost without a word.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any


class StrictDecoder(json.JSONDecoder):
    """A JSON decoder that collects in `repeated` the keys that an object has twice; the caller checks the list."""

    def __init__(self) -> None:
        self.repeated: list[str] = []
        super().__init__(object_pairs_hook=self._make_object)

    def _make_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            self.repeated += [key for key, times in counts.items() if times > 1]
        return made


def loads(text: str) -> Any:
    """Parse a JSON value; raise `ValueError` if an object has a key twice, or if anything else is wrong."""
    decoder = StrictDecoder()
    value = decoder.decode(text)
    if decoder.repeated:
        raise ValueError(f"the key {json.dumps(decoder.repeated[0])} stands twice in one object; remove one")
    return value
