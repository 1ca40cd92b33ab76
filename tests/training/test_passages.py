"""Training and scoring on passages, in which relations reach across sentences."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import relatum
from relatum.config import Config, load_config
from relatum.data.windows import make_passage_windows
from relatum.errors import DataError
from relatum.extractor.extractor import Extractor
from relatum.training.advice import advise
from relatum.training.batches import cut_long, remark_on_windows
from relatum.training.corpus import load_part, load_training_data
from relatum.training.features import _scored_lengths
from relatum.training.folder import RunRecord
from relatum.training.loop import train
from relatum.training.reports.predictions import read_predictions
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span

from .conftest import Silent

PEOPLE = ["Mara Ilves", "Tomas Reed", "Ida Falk", "Jon Aster"]
PLACES = ["Oldhaven", "Port Amsel", "Karst", "Lund"]
GAPS = ["  ", "\n", "\t", "\n\n", "\xa0 "]


def record(number: int) -> dict[str, Any]:
    """A text of two sentences with odd white space, and a relation from the first to the second."""
    person, place = PEOPLE[number % 4], PLACES[number // 4 % 4]
    text = f" {person} {'left' if number % 3 else 'came'} .{GAPS[number % 5]}She lives in {place}.\n"
    return {
        "id": f"d{number}",
        "text": text,
        "entities": [
            {"start": text.index(name), "end": text.index(name) + len(name), "label": label}
            for name, label in ((person, "Peop"), (place, "Loc"))
        ],
        "relations": [{"head": 0, "tail": 1, "label": "Live_In"}],
    }


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("passages")
    for name, numbers in (("train", range(16)), ("dev", range(0, 16, 5)), ("test", range(1, 16, 6))):
        lines = [json.dumps(record(number)) + "\n" for number in numbers]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.mark.slow
def test_relation_across_sentences_is_learned_and_found_in_raw_text(
    corpus: Path, tiny: Callable[..., Config], tmp_path: Path
) -> None:
    config = tiny(
        "text.unit=passage",
        "model.dropout=0",
        "model.width=32",
        "characters.width=16",
        "training.learning_rate=8e-3",
        "training.steps=150",
        "training.evaluate_every=50",
    )
    data = load_training_data(corpus, config)
    assert data.remarks == ()
    assert [len(part) for part in data.parts.values()] == [16, 4, 3]
    run = RunRecord(config, str(corpus), None, None, "cpu", "", data.fingerprint())
    trained = train(data, run, tmp_path / "run", device=torch.device("cpu"), monitor=Silent())
    assert trained.test is not None
    assert trained.test.relations_strict.micro.f1 == 1.0
    assert trained.result.data.parts["test"].sentences == 6

    extractor = Extractor.from_pretrained(trained.model, device="cpu")
    for number in range(16):
        wanted = record(number)
        found = extractor(wanted["text"]).to_dict()
        spans = [{key: one[key] for key in ("start", "end", "label")} for one in found["entities"]]
        assert spans == wanted["entities"]
        (relation,) = found["relations"]
        ids = [one["id"] for one in found["entities"]]
        assert (relation["head"], relation["tail"], relation["label"]) == (ids[0], ids[1], "Live_In")

    evaluation = relatum.evaluate_model(trained.model, corpus, device="cpu")
    assert evaluation.scores.relations_strict.micro.f1 == 1.0
    evaluation.write_predictions(tmp_path / "found.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [len(line["sentences"]) for line in lines] == [2, 2, 2]
    kept = read_predictions(tmp_path / "run" / "predictions", "test").documents
    assert [len(gold.sentences or ()) for gold, _ in kept] == [2, 2, 2]


def test_relation_across_sentences_is_refused_with_its_cure_unless_passages_are_read(
    corpus: Path, tiny: Callable[..., Config]
) -> None:
    with pytest.raises(DataError, match=r"or --set text\.unit=passage to read their sentences together\.$"):
        load_training_data(corpus, tiny())


@pytest.mark.parametrize("crossing", ["fail", "drop", "join"])
def test_passages_keep_relations_whatever_else_is_chosen(corpus: Path, crossing: str) -> None:
    config = load_config(None, ["text.unit=passage", f"data.crossing={crossing}", "data.on_error=skip"])
    examples, remarks = load_part(corpus, "train", config)
    assert remarks == []
    assert [len(example.gold.relations) for example in examples] == [1] * 16
    assert {len(example.sentence.ranges) for example in examples} == {2}
    assert all(example.left_out == Annotation() for example in examples)


def test_documents_of_one_sentence_are_the_same_as_passages(small_corpus: Path, tiny: Callable[..., Config]) -> None:
    single = tiny("text.sentences=none")
    apart = load_training_data(small_corpus, single)
    together = load_training_data(small_corpus, tiny("text.sentences=none", "text.unit=passage"))
    assert together.parts == apart.parts


def test_documents_without_words_are_left_out(tmp_path: Path) -> None:
    lines = [json.dumps(record(0)), json.dumps({"id": "empty", "text": " \n"})]
    (tmp_path / "all.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    examples, remarks = load_part(tmp_path / "all.jsonl", "train", load_config(None, ["text.unit=passage"]))
    assert [example.id for example in examples] == ["d0"]
    assert any("documents without words left out" in remark for remark in remarks)


def test_sentence_borders_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    """Other borders make other windows, so a run must not be resumed with them."""
    words = ["Mara", "left", ".", "Oldhaven", "slept", "."]
    entities = [{"start": 0, "end": 1, "label": "Peop"}]
    prints = set()
    for number, sentences in enumerate(([[0, 3], [3, 6]], [[0, 2], [2, 6]])):
        folder = tmp_path / str(number)
        folder.mkdir()
        line = json.dumps({"words": words, "sentences": sentences, "entities": entities}) + "\n"
        for part in ("train", "dev"):
            (folder / f"{part}.jsonl").write_text(line, encoding="utf-8")
        prints.add(load_training_data(folder, load_config(None, ["text.unit=passage"])).fingerprint())
    assert len(prints) == 2


def make_long(n_sentences: int) -> Example:
    """Sentences of five words, each with an entity; relations from the first to the second and to the last."""
    words = ("Mara", "left", "Port", "Amsel", ".") * n_sentences
    entities = tuple(Entity(Span(5 * number, 5 * number + 1), "Peop") for number in range(n_sentences))
    relations = (Relation(entities[0], entities[1], "Kin"), Relation(entities[0], entities[-1], "Kin"))
    starts = tuple(range(0, len(words), 5))
    return Example(Sentence(words, starts=starts), Annotation(entities, relations), "long")


def test_long_passages_are_learned_in_the_windows_in_which_they_are_read(tiny: Callable[..., Config]) -> None:
    config = tiny("text.unit=passage", "extraction.max_words=22", "extraction.overlap=6")
    example = make_long(8)
    cut, remarks = cut_long([example], None, config)
    assert [part.id for part in cut] == ["long[0:20]", "long[10:30]", "long[20:40]"]
    assert [len(part.gold.relations) for part in cut] == [1, 0, 0]
    assert remarks == [
        "1 long training texts are learned in 3 windows of at most 22 words (extraction.max_words); 0 entities and 1 "
        "relations are in none of them"
    ]
    assert remark_on_windows("dev", [example], None, config) == [
        "dev: 1 long texts are read in 3 windows of at most 22 words (extraction.max_words); 0 entities and 1 "
        "relations are in none of them and count as missed"
    ]
    windows = make_passage_windows([1] * 40, example.sentence.starts, None, 22, 6)
    assert [tuple(window) for window in windows] == [(0, 20), (10, 30), (20, 40)]
    assert _scored_lengths([example, Example(Sentence(("a",) * 50), Annotation())], config) == [20, 20, 20, 50]


def test_windows_of_passages_keep_the_limit_of_training_too(tiny: Callable[..., Config]) -> None:
    config = tiny("text.unit=passage", "extraction.max_words=22", "training.max_cells=121")
    cut, (remark,) = cut_long([make_long(4)], None, config)
    assert {len(part.sentence) for part in cut} == {10}
    assert "11 words (training.max_cells)" in remark


def test_sentences_have_no_remarks_on_the_windows_of_dev(tiny: Callable[..., Config]) -> None:
    assert remark_on_windows("dev", [make_long(8)], None, tiny("extraction.max_words=22")) == []


def test_advice_on_passages_counts_sentences_and_speaks_of_texts(tiny: Callable[..., Config]) -> None:
    config = tiny("text.unit=passage", "extraction.max_words=22")
    remarks = advise({"train": [make_long(60)], "dev": [make_long(60)], "test": []}, config)
    assert not [remark for remark in remarks if "longer than" in remark or remark.startswith("train has only")]
    assert any(remark.startswith("1 dev text is also in train") for remark in remarks)
