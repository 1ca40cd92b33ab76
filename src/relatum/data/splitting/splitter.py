"""A way of splitting text, put together from a rule for words and a rule for sentences."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from itertools import pairwise
from operator import attrgetter

from relatum.data.splitting.sentences import one_sentence, split_lines, split_sentences
from relatum.data.splitting.words import split_whitespace, split_words
from relatum.errors import ConfigError
from relatum.types import Span

Rule = Callable[[str], list[Span]]

WORD_RULES: Mapping[str, Rule] = {"rules": split_words, "whitespace": split_whitespace}
SENTENCE_RULES: Mapping[str, Rule] = {"rules": split_sentences, "lines": split_lines, "none": one_sentence}
_TRUSTED = {"words": tuple(WORD_RULES.values()), "sentences": tuple(SENTENCE_RULES.values())}


@dataclass(frozen=True, slots=True)
class Splitter:
    """Two rules, each from a text to ranges of its characters, in order and without overlap."""

    words: Rule = split_words
    sentences: Rule = split_sentences

    def split(self, text: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """Return the words, as spans of characters, and the sentences, as ranges of words.

        A word that crosses the end of a sentence is cut there; a sentence without words leaves no trace.
        """
        words = _apply("words", self.words, text)
        kept: list[Span] = []
        ranges: list[Span] = []
        at = 0
        for sentence in _apply("sentences", self.sentences, text):
            first = len(kept)
            stop = bisect_left(words, sentence.end, at, key=attrgetter("start"))
            if at == stop:
                continue
            if words[at].start < sentence.start:
                break
            kept += words[at:stop]
            at = stop
            if (last := kept[-1]).end > sentence.end:
                kept[-1] = Span(last.start, sentence.end)
                at -= 1
                words[at] = Span(sentence.end, last.end)
            ranges.append(Span(first, len(kept)))
        if at < len(words):
            left = words[at]
            raise _bad("sentences", self.sentences, f"left out {_place(left, text)}", "a sentence for every word")
        return tuple(kept), tuple(ranges)

    def group(self, text: str, words: Sequence[Span]) -> tuple[Span, ...]:
        """Return the sentences as ranges of words that are given; a word belongs to the sentence in which it begins."""
        starts = [sentence.start for sentence in _apply("sentences", self.sentences, text)]
        firsts = (bisect_left(words, start, key=attrgetter("start")) for start in starts[1:])
        borders = sorted({0, *firsts, len(words)})
        return tuple(Span(first, last) for first, last in pairwise(borders))


def make_splitter(words: str | Rule = "rules", sentences: str | Rule = "rules") -> Splitter:
    """Make a splitter of two rules: built-in names, `package.module:function`, or functions.

    A function named by its module is imported, so only names that the user gave may come here; `config.load_record`
    refuses all others.
    """
    return Splitter(_find("words", words, WORD_RULES), _find("sentences", sentences, SENTENCE_RULES))


def rule_name(rule: Rule) -> str:
    """Return the name of a function as the settings write it."""
    return f"{getattr(rule, '__module__', '?')}:{getattr(rule, '__qualname__', type(rule).__qualname__)}"


def _find(setting: str, name: str | Rule, known: Mapping[str, Rule]) -> Rule:
    if not isinstance(name, str):
        return _check_callable(setting, rule_name(name), name)
    if name in known:
        return known[name]
    module, colon, path = name.partition(":")
    if not (colon and module and path):
        names = ", ".join(map(repr, known))
        raise ConfigError(f"{setting} = {name!r}: unknown; use {names}, or 'package.module:function' for your own")
    try:
        target: object = import_module(module)
    except Exception as error:
        cure = f"check that `python -c 'import {module}'` works here (installed, or its folder in PYTHONPATH)"
        raise ConfigError(f"{setting} = {name!r}: {type(error).__name__}: {error}; {cure}") from error
    try:
        target = reduce(getattr, path.split("."), target)
    except AttributeError as error:
        raise ConfigError(f"{setting} = {name!r}: {error}; name a function of that module") from error
    return _check_callable(setting, name, target)


def _check_callable(setting: str, name: str, target: object) -> Rule:
    if not callable(target):
        raise ConfigError(
            f"{setting} = {name!r}: found {type(target).__name__}; name a function from str to list[Span]"
        )
    return target


def _apply(setting: str, rule: Rule, text: str) -> list[Span]:
    """Apply a rule to a text and return its spans, checked if the rule is not one of ours."""
    if rule in _TRUSTED[setting]:
        return rule(text)
    try:
        spans = list(rule(text))
    except Exception as error:
        raise _bad(setting, rule, f"failed: {type(error).__name__}: {error}", "a list of Span for any text") from error
    at = 0
    for span in spans:
        if not isinstance(span, Span):
            raise _bad(setting, rule, f"returned {span!r}", "a list of relatum.types.Span")
        if span.end > len(text):
            raise _bad(setting, rule, f"returned {span}", f"spans within the text's {len(text)} characters")
        if span.start < at:
            raise _bad(setting, rule, f"returned {span} after {at} characters", "spans in order that do not overlap")
        if setting == "words" and any(map(str.isspace, span.of(text))):
            raise _bad(setting, rule, f"returned {_place(span, text)}", "words without white space")
        at = span.end
    return spans


def _place(span: Span, text: str) -> str:
    return f"{span.of(text)[:40]!r} at [{span.start}, {span.end})"


def _bad(setting: str, rule: Rule, found: str, expected: str) -> ConfigError:
    return ConfigError(f"{setting} = {rule_name(rule)!r} {found}; expected {expected}")
