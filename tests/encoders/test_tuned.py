"""Encoders that are trained: what they learn, and that what is saved of them computes the same as a frozen one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor

from relatum.config import Config, EncoderConfig, load_config, without_idle
from relatum.encoders.base import EncoderInput, EncoderOutput
from relatum.encoders.hashing import encoder_files, file_hash, read_adapters
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.encoders.tuned import TunedEncoder
from relatum.encoders.weight_changes import read_changes
from relatum.errors import ConfigError, RelatumError
from relatum.kernels.tensors import as_array, as_tensor
from relatum.types import Context

KINDS = ["bert", "mpnet", "albert", "distilbert"]
SENTENCES = [["abc", "ab", "c", "a"], ["b", "cab"], ["ca", "a", "bcbc"]]
MakeModel = Callable[[str], Path]


def settings(folder: Path, *overrides: str) -> Config:
    own = [f"encoder.name={folder}", *overrides]
    return load_config(None, [*without_idle(None, own, ["encoder.n_layers=2"]), *own])


def prepare(folder: Path, *overrides: str) -> TunedEncoder:
    return TunedEncoder.prepare(settings(folder, *overrides), want_maps=True)


def read(encoder: TunedEncoder, batch: EncoderInput) -> EncoderOutput:
    return encoder.read(encoder.cut_batch(batch), max(batch.lengths))


def loss_of(output: EncoderOutput) -> Tensor:
    """Of vectors and maps, neither of which is constant or sums to a constant."""
    assert output.attention_maps is not None
    torch.manual_seed(7)
    vectors = (output.vectors * torch.randn(output.vectors.shape)).sum()
    return vectors + (output.attention_maps * torch.randn(output.attention_maps.shape)).sum()


def learn(encoder: TunedEncoder, n_steps: int = 5) -> list[float]:
    """Change what is learned; the answer is the loss of each step."""
    learned = [one for one in encoder.module.parameters() if one.requires_grad]
    adam = torch.optim.Adam(learned, lr=1e-2)
    losses = []
    for _ in range(n_steps):
        adam.zero_grad()
        loss = loss_of(read(encoder, EncoderInput(SENTENCES)))
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


def gradients(encoder: TunedEncoder, sentences: Sequence[Sequence[str]] = SENTENCES) -> dict[str, Tensor]:
    """Those of every weight that is learned, with dropout drawn by the same seed."""
    torch.manual_seed(11)
    output = read(encoder, EncoderInput(sentences))
    encoder.module.zero_grad()
    loss_of(output).backward()
    named = {name: one for name, one in encoder.module.named_parameters() if one.requires_grad}
    assert all(one.grad is not None for one in named.values())
    return {name: one.grad.clone() for name, one in named.items() if one.grad is not None}


def assert_close(one: EncoderOutput, other: EncoderOutput, tolerance: float) -> None:
    assert one.attention_maps is not None
    assert other.attention_maps is not None
    torch.testing.assert_close(one.vectors, other.vectors, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(one.attention_maps, other.attention_maps, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("tuning", ["lora", "full"])
@pytest.mark.parametrize("kind", KINDS)
def test_untrained_encoder_says_what_the_frozen_one_does(make_model: MakeModel, kind: str, tuning: str) -> None:
    folder = make_model(kind)
    encoder = prepare(folder, f"encoder.tuning={tuning}")
    frozen = HuggingFaceEncoder.load(folder, settings(folder).encoder)
    assert_close(encoder.encode(EncoderInput(SENTENCES)), frozen.encode(EncoderInput(SENTENCES)), 1e-5)
    assert (encoder.width, encoder.n_attention_maps) == (frozen.width, frozen.n_attention_maps)
    assert encoder.fingerprint != frozen.fingerprint


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_adapters_learn_and_leave_the_weights_alone(make_model: MakeModel, kind: str) -> None:
    encoder = prepare(make_model(kind), "encoder.tuning=lora", "encoder.lora_rank=3")
    before = {name: one.detach().clone() for name, one in encoder.module.named_parameters()}
    losses = learn(encoder)
    assert losses[-1] < losses[0]
    changed = {name for name, one in encoder.module.named_parameters() if not torch.equal(one, before[name])}
    assert changed == {name for name in before if "lora_" in name}
    assert {one.shape[0] for name, one in before.items() if "lora_A" in name} == {3}
    assert all("embedding" not in name for name in changed)


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_full_tuning_changes_all_weights(make_model: MakeModel, kind: str) -> None:
    encoder = prepare(make_model(kind), "encoder.tuning=full")
    before = {name: one.detach().clone() for name, one in encoder.module.named_parameters()}
    losses = learn(encoder)
    assert losses[-1] < losses[0]
    assert [name for name, one in encoder.module.named_parameters() if torch.equal(one, before[name])] == []
    assert not any("pooler" in name for name in before)


@pytest.mark.parametrize(
    ("kind", "mixing"), [("bert", "mean"), ("mpnet", "mean"), ("albert", "mean"), ("bert", "learned")]
)
@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_saved_encoder_is_fast_and_says_what_the_trained_one_says(
    make_model: MakeModel, tmp_path: Path, kind: str, tuning: str, mixing: str
) -> None:
    folder = make_model(kind)
    options = (f"encoder.tuning={tuning}", f"encoder.mixing={mixing}")
    encoder = prepare(folder, *options)
    untrained = encoder.encode(EncoderInput(SENTENCES))
    learn(encoder)
    encoder.save_learned(tmp_path, torch.float32)
    config = settings(folder, *options).encoder
    if tuning == "lora":
        loaded = HuggingFaceEncoder.load(folder, config, adapters=tmp_path)
    else:
        assert {path.name for path in tmp_path.iterdir()} == {path.name for path in encoder_files(folder)}
        loaded = HuggingFaceEncoder.load(tmp_path, config)
    trained = encoder.encode(EncoderInput(SENTENCES))
    assert (trained.vectors - untrained.vectors).abs().max() > 0.1
    assert_close(loaded.encode(EncoderInput(SENTENCES)), trained, 2e-5)
    # In double precision, what is left are the digits that float32 has not: adapters are added up once.
    loaded.backbone.double()
    encoder.module.double()
    assert_close(
        loaded.encode(EncoderInput(SENTENCES)),
        encoder.encode(EncoderInput(SENTENCES)),
        2e-6 if tuning == "lora" else 1e-12,
    )


def test_adapters_are_what_peft_reads(make_model: MakeModel, tmp_path: Path) -> None:
    from peft import PeftModel

    folder = make_model("bert")
    encoder = prepare(folder, "encoder.tuning=lora", "encoder.lora_alpha=5.0")
    learn(encoder)
    encoder.save_learned(tmp_path, torch.float32)
    assert {path.name for path in tmp_path.iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}
    base: Any = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
    before = {name: one.detach().clone() for name, one in base.named_parameters()}
    merged = PeftModel.from_pretrained(base, str(tmp_path)).merge_and_unload()
    after = dict(merged.named_parameters())
    changes = read_changes(tmp_path)
    assert changes.keys() == {name for name in before if not torch.equal(before[name], after[name])}
    assert len(changes) == 3 * 6
    for name, change in changes.items():
        changed = as_tensor(change.add_to(as_array(before[name])))
        torch.testing.assert_close(changed, after[name].detach(), rtol=1e-6, atol=1e-6)


def test_saved_adapters_are_small_and_half_as_large_in_half_precision(make_model: MakeModel, tmp_path: Path) -> None:
    encoder = prepare(make_model("bert"), "encoder.tuning=lora", "encoder.lora_rank=1")
    sizes = {}
    for dtype in (torch.float32, torch.float16):
        folder = tmp_path / str(dtype)
        folder.mkdir()
        encoder.save_learned(folder, dtype)
        sizes[dtype] = sum(one.nbytes for one in _load(folder / "adapter_model.safetensors").values())
    learned = [one for one in encoder.module.parameters() if one.requires_grad]
    assert sizes[torch.float32] == 4 * sum(one.numel() for one in learned) == 2 * sizes[torch.float16]
    assert sizes[torch.float32] < 0.3 * (make_model("bert") / "model.safetensors").stat().st_size


def _load(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(path)


def test_adapters_are_drawn_by_the_seed_and_draw_nothing_else(make_model: MakeModel) -> None:
    folder = make_model("bert")
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    one, same, other = (prepare(folder, "encoder.tuning=lora", f"training.seed={seed}") for seed in (4, 4, 5))
    assert torch.equal(torch.rand(3), expected)
    weights = [dict(encoder.module.named_parameters()) for encoder in (one, same, other)]
    drawn = [name for name in weights[0] if "lora_A" in name]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in drawn)
    assert not any(torch.equal(weights[0][name], weights[2][name]) for name in drawn)


def test_adapters_stand_where_the_settings_say(make_model: MakeModel) -> None:
    encoder = prepare(make_model("bert"), "encoder.tuning=lora", 'encoder.lora_modules=["query", "output.dense"]')
    names = {name.split(".lora_")[0] for name, one in encoder.module.named_parameters() if one.requires_grad}
    parts = ("attention.self.query", "attention.output.dense", "output.dense")
    assert names == {f"encoder.layer.{i}.{part}" for i in range(3) for part in parts}
    with pytest.raises(ConfigError, match=r"no linear layer 'uery'; it has self\.query, self\.key, .*output\.dense"):
        prepare(make_model("bert"), "encoder.tuning=lora", 'encoder.lora_modules=["uery"]')


@pytest.mark.parametrize("tuning", ["lora", "full"])
@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_attention_maps_carry_gradients_only_where_asked(make_model: MakeModel, kind: str, tuning: str) -> None:
    for asked in (True, False):
        encoder = prepare(
            make_model(kind), f"encoder.tuning={tuning}", f"encoder.attention_gradients={str(asked).lower()}"
        )
        learn(encoder, 1)  # adapters begin with zeros, behind which nothing has a gradient
        output = read(encoder, EncoderInput(SENTENCES))
        assert output.attention_maps is not None
        assert output.attention_maps.requires_grad is asked
        assert output.vectors.requires_grad
        if asked:
            learned = [one for one in encoder.module.parameters() if one.requires_grad]
            found = torch.autograd.grad(output.attention_maps.square().sum(), learned, materialize_grads=True)
            assert any(bool(one.any()) for one in found)


@pytest.mark.parametrize(
    ("kind", "tuning", "precision"),
    [("bert", "lora", "fp32"), ("mpnet", "full", "fp32"), ("albert", "full", "fp32"), ("bert", "full", "bf16")],
)
def test_gradient_checkpointing_changes_no_gradient(
    make_model: MakeModel, kind: str, tuning: str, precision: str
) -> None:
    found, n_kept = [], []
    for checkpointing in ("false", "true"):
        encoder = prepare(
            make_model(kind),
            f"encoder.tuning={tuning}",
            f"encoder.gradient_checkpointing={checkpointing}",
            f"training.precision={precision}",
        )
        found.append(gradients(encoder))
        kept: list[Tensor] = []
        with torch.autograd.graph.saved_tensors_hooks(_keep_in(kept), lambda tensor: tensor):
            read(encoder, EncoderInput(SENTENCES))
        n_kept.append(sum(tensor.numel() for tensor in kept))
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[0].items():
        assert torch.equal(gradient, found[1][name]), name
    assert n_kept[1] < 0.7 * n_kept[0]


def _keep_in(kept: list[Tensor]) -> Callable[[Tensor], Tensor]:
    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    return keep


def test_dropout_is_on_where_gradients_are_and_nowhere_else(make_model: MakeModel) -> None:
    encoder = prepare(make_model("bert"), "encoder.tuning=full")
    once, again = (read(encoder, EncoderInput(SENTENCES)).vectors for _ in range(2))
    assert not torch.equal(once, again)
    once, again = (encoder.encode(EncoderInput(SENTENCES)).vectors for _ in range(2))
    assert torch.equal(once, again)
    assert not once.requires_grad


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_dropout_on_a_cpu_is_the_fast_one(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    rates: list[float] = []

    def keep_all(values: Tensor, p: float, training: bool) -> Tensor:
        assert training
        rates.append(p)
        return values

    monkeypatch.setattr("relatum.encoders.tuned.dropout", keep_all)
    encoder = prepare(make_model("bert"), "encoder.tuning=full", f"training.precision={precision}")
    once, again = (read(encoder, EncoderInput(SENTENCES)).vectors for _ in range(2))
    assert torch.equal(once, again)  # no other dropout is left
    assert len(rates) == 2 * (1 + 3 * encoder.backbone.n_layers)


def test_weights_are_sorted_by_depth(make_model: MakeModel) -> None:
    for kind in ("bert", "mpnet", "distilbert"):
        encoder = prepare(make_model(kind), "encoder.tuning=full")
        names = {one: name for name, one in encoder.module.named_parameters()}
        depths = [[names[one] for one in some] for some in encoder.learned_weights()]
        assert len(depths) == 3 + 2
        assert all("embedding" in name for name in depths[0])
        for number in range(3):
            assert depths[number + 1]
            assert all(f"layer.{number}." in name for name in depths[number + 1])
        assert sorted(name for some in depths for name in some) == sorted(names.values())
        # MPNet's relative positions are read by all layers.
        assert depths[4] == (["encoder.relative_attention_bias.weight"] if kind == "mpnet" else [])
    shared = prepare(make_model("albert"), "encoder.tuning=full").learned_weights()
    assert [bool(some) for some in shared] == [True, False, False, False, True]
    adapters = prepare(make_model("bert"), "encoder.tuning=lora").learned_weights()
    assert [len(some) for some in adapters] == [0, 12, 12, 12, 0]


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_half_precision_is_for_products_alone(make_model: MakeModel, kind: str) -> None:
    folder = make_model(kind)
    wide, half = (
        prepare(folder, "encoder.tuning=full", f"training.precision={precision}") for precision in ("fp32", "bf16")
    )
    for encoder in (wide, half):
        for part in encoder.module.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        encoder.module.config.attention_probs_dropout_prob = 0.0  # type: ignore[union-attr]
    one, other = (
        read(wide, EncoderInput(SENTENCES)),
        read(half, EncoderInput(SENTENCES)),
    )
    assert one.attention_maps is not None
    assert other.attention_maps is not None
    assert other.vectors.dtype == other.attention_maps.dtype == torch.float32
    difference = (one.vectors - other.vectors).abs().max()
    assert 1e-4 < difference < 0.3
    # Rows of a softmax in bfloat16 sum to 1 only within some thousandths. A batch without padding has no mask, whose
    # sum with the scores would be wide.
    cut = half.cut_batch(EncoderInput(SENTENCES[:1]))
    seen = [layer.attention for layer in half._layers(cut.pieces, cut.owners > -2) if layer.attention is not None]
    assert {maps.dtype for maps in seen} == {torch.float32}
    assert max((maps.sum(-1) - 1).abs().max().item() for maps in seen) < 1e-5
    found = gradients(half)
    assert all(gradient.dtype == torch.float32 for gradient in found.values())
    assert torch.equal(half.encode(EncoderInput(SENTENCES)).vectors, wide.encode(EncoderInput(SENTENCES)).vectors)


def test_adapters_of_another_encoder_or_kind_are_refused(make_model: MakeModel, tmp_path: Path) -> None:
    folder = make_model("bert")
    prepare(make_model("mpnet"), "encoder.tuning=lora").save_learned(tmp_path, torch.float32)
    config = settings(folder, "encoder.tuning=lora").encoder
    with pytest.raises(RelatumError, match=r"the adapters are of another encoder: they change .* no such weight"):
        HuggingFaceEncoder.load(folder, config, adapters=tmp_path)
    for kind in ("roberta", "distilbert"):
        with pytest.raises(RelatumError, match="the adapters are of another encoder"):
            HuggingFaceEncoder.load(make_model(kind), config, adapters=tmp_path)
    path = tmp_path / "adapter_config.json"
    described = json.loads(path.read_text())
    path.write_text(json.dumps({**described, "use_dora": True}))
    with pytest.raises(RelatumError, match="expected plain LoRA adapters, found use_dora"):
        read_changes(tmp_path)
    path.write_text(json.dumps({**described, "peft_type": "IA3"}))
    with pytest.raises(RelatumError, match="expected plain LoRA adapters, found IA3"):
        read_changes(tmp_path)
    path.unlink()
    with pytest.raises(RelatumError, match=r"adapters of the encoder cannot be read"):
        read_changes(tmp_path)
    with pytest.raises(RelatumError, match=r"adapters of the encoder cannot be read"):
        read_adapters(tmp_path)


@pytest.mark.parametrize(
    ("settings", "shapes", "message"),
    [
        ("[" * 100_000, ((2, 16), (16, 2)), "not valid JSON"),
        ('{"peft_type": "LORA", "r": 2, "r": 4, "lora_alpha": 4}', ((2, 16), (16, 2)), "stands twice"),
        ('{"peft_type": "LORA", "r": 2, "lora_alpha": 1e999}', ((2, 16), (16, 2)), "found inf as lora_alpha / r"),
        ('{"peft_type": "LORA", "r": 2, "lora_alpha": 1' + "0" * 400 + "}", ((2, 16), (16, 2)), "cannot be read"),
        ('{"peft_type": "LORA", "r": 2, "lora_alpha": 4}', ((3, 16), (16, 2)), "cannot be multiplied"),
        ('{"peft_type": "LORA", "r": 2, "lora_alpha": 4}', ((16,), (16, 2)), "cannot be multiplied"),
        ('{"peft_type": "LORA", "r": 2, "lora_alpha": 4}', ((2, 10**6), (10**6, 2)), "of another encoder"),
    ],
)
def test_adapters_that_a_stranger_made_are_refused(
    make_model: MakeModel, tmp_path: Path, settings: str, shapes: tuple[tuple[int, ...], ...], message: str
) -> None:
    folder, name = make_model("bert"), "base_model.model.encoder.layer.0.attention.self.query"
    (tmp_path / "adapter_config.json").write_text(settings)
    matrices = {f"{name}.lora_{letter}.weight": torch.zeros(shape) for letter, shape in zip("AB", shapes, strict=True)}
    save_file(matrices, tmp_path / "adapter_model.safetensors")
    with pytest.raises(RelatumError, match=message):
        HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1), adapters=tmp_path)


def test_fingerprint_knows_adapters_and_mixing(make_model: MakeModel, tmp_path: Path) -> None:
    folder = make_model("bert")
    encoder = prepare(folder, "encoder.tuning=lora")
    learn(encoder, 1)
    encoder.save_learned(tmp_path, torch.float32)
    plain = settings(folder).encoder
    found = {
        HuggingFaceEncoder.load(folder, plain).fingerprint,
        HuggingFaceEncoder.load(folder, plain, adapters=tmp_path).fingerprint,
        HuggingFaceEncoder.load(folder, settings(folder, "encoder.mixing=learned").encoder).fingerprint,
        encoder.fingerprint,
    }
    assert len(found) == 4


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_layers_to_be_mixed_stand_side_by_side(make_model: MakeModel, kind: str) -> None:
    folder = make_model(kind)
    apart = HuggingFaceEncoder.load(folder, settings(folder, "encoder.mixing=learned").encoder)
    last = HuggingFaceEncoder.load(folder, settings(folder).encoder)
    assert (apart.n_mixed, apart.width, last.n_mixed, last.width) == (4, 64, 1, 16)
    layers = apart.encode(EncoderInput(SENTENCES)).vectors.unflatten(-1, (4, 16))
    torch.testing.assert_close(
        layers[..., 2:, :].mean(-2), last.encode(EncoderInput(SENTENCES)).vectors, rtol=1e-5, atol=1e-6
    )
    assert not torch.allclose(layers[..., 0, :], layers[..., 1, :])


def test_tuned_files_are_those_of_the_encoder_with_other_weights(make_model: MakeModel, tmp_path: Path) -> None:
    folder = make_model("bert")
    encoder = prepare(folder, "encoder.tuning=full")
    learn(encoder, 1)
    encoder.save_learned(tmp_path, torch.float16)
    for path in encoder_files(folder):
        same = file_hash(path) == file_hash(tmp_path / path.name)
        assert same is (path.suffix != ".safetensors")
    assert {one.dtype for one in _load(tmp_path / "model.safetensors").values()} == {torch.float16}


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_tuned_encoder_learns_and_reads_with_context(make_model: MakeModel, tuning: str) -> None:
    around = [Context(("cab",), ("b", "a")), Context((), ("c",)), Context(("ab",), ())]
    encoder = prepare(make_model("bert"), f"encoder.tuning={tuning}", "encoder.context=2")
    frozen = HuggingFaceEncoder.load(make_model("bert"), settings(make_model("bert"), "encoder.context=2").encoder)
    wanted = frozen.encode(EncoderInput(SENTENCES, around))
    torch.testing.assert_close(
        encoder.encode(EncoderInput(SENTENCES, around)).vectors, wanted.vectors, rtol=1e-5, atol=2e-6
    )
    for part in encoder.module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    learned = read(encoder, EncoderInput(SENTENCES, around))
    torch.testing.assert_close(learned.vectors, wanted.vectors, rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(learned.attention_maps, wanted.attention_maps, rtol=1e-5, atol=2e-6)
    assert not torch.allclose(learned.vectors, read(encoder, EncoderInput(SENTENCES)).vectors, atol=1e-2)
    loss_of(learned).backward()
    assert any(one.grad is not None and one.grad.any() for some in encoder.learned_weights() for one in some)


@pytest.mark.parametrize(("kind", "can"), [*((kind, True) for kind in KINDS), ("modernbert", False)])
def test_encoder_whose_pieces_attend_to_all_others_can_be_recorded(make_model: MakeModel, kind: str, can: bool) -> None:
    assert prepare(make_model(kind), "encoder.tuning=full").can_be_recorded == can


def test_pieces_are_padded_to_few_lengths_that_the_encoder_reads(make_model: MakeModel) -> None:
    encoder = prepare(make_model("bert"), "encoder.tuning=full")
    batches = [SENTENCES[:2], [*SENTENCES, ["a"] * 14], [*SENTENCES, ["a"] * 15]]
    sizes = [encoder.cut_batch(EncoderInput(words), fixed_sizes=True).pieces.shape[1] for words in batches]
    assert encoder.n_positions == 24
    assert sizes == [16, 16, 24]
    encoder.module.eval()
    for words in batches:
        n_words = max(map(len, words))
        exact, padded = (encoder.cut_batch(EncoderInput(words), fixed_sizes=fixed) for fixed in (False, True))
        assert exact.pieces.shape[1] <= padded.pieces.shape[1]
        assert_close(encoder._read_words(padded, n_words), encoder._read_words(exact, n_words), 1e-5)
