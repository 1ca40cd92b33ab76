"""Make annotated sentences from written patterns, for training data in which a corpus has gaps.

A file of patterns has two parts. The first names what can stand in a slot, the second has a pattern on each line with
the relations between its slots:

    [names]
    first = Anna | John
    last = Berg | Okafor
    person Peop = {first} {last}
    firm Org = Nokia | the Reserve Bank
    day = Monday | Friday

    [sentences]
    {person:a} of {firm:b} said so on {day}. | a Work_For b
    {person:a} met {person:b}.

A kind with a label, such as `person Peop`, makes an entity wherever it stands; a leading "the" is left out of it. Kinds
without a label are plain text. Lines that begin with # are comments. Every fifth pattern is kept for dev, so that dev
has other patterns than train.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.plain_text import split_words

Record = dict[str, Any]
_SLOT = re.compile(r"\{(\w+)(?::(\w+))?\}")
_RELATION = re.compile(r"(\w+) ([\w-]+) (\w+)")
FOLDER = Path(__file__).parent / "patterns"
CAPITALS = 0.04
"""The share of sentences in capitals, as in headlines."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What can stand in a slot, and the label of the entity that it makes, if any."""

    label: str | None
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A sentence with slots, and relations between slots: head, label, tail."""

    text: str
    relations: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Patterns:
    """The content of a file of patterns."""

    kinds: Mapping[str, Kind]
    sentences: tuple[Pattern, ...]

    @classmethod
    def read(cls, path: Path) -> Patterns:
        """Read a file; an error names its line."""
        kinds: dict[str, Kind] = {}
        sentences: list[Pattern] = []
        part = ""
        for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            line = raw.strip()
            try:
                if not line or line.startswith("#"):
                    continue
                if line in ("[names]", "[sentences]"):
                    part = line
                elif part == "[names]":
                    name, kind = _read_kind(line)
                    if name in kinds:
                        raise ValueError(f"{name} is named twice")
                    kinds[name] = kind
                elif part == "[sentences]":
                    sentences.append(_read_pattern(line, kinds))
                else:
                    raise ValueError("expected [names] or [sentences]")
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from None
        _check_kinds(path, kinds)  # last: a name may be made of others further below
        return cls(kinds, tuple(sentences))

    def part(self, name: str) -> tuple[Pattern, ...]:
        """Return the patterns of "train" or "dev"."""
        return tuple(one for number, one in enumerate(self.sentences) if (number % 5 == 4) == (name == "dev"))

    def make(self, patterns: Sequence[Pattern], n_sentences: int, seed: int) -> Iterator[Record]:
        """Yield sentences of the patterns in turns, each with names drawn at random."""
        generator = random.Random(seed)
        order = list(patterns)
        for number in range(n_sentences):
            if number % len(order) == 0:
                generator.shuffle(order)
            yield self._fill(order[number % len(order)], generator)

    def _fill(self, pattern: Pattern, generator: random.Random) -> Record:
        text, end = "", 0
        entities: dict[str, tuple[int, int, str]] = {}
        taken: set[str] = set()
        for slot in _SLOT.finditer(pattern.text):
            kind = self.kinds[slot[1]]
            name = self._draw(kind, generator, taken)
            taken.add(name)
            text += pattern.text[end : slot.start()]
            if kind.label is not None:
                first = len(text) + (4 if name.startswith("the ") else 0)
                entities[slot[2] or f"_{len(entities)}"] = first, len(text) + len(name), kind.label
            text += name
            end = slot.end()
        text += pattern.text[end:]
        if text[0].islower():
            text = text[0].upper() + text[1:]
        capitals = text.upper()
        if generator.random() < CAPITALS and len(capitals) == len(text):  # ß would become SS, and move all that follows
            text = capitals
        return _make_record(text, entities, pattern.relations)

    def _draw(self, kind: Kind, generator: random.Random, taken: set[str]) -> str:
        """Draw a name that is not in the sentence yet."""
        for _ in range(20):
            drawn = generator.choice(kind.choices)
            name = _SLOT.sub(lambda slot: self._draw(self.kinds[slot[1]], generator, set()), drawn)
            if name not in taken:
                return name
        raise ValueError(f"too few names: {kind.choices[:5]}")


def written_sentences(name: str, part: str, n_sentences: int) -> Iterator[Record]:
    """Yield sentences of a file in `scripts/patterns`, for the part "train" or "dev"."""
    patterns = Patterns.read(FOLDER / f"{name}.txt")
    return patterns.make(patterns.part(part), n_sentences, seed=0)


def _read_kind(line: str) -> tuple[str, Kind]:
    left, equals, right = line.partition("=")
    words = left.split()
    choices = tuple(choice.strip() for choice in right.split("|"))
    if not equals or len(words) not in (1, 2) or not all(choices):
        raise ValueError("expected NAME = CHOICE | CHOICE or NAME LABEL = CHOICE | CHOICE")
    return words[0], Kind(words[1] if len(words) == 2 else None, choices)


def _check_kinds(path: Path, kinds: Mapping[str, Kind]) -> None:
    """Refuse names that are made of unknown names."""
    for name, kind in kinds.items():
        try:
            _find_slots(" ".join(kind.choices), kinds)
        except ValueError as error:
            raise ValueError(f"{path}: {name}: {error}") from None


def _find_slots(text: str, kinds: Mapping[str, Kind]) -> dict[str, str]:
    """Return the kinds of the slots that have names; refuse an unknown kind, and two slots of one name."""
    slots: dict[str, str] = {}
    for slot in _SLOT.finditer(text):
        if slot[1] not in kinds:
            raise ValueError(f"{slot[1]} is not among the names")
        if slot[2] in slots:
            raise ValueError(f"two slots are called {slot[2]}")
        if slot[2] is not None:
            slots[slot[2]] = slot[1]
    return slots


def _read_pattern(line: str, kinds: Mapping[str, Kind]) -> Pattern:
    text, _, listed = line.partition("|")
    text = text.strip()
    slots = _find_slots(text, kinds)
    relations = []
    for one in filter(None, map(str.strip, listed.split(";"))):
        relation = _RELATION.fullmatch(one)
        if relation is None:
            raise ValueError(f"{one!r}: expected SLOT LABEL SLOT")
        for end in (relation[1], relation[3]):
            if end not in slots or kinds[slots[end]].label is None:
                raise ValueError(f"{one!r}: {end} is no entity of the sentence")
        relations.append((relation[1], relation[2], relation[3]))
    return Pattern(text, tuple(relations))


def _make_record(
    text: str, entities: Mapping[str, tuple[int, int, str]], relations: Sequence[tuple[str, str, str]]
) -> Record:
    words = split_words(text)
    spans = {}
    for name, (start, end, label) in entities.items():
        inside = [number for number, (first, last) in enumerate(words) if first < end and start < last]
        if not inside or words[inside[0]][0] != start or words[inside[-1]][1] != end:
            raise ValueError(f"{text!r}: {text[start:end]!r} does not consist of whole words")
        spans[name] = inside[0], inside[-1] + 1, label
    return {
        "tokens": [text[start:end] for start, end in words],
        "entities": [list(span) for span in sorted(spans.values())],
        "relations": [[*spans[head][:2], *spans[tail][:2], label] for head, label, tail in relations],
    }
