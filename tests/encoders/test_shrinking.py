from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file

from relatum.config import EncoderConfig
from relatum.encoders.base import EncoderInput
from relatum.encoders.huggingface import HuggingFaceEncoder

_SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "shrink_encoder.py"


def test_shrunk_encoder_is_half_as_large_and_says_the_same(make_model: Callable[[str], Path], tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("shrink_encoder", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.shrink(make_model("bert"), tmp_path / "small")
    weights = load_file(tmp_path / "small" / "model.safetensors")
    assert {value.dtype for value in weights.values()} == {torch.float16}
    original = load_file(make_model("bert") / "model.safetensors")
    assert {name for name in original if "pooler" not in name} == weights.keys()
    config, words = EncoderConfig(n_layers=1), [["ab", "c"]]
    small = HuggingFaceEncoder.load(tmp_path / "small", config).encode(EncoderInput(words))
    full = HuggingFaceEncoder.load(make_model("bert"), config).encode(EncoderInput(words))
    torch.testing.assert_close(small.vectors, full.vectors, rtol=0.02, atol=0.02)
