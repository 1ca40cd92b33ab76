"""The agreement of attention heads with entities and relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relatum.extractor.extractor import Extractor
from relatum.extractor.piping import OnProgress
from relatum.lab.attention.alignment import PATTERNS, Alignment, AlignmentCounter, make_patterns, nearness
from relatum.lab.attention.weights import Head, attend, find_heads
from relatum.types import Example


@dataclass(frozen=True, slots=True)
class HeadScores:
    """The agreement of each attention head with each pattern over a corpus."""

    heads: tuple[Head, ...]
    alignments: Mapping[str, Alignment]
    """The alignment by pattern, with the average precision of each head in the order of `heads`."""
    nearness: Mapping[str, float]
    """The average precision, by pattern, of ranking pairs of words by their nearness alone."""
    n_sentences: int
    n_pairs: int

    def best(self, pattern: str, of_encoder: bool) -> list[tuple[Head, float]]:
        """The heads of the network, or of its encoder, the best first."""
        precisions = self.alignments[pattern].average_precision.tolist()
        scored = zip(self.heads, precisions, strict=True)
        wanted = [(head, precision) for head, precision in scored if head.of_encoder == of_encoder]
        return sorted(wanted, key=lambda item: -item[1])

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as JSON can hold them; a pattern that connects nothing has no average precision."""
        heads = []
        for row, head in enumerate(self.heads):
            precision = {
                name: round(float(alignment.average_precision[row]), 6)
                for name, alignment in self.alignments.items()
                if alignment.n_connected
            }
            heads.append({**head.to_dict(), "average_precision": precision})
        return {
            "sentences": self.n_sentences,
            "pairs": self.n_pairs,
            "patterns": {
                name: {
                    "connected": alignment.n_connected,
                    "chance": alignment.chance,
                    "nearness": self.nearness[name] if alignment.n_connected else None,
                }
                for name, alignment in self.alignments.items()
            },
            "heads": heads,
        }


def measure_heads(
    extractor: Extractor, examples: Sequence[Example], on_progress: OnProgress | None = None
) -> HeadScores:
    """Read annotated sentences, and rank all pairs of different words by the weights of each head.

    For a sentence that is read in windows, the pairs of words within each window count.
    """
    heads = find_heads(extractor.model)
    counter = AlignmentCounter(len(heads))
    near = AlignmentCounter(1)
    for attention in attend(extractor, [example.sentence for example in examples], on_progress):
        example = examples[attention.sentence]
        part = slice(attention.window.start, attention.window.end)
        whole = make_patterns(example.gold, len(example.sentence))
        patterns = {name: pattern[part, part] for name, pattern in whole.items()}
        counter.add(attention.weights, patterns)
        near.add(nearness(attention.window.width), patterns)
    return HeadScores(
        heads,
        {name: counter.alignment(name) for name in PATTERNS},
        {name: float(near.alignment(name).average_precision[0]) for name in PATTERNS},
        len(examples),
        counter.n_pairs,
    )
