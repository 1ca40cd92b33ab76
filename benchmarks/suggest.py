"""How many errors people find if they correct the texts first in which a model is least certain.

A model reads annotated texts, and its errors are counted: wrong and missed entities and relations (strict). The texts
are then taken as `relatum suggest` sorts them, and in random order.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from relatum.data import load_documents
from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.extractor.suggestion import certainty
from relatum.types import Annotation

EXAMPLE = Path(__file__).parent.parent / "examples" / "news" / "train.jsonl"
SHUFFLES = 1000


@dataclass(frozen=True, slots=True)
class Row:
    """A text that was read."""

    errors: int
    words: int
    certainty: float


def count_errors(gold: Annotation, found: Annotation) -> int:
    """Count what a person has to remove or add; an entity or relation with a wrong type is both."""
    return len(set(gold.entities) ^ set(found.entities)) + len(set(gold.relations) ^ set(found.relations))


def read(data: Path, model: str) -> list[Row]:
    documents = list(load_documents(data))
    extractor = Extractor.from_pretrained(model)
    rows = []
    for document, extraction in zip(documents, extractor.pipe([one.text for one in documents]), strict=True):
        errors = count_errors(document.annotation, extraction.document.annotation)
        rows.append(Row(errors, sum(map(len, extractor.split(document.text))), certainty(extraction)))
    return rows


def figures(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the errors for each text, and for each 100 words."""
    errors = sum(row.errors for row in rows)
    return errors / len(rows), 100 * errors / sum(row.words for row in rows)


def compare(rows: Sequence[Row], n_taken: int) -> list[str]:
    """Return lines with the figures of both orders; of random ones the mean and the range of 95 %."""
    sure_last = sorted(rows, key=lambda row: row.certainty)[:n_taken]
    shuffle = random.Random(1)
    drawn = [figures(shuffle.sample(rows, n_taken)) for _ in range(SHUFFLES)]
    lines = [f"{len(rows)} texts with {sum(row.errors for row in rows)} errors, of which {n_taken} are corrected"]
    for number, unit in enumerate(("text", "100 words")):
        values = sorted(draw[number] for draw in drawn)
        low, high = values[SHUFFLES // 40], values[-SHUFFLES // 40 - 1]
        lines.append(
            f"errors for each {unit}: {figures(sure_last)[number]:.2f} if sorted, "
            f"{mean(values):.2f} in random order ({low:.2f} to {high:.2f})"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suggest", description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", default=EXAMPLE, help="annotated data in any format")
    parser.add_argument("--model", default="news", help="a model that comes with relatum, or the folder of a model")
    parser.add_argument("--take", type=int, metavar="N", help="texts to correct; by default a third of them")
    arguments = parser.parse_args()
    try:
        rows = read(arguments.data, arguments.model)
    except RelatumError as error:
        print(f"python -m benchmarks.suggest: {error}", file=sys.stderr)
        return 1
    n_taken = arguments.take or max(1, len(rows) // 3)
    if not 0 < n_taken <= len(rows):
        print(f"python -m benchmarks.suggest: --take is {n_taken}, and there are {len(rows)} texts", file=sys.stderr)
        return 1
    print("\n".join(compare(rows, n_taken)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
