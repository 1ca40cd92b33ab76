"""How much a request may ask for, and what it is told where it asks for more."""

from __future__ import annotations

from dataclasses import dataclass

from relatum.errors import ConfigError

STATUS = {
    "unauthorised": 401,
    "not_found": 404,
    "not_allowed": 405,
    "too_slow": 408,
    "too_large": 413,
    "wrong_host": 421,
    "invalid": 422,
    "busy": 429,
    "internal": 500,
    "unavailable": 503,
}
"""The HTTP status of every kind of refusal."""


class Refusal(Exception):
    """A request that is not answered: what kind of refusal it is, and a message with what, where and the cure."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, STATUS[code]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server allows; a text counts as one sentence at least, a long sentence as several."""

    max_bytes: int = 262_144
    """Of the body of a request."""
    max_sentences: int = 1000
    """Of all texts of a request."""
    max_seconds: float = 30.0
    """For the header of a request, then for its body, and then for the answer."""
    max_waiting: int = 4000
    """Sentences that wait for a model; as many requests may be under way at once."""
    max_words: int = 200
    """Of a sentence that is to be probed: what a probe says of it grows with their square."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not value > 0:
                raise ConfigError(f"{name} is {value}; expected more than 0")
        if self.max_waiting < self.max_sentences:
            raise ConfigError(
                f"max_waiting is {self.max_waiting}, less than max_sentences ({self.max_sentences}): a request of so "
                "many could never be accepted; raise the one or lower the other"
            )
