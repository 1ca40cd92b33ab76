"""Words in raw text.

The rules lean towards the finer cut, since a mention can be made of several words but not of half a word: what some
corpora keep together and others split (`drug-induced`, `imipenem/cilastatin`) is split. With hyphens kept, 7 % of the
entities of ADE would begin or end inside a word. `benchmarks/splitting.py` has the figures for the rules as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import repeat

from relatum.data.splitting.abbreviations import is_abbreviation
from relatum.data.splitting.sentences import dot_ends_sentence
from relatum.types import Span

_SPACE = "\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# Control characters, marks of direction, the zero-width space and the byte order mark; joiners are not among them.
_INVISIBLE = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff"
_IDEOGRAPH = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_SYMBOL = (
    r"!-/:-@\[-`{-~\xa1-\xa9\xab\xac\xae-\xb1\xb4\xb6-\xb8\xbb\xbf\xd7\xf7"
    "\u037e\u0387\u055a-\u055f\u0589\u058a\u05be\u05c0\u05c3\u05c6\u060c\u061b\u061e\u061f\u066a-\u066d\u06d4\u0964"
    "\u0965\u104a-\u104f\u1360-\u1368\u17d4-\u17da\u2010-\u2027\u2030-\u205e\u20a0-\u20cf\u2120\u2122\u2190-\u2bff"
    "\u2e00-\u2e7f\u3001-\u3004\u3008-\u3020\u3030\u303d-\u303f\u30fb\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff0f"
    "\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\uffe0-\uffee\ufffc\ufffd\U0001f000-\U0001faff"
)
# What is none of these is part of a word: letters and digits of every script, their marks, joiners, the unknown.
_W = f"[^{_SPACE}{_INVISIBLE}{_IDEOGRAPH}{_SYMBOL}]"
_MARK = "[\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef]"
_CLITIC = f"['’](?:[stdm]|[STDM]|re|ve|ll|RE|VE|LL)(?!{_W})"
_UNIT = f"(?:[kmµμnp]?[glLM]|[mµμn]mol|mmHg|[ckmµμn]m|mcg|mEq|IU|[kMG]?Hz|k?Da|[kMGT]B|[ap]m|hrs?|min|mph|ppm)(?!{_W})"
_ADDRESS = r"""[^\s<>"\u3000-\u9fff\uff00-\uffef]*[^\s<>"'.,;:!?()\[\]{}”’»\u3000-\u9fff\uff00-\uffef]"""
_EMAIL = r"\w[\w.+%-]{0,63}+@\w[\w-]{0,62}+(?:\.\w[\w-]{0,62}+){1,8}+"

# Time stays linear because what a branch has read in vain is then taken whole by a later one, or is of bounded length.
# The first branch only takes the commonest words quickly. The group is the dot after a word.
_WORDS = re.compile(
    rf"""
    (?=\S)
    (?: [A-Za-z]++(?=[ ,;)\n])
      | (?:https?|ftp)://{_ADDRESS} | www\.{_ADDRESS} | {_EMAIL}
      | \d++(?:[.,:]\d++)*+(?={_UNIT})
      | (?:[-−](?<![^\s(\[=<>~±].)(?=\.?\d))?+ (?:\.(?<!{_W}.)(?=\d))?+ {_W}++
        (?:
          (?: \.(?=[a-z\d]|[A-Z](?!{_W}))
            | (?<=\d)[,:/](?=\d)
            | [-‐‑](?:(?=\d)|(?<=\d.)) | –(?<=\d.)(?=\d)
            | (?!{_CLITIC})['’]
            | (?<=[A-Z])&(?=[A-Z])
            | _++
          ) {_W}++
        )*+
        (\.(?!\.))?+
      | (?<=[^\s(\[{{"'“‘«„`]){_CLITIC}
      | ``|''|\.++|-++|_++|=++|\*++|~++|\#++|!++|\?++|[{_INVISIBLE}]++
      | [\U0001f1e6-\U0001f1ff]{{2}}
      | [{_SYMBOL}{_IDEOGRAPH}]{_MARK}*+(?:\u200d[{_SYMBOL}]{_MARK}*+)*+
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_CHUNKS = re.compile(r"\S+")


def split_words(text: str) -> list[Span]:
    """Split words by rule: punctuation, brackets, quotes, clitics and hyphens between letters stand alone.

    An abbreviation keeps its dot except at the end of a sentence, where the dot is a word.
    """
    # None is empty, and they are most of what splitting makes.
    return list(map(tuple.__new__, repeat(Span), _cut_words(text)))


def _cut_words(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each word, one by one: a text of 100 MB has 20 million words."""
    for match in _WORDS.finditer(text):
        cut = match.span()
        if match.lastindex and not _keeps_dot(text, *cut):
            yield cut[0], cut[1] - 1
            cut = (cut[1] - 1, cut[1])
        yield cut


def split_whitespace(text: str) -> list[Span]:
    """Split words at white space."""
    return [Span(*match.span()) for match in _CHUNKS.finditer(text)]


def _keeps_dot(text: str, start: int, end: int) -> bool:
    """True if the dot that ends this word marks it as abbreviated and does not end the sentence."""
    word = text[start : end - 1]
    return is_abbreviation(word) and not dot_ends_sentence(text, end - 1)
