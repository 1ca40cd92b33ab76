from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from relatum.encoders.bert import Bert, load_bert
from relatum.encoders.bert_weights import BertShape
from relatum.errors import RelatumError


def _theirs(folder: Path) -> Any:
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=20,
        initializer_range=0.4,
        layer_norm_eps=1e-7,
    )
    config._attn_implementation = "eager"
    model: Any = transformers.AutoModel.from_config(config).eval()
    for parameter in model.parameters():  # norms and biases start as ones and zeros, which would hide their confusion
        parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return model


def _ours(folder: Path) -> Bert:
    shape = BertShape.from_config(json.loads((folder / "config.json").read_text()))
    assert shape is not None
    return load_bert(folder, shape)


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    pieces = torch.randint(1, 50, (3, 11), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(11)[None] < torch.tensor([11, 4, 1])[:, None]
    return pieces * mask, mask


def test_bert_agrees_with_transformers_in_every_layer(tmp_path: Path) -> None:
    theirs = _theirs(tmp_path).double()
    ours = _ours(tmp_path).double()
    pieces, mask = _batch()
    with torch.no_grad():
        expected = theirs(pieces, attention_mask=mask.long(), output_hidden_states=True, output_attentions=True)
    got = list(ours.outputs(pieces, mask, want_attention=True))
    assert len(got) == len(expected.hidden_states) == 4
    for one, hidden in zip(got, expected.hidden_states, strict=True):
        torch.testing.assert_close(one.hidden[mask], hidden[mask], rtol=1e-12, atol=1e-12)
    assert got[0].attention is None
    for one, attention in zip(got[1:], expected.attentions, strict=True):
        assert one.attention is not None
        real = mask[:, None, :, None].expand_as(attention)
        torch.testing.assert_close(one.attention[real], attention[real], rtol=1e-12, atol=1e-12)


def test_bert_without_attention_has_the_same_hidden_states(tmp_path: Path) -> None:
    _theirs(tmp_path)
    ours = _ours(tmp_path).double()
    pieces, mask = _batch()
    full = list(ours.outputs(pieces, mask, want_attention=True))
    short = list(ours.outputs(pieces, mask, want_attention=False))
    for one, other in zip(full, short, strict=True):
        assert other.attention is None
        torch.testing.assert_close(one.hidden[mask], other.hidden[mask], rtol=1e-12, atol=1e-12)


def test_bert_of_a_full_batch_is_that_of_its_sentences(tmp_path: Path) -> None:
    """Without padding there is nothing to leave out, and nothing to mask."""
    _theirs(tmp_path)
    ours = _ours(tmp_path).double()
    pieces = torch.randint(1, 50, (2, 7), generator=torch.Generator().manual_seed(2))
    full = torch.ones(2, 7, dtype=torch.bool)
    padded, mask = torch.zeros(2, 9, dtype=torch.long), torch.zeros(2, 9, dtype=torch.bool)
    padded[:, :7], mask[:, :7] = pieces, full
    for one, other in zip(ours.outputs(pieces, full, True), ours.outputs(padded, mask, True), strict=True):
        torch.testing.assert_close(one.hidden, other.hidden[:, :7], rtol=1e-12, atol=1e-12)
        assert not other.hidden[:, 7:].any(), "padding is zero"
        if one.attention is not None and other.attention is not None:
            torch.testing.assert_close(one.attention, other.attention[:, :, :7, :7], rtol=1e-12, atol=1e-12)


def test_bert_reads_other_spellings_of_the_names_and_half_precision(tmp_path: Path) -> None:
    _theirs(tmp_path)
    plain = _ours(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text((tmp_path / "config.json").read_text())
    renamed = {
        "bert." + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in load_file(tmp_path / "model.safetensors").items()
    }
    save_file({name: value.half() for name, value in renamed.items()}, other / "model.safetensors")
    again = _ours(other)
    assert again.state_dict().keys() == plain.state_dict().keys()
    for name, value in plain.state_dict().items():
        # The vectors of pieces are widened when they are looked up.
        assert again.state_dict()[name].dtype == (torch.float16 if name == "pieces.weight" else torch.float32)
        assert torch.equal(again.state_dict()[name].float(), value.half().float())
    outputs = again.outputs(torch.tensor([[1, 2]]), torch.ones(1, 2, dtype=torch.bool), want_attention=True)
    assert all(output.hidden.dtype == torch.float32 for output in outputs)


def test_bert_is_frozen(tmp_path: Path) -> None:
    _theirs(tmp_path)
    model = _ours(tmp_path)
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_bert_refuses_weights_that_do_not_fit(tmp_path: Path) -> None:
    _theirs(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    key = "encoder.layer.1.output.dense.weight"
    save_file({**weights, key: torch.zeros(3, 3)}, path)
    with pytest.raises(RelatumError, match=r"layers\.1\.outer\.weight has the shape \(3, 3\), .* \(24, 40\)"):
        _ours(tmp_path)
    weights.pop(key)
    save_file(weights, path)
    with pytest.raises(RelatumError, match=r"model\.safetensors lacks .* layers\.1\.outer\.weight"):
        _ours(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RelatumError, match=r"cannot be read"):
        _ours(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "roberta"},
        {"position_embedding_type": "relative_key"},
        {"hidden_act": "relu"},
        {"is_decoder": True},
        {"num_hidden_layers": "3"},
    ],
)
def test_bert_shape_is_none_for_models_we_do_not_compute(change: dict[str, object]) -> None:
    assert BertShape.from_config({"model_type": "bert"}) is not None
    assert BertShape.from_config({"model_type": "bert", **change}) is None
    assert BertShape.from_config({}) is None
