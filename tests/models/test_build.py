"""The network that a config describes: its size, to the last parameter, and what each setting changes."""

import pytest
import torch

from relatum.config import Config, load_config
from relatum.errors import ConfigError
from relatum.models.build import Sizes, build_network, count_parameters

PUBLISHED = Sizes(
    n_entity_tags=32,
    n_relation_tags=64,
    context_width=4096,
    n_attention_maps=768,
    n_characters=1000,
    word_vectors=torch.zeros(10, 100),
)
"""The released model on ALBERT-xxlarge, with GloVe of 100 dimensions."""


def config(*overrides: str) -> Config:
    return load_config(None, overrides)


@pytest.mark.parametrize(
    ("n_layers", "expected"), [(1, 1_899_736), (2, 3_179_936), (3, 4_460_136), (4, 5_740_336), (5, 7_020_536)]
)
def test_number_of_parameters_equals_the_papers(n_layers: int, expected: int) -> None:
    assert count_parameters(build_network(config(f"model.n_layers={n_layers}"), PUBLISHED)) == expected


@pytest.mark.parametrize("n_layers", [1, 3, 5])
def test_number_of_parameters_of_shared_layers_equals_the_papers(n_layers: int) -> None:
    network = build_network(config(f"model.n_layers={n_layers}", "model.share_layers=true"), PUBLISHED)
    assert count_parameters(network) == 2_180_536


def test_number_of_parameters_on_minilm_equals_the_measured_one() -> None:
    sizes = Sizes(32, 64, 384, 72, 1000, torch.zeros(10, 100))
    assert count_parameters(build_network(config(), sizes)) == 3_300_136


def test_each_part_has_its_published_size() -> None:
    network = build_network(config("model.n_layers=2"), PUBLISHED)

    def size(module: torch.nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    first, second = network.layers
    assert size(network.embedder.projection) == 845_400
    assert network.embedder.characters is not None
    assert size(network.embedder.characters) == 30_000 + 5_640
    for layer in (first, second):
        assert size(layer.get_submodule("pairing.first")) == 80_200
        assert size(layer.get_submodule("pairing.second")) == 193_800
        assert size(layer.get_submodule("sequence_encoder")) == 403_800
    assert size(first.get_submodule("table_encoder")) == 321_600
    assert size(second.get_submodule("table_encoder")) == 602_400
    assert size(network.entity_scorer) == 6_432
    assert network.relation_scorer is not None
    assert size(network.relation_scorer) == 12_864


def test_model_without_anything_to_read_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing to read"):
        build_network(config("characters.kind=none"), Sizes(3, 3))


def test_narrower_table_leaves_the_sequence_as_it_is() -> None:
    sizes = Sizes(9, 11, 384, 72, 100)
    wide = build_network(config(), sizes)
    narrow = build_network(config("table.width=64"), sizes)
    assert count_parameters(build_network(config("table.width=200"), sizes)) == count_parameters(wide)
    for layer in narrow.layers:
        assert layer.get_submodule("pairing.first").weight.shape == (64, 400)
        assert layer.get_submodule("pairing.second").weight.shape == (64, 64 + 72)
        assert layer.get_parameter("table_encoder.input").shape[:2] == (2, 64)
        assert layer.get_submodule("sequence_encoder.attention.scores.guide").weight.shape == (8, 64)
        assert layer.get_submodule("sequence_encoder.attention.value").weight.shape == (200, 200)
    assert narrow.entity_scorer.weight.shape == (9, 200)
    assert narrow.relation_scorer is not None
    assert narrow.relation_scorer.weight.shape == (11, 64)
    on_diagonal = build_network(config("table.width=64", "model.entity_source=diagonal"), sizes)
    assert on_diagonal.entity_scorer.weight.shape == (9, 64)


SMALL = Sizes(9, 11, 384, 72, 50, torch.zeros(10, 100))
"""CoNLL04 on MiniLM-L6."""


def test_first_values_are_those_of_the_authors() -> None:
    """The bounds that were read off their code: 0.316, 0.173, 0.092 and 0.17, and 2 for the forget gate."""
    torch.manual_seed(0)
    network = build_network(config(), SMALL)
    embedder = network.embedder
    assert embedder.characters is not None
    assert embedder.words is not None
    assert embedder.words.unknown is not None
    assert network.relation_scorer is not None
    assert (embedder.characters.embedding.weight[0] == 0).all(), "padding"
    for values, bound in (
        (embedder.characters.embedding.weight, 0.3162),
        (embedder.words.unknown, 0.1732),
        (embedder.projection.weight, 0.0917),
        (network.entity_scorer.weight, 0.1694),
        (network.relation_scorer.weight, 0.1686),
        (embedder.characters.lstm.weight_ih_l0_reverse, 0.3651),
        (embedder.characters.lstm.weight_hh_l0, 0.4472),
    ):
        assert isinstance(values, torch.Tensor)
        assert 0.93 * bound < values.abs().max() <= bound * 1.0002
        assert values.std().item() == pytest.approx(bound / 3**0.5, rel=0.12), "uniform"
    for linear in (embedder.projection, network.entity_scorer, network.relation_scorer):
        assert (linear.bias == 0).all()
    for direction in ("", "_reverse"):
        biases = sum(getattr(embedder.characters.lstm, f"bias_{kind}_l0{direction}") for kind in ("ih", "hh"))
        assert biases.view(4, 15).unique_consecutive(dim=1).flatten().tolist() == [0, 2, 0, 0]


def test_other_first_values_are_torchs() -> None:
    """Outside the embedder and the scorers both settings leave the layers as torch makes them."""
    torch.manual_seed(0)
    as_torch = build_network(config("model.initialisation=torch"), SMALL).state_dict()
    torch.manual_seed(0)
    as_authors = build_network(config(), SMALL).state_dict()
    changed = {name for name in as_torch if not torch.equal(as_torch[name], as_authors[name])}
    lstm = {name for name in as_torch if name.startswith("embedder.characters.lstm.")}
    others = {"embedder.characters.embedding.weight", "embedder.words.unknown"}
    linear = {f"{part}.{what}" for part in LINEARS for what in ("weight", "bias")}
    assert changed == lstm | others | linear
    assert as_torch["embedder.projection.weight"].abs().max() <= 514**-0.5
    assert (as_torch["embedder.words.unknown"] == 0).all()


LINEARS = ("embedder.projection", "entity_scorer", "relation_scorer")
