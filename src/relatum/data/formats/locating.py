"""Finding names in a text, for formats that name entities by their strings and not by their places."""

from __future__ import annotations

import re
from collections.abc import Iterator

from relatum.data.records import Field
from relatum.types import Entity, Span


def find_all(text: str, name: str) -> list[Span]:
    """Return the places of a name in a text, as whole words if there are any, else with letters around it."""
    if not name:
        return []
    places = list(_places(text, name))
    whole = [place for place in places if _is_whole(text, place)]
    return whole or places


def _places(text: str, name: str) -> Iterator[Span]:
    return (Span(match.start(), match.start() + len(name)) for match in re.finditer(f"(?={re.escape(name)})", text))


def _is_whole(text: str, place: Span) -> bool:
    before, after = text[max(place.start - 1, 0) : place.start], text[place.end : place.end + 1]
    first, last = text[place.start], text[place.end - 1]
    return not (before.isalnum() and first.isalnum()) and not (after.isalnum() and last.isalnum())


class NamedMentions:
    """The entities of a text that are found by their names; what cannot be found without doubt is remarked."""

    def __init__(self, record: Field, text: str) -> None:
        self._record = record
        self._text = text
        self.all: dict[Entity, None] = {}

    def add(self, span: Span, label: str) -> Entity:
        """Add an entity whose place is known; return the one that is there already if there is one."""
        entity = Entity(span, label)
        self.all.setdefault(entity)
        return entity

    def find(self, name: str, label: str, times: int = 1) -> list[Entity]:
        """Add and return the entities of a name that was given so many times; none if its places are not clear."""
        places = find_all(self._text, name)
        if len(places) == times:
            return [self.add(place, label) for place in places]
        reason = "more places in the text than mentions" if len(places) > times else "too few places in the text"
        self._record.remark(f"name without offsets left out, as it has {reason}")
        return []

    def named(self, name: str) -> Entity | None:
        """Return the only entity of that name; None if there are none or several."""
        found = [entity for entity in self.all if entity.span.of(self._text) == name]
        return found[0] if len(found) == 1 else None
