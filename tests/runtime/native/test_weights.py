"""The network in compiled code: as exact as in plain torch, and never of weights that are no more."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from relatum.errors import ConfigError, RelatumError
from relatum.kernels.arrays import Array, address_of
from relatum.kernels.backend import use_backend
from relatum.kernels.compile import can_load, load
from relatum.kernels.md_gru import CellSpec
from relatum.kernels.network import cpu, pairing, whole
from relatum.kernels.network.cpu import SOURCE, TABLE_DTYPES, Words, is_available
from relatum.kernels.tensors import as_array, as_array_or_none, as_tensor
from relatum.layers.attention import DotProductScores, SelfAttention, SequenceLayer, TableGuidedScores
from relatum.layers.characters import CharacterBatch, CharacterLSTM
from relatum.layers.md_rnn import MDRNN
from relatum.layers.pairing import Pairing
from relatum.layers.table_cnn import TableCNN
from relatum.models.embedder import TextEmbedder, WordTable
from relatum.models.inputs import ModelInputs, Vectors
from relatum.models.layer import TableSequenceLayer
from relatum.models.network import TableSequenceNetwork
from relatum.models.outputs import LayerState, Outputs
from relatum.runtime.native.weights import _pack_pairing, _pack_sequence, pack_characters, pack_network
from relatum.runtime.packing import Packing

# The matrix unit in plain loops.
EMULATED = replace(SOURCE, flags=("-O1", "-DRELATUM_EMULATE_TILES"))
LENGTHS = ([1], [5], [9, 3, 1], [50, 7], [4, 4])
SHAPES = [(24, 16, 10, 8), (50, 9, 7, 5), (200, 64, 72, 8)]
"""Width, table width, maps and attention heads, of which the last divide the first."""

pytestmark = pytest.mark.skipif(not can_load(SOURCE)[0], reason=can_load(SOURCE)[1])


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(3)


def make_mask(lengths: list[int]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def cells(mask: Tensor) -> Tensor:
    return mask.unsqueeze(2) & mask.unsqueeze(1)


def two_ways(module: nn.Module, *arguments: Any) -> tuple[Any, Any]:
    """What plain torch says in the precision of the module, and what it says in double precision."""

    def wide(value: Any) -> Any:
        return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value

    module.eval()
    with torch.no_grad():
        return module(*arguments), deepcopy(module).double()(*map(wide, arguments))


def read_sequence(
    layer: SequenceLayer, sequence: Tensor, table: Tensor, mask: Tensor, splits: bool = False
) -> tuple[Tensor, Tensor]:
    """The next sequence and the attention, (batch, heads, words, words), by compiled code."""
    packed, words = _pack_sequence(layer), Words.of(mask.sum(1).tolist())
    result = words.make(tuple(sequence.shape))
    attention = words.make((len(words.lengths), packed.n_heads, words.n_words, words.n_words))
    job = packed.weights_job(TABLE_DTYPES.index(str(table.dtype).removeprefix("torch.")), splits)
    job.sequence, job.table = sequence.data_ptr(), table.data_ptr()
    job.result, job.attention = address_of(result), address_of(attention)
    job.lengths, job.n_sentences, job.n_words = words.address, len(words.lengths), words.n_words
    job.n_threads = torch.get_num_threads()
    cpu.call("relatum_sequence", job)
    return as_tensor(result), as_tensor(attention)


def read_pairs(module: Pairing, sequence: Tensor, maps: Tensor, mask: Tensor) -> Tensor:
    """The table of pairs by compiled code."""
    packed, words = _pack_pairing(module), Words.of(mask.sum(1).tolist())
    table = words.make(words.shape(2, packed.table_width), packed.dtype)
    job = packed.weights_job()
    job.sequence, job.maps, job.table = sequence.data_ptr(), maps.data_ptr(), address_of(table)
    job.lengths, job.n_sentences, job.n_words = words.address, len(words.lengths), words.n_words
    job.n_threads = torch.get_num_threads()
    cpu.call("relatum_pairing", job)
    return as_tensor(table)


def assert_as_exact(found: Tensor, plain: Tensor, exact: Tensor, where: Tensor) -> None:
    ours, others = ((one.double() - exact)[where].abs().max() for one in (found, plain))
    assert found.dtype == plain.dtype
    assert not torch.equal(found[where], plain[where]) or ours == 0, "both were computed in the same way"
    assert ours <= 2 * others + 1e-6 * exact[where].abs().max()


def make_layer(width: int, table_width: int, n_heads: int, activate: bool = True) -> SequenceLayer:
    attention = SelfAttention(TableGuidedScores(table_width, n_heads), width, n_heads, activate)
    return SequenceLayer(attention, width, 3 * width + 1, 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize(("width", "table_width", "_", "n_heads"), SHAPES)
def test_sequence_layer_is_as_exact_as_plain_torch(
    width: int, table_width: int, _: int, n_heads: int, lengths: list[int], dtype: torch.dtype
) -> None:
    layer, mask, n = make_layer(width, table_width, n_heads, activate=n_heads == 8), make_mask(lengths), max(lengths)
    table = torch.randn(len(lengths), n, n, table_width).masked_fill(~cells(mask).unsqueeze(-1), torch.nan).to(dtype)
    sequence = torch.randn(len(lengths), n, width)
    found = read_sequence(layer.eval(), sequence, table, mask)
    plain, exact = two_ways(layer, sequence, table.nan_to_num(), mask)
    assert_as_exact(found[0], plain[0], exact[0], mask)
    attention = [one[1].movedim(1, -1) for one in (found, plain, exact)]
    if n > 1:
        assert_as_exact(attention[0], attention[1], attention[2], cells(mask))
    assert not attention[0][~cells(mask)].any()
    assert not found[0][~mask].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lengths", [[1], [50, 7], [40] * 6], ids=str)
@pytest.mark.parametrize(("width", "table_width", "_", "n_heads"), SHAPES)
def test_sequence_layer_of_split_products_is_nearly_as_exact(
    width: int,
    table_width: int,
    _: int,
    n_heads: int,
    lengths: list[int],
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emulated = cpu.library(EMULATED)
    monkeypatch.setattr(cpu, "library", lambda *_: emulated)
    layer, mask, n = make_layer(width, table_width, n_heads), make_mask(lengths), max(lengths)
    table, sequence = torch.randn(len(lengths), n, n, table_width).to(dtype), torch.randn(len(lengths), n, width)
    found = read_sequence(layer.eval(), sequence, table, mask, splits=True)
    _, exact = two_ways(layer, sequence, table, mask)
    error = (found[0].double() - exact[0])[mask].abs().max() / exact[0][mask].abs().max()
    assert 1e-7 < error < 3e-5
    assert not found[0][~mask].any()


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize(("width", "table_width", "n_maps", "_"), SHAPES)
def test_pairing_is_as_exact_as_plain_torch(
    width: int, table_width: int, n_maps: int, _: int, lengths: list[int]
) -> None:
    module, mask, n = Pairing(width, table_width, n_maps, "two-step"), make_mask(lengths), max(lengths)
    sequence, maps = torch.randn(len(lengths), n, width), torch.rand(len(lengths), n, n, n_maps)
    found = read_pairs(module, sequence, maps, mask)
    plain, exact = two_ways(module, sequence, maps)
    assert_as_exact(found, plain, exact, cells(mask))
    assert not found[~cells(mask)].any()


@pytest.mark.parametrize("emulated", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize(("width", "table_width", "n_maps", "_"), SHAPES)
def test_pairing_in_bfloat16_is_as_exact_as_plain_torch(
    width: int,
    table_width: int,
    n_maps: int,
    _: int,
    lengths: list[int],
    emulated: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if emulated:
        library = cpu.library(EMULATED)
        for part in (cpu, pairing):
            monkeypatch.setattr(part, "library", lambda: library)
    module, mask, n = Pairing(width, table_width, n_maps, "two-step").bfloat16(), make_mask(lengths), max(lengths)
    sequence, maps = torch.randn(len(lengths), n, width), torch.rand(len(lengths), n, n, n_maps).bfloat16()
    found = read_pairs(module, sequence, maps, mask)
    plain, exact = two_ways(module, sequence, maps)
    where = cells(mask)
    assert found.dtype == torch.bfloat16
    ours, others = ((one.double() - exact)[where].square().mean().sqrt() for one in (found, plain))
    assert ours <= 1.5 * others + 1e-3


@pytest.mark.parametrize("width", [30, 64, 2])
@pytest.mark.parametrize("lengths", [[1], [3, 1, 7, 7, 2], list(range(1, 30))], ids=str)
def test_characters_are_read_as_exactly_as_in_plain_torch(width: int, lengths: list[int]) -> None:
    module = CharacterLSTM(20, width, 0.5).eval()
    numbers = torch.randint(1, 20, (sum(lengths),))
    spelling = CharacterBatch.pack(numbers, torch.tensor(lengths), torch.arange(1, len(lengths) + 1).unsqueeze(0))
    with torch.no_grad():
        found = as_tensor(pack_characters(module).read(numbers.numpy(), np.array(lengths))).unsqueeze(0)
        plain, exact = module(spelling), deepcopy(module).double()(spelling)
    assert_as_exact(found, plain, exact, torch.ones(1, len(lengths), dtype=torch.bool))


@pytest.mark.parametrize("number", [20, -1])
def test_character_that_there_is_not_is_refused(number: int) -> None:
    packed = pack_characters(CharacterLSTM(20, 6, 0).requires_grad_(False))
    with pytest.raises(
        RelatumError, match="relatum_characters was given what does not fit, or the number of something"
    ):
        packed.read(np.array([3, number]), np.array([2]))


def test_characters_are_written_where_there_is_room() -> None:
    packed = pack_characters(CharacterLSTM(20, 6, 0).requires_grad_(False))
    spelt, lengths = np.array([3, 4, 5]), np.array([1, 2])
    table = np.zeros((5, 6), np.float32)
    packed.read(spelt, lengths, table, 2)
    assert np.array_equal(table[2:4], packed.read(spelt, lengths))
    assert not table[[0, 1, 4]].any()
    with pytest.raises(ValueError, match="no room for 2 words at row 4"):
        packed.read(spelt, lengths, table, 4)
    with pytest.raises(RelatumError, match="or the number of something that there is not"):
        packed.read(spelt[:2], lengths, table)


def make_network(
    n_layers: int = 2, n_rounds: int = 1, reads_sequence: bool = True, **spec: Any
) -> TableSequenceNetwork:
    layers = [
        TableSequenceLayer(
            Pairing(24, 16, 5, "two-step"), MDRNN(16, 16, ("nw", "se"), CellSpec(**spec)), make_layer(24, 16, 8)
        )
        for _ in range(n_layers)
    ]
    embedder = TextEmbedder(None, None, 11, 24, 0.5)
    scorers = nn.Linear(24, 4), nn.Linear(16, 6)
    return TableSequenceNetwork(embedder, layers, *scorers, 0.5, n_rounds, reads_sequence).eval()


def make_inputs(lengths: list[int]) -> ModelInputs:
    n = max(lengths)
    vectors, maps = torch.randn(len(lengths), n, 11), torch.rand(len(lengths), n, n, 5)
    return ModelInputs(make_mask(lengths), vectors=vectors, attention_maps=maps)


def assert_same(found: Outputs, wanted: Outputs, mask: Tensor, tolerance: float = 1e-5) -> None:
    def close(one: Tensor | None, two: Tensor | None, where: Tensor) -> None:
        assert one is not None
        assert two is not None
        torch.testing.assert_close(one[where].float(), two[where].float(), rtol=0, atol=tolerance)

    close(found.entity_logits, wanted.entity_logits, mask)
    close(found.relation_logits, wanted.relation_logits, cells(mask))
    assert len(found.layers) == len(wanted.layers)
    for one, two in zip(found.layers, wanted.layers, strict=True):
        close(one.sequence, two.sequence, mask)
        close(one.table, two.table, cells(mask))
        assert one.attention is not None
        assert two.attention is not None
        close(one.attention.movedim(1, -1), two.attention.movedim(1, -1), cells(mask))


def parts_of(network: TableSequenceNetwork, inputs: ModelInputs) -> list[tuple[Array, Array | None]]:
    parts = network.embedder.join(inputs.character_vectors, inputs.words, inputs.vectors)
    return [(as_array(values), as_array_or_none(rows)) for values, rows in parts]


def read_compiled(network: TableSequenceNetwork, inputs: ModelInputs, keep: bool = True) -> Outputs:
    """The outputs of a network by compiled code."""
    with torch.inference_mode():
        packed, refusal = pack_network(network)
        assert packed is not None, refusal
        assert inputs.attention_maps is not None
        maps = as_array(inputs.attention_maps)
        scores = packed.read(parts_of(network, inputs), maps, inputs.mask.sum(1).tolist(), keep)
        of_cells = None if scores.of_cells is None else as_tensor(scores.of_cells)
        states = tuple(LayerState(*map(as_tensor, state)) for state in scores.states)
        return Outputs(as_tensor(scores.of_words), of_cells, states)


def both(network: TableSequenceNetwork, inputs: ModelInputs) -> tuple[Outputs, Outputs]:
    """The outputs of a network by compiled code, and by plain torch."""
    found = read_compiled(network, inputs)
    with torch.inference_mode(), use_backend("wavefront"):
        return found, network(inputs)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize(
    "settings",
    [{}, {"n_rounds": 3, "n_layers": 1}, {"reads_sequence": False}, {"read": ("up", "left")}],
    ids=str,
)
def test_all_layers_at_once_are_the_layers_one_by_one(lengths: list[int], settings: dict[str, Any]) -> None:
    network, inputs = make_network(**settings), make_inputs(lengths)
    assert_same(*both(network, inputs), inputs.mask)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("settings", [{}, {"n_rounds": 3, "n_layers": 1}, {"n_layers": 1}], ids=str)
def test_layers_that_are_not_kept_change_no_score(lengths: list[int], settings: dict[str, Any]) -> None:
    network, inputs = make_network(**settings), make_inputs(lengths)
    kept, found = read_compiled(network, inputs), read_compiled(network, inputs, keep=False)
    assert kept.layers
    assert not found.layers
    assert found.relation_logits is not None
    assert kept.relation_logits is not None
    assert torch.equal(found.entity_logits, kept.entity_logits)
    assert torch.equal(found.relation_logits, kept.relation_logits)
    assert not found.entity_logits[~inputs.mask].any()
    assert not found.relation_logits[~cells(inputs.mask)].any()


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_entities_on_the_diagonal_are_those_of_plain_torch(lengths: list[int]) -> None:
    network, inputs = make_network(), make_inputs(lengths)
    network.entities_on_diagonal, network.entity_scorer = True, nn.Linear(16, 4)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 0.05)):
        for layer in network.layers:
            assert isinstance(layer, TableSequenceLayer)
            assert layer.pairing is not None
            assert layer.table_encoder is not None
            layer.pairing.to(dtype), layer.table_encoder.to(dtype)
        assert_same(*both(network, inputs), inputs.mask, tolerance)


def test_network_without_a_relation_scorer_scores_words() -> None:
    network, inputs = make_network(), make_inputs([7, 3])
    network.relation_scorer = None
    found, plain = both(network, inputs)
    assert found.relation_logits is None
    torch.testing.assert_close(found.entity_logits[inputs.mask], plain.entity_logits[inputs.mask], rtol=0, atol=1e-5)


def test_all_that_is_known_of_words_is_read() -> None:
    network, inputs = make_network(), make_inputs([7, 3])
    characters, words = CharacterLSTM(20, 6, 0.5), WordTable(torch.randn(9, 5), learn_unknown=True)
    network.embedder = TextEmbedder(characters, words, 11, 24, 0.5).eval()
    numbers = torch.randint(0, 9, (2, 7))
    for spelt in (Vectors(torch.randn(2, 7, 6)), Vectors(torch.randn(30, 6), torch.randint(0, 30, (2, 7)))):
        inputs = replace(inputs, character_vectors=spelt, words=numbers)
        assert_same(*both(network, inputs), inputs.mask)


@pytest.mark.parametrize("row", [30, -1])
def test_row_that_there_is_not_is_refused(row: int) -> None:
    network, inputs = make_network(), make_inputs([2])
    network.embedder = TextEmbedder(CharacterLSTM(20, 6, 0.5), None, 11, 24, 0.5).eval()
    rows = torch.tensor([[0, row]])
    with pytest.raises(RelatumError, match="or the number of something that there is not"):
        read_compiled(network, replace(inputs, character_vectors=Vectors(torch.randn(30, 6), rows)))


def test_parts_of_another_width_are_refused() -> None:
    network, inputs = make_network(), make_inputs([2])
    with pytest.raises(RelatumError, match="relatum_network was given what does not fit"):
        read_compiled(network, replace(inputs, vectors=torch.randn(1, 2, 12)))


def test_prepared_scores_keep_all_that_they_are_written_to() -> None:
    network, inputs = make_network(), make_inputs([5, 2])
    with torch.no_grad():
        packed, _ = pack_network(network)
        assert packed is not None
        assert inputs.attention_maps is not None
        prepared = packed.prepare(parts_of(network, inputs), as_array(inputs.attention_maps), [5, 2], keep=True)
    written = [weakref.ref(one) for one in (prepared.scores.of_words, *prepared.scores.states[0])]
    run = prepared.run
    del prepared
    gc.collect()
    assert all(one() is not None for one in written)
    run()


def test_number_of_threads_changes_nothing() -> None:
    network, inputs = make_network(), make_inputs([40, 17, 3])
    before = torch.get_num_threads()
    found: list[Outputs] = []
    try:
        for n_threads in (1, 2, 3, 8):
            torch.set_num_threads(n_threads)
            found.append(read_compiled(network, inputs))
    finally:
        torch.set_num_threads(before)
    for one in found[1:]:
        assert_same(one, found[0], inputs.mask, tolerance=0)


@pytest.mark.parametrize("emulated", [False, True])
def test_layers_in_bfloat16_are_nearly_those_of_plain_torch(emulated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if emulated:
        library = cpu.library(EMULATED)
        for part in (cpu, pairing, whole):
            monkeypatch.setattr(part, "library", lambda *_: library)
    network, inputs = make_network(), make_inputs([9, 4])
    for layer in network.layers:
        assert isinstance(layer, TableSequenceLayer)
        assert layer.pairing is not None
        assert layer.table_encoder is not None
        layer.pairing.bfloat16(), layer.table_encoder.bfloat16()
    found, plain = both(network, inputs)
    assert found.layers[0].table is not None
    assert found.layers[0].table.dtype == torch.bfloat16
    assert_same(found, plain, inputs.mask, tolerance=0.05)


def change_in_place(network: TableSequenceNetwork) -> None:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.5)


def load_others(network: TableSequenceNetwork) -> None:
    network.load_state_dict(make_network().state_dict())


def assign_others(network: TableSequenceNetwork) -> None:
    network.load_state_dict(make_network().state_dict(), assign=True)


def move(network: TableSequenceNetwork) -> None:
    network.double().float()
    change_in_place(network)


def replace_a_part(network: TableSequenceNetwork) -> None:
    layer = network.layers[0]
    assert isinstance(layer, TableSequenceLayer)
    layer.sequence_encoder = make_layer(24, 16, 8).eval()


@pytest.mark.parametrize("change", [change_in_place, load_others, assign_others, move, replace_a_part])
def test_weights_that_change_are_packed_anew(change: Callable[[TableSequenceNetwork], None]) -> None:
    network, inputs = make_network(), make_inputs([6, 2])
    before, _ = both(network, inputs)
    change(network)
    found, plain = both(network, inputs)
    assert_same(found, plain, inputs.mask)
    assert not torch.allclose(found.entity_logits, before.entity_logits, atol=1e-3)


def test_copy_of_a_network_has_weights_of_its_own() -> None:
    network, inputs = make_network(), make_inputs([6, 2])
    both(network, inputs)
    other = deepcopy(network)
    change_in_place(other)
    assert_same(*both(other, inputs), inputs.mask)
    assert_same(*both(network, inputs), inputs.mask)


def test_packing_is_made_once() -> None:
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    packing: Packing[int] = Packing()
    layer = nn.Linear(2, 2)
    assert [packing.find(layer, make) for _ in range(3)] == [1, 1, 1]
    with torch.inference_mode():
        unseen = nn.Linear(2, 2)  # nobody counts the changes of its weights
        assert [packing.find(unseen, make) for _ in range(2)] == [2, 3]


def refusal(network: TableSequenceNetwork) -> str:
    packed, reason = pack_network(network)
    assert packed is None
    assert reason is not None
    return reason


def first_layer(network: TableSequenceNetwork) -> TableSequenceLayer:
    layer = network.layers[0]
    assert isinstance(layer, TableSequenceLayer)
    return layer


def test_networks_that_compiled_code_does_not_have_are_refused_with_the_reason() -> None:
    network = make_network()
    layer = first_layer(network)
    layer.sequence_encoder = SequenceLayer(SelfAttention(DotProductScores(24, 8), 24, 8, True), 24, 30, 0)
    assert refusal(network) == "the sequence encoder reads no table"
    layer.sequence_encoder = None
    assert refusal(network) == "a layer has no MD-RNN, or no sequence encoder"
    network = make_network()
    first_layer(network).pairing = Pairing(24, 16, 5, "one-step")
    assert refusal(network) == "words are paired in one step"
    assert refusal(make_network().double()) == "tables are in torch.float64 on cpu"
    network = make_network()
    first_layer(network).table_encoder = TableCNN(16, 16, 3, reads_below=False)
    assert refusal(network) == "a layer has no MD-RNN, or no sequence encoder"
    assert refusal(make_network(reset="before")) == "compiled code has no such cell of the MD-RNN"
    network = make_network()
    layer = first_layer(network)
    assert layer.pairing is not None
    layer.pairing.bfloat16()
    assert refusal(network) == "the parts of a layer are in different precisions"
    assert layer.table_encoder is not None
    layer.table_encoder.bfloat16()
    assert refusal(network) == "the layers are in different precisions"
    network = make_network()
    network.entity_scorer.double()
    assert refusal(network) == "weights are in torch.float64 on cpu"
    with use_backend("cpu"), pytest.raises(ConfigError, match="no kernel for this form of cell"):
        pack_network(make_network(reset="before"))


@pytest.fixture
def fresh_answers() -> Iterator[None]:
    is_available.cache_clear()
    cpu.library.cache_clear()
    yield
    is_available.cache_clear()
    cpu.library.cache_clear()


@pytest.mark.usefixtures("fresh_answers")
def test_compiler_that_fails_is_a_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("CXX", "false")
    monkeypatch.setenv("RELATUM_CACHE", "/nonexistent/relatum")
    with caplog.at_level(logging.WARNING):
        assert not is_available()
        assert not is_available()
    assert caplog.text.count("the network is computed in plain torch, which is slower") == 1


def test_emulated_unit_is_what_it_says() -> None:
    library = load(EMULATED)
    assert library.relatum_network_allowed() == 1
    assert library.relatum_network_splits() == 1
