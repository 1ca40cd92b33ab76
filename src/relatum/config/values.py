"""The types of values that settings have, and the base class of their sections."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _odd(value: int) -> int:
    if value % 2 == 0:
        raise ValueError("an odd number")
    return value


def distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a value that stands twice."""
    if len(set(values)) < len(values):
        raise ValueError("each of them at most once")
    return values


def not_fp16(value: object) -> object:
    """Refuse a precision that training cannot use."""
    if value == "fp16":
        raise ValueError(
            '"fp32" or "bf16" (losses are summed and gradients reach thousands: fp16 has too small a range for them)'
        )
    return value


FunctionName = Annotated[
    str,
    Field(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*$", description='"package.module:function"'),
]

# Settings also come with models that strangers made: nothing that they ask for may take all memory, or for ever.
Positive = Annotated[int, Field(gt=0, lt=2**31)]
NotNegative = Annotated[int, Field(ge=0, lt=2**31)]
Layers = Annotated[int, Field(gt=0, le=1000)]
Width = Annotated[int, Field(gt=0, le=16_384)]
InnerWidth = Annotated[int, Field(gt=0, le=65_536)]
EvenWidth = Annotated[int, Field(gt=0, le=16_384, multiple_of=2)]
OddSize = Annotated[int, AfterValidator(_odd), Field(gt=0, le=255)]
Cells = Annotated[int, Field(gt=0, le=2**26)]
Words = Annotated[int, Field(gt=0, le=2**13)]
PositiveNumber = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(gt=0, lt=1)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """Keys that belong together; strict, so that the string "3" is not the number 3."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def to_dict(self) -> dict[str, Any]:
        """Return every key with its value, in types that JSON can hold."""
        return self.model_dump(mode="json")
