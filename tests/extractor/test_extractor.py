"""The one path from text to relations, with a small random model that reads only characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from relatum.data.splitting import make_splitter
from relatum.errors import RelatumError
from relatum.extractor import extractor as module
from relatum.extractor.extractor import Extractor
from relatum.extractor.finding import find_model, shipped_models
from relatum.extractor.jobs import Job
from relatum.extractor.result import Extraction
from relatum.models.model import Model
from relatum.runtime.base import Runtime
from relatum.schema import Schema
from relatum.types import Annotation, Context, Entity, Prediction, Relation, Sentence, Span

from ..small_models import make_inputs, make_small_model, make_small_span_model

TEXT = "Mara Ilves works for Tarn Shipping in Oldhaven. The ferry left Port Amsel on Tuesday, she said."
HARD = [
    "",
    "   \n\t ",
    "x",
    "😀 👩‍👩‍👧 flag 🇨🇭!",
    "Cafe\u0301 Zu\u0308rich o\u0308",
    "\u200b\u200d\ufeff",
    "a" * 3000,
    "日本語のテキスト。もう一つ。",
    "one\n\ntwo\r\nthree",
    "\x00\x01 control",
]


def make_extractor(*overrides: str) -> Extractor:
    return Extractor(make_small_model(*overrides))


def sentence(text: str) -> Sentence:
    return Sentence(tuple(text.split()))


def scores(prediction: Prediction) -> list[float | None]:
    found = prediction.found
    return [entity.score for entity in found.entities] + [relation.score for relation in found.relations]


def assert_same(one: Prediction, other: Prediction) -> None:
    assert one == other
    assert scores(one) == pytest.approx(scores(other), abs=1e-5)


def assert_sound(extraction: Extraction, text: str) -> None:
    """Offsets point to whole words, in order, and relations connect entities that are there."""
    assert extraction.text == text
    words, _ = make_splitter("rules", "rules").split(text)
    starts, ends = {word.start for word in words}, {word.end for word in words}
    for entity in extraction.entities:
        assert entity.span.start in starts
        assert entity.span.end in ends
        assert entity.label in ("Loc", "Peop")
        assert entity.score is not None
        assert 0 < entity.score <= 1
    for first, second in pairwise(extraction.entities):
        assert first.span.end <= second.span.start
    for relation in extraction.relations:
        assert relation.head in extraction.entities
        assert relation.tail in extraction.entities
        assert relation.head != relation.tail


def test_random_model_finds_enough_for_these_tests() -> None:
    extraction = make_extractor()(TEXT)
    assert any(" " in entity.span.of(TEXT) for entity in extraction.entities)
    assert len(extraction.entities) >= 3
    assert len(extraction.relations) >= 2
    # Both sentences have some, so that offsets beyond the first are seen.
    assert min(e.span.start for e in extraction.entities) < 47 < max(e.span.end for e in extraction.entities)


def test_offsets_point_to_words_of_the_text() -> None:
    extractor = make_extractor()
    for text in (TEXT, f"\n  {TEXT}\n\n{TEXT} ", *HARD):
        assert_sound(extractor(text), text)


def test_entities_of_a_text_are_those_of_its_sentences() -> None:
    extractor = make_extractor()
    splitter = make_splitter("rules", "rules")
    words, ranges = splitter.split(TEXT)
    assert len(ranges) == 2
    expected = []
    for start, end in ranges:
        own = words[start:end]
        found = extractor.predict([Sentence(tuple(word.of(TEXT) for word in own))])[0].found.entities
        expected += [(own[e.span.start].start, own[e.span.end - 1].end, e.label) for e in found]
    assert [(*e.span, e.label) for e in extractor(TEXT).entities] == expected


def test_pipe_answers_in_the_order_of_the_texts() -> None:
    extractor = make_extractor("extraction.batch_size=2")
    texts = [TEXT, *HARD, "Mara.", f"{TEXT} " * 3, *[f"{'Oldhaven ' * n}." for n in range(1, 40)], TEXT]
    answers = list(extractor.pipe(texts))
    assert [answer.text for answer in answers] == texts
    for text, answer in zip(texts[:20], answers, strict=False):
        assert answer == extractor(text)


def test_pipe_is_lazy_and_takes_nothing() -> None:
    extractor = make_extractor("extraction.batch_size=1")
    taken = []

    def texts() -> Iterator[str]:
        for number in range(100):
            taken.append(number)
            yield f"Mara {number}"

    next(extractor.pipe(texts()))
    assert 0 < len(taken) < 40
    assert list(extractor.pipe([])) == []


def test_pipe_with_a_chunk_of_one_answers_each_text_before_the_next() -> None:
    extractor = make_extractor()
    taken = []

    def texts() -> Iterator[str]:
        for text in ("", TEXT, "Mara.", "x"):
            taken.append(text)
            yield text

    for number, answer in enumerate(extractor.pipe(texts(), chunk=1), 1):
        assert len(taken) == number
        assert answer == extractor(taken[-1])
    assert len(taken) == 4


def test_pipe_gathers_as_many_sentences_as_it_is_told() -> None:
    extractor = make_extractor()
    texts = iter([TEXT] * 9)
    next(extractor.pipe(texts, chunk=5))  # a text has two
    assert len(list(texts)) == 6
    with pytest.raises(ValueError, match="at least 1, found 0"):
        extractor.pipe([], chunk=0)


@pytest.mark.parametrize("texts", [TEXT, b"Mara", ""], ids=["str", "bytes", "empty"])
def test_pipe_refuses_one_text_at_once(texts: str | bytes) -> None:
    with pytest.raises(TypeError, match=f"expected a list of texts, .* found {type(texts).__name__}"):
        make_extractor().pipe(texts)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [None, b"Mara", ["Mara"]], ids=["NoneType", "bytes", "list"])
def test_what_is_not_a_text_is_refused_by_its_kind(text: object) -> None:
    extractor = make_extractor()
    with pytest.raises(TypeError, match=f"^text 3: expected str, found {type(text).__name__}; "):
        list(extractor.pipe(["Mara", "x", text]))  # type: ignore[list-item]


def test_progress_counts_the_sentences_of_all_texts() -> None:
    """A sentence that is read in windows counts when the last of them is."""
    extractor = make_extractor("extraction.batch_size=2", "extraction.max_words=6", "extraction.overlap=0")
    told: list[tuple[int, int]] = []
    long = "Mara left Oldhaven. " * 5 + f"{'Oldhaven ' * 20}."
    list(extractor.pipe([long, "", "Mara. Tom."], chunk=6, on_progress=lambda *counts: told.append(counts)))
    # 21 words are four windows, three of which are the longest of all; then the sentences of four words.
    assert told == [(0, 6), (1, 6), (3, 6), (5, 6), (6, 6), (8, 8)]


def test_predicting_together_equals_predicting_one_by_one() -> None:
    extractor = make_extractor("extraction.max_cells=400")
    sentences = [sentence("Oldhaven is old " * n + "indeed") for n in (5, 1, 3, 2, 4, 1)]
    together = extractor.predict(sentences)
    assert [prediction.sentence for prediction in together] == sentences
    assert any(prediction.found.relations for prediction in together)
    for one, prediction in zip(sentences, together, strict=True):
        assert_same(extractor.predict([one])[0], prediction)


@pytest.mark.parametrize("max_cells", [1, 4, 9, 50, 100])
@pytest.mark.parametrize("overlap", [0, 1, 32])
def test_long_sentence_is_read_in_windows(max_cells: int, overlap: int) -> None:
    extractor = Extractor(make_small_model(f"extraction.overlap={overlap}"), max_cells=max_cells)
    shapes: list[torch.Size] = []
    extractor.model.network.register_forward_hook(lambda _, inputs, __: shapes.append(inputs[0].mask.shape))
    text = " ".join(TEXT[:46].split() * 4)
    extraction = extractor(text)
    assert_sound(extraction, text)
    assert len(shapes) > 1
    assert all(batch * words**2 <= max_cells for batch, words in shapes)
    assert sum(batch * words for batch, words in shapes) >= 32


@pytest.mark.parametrize(("n_words", "lengths"), [(7, [7]), (8, [4, 7]), (12, [4, 7, 7])])
def test_sentence_of_more_words_than_max_words_is_read_in_windows(n_words: int, lengths: list[int]) -> None:
    extractor = make_extractor("extraction.max_words=7", "extraction.overlap=3", "extraction.batch_size=1")
    shapes: list[int] = []
    extractor.model.network.register_forward_hook(lambda _, inputs, __: shapes.append(inputs[0].mask.shape[1]))
    extractor.predict([Sentence(("Oldhaven",) * n_words)])
    assert sorted(shapes) == lengths


@pytest.mark.parametrize(("overlap", "shared"), [(1, 1), (3, 3), (4, 3), (32, 3)])
def test_windows_share_at_most_half_of_their_words(overlap: int, shared: int) -> None:
    """An overlap close to the length of a window would make a window for nearly every word."""
    extractor = make_extractor("extraction.max_words=7", f"extraction.overlap={overlap}")
    windows = extractor._windows(["Oldhaven"] * 23)
    assert [first.end - second.start for first, second in pairwise(windows)] == [shared] * (len(windows) - 1)
    assert len(windows) == {1: 4, 3: 5}[shared]


def test_sentence_within_max_words_is_read_whole_whatever_max_cells_says() -> None:
    """Only a `max_cells` that is given for this extractor, where memory is short, cuts such a sentence."""
    settings = ("extraction.max_words=12", "extraction.max_cells=16", "extraction.overlap=0")
    extractor = make_extractor(*settings)
    shapes: list[tuple[int, ...]] = []
    extractor.model.network.register_forward_hook(lambda _, inputs, __: shapes.append(tuple(inputs[0].mask.shape)))
    extractor.predict([Sentence(("Oldhaven",) * n) for n in (12, 2, 13, 2, 2, 2, 2)])
    assert shapes == [(1, 12), (1, 12), (4, 2), (2, 2)]
    assert Extractor(extractor.model, max_cells=16)._windows(["x"] * 12) == [Span(0, 4), Span(4, 8), Span(8, 12)]


def test_sentence_that_fits_exactly_is_read_whole() -> None:
    words = sentence("Mara left Oldhaven on a ferry")
    whole = make_extractor().predict([words])[0]
    assert_same(Extractor(make_small_model(), max_cells=36).predict([words])[0], whole)


def test_given_entities_are_returned_and_only_they_are_related() -> None:
    extractor = make_extractor()
    sentences = [sentence("Mara Ilves left Oldhaven for Port Amsel"), sentence("Nobody came"), sentence("Tom met Ann")]
    given = [
        [Entity(Span(5, 7), "Loc"), Entity(Span(0, 2), "Peop"), Entity(Span(3, 4), "Loc")],
        [],
        [Entity(Span(0, 1), "Peop"), Entity(Span(2, 3), "Peop")],
    ]
    predictions = extractor.predict(sentences, given)
    assert [list(prediction.found.entities) for prediction in predictions] == given
    related = [relation for prediction in predictions for relation in prediction.found.relations]
    assert related
    for prediction, entities in zip(predictions, given, strict=True):
        for relation in prediction.found.relations:
            assert relation.head in entities
            assert relation.tail in entities
    assert predictions[1].found == Annotation()


def test_given_entities_are_returned_from_windows_too() -> None:
    """An entity longer than a window, one in each, and two that overlap."""
    extractor = make_extractor("extraction.max_words=4", "extraction.overlap=2")
    words = sentence("a b c d e f g h i j")
    given = [
        Entity(Span(0, 6), "Loc"),
        Entity(Span(6, 7), "Peop"),
        Entity(Span(6, 8), "Loc"),
        Entity(Span(9, 10), "Loc"),
    ]
    found = extractor.predict([words], [given])[0].found
    assert list(found.entities) == given
    for relation in found.relations:
        assert relation.head in given
        assert relation.tail in given


def test_given_entities_that_share_words_keep_their_relations_in_windows() -> None:
    """[0, 3) is only in the first window and [2, 5) only in the second: neither may push the other out."""
    extractor = make_extractor("extraction.max_words=4", "extraction.overlap=2")
    given = [
        Entity(Span(0, 3), "Loc"),
        Entity(Span(3, 4), "Peop"),
        Entity(Span(2, 5), "Loc"),
        Entity(Span(5, 6), "Peop"),
    ]

    def relate_all(_: object, __: object, jobs: Iterator[Job]) -> Iterator[tuple[Job, list[Annotation]]]:
        for job in jobs:
            yield (
                job,
                [
                    Annotation(own, tuple(Relation(a, b, "Live_In", 0.5) for a in own for b in own if a != b))
                    for own in job.given or ()
                ],
            )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("relatum.extractor.extractor.do_jobs", relate_all)
        found = extractor.predict([sentence("a b c d e f")], [given])[0].found
    related = {(relation.head, relation.tail) for relation in found.relations}
    one, two, three, four = given
    assert (one, two) in related
    assert (three, four) in related


def test_given_entity_outside_its_sentence_is_refused() -> None:
    with pytest.raises((ValueError, RelatumError), match="does not fit"):
        make_extractor().predict([sentence("Mara left")], [[Entity(Span(1, 3), "Loc"), Entity(Span(0, 1), "Peop")]])


@pytest.mark.parametrize("given", [[], [[]], [[], [], []]], ids=str)
def test_given_entities_must_be_as_many_lists_as_sentences(given: list[list[Entity]]) -> None:
    with pytest.raises(ValueError, match=f"entities of {len(given)} sentences for 2 sentences; give a list for each"):
        make_extractor().predict([sentence("Mara left"), sentence("Tom came")], given)


@pytest.mark.parametrize("max_words", [96, 4])
def test_given_entities_keep_their_ids_in_relations(max_words: int) -> None:
    extractor = make_extractor(f"extraction.max_words={max_words}", "extraction.overlap=2")
    words = "Mara Ilves left Oldhaven for Port Amsel".split()
    given = [Entity(Span(place, place + 1), "Loc", id=f"T{place}") for place in range(len(words))]
    found = extractor.predict([Sentence(tuple(words))], [given])[0].found
    assert found.relations
    for relation in found.relations:
        assert relation.head is given[relation.head.span.start]
        assert relation.tail is given[relation.tail.span.start]


def test_word_that_the_encoder_cannot_hold_is_named_with_the_cure() -> None:
    """Also in the middle of many texts."""

    class Narrow:
        max_pieces = 8

        def count_pieces(self, words: Sequence[str]) -> list[int]:
            return [len(word) for word in words]

    extractor = make_extractor()
    narrow = Extractor(replace(extractor.model, encoder=Narrow()))  # type: ignore[arg-type]
    with pytest.raises(RelatumError, match=rf"word 2 of the sentence, '{'x' * 50}'…, .* at most 8 .*split or shorten"):
        list(narrow.pipe(["Mara", f"Mara {'x' * 1000} left", "Mara"]))


def test_word_of_very_many_characters_is_read() -> None:
    text = f"Mara Ilves {'a' * 20_000} left Oldhaven. " + "She came from Port Amsel. " * 50
    assert_sound(make_extractor()(text), text)


def test_predicted_entities_given_back_have_the_same_relations() -> None:
    extractor = make_extractor()
    words = sentence("Mara Ilves works for Tarn Shipping in Oldhaven .")
    found = extractor.predict([words])[0].found
    assert found.relations
    assert extractor.predict([words], [found.entities])[0].found == found


@pytest.mark.parametrize("training", [True, False])
def test_mode_of_the_network_is_restored_and_dropout_is_off(training: bool) -> None:
    extractor = make_extractor("model.dropout=0.9")
    expected = extractor(TEXT)
    extractor.model.network.train(training)
    assert extractor(TEXT) == expected
    assert all(module.training is training for module in extractor.model.network.modules())


def test_mode_of_the_network_is_restored_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    extractor = make_extractor()
    network = extractor.model.network
    network.train()

    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(network, "score", fail)
    with pytest.raises(RuntimeError, match="memory"):
        extractor(TEXT)
    assert network.training


def test_network_can_learn_after_it_has_predicted() -> None:
    extractor = make_extractor()
    model = extractor.model
    words = [f"word{number}" for number in range(13)]
    extractor.predict([Sentence(tuple(words))])
    outputs = model.network(make_inputs(model, [words]))
    (outputs.entity_logits.sum() + outputs.relation_logits.sum()).backward()
    assert all(parameter.grad is not None for parameter in model.network.parameters())


@pytest.mark.parametrize("text", [TEXT, "Mara left", "x"])
def test_prediction_leaves_no_gradients_and_no_weights_changed(text: str) -> None:
    """A single word too: what is spread over all cells of a table is then no copy."""
    extractor = make_extractor()
    before = {name: value.clone() for name, value in extractor.model.network.state_dict().items()}
    extractor(text)
    for name, value in extractor.model.network.state_dict().items():
        assert torch.equal(value, before[name])
    assert all(parameter.grad is None for parameter in extractor.model.network.parameters())


def test_sentence_without_words_has_nothing_in_it() -> None:
    empty, full = Sentence(()), sentence("Mara left")
    predictions = make_extractor().predict([empty, full, empty])
    assert [prediction.sentence for prediction in predictions] == [empty, full, empty]
    assert predictions[0].found == predictions[2].found == Annotation()
    assert make_extractor().predict([]) == []


def test_saved_extractor_reads_the_same(tmp_path: Path) -> None:
    extractor = make_extractor()
    extractor.card = "# A card\n"
    extractor.save(tmp_path / "model")
    loaded = Extractor.from_pretrained(tmp_path / "model", "cpu")
    assert loaded.card == extractor.card
    assert loaded(TEXT).to_dict() == extractor(TEXT).to_dict()
    assert Extractor.from_pretrained(str(tmp_path / "model"), "cpu")(TEXT) == extractor(TEXT)
    with pytest.raises(RelatumError, match="not empty"):
        extractor.save(tmp_path / "model")


def test_device_that_does_not_work_is_refused_before_a_model_is_read(tmp_path: Path) -> None:
    make_extractor().save(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(RelatumError, match=r"device 'gpu': .*'cpu'"):
        Extractor.from_pretrained(tmp_path / "model", "gpu")


def test_model_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(RelatumError, match="no-such-model: no such model") as caught:
        find_model("no-such-model")
    assert all(name in str(caught.value) for name in shipped_models())


@pytest.mark.parametrize("name", ["newz", "New", "drug"])
def test_model_name_with_a_slip_gets_the_right_one_proposed(name: str) -> None:
    right = "drugs" if name == "drug" else "news"
    with pytest.raises(RelatumError, match=rf"^{name}: no such model \(did you mean '{right}'\?\); name a directory"):
        Extractor.from_pretrained(name)
    with pytest.raises(RelatumError, match=rf"^{name}: no such model \(did you mean '{right}'"):
        Extractor.from_pretrained(["news", name])


@pytest.mark.parametrize("name", [None, 3, b"news", [None], ["news", 3]], ids=str)
def test_what_is_no_name_of_a_model_is_refused_with_those_there_are(name: object) -> None:
    message = r"expected the name of a model .*as str or Path, found (NoneType|int|bytes); .*'drugs', 'news'"
    with pytest.raises(TypeError, match=message):
        Extractor.from_pretrained(name)  # type: ignore[arg-type]


def test_empty_name_of_a_model_is_not_the_folder_one_stands_in() -> None:
    with pytest.raises(RelatumError, match=r"^'': no such model; name a directory"):
        Extractor.from_pretrained("")


def test_extractor_has_a_short_repr(tmp_path: Path) -> None:
    extractor = make_extractor()
    assert repr(extractor) == "<Extractor '' on cpu: Loc, Peop; Live_In, Kin>"
    extractor.save(tmp_path / "model")
    path = str(tmp_path / "model")
    assert repr(Extractor.from_pretrained(path, "cpu")) == f"<Extractor {path!r} on cpu: Loc, Peop; Live_In, Kin>"
    many = Schema(tuple(f"E{n}" for n in range(100)), ())
    shown = repr(Extractor(make_small_model("table.kind=none", schema=many)))
    assert shown == "<Extractor '' on cpu: E0, E1, E2, E3, E4, E5, E6, E7, …; no relations>"


def test_shipped_name_is_that_model_whatever_folders_are_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default model is called news, and so may be a corpus, as in examples/, or a model of one's own."""
    shipped = tmp_path / "package" / "pretrained" / "models" / "news"
    make_extractor().save(shipped)
    monkeypatch.setattr("relatum.extractor.finding.files", lambda _: tmp_path / "package")
    data = tmp_path / "work" / "news"
    data.mkdir(parents=True)
    (data / "train.jsonl").write_text("")
    monkeypatch.chdir(tmp_path / "work")
    assert shipped_models() == ["news"]
    assert find_model("news") == shipped
    (data / "train.jsonl").unlink()
    make_extractor().save(data)
    assert find_model("news") == shipped
    assert find_model("./news").resolve() == data
    assert find_model(Path("news")).resolve() == data
    make_extractor().save(tmp_path / "work" / "mine")
    assert find_model("mine") == Path("mine")


def test_texts_are_split_as_the_config_says() -> None:
    text = "Mara left. Oldhaven slept."
    extractor = make_extractor("text.sentences=none", "text.words=whitespace")
    shapes: list[torch.Size] = []
    extractor.model.network.register_forward_hook(lambda _, inputs, __: shapes.append(inputs[0].mask.shape))
    extractor(text)
    assert shapes == [torch.Size((1, 4))]


def test_model_without_a_table_finds_entities_only() -> None:
    extraction = make_extractor("table.kind=none")(TEXT)
    assert extraction.entities
    assert extraction.relations == ()


def test_bf16_finds_nearly_the_same_with_rounded_weights(tmp_path: Path) -> None:
    make_extractor().save(tmp_path / "model")
    full = Extractor.from_pretrained(tmp_path / "model", "cpu")
    half = Extractor.from_pretrained(tmp_path / "model", "cpu", precision="bf16")
    network = half.model.network
    narrow = {name for name, weight in network.named_parameters() if weight.dtype == torch.bfloat16}
    assert narrow == {
        name for name, _ in network.named_parameters() if ".pairing." in name or ".table_encoder." in name
    }
    assert narrow
    assert {weight.dtype for weight in full.model.network.parameters()} == {torch.float32}
    words = sentence("Mara Ilves works for Tarn Shipping in Oldhaven .")
    found, expected = half.predict([words])[0], full.predict([words])[0]
    assert found.found == expected.found
    assert scores(found) == pytest.approx(scores(expected), abs=0.05)
    assert scores(found) != scores(expected)
    with pytest.raises(RelatumError, match=r"rounded to bfloat16 .* precision='fp32' to save it"):
        half.save(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_precision_that_there_is_not_is_refused_before_a_model_is_read(tmp_path: Path) -> None:
    make_extractor().save(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(RelatumError, match=r"precision 'int4': .*'fp32', 'bf16', 'int8'"):
        Extractor.from_pretrained(tmp_path / "model", "cpu", precision="int4")  # type: ignore[arg-type]


def test_batches_are_as_large_as_asked_and_the_model_keeps_its_settings(tmp_path: Path) -> None:
    make_extractor().save(tmp_path / "model")
    shapes: list[tuple[int, ...]] = []

    def read(**limits: int) -> list[tuple[int, ...]]:
        extractor = Extractor.from_pretrained(tmp_path / "model", "cpu", **limits)  # type: ignore[arg-type]
        extractor.model.network.register_forward_hook(lambda _, inputs, __: shapes.append(tuple(inputs[0].mask.shape)))
        shapes.clear()
        found = extractor.predict([sentence("a b c d")] * 5)
        assert len(found) == 5
        assert extractor.model.config.extraction.batch_size == 32
        return list(shapes)

    assert read() == [(5, 4)]
    assert read(batch_size=2) == [(2, 4), (2, 4), (1, 4)]
    assert read(max_cells=48) == [(3, 4), (2, 4)]
    assert read(max_cells=9)[0] == (1, 3), "in windows"


@pytest.mark.parametrize("limits", [{"batch_size": 0}, {"max_cells": -1}], ids=str)
def test_limits_below_one_are_refused(limits: dict[str, int]) -> None:
    ((name, value),) = limits.items()
    with pytest.raises(RelatumError, match=f"{name} is {value}; expected at least 1"):
        Extractor(make_extractor().model, **limits)  # type: ignore[arg-type]


def test_words_seen_before_give_the_same_answers() -> None:
    """In a batch, alone, and by an extractor that has seen nothing."""
    extractor = make_extractor()
    first = extractor(TEXT)
    again = extractor(TEXT)
    assert first.entities
    for one in (again, make_extractor()(TEXT), next(extractor.pipe([TEXT, "Mara left Oldhaven."]))):
        assert (one.entities, one.relations) == (first.entities, first.relations)
        torch.testing.assert_close([e.score for e in one.entities], [e.score for e in first.entities])


def test_words_seen_before_are_read_with_the_weights_of_now() -> None:
    extractor, other = make_extractor(), make_extractor()
    extractor(TEXT)
    for one in (extractor, other):
        characters = one.model.network.embedder.characters
        assert characters is not None
        with torch.no_grad():
            characters.embedding.weight.neg_()
    assert extractor(TEXT).entities == other(TEXT).entities
    assert extractor(TEXT).entities != make_extractor()(TEXT).entities


def test_nothing_is_kept_of_a_model_in_training() -> None:
    """Recorded updates change weights unseen."""
    extractor, other = make_extractor(), make_extractor()
    for one in (extractor, other):
        one.model.network.train()
    before = extractor(TEXT)
    for one in (extractor, other):
        characters = one.model.network.embedder.characters
        assert characters is not None
        characters.embedding.weight.data.neg_()  # autograd does not count this
    assert extractor(TEXT).entities == other(TEXT).entities != before.entities
    assert extractor.model.network.training


READER = ("encoder.kind=huggingface", "encoder.context=6")
TOLD = TEXT.replace("Mara Ilves", "Ada")  # of TEXT itself this reader makes nothing


def test_sentences_of_a_text_have_their_neighbours_around_them() -> None:
    first, second = make_extractor(*READER).split(TEXT)
    assert first.context == Context((), ("The", "ferry", "left", "Port", "Amsel", "on"))
    assert second.context == Context(("for", "Tarn", "Shipping", "in", "Oldhaven", "."), ())
    assert [one.context for one in make_extractor("encoder.kind=huggingface").split(TEXT)] == [Context()] * 2
    assert make_extractor(*READER).split("Mara left.")[0].context == Context()
    assert make_extractor(*READER).split("") == []


def test_what_is_found_depends_on_the_sentences_around() -> None:
    extractor = make_extractor(*READER)
    with_it = extractor.predict(extractor.split(TOLD))
    assert any(one.found.entities for one in with_it)
    without = extractor.predict([replace(one, context=Context()) for one in extractor.split(TOLD)])
    assert [scores(one) for one in with_it] != [scores(one) for one in without]
    plain = make_extractor("encoder.kind=huggingface")
    for one, other in zip(plain.predict(extractor.split(TOLD)), without, strict=True):
        assert_same(one, other)


def test_texts_that_are_read_together_do_not_see_each_other() -> None:
    extractor = make_extractor(*READER)
    texts = [TEXT, "She said so. Mara left Oldhaven.", "Tom.", TOLD]
    for answer, text in zip(extractor.pipe(texts), texts, strict=True):
        alone = extractor(text)
        assert answer == alone
        found = [entity.score for entity in answer.entities]
        assert found == pytest.approx([entity.score for entity in alone.entities], abs=1e-5)


def test_probe_reads_the_same_sentences_around() -> None:
    extractor = make_extractor(*READER)
    found = extractor.predict(extractor.split(TOLD))
    assert any(one.found.entities for one in found)
    for number, prediction in enumerate(found):
        (probe,) = extractor.probe(TOLD, only=number)
        shown = [entity.score for entity in probe.layers[-1].found.entities]
        assert shown == pytest.approx([entity.score for entity in prediction.found.entities], abs=1e-5)


def test_windows_are_read_with_the_words_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    extractor = make_extractor(*READER, "encoder.context=2", "extraction.max_words=4", "extraction.overlap=1")
    jobs: list[Job] = []

    def note(_: Model, __: Runtime, given: Iterator[Job]) -> Iterator[tuple[Job, list[Annotation]]]:
        for job in given:
            jobs.append(job)
            yield job, [Annotation()] * len(job.windows)

    monkeypatch.setattr(module, "do_jobs", note)
    words = Sentence(tuple("abcdefg"), context=Context(("y", "z"), ("h", "i")))
    extractor.predict([words, Sentence(("m",))])
    seen = {
        "".join(one): context
        for job in jobs
        for one, context in zip(job.words, job.batch.context or pytest.fail("there is none"), strict=True)
    }
    assert seen == {
        "abcd": Context(("y", "z"), ("e", "f")),
        "defg": Context(("b", "c"), ("h", "i")),
        "m": Context(),
    }


@pytest.mark.parametrize("most", ["one", "several"])
@pytest.mark.parametrize("given", [True, False])
def test_windows_keep_as_many_relations_of_a_pair_as_the_settings_allow(most: str, given: bool) -> None:
    settings = "extraction.max_words=8", "extraction.overlap=4", f"decoding.relations_of_pair={most}"
    extractor = Extractor(make_small_span_model("model.n_layers=3", *settings))
    sentence = Sentence(tuple("Tarn and then Mara left Port Amsel for Oldhaven with Tom".split()))
    entities = [[Entity(Span(at, at + 1), "Loc") for at in range(len(sentence))]] if given else None
    (prediction,) = extractor.predict([sentence], entities)
    relations = prediction.found.relations
    pairs = {(relation.head, relation.tail) for relation in relations}
    assert pairs
    assert (len(pairs) < len(relations)) == (most == "several")
    assert len(set(relations)) == len(relations)
