"""The loss of a system on a sentence, from its errors."""

from __future__ import annotations

from math import log2

from relatum.lab.errors.kinds import EntityMatch, RelationMatch
from relatum.lab.errors.sentences import MatchedSentence

MOST = 10.0
"""The largest loss of one error."""

BY_MODEL = (
    "the loss of the model: −log P of the gold tags, summed over the words of the sentence and the cells of its table"
)
BY_ERRORS = (
    "errors, each weighed with how sure the system was: a wrong item with the score s counts −log₂(1 − s), at most "
    f"{MOST:g}; one without a score, and one that was missed, counts 1"
)
"""A description of the loss that sentences are sorted by; `BY_MODEL` describes the other one."""


def error_loss(match: EntityMatch | RelationMatch) -> float:
    """Return the loss of one match: 0 if it is right, and more the surer a wrong answer was."""
    if match.kind == "right":
        return 0.0
    score = None if match.found is None else match.found.score
    if score is None:
        return 1.0
    return MOST if score >= 1 - 2**-MOST else -log2(1 - max(score, 0.0))


def sentence_loss(sentence: MatchedSentence) -> float:
    """Return the sum of the losses of all errors of a sentence."""
    return sum(map(error_loss, sentence.entities)) + sum(map(error_loss, sentence.relations))
