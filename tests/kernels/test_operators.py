"""The operators of torch around the scans: what the compiler, autograd and autocast expect of them."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from relatum.kernels.backend import use_backend
from relatum.kernels.md_gru import CellSpec, Direction, Weights, cpu, md_gru
from relatum.kernels.md_gru.fused import _padded_tables
from relatum.kernels.md_gru.spec import Form

if TYPE_CHECKING:  # a script below imports this file, where there is no package around it
    from ..prepared import Prepared

with_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
compiled = pytest.mark.skipif(not cpu.explain()[0], reason=cpu.explain()[1])
DIRECTIONS: tuple[Direction, ...] = ("nw", "se")
X, H = 5, 8
TWO = CellSpec(("up", "left"), ("up", "left"))


class TwoLayers(nn.Module):
    """Two layers with something of torch before, between and after them."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.spec, n = CellSpec(), len(DIRECTIONS)
        columns, rows = self.spec.n_parts * H, len(self.spec.slots) * H
        generator = torch.Generator().manual_seed(0)
        shapes = (n, X, columns), (n, columns), (n, rows, columns), (n, columns)
        self.first, self.second = (
            nn.ParameterList(0.3 * torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes)
            for _ in range(2)
        )

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        inputs = inputs.tanh()
        below = md_gru(inputs, None, mask, Weights(*self.first), DIRECTIONS, self.spec)
        above = md_gru(inputs * 2, below * 2, mask, Weights(*self.second), DIRECTIONS, self.spec)
        return (below + above).flatten(3)


def make_inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(3, 6, 6, X, generator=torch.Generator().manual_seed(1), dtype=dtype)
    return inputs.requires_grad_(), torch.arange(6) < torch.tensor([6, 1, 4]).unsqueeze(1)


def results(states: Tensor, model: TwoLayers, inputs: Tensor) -> list[Tensor]:
    """The states, and the gradients of a weighted sum of them."""
    noise = torch.randn(states.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    total = (states * noise.to(states.dtype)).sum()
    return [states.detach(), *torch.autograd.grad(total, [inputs, *model.parameters()])]


@compiled
@pytest.mark.parametrize("spec", [CellSpec(), TWO], ids=["three", "two"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("keep", [True, False], ids=["training", "inference"])
def test_operator_of_the_cpu_is_what_torch_expects(spec: CellSpec, dtype: torch.dtype, keep: bool) -> None:
    inputs, mask = make_inputs(dtype)
    n, columns, rows = len(DIRECTIONS), spec.n_parts * H, len(spec.slots) * H
    shapes = (n, X, columns), (n, columns), (n, rows, columns), (n, columns)
    below = torch.randn(inputs[..., 0].numel(), n, H, dtype=dtype) if "below" in spec.read else None
    given = [inputs.detach().reshape(-1, X), below, *(0.3 * torch.randn(shape, dtype=dtype) for shape in shapes)]
    if keep:
        given = [None if one is None else one.requires_grad_() for one in given]
    rest = _padded_tables(mask), mask.shape[1], Form(spec, DIRECTIONS).to_text(), "cpu", keep
    torch.library.opcheck(torch.ops.relatum.md_gru.default, (*given, *rest))


def run_interpreted(interpreter: Prepared, script: str, expected: int) -> None:
    """Run checks in a process in which Triton interprets its kernels; there must be so many of them."""
    said = interpreter.run(script)
    assert said.count("checked") == expected, said


@with_triton
def test_operator_of_triton_is_what_torch_expects(interpreter: Prepared) -> None:
    run_interpreted(
        interpreter,
        """
import torch
from relatum.kernels.backend import use_backend
from relatum.kernels.md_gru import CellSpec, Weights, md_gru

torch.set_num_threads(1)
torch.empty_like = torch.zeros_like  # gates outside the tables may be anything, but are compared
operator = torch.ops.relatum.md_gru_triton.default
seen = []

class Record(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, called, types, args=(), kwargs=None):
        if called is operator:
            seen.append(args)
        return called(*args, **(kwargs or {}))

def random(*shape):
    return torch.randn(shape)

neighbours = ("up", "left")
for spec, width, directions in ((CellSpec(), 3, ("nw", "se")), (CellSpec(neighbours, neighbours), 17, ("sw",))):
    n, columns = len(directions), spec.n_parts * width
    weights = random(n, 5, columns), random(n, columns), random(n, len(spec.slots) * width, columns), random(n, columns)
    mask = torch.tensor([[True, True], [True, False]])
    for keep in (True, False):
        with use_backend("triton"), torch.set_grad_enabled(keep), Record():
            md_gru(random(2, 2, 2, 5), random(2, 2, 2, n, width), mask, Weights(*weights), directions, spec)
        cells, joined, recurrent, *rest = seen.pop()
        given = [one.detach().requires_grad_(keep) for one in (cells, joined, recurrent)]
        torch.library.opcheck(operator, (*given, *rest))
        print("checked")
""",
        expected=4,
    )


@with_triton
def test_compiler_traces_through_the_operator_of_triton(interpreter: Prepared) -> None:
    """Without a warning: it must not take what is looked up for something to compute at every call."""
    run_interpreted(
        interpreter,
        """
import warnings
import torch
from relatum.kernels.backend import use_backend
from test_operators import TwoLayers, make_inputs, results

torch.set_num_threads(1)
inputs, mask = make_inputs(torch.float32)
inputs, mask, model = inputs[:2, :2, :2].detach().requires_grad_(), mask[:2, :2], TwoLayers(torch.float32)
warnings.simplefilter("error", UserWarning)
with use_backend("triton"):
    expected = results(model(inputs, mask), model, inputs)
    found = results(torch.compile(model, backend="aot_eager", fullgraph=True)(inputs, mask), model, inputs)
for one, wanted in zip(found, expected, strict=True):
    torch.testing.assert_close(one, wanted, rtol=0, atol=1e-6)
    print("checked")
""",
        expected=10,
    )


@compiled
def test_compiler_traces_through_the_whole_and_gives_the_same() -> None:
    model, (inputs, mask) = TwoLayers(), make_inputs()
    torch._dynamo.reset()
    traced = torch.compile(model, backend="aot_eager", fullgraph=True)
    with use_backend("cpu"):
        expected = results(model(inputs, mask), model, inputs)
        found = results(traced(inputs, mask), model, inputs)
    for one, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(one, wanted, rtol=1e-12, atol=1e-13)


@compiled
def test_compiler_traces_other_shapes_and_inference() -> None:
    model, (inputs, mask) = TwoLayers(), make_inputs()
    torch._dynamo.reset()
    traced = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
    for n_words in (6, 5, 3):
        own = inputs[:, :n_words, :n_words].detach(), mask[:, :n_words]
        with torch.no_grad(), use_backend("cpu"):
            torch.testing.assert_close(traced(*own), model(*own), rtol=1e-12, atol=1e-13)


@compiled
def test_autocast_computes_in_its_type_and_gives_gradients_in_that_of_the_parameters() -> None:
    """Its errors are at most twice those of the plain wavefront under the same autocast."""
    errors = {}
    model, (inputs, mask) = TwoLayers(torch.float32), make_inputs(torch.float32)
    exact_model, (exact_inputs, _) = TwoLayers(), make_inputs()
    exact_model.load_state_dict(model.state_dict())
    exact_inputs = inputs.detach().double().requires_grad_()
    exact = results(exact_model(exact_inputs, mask), exact_model, exact_inputs)
    for backend in ("cpu", "wavefront"):
        with use_backend(backend), torch.autocast("cpu", torch.bfloat16):
            states = model(inputs, mask)
        assert states.dtype == torch.bfloat16
        found = results(states, model, inputs)
        assert all(grad.dtype == torch.float32 for grad in found[1:])
        pairs = zip(found, exact, strict=True)
        errors[backend] = [(one.double() - wanted).square().mean().sqrt().item() for one, wanted in pairs]
    for own, plain in zip(errors["cpu"], errors["wavefront"], strict=True):
        assert 0 < own <= 2 * plain


@compiled
def test_autocast_is_the_same_as_giving_its_type() -> None:
    model, (inputs, mask) = TwoLayers(torch.float32), make_inputs(torch.float32)
    weights, to = Weights(*model.first), torch.bfloat16
    with use_backend("cpu"):
        with torch.autocast("cpu", to):
            found = md_gru(inputs, None, mask, weights, DIRECTIONS, CellSpec())
        expected = md_gru(inputs.to(to), None, mask, weights, DIRECTIONS, CellSpec())
    assert torch.equal(found, expected)


@compiled
def test_gradient_that_nobody_asked_for_is_not_computed() -> None:
    model, (inputs, mask) = TwoLayers(), make_inputs()
    states = model(inputs.detach(), mask)
    expected = results(model(inputs, mask), model, inputs)[2:]
    noise = torch.randn(states.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found = torch.autograd.grad((states * noise).sum(), list(model.parameters()))
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


@with_triton
def test_states_that_programs_wait_for_have_all_bits_set_and_the_rest_is_zero(interpreter: Prepared) -> None:
    run_interpreted(
        interpreter,
        """
import torch
from relatum.kernels.md_gru import triton_launch

mask = torch.tensor([[True, True, True], [True, False, False]])
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    projected = torch.empty(2 * 9 + 1, 2, 5 * 8, dtype=dtype)
    states, lengths = triton_launch._unwritten(projected, mask, 5, 5, cooperates=True)
    assert lengths.tolist() == [3, 1]
    assert (states.shape, states.dtype) == ((19, 2, 16), dtype)
    bits = states.view(torch.int32 if dtype == torch.float32 else torch.int16)
    expected = torch.zeros_like(bits)
    expected[:9, :, :5] = -1
    expected[9, :, :5] = -1  # the one cell of the second sentence
    assert torch.equal(bits, expected)
    assert states[:9, :, :5].isnan().all()
    assert not triton_launch._unwritten(projected, mask, 5, 5, cooperates=False)[0].any()
    print("checked")
""",
        expected=3,
    )
