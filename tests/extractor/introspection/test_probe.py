"""What every layer says, with small random models that read only characters, and with one that comes along."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from relatum.errors import RelatumError
from relatum.extractor.ensemble import Ensemble
from relatum.extractor.extractor import Extractor
from relatum.extractor.introspection.probe import Probe, compare
from relatum.types import Annotation, Calibration, Entity, Relation, ScoreMap, Span

from ...small_models import make_inputs, make_small_model, make_small_span_model

TEXT = "Mara Ilves works for Tarn Shipping in Oldhaven. The ferry left Port Amsel on Tuesday, she said."
LONG = "Tarn " + "and then Mara left Port Amsel for Oldhaven with Tom " * 5 + "again."


def make_extractor(*overrides: str) -> Extractor:
    return Extractor(make_small_model("model.n_layers=3", *overrides))


@pytest.fixture(scope="module")
def news() -> Extractor:
    return Extractor.from_pretrained("news", "cpu")


def assert_ends_as(extractor: Extractor, text: str, probes: list[Probe]) -> None:
    """The last layers say what the extractor says, to the last bit."""
    extraction = extractor(text)
    last = [probe.layers[-1].found for probe in probes]
    assert [entity for found in last for entity in found.entities] == list(extraction.entities)
    assert [relation for found in last for relation in found.relations] == list(extraction.relations)
    for found, expected in (
        ([entity.score for one in last for entity in one.entities], [one.score for one in extraction.entities]),
        ([relation.score for one in last for relation in one.relations], [one.score for one in extraction.relations]),
    ):
        assert found == expected


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("model.share_layers=true",),
        ("table.kind=cnn",),
        ("table.kind=none",),
        ("sequence.kind=none", "model.interaction=none"),
        ("model.entity_source=diagonal",),
        ("tagging.fill=lower", "tagging.cells=last"),
        ("decoding.entities=viterbi", "decoding.constraints=schema"),
        ("extraction.max_words=12", "extraction.overlap=4"),
    ],
    ids=str,
)
def test_last_layer_says_what_the_extractor_says(overrides: tuple[str, ...]) -> None:
    extractor = make_extractor(*overrides)
    for text in (TEXT, LONG):
        probes = extractor.probe(text)
        assert all(len(probe.layers) == 3 for probe in probes)
        assert_ends_as(extractor, text, probes)
        assert json.loads(json.dumps([probe.to_dict() for probe in probes]))


def test_last_layer_of_a_shipped_model_says_what_the_extractor_says(news: Extractor) -> None:
    probes = news.probe(TEXT + " " + LONG * 2)
    assert [len(probe.windows) for probe in probes] == [1, 1, 2]
    assert_ends_as(news, TEXT + " " + LONG * 2, probes)
    assert any(probe.layers[0].found != probe.layers[-1].found for probe in probes)


def test_scores_of_all_layers_are_calibrated() -> None:
    extractor = make_extractor()
    plain = extractor.probe(TEXT)
    extractor.model = replace(extractor.model, calibration=Calibration(ScoreMap(2.0, 0.3), ScoreMap(3.0, -0.2)))
    probes = extractor.probe(TEXT)
    assert_ends_as(extractor, TEXT, probes)
    first, before = probes[0].layers[0].found.entities[0], plain[0].layers[0].found.entities[0]
    assert before.score is not None
    assert first.score == ScoreMap(2.0, 0.3)(before.score)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_a_layer_says_what_the_network_without_those_above_would_say(n_layers: int) -> None:
    extractor = make_extractor()
    probes = extractor.probe(TEXT)
    network = extractor.model.network
    network.layers = nn.ModuleList(list(network.layers)[:n_layers])
    extraction = Extractor(extractor.model)(TEXT)
    found = [probe.layers[n_layers - 1].found for probe in probes]
    assert [one for part in found for one in part.entities] == list(extraction.entities)
    assert [one for part in found for one in part.relations] == list(extraction.relations)
    scores = [one.score for part in found for one in part.entities]
    scores += [one.score for part in found for one in part.relations]
    expected = [one.score for one in extraction.entities] + [one.score for one in extraction.relations]
    assert scores == pytest.approx(expected, abs=1e-5)


def test_a_model_in_training_is_probed_without_dropout_and_stays_in_training() -> None:
    extractor = make_extractor()
    (expected,) = extractor.probe(TEXT, only=0)
    extractor.model.network.train()
    (probe,) = extractor.probe(TEXT, only=0)
    for found, layer in zip(probe.layers, expected.layers, strict=True):
        assert found.found == layer.found
        assert np.allclose(found.of_words, layer.of_words, atol=1e-4)
    assert extractor.model.network.training


def test_changes_lead_from_each_layer_to_the_next() -> None:
    for probe in make_extractor().probe(TEXT + " " + LONG):
        changes = probe.changes()
        assert changes[0] == compare(Annotation(), Annotation())
        described = probe.to_dict()
        assert described["layers"][0]["gained"] == {"entities": [], "relations": []}
        assert described["layers"][0]["lost"] == {"entities": [], "relations": []}
        for number in (1, 2):
            before, after = (probe.layers[place].found.document.annotation for place in (number - 1, number))
            gained, lost = changes[number].gained, changes[number].lost
            assert set(before.entities) - set(lost.entities) | set(gained.entities) == set(after.entities)
            assert set(before.relations) - set(lost.relations) | set(gained.relations) == set(after.relations)
            layer, former = described["layers"][number], described["layers"][number - 1]
            said = {one["id"]: (one["start"], one["end"], one["label"]) for one in layer["entities"]}
            said_before = [(one["start"], one["end"], one["label"]) for one in former["entities"]]
            assert [said[name] not in said_before for name in layer["gained"]["entities"]] == [True] * len(
                gained.entities
            )
            assert [(one["start"], one["end"], one["label"]) for one in layer["lost"]["entities"]] == [
                (*entity.span, entity.label) for entity in lost.entities
            ]
            assert [layer["relations"][place]["label"] for place in layer["gained"]["relations"]] == [
                relation.label for relation in gained.relations
            ]
            assert [(one["head"]["text"], one["label"], one["tail"]["text"]) for one in layer["lost"]["relations"]] == [
                (one.head.span.of(probe.text), one.label, one.tail.span.of(probe.text)) for one in lost.relations
            ]


def test_compare_tells_what_is_gained_and_lost() -> None:
    loc, peop, other = Entity(Span(0, 1), "Loc"), Entity(Span(2, 3), "Peop"), Entity(Span(2, 3), "Loc")
    before = Annotation((loc, peop), (Relation(peop, loc, "Live_In"),))
    after = Annotation((loc, other), (Relation(other, loc, "Live_In"),))
    change = compare(before, after)
    assert change.gained == Annotation((other,), (Relation(other, loc, "Live_In"),))
    assert change.lost == Annotation((peop,), (Relation(peop, loc, "Live_In"),))


def test_probabilities_are_those_of_the_scorers() -> None:
    extractor = make_extractor()
    (probe,) = extractor.probe("Mara left Oldhaven with Tom")
    words = [span.of(probe.text) for span in probe.words]
    network = extractor.model.network
    with torch.inference_mode():
        outputs = network(make_inputs(extractor.model, [words]))
        for layer, state in zip(probe.layers, outputs.layers, strict=True):
            scored = network.score(state.sequence, state.table)
            assert scored.relation_logits is not None
            assert layer.of_cells is not None
            assert np.allclose(layer.of_words, scored.entity_logits[0].double().softmax(-1), atol=1e-5)
            assert np.allclose(layer.of_cells, scored.relation_logits[0].double().softmax(-1), atol=1e-5)
            assert state.attention is not None
            assert layer.attention is not None
            assert np.allclose(layer.attention, state.attention[0], atol=1e-5)


@pytest.mark.parametrize("overrides", [(), ("extraction.max_words=12", "extraction.overlap=4")], ids=str)
def test_last_layer_says_what_the_extractor_says_in_span_tagging(overrides: tuple[str, ...]) -> None:
    extractor = Extractor(make_small_span_model("model.n_layers=3", *overrides))
    text = LONG[:90]
    probes = extractor.probe(text)
    assert_ends_as(extractor, text, probes)
    found = probes[0].layers[-1].found
    pairs = {(relation.head, relation.tail) for relation in found.relations}
    assert 0 < len(pairs) < len(found.relations)  # several relations of a pair
    assert json.loads(json.dumps([probe.to_dict() for probe in probes]))


def test_tags_of_cells_have_probabilities_of_their_own_in_span_tagging() -> None:
    extractor = Extractor(make_small_span_model("model.n_layers=3", shift=-3))
    (probe,) = extractor.probe("Mara left Oldhaven with Tom")
    words = [span.of(probe.text) for span in probe.words]
    network = extractor.model.network
    with torch.inference_mode():
        outputs = network(make_inputs(extractor.model, [words]))
        for layer, state in zip(probe.layers, outputs.layers, strict=True):
            logits = network.score(state.sequence, state.table).relation_logits
            assert logits is not None
            assert layer.of_cells is not None
            own = logits[0].double().sigmoid().numpy()[..., :-2]  # without the corners
            assert np.allclose(layer.of_cells[..., 1:], own, atol=1e-5)
            assert np.allclose(layer.of_cells[..., 0], 1 - own.max(-1), atol=1e-5)
    described = probe.to_dict()
    assert described["independent_tags"] is True
    assert described["relation_tags"] == ["⊥", "Loc", "Peop", "→Live_In", "←Live_In", "↔Kin"]
    assert described["relation_labels"] == ["", "Loc", "Peop", "Live_In", "Live_In", "Kin"]
    n_empty = 0
    for layer, told in zip(probe.layers, described["layers"], strict=True):
        assert layer.of_cells is not None
        best = np.array(told["cells"])[..., 0]
        assert ((best == 0) == (layer.of_cells[..., 1:].max(-1) <= 0.5)).all()
        assert np.allclose(np.array(told["no_relation"]), layer.of_cells[..., 0], atol=1e-4)
        n_empty += int((best == 0).sum())
    assert 0 < n_empty < 3 * len(words) ** 2


def test_words_that_no_window_holds_together_have_no_tag_in_span_tagging() -> None:
    settings = "extraction.max_words=12", "extraction.overlap=4"
    (probe,) = Extractor(make_small_span_model(*settings, shift=-3)).probe(LONG)
    for layer in probe.layers:
        assert layer.of_cells is not None
        assert (layer.of_cells[0, 20:, 0] == 1).all()
        assert (layer.of_cells[0, 20:, 1:] == 0).all()


@pytest.mark.parametrize("directed", ["true", "false"])
def test_each_tag_has_the_label_of_its_type(directed: str) -> None:
    (probe,) = make_extractor(f"tagging.directed={directed}").probe("Mara left Oldhaven with Tom")
    expected = ["", "Live_In", "Live_In", "Kin"] if directed == "true" else ["", "Live_In", "Kin"]
    assert probe.to_dict()["relation_labels"] == expected
    assert probe.to_dict()["independent_tags"] is False


def test_probe_as_json_has_all_tables() -> None:
    (probe, second) = make_extractor().probe(TEXT)
    described = json.loads(json.dumps(probe.to_dict()))
    n_words = len(described["words"])
    assert [(one["text"], one["start"]) for one in described["words"]][:2] == [("Mara", 0), ("Ilves", 5)]
    assert second.to_dict()["words"][0] == {"text": "The", "start": TEXT.index("The"), "end": TEXT.index(" ferry")}
    assert described["windows"] == [{"start": 0, "end": n_words}]
    assert described["entity_tags"][:3] == ["O", "B-Loc", "I-Loc"]
    assert described["relation_tags"] == ["⊥", "→Live_In", "←Live_In", "↔Kin"]
    assert np.array(described["attention"]).shape == (3, 2, n_words, n_words)
    assert np.allclose(np.array(described["attention"]).sum(-1), 1, atol=1e-3)
    for number, (layer, read) in enumerate(zip(described["layers"], probe.layers, strict=True), 1):
        assert layer["layer"] == number
        assert [one["id"] for one in layer["entities"]] == [f"e{place + 1}" for place in range(len(layer["entities"]))]
        assert all(probe.text[one["start"] : one["end"]] == one["text"] for one in layer["entities"])
        assert read.of_cells is not None
        tags = np.array(layer["cells"])[..., 0].astype(int)
        assert (tags == read.of_cells.argmax(-1)).all()
        assert np.allclose(np.array(layer["cells"])[..., 1], read.of_cells.max(-1), atol=1e-4)
        assert np.allclose(np.array(layer["no_relation"]), read.of_cells[..., 0], atol=1e-4)
        assert [one["tag"] for one in layer["words"]] == [
            described["entity_tags"][tag] for tag in read.of_words.argmax(-1)
        ]
    small = probe.to_dict(tables=False)
    assert "attention" not in small
    assert "cells" not in small["layers"][0]
    assert small["layers"][2]["entities"] == described["layers"][2]["entities"]


def test_long_sentence_is_probed_in_the_windows_that_extraction_reads() -> None:
    extractor = make_extractor("extraction.max_words=12", "extraction.overlap=4")
    (probe,) = extractor.probe(LONG)
    assert len(probe.windows) > 2
    assert max(window.width for window in probe.windows) == 12
    for layer in probe.layers:
        assert layer.of_cells is not None
        assert layer.attention is not None
        assert np.allclose(layer.of_words.sum(-1), 1)
        assert np.allclose(layer.of_cells.sum(-1), 1)
        assert np.allclose(layer.attention.sum(-1), 1, atol=1e-5)
        assert (layer.of_cells[0, 20:, 0] == 1).all()  # no window holds the first word and one of those
        assert (layer.attention[:, 0, 12:] == 0).all()
    described = probe.to_dict()
    assert described["windows"][0] == {"start": 0, "end": 12}
    assert described["layers"][0]["cells"][0][20] == [0, 1.0]


def test_cells_that_a_table_does_not_fill_have_no_relation() -> None:
    (probe,) = make_extractor("tagging.fill=lower").probe("Mara left Oldhaven with Tom")
    for layer in probe.layers:
        assert layer.of_cells is not None
        assert (layer.of_cells[np.triu_indices(5)][:, 0] == 1).all()
        assert (layer.of_cells[np.tril_indices(5, -1)][:, 0] < 1).all()


def test_parts_that_a_network_lacks_are_empty() -> None:
    (without_table,) = make_extractor("table.kind=none").probe("Mara left Oldhaven")
    described = without_table.to_dict()
    assert [layer["cells"] for layer in described["layers"]] == [[], [], []]
    assert np.array(described["attention"]).shape == (3, 2, 3, 3)
    (without_sequence,) = make_extractor("sequence.kind=none", "model.interaction=none").probe("Mara left Oldhaven")
    assert without_sequence.to_dict()["attention"] == [[], [], []]


def test_text_without_words_has_no_probes_and_one_sentence_may_be_chosen() -> None:
    extractor = make_extractor()
    assert extractor.probe("") == []
    assert extractor.probe(" \n") == []
    (second,) = extractor.probe(TEXT, only=1)
    assert second.words[0] == Span(TEXT.index("The"), TEXT.index(" ferry"))
    with pytest.raises(TypeError, match="expected str, found int"):
        extractor.probe(3)  # type: ignore[arg-type]


def test_jobs_are_divided_where_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    extractor = make_extractor()
    expected = [probe.to_dict() for probe in extractor.probe(TEXT)]
    forward = type(extractor.model.network).forward

    def small(network: nn.Module, inputs: object) -> object:
        if len(inputs.mask) > 1:  # type: ignore[attr-defined]
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(network, inputs)  # type: ignore[arg-type]

    monkeypatch.setattr(type(extractor.model.network), "forward", small)
    assert [probe.to_dict()["words"] for probe in extractor.probe(TEXT)] == [one["words"] for one in expected]

    def none(*_: object, **__: object) -> object:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(type(extractor.model.network), "forward", none)
    with pytest.raises(RelatumError, match=r"out of memory: all layers of a sentence of 11 words .*lower max_cells"):
        extractor.probe(TEXT)


def test_ensemble_is_not_probed() -> None:
    ensemble = Ensemble([make_extractor().model, make_extractor().model])
    with pytest.raises(RelatumError, match="no layers of its own to look at; look at one of its members"):
        ensemble.probe(TEXT)
