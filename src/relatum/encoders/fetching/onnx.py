"""The weights of a transformer out of an ONNX file.

The few fields of the format that are needed are read here, by hand: it is less than the `onnx` package asks for, and
nothing of a file can be run by it. Weights of linear layers are transposed in such files and have lost their names; the
graph says whose they are, since the bias that is added to a product has kept its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relatum.errors import RelatumError

Array = NDArray[Any]

_TYPES = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8"}
_SIZES = {1: 8, 5: 4}
"""The number of bytes of a field, for the kinds of protobuf fields that have a fixed size."""
_ROUNDING = ("QuantizeLinear", "DequantizeLinear", "Cast", "Mul")
"""Operations between a product and its bias that only quantise or rescale; they are skipped."""
_QUANTIZED = "_quantized"


@dataclass(frozen=True, slots=True)
class Node:
    """One operation of a graph: what it is, and the names of what it reads and makes."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """The operations of a model, and its constants by name."""

    nodes: tuple[Node, ...]
    constants: dict[str, Array]


def read_graph(content: bytes) -> Graph:
    """Read the graph of an ONNX file; the constants are views of the file's content."""
    try:
        (graph,) = (part for field, _, part in _fields(memoryview(content)) if field == 7)
        nodes = tuple(_node(part) for field, _, part in _fields(graph) if field == 1)
        return Graph(nodes, dict(_tensor(part) for field, _, part in _fields(graph) if field == 5))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise RelatumError(f"the ONNX file cannot be read ({error}); is it whole?") from error


def named_weights(graph: Graph) -> dict[str, Array]:
    """Return the weights of a graph by the names that they had in torch, in float32, linear layers as in torch."""
    known = {name: value for name, value in graph.constants.items() if value.dtype == np.float32}
    names = {name: name for name in known}
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
        if node.kind == "DequantizeLinear" and node.inputs[0] in graph.constants:
            known[node.outputs[0]] = _dequantise(graph.constants, *node.inputs)
            names[node.outputs[0]] = node.inputs[0].removesuffix(_QUANTIZED)
        if node.kind in ("Gather", "MatMulInteger"):  # dynamic quantisation: both read integers directly
            for name in node.inputs:
                if name.endswith(_QUANTIZED) and name in graph.constants:
                    known[name] = _dequantise_by_name(name, graph.constants)
                    names[name] = name.removesuffix(_QUANTIZED)
    found = {names[name]: value for name, value in known.items() if names[name].endswith((".weight", ".bias"))}
    for node in graph.nodes:
        if node.kind in ("MatMul", "MatMulInteger") and node.inputs[1] in known:
            bias = _bias(node.outputs[0], readers, graph.constants)
            found[bias.removesuffix("bias") + "weight"] = known[node.inputs[1]].T
    return {name: np.ascontiguousarray(found[name]) for name in sorted(found)}


def _bias(product: str, readers: dict[str, list[Node]], constants: dict[str, Array]) -> str:
    """Return the name of the bias that is added to a product."""
    name = product
    while len(readers.get(name, ())) == 1:
        (node,) = readers[name]
        biases = [other for other in node.inputs if other in constants and other.endswith(".bias")]
        if node.kind == "Add" and len(biases) == 1:
            return biases[0]
        if node.kind not in _ROUNDING:
            break
        name = node.outputs[0]
    raise RelatumError(f"the ONNX file adds no bias to the product {product!r}, which therefore has no name")


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


def _node(message: memoryview) -> Node:
    texts = [(field, str(part, "utf-8")) for field, _, part in _fields(message) if field in (1, 2, 4)]
    inputs, outputs, (kind,) = (tuple(text for field, text in texts if field == wanted) for wanted in (1, 2, 4))
    return Node(kind, inputs, outputs)


def _tensor(message: memoryview) -> tuple[str, Array]:
    name, kind, content = "", 0, memoryview(b"")
    shape: list[int] = []
    numbers: list[int] = []
    for field, number, part in _fields(message):
        if field in (1, 5, 7):  # one by one, or all packed into bytes
            (shape if field == 1 else numbers).extend(_varints(part) if part else [number])
        elif field == 2:
            kind = number
        elif field == 8:
            name = str(part, "utf-8")
        elif field in (4, 9):
            content = part
        elif field == 14 and number:
            raise ValueError(f"{name} is kept in another file")
    dtype = _TYPES.get(kind)
    if dtype is None:  # text, and other things that weights never are
        return name, np.empty(0, bool)
    if numbers:  # negative ones are written as if they had 64 bits and no sign
        return name, np.array(numbers, np.uint64).astype(np.int64).astype(dtype).reshape(shape)
    return name, np.frombuffer(content, dtype).reshape(shape)


def _fields(message: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Yield the fields of a protobuf message: field number, integer value (0 if none), and bytes (empty if none)."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, size = 0, _SIZES.get(key & 7, 0)
        if key & 7 == 2:
            size, at = _varint(message, at)
        elif not size:
            number, at = _varint(message, at)
        if key & 7 in (3, 4, 6, 7) or at + size > len(message):
            raise ValueError("its fields do not fit into each other")
        yield key >> 3, number, message[at : at + size]
        at += size


def _varints(message: memoryview) -> Iterator[int]:
    at = 0
    while at < len(message):
        number, at = _varint(message, at)
        yield number


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    number = 0
    for i in range(10):
        number |= (message[at + i] & 127) << 7 * i
        if message[at + i] < 128:
            return number, at + i + 1
    raise ValueError("it has a number of more than ten bytes")
