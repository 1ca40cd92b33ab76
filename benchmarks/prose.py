"""How well the shipped models read the prose of tests/prose, which no model is trained on.

Without `--model`, the shipped models are measured. `--model news=PATH` measures the model in the folder PATH on
news.jsonl instead, and only the models named this way are measured. `--json FILE` writes the figures.
No figures are printed if a file is damaged: every entity repeats its text, which must stand at its offsets.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from relatum.data.formats import jsonl
from relatum.data.problems import Problems
from relatum.errors import RelatumError
from relatum.evaluation.metrics import Score, evaluate
from relatum.extractor.extractor import Extractor
from relatum.extractor.result import Extraction
from relatum.training.provenance import commit, device_name, versions
from relatum.types import Document

FOLDER = Path(__file__).parent.parent / "tests" / "prose"
MODELS = ("news", "drugs", "wiki")
"""The shipped models, each with a file of its own in the folder."""
THRESHOLDS = (0.0, 0.5, 0.7, 0.9)
"""0.0 leaves everything that a model finds."""
TOGETHER = "together"
"""The tag of documents that name what a relation could connect, but state no relation."""
_CURE = "No figures are given: correct the file, or restore it from the repository."


@dataclass(frozen=True, slots=True)
class Quality:
    """How much was found and how much of it is right, in per cent."""

    found: int
    gold: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of what a threshold leaves."""

    threshold: float
    entities: Quality
    relations: Quality
    """Relations are right as in RE+: boundaries and types of both entities, type and direction."""
    false_positive_rate: float
    """Per cent of the documents with the tag `together` in which the model finds a relation."""
    neutral_entities: float
    """Entities found per 100 neutral sentences."""
    neutral_relations: float
    """Relations found per 100 neutral sentences."""


def read(path: Path) -> list[Document]:
    """Read a file of the test set; raise `RelatumError` if an offset and the text of its entity disagree."""
    problems = Problems()
    documents = list(jsonl.read(path, problems))
    problems.raise_if_any(_CURE)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if any("text" not in entity for entity in json.loads(line)["entities"]):
            raise RelatumError(
                f"{path}:{number}: an entity has no 'text', so that its offsets cannot be checked. {_CURE}"
            )
    return documents


def tags(document: Document) -> list[str]:
    """Return the tags of a document, which say what it tests."""
    found = document.metadata.get("tags")
    if not isinstance(found, list):
        raise RelatumError(f"document {document.id}: expected a list of 'tags' in its metadata. {_CURE}")
    return found


def measure(extractor: Extractor, documents: Sequence[Document], neutral: Sequence[Document]) -> list[Row]:
    """Measure a model on annotated documents and on neutral sentences, once for each threshold."""
    _check_labels(extractor, documents)
    found = extractor([document.text for document in documents])
    found_in_neutral = extractor([document.text for document in neutral])
    return [_row(threshold, documents, found, found_in_neutral) for threshold in THRESHOLDS]


def _check_labels(extractor: Extractor, documents: Sequence[Document]) -> None:
    annotations = [document.annotation for document in documents]
    labels = {entity.label for annotation in annotations for entity in annotation.entities}
    relation_labels = {relation.label for annotation in annotations for relation in annotation.relations}
    schema = extractor.model.schema
    unknown = sorted((labels - set(schema.entity_types)) | (relation_labels - set(schema.relation_names)))
    if unknown:
        raise RelatumError(
            f"the model {extractor.name} does not know the labels {', '.join(unknown)} of the test set; "
            "measure a model that was trained with these labels"
        )


def _row(
    threshold: float, documents: Sequence[Document], found: Sequence[Extraction], neutral: Sequence[Extraction]
) -> Row:
    kept = [extraction.above(threshold) for extraction in found]
    kept_in_neutral = [extraction.above(threshold) for extraction in neutral]
    pairs = zip(documents, kept, strict=True)
    scores = evaluate((document.annotation, extraction.document.annotation) for document, extraction in pairs)
    together = [extraction for document, extraction in zip(documents, kept, strict=True) if TOGETHER in tags(document)]
    return Row(
        threshold,
        _quality(scores.entities.micro, sum(len(extraction.entities) for extraction in kept)),
        _quality(scores.relations_strict.micro, sum(len(extraction.relations) for extraction in kept)),
        _per_100(sum(bool(extraction.relations) for extraction in together), len(together)),
        _per_100(sum(len(extraction.entities) for extraction in kept_in_neutral), len(neutral)),
        _per_100(sum(len(extraction.relations) for extraction in kept_in_neutral), len(neutral)),
    )


def _quality(score: Score, found: int) -> Quality:
    per_cent = [round(100 * value, 2) for value in (score.precision, score.recall, score.f1)]
    return Quality(found, score.support, *per_cent)


def _per_100(count: int, total: int) -> float:
    return round(100 * count / total, 2)


def print_rows(name: str, rows: Sequence[Row]) -> None:
    """Print the figures of a model as a table, one line for each threshold."""
    print(f"{name}, per cent; FP: documents in which entities merely occur together, but a relation is found;")
    print("neutral: entities and relations found per 100 neutral sentences")
    print("threshold   entities P      R     F1   RE+ P      R     F1      FP   neutral ent.   rel.")
    for row in rows:
        one, two = row.entities, row.relations
        print(
            f"{row.threshold:9.1f}   {one.precision:10.2f} {one.recall:6.2f} {one.f1:6.2f}  "
            f"{two.precision:6.2f} {two.recall:6.2f} {two.f1:6.2f}  {row.false_positive_rate:6.2f}  "
            f"{row.neutral_entities:13.2f} {row.neutral_relations:6.2f}"
        )


def _named_model(value: str) -> tuple[str, str]:
    name, _, path = value.partition("=")
    if name not in MODELS or not path:
        raise argparse.ArgumentTypeError(f"{value!r}: expected {' or '.join(f'{known}=PATH' for known in MODELS)}")
    return name, path


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.prose", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=_named_model, action="append", metavar="NAME=PATH")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--data", type=Path, default=FOLDER, metavar="FOLDER", help="default: tests/prose")
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parser.parse_args(given)
    models = dict(options.model or ((name, name) for name in MODELS))
    try:
        # Every file is checked before the first figure is printed.
        neutral = read(options.data / "neutral.jsonl")
        documents = {name: read(options.data / f"{name}.jsonl") for name in models}
        rows = {}
        for name, path in models.items():
            extractor = Extractor.from_pretrained(path, device="cpu")
            rows[name] = measure(extractor, documents[name], neutral)
    except RelatumError as error:
        print(error, file=sys.stderr)
        return 1
    for name, measured in rows.items():
        print_rows(name if models[name] == name else f"{name} ({models[name]})", measured)
    if options.json is not None:
        record = {
            "what": "The models on the prose of tests/prose, which no model is trained on.",
            "command": shlex.join(["python", "-m", "benchmarks.prose", *given]),
            "commit": commit(),
            "versions": versions(),
            "device": device_name(extractor.model.device),
            "documents": {**{name: len(texts) for name, texts in documents.items()}, "neutral": len(neutral)},
            "models": {
                name: {"path": models[name], "rows": [asdict(row) for row in measured]}
                for name, measured in rows.items()
            },
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
