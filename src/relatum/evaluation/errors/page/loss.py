"""How wrong a system is about a sentence."""

from __future__ import annotations

from math import log2

from relatum.evaluation.errors.kinds import EntityMatch, RelationMatch
from relatum.evaluation.errors.sentences import MatchedSentence

MOST = 10.0
"""The most that one error counts."""

BY_MODEL = (
    "the loss of the model: −log P of the gold tag, summed over the words of the sentence and the cells of its table"
)
BY_ERRORS = (
    "errors, each weighed with how sure the system was: a wrong item with the score s counts −log₂(1 − s), at most "
    f"{MOST:g}; one without a score, and one that was missed, counts 1"
)
"""What sentences are sorted by, in words."""


def error_loss(match: EntityMatch | RelationMatch) -> float:
    """What one match counts: nothing where it is right, and more the surer a wrong answer was."""
    if match.kind == "right":
        return 0.0
    score = None if match.found is None else match.found.score
    if score is None:
        return 1.0
    return MOST if score >= 1 - 2**-MOST else -log2(1 - max(score, 0.0))


def sentence_loss(sentence: MatchedSentence) -> float:
    """The sum over all errors of a sentence."""
    return sum(map(error_loss, sentence.entities)) + sum(map(error_loss, sentence.relations))
