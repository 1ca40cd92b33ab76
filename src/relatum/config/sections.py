"""Every setting there is, with its type, its default and what it means.

To add a section, write one class and name it in `Config`: files, overrides, `relatum config show` and the error
messages follow. A key that may be left unset has None as its default, since TOML has no word for it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

FunctionName = Annotated[
    str,
    Field(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*$", description='"package.module:function"'),
]


class Section(BaseModel):
    """Keys that belong together; strict, so that the string "3" is not the number 3."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def to_dict(self) -> dict[str, Any]:
        """Every key with its value, as JSON can hold it."""
        return self.model_dump(mode="json")


class TextConfig(Section):
    """How raw text is split."""

    words: Literal["rules", "whitespace"] | FunctionName = Field(
        default="rules", description="What splits a sentence into words; a function of your own is named by its module."
    )
    sentences: Literal["rules", "lines", "none"] | FunctionName = Field(
        default="rules", description='What splits a text into sentences; "none" takes each text as one sentence.'
    )


class DataConfig(Section):
    """What happens to annotations and records that cannot be used as they are."""

    overlaps: Literal["fail", "drop", "keep-longest"] | None = Field(
        default=None,
        description="Nested, overlapping and discontinuous entities; if unset, they are kept where the target can hold "
        "them and are an error where it cannot.",
    )
    crossing: Literal["fail", "drop"] = Field(
        default="fail", description="Relations between two sentences, where the target holds single sentences."
    )
    on_error: Literal["fail", "skip"] = Field(
        default="fail", description="Bad records: stop before anything is written, or leave them out and count them."
    )


class TaggingConfig(Section):
    """How annotations become labels; the defaults are the paper's formulation."""

    scheme: Literal["bio", "bioes"] = Field(default="bio", description="The tags that mark entities in a sentence.")
    fill: Literal["entire", "lower", "upper"] = Field(
        default="entire", description="The part of the relation table that is filled: all of it, or one triangle."
    )
    cells: Literal["entity", "last"] = Field(
        default="entity",
        description="The cells that carry a relation: all words of both entities, or only the last word of each.",
    )
    directed: bool = Field(
        default=True, description="Whether a relation has one tag for each direction, or a single one for both."
    )


class EvaluationConfig(Section):
    """How predictions are scored."""

    macro_over: Literal["gold", "schema", "all"] = Field(
        default="gold",
        description="The types that macro averages run over: those in the gold data, those of the schema, or those "
        "in the gold or the predicted data.",
    )
    entities: Literal["predicted", "gold"] = Field(
        default="predicted",
        description="The entities that relations are looked for between: the predicted ones, or those of the gold "
        "data, given to the model.",
    )


class Config(Section):
    """All settings."""

    text: TextConfig = TextConfig()
    data: DataConfig = DataConfig()
    tagging: TaggingConfig = TaggingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
