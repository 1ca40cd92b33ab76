"""Raw text into sentences and words, with exact character offsets; rules only, nothing to download.

White space is what `str.isspace()` says it is. Every other character, zero-width and control characters included, is
in exactly one word, and every word in exactly one sentence. All functions take time linear in the length of the text.
"""

from relatum.data.splitting.sentences import (
    find_final_stops,
    find_owned_stop,
    one_sentence,
    split_lines,
    split_sentences,
)
from relatum.data.splitting.splitter import Rule, Splitter, make_splitter, rule_name
from relatum.data.splitting.words import split_whitespace, split_words

__all__ = [
    "Rule",
    "Splitter",
    "find_final_stops",
    "find_owned_stop",
    "make_splitter",
    "one_sentence",
    "rule_name",
    "split_lines",
    "split_sentences",
    "split_whitespace",
    "split_words",
]
