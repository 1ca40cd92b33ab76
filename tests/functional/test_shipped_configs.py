"""Every config that is shipped, built small, stepped once and made to predict."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
import torch

from relatum.config import Config, load_config
from relatum.encoders.base import EncoderInput, EncoderOutput, Features, FrozenEncoder, stack_features
from relatum.encoders.words import WordVectors
from relatum.extractor.extractor import Extractor
from relatum.extractor.finding import find_model, shipped_models
from relatum.models.build import build_model
from relatum.models.labels import make_labels
from relatum.models.losses import joint_loss
from relatum.models.model import Model
from relatum.models.record import ModelRecord
from relatum.models.vocabulary import find_characters
from relatum.training.corpus import TrainingData, load_training_data
from relatum.types import Example

from ..small_models import make_inputs

ROOT = Path(__file__).parent.parent.parent
CONFIGS = ROOT / "configs"
PAPER, BEST, SHIPPED, ABLATIONS = (
    sorted(f"{folder}/{path.stem}" for path in (CONFIGS / folder).glob("*.toml"))
    for folder in ("paper", "best", "shipped", "ablations")
)
SMALL = ("model.width=16", "sequence.n_attention_heads=2", "sequence.feedforward_width=8", "characters.width=4")

# What a setting leaves without anything to learn from, by the names of parameters; "key.bias" adds the same to all
# scores of a word, which a softmax does not see.
LAST_SEQUENCE = "layers.2.sequence_encoder.*"
NOTHING_TO_LEARN: dict[str, tuple[str, ...]] = {
    "without-entity-loss": ("entity_scorer.*", LAST_SEQUENCE),
    "without-sequence-encoder": ("entity_scorer.*",),
    "without-relation-loss": ("relation_scorer.*",),
    "without-table-encoder": ("*.key.bias",),
    "without-interaction": ("*.key.bias",),
    "diagonal": (LAST_SEQUENCE,),
    "layer-only": ("layers.0.table_encoder.state",),  # the first layer has no layer below it, so nothing is read
}


class FakeEncoder(FrozenEncoder):
    """Random but fixed features of width 8, with 4 attention maps or none."""

    width = 8
    n_mixed = 1
    max_pieces: int | None = 6
    fingerprint = "fake"
    folder = Path("fake")

    def __init__(self, n_attention_maps: int) -> None:
        self.n_attention_maps = n_attention_maps

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        return [1] * len(words)

    def encode(self, batch: EncoderInput) -> EncoderOutput:
        features = []
        for words in batch.words:
            generator = torch.Generator().manual_seed(len(words))
            vectors = torch.randn(len(words), self.width, generator=generator)
            maps = torch.rand(len(words), len(words), self.n_attention_maps, generator=generator)
            features.append(Features(vectors, maps if self.n_attention_maps else None))
        return stack_features(features)

    def to(self, device: torch.device | str) -> FakeEncoder:
        del device
        return self


def path_of(name: str) -> Path:
    return CONFIGS / f"{name}.toml" if "/" in name else CONFIGS / "ablations" / f"{name}.toml"


@cache
def read_news(config: Config) -> TrainingData:
    return load_training_data(ROOT / "examples" / "news", config)


def two_examples(config: Config) -> tuple[TrainingData, list[Example]]:
    """The first two sentences with relations, of the corpus read as the config says."""
    data = read_news(Config(text=config.text, data=config.data))
    return data, [example for example in data.train if example.gold.relations][:2]


def make_small(config: Config, data: TrainingData, examples: Sequence[Example]) -> Model:
    encoder = None
    if config.encoder.kind != "none":
        encoder = FakeEncoder(0 if config.encoder.kind == "elmo" else 4)
    known = sorted({word.lower() for example in examples for word in example.sentence.words})[::2]
    torch.manual_seed(0)
    vectors = WordVectors(tuple(known), torch.randn(len(known), 5))
    characters = find_characters(example.sentence.words for example in data.train)
    return build_model(config, data.schema, encoder, vectors, characters)


@pytest.mark.parametrize("name", [*PAPER, *BEST, *SHIPPED, *ABLATIONS])
def test_config_is_built_stepped_and_makes_predictions(name: str) -> None:
    config = load_config(path_of(name), SMALL)
    data, examples = two_examples(config)
    model = make_small(config, data, examples)
    network = model.network
    optimiser = torch.optim.Adam(network.parameters(), lr=config.training.learning_rate)

    network.train()
    outputs = network(make_inputs(model, [example.sentence.words for example in examples]))
    loss = joint_loss(outputs, make_labels(examples, model), config.training)
    assert torch.isfinite(loss.total)
    assert loss.total > 0
    loss.total.backward()
    largest = {
        parameter_name: 0.0 if parameter.grad is None else float(parameter.grad.abs().max())
        for parameter_name, parameter in network.named_parameters()
    }
    exempt = NOTHING_TO_LEARN.get(name.removeprefix("ablations/"), ())
    for parameter_name, size in largest.items():
        learns = not any(fnmatch(parameter_name, pattern) for pattern in exempt)
        assert (size > 1e-5) is learns, f"{parameter_name} has a largest gradient of {size}"
    for pattern in exempt:
        assert any(fnmatch(parameter_name, pattern) for parameter_name in largest)
    torch.nn.utils.clip_grad_norm_(network.parameters(), config.training.clip_norm)
    optimiser.step()
    assert all(torch.isfinite(parameter).all() for parameter in network.parameters())

    extractor = Extractor(model)
    sentences = [example.sentence for example in examples]
    gold = [example.gold.entities for example in examples]
    given = gold if config.evaluation.entities == "gold" else None
    predictions = extractor.predict(sentences, given)
    assert [prediction.sentence for prediction in predictions] == sentences
    if given is not None:
        assert [prediction.found.entities for prediction in predictions] == gold
    extractor("Mara Ilves works for Tarn Shipping in Oldhaven, and she likes it there very much.")


@pytest.mark.parametrize("name", PAPER)
def test_published_settings_are_those_of_appendix_c(name: str) -> None:
    config = load_config(path_of(name))
    training, model = config.training, config.model
    assert (training.batch_size, training.learning_rate, training.warmup_steps) == (24, 1e-3, 1000)
    assert (training.clip_norm, training.decay_rate, training.decay_steps, training.steps) == (5.0, 0.05, 1000, 20_000)
    assert (model.dropout, model.n_layers, model.width, config.sequence.n_attention_heads) == (0.5, 3, 200, 8)
    assert (config.characters.width, config.encoder.n_layers, config.encoder.pooling) == (30, 4, "mean")
    assert (config.table.directions, config.table.kind) == (("nw", "se"), "md-gru")
    assert (model.initialisation, config.tagging.conflicts, training.schedule) == ("authors", "last", "inverse")
    # ADE's published scores are macro averages, of models that were selected by them.
    assert training.selection == ("macro" if name == "paper/ade" else "micro")
    assert config.extraction.max_words == 256, "the paper reads every sentence whole, and CoNLL04 has one of 118 words"


@pytest.mark.parametrize("name", ["best/ade", "best/conll04", "best/scierc"])
def test_settings_of_measured_models_stay_as_they_were_measured(name: str) -> None:
    config = load_config(path_of(name))
    assert (config.model.initialisation, config.tagging.conflicts) == ("torch", "first")
    assert config.training.selection == ("macro" if name == "best/ade" else "micro")
    assert config.training.ema_decay is not None


@pytest.mark.parametrize("name", shipped_models())
def test_shipped_models_were_made_with_their_settings(name: str) -> None:
    """Their own are the seed, what was fitted on dev, and what their runs were given beside the file."""
    of_last_run = ("start", "steps", "warmup_steps", "learning_rate", "evaluate_every")
    of_run = {
        "training": ("seed", "sizes", "teachers", "teacher_weight", "unlabelled", "unlabelled_sentences", *of_last_run),
        "decoding": ("entity_threshold", "overlap", "relations_of_pair"),
    }
    record = ModelRecord.read(find_model(name) / "config.json")
    made, written = record.config.to_dict(), load_config(path_of(f"shipped/{name}")).to_dict()
    if made["encoder"]["adapters"] is not None:  # the last run kept those of an earlier run, made with the file
        of_run["encoder"] = ("tuning", "adapters", "lora_rank", "lora_alpha", "lora_dropout")
    for settings in (made, written):
        for section, keys in of_run.items():
            for key in keys:
                settings[section].pop(key)
    assert made == written


def test_every_ablation_changes_something_and_no_two_are_the_same() -> None:
    base = load_config(path_of("paper/conll04"))
    seen = {base: "paper/conll04"}
    for name in ABLATIONS:
        config = load_config(path_of(name))
        assert config not in seen, f"{name} is {seen[config]}"
        seen[config] = name


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        # Table 3
        ("without-relation-loss", {"training.relation_weight": 0.0}),
        ("without-table-encoder", {"table.kind": "none"}),
        ("without-entity-loss", {"training.entity_weight": 0.0, "evaluation.entities": "gold"}),
        ("without-sequence-encoder", {"sequence.kind": "none", "evaluation.entities": "gold"}),
        ("without-interaction", {"model.interaction": "none"}),
        ("diagonal", {"model.entity_source": "diagonal", "sequence.kind": "attention"}),
        ("diagonal-without-sequence-encoder", {"model.entity_source": "diagonal", "sequence.kind": "none"}),
        # Table 4
        *((f"layers-{n}", {"model.n_layers": n, "model.share_layers": False}) for n in (1, 2, 4, 5)),
        *((f"shared-layers-{n}", {"model.n_layers": n, "model.share_layers": True}) for n in range(1, 6)),
        # Tables 5 and 8
        ("layer-only", {"table.predecessors": ["below"]}),
        ("unidirectional", {"table.directions": ["nw"], "table.predecessors": ["below", "up", "left"]}),
        ("unidirectional-ne", {"table.directions": ["ne"]}),
        ("unidirectional-se", {"table.directions": ["se"]}),
        ("unidirectional-sw", {"table.directions": ["sw"]}),
        ("without-column", {"table.directions": ["nw", "se"], "table.predecessors": ["below", "up"]}),
        ("without-row", {"table.directions": ["nw", "se"], "table.predecessors": ["below", "left"]}),
        ("without-layer", {"table.directions": ["nw", "se"], "table.predecessors": ["up", "left"]}),
        ("bidirectional-ne-sw", {"table.directions": ["ne", "sw"]}),
        *((f"cnn-{n}", {"table.kind": "cnn", "table.kernel_size": n}) for n in (1, 3, 5)),
        # Table 9
        ("lower-triangle", {"tagging.fill": "lower", "tagging.cells": "last", "tagging.directed": True}),
        ("upper-triangle", {"tagging.fill": "upper", "tagging.cells": "last", "tagging.directed": True}),
        ("undirected-last-word", {"tagging.fill": "entire", "tagging.cells": "last", "tagging.directed": False}),
        ("undirected", {"tagging.fill": "entire", "tagging.cells": "entity", "tagging.directed": False}),
        ("last-word", {"tagging.fill": "entire", "tagging.cells": "last", "tagging.directed": True}),
    ],
)
def test_rows_of_the_papers_tables_are_what_their_names_say(name: str, settings: dict[str, object]) -> None:
    config = load_config(path_of(name)).to_dict()
    for key, value in settings.items():
        section, setting = key.split(".")
        assert config[section][setting] == value


def test_quaddirectional_has_all_four_directions() -> None:
    assert set(load_config(path_of("quaddirectional")).table.directions) == {"nw", "ne", "sw", "se"}
