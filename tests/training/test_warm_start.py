"""Runs that start from a trained model."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from relatum.config import EncoderConfig, dump_config
from relatum.encoders.base import EncoderInput
from relatum.encoders.resolve import load_encoder
from relatum.errors import ConfigError, RelatumError
from relatum.extractor.extractor import Extractor
from relatum.models.checkpoint import load_model
from relatum.models.model import Model
from relatum.training.arguments import TrainArguments, config_overrides
from relatum.training.loop import TrainingStopped
from relatum.training.train import resume, train, train_runs

from .conftest import TINY, Silent

SIZES = [override for override in TINY if override.startswith("training.")]
READING = [*(override for override in TINY if "kind" not in override), "encoder.n_layers=1"]
FROZEN = ("training.learning_rate=1e-30", "training.clip_norm=1e-30", "training.steps=1", "training.evaluate_every=1")
"""A run that changes no weight."""


@pytest.fixture(scope="module")
def first(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of a run."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    return train(small_corpus, out=folder, overrides=TINY, device="cpu").model


@pytest.fixture(scope="module")
def other_labels(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small corpus with other names for one type of entity and one of relation, and with a new character."""
    folder = tmp_path_factory.mktemp("data") / "other"
    shutil.copytree(small_corpus, folder)
    for path in folder.glob("*.jsonl"):
        text = path.read_text(encoding="utf-8").replace('"Peop"', '"Person"').replace('"Work_For"', '"Employed_By"')
        path.write_text(text, encoding="utf-8")
    record = {"id": "new", "text": "The ✓ was here.", "entities": [], "relations": []}
    with (folder / "train.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(record) + "\n")
    return folder


class Losses(Silent):
    """A monitor that remembers the losses."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []

    def advance(self, step: int, loss: float) -> None:
        super().advance(step, loss)
        self.losses.append(loss)


def start(data: Path, model: Path, out: Path, *overrides: str) -> tuple[Model, Silent]:
    """The model of a run that starts from a model and changes nothing."""
    heard = Silent()
    given = [*SIZES, *FROZEN, f"training.start={model}", *overrides]
    return load_model(train(data, out=out, overrides=given, device="cpu", monitor=heard).model), heard


def weights(model: Model) -> dict[str, Tensor]:
    return dict(model.network.state_dict())


def test_run_takes_over_sizes_and_all_weights_of_a_model_with_the_same_labels(
    small_corpus: Path, first: Path, tmp_path: Path
) -> None:
    model, heard = start(small_corpus, first, tmp_path / "run")
    before = load_model(first)
    assert model.config.model.width == 16
    assert model.config.encoder.kind == "none"
    assert model.schema == before.schema
    assert all(torch.equal(weight, weights(before)[name]) for name, weight in weights(model).items())
    (said,) = [line for line in heard.said if "starts from" in line]
    assert said.startswith(f"the run starts from {first.absolute()}: 100.0% of ")
    assert "; it knows the labels " in said


def test_scorers_of_new_labels_are_new_and_all_others_are_taken_over(
    other_labels: Path, first: Path, tmp_path: Path
) -> None:
    model, heard = start(other_labels, first, tmp_path / "run")
    before = load_model(first)
    ours, theirs = weights(model), weights(before)
    for scorer, names, known in (
        ("entity_scorer", model.tagging.words.names, before.tagging.words.names),
        ("relation_scorer", model.tagging.cells.names, before.tagging.cells.names),
    ):
        new = [name for name in names if name not in known]
        assert new
        assert len(new) < len(names)
        for row, name in enumerate(names):
            rows = theirs[f"{scorer}.weight"]
            is_taken = name in known and torch.equal(ours[f"{scorer}.weight"][row], rows[known.index(name)])
            assert is_taken == (name in known), name
    assert torch.equal(ours["layers.0.pairing.first.weight"], theirs["layers.0.pairing.first.weight"])
    (said,) = [line for line in heard.said if "starts from" in line]
    assert "Person" not in said
    assert "Loc" in said


def test_characters_are_taken_over_by_name(other_labels: Path, first: Path, tmp_path: Path) -> None:
    model, _ = start(other_labels, first, tmp_path / "run")
    before = load_model(first)
    assert model.characters is not None
    assert before.characters is not None
    assert "✓" in model.characters.entries
    assert "✓" not in before.characters.entries
    key = "embedder.characters.embedding.weight"
    for character in before.characters.entries:
        ours = weights(model)[key][model.characters.index(character)]
        assert torch.equal(ours, weights(before)[key][before.characters.index(character)])


def test_sizes_that_are_given_come_before_those_of_the_model(small_corpus: Path, first: Path, tmp_path: Path) -> None:
    model, heard = start(small_corpus, first, tmp_path / "run", "model.n_layers=1", "model.dropout=0.1")
    assert model.config.model.n_layers == 1
    assert model.config.model.dropout == 0.1
    key = "layers.0.pairing.first.weight"
    assert torch.equal(weights(model)[key], weights(load_model(first))[key])
    assert any("100.0% of" in line for line in heard.said)


def test_weights_that_do_not_fit_stay_new_and_are_counted(small_corpus: Path, first: Path, tmp_path: Path) -> None:
    model, heard = start(small_corpus, first, tmp_path / "run", "sequence.feedforward_width=24")
    assert weights(model)["layers.0.sequence_encoder.feedforward.0.weight"].shape == (24, 16)
    (said,) = [line for line in heard.said if "starts from" in line]
    assert not any(f" {share}% of " in said for share in ("100.0", "0.0"))


def test_start_from_a_model_helps_from_the_first_update(small_corpus: Path, first: Path, tmp_path: Path) -> None:
    fresh, started = Losses(), Losses()
    for heard, given in ((fresh, [*TINY]), (started, [*SIZES, f"training.start={first}"])):
        overrides = [*given, "training.steps=2", "training.evaluate_every=2"]
        train(small_corpus, out=tmp_path / str(len(given)), overrides=overrides, device="cpu", monitor=heard)
    assert started.losses[0] < 0.9 * fresh.losses[0]


def test_run_that_is_resumed_does_not_need_the_model_it_started_from(
    small_corpus: Path, first: Path, tmp_path: Path
) -> None:
    undisturbed, stopped, gone = tmp_path / "undisturbed", tmp_path / "stopped", tmp_path / "model"
    shutil.copytree(first, gone)
    given = [*SIZES, f"training.start={gone}"]
    whole = load_model(train(small_corpus, out=undisturbed, overrides=given, device="cpu").model)
    heard = Silent()
    heard.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 4 else None
    with pytest.raises(TrainingStopped):
        train(small_corpus, out=stopped, overrides=given, device="cpu", monitor=heard)
    shutil.rmtree(gone)
    model = load_model(resume(stopped).model)
    assert all(torch.equal(weight, weights(whole)[name]) for name, weight in weights(model).items())


def test_command_of_a_run_names_the_model_once(small_corpus: Path, first: Path, tmp_path: Path) -> None:
    arguments = TrainArguments(small_corpus, tmp_path / "run", None, (f"training.start={first}",))
    assert arguments.options() == ["--set", f"training.start={first}"]
    assert arguments.load_config().model.width == 16


def test_start_from_nothing_is_an_error(small_corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(RelatumError, match="no-model: no such model"):
        train(small_corpus, out=tmp_path / "run", overrides=["training.start=no-model"], device="cpu")
    assert not (tmp_path / "run").exists()


def test_settings_that_contradict_the_model_are_an_error(small_corpus: Path, first: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.width \(17\) that sequence\.n_attention_heads \(2\) divides"):
        start(small_corpus, first, tmp_path / "run", "model.width=17")


@pytest.fixture(scope="module")
def tuned(small_corpus: Path, tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of a run that tuned an encoder by adapters."""
    lora = [*READING, f"encoder.name={tiny_bert}", "encoder.store=name", "encoder.tuning=lora"]
    folder = tmp_path_factory.mktemp("runs") / "tuned"
    lora += ["training.encoder_learning_rate=0.05"]
    return train(small_corpus, out=folder, overrides=lora, device="cpu").model


def test_adapters_of_an_encoder_are_taken_over(small_corpus: Path, tuned: Path, tmp_path: Path) -> None:
    batch = EncoderInput([["Tom", "met", "Ann"]])
    before = load_model(tuned).encoder
    unchanged = ("encoder.tuning=lora", "training.encoder_learning_rate=1e-30")
    after = start(small_corpus, tuned, tmp_path / "run", *unchanged)[0].encoder
    plain = start(small_corpus, tuned, tmp_path / "plain", *unchanged, "encoder.lora_alpha=1e-9")[0].encoder
    assert before is not None
    assert after is not None
    assert plain is not None
    wanted = before.encode(batch).vectors
    assert torch.equal(after.encode(batch).vectors, wanted)
    assert not torch.allclose(plain.encode(batch).vectors, wanted)
    with pytest.raises(ConfigError, match=r'has adapters, which are lost with encoder.tuning = "full"'):
        start(small_corpus, tuned, tmp_path / "full", "encoder.tuning=full")
    with pytest.raises(ConfigError, match="the adapters do not fit this encoder"):
        start(small_corpus, tuned, tmp_path / "rank", *unchanged, "encoder.lora_rank=3")


def test_encoder_that_is_stored_inside_a_model_is_found_there(
    small_corpus: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "bert"
    shutil.copytree(tiny_bert, moved)
    given = [*READING, f"encoder.name={moved}", "encoder.store=inside"]
    model = train(small_corpus, out=tmp_path / "first", overrides=given, device="cpu").model
    shutil.rmtree(moved)
    again, heard = start(small_corpus, model, tmp_path / "run")
    assert again.config.encoder.name == str(model.absolute() / "encoder")
    assert any("100.0% of" in line for line in heard.said)


def test_frozen_encoder_keeps_the_adapters_of_the_model_it_starts_from(
    small_corpus: Path, tuned: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    frozen = [*SIZES, f"training.start={tuned}", "encoder.tuning=frozen"]
    model = train(small_corpus, out=tmp_path / "frozen", overrides=frozen, device="cpu").model
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        assert (model / "adapter" / name).read_bytes() == (tuned / "adapter" / name).read_bytes()
    batch = EncoderInput([["Tom", "met", "Ann"]])
    plain = load_encoder(EncoderConfig(name=str(tiny_bert), n_layers=1), want_maps=True)
    before, after = load_model(tuned).encoder, load_model(model).encoder
    assert before is not None
    assert after is not None
    assert plain is not None
    assert torch.equal(after.encode(batch).vectors, before.encode(batch).vectors)
    assert not torch.allclose(after.encode(batch).vectors, plain.encode(batch).vectors)
    # The network has learned, and reads the same through compiled code, which knows nothing of the run.
    text = "Tom Reed of Oslo met Ana Lind in Rome ."
    assert not torch.equal(weights(load_model(model))["embedder.projection.weight"], _projection(tuned))
    assert str(Extractor.from_pretrained(model)(text)) == str(Extractor.from_pretrained(model, runtime="torch")(text))
    # A run that starts from this model has the adapters, too.
    again, _ = start(small_corpus, model, tmp_path / "again")
    assert again.config.encoder.tuning == "frozen"
    assert again.encoder is not None
    assert torch.equal(again.encoder.encode(batch).vectors, before.encode(batch).vectors)


def _projection(model: Path) -> Tensor:
    return weights(load_model(model))["embedder.projection.weight"]


def test_frozen_encoder_and_its_neighbour_keep_their_features(
    small_corpus: Path, tuned: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    beside = tmp_path / "beside"
    shutil.copytree(tiny_bert, beside)
    with (beside / "vocab.txt").open("a", encoding="utf-8") as stream:
        stream.write("another\n")
    settings = [*SIZES, f"training.start={tuned}", "encoder.tuning=frozen", f'encoder.beside=["{beside}"]']
    model = load_model(train(small_corpus, out=tmp_path / "run", overrides=settings, device="cpu").model)
    batch = EncoderInput([["Tom", "met", "Ann"]])
    own, before = model.encoder, load_model(tuned).encoder
    assert own is not None
    assert before is not None
    assert torch.equal(own.members[0].encode(batch).vectors, before.encode(batch).vectors)


def test_run_with_the_adapters_of_a_model_needs_the_same_ones_when_it_is_resumed(
    small_corpus: Path, tuned: Path, tmp_path: Path
) -> None:
    source, run = tmp_path / "model", tmp_path / "stopped"
    shutil.copytree(tuned, source)
    given = [*SIZES, f"training.start={source}", "encoder.tuning=frozen"]
    whole = load_model(train(small_corpus, out=tmp_path / "undisturbed", overrides=given, device="cpu").model)
    heard = Silent()
    heard.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 4 else None
    with pytest.raises(TrainingStopped):
        train(small_corpus, out=run, overrides=given, device="cpu", monitor=heard)
    shutil.move(source, tmp_path / "moved")
    with pytest.raises(RelatumError, match=r"encoder\.adapters: .*no such model"):
        resume(run)
    shutil.copytree(tmp_path / "moved" / "adapter", source)  # a folder of peft will do, but not with other weights
    changed = {name: 2 * weight for name, weight in load_file(source / "adapter_model.safetensors").items()}
    save_file(changed, source / "adapter_model.safetensors")
    with pytest.raises(RelatumError, match="of another network \\(the encoder, "):
        resume(run)
    shutil.copyfile(tmp_path / "moved" / "adapter" / "adapter_model.safetensors", source / "adapter_model.safetensors")
    model = load_model(resume(run).model)
    assert all(torch.equal(weight, weights(whole)[name]) for name, weight in weights(model).items())


def test_several_runs_keep_the_adapters(small_corpus: Path, tuned: Path, tmp_path: Path) -> None:
    given = [override for override in SIZES if not override.startswith("training.seed")]
    runs = train_runs(small_corpus, out=tmp_path / "runs", overrides=[*given, f"training.start={tuned}"], device="cpu")
    (run,) = runs.results.values()
    assert run.config.encoder.tuning == "frozen"
    again = [value for option, value in pairwise(shlex.split(run.command)) if option == "--set"]
    assert TrainArguments(small_corpus, tmp_path, None, tuple(again), device="cpu").load_config() == run.config
    adapters = (tmp_path / "runs" / "seed-0" / "model" / "adapter" / "adapter_model.safetensors").read_bytes()
    assert adapters == (tuned / "adapter" / "adapter_model.safetensors").read_bytes()


def test_settings_of_a_run_with_frozen_adapters_make_the_same_run(
    small_corpus: Path, tuned: Path, tmp_path: Path
) -> None:
    config = TrainArguments(small_corpus, tmp_path, None, (f"training.start={tuned}",), device="cpu").load_config()
    assert (config.encoder.tuning, config.encoder.adapters) == ("frozen", str(tuned))
    settings = tmp_path / "settings.toml"
    settings.write_text(dump_config(config, comments=False, changed=True), encoding="utf-8")
    for file, given in ((settings, ()), (None, tuple(config_overrides(config)))):
        assert TrainArguments(small_corpus, tmp_path, file, given, device="cpu").load_config() == config


def test_adapters_that_were_frozen_are_trained_on_in_their_own_size(
    small_corpus: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    lora = [*READING, f"encoder.name={tiny_bert}", "encoder.store=name", "encoder.tuning=lora"]
    shape = ["encoder.lora_rank=3", "encoder.lora_alpha=5", 'encoder.lora_modules=["query", "value"]']
    rate = "training.encoder_learning_rate=0.05"
    first = train(small_corpus, out=tmp_path / "first", overrides=[*lora, *shape, rate], device="cpu").model
    frozen, heard = start(small_corpus, first, tmp_path / "frozen")
    assert frozen.config.encoder.tuning == "frozen"
    assert any("the adapters of its encoder stay as they are" in line for line in heard.said)
    unchanged = ("encoder.tuning=lora", "training.encoder_learning_rate=1e-30")
    again, _ = start(small_corpus, tmp_path / "frozen" / "model", tmp_path / "again", *unchanged)
    assert (again.config.encoder.lora_rank, again.config.encoder.lora_alpha) == (3, 5.0)
    batch = EncoderInput([["Tom", "met", "Ann"]])
    before, after = load_model(first).encoder, again.encoder
    assert before is not None
    assert after is not None
    torch.testing.assert_close(after.encode(batch).vectors, before.encode(batch).vectors)
    (tmp_path / "frozen" / "model" / "adapter" / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RelatumError, match=r"adapter_config\.json: not the settings of LoRA adapters"):
        start(small_corpus, tmp_path / "frozen" / "model", tmp_path / "broken", *unchanged)


@pytest.mark.parametrize("tuning", ["frozen", "lora"])
def test_adapters_of_another_encoder_of_the_same_size_are_refused(
    small_corpus: Path, tuned: Path, tiny_bert: Path, tmp_path: Path, tuning: str
) -> None:
    other = tmp_path / "other"
    shutil.copytree(tiny_bert, other)
    changed = {name: 2 * weight for name, weight in load_file(other / "model.safetensors").items()}
    save_file(changed, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"are of another encoder .*leave encoder\.name to the model"):
        start(small_corpus, tuned, tmp_path / "run", f"encoder.name={other}", f"encoder.tuning={tuning}")


def test_model_without_adapters_has_none_to_add(
    small_corpus: Path, first: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    given = [*READING, f"encoder.name={tiny_bert}", f"encoder.adapters={first}"]
    with pytest.raises(ConfigError, match=r"encoder\.adapters: the model .* has no adapters; leave the setting out"):
        train(small_corpus, out=tmp_path / "run", overrides=given, device="cpu")


def test_encoder_is_frozen_on_a_cpu_unless_a_file_or_setting_says_otherwise(
    small_corpus: Path, tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("training.steps = 1\n", encoding="utf-8")

    def tuning(device: str, config: Path | None, *overrides: str) -> str:
        given = (f"training.start={tuned}", *overrides)
        return TrainArguments(small_corpus, tmp_path, config, given, device=device).load_config().encoder.tuning

    assert tuning("cpu", None) == "frozen"
    assert tuning("cpu", settings, "training.sizes=auto") == "frozen"
    assert tuning("cpu", settings) == "lora"
    assert tuning("cpu", None, "training.sizes=given") == "lora"
    assert tuning("cpu", None, "encoder.tuning=lora") == "lora"
    assert tuning("cpu", None, "encoder.lora_dropout=0.2") == "lora"
    assert tuning("cpu", None, "training.encoder_learning_rate=1e-4") == "lora"
    monkeypatch.setattr("relatum.training.arguments.choose_device", torch.device)
    assert tuning("cuda", None) == "lora"


def test_adapters_are_saved_as_they_were_loaded(tuned: Path, tmp_path: Path) -> None:
    source = tmp_path / "model"
    shutil.copytree(tuned, source)
    model = load_model(source)
    assert model.encoder is not None
    shutil.rmtree(source)
    model.encoder.save_learned(tmp_path / "saved", torch.float32)
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        assert (tmp_path / "saved" / name).read_bytes() == (tuned / "adapter" / name).read_bytes()
