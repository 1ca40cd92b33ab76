from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto
from safetensors.numpy import load_file

from relatum.encoders.fetching.onnx_weights import read_weights
from relatum.errors import RelatumError

Array = NDArray[Any]


class Writer(Protocol):
    constants: list[TensorProto]

    def add_constant(self, name: str, value: Array, typed: bool = False) -> str: ...
    def add_node(self, kind: str, inputs: list[str], output: str) -> str: ...
    def to_bytes(self) -> bytes: ...


def is_linear(name: str, value: Array) -> bool:
    return value.ndim == 2 and name.endswith(".weight") and "embeddings" not in name


def bert_weights(make_model: Callable[[str], Path]) -> dict[str, Array]:
    return dict(load_file(make_model("bert") / "model.safetensors"))


def test_read_weights_finds_the_names_of_linear_layers_in_the_graph(
    make_model: Callable[[str], Path], onnx_file: Writer
) -> None:
    stored = bert_weights(make_model)
    linear = [name for name in stored if is_linear(name, stored[name])]
    assert len(linear) == 3 * 6 + 1, "four of a layer have the same shape"
    random.Random(3).shuffle(linear)
    for i, name in enumerate(linear):
        product = onnx_file.add_node(
            "MatMul", [f"input {i}", onnx_file.add_constant(f"onnx::MatMul_{i}", stored[name].T)], f"product {i}"
        )
        bias = name.removesuffix("weight") + "bias"
        onnx_file.add_node("Add", [bias, product] if i % 2 else [product, bias], f"sum {i}")
    for name, value in stored.items():
        if name not in linear:
            onnx_file.add_constant(name, value)
    onnx_file.add_constant("onnx::Div_7", np.array(8, dtype=np.float32), typed=True)
    onnx_file.add_constant("onnx::Slice_8", np.array([1, -1], dtype=np.int64), typed=True)
    onnx_file.add_node("MatMul", ["sum 0", "sum 1"], "attention")
    random.Random(4).shuffle(onnx_file.constants)

    found = read_weights(onnx_file.to_bytes())
    assert list(found) == sorted(stored)
    for name, value in stored.items():
        assert found[name].dtype == np.float32
        assert found[name].flags.c_contiguous
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("zero", [-3, 0, 5, None])
@pytest.mark.parametrize("typed", [False, True])
def test_read_weights_widens_whole_numbers_by_scale_and_zero_point(
    onnx_file: Writer, zero: int | None, typed: bool
) -> None:
    numbers = np.array([[-128, -3, 0], [1, 5, 127]], dtype=np.int8)
    scale = np.float32(0.037)

    def add(name: str) -> str:
        inputs = [
            onnx_file.add_constant(f"{name}_quantized", numbers),
            onnx_file.add_constant(f"{name}_scale", np.array(scale), typed),
        ]
        if zero is not None:
            inputs.append(onnx_file.add_constant(f"{name}_zero_point", np.array(zero, dtype=np.int8), typed))
        return onnx_file.add_node("DequantizeLinear", inputs, f"{name}_DequantizeLinear_Output")

    add("embeddings.weight")
    onnx_file.add_constant("layer.bias", np.ones(3, dtype=np.float32))
    product = onnx_file.add_node("MatMul", ["x", add("onnx::MatMul_3")], "product")
    rounded = onnx_file.add_node("QuantizeLinear", [product, "embeddings.weight_scale"], "rounded")
    widened = onnx_file.add_node("DequantizeLinear", [rounded, "embeddings.weight_scale"], "widened")
    onnx_file.add_node("Add", ["layer.bias", widened], "sum")

    expected = np.array(
        [[np.float32(int(n) - (zero or 0)) * scale for n in row] for row in numbers.tolist()], dtype=np.float32
    )
    found = read_weights(onnx_file.to_bytes())
    assert set(found) == {"embeddings.weight", "layer.weight", "layer.bias"}
    np.testing.assert_array_equal(found["embeddings.weight"], expected)
    np.testing.assert_array_equal(found["layer.weight"], expected.T)


def test_read_weights_reads_dynamic_quantisation(onnx_file: Writer) -> None:
    table = np.array([[0, 7, 255], [128, 1, 2]], dtype=np.uint8)
    weight = np.array([[-128, 3], [0, 127], [5, -6]], dtype=np.int8)
    for name, values, scale, zero in (
        ("embeddings.weight", table, 0.5, np.uint8(128)),
        ("onnx::MatMul_7", weight, 0.25, np.int8(-2)),
    ):
        onnx_file.add_constant(f"{name}_quantized", values)
        onnx_file.add_constant(f"{name}_scale", np.array(scale, dtype=np.float32))
        onnx_file.add_constant(f"{name}_zero_point", np.array(zero))
    onnx_file.add_constant("layer.bias", np.ones(2, dtype=np.float32))
    onnx_file.add_node("Gather", ["embeddings.weight_quantized", "ids"], "rows")
    inputs = ["rows_q", "onnx::MatMul_7_quantized", "rows_zero", "onnx::MatMul_7_zero_point"]
    product = onnx_file.add_node("MatMulInteger", inputs, "product")
    real = onnx_file.add_node("Cast", [product], "real")
    scaled = onnx_file.add_node("Mul", [real, "both_scales"], "scaled")
    onnx_file.add_node("Add", ["layer.bias", scaled], "sum")

    found = read_weights(onnx_file.to_bytes())
    assert set(found) == {"embeddings.weight", "layer.weight", "layer.bias"}
    np.testing.assert_array_equal(found["embeddings.weight"], np.array([[-64, -60.5, 63.5], [0, -63.5, -63]]))
    np.testing.assert_array_equal(found["layer.weight"], np.array([[-31.5, 0.5, 1.75], [1.25, 32.25, -1]]))


def test_read_weights_refuses_a_quantised_weight_without_a_scale(onnx_file: Writer) -> None:
    onnx_file.add_constant("a.weight_quantized", np.ones((2, 2), dtype=np.int8))
    onnx_file.add_node("Gather", ["a.weight_quantized", "ids"], "rows")
    with pytest.raises(RelatumError, match=r"no scale 'a\.weight_scale' for the weight 'a\.weight_quantized'"):
        read_weights(onnx_file.to_bytes())


def test_read_weights_refuses_several_scales(onnx_file: Writer) -> None:
    onnx_file.add_constant("a.weight_quantized", np.ones((2, 2), dtype=np.int8))
    onnx_file.add_constant("scales", np.ones(2, dtype=np.float32))
    onnx_file.add_node("DequantizeLinear", ["a.weight_quantized", "scales"], "a")
    with pytest.raises(RelatumError, match=r"several scales in 'a\.weight_quantized'"):
        read_weights(onnx_file.to_bytes())


@pytest.mark.parametrize("kind", ["Relu", "Add"])
def test_read_weights_refuses_a_product_without_a_bias(onnx_file: Writer, kind: str) -> None:
    onnx_file.add_constant("onnx::MatMul_1", np.ones((2, 2), dtype=np.float32))
    onnx_file.add_node("MatMul", ["x", "onnx::MatMul_1"], "the product")
    onnx_file.add_node(kind, ["the product", "residual"], "y")
    with pytest.raises(RelatumError, match="adds no bias to the product 'the product'"):
        read_weights(onnx_file.to_bytes())


def test_read_weights_refuses_a_file_that_is_not_whole(onnx_file: Writer) -> None:
    onnx_file.add_constant("a.weight", np.ones((20, 20), dtype=np.float32))
    content = onnx_file.to_bytes()
    read_weights(content)
    for broken in (content[:-100], content[:1], b"", b"\xff" * 30):
        with pytest.raises(RelatumError, match="the ONNX file cannot be read"):
            read_weights(broken)


def test_read_weights_refuses_weights_in_another_file(onnx_file: Writer) -> None:
    onnx_file.add_constant("a.weight", np.ones(1, dtype=np.float32))
    onnx_file.constants[0].data_location = TensorProto.EXTERNAL
    with pytest.raises(RelatumError, match=r"a\.weight is kept in another file"):
        read_weights(onnx_file.to_bytes())
