"""Remarks on problems in training data that will hurt, with cures; none of them keeps a run from starting."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from relatum.config import Config
from relatum.data.splitting import find_final_stops
from relatum.types import Entity, Example

FEW_EXAMPLES = 10
FEW_TRAINING = 50
FEW_HELD_OUT = 20
SHOWN = 15
"""The most remarks that are shown."""
_LARGE_SHARE = 0.95
_MANY_STOPS = 0.01
"""The number of entities with a sentence's full stop, per sentence, above which they are not taken for slips."""
_IDS = 3
_OPENING, _CLOSING = "([{", ")]}"
_OUTSIDE = {",", ";", ":", "!", "?", '"', "``", "''", "“", "”", "„", "«", "»"}

Parts = Mapping[str, Sequence[Example]]


def advise(parts: Parts, config: Config) -> list[str]:
    """Return a remark on everything that will hurt, the worst first; `parts` are train, dev and test."""
    given = {name: examples for name, examples in parts.items() if examples}
    return [
        *_find_duplicates(given),
        *_find_conflicts(given),
        *_find_missing(given),
        *_find_rare(given["train"]),
        *_find_small(given),
        *_find_lopsided(given["train"]),
        *_find_long(given, config),
        *_find_punctuation(given),
        *_find_final_stops(given["train"], config),
    ]


def shorten(remarks: Sequence[str]) -> list[str]:
    """Return the first remarks, and a line that counts the others."""
    if len(remarks) <= SHOWN:
        return list(remarks)
    return [*remarks[: SHOWN - 1], f"… and {len(remarks) - SHOWN + 1} more remarks on the data; mend these first"]


def _find_duplicates(parts: Parts) -> Iterator[str]:
    trained = {example.sentence.words: example.id for example in reversed(parts["train"])}
    for name in ("dev", "test"):
        pairs = [(one.id, trained[one.sentence.words]) for one in parts.get(name, ()) if one.sentence.words in trained]
        if pairs:
            yield (
                f"{_n(len(pairs), f'{name} sentence')} also in train ({_list(f'{a} = {b}' for a, b in pairs)}): scores "
                f"will be too good; take them out of one of the two"
            )


def _find_conflicts(parts: Parts) -> Iterator[str]:
    seen: dict[tuple[str, ...], list[Example]] = defaultdict(list)
    for examples in parts.values():
        for example in examples:
            seen[example.sentence.words].append(example)
    conflicts = [
        " and ".join(example.id for example in same[:2])
        for same in seen.values()
        if len({(frozenset(one.gold.entities), frozenset(one.gold.relations)) for one in same}) > 1
    ]
    if conflicts:
        yield (
            f"{_n(len(conflicts), 'sentence')} annotated in different ways where they stand again "
            f"({_list(conflicts)}): a model can only be wrong about one of them; make them agree"
        )


def _find_missing(parts: Parts) -> Iterator[str]:
    for what in ("entity", "relation"):
        trained = _places(parts["train"], what)
        for name in ("dev", "test"):
            if name not in parts:
                continue
            found = _places(parts[name], what)
            if trained and not found:
                cure = "choose the model by them" if name == "dev" else "score them"
                yield f"{name} has no {_PLURAL[what]} at all, so that nothing can {cure}; move some there from train"
                continue
            for label in sorted(found.keys() - trained.keys()):
                yield (
                    f"{what} type {label} is in {name} ({_count(found[label])}) but not in train, so that it is never "
                    "learned; annotate some in train, or take it out"
                )
            missing = sorted(trained.keys() - found.keys())
            if missing:
                result = "the choice of the model does not see them" if name == "dev" else "they get no scores"
                yield f"{what} types of train that are not in {name}: {', '.join(missing)}; {result}; move some there"


def _find_rare(examples: Sequence[Example]) -> Iterator[str]:
    for what in ("relation", "entity"):
        for label, places in sorted(_places(examples, what).items(), key=lambda pair: len(pair[1])):
            if len(places) < FEW_EXAMPLES:
                yield (
                    f"{what} type {label} has {_count(places)} in train, which is hardly enough to learn it; annotate "
                    f"{FEW_EXAMPLES} or more, join it with another type, or leave it out"
                )


def _find_small(parts: Parts) -> Iterator[str]:
    for name, few, cure in (
        ("train", FEW_TRAINING, "a model learns little from so few; annotate more"),
        ("dev", FEW_HELD_OUT, "the best model is chosen almost by chance; hold out more"),
        ("test", FEW_HELD_OUT, "its scores say little; hold out more"),
    ):
        n = len(parts.get(name, ()))
        if 0 < n < few:
            yield f"{name} has only {n} {'sentence' if n == 1 else 'sentences'}: {cure}"


def _find_lopsided(examples: Sequence[Example]) -> Iterator[str]:
    for what in ("entity", "relation"):
        counts = Counter({label: len(places) for label, places in _places(examples, what).items()})
        for label, n in counts.most_common(1):
            if len(counts) > 1 and n > _LARGE_SHARE * counts.total():
                yield (
                    f"{n / counts.total():.0%} of all {_PLURAL[what]} in train are {label}: scores will say little of "
                    "the other types; annotate more of those, and set training.selection=macro"
                )


def _find_long(parts: Parts, config: Config) -> Iterator[str]:
    limit = config.extraction.max_words
    for name, examples in parts.items():
        long = [f"{one.id}: {len(one.sentence)} words" for one in examples if len(one.sentence) > limit]
        if long and name == "train":
            yield (
                f"{_n(len(long), 'train sentence')} longer than {limit} words ({_list(long)}): time and memory grow "
                "with the square of the length; check how the text is split into sentences"
            )
        elif long:
            yield (
                f"{_n(len(long), f'{name} sentence')} longer than extraction.max_words = {limit} ({_list(long)}): "
                "they are read in windows, and relations across these are missed; raise it, or split them"
            )


def _find_punctuation(parts: Parts) -> Iterator[str]:
    found = [
        f"{example.id}: {' '.join(words)}"
        for examples in parts.values()
        for example in examples
        for words in (_words(example, entity) for entity in example.gold.entities)
        if _has_loose_edge(words)
    ]
    if found:
        yield (
            f"{_n(len(found), 'entity', 'entities')} marked with punctuation at an edge ({_list(found)}): "
            "boundaries that are not always the same are hard to learn; mark the name alone"
        )


def _find_final_stops(examples: Sequence[Example], config: Config) -> Iterator[str]:
    """Remark on entities that end with the full stop of their sentence, which extraction from raw text leaves out."""
    if not config.extraction.trim_stops:
        return
    found = [
        example.id
        for example in examples
        for stops in (find_final_stops(example.sentence.words),)
        for entity in example.gold.entities
        if entity.span.width > 1 and entity.span.end - 1 in stops
    ]
    if len(found) > _MANY_STOPS * len(examples):
        yield (
            f"in train, {_n(len(found), 'entity', 'entities')} marked with the full stop of the sentence "
            f"({_list(found)}), which extraction from raw text leaves out; set extraction.trim_stops=false to keep it"
        )


def _words(example: Example, entity: Entity) -> tuple[str, ...]:
    return example.sentence.words[entity.span.start : entity.span.end]


def _has_loose_edge(words: Sequence[str]) -> bool:
    if len(words) < 2:
        return False
    text = "".join(words)
    for opening, closing in zip(_OPENING, _CLOSING, strict=True):
        if (words[0] == opening or words[-1] == closing) and text.count(opening) != text.count(closing):
            return True
    quoted = words[0] in _OUTSIDE and words[-1] in _OUTSIDE  # a title may stand in quotes
    return not quoted and (words[0] in _OUTSIDE or words[-1] in _OUTSIDE)


_PLURAL = {"entity": "entities", "relation": "relations"}


def _places(examples: Iterable[Example], what: str) -> dict[str, list[str]]:
    """Return, by type, the ids of the sentences in which the type occurs, once per occurrence."""
    found: dict[str, list[str]] = defaultdict(list)
    for example in examples:
        for one in example.gold.entities if what == "entity" else example.gold.relations:
            found[one.label].append(example.id)
    return found


def _count(places: Sequence[str]) -> str:
    return f"{len(places)} {'example' if len(places) == 1 else 'examples'}: {_list(dict.fromkeys(places))}"


def _n(number: int, name: str, plural: str | None = None) -> str:
    return f"{number:,} {name} is" if number == 1 else f"{number:,} {plural or name + 's'} are"


def _list(items: Iterable[str]) -> str:
    items = iter(items)
    first = list(islice(items, _IDS))
    return ", ".join(first) + (", …" if next(items, None) is not None else "")
