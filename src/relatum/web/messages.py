"""The JSON messages of requests and answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

Text = Annotated[str, Field(description="Any text; it is split into sentences.")]
ModelName = Annotated[str | None, Field(description="One that GET /models names; the default one if not given.")]


class Message(BaseModel):
    """Strict, so that the string "0.5" is not a number; keys that are not known are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ExtractRequest(Message):
    """One text, or several."""

    text: Text | None = None
    texts: list[Text] | None = None
    model: ModelName = None
    threshold: float | None = Field(default=None, ge=0, le=1, description="Leave out what has a lower score.")

    @model_validator(mode="after")
    def _one_of_the_two(self) -> ExtractRequest:
        if (self.text is None) == (self.texts is None):
            raise ValueError('expected either "text", a string, or "texts", a list of strings')
        return self

    @property
    def all_texts(self) -> list[str]:
        return [self.text] if self.text is not None else self.texts or []


class ProbeRequest(Message):
    """A sentence of a text, by its number."""

    text: Text
    model: ModelName = None
    sentence: int = Field(default=0, ge=0, description="Which sentence of the text, counted from 0.")


class Range(Message):
    """Characters of the text: Unicode code points, the end exclusive."""

    start: int
    end: int


class FoundEntity(Range):
    id: str
    text: str
    label: str
    score: float | None


class FoundRelation(Message):
    head: str = Field(description="The id of an entity.")
    tail: str
    label: str
    score: float | None


class TextResult(Message):
    text: str
    entities: list[FoundEntity]
    relations: list[FoundRelation]
    sentences: list[Range]


class ExtractResponse(Message):
    """Results are in the order of the texts."""

    model: str
    results: list[TextResult]


class ProbeResponse(Message):
    model: str
    sentence: int
    sentences: list[Range]
    probe: dict[str, Any] = Field(description="What `Extractor.probe` says, as JSON.")


class ServedModelInfo(Message):
    name: str
    default: bool
    entity_types: list[str]
    relation_types: list[str]
    n_layers: int
    n_attention_heads: int
    encoder: str
    card: str = Field(description="The model card, in Markdown.")


class ModelsResponse(Message):
    models: list[ServedModelInfo]


class HealthResponse(Message):
    status: str
    version: str
    queue: int = Field(description="Sentences that wait.")
    accepting: bool = Field(description="Whether requests are still taken; not while the server stops.")


class ErrorDetail(Message):
    code: str
    message: str


class ErrorResponse(Message):
    error: ErrorDetail
