"""Whole runs that train the encoder, mix its layers, average weights or weigh cells."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from relatum.config import Config, without_idle
from relatum.encoders.hashing import weights_hash
from relatum.encoders.tuned import TunedEncoder
from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.models.checkpoint import load_model, save_model
from relatum.training import loop
from relatum.training.batches import Batches, cut_long
from relatum.training.checkpoints import list_checkpoints, read_checkpoint
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunRecord
from relatum.training.loop import TrainingStopped, score, train
from relatum.training.optimisation import Optimiser
from relatum.training.run import Run
from relatum.training.setup import learned_parts, make_model

from ..small_models import make_inputs
from .conftest import Silent

CPU = torch.device("cpu")
Start = Callable[[Config], tuple[TrainingData, RunRecord]]
TUNED = ("encoder.kind=huggingface", "encoder.n_layers=1", "training.encoder_learning_rate=1e-3", "training.steps=4")
Settings = Callable[..., Config]


@pytest.fixture(scope="module")
def tiny_mpnet(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """A random MPNet with the tokenizer of the BERT."""
    import transformers

    folder = tmp_path_factory.mktemp("mpnet")
    shutil.copyfile(tiny_bert / "tokenizer.json", folder / "tokenizer.json")
    torch.manual_seed(6)
    config = transformers.MPNetConfig(
        vocab_size=250,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=20,
        max_position_embeddings=66,
        pad_token_id=0,
    )
    transformers.MPNetModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


@pytest.fixture
def tuned(tiny: Callable[..., Config], tiny_bert: Path) -> Settings:
    def settings(*overrides: str) -> Config:
        own = [f"encoder.name={tiny_bert}", *overrides]
        return tiny(*without_idle(None, own, TUNED), *own)

    return settings


def run(start: Start, config: Config, path: Path) -> Run:
    data, record = start(config)
    return train(data, record, path, device=CPU, monitor=Silent())


def final_state(path: Path) -> dict[str, torch.Tensor]:
    return dict(read_checkpoint(list_checkpoints(path / "checkpoints")[0]).tensors)


def model_files(path: Path) -> dict[str, bytes]:
    """All files of a model but its card."""
    files = [one for one in path.rglob("*") if one.is_file() and one.name != "README.md"]
    return {str(one.relative_to(path)): one.read_bytes() for one in files}


def logits(model: Any, sentences: list[tuple[str, ...]]) -> list[torch.Tensor]:
    model.network.eval()
    with torch.no_grad():
        outputs = model.network(make_inputs(model, sentences))
    return [outputs.entity_logits, outputs.relation_logits]


@pytest.mark.parametrize("tuning", ["lora", "full"])
@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_run_tunes_the_encoder_and_saves_what_it_scored(
    start: Start, tuned: Settings, tiny_bert: Path, tiny_mpnet: Path, tmp_path: Path, kind: str, tuning: str
) -> None:
    base = tiny_bert if kind == "bert" else tiny_mpnet
    before = weights_hash(base)
    config = tuned(f"encoder.name={base}", f"encoder.tuning={tuning}", "training.evaluate_every=2")
    result = run(start, config, tmp_path / "run")
    assert weights_hash(base) == before
    data, _ = start(config)
    loaded = load_model(result.model)
    assert not isinstance(loaded.encoder, TunedEncoder)
    assert score(loaded, data.dev) == result.dev
    names = {path.name for path in result.model.iterdir()}
    assert ("adapter" in names) is (tuning == "lora")
    if tuning == "full":
        stored, original = load_file(result.model / "encoder/model.safetensors"), load_file(base / "model.safetensors")
        assert not any(torch.equal(stored[name], original[name]) for name in original)
    else:
        assert weights_hash(result.model / "encoder") == before
    found = Extractor.from_pretrained(result.model, "cpu")("Mara Ilves works for Tarn Shipping.")
    assert found.text
    assert not list(result.model.rglob("*.bin")) + list(result.model.rglob("*.p*t*"))


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_saved_model_predicts_as_the_trained_one_and_can_be_saved_again(
    start: Start, tuned: Settings, tmp_path: Path, tuning: str
) -> None:
    config = tuned(f"encoder.tuning={tuning}", "encoder.store=name", "encoder.mixing=learned")
    data, _ = start(config)
    model, remarks = make_model(data, config, CPU)
    assert any("of the encoder are learned" in one or "beside the encoder are learned" in one for one in remarks)
    module, groups = learned_parts(model)
    optimiser = Optimiser(model.network.parameters(), config.training, groups)
    examples, _ = cut_long(data.train, model.encoder, config)
    batches = Batches(model, examples)
    losses = []
    model.network.train()
    for step in range(1, 13):
        inputs, labels = batches.make(list(range(6)))
        loss = loop_loss(model, inputs, labels, config)
        optimiser.update(loss, step)
        losses.append(loss.item())
    assert sum(losses[-3:]) < sum(losses[:3])
    assert all(parameter.grad is not None for parameter in module.parameters() if parameter.requires_grad)
    sentences = [example.sentence.words[:n] for example, n in zip(data.dev, (5, 9, 7), strict=False)]
    expected = logits(model, sentences)
    save_model(model, tmp_path / "one")
    first = load_model(tmp_path / "one")
    save_model(first, tmp_path / "two")
    assert model_files(tmp_path / "one") == model_files(tmp_path / "two")
    for path in ("one", "two"):
        for found, wanted in zip(logits(load_model(tmp_path / path), sentences), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    has_encoder = (tmp_path / "one" / "encoder").exists()
    assert has_encoder is (tuning == "full")  # a tuned encoder is nowhere else, whatever encoder.store says


def loop_loss(model: Any, inputs: Any, labels: Any, config: Config) -> torch.Tensor:
    from relatum.models.losses import joint_loss

    return joint_loss(model.score(inputs), labels, config.training).total


def test_changed_base_or_adapters_are_refused(start: Start, tuned: Settings, tiny_bert: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(tiny_bert, base)
    config = tuned("encoder.tuning=lora", "encoder.store=name", f"encoder.name={base}")
    model, _ = make_model(start(config)[0], config, CPU)
    path = tmp_path / "model"
    save_model(model, path)
    assert load_model(path).encoder is not None
    settings = path / "adapter" / "adapter_config.json"
    described = settings.read_text()
    settings.write_text(described.replace('"lora_alpha": 16', '"lora_alpha": 17'))
    with pytest.raises(RelatumError, match=r"adapter_config\.json: the file has the sha256 .* damaged or replaced"):
        load_model(path)
    settings.write_text(described)
    load_model(path)
    manifest = path / "manifest.json"
    listed = manifest.read_text()
    files = json.loads(listed)["files"]
    unchecked = {name: sha256 for name, sha256 in files.items() if not name.startswith("adapter/")}
    manifest.write_text(json.dumps({"files": unchecked}))
    with pytest.raises(RelatumError, match="adapter: the files of the model's adapter are not there"):
        load_model(path)
    manifest.write_text(listed)
    weights = bytearray((base / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (base / "model.safetensors").write_bytes(weights)
    with pytest.raises(RelatumError, match=r"the encoder's weights have the sha256 .* trained with"):
        load_model(path)


@pytest.mark.parametrize(
    "overrides",
    [
        ("encoder.tuning=lora", "encoder.lora_dropout=0.1", "training.ema_decay=0.9"),
        ("encoder.tuning=full", "training.encoder_layer_decay=0.5"),
    ],
    ids=["lora", "full"],
)
def test_stopped_run_goes_on_to_the_same_weights(
    start: Start, tuned: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...]
) -> None:
    monkeypatch.setattr(loop, "_PATIENCE", -1.0)  # losses are read after every update
    data, record = start(tuned(*overrides, "training.steps=6", "training.evaluate_every=3"))
    train(data, record, tmp_path / "whole", device=CPU, monitor=Silent())
    for name, stop_at in (("early", 2), ("late", 5)):
        monitor = Silent()

        def stop(step: int, stop_at: int = stop_at) -> None:
            if step == stop_at:
                os.kill(os.getpid(), signal.SIGINT)

        monitor.on_advance = stop
        with pytest.raises(TrainingStopped):
            train(data, record, tmp_path / name, device=CPU, monitor=monitor)
        torch.manual_seed(99)
        train(data, record, tmp_path / name, device=CPU, monitor=Silent(), resume=True)
        whole, broken = final_state(tmp_path / "whole"), final_state(tmp_path / name)
        assert whole.keys() == broken.keys()
        assert any("/encoder." in one for one in whole)
        assert [one for one in whole if not torch.equal(whole[one], broken[one])] == []
        assert model_files(tmp_path / "whole" / "model") == model_files(tmp_path / name / "model")


def test_resumed_run_refuses_another_base_encoder(
    start: Start, tuned: Settings, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_PATIENCE", -1.0)
    base = tmp_path / "base"
    shutil.copytree(tiny_bert, base)
    data, record = start(tuned("encoder.tuning=lora", f"encoder.name={base}"))
    monitor = Silent()
    monitor.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 2 else None
    with pytest.raises(TrainingStopped):
        train(data, record, tmp_path / "run", device=CPU, monitor=monitor)
    weights = bytearray((base / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (base / "model.safetensors").write_bytes(weights)
    with pytest.raises(RelatumError, match="is of another network"):
        train(data, record, tmp_path / "run", device=CPU, monitor=Silent(), resume=True)


def test_model_of_a_run_with_an_average_is_the_average(start: Start, tiny: Settings, tmp_path: Path) -> None:
    run(start, tiny("training.ema_decay=0.9", "training.steps=4"), tmp_path / "run")
    state, model = final_state(tmp_path / "run"), load_file(tmp_path / "run/model/model.safetensors")
    for name, value in model.items():
        assert torch.equal(value, state[f"average/{name}"]), name
        assert not torch.equal(value, state[f"network/{name}"]), name
    # The weights themselves are those of a run without an average.
    run(start, tiny("training.steps=4"), tmp_path / "plain")
    plain = final_state(tmp_path / "plain")
    assert all(torch.equal(value, state[name]) for name, value in plain.items())


def test_learned_mixing_of_a_frozen_encoder_is_learned_and_saved(start: Start, tuned: Settings, tmp_path: Path) -> None:
    result = run(start, tuned("encoder.mixing=learned", "encoder.tuning=frozen"), tmp_path / "run")
    weights = load_file(result.model / "model.safetensors")
    assert weights["embedder.mixing.shares"].shape == (3,)
    assert weights["embedder.mixing.shares"].abs().min() > 0
    assert weights["embedder.mixing.scale"].item() != 1
    data, _ = start(tuned())
    assert score(load_model(result.model), data.dev) == result.dev
    assert result.result.n_parameters == sum(value.numel() for value in weights.values())


def test_frozen_encoder_is_part_of_no_checkpoint(start: Start, tuned: Settings, tmp_path: Path) -> None:
    result = run(start, tuned(), tmp_path / "run")
    assert not any("encoder." in name and "/encoder" in name for name in final_state(tmp_path / "run"))
    assert not any(
        name.startswith("adapter") for name in json.loads((result.model / "manifest.json").read_text())["files"]
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_half_precision_trains_the_encoder_to_about_the_same(
    start: Start, tuned: Settings, tmp_path: Path, precision: str
) -> None:
    result = run(start, tuned("encoder.tuning=full", f"training.precision={precision}"), tmp_path / "run")
    assert load_file(result.model / "encoder/model.safetensors")["embeddings.word_embeddings.weight"].isfinite().all()
