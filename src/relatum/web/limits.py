"""The limits of requests, and the refusal of requests that exceed them."""

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
    """The refusal of a request: its kind, and a message that says what is wrong, where, and the cure."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, STATUS[code]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server; a text counts as one sentence at least, a long sentence as several."""

    max_bytes: int = 262_144
    """The most bytes in the body of a request."""
    max_sentences: int = 1000
    """The most sentences in all texts of a request."""
    max_seconds: float = 30.0
    """The most seconds for the header of a request, then for its body, and then for the answer."""
    max_waiting: int = 4000
    """The most sentences that wait for a model, and the most requests that are under way at once."""
    max_words: int = 200
    """The most words in a sentence that is to be probed: the answer grows with the square of their number."""

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
