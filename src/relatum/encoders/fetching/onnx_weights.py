"""The weights in an ONNX file, under the names that they had in torch.

The file is parsed and never run. Linear layers are transposed in such files and their weights have lost their names.
The graph tells the names: the bias that is added to a product has kept its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from relatum.errors import MissingExtraError, RelatumError

if TYPE_CHECKING:  # an extra
    from onnx import GraphProto, NodeProto

Array = NDArray[Any]

_ROUNDING = ("QuantizeLinear", "DequantizeLinear", "Cast", "Mul")
"""Operations between a product and its bias that only quantise or rescale; they are skipped."""
_QUANTIZED = "_quantized"


def require_onnx() -> None:
    """Raise an error with the cure if the onnx library is missing."""
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("reading an encoder from an ONNX file", "fetch") from error


def read_weights(content: bytes) -> dict[str, Array]:
    """Return the weights of an ONNX file by their names in torch, in float32 and with the shapes of torch."""
    graph = _parse(content)
    constants = _constants(graph)
    weights = {name: value for name, value in constants.items() if value.dtype == np.float32}
    names = {name: name for name in weights}
    for node in graph.node:
        for value in _quantized_inputs(node, constants):
            weights[value] = _dequantise_by_name(value, constants)
            names[value] = value.removesuffix(_QUANTIZED)
        if node.op_type == "DequantizeLinear" and node.input[0] in constants:
            weights[node.output[0]] = _dequantise(constants, *node.input)
            names[node.output[0]] = node.input[0].removesuffix(_QUANTIZED)
    named = {names[name]: value for name, value in weights.items()}
    named = {name: value for name, value in named.items() if name.endswith((".weight", ".bias"))}
    readers = _readers(graph)
    for node in graph.node:
        if node.op_type in ("MatMul", "MatMulInteger") and node.input[1] in weights:
            bias = _find_bias(node.output[0], readers, constants)
            named[bias.removesuffix("bias") + "weight"] = weights[node.input[1]].T
    return {name: np.ascontiguousarray(named[name]) for name in sorted(named)}


def _parse(content: bytes) -> GraphProto:
    require_onnx()
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load_model_from_string(content).graph
    except DecodeError as error:
        raise RelatumError(f"the ONNX file cannot be read ({error}); is it whole?") from error
    if not graph.initializer:
        raise RelatumError("the ONNX file cannot be read (it has no weights); is it whole?")
    return graph


def _constants(graph: GraphProto) -> dict[str, Array]:
    from onnx import TensorProto, numpy_helper

    for tensor in graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            raise RelatumError(f"the ONNX file cannot be read ({tensor.name} is kept in another file)")
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


def _readers(graph: GraphProto) -> dict[str, list[NodeProto]]:
    """Return the operations that read each value."""
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    return readers


def _find_bias(product: str, readers: dict[str, list[NodeProto]], constants: dict[str, Array]) -> str:
    """Return the name of the bias that is added to a product."""
    name = product
    while len(readers.get(name, ())) == 1:
        (node,) = readers[name]
        biases: list[str] = [other for other in node.input if other in constants and other.endswith(".bias")]
        if node.op_type == "Add" and len(biases) == 1:
            return biases[0]
        if node.op_type not in _ROUNDING:
            break
        name = node.output[0]
    raise RelatumError(f"the ONNX file adds no bias to the product {product!r}, which therefore has no name")


def _quantized_inputs(node: NodeProto, constants: dict[str, Array]) -> list[str]:
    """Return the integer weights that an operation reads directly, as after dynamic quantisation."""
    if node.op_type not in ("Gather", "MatMulInteger"):
        return []
    return [name for name in node.input if name.endswith(_QUANTIZED) and name in constants]


def _dequantise_by_name(name: str, constants: dict[str, Array]) -> Array:
    """Dequantise a constant whose scale and zero point are constants named after it."""
    stem = name.removesuffix(_QUANTIZED)
    if f"{stem}_scale" not in constants:
        raise RelatumError(f"the ONNX file has no scale {stem + '_scale'!r} for the weight {name!r}")
    zero = f"{stem}_zero_point"
    return _dequantise(constants, name, f"{stem}_scale", zero if zero in constants else None)


def _dequantise(constants: dict[str, Array], values: str, scale: str, zero: str | None = None) -> Array:
    """Turn integers into float32 by one scale and one zero point for the whole tensor."""
    factor = constants[scale]
    point = np.zeros(1, np.int32) if zero is None else constants[zero].astype(np.int32)
    if factor.size != 1 or point.size != 1:
        raise RelatumError(f"the ONNX file has several scales in {values!r}; only one for all is understood")
    shifted = constants[values].astype(np.int32) - point.reshape(())
    result: Array = shifted.astype(np.float32) * factor.astype(np.float32).reshape(())
    return result
