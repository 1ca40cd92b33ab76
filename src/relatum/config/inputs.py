"""The settings of the input: raw text and annotated data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from relatum.config.values import FunctionName, Section


class TextConfig(Section):
    """Splitting of raw text into sentences and words."""

    words: Literal["rules", "whitespace"] | FunctionName = Field(
        default="rules",
        description="The rule that splits a sentence into words, or a function of your own, named with its module.",
    )
    sentences: Literal["rules", "lines", "none"] | FunctionName = Field(
        default="rules",
        description='The rule that splits a text into sentences, or a function of your own; "none" reads each text as '
        "one sentence.",
    )
    unit: Literal["sentence", "passage"] = Field(
        default="sentence",
        description="The text that is read at once: a sentence, or a passage of consecutive sentences, up to "
        "extraction.max_words words, in which relations across sentences are found.",
    )

    def functions(self) -> dict[str, str]:
        """Return the keys that name functions of the user's own, with their values; built-in rules are left out."""
        return {key: name for key, name in (("words", self.words), ("sentences", self.sentences)) if ":" in name}


class DataConfig(Section):
    """Handling of annotations and records that cannot be used as they are."""

    overlaps: Literal["fail", "drop", "keep-longest", "keep"] | None = Field(
        default=None,
        description="Nested, overlapping and discontinuous entities. If unset, they are kept if the target can hold "
        'them, and else an error. "keep" leaves out discontinuous ones only.',
    )
    crossing: Literal["fail", "drop", "join"] = Field(
        default="fail",
        description="Relations between two sentences, if the target holds single sentences: make them an error, leave "
        "them out, or join the sentences.",
    )
    inside_words: Literal["cut", "fail"] = Field(
        default="cut",
        description="Annotations that begin or end inside a word: cut the word, also in dev and test, or fail.",
    )
    on_error: Literal["fail", "skip"] = Field(
        default="fail",
        description="Bad records: stop before anything is written, or skip and count them. Dev and test keep records "
        "that a model cannot fully represent, and count the rest as missed.",
    )
