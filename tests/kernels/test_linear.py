"""Products of two parts each: as exact as they are said to be, whatever the shape, and not silently left out.

The matrix unit is in plain loops here; nothing else is different from what runs on it.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, linear

from relatum.errors import RelatumError
from relatum.kernels import compile as compiling
from relatum.kernels.compile import AMX, VARIANTS, Source, can_load, compile_source, find_compiler, load
from relatum.kernels.linear import cpu
from relatum.kernels.linear.cpu import SOURCE, is_available, multiply, pack
from relatum.kernels.systems import SYSTEMS

EMULATED = replace(SOURCE, flags=("-O1", "-DRELATUM_EMULATE_TILES"), needs=frozenset())
SOURCES = {"emulated": EMULATED, "here": SOURCE}

pytestmark = pytest.mark.skipif(not can_load(EMULATED)[0], reason=can_load(EMULATED)[1])


@pytest.fixture
def fresh_answers() -> Iterator[None]:
    """What was found out about this machine counts neither in the test nor after it."""
    is_available.cache_clear()
    cpu._library.cache_clear()
    yield
    is_available.cache_clear()
    cpu._library.cache_clear()


def make_layer(n_rows: int, n_inputs: int, n_outputs: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n_rows + n_inputs + n_outputs)
    values = torch.randn(n_rows, n_inputs, generator=generator)
    weight = torch.randn(n_outputs, n_inputs, generator=generator) / n_inputs**0.5
    return values, weight, torch.randn(n_outputs, generator=generator)


def relative_error(found: Tensor, exact: Tensor) -> float:
    return float((found - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("activates", [False, True])
@pytest.mark.parametrize("where", SOURCES)
@pytest.mark.parametrize(
    ("n_rows", "n_inputs", "n_outputs"),
    [
        (1, 32, 16),
        (1, 384, 384),
        (16, 64, 48),
        (17, 384, 32),
        (35, 384, 1152),
        (35, 1536, 384),
        (181, 1536, 32),  # rows that do not all fit into the cache at once
        (7, 20, 5),  # nothing is whole tiles
        (33, 33, 33),
    ],
)
def test_products_have_nearly_all_bits(n_rows: int, n_inputs: int, n_outputs: int, where: str, activates: bool) -> None:
    source = SOURCES[where]
    if not can_load(source)[0]:
        pytest.skip(can_load(source)[1])
    values, weight, bias = make_layer(n_rows, n_inputs, n_outputs)
    packed = pack(weight)
    for added in (bias, None):
        wide = None if added is None else added.double()
        exact = linear(values.double(), weight.double(), wide)
        rounded = linear(values.bfloat16().double(), weight.bfloat16().double(), wide)
        found = multiply(values, packed, added, activates, source)
        if activates:
            exact, rounded = gelu(exact), gelu(rounded)
        assert found.dtype == torch.float32
        assert found.shape == (n_rows, n_outputs)
        assert relative_error(found, exact) < 2e-5
        assert relative_error(found, exact) < relative_error(rounded, exact) / 50


def test_gelu_is_as_exact_as_that_of_torch() -> None:
    # Values of bfloat16 pass through the product of an identity unchanged.
    values = torch.linspace(-20, 20, 4096).bfloat16().float().view(-1, 32)
    found = multiply(values, pack(torch.eye(32)), None, True, EMULATED)
    exact = gelu(values.double())
    assert (found - exact).abs().max() <= (gelu(values) - exact).abs().max()
    assert (found[values < -6].abs() < 1e-7).all()


def test_low_parts_count_where_high_ones_cancel() -> None:
    values = torch.tensor([[1.0, 1.0] + [0.0] * 30])
    weight = torch.zeros(16, 32)
    weight[:, 0], weight[:, 1] = 1 + 2.0**-12, -1
    assert torch.equal(multiply(values, pack(weight), None, source=EMULATED), torch.full((1, 16), 2.0**-12))
    values[0, 0], weight[:, 0] = 1 + 2.0**-12, 1
    assert torch.equal(multiply(values, pack(weight), None, source=EMULATED), torch.full((1, 16), 2.0**-12))


def test_number_of_threads_changes_nothing() -> None:
    values, weight, bias = make_layer(37, 96, 176)
    before = torch.get_num_threads()
    found = []
    try:
        for n_threads in (1, 2, 3, 8):
            torch.set_num_threads(n_threads)
            found.append(multiply(values, pack(weight), bias, True, EMULATED))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, found[0]) for one in found)


def test_values_of_any_shape_and_order_are_read_right() -> None:
    values, weight, bias = make_layer(12, 64, 32)
    packed = pack(weight)
    expected = multiply(values, packed, bias, source=EMULATED)
    assert torch.equal(multiply(values.view(3, 4, 64), packed, bias, source=EMULATED), expected.view(3, 4, 32))
    assert torch.equal(multiply(values.T.contiguous().T, packed, bias, source=EMULATED), expected)
    assert torch.equal(multiply(values, pack(weight.T.contiguous().T), bias, source=EMULATED), expected)
    assert multiply(values[:0], packed, bias, source=EMULATED).shape == (0, 32)


def test_what_does_not_fit_is_refused() -> None:
    values, weight, bias = make_layer(2, 64, 32)
    packed = pack(weight)
    with pytest.raises(RelatumError, match="32 inputs and a bias of 32: the weights were packed for 64 inputs"):
        multiply(values[:, :32], packed, bias, source=EMULATED)
    with pytest.raises(RelatumError, match=r"a bias of 31: .* and 32 outputs"):
        multiply(values, packed, bias[1:], source=EMULATED)
    with pytest.raises(RelatumError, match="values of float32"):
        multiply(values.double(), packed, bias, source=EMULATED)
    with pytest.raises(RelatumError, match="bfloat16 on cpu cannot be packed"):
        pack(weight.bfloat16())


@pytest.mark.usefixtures("fresh_answers")
def test_cpu_without_the_unit_is_left_alone(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for module in (compiling, cpu):
        monkeypatch.setattr(module, "cpu_flags", lambda: VARIANTS["x86-64-v4"].needs)
    assert not is_available()
    assert not caplog.messages
    assert can_load(SOURCE) == (False, "it needs a CPU with amx_bf16, amx_tile, avx512_bf16")


@pytest.mark.usefixtures("fresh_answers")
def test_unit_without_a_compiler_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (compiling, cpu):
        monkeypatch.setattr(module, "cpu_flags", lambda: VARIANTS["x86-64-v4-amx"].needs)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with caplog.at_level(logging.WARNING):
        assert not is_available()
        assert not is_available()
    (message,) = caplog.messages
    assert message.startswith("the encoder's products are computed in float32, which is slower: linear.cpp cannot run")
    assert "apt install g++" in message


@pytest.mark.usefixtures("fresh_answers")
def test_unit_that_the_system_withholds_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    withheld = replace(SOURCE, flags=("-O0",), needs=frozenset())
    older = SYSTEMS["Linux"]._replace(native={"x86_64": ("-march=x86-64-v3",)})
    monkeypatch.setattr(compiling, "this_system", lambda: older)
    assert not is_available(withheld)
    assert "does not let this process use the CPU's matrix unit" in caplog.text


@pytest.mark.parametrize("variant", [name for name, kind in VARIANTS.items() if kind.needs >= AMX])
def test_code_for_the_unit_compiles_without_a_warning(variant: str, tmp_path: Path) -> None:
    compiler = find_compiler()
    assert compiler is not None
    strict = replace(SOURCE, flags=("-Wall", "-Wextra", "-Werror"))
    compile_source(strict, compiler, VARIANTS[variant].flags, tmp_path / "linear.so")
    assert (tmp_path / "linear.so").stat().st_size > 0


def test_headers_that_are_shared_count_as_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELATUM_CACHE", str(tmp_path / "cache"))
    own, shared = tmp_path / "own", tmp_path / "shared"
    own.mkdir()
    shared.mkdir()
    (own / "answer.cpp").write_text(
        '#include "number.h"\nextern "C" int answer() { return number; }\n', encoding="utf-8"
    )
    for number in (42, 43):
        (shared / "number.h").write_text(f"constexpr int number = {number};\n", encoding="utf-8")
        assert load(Source(own, "answer.cpp", shared=(shared,))).answer() == number
