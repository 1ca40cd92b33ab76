"""A BERT in compiled code: as exact as in plain torch, whatever the shape and the batch, on any threads."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import sqrt
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear

from relatum.errors import RelatumError
from relatum.kernels.arrays import Array, to_bfloat16, to_float32
from relatum.kernels.compile import can_load
from relatum.kernels.encoder import cpu
from relatum.kernels.encoder.cpu import (
    SOURCE,
    DenseWeights,
    EncoderWeights,
    LayerWeights,
    NormWeights,
    PackedEncoder,
    PoolingOptions,
    Products,
    is_available,
)

# The matrix unit in plain loops.
EMULATED = replace(SOURCE, flags=("-O1", "-DRELATUM_EMULATE_TILES"))
MEAN = PoolingOptions(n_kept=2, first_piece=False, mean_attention=False, want_maps=True)
READINGS = [
    MEAN,
    replace(MEAN, n_kept=1, first_piece=True, mean_attention=True),
    replace(MEAN, n_kept=0, mean_attention=True),
    replace(MEAN, n_kept=3, want_maps=False),
]
# Pieces of each word: of several sentences, one of them long, one of one word, and one without any.
SENTENCES = [[1, 2, 1, 1, 4, 1], [1], [], [1, 1, 3] * 20, [2, 2]]

pytestmark = pytest.mark.skipif(not can_load(SOURCE)[0], reason=can_load(SOURCE)[1])


def make_weights(width: int, inner_width: int, n_heads: int, n_layers: int = 3) -> EncoderWeights:
    generator = torch.Generator().manual_seed(width + inner_width)

    def draw(*shape: int, scale: float = 1.0) -> Array:
        drawn: Array = (torch.randn(*shape, generator=generator) * scale).numpy()
        return drawn

    def dense(n_inputs: int, n_outputs: int) -> DenseWeights:
        return DenseWeights(draw(n_outputs, n_inputs, scale=n_inputs**-0.5), draw(n_outputs))

    def norm() -> NormWeights:
        return NormWeights(1 + draw(width, scale=0.2), draw(width), 1e-12)

    layers = [
        LayerWeights(
            dense(width, 3 * width),
            dense(width, width),
            norm(),
            dense(width, inner_width),
            dense(inner_width, width),
            norm(),
        )
        for _ in range(n_layers)
    ]
    return EncoderWeights(draw(50, width), draw(200, width), norm(), layers, n_heads)


def draw_batch(sentences: Sequence[Sequence[int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Pieces, with one before and one after each sentence, and where words begin."""
    generator = torch.Generator().manual_seed(len(sentences))
    words = [list(accumulate(one, initial=1)) for one in sentences]
    return [torch.randint(50, (one[-1] + 1,), generator=generator).tolist() for one in words], words


def plain(
    weights: EncoderWeights, pieces: list[int], words: list[int], reading: PoolingOptions, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """One sentence, written out."""

    def tensor(values: Array) -> Tensor:
        return torch.from_numpy(values).to(dtype)

    def dense(values: Tensor, layer: DenseWeights) -> Tensor:
        return linear(values, tensor(layer.weight), tensor(layer.bias))

    def normed(values: Tensor, norm: NormWeights) -> Tensor:
        return layer_norm(values, values.shape[-1:], tensor(norm.weight), tensor(norm.bias), norm.epsilon)

    n, n_heads = len(pieces), weights.n_attention_heads
    hidden = normed(tensor(weights.pieces)[pieces] + tensor(weights.positions[:n]), weights.norm)
    states, maps = [hidden], []
    for layer in weights.layers:
        parts = dense(hidden, layer.projection).view(n, 3, n_heads, -1).permute(1, 2, 0, 3)
        attention = (parts[0] @ parts[1].mT / sqrt(parts.shape[-1])).softmax(-1)
        read = (attention @ parts[2]).transpose(0, 1).flatten(1)
        hidden = normed(hidden + dense(read, layer.output), layer.attention_norm)
        hidden = normed(hidden + dense(gelu(dense(hidden, layer.inner)), layer.outer), layer.norm)
        states.append(hidden)
        maps.append(attention)
    rows = torch.cat(states, -1) if reading.n_kept == 0 else sum(states[-reading.n_kept :]) / reading.n_kept
    assert isinstance(rows, Tensor)
    places = [slice(*bounds) for bounds in pairwise(words)]
    vectors = [rows[place.start] if reading.first_piece else rows[place].mean(0) for place in places]
    table = torch.zeros(len(places), len(places), len(maps) * n_heads, dtype=dtype)
    every = torch.cat(maps)
    for i, row in enumerate(places):
        for j, column in enumerate(places):
            sums = every[:, row, column].sum(-1)
            pooled = sums.mean(-1) if reading.mean_attention else sums.sum(-1)
            table[i, j] = pooled
    return torch.stack(vectors) if vectors else rows[:0], table


def read(
    encoder: PackedEncoder, pieces: Sequence[Sequence[int]], words: Sequence[Sequence[int]], pooling: PoolingOptions
) -> tuple[Tensor, Tensor | None]:
    vectors, maps = encoder.read(pieces, words, pooling)
    return torch.from_numpy(vectors), None if maps is None else torch.from_numpy(maps)


@pytest.fixture
def fresh_answers() -> Iterator[None]:
    is_available.cache_clear()
    cpu._library.cache_clear()
    yield
    is_available.cache_clear()
    cpu._library.cache_clear()


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(("width", "inner_width", "n_heads"), [(48, 80, 4), (30, 50, 3), (7, 5, 1), (66, 130, 2)])
def test_encoder_is_as_exact_as_plain_torch(
    width: int, inner_width: int, n_heads: int, reading: PoolingOptions
) -> None:
    weights = make_weights(width, inner_width, n_heads)
    pieces, words = draw_batch(SENTENCES)
    vectors, maps = read(PackedEncoder(weights), pieces, words, reading)
    assert (maps is not None) == reading.want_maps
    errors: list[tuple[Tensor, Tensor]] = []  # of ours and of plain torch
    for number, (one, places) in enumerate(zip(pieces, words, strict=True)):
        exact, exact_maps = plain(weights, one, places, reading, torch.float64)
        other, other_maps = plain(weights, one, places, reading, torch.float32)
        n = len(exact)
        errors.append(((vectors[number, :n] - exact).flatten(), (other - exact).flatten()))
        assert not vectors[number, n:].any()
        if maps is not None:
            errors.append(((maps[number, :n, :n] - exact_maps).flatten(), (other_maps - exact_maps).flatten()))
            assert not maps[number, n:].any()
            assert not maps[number, :, n:].any()
    ours, others = (torch.cat(one).abs().max() for one in zip(*errors, strict=True))
    assert ours <= 2 * others
    assert ours < 1e-4


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_pieces_of_a_half_type_are_widened(dtype: str) -> None:
    weights = make_weights(30, 50, 3)
    pieces_given = to_bfloat16(weights.pieces) if dtype == "bfloat16" else weights.pieces.astype(np.float16)
    weights = replace(weights, pieces=pieces_given)
    pieces, words = draw_batch(SENTENCES)
    narrow = read(PackedEncoder(weights), pieces, words, MEAN)
    wide = read(PackedEncoder(replace(weights, pieces=to_float32(weights.pieces))), pieces, words, MEAN)
    assert all(
        torch.equal(one, two) for one, two in zip(narrow, wide, strict=True) if one is not None and two is not None
    )


@pytest.mark.parametrize("products", get_args(Products))
@pytest.mark.parametrize("max_rows", [1, 16, 128])
def test_neither_threads_nor_groups_change_anything(
    products: Products, max_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = make_weights(66, 130, 2)
    source = EMULATED if products == "split" else SOURCE
    encoder = PackedEncoder(weights, products, source)
    pieces, words = draw_batch(SENTENCES)
    expected = [read(encoder, [one], [places], MEAN) for one, places in zip(pieces, words, strict=True)]
    monkeypatch.setattr(cpu, "_MAX_ROWS", max_rows)
    encoder = PackedEncoder(weights, products, source)
    before = torch.get_num_threads()
    try:
        for n_threads in (1, 2, 3, 8):
            torch.set_num_threads(n_threads)
            vectors, maps = read(encoder, pieces, words, MEAN)
            assert maps is not None
            for number, (alone, alone_maps) in enumerate(expected):
                n = alone.shape[1]
                assert torch.equal(vectors[number, :n], alone[0])
                assert torch.equal(maps[number, :n, :n], alone_maps[0] if alone_maps is not None else maps)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("n_threads", [1, 3])
def test_what_no_word_has_is_zero_whatever_was_there(reading: PoolingOptions, n_threads: int) -> None:
    pieces, words = draw_batch(SENTENCES)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(n_threads)
        prepared = PackedEncoder(make_weights(30, 50, 3)).prepare([*pieces, []], [*words, [0]], reading)
        for one in (prepared.vectors, prepared.maps):
            if one is not None:
                one.fill(np.nan)
        prepared.run()
    finally:
        torch.set_num_threads(before)
    mask = np.arange(prepared.vectors.shape[1]) < np.array([[len(one)] for one in (*SENTENCES, [])])
    assert not prepared.vectors[~mask].any()
    assert not np.isnan(prepared.vectors).any()
    if prepared.maps is not None:
        assert not prepared.maps[~(mask[:, None] & mask[..., None])].any()
        assert not np.isnan(prepared.maps).any()


def test_split_products_are_nearly_those_of_float32() -> None:
    weights = make_weights(66, 130, 2)
    pieces, words = draw_batch(SENTENCES)
    full = read(PackedEncoder(weights), pieces, words, MEAN)
    split = read(PackedEncoder(weights, "split", EMULATED), pieces, words, MEAN)
    for one, two in zip(full, split, strict=True):
        assert one is not None
        assert two is not None
        torch.testing.assert_close(two, one, rtol=0, atol=3e-4)
        assert not torch.equal(two, one)


@pytest.mark.parametrize(("width", "inner_width", "n_heads"), [(48, 80, 4), (30, 50, 3), (66, 130, 2)])
def test_products_in_8_bits_are_nearly_those_of_float32(width: int, inner_width: int, n_heads: int) -> None:
    weights = make_weights(width, inner_width, n_heads)
    pieces, words = draw_batch(SENTENCES)
    full = read(PackedEncoder(weights), pieces, words, MEAN)
    rounded = read(PackedEncoder(weights, "int8"), pieces, words, MEAN)
    for one, two in zip(full, rounded, strict=True):
        assert one is not None
        assert two is not None
        error = (two - one).norm() / one.norm()
        assert 1e-3 < error < 0.03


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["projection", "output", "inner", "outer"])
def test_weights_that_are_no_numbers_are_not_rounded_away(name: str, odd: float) -> None:
    weights = make_weights(66, 130, 2)
    dense = getattr(weights.layers[0], name)
    dense.weight[-1, 5] = odd
    pieces, words = draw_batch(SENTENCES)
    vectors, _ = read(PackedEncoder(weights, "int8"), pieces, words, MEAN)
    assert not vectors[0, : len(words[0]) - 1].isfinite().any()


def test_weights_in_8_bits_take_a_quarter_of_the_memory() -> None:
    weights = make_weights(384, 1536, 12, n_layers=1)
    encoders = PackedEncoder(weights), PackedEncoder(weights, "int8")
    wide, narrow = (encoder._n_bytes(weights.layers[0].inner.weight) for encoder in encoders)
    assert narrow < 0.27 * wide


def test_prepared_reading_keeps_all_that_it_writes_to() -> None:
    prepared = PackedEncoder(make_weights(30, 50, 3)).prepare([[1, 4, 2]], [[1, 2]], MEAN)
    assert prepared.maps is not None
    before = weakref.ref(prepared.vectors), weakref.ref(prepared.maps)
    run = prepared.run
    del prepared
    gc.collect()
    assert all(written() is not None for written in before)
    run()


def test_what_does_not_fit_is_refused() -> None:
    weights = make_weights(30, 50, 3)
    encoder = PackedEncoder(weights)
    for piece in (50, -1):
        with pytest.raises(RelatumError, match="200 positions and 50 pieces"):
            encoder.read([[1, piece, 2]], [[1, 2]], MEAN)
    with pytest.raises(RelatumError, match="a sentence of 201 pieces"):
        encoder.read([[1] * 201], [[1, 2]], MEAN)
    with pytest.raises(RelatumError, match="cannot be divided among 4 attention heads"):
        PackedEncoder(replace(weights, n_attention_heads=4))
    with pytest.raises(RelatumError, match="weights of float32"):
        PackedEncoder(replace(weights, positions=weights.positions.astype(np.float64)))


@pytest.mark.usefixtures("fresh_answers")
def test_no_compiler_is_no_encoder_and_a_broken_one_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert not is_available()
    is_available.cache_clear()
    monkeypatch.setenv("CXX", "false")
    monkeypatch.setenv("RELATUM_CACHE", "/nonexistent/relatum")
    with caplog.at_level(logging.WARNING):
        assert not is_available()
    assert "the encoder is computed in plain torch, which is slower" in caplog.text
