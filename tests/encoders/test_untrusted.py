"""Encoders that a stranger made: nothing in them is executed, and nothing beside their own files is read."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from relatum.config import EncoderConfig, load_config
from relatum.encoders.base import EncoderInput
from relatum.encoders.hashing import files_hash, weights_hash
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.encoders.tuned import TunedEncoder
from relatum.encoders.weights import WEIGHTS, read_tensors
from relatum.errors import RelatumError

MakeModel = Callable[..., Path]
KINDS = pytest.mark.parametrize("kind", ["bert", "mpnet"])


class Bomb:
    """An object whose pickle makes a file when it is opened."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


@pytest.fixture
def copy(make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A small encoder of a kind that a test may spoil; opening a pickle ends the test."""

    def no_pickles(*_: object, **__: object) -> None:
        pytest.fail("torch.load was called")

    monkeypatch.setattr(torch, "load", no_pickles)
    return lambda kind: Path(shutil.copytree(make_model(kind), tmp_path / kind))


def read(folder: Path) -> Tensor:
    return HuggingFaceEncoder.load(folder, EncoderConfig(n_layers=1)).encode(EncoderInput([["ab", "c"]])).vectors


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def shard(folder: Path) -> dict[str, str]:
    """Divide the weights of an encoder among two files; the answer is their index."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, part in parts.items():
        save_file({name: weights[name] for name in part}, folder / file, {"format": "pt"})
    index = {name: file for file, part in parts.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return index


def test_numbers_after_a_header_without_padding_are_read_where_compiled_code_can_read_them(tmp_path: Path) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    path = tmp_path / "model.safetensors"
    for n_spaces in range(4):
        padded = header + b" " * n_spaces
        path.write_bytes(len(padded).to_bytes(8, "little") + padded + np.array([1, 2], "<f4").tobytes())
        values = read_tensors(path)["x"]
        assert values.tolist() == [1, 2]
        assert values.flags.aligned


@KINDS
def test_weights_in_numbers_that_are_not_read_are_refused(copy: Callable[[str], Path], kind: str) -> None:
    folder = copy(kind)
    weights = {name: values.to(torch.float8_e4m3fn) for name, values in load_file(folder / WEIGHTS).items()}
    save_file(weights, folder / WEIGHTS, {"format": "pt"})
    with pytest.raises(RelatumError, match=r"cannot be read .*found F8_E4M3 for"):
        read(folder)


@KINDS
def test_weights_in_several_files_are_read(make_model: MakeModel, copy: Callable[[str], Path], kind: str) -> None:
    folder = copy(kind)
    shard(folder)
    assert torch.equal(read(folder), read(make_model(kind)))


@KINDS
@pytest.mark.parametrize("place", ["model-3.bin", "../outside.safetensors", "{root}/outside.safetensors", "", 3, None])
def test_index_names_safetensors_of_the_folder_alone(
    copy: Callable[[str], Path], tmp_path: Path, kind: str, place: object
) -> None:
    folder, marker = copy(kind), tmp_path / "marker"
    index: dict[str, object] = {**shard(folder)}
    (folder / "model-3.bin").write_bytes(pickle.dumps(Bomb(marker)))
    (tmp_path / "outside.safetensors").write_bytes(pickle.dumps(Bomb(marker)))
    name = min(index)
    index[name] = place.format(root=tmp_path) if isinstance(place, str) else place
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    with pytest.raises(RelatumError, match=r"index\.json: found the file .* expected a safetensors file of the folder"):
        read(folder)
    assert not marker.exists()


@KINDS
def test_pickles_are_never_opened(copy: Callable[[str], Path], tmp_path: Path, kind: str) -> None:
    folder, marker = copy(kind), tmp_path / "marker"
    bomb = pickle.dumps(Bomb(marker))
    (folder / "pytorch_model.bin").write_bytes(bomb)
    (folder / "model.safetensors").write_bytes(bomb)
    with pytest.raises(RelatumError, match=r"model\.safetensors: the weights of the encoder cannot be read"):
        read(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(RelatumError, match=r"it has no model\.safetensors"):
        read(folder)
    edit(folder / "config.json", transformers_weights="pytorch_model.bin")
    with pytest.raises(RelatumError, match=r"it has no model\.safetensors"):
        read(folder)
    assert not marker.exists()


@KINDS
def test_adapters_that_lie_beside_an_encoder_change_nothing(
    make_model: MakeModel, copy: Callable[[str], Path], kind: str
) -> None:
    folder = copy(kind)
    before = files_hash(folder), weights_hash(folder)
    tuned = TunedEncoder.prepare(
        load_config(None, (f"encoder.name={folder}", "encoder.tuning=lora", "encoder.n_layers=1")), want_maps=True
    )
    for parameter in tuned.module.parameters():
        parameter.data += 0.5
    tuned.save_learned(folder, torch.float32)
    assert (folder / "adapter_config.json").exists()
    assert (files_hash(folder), weights_hash(folder)) == before
    assert torch.equal(read(folder), read(make_model(kind)))


@KINDS
def test_settings_cannot_have_code_fetched(
    make_model: MakeModel, copy: Callable[[str], Path], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_kernels(*_: object, **__: object) -> None:
        pytest.fail("a kernel was asked for")

    for name in ("load_and_register_attn_kernel", "get_kernel"):
        monkeypatch.setattr(transformers.integrations.hub_kernels, name, no_kernels)
    folder = copy(kind)
    kernel = "someone/evil-attention"
    edit(
        folder / "config.json",
        _attn_implementation=kernel,
        _attn_implementation_internal=kernel,
        attn_implementation=kernel,
        fusion_config={"patch_embeddings": True},
        to_dict=1,
        architectures=5,
    )
    assert torch.equal(read(folder), read(make_model(kind)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"quantization_config": {"quant_method": "gptq"}},
            "found quantization_config; expected an encoder with plain",
        ),
        ({"model_type": "detr"}, "expected one that is only an encoder of text"),
        ({"model_type": "nonsense"}, "found the model_type 'nonsense'"),
        ({"model_type": None}, "found the model_type None"),
        ({"model_type": ["mpnet"]}, "found the model_type"),
        ({"num_hidden_layers": 10**6}, "found 1000000 for num_hidden_layers, expected a number from 1 to 1,000"),
        ({"num_hidden_layers": -1}, "found -1 for num_hidden_layers"),
        ({"hidden_size": 10**12}, "found 1000000000000 for hidden_size"),
        ({"hidden_size": "wide"}, "mpnet"),
        ({"num_attention_heads": 7}, "the encoder cannot"),
        ({"hidden_act": "os.system"}, "the encoder cannot"),
        ({"hidden_size": 2**16}, "a network that is much larger than the weights"),
        ({"model_type": "albert", "inner_group_num": 10**6}, "a network that is much larger than the weights"),
        ({"model_type": "longformer", "attention_window": 10**9}, "found 1000000000 for attention_window"),
    ],
    ids=str,
)
def test_settings_that_no_encoder_has_are_refused(
    copy: Callable[[str], Path], settings: dict[str, object], message: str
) -> None:
    folder = copy("mpnet")
    edit(folder / "config.json", **settings)
    with pytest.raises(RelatumError, match=message):
        read(folder)


def test_number_of_labels_takes_no_memory(copy: Callable[[str], Path]) -> None:
    folder = copy("mpnet")
    before = read(folder)
    edit(folder / "config.json", num_labels=10**9)
    assert torch.equal(read(folder), before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_hidden_layers": 10**6}, "found 1000000 layers, but the weights have 3"),
        ({"num_hidden_layers": 0}, "found 0 for n_layers"),
        ({"num_attention_heads": 0}, "found 0 for n_attention_heads"),
        ({"num_attention_heads": 5}, "found a width of 16 for 5 attention heads"),
        ({"type_vocab_size": 0}, "found 0 for n_segments"),
        ({"vocab_size": 10**6}, "has the shape"),
        ({"vocab_size": 10**30}, "for n_pieces of the encoder, expected 1 to 16,777,216"),
        ({"hidden_size": 10**12}, "for width of the encoder"),
        ({"max_position_embeddings": True}, "found True for n_positions"),
    ],
    ids=str,
)
def test_settings_that_no_bert_has_are_refused(
    copy: Callable[[str], Path], settings: dict[str, object], message: str
) -> None:
    folder = copy("bert")
    edit(folder / "config.json", **settings)
    with pytest.raises(RelatumError, match=message):
        read(folder)


@KINDS
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("device", [False, True], ids=["pipe", "device"])
def test_files_that_never_end_are_refused(copy: Callable[[str], Path], kind: str, name: str, device: bool) -> None:
    folder = copy(kind)
    (folder / name).unlink()
    if device:
        (folder / name).symlink_to("/dev/zero")
    else:
        os.mkfifo(folder / name)
    with pytest.raises(RelatumError, match=f"{name}: found a pipe, a device"):
        read(folder)
    if name == "model.safetensors":
        with pytest.raises(RelatumError, match=f"{name}: found a pipe, a device"):
            files_hash(folder)


@KINDS
@pytest.mark.parametrize("content", [b"[]", b"3", b"\xff", b"[" * 100_000, b'{"model_type": NaN}'])
def test_settings_that_are_no_settings_are_refused(copy: Callable[[str], Path], kind: str, content: bytes) -> None:
    folder = copy(kind)
    (folder / "config.json").write_bytes(content)
    with pytest.raises(RelatumError, match=r"config\.json"):
        read(folder)


def test_tokenizer_is_made_of_the_files_that_are_hashed(make_model: MakeModel, copy: Callable[[str], Path]) -> None:
    folder = copy("bert")
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    before = files_hash(folder)
    assert torch.equal(read(folder), read(make_model("bert")))
    (folder / "added_tokens.json").write_text(json.dumps({"ab": 5}))
    assert files_hash(folder) != before


@pytest.mark.parametrize(
    "processor",
    [
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}], "pair": []},
        {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": "x"},
    ],
)
def test_tokenizer_that_cannot_cut_a_word_is_refused(copy: Callable[[str], Path], processor: dict[str, object]) -> None:
    folder = copy("bert")
    edit(folder / "tokenizer.json", post_processor={**processor, "special_tokens": {}})
    with pytest.raises(RelatumError, match="the tokenizer cannot be read"):
        read(folder)


def test_tokenizer_with_a_huge_piece_number_is_refused(copy: Callable[[str], Path]) -> None:
    folder = copy("bert")
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    edit(folder / "tokenizer.json", model={**model, "vocab": {**model["vocab"], "far": 10**9}})
    with pytest.raises(RelatumError, match="found the piece number 1000000000, expected at most 16,777,216"):
        read(folder)
