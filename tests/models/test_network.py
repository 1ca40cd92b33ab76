"""The network as a whole: what padding, dropout and each setting of the ablations do and do not change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from relatum.encoders.base import EncoderInput
from relatum.kernels.backend import use_backend
from relatum.layers.attention import DotProductScores, SelfAttention, TableGuidedScores
from relatum.layers.md_rnn import MDRNN
from relatum.models.model import Model
from relatum.models.outputs import Outputs

from ..small_models import make_inputs

VARIANTS: list[tuple[str, ...]] = [
    *(
        (f"table.kind={table}", f"model.interaction={interaction}")
        for table in ("md-gru", "cnn", "none")
        for interaction in ("both", "table-to-sequence", "sequence-to-table", "none")
    ),
    ("sequence.kind=none",),
    ("sequence.kind=none", "table.kind=cnn"),
    ("sequence.kind=none", "table.kind=none"),
    ("model.entity_source=diagonal",),
    ("model.entity_source=diagonal", "table.kind=cnn", "table.kernel_size=5"),
    ("model.entity_source=diagonal", "sequence.kind=none"),
    ("model.share_layers=true",),
    ("model.share_layers=true", "table.kind=cnn"),
    ("table.pairing=one-step",),
    ("table.attention_maps=false",),
    ("table.reset=before", 'table.directions=["nw","se","ne","sw"]'),
    ('table.predecessors=["below"]', 'table.directions=["nw"]'),
    ('table.predecessors=["up","left"]', "table.removed=dropped"),
    ("sequence.output_activation=none",),
]


def run(model: Model, sentences: list[list[str]]) -> Outputs:
    """The outputs in double precision, that of the features included."""
    model.network.double()
    outputs = model.network(make_inputs(model, sentences))
    assert isinstance(outputs, Outputs)
    return outputs


def relation_logits(outputs: Outputs) -> Tensor:
    assert outputs.relation_logits is not None
    return outputs.relation_logits


@pytest.mark.parametrize("overrides", VARIANTS, ids=" ".join)
def test_sentence_alone_and_in_a_batch_has_the_same_scores(
    make_model: Any, sentences: list[list[str]], overrides: tuple[str, ...]
) -> None:
    model: Model = make_model(*overrides)
    batch = run(model, sentences)
    for row, words in enumerate(sentences):
        alone, n = run(model, [words]), len(words)
        torch.testing.assert_close(batch.entity_logits[row, :n], alone.entity_logits[0], rtol=1e-10, atol=1e-10)
        if "table.kind=none" in overrides:
            assert alone.relation_logits is None
            assert batch.relation_logits is None
            continue
        found, expected = relation_logits(batch)[row, :n, :n], relation_logits(alone)[0]
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("encoder", [True, False])
@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("characters", ["lstm", "none"])
def test_padding_changes_nothing_whatever_is_read(
    make_model: Any, sentences: list[list[str]], encoder: bool, words: bool, characters: str
) -> None:
    if not encoder and not words and characters == "none":
        return
    model: Model = make_model(f"characters.kind={characters}", encoder=encoder, words=words)
    batch, alone = run(model, sentences), run(model, sentences[:1])
    torch.testing.assert_close(batch.entity_logits[:1, :2], alone.entity_logits, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(relation_logits(batch)[:1, :2, :2], relation_logits(alone), rtol=1e-10, atol=1e-10)


def test_shapes_follow_the_labels(make_model: Any, sentences: list[list[str]]) -> None:
    model: Model = make_model()
    outputs = run(model, sentences)
    # O, and B and I of two types; ⊥, two directions of one type and one tag of the symmetric one.
    assert outputs.entity_logits.shape == (3, 5, 5)
    assert relation_logits(outputs).shape == (3, 5, 5, 4)
    assert len(outputs.layers) == 3
    assert all(state.sequence.shape == (3, 5, 8) for state in outputs.layers)
    assert all(state.table is not None and state.table.shape == (3, 5, 5, 8) for state in outputs.layers)
    assert all(state.attention is not None and state.attention.shape == (3, 2, 5, 5) for state in outputs.layers)


def test_backends_give_the_same_scores(make_model: Any, sentences: list[list[str]]) -> None:
    model: Model = make_model()
    fast = run(model, sentences)
    with use_backend("reference"):
        plain = run(model, sentences)
    torch.testing.assert_close(fast.entity_logits, plain.entity_logits, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(relation_logits(fast), relation_logits(plain), rtol=1e-10, atol=1e-11)


def test_scores_are_linear_in_the_last_representations(make_model: Any, sentences: list[list[str]]) -> None:
    model: Model = make_model()
    outputs, network = run(model, sentences), model.network
    last = outputs.layers[-1]
    assert network.relation_scorer is not None
    torch.testing.assert_close(outputs.entity_logits, network.entity_scorer(last.sequence), rtol=0, atol=0)
    torch.testing.assert_close(relation_logits(outputs), network.relation_scorer(last.table), rtol=0, atol=0)


def test_entities_on_the_diagonal_are_scored_from_it(make_model: Any, sentences: list[list[str]]) -> None:
    model: Model = make_model("model.entity_source=diagonal")
    outputs = run(model, sentences)
    table = outputs.layers[-1].table
    assert table is not None
    for i in range(5):
        expected = model.network.entity_scorer(table[:, i, i])
        torch.testing.assert_close(outputs.entity_logits[:, i], expected, rtol=1e-12, atol=1e-13)


def test_layers_are_wired_as_in_figure_3(make_model: Any, sentences: list[list[str]]) -> None:
    """Layer l's table is made of S_{l−1}, T_{l−1} and T^ℓ, and its sequence of S_{l−1} and T_l."""
    model: Model = make_model()
    outputs, network = run(model, sentences), model.network
    inputs = make_inputs(model, sentences)
    assert inputs.attention_maps is not None
    maps, mask = inputs.attention_maps.double(), inputs.mask
    sequence, table = network.embedder(inputs), None
    for layer, state in zip(network.layers, outputs.layers, strict=True):
        pairs = layer.get_submodule("pairing")(sequence, maps)
        table = layer.get_submodule("table_encoder")(pairs, table, mask)
        sequence, _ = layer.get_submodule("sequence_encoder")(sequence, table, mask)
        torch.testing.assert_close(state.table, table, rtol=0, atol=0)
        torch.testing.assert_close(state.sequence, sequence, rtol=0, atol=0)


@pytest.mark.parametrize("interaction", ["table-to-sequence", "none"])
def test_table_that_does_not_read_the_sequence_is_made_of_the_first_one(
    make_model: Any, sentences: list[list[str]], interaction: str
) -> None:
    model: Model = make_model(f"model.interaction={interaction}")
    outputs, network = run(model, sentences), model.network
    inputs = make_inputs(model, sentences)
    assert inputs.attention_maps is not None
    first, table = network.embedder(inputs), None
    for layer, state in zip(network.layers, outputs.layers, strict=True):
        pairs = layer.get_submodule("pairing")(first, inputs.attention_maps.double())
        table = layer.get_submodule("table_encoder")(pairs, table, inputs.mask)
        torch.testing.assert_close(state.table, table, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("interaction", "entities_need_table", "relations_need_sequence"),
    [
        ("both", True, True),
        ("table-to-sequence", True, False),
        ("sequence-to-table", False, True),
        ("none", False, False),
    ],
)
@pytest.mark.parametrize("kind", ["md-gru", "cnn"])
def test_interaction_says_which_encoder_the_scores_depend_on(
    make_model: Any,
    sentences: list[list[str]],
    perturb: Callable[[nn.Module], None],
    kind: str,
    interaction: str,
    entities_need_table: bool,
    relations_need_sequence: bool,
) -> None:
    overrides = (f"model.interaction={interaction}", f"table.kind={kind}")
    before = run(make_model(*overrides), sentences)
    changed: Model = make_model(*overrides)
    for layer in changed.network.layers:
        perturb(layer.get_submodule("table_encoder"))
        perturb(layer.get_submodule("pairing"))
    after = run(changed, sentences)
    assert torch.equal(before.entity_logits, after.entity_logits) is not entities_need_table
    assert not torch.equal(relation_logits(before), relation_logits(after))
    changed = make_model(*overrides)
    for layer in changed.network.layers:
        perturb(layer.get_submodule("sequence_encoder"))
    after = run(changed, sentences)
    assert torch.equal(relation_logits(before), relation_logits(after)) is not relations_need_sequence
    assert not torch.equal(before.entity_logits, after.entity_logits)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("model.interaction=both",), TableGuidedScores),
        (("model.interaction=table-to-sequence",), TableGuidedScores),
        (("model.interaction=sequence-to-table",), DotProductScores),
        (("model.interaction=none",), DotProductScores),
        (("table.kind=none",), DotProductScores),
    ],
)
def test_attention_without_a_table_to_read_uses_dot_products(
    make_model: Any, overrides: tuple[str, ...], expected: type[nn.Module]
) -> None:
    for layer in make_model(*overrides).network.layers:
        assert type(layer.get_submodule("sequence_encoder.attention.scores")) is expected


def test_shared_layers_are_one_layer_gone_through_several_times(make_model: Any, sentences: list[list[str]]) -> None:
    model: Model = make_model("model.share_layers=true", "model.n_layers=3")
    outputs, network = run(model, sentences), model.network
    assert len(network.layers) == 1
    assert len(outputs.layers) == 3
    inputs = make_inputs(model, sentences)
    assert inputs.attention_maps is not None
    maps, sequence = inputs.attention_maps.double(), network.embedder(inputs)
    # The first round has the slot of the layer below, with zeros in it.
    table = torch.zeros(3, 5, 5, 8, dtype=torch.float64)
    for state in outputs.layers:
        sequence, table = (
            getattr(network.layers[0](sequence, sequence, table, maps, inputs.mask), name)
            for name in ("sequence", "table")
        )
        torch.testing.assert_close(state.sequence, sequence, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(state.table, table, rtol=1e-12, atol=1e-13)


def test_layers_that_are_not_shared_have_parameters_of_their_own(make_model: Any) -> None:
    network = make_model("model.n_layers=2").network
    first, second = ({id(p) for p in layer.parameters()} for layer in network.layers)
    assert not first & second


def count_dropouts(model: Model, sentences: list[list[str]]) -> Counter[tuple[int, ...]]:
    """How often dropout was applied to tensors of each shape in one pass."""
    found: Counter[tuple[int, ...]] = Counter()
    hooks = []
    for module in model.network.modules():
        if isinstance(module, nn.Dropout):
            assert module.p == 0.5

            def note(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
                assert not torch.equal(inputs[0], output)
                found[tuple(output.shape)] += 1

            hooks.append(module.register_forward_hook(note))
    model.network.train()
    model.network(make_inputs(model, sentences))
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize("n_layers", [1, 3])
def test_dropout_has_its_seven_places(make_model: Any, sentences: list[list[str]], n_layers: int) -> None:
    """Character vectors, the joined vectors, attention, twice in the feed-forward network, and the last S and T."""
    model: Model = make_model(f"model.n_layers={n_layers}")
    n_characters = sum(len(word) for words in sentences for word in words)  # also those of words that come twice
    expected: Counter[tuple[int, ...]] = Counter({(n_characters, 4): 1, (3, 5, 4 + 5 + 6): 1})
    expected[3, 5, 8] += 2 * n_layers  # after attention and after the feed-forward network
    expected[3, 5, 12] += n_layers  # inside it
    expected[3, 5, 8] += 1  # S
    expected[3, 5, 5, 8] += 1  # T
    assert count_dropouts(model, sentences) == expected
    assert sum(expected.values()) == 4 + 3 * n_layers


@pytest.mark.parametrize("kind", ["md-gru", "cnn"])
def test_table_encoder_has_no_dropout(make_model: Any, kind: str) -> None:
    model: Model = make_model(f"table.kind={kind}")
    model.network.train()
    sequence = torch.randn(2, 4, 8)
    table, maps, mask = torch.randn(2, 4, 4, 8), torch.rand(2, 4, 4, 3), torch.ones(2, 4, dtype=torch.bool)
    for layer in model.network.layers:
        first, second = (layer(sequence, sequence, table, maps, mask) for _ in range(2))
        assert torch.equal(first.table, second.table)
        assert not torch.equal(first.sequence, second.sequence)


def test_evaluation_is_deterministic_and_training_is_not(make_model: Any, sentences: list[list[str]]) -> None:
    model: Model = make_model()
    assert torch.equal(run(model, sentences).entity_logits, run(model, sentences).entity_logits)
    assert torch.equal(relation_logits(run(model, sentences)), relation_logits(run(model, sentences)))
    model.network.train()
    assert not torch.equal(run(model, sentences).entity_logits, run(model, sentences).entity_logits)
    no_dropout: Model = make_model("model.dropout=0.0")
    no_dropout.network.train()
    first = run(no_dropout, sentences).entity_logits
    assert torch.equal(first, run(no_dropout, sentences).entity_logits)


@pytest.mark.parametrize(("setting", "matter"), [("true", True), ("false", False)])
def test_attention_maps_matter_only_where_they_are_given(
    make_model: Any, sentences: list[list[str]], setting: str, matter: bool
) -> None:
    model: Model = make_model(f"table.attention_maps={setting}")
    assert model.encoder is not None
    features = model.encoder.encode(EncoderInput(sentences))
    assert features.attention_maps is not None
    before = model.network(make_inputs(model, sentences, features))
    features.attention_maps.add_(1)
    after = model.network(make_inputs(model, sentences, features))
    assert torch.equal(before.entity_logits, after.entity_logits) is not matter
    assert torch.equal(before.relation_logits, after.relation_logits) is not matter


@pytest.mark.parametrize("missing", ["below", "up", "left"])
@pytest.mark.parametrize("removed", ["zeroed", "dropped"])
def test_removed_predecessor_keeps_or_loses_its_weights(make_model: Any, missing: str, removed: str) -> None:
    """The released code zeroes the state and keeps its part of the gates."""
    others = [name for name in ("below", "up", "left") if name != missing]
    listed = ",".join(f'"{name}"' for name in others)
    model: Model = make_model(f"table.predecessors=[{listed}]", f"table.removed={removed}", "model.n_layers=2")
    second = model.network.layers[1].get_parameter("table_encoder.state")
    # One direction has 4 values; r, z and the candidate, and three λ for three slots or one for two.
    expected = (2, 12, 24) if removed == "zeroed" else (2, 8, 16)
    assert second.shape == expected


def test_settings_of_a_config_reach_their_parts(make_model: Any) -> None:
    model: Model = make_model(
        "sequence.output_activation=none",
        "sequence.feedforward_width=20",
        "table.reset=before",
        'table.directions=["ne","sw"]',
        "model.dropout=0.25",
    )
    for layer in model.network.layers:
        attention, rnn = layer.get_submodule("sequence_encoder.attention"), layer.get_submodule("table_encoder")
        assert isinstance(attention, SelfAttention)
        assert isinstance(rnn, MDRNN)
        assert not isinstance(attention.activation, nn.ReLU)
        assert layer.get_parameter("sequence_encoder.feedforward.0.weight").shape == (20, 8)
        assert rnn.spec.reset == "before"
        assert rnn.directions == ("ne", "sw")
    assert {module.p for module in model.network.modules() if isinstance(module, nn.Dropout)} == {0.25}
    default: Model = make_model()
    assert isinstance(default.network.layers[0].get_submodule("sequence_encoder.attention.activation"), nn.ReLU)
    assert default.config.table.reset == "after"
    for kernel_size in (1, 5):
        cnn: Model = make_model("table.kind=cnn", f"table.kernel_size={kernel_size}")
        shape = cnn.network.layers[0].get_parameter("table_encoder.convolutions.0.weight").shape
        assert shape == (8, 8, kernel_size, kernel_size)


@pytest.mark.parametrize(
    "overrides", [(), ("table.kind=cnn",), ("model.entity_source=diagonal",), ("table.pairing=one-step",)]
)
def test_table_may_be_narrower_than_the_sequence(make_model: Any, sentences: Any, overrides: tuple[str, ...]) -> None:
    model: Model = make_model("table.width=4", "model.n_layers=2", *overrides)
    outputs = model.network(make_inputs(model, sentences))
    assert [state.table.shape[-1] for state in outputs.layers if state.table is not None] == [4, 4]
    assert [state.sequence.shape[-1] for state in outputs.layers] == [8, 8]
    outputs.entity_logits.sum().add(outputs.relation_logits.sum()).backward()
    for name, parameter in model.network.named_parameters():
        if "layers.1.sequence_encoder" not in name or "diagonal" not in "".join(overrides):
            assert parameter.grad is not None, name


@pytest.mark.parametrize(
    ("overrides", "of_words", "of_cells", "of_gradients"),
    [
        ((), 4e-4, 0.015, 4e-3),
        (("table.kind=cnn",), 3e-3, 0.023, 0.11),
        (("model.entity_source=diagonal",), 0.018, 0.015, 0.018),
        (("table.kind=none",), 0.0, 0.0, 0.0),
    ],
)
def test_half_precision_is_for_tables_alone(
    make_model: Any, sentences: Any, overrides: tuple[str, ...], of_words: float, of_cells: float, of_gradients: float
) -> None:
    """The distances are about three times those that were seen, as shares of the largest value or of the norm."""
    model: Model = make_model(*overrides)
    network, inputs = model.network, make_inputs(model, sentences)

    def read() -> tuple[Outputs, dict[str, torch.Tensor]]:
        network.zero_grad(set_to_none=True)
        outputs: Outputs = network(inputs)
        loss = outputs.entity_logits.square().sum()
        if outputs.relation_logits is not None:
            loss = loss + outputs.relation_logits.square().sum()
        loss.backward()
        return outputs, {name: one.grad for name, one in network.named_parameters() if one.grad is not None}

    expected, wanted = read()
    network.table_dtype = torch.bfloat16
    found, gradients = read()
    assert not torch.is_autocast_enabled("cpu")
    if model.config.table.kind == "md-gru":
        assert all(state.table is not None and state.table.dtype == torch.bfloat16 for state in found.layers)
    assert all(state.sequence.dtype == torch.float32 for state in found.layers)
    assert found.entity_logits.dtype == torch.float32
    limit = of_words * expected.entity_logits.abs().max().item()
    torch.testing.assert_close(found.entity_logits, expected.entity_logits, rtol=0, atol=limit)
    if expected.relation_logits is not None:
        assert found.relation_logits is not None
        assert found.relation_logits.dtype == torch.float32
        assert not torch.equal(found.relation_logits, expected.relation_logits)
        limit = of_cells * expected.relation_logits.abs().max().item()
        torch.testing.assert_close(found.relation_logits, expected.relation_logits, rtol=0, atol=limit)
    assert gradients.keys() == wanted.keys()
    assert all(gradient.dtype == torch.float32 for gradient in gradients.values())
    whole, right = (torch.cat([one.flatten() for one in some.values()]) for some in (gradients, wanted))
    assert (whole - right).norm() <= of_gradients * right.norm()
