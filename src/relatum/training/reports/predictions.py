"""The predictions of a run's model on dev and test, kept beside the gold annotations.

    predictions/test.jsonl          one sentence per line, with what was found
    predictions/test-gold.jsonl     the same sentences with all that was annotated

If gold has relations between the sentences of a text, the line is the whole text.
Two runs can be compared sentence by sentence with nothing but their folders, and `relatum score` reads these files too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relatum.data.atomic import replacing_file
from relatum.data.documents import join_examples
from relatum.data.formats import get_format
from relatum.data.problems import Problems
from relatum.errors import RelatumError
from relatum.evaluation.pairing import Pairs, pair_documents
from relatum.types import Document, Example, Prediction


def write_predictions(folder: Path, part: str, examples: Sequence[Example], found: Sequence[Prediction]) -> None:
    """Write both files of a part: the predictions and the gold annotations."""
    pairs = join_examples(examples, [one.found for one in found])
    for name, side in ((part, 1), (f"{part}-gold", 0)):
        with replacing_file(folder / f"{name}.jsonl") as draft:
            get_format("jsonl").write(draft, (pair[side] for pair in pairs))


def read_predictions(folder: Path, part: str) -> Pairs:
    """Read the gold and the found annotations of the sentences of a part."""
    gold, found = folder / f"{part}-gold.jsonl", folder / f"{part}.jsonl"
    for path in (gold, found):
        if not path.exists():
            raise RelatumError(
                f"{path}: there is no such file; the run has no {part} part, or is of a version that kept no "
                "predictions. Write some with relatum evaluate --out, and compare them with relatum score"
            )
    return pair_documents(_read(gold), _read(found), str(gold), str(found))


def _read(path: Path) -> list[Document]:
    problems = Problems()
    documents = list(get_format("jsonl").read(path, problems))
    problems.raise_if_any("Predictions are written when a run ends and must not be changed.")
    return documents
