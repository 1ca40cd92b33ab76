"""Warnings about problems in training data, with cures; a warning never stops a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from relatum.config import Config
from relatum.data.passages import count_sentences, find_all_final_stops
from relatum.types import Entity, Example

FEW_EXAMPLES = 10
FEW_TRAINING = 50
FEW_HELD_OUT = 20
SHOWN = 15
"""The largest number of warnings that are shown."""
_LARGE_SHARE = 0.95
_MANY_STOPS = 0.01
"""The number of entities with a sentence's full stop, per sentence, above which they are not taken for slips."""
_IDS = 3
_OPENING, _CLOSING = "([{", ")]}"
_OUTSIDE = {",", ";", ":", "!", "?", '"', "``", "''", "“", "”", "„", "«", "»"}

Parts = Mapping[str, Sequence[Example]]


def advise(parts: Parts, config: Config) -> list[str]:
    """Return a warning for each problem, the worst first; `parts` are train, dev and test."""
    given = {name: examples for name, examples in parts.items() if examples}
    unit = "text" if config.text.unit == "passage" else "sentence"
    return [
        *_find_duplicates(given, unit),
        *_find_conflicts(given, unit),
        *_find_missing(given),
        *_find_rare(given["train"]),
        *_find_small(given),
        *_find_lopsided(given["train"]),
        *_find_long(given, config),
        *_find_punctuation(given),
        *_find_final_stops(given["train"], config),
    ]


def shorten(remarks: Sequence[str]) -> list[str]:
    """Return the first warnings, and a line that counts the others."""
    if len(remarks) <= SHOWN:
        return list(remarks)
    return [*remarks[: SHOWN - 1], f"… and {len(remarks) - SHOWN + 1} more warnings about the data. Fix these first."]


def _find_duplicates(parts: Parts, unit: str) -> Iterator[str]:
    trained = {example.sentence.words: example.id for example in reversed(parts["train"])}
    for name in ("dev", "test"):
        pairs = [(one.id, trained[one.sentence.words]) for one in parts.get(name, ()) if one.sentence.words in trained]
        if pairs:
            yield (
                f"{_n(len(pairs), f'{name} {unit}')} also in train ({_list(f'{a} = {b}' for a, b in pairs)}): scores "
                "will be too high. Remove them from one of the two parts."
            )


def _find_conflicts(parts: Parts, unit: str) -> Iterator[str]:
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
            f"{_n(len(conflicts), unit)} annotated differently in two places ({_list(conflicts)}), so a model "
            "must get one of the two wrong. Make them consistent."
        )


def _find_missing(parts: Parts) -> Iterator[str]:
    for what in ("entity", "relation"):
        trained = _places(parts["train"], what)
        for name in ("dev", "test"):
            if name not in parts:
                continue
            found = _places(parts[name], what)
            if trained and not found:
                yield f"{name} has no {_PLURAL[what]}, so {_EFFECT[name]}. Move some from train to {name}."
                continue
            for label in sorted(found.keys() - trained.keys()):
                yield (
                    f"{what} type {label} is in {name} ({_count(found[label])}: {_list_ids(found[label])}) but not in "
                    f"train, so the model cannot learn it. Annotate some in train, or remove it from {name}."
                )
            missing = sorted(trained.keys() - found.keys())
            if missing:
                labels = ", ".join(missing)
                yield f"{what} types in train but not in {name} ({labels}): {_EFFECT[name]}. Move some to {name}."


def _find_rare(examples: Sequence[Example]) -> Iterator[str]:
    for what in ("relation", "entity"):
        for label, places in sorted(_places(examples, what).items(), key=lambda pair: len(pair[1])):
            if len(places) < FEW_EXAMPLES:
                yield (
                    f"{what} type {label} has only {_count(places)} in train ({_list_ids(places)}), too few to learn "
                    f"it. Annotate {FEW_EXAMPLES} or more, merge it with another type, or leave it out."
                )


def _find_small(parts: Parts) -> Iterator[str]:
    for name, few, cure in (
        ("train", FEW_TRAINING, "a model learns little from so few. Annotate more."),
        ("dev", FEW_HELD_OUT, "the best model is chosen almost at random. Hold out more."),
        ("test", FEW_HELD_OUT, "its scores are unreliable. Hold out more."),
    ):
        n = count_sentences(parts.get(name, ()))
        if 0 < n < few:
            yield f"{name} has only {n} {'sentence' if n == 1 else 'sentences'}: {cure}"


def _find_lopsided(examples: Sequence[Example]) -> Iterator[str]:
    for what in ("entity", "relation"):
        counts = Counter({label: len(places) for label, places in _places(examples, what).items()})
        for label, n in counts.most_common(1):
            if len(counts) > 1 and n > _LARGE_SHARE * counts.total():
                yield (
                    f"{n / counts.total():.0%} of all {_PLURAL[what]} in train are {label}: scores will say little "
                    "about the other types. Annotate more of them, and set training.selection=macro."
                )


def _find_long(parts: Parts, config: Config) -> Iterator[str]:
    if config.text.unit == "passage":
        return  # texts are meant to be long; their windows are reported where they are made
    limit = config.extraction.max_words
    for name, examples in parts.items():
        long = [f"{one.id}: {len(one.sentence)} words" for one in examples if len(one.sentence) > limit]
        if long and name == "train":
            yield (
                f"{_n(len(long), 'train sentence')} longer than {limit} words ({_list(long)}): time and memory grow "
                "with the square of the length. Check how the text is split into sentences."
            )
        elif long:
            yield (
                f"{_n(len(long), f'{name} sentence')} longer than extraction.max_words = {limit} ({_list(long)}): "
                "they are read in windows, and relations across windows are missed. Raise the setting, or split the "
                "sentences."
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
            "inconsistent boundaries are hard to learn. Mark only the name."
        )


def _find_final_stops(examples: Sequence[Example], config: Config) -> Iterator[str]:
    """Warn about entities that end with the full stop of their sentence; extraction from raw text leaves it out."""
    if not config.extraction.trim_stops:
        return
    found = []
    for example in examples:
        stops = find_all_final_stops(example.sentence)
        ends = [entity.span.end - 1 for entity in example.gold.entities if entity.span.width > 1]
        found += [example.id for end in ends if end in stops]
    if len(found) > _MANY_STOPS * count_sentences(examples):
        yield (
            f"in train, {_n(len(found), 'entity', 'entities')} marked with the full stop of the sentence "
            f"({_list(found)}). Extraction from raw text leaves it out. Set extraction.trim_stops=false to keep it."
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
_EFFECT = {"dev": "the best model is chosen without them", "test": "they get no scores"}
"""The effect on entities or relations that a part lacks."""


def _places(examples: Iterable[Example], what: str) -> dict[str, list[str]]:
    """Return, by type, the ids of the sentences in which the type occurs, once per occurrence."""
    found: dict[str, list[str]] = defaultdict(list)
    for example in examples:
        for one in example.gold.entities if what == "entity" else example.gold.relations:
            found[one.label].append(example.id)
    return found


def _count(places: Sequence[str]) -> str:
    return f"{len(places)} {'example' if len(places) == 1 else 'examples'}"


def _list_ids(places: Sequence[str]) -> str:
    return _list(dict.fromkeys(places))


def _n(number: int, name: str, plural: str | None = None) -> str:
    return f"{number:,} {name} is" if number == 1 else f"{number:,} {plural or name + 's'} are"


def _list(items: Iterable[str]) -> str:
    items = iter(items)
    first = list(islice(items, _IDS))
    return ", ".join(first) + (", …" if next(items, None) is not None else "")
