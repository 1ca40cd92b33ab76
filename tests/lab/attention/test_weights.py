"""Attention of the network and of its encoder: measured, exported and drawn."""

from __future__ import annotations

import json
import re
import struct
import zlib
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from relatum.config import load_config
from relatum.encoders.base import EncoderInput
from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.lab.attention.alignment import AlignmentCounter, make_patterns
from relatum.lab.attention.heads import measure_heads
from relatum.lab.attention.heat_maps import Picture, _image, page
from relatum.lab.attention.weights import Head, attend, attend_to_text, find_heads, is_table_guided
from relatum.models.build import build_model
from relatum.schema import RelationType, Schema
from relatum.training.corpus import load_part
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span

from ...small_models import SETTINGS

TEXT = "Mara Ilves lives in Oldhaven. She <left> Port Amsel."


@pytest.fixture(scope="module")
def news() -> Extractor:
    return Extractor.from_pretrained("news", "cpu")


def make_extractor(*overrides: str) -> Extractor:
    schema = Schema(("Loc", "Peop"), (RelationType("Live_In"),))
    return Extractor(build_model(load_config(None, (*SETTINGS, *overrides)), schema, None, None, "abdefhilmnoprst"))


def read_png(address: str) -> NDArray[np.uint8]:
    data = b64decode(address.removeprefix("data:image/png;base64,"))
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    parts: dict[bytes, bytes] = {}
    at = 8
    while at < len(data):
        (size,), kind = struct.unpack_from(">I", data, at), data[at + 4 : at + 8]
        parts[kind] = data[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size)[0] == zlib.crc32(kind + parts[kind])
        at += 12 + size
    width, height, *form = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert form == [8, 0, 0, 0, 0]
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), dtype=np.uint8).reshape(height, width + 1)
    assert (lines[:, 0] == 0).all()
    return lines[:, 1:]


def test_heads_are_those_of_the_layers_and_of_the_encoder_in_its_order(news: Extractor) -> None:
    heads = find_heads(news.model)
    assert [str(head) for head in (heads[0], heads[8], heads[24], heads[36])] == [
        "layer 1, head 1",
        "layer 2, head 1",
        "encoder layer 1, head 1",
        "encoder layer 2, head 1",
    ]
    first, second = attend_to_text(news, TEXT)
    assert second.words == ("She", "<", "left", ">", "Port", "Amsel", ".")
    (probe, _) = news.probe(TEXT)
    for number, layer in enumerate(probe.layers, 1):
        assert layer.attention is not None
        for head in (1, 8):
            assert np.allclose(first.of(Head(False, number, head)), layer.attention[head - 1], atol=1e-6)
    encoder = news.model.encoder
    assert encoder is not None
    maps = encoder.encode(EncoderInput([first.words])).attention_maps
    assert maps is not None
    assert len(heads) == 24 + maps.shape[-1]
    assert np.allclose(first.of(Head(True, 2, 3)), maps[0, :, :, 12 + 2], atol=1e-5)
    assert np.allclose(first.of(Head(True, 6, 12)), maps[0, :, :, -1], atol=1e-5)


def test_attention_without_a_part_is_that_of_the_other() -> None:
    assert [head.of_encoder for head in find_heads(make_extractor().model)] == [False] * 4
    assert len(find_heads(make_extractor("model.share_layers=true").model)) == 4
    assert is_table_guided(make_extractor().model)
    assert not is_table_guided(make_extractor("model.interaction=sequence-to-table").model)
    assert not is_table_guided(make_extractor("table.kind=none").model)
    with pytest.raises(RelatumError, match="no attention to look at: it has no sequence encoder"):
        find_heads(make_extractor("sequence.kind=none", "model.interaction=none").model)


def test_export_is_what_bertviz_takes(news: Extractor) -> None:
    (one, _) = attend_to_text(news, TEXT)
    record = json.loads(json.dumps(one.to_bertviz()))
    assert record["tokens"] == ["Mara", "Ilves", "lives", "in", "Oldhaven", "."]
    for name, n_layers, n_heads in (("attention", 3, 8), ("encoder", 6, 12)):
        layers = [torch.tensor(layer) for layer in record[name]]
        assert [layer.shape for layer in layers] == [(1, n_heads, 6, 6)] * n_layers
    assert np.allclose(record["attention"][2][0][7], one.of(Head(False, 3, 8)), atol=1e-4)
    assert np.allclose(record["encoder"][5][0][0], one.of(Head(True, 6, 1)), atol=1e-4)


def test_scores_are_those_of_each_head_by_itself(news: Extractor, examples_folder: Path) -> None:
    examples, _ = load_part(examples_folder / "news", "dev", news.model.config)
    scores = measure_heads(news, examples)
    counter = AlignmentCounter(1)
    for one in attend(news, [example.sentence for example in examples]):
        patterns = make_patterns(examples[one.sentence].gold, len(one.words))
        counter.add(one.of(Head(False, 3, 8))[None], patterns)
    assert scores.n_pairs == counter.n_pairs
    for pattern in ("entity", "head to tail", "tail to head"):
        found = scores.alignments[pattern]
        assert found.average_precision[23] == counter.alignment(pattern).average_precision[0]
        best = scores.best(pattern, of_encoder=False)
        assert [score for _, score in best] == sorted((score for _, score in best), reverse=True)
        assert len(best) == 24
        assert best[0][1] > 5 * found.chance  # the model was trained on such text
    record = json.loads(json.dumps(scores.to_dict()))
    assert record["sentences"] == len(examples)
    assert record["heads"][23] == {
        "of": "network",
        "layer": 3,
        "head": 8,
        "average_precision": {
            name: round(float(found.average_precision[23]), 6) for name, found in scores.alignments.items()
        },
    }


def test_pairs_of_each_window_count_where_a_sentence_is_read_in_windows() -> None:
    extractor = make_extractor("extraction.max_words=4", "extraction.overlap=1")
    first, last = Entity(Span(0, 2), "Peop"), Entity(Span(5, 7), "Loc")
    gold = Annotation((first, last), (Relation(first, last, "Live_In"),))
    scores = measure_heads(extractor, [Example(Sentence(tuple("abdefhi")), gold)])
    assert scores.n_pairs == 2 * 4 * 3
    assert scores.alignments["entity"].n_connected == 4
    assert scores.alignments["head to tail"].n_connected == 0  # no window holds both
    record = scores.to_dict()
    assert record["patterns"]["head to tail"] == {"connected": 0, "chance": 0.0, "nearness": None}
    assert set(record["heads"][0]["average_precision"]) == {"entity"}


def test_heat_map_is_darkest_at_its_highest_weight_between_different_words() -> None:
    weights = np.array([[0.9, 0.1], [0.05, 0.5]])
    assert read_png(_image(weights)).tolist() == [[0, 0], [128, 0]]
    assert read_png(_image(np.array([[False, True], [False, False]]))).tolist() == [[255, 0], [255, 255]]
    assert read_png(_image(np.zeros((1, 1)))).tolist() == [[255]]


def test_page_shows_gold_beside_the_best_heads_and_needs_nothing_else(news: Extractor, examples_folder: Path) -> None:
    examples, _ = load_part(examples_folder / "news", "dev", news.model.config)
    scores = measure_heads(news, examples[:5])
    (one,) = attend(news, [examples[0].sentence])
    shown = page([("<b>", Picture.of(one, examples[0].gold, scores))])
    assert shown.count("<svg") == 9
    assert shown.count("<img") == 24 + 72
    best, _ = scores.best("entity", of_encoder=False)[0]
    assert f"{best}: average precision" in shown
    assert "entity: ground truth" in shown
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert not re.search(r"https?:|<script|<link", shown)


def test_page_of_a_text_shows_what_the_model_finds(news: Extractor) -> None:
    found = attend_to_text(news, TEXT)
    shown = page([(f"sentence {one.sentence}", Picture.of(one)) for one in found])
    assert shown.count("<svg") == 6
    assert "ground truth" not in shown
    assert "She &lt; left &gt; Port Amsel ." in shown
    words = found[0].words
    picture = Picture.of(found[0])
    expected = make_patterns(found[0].found, len(words))
    assert expected["head to tail"].any()
    assert (picture.patterns["head to tail"] == expected["head to tail"]).all()


def test_picture_of_a_window_has_the_gold_of_that_window() -> None:
    extractor = make_extractor("extraction.max_words=4", "extraction.overlap=1")
    gold = Annotation((Entity(Span(0, 2), "Peop"), Entity(Span(5, 7), "Loc")))
    first, second = sorted(attend(extractor, [Sentence(tuple("abdefhi"))]), key=lambda one: one.window)
    assert second.window == Span(3, 7)
    pattern = Picture.of(second, gold).patterns["entity"]
    assert np.argwhere(pattern).tolist() == [[2, 3], [3, 2]]
    assert np.argwhere(Picture.of(first, gold).patterns["entity"]).tolist() == [[0, 1], [1, 0]]
