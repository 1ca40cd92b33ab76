"""The benchmark of growth with the number of words."""

from __future__ import annotations

import pytest
import torch
from benchmarks.extract import BASE, WrongError, refuse_if_other
from benchmarks.growth import FAST, LENGTHS, Row, make_plot, make_sentence, sample

from relatum.encoders.resolve import find_encoder
from relatum.types import Annotation


def test_both_systems_find_the_same_in_sentences_of_the_length_asked_for() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found = {system: sample(system, torch.device("cpu"), 20) for system in (FAST, BASE)}
    torch.set_num_threads(threads)
    refuse_if_other("20 words", found[FAST][2], found[BASE][2])
    assert any(one.entities for one in found[FAST][2])
    with pytest.raises(WrongError, match="it finds something else than wavefront"):
        refuse_if_other("20 words", [Annotation()] * len(found[BASE][2]), found[BASE][2])


def test_longest_sentence_is_one_that_the_encoder_reads_whole() -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(find_encoder("all-minilm-l6-v2"))
    pieces = tokenizer(list(make_sentence(max(LENGTHS), 1).words), is_split_into_words=True)["input_ids"]
    assert len(pieces) == max(LENGTHS) + 2 <= tokenizer.model_max_length


def test_drawing_has_a_line_for_each_system_and_for_the_square() -> None:
    rows = [Row(system, n, n * n * slow, n, 2.0) for n in (16, 64) for system, slow in ((FAST, 1.0), (BASE, 2.0))]
    drawn = make_plot(rows, "a machine")
    assert all(name in drawn for name in ("relatum", "plain torch", "N²", "a machine"))
    assert drawn.count("<polyline") == 2 * 3
