"""The default formulation holds all gold annotation of the corpora it was published with."""

import os
from pathlib import Path

import pytest

from relatum.data.documents import to_examples
from relatum.data.formats import get_format
from relatum.data.problems import Problems
from relatum.schema import infer_schema
from relatum.tagging.sequence import Scheme, SequenceTags
from relatum.tagging.table import TableTags
from relatum.types import Example

FILES = ["conll04/dev.json", "conll04/test.json", "ade/all.jsonl"]


def read(name: str) -> list[Example]:
    folder = os.environ.get("RELATUM_DATA")
    if not folder:
        pytest.skip("RELATUM_DATA does not name the folder of the corpora")
    path = Path(folder, name)
    if not path.exists():
        pytest.skip(f"there is no {path}")
    problems = Problems()
    documents = list(get_format("table-sequence").read(path, problems))
    problems.raise_if_any()
    return [example for document in documents for example in to_examples(document)]


@pytest.mark.parametrize("name", FILES)
def test_gold_relations_decode_back(name: str) -> None:
    examples = read(name)
    tags = TableTags(infer_schema(example.gold for example in examples))
    assert examples
    for example in examples:
        labels = tags.encode(example.gold, len(example.sentence))
        assert (labels.lost, labels.gained) == ((), ())
        assert set(tags.decode(labels.cells, example.gold.entities)) == set(example.gold.relations)


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
@pytest.mark.parametrize("name", FILES)
def test_gold_entities_decode_back(name: str, scheme: Scheme) -> None:
    examples = read(name)
    tags = SequenceTags(infer_schema(example.gold for example in examples), scheme)
    assert examples
    for example in examples:
        labels = tags.encode(example.gold.entities, len(example.sentence))
        assert labels.lost == ()
        assert set(tags.decode(labels.tags)) == set(example.gold.entities)
