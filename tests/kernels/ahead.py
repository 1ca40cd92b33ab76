"""Compiles Triton kernels for a GPU that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def compile_ahead(
    source: Any,
    kernel: Any,
    constants: Mapping[str, Any],
    types: Mapping[str, str],
    other: str = "*bf16",
    capability: int = 90,
) -> Any:
    """Compile a kernel for a compute capability, with eight warps.

    `source` is the class of its language; arguments that are neither constants nor in `types` are `other`.
    """
    import triton
    from triton.backends.compiler import GPUTarget

    signature = {name: "constexpr" if name in constants else types.get(name, other) for name in kernel.arg_names}
    made = source(
        kernel,
        signature,
        {(number,): constants[name] for number, name in enumerate(kernel.arg_names) if name in constants},
        {(number,): [["tt.divisibility", 16]] for number, kind in enumerate(signature.values()) if kind[0] == "*"},
    )
    return triton.compile(made, target=GPUTarget("cuda", capability, 32), options={"num_warps": 8, "num_stages": 1})
